// Usage: node make_tokenizer_json.mjs ENC OUT.json      (ENC: gpt2, cl100k_base, o200k_base, ...)
// Turns the ranks of a tiktoken encoding (npm package "tiktoken") into a Hugging Face tokenizer.json.
import fs from 'fs';
import { createRequire } from 'module';
const require = createRequire(import.meta.url);
const [enc, out] = process.argv.slice(2);
const src = require(`tiktoken/encoders/${enc}.json`);

// Ranks: lines of "! FIRST_RANK base64 base64 ...". A token is held as a string of chars 0..255 (one per byte).
const rank = new Map();
for (const line of src.bpe_ranks.split('\n')) {
  const [, first, ...toks] = line.trim().split(' ');
  toks.forEach((t, i) => rank.set(Buffer.from(t, 'base64').toString('latin1'), Number(first) + i));
}

// Byte-level alphabet: the bytes that print (33-126, 161-172, 174-255) stand for themselves,
// the other 68, in ascending order, become U+0100, U+0101, ...
const alphabet = [];
for (let b = 0, next = 256; b < 256; ++b)
  alphabet[b] = String.fromCharCode((b > 32 && b < 127) || (b > 160 && b !== 173) ? b : next++);
const show = (bytes) => Array.from(bytes, (c) => alphabet[c.charCodeAt(0)]).join('');

// The last merge of a token: run BPE on its bytes with only the ranks below its own; two parts must remain.
function lastMerge(token, limit) {
  const parts = Array.from(token);
  while (parts.length > 2) {
    let best = limit, at = -1;
    for (let i = 0; i + 1 < parts.length; ++i) {
      const r = rank.get(parts[i] + parts[i + 1]);
      if (r !== undefined && r < best) { best = r; at = i; }     // strict: the leftmost of equals
    }
    if (at < 0) return null;
    parts.splice(at, 2, parts[at] + parts[at + 1]);
  }
  return parts;
}

const vocab = {}, merges = [];
let stuck = 0;
for (const [token, r] of [...rank].sort((a, b) => a[1] - b[1])) {   // merges in the order of the ranks
  vocab[show(token)] = r;
  if (token.length < 2) continue;
  const pair = lastMerge(token, r);
  if (pair) merges.push(pair.map(show)); else ++stuck;
}
// Special tokens go into the vocab too: Hugging Face's Rust code takes the id of an added token from the
// model's vocab and, failing that, numbers it itself, so that holes before the special ids would shift them.
const added_tokens = Object.entries(src.special_tokens).map(([content, id]) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }));
for (const t of added_tokens) vocab[t.content] = t.id;

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
fs.writeFileSync(out, JSON.stringify({
  version: '1.0', truncation: null, padding: null, added_tokens, normalizer: null,
  pre_tokenizer: { type: 'Sequence', pretokenizers: [
    // tiktoken keeps only what the regex matches; these patterns match every code point, so Isolated is the same
    { type: 'Split', pattern: { Regex: src.pat_str }, behavior: 'Isolated', invert: false }, byteLevel] },
  post_processor: null, decoder: byteLevel,
  model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
    fuse_unk: false, byte_fallback: false, ignore_merges: stuck > 0, vocab, merges },
}));
console.error(`${enc}: ${rank.size} ranks, ${merges.length} merges, ${stuck} tokens that no merge reaches, ${added_tokens.length} special`);
