#!/usr/bin/python3
"""Usage: random_strings.py N SEED OUT.jsonl
N random Unicode strings of 0-80 code points, one JSON string a line, the same for the same N and SEED.
Only code points that Unicode 14 assigns (and no surrogates), so that engines of Unicode 14 or later agree on them."""
import json, random, sys, unicodedata

if unicodedata.unidata_version != '14.0.0':
    sys.exit('needs a Python with Unicode 14 (Python 3.11), this one has ' + unicodedata.unidata_version)

def span(a, b):                       # the assigned code points from a to b
    return [chr(c) for c in range(a, b + 1) if unicodedata.category(chr(c)) not in ('Cn', 'Cs')]

LATIN = span(0x41, 0x5A) + span(0x61, 0x7A) * 4 + span(0xC0, 0x24F) + span(0x1E00, 0x1EFF)
SCRIPTS = [LATIN, LATIN, span(0x400, 0x52F), span(0x370, 0x3FF), span(0x5D0, 0x5EA), span(0x600, 0x6FF), span(0x900, 0x97F),
           span(0x980, 0x9FF), span(0xE00, 0xE5B), span(0x10A0, 0x10FF), span(0x1100, 0x11FF), span(0x1200, 0x137F),
           span(0x3040, 0x30FF), span(0x3400, 0x4DBF) + span(0x4E00, 0x9FFF) * 4 + span(0x20000, 0x2A6DF), span(0xAC00, 0xD7A3),
           span(0x10400, 0x1044F), span(0x1E900, 0x1E95F), span(0x1D400, 0x1D7FF)]
CASED = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in ('Lt', 'Lm')] + list('ſKßŉʕIİıΣς')
MARKS = span(0x300, 0x36F) + span(0x1AB0, 0x1ACE) + span(0x20D0, 0x20F0) + span(0xFE00, 0xFE0F) + span(0x64B, 0x65F) + span(0x93A, 0x94F)
DIGITS = [list('0123456789'), span(0x660, 0x669), span(0x966, 0x96F), span(0xFF10, 0xFF19), span(0x1D7CE, 0x1D7FF),
          span(0x2150, 0x218B), list('²³¹¼½¾'), span(0x2460, 0x249B), list('〇一二三') + span(0x3021, 0x3029)]
SPACES = list('\t\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2009\u200a\u200b\u200c\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff')
BREAKS = ['\n', '\r', '\r\n', '\n\n', '\r\n\r\n', ' \n', '\n ', '\t\n', '\u3000\n', '\u2028\n']
CONTRACTIONS = [q + s for q in ("'", '’', '`', ' \'', "''") for s in 's S t T re RE Re ve VE m M ll LL lL d D ſ sa lx'.split()]
PUNCTUATION = span(0x21, 0x2F) + span(0x3A, 0x40) + span(0x5B, 0x60) + span(0x7B, 0x7E)
SYMBOLS = PUNCTUATION * 3 + span(0xA1, 0xBF) + span(0x2010, 0x2027) + span(0x2030, 0x205E) + span(0x20A0, 0x20C0) + span(0x2190, 0x21FF) + span(0x3001, 0x301F) + span(0xFF01, 0xFF0F)
CONTROLS = span(0x00, 0x1F) + span(0x7F, 0x9F) + span(0xE000, 0xE010) + ['\u00ad', '\u061c', '\u202e', '\u2066', '\ufffd', '\U000e0001', '\U0010fffd']
EMOJI = span(0x1F300, 0x1F64F) + span(0x1F900, 0x1F9FF)
TONES, FLAGS = span(0x1F3FB, 0x1F3FF), span(0x1F1E6, 0x1F1FF)
ANY = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ('Cn', 'Cs', 'Co')]

def piece(r):
    """A short random run of one kind."""
    kind = r.randrange(16)
    some = lambda pool, most: ''.join(r.choice(pool) for _ in range(r.randint(1, most)))
    if kind < 4:
        word = some(r.choice(SCRIPTS), 8)
        return r.choice((word, ' ' + word, word.upper(), word.title() if r.random() < .5 else ' ' + word, word + r.choice(CONTRACTIONS)))
    if kind == 4: return some(r.choice(DIGITS), 6)
    if kind == 5: return ' ' * r.randint(1, 6)
    if kind == 6: return some(SPACES, 3)
    if kind == 7: return some(BREAKS, 2)
    if kind == 8: return r.choice(CONTRACTIONS)
    if kind == 9: return r.choice((r.choice(PUNCTUATION) * r.randint(1, 8), some(PUNCTUATION, 5), some(SYMBOLS, 4), ' ' + some(PUNCTUATION, 3)))
    if kind == 10: return r.choice(r.choice(SCRIPTS)) + some(MARKS, 4)
    if kind == 11: return some(CONTROLS, 2)
    if kind == 12:
        return r.choice((r.choice(EMOJI) + r.choice(TONES), '\u200d'.join(r.choice(EMOJI) for _ in range(r.randint(2, 4))),
                         r.choice(EMOJI) + '\ufe0f', some(FLAGS, 4), '\u2764\ufe0f\u200d\U0001f525', r.choice('0123456789#*') + '\ufe0f\u20e3'))
    if kind == 13: return some(CASED, 3)
    if kind == 14: return some(ANY, 4)
    return r.choice(('http://a.b/c?d=e&f=1', '\t\tif (x == 0) {\n', 'a_b.c->d', '1,234.56e-7', '<|endoftext|>', 'camelCaseWord', 'XMLHttpRequest', '/*//*/\n', '...\n\n', 'İi̇ıI'))

def text(r):
    want, out = r.randint(0, 80), ''
    while len(out) < want:
        out += piece(r)
    out = out[:want]
    assert all(unicodedata.category(c) not in ('Cn', 'Cs') for c in out)   # upper() and title() stay inside too
    return out

count, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
r = random.Random(seed)
with open(path, 'w', encoding='ascii') as out:                              # JSON escapes all but ASCII
    for _ in range(count):
        out.write(json.dumps(text(r)) + '\n')
