"""Writes hostile (and a few valid) Hugging Face folders of a tiny GPT-2, one subfolder a case, and cases.json.

Usage: folders.py OUT_DIR

Each entry of cases.json: "name" (the subfolder), "what" (what is hostile), "expect" (ok, corrupt, storage, invalid),
"must_name" (what any good message contains) and, where the outcome is a decision rather than a fact, "debatable".

For every case that is not ok a good answer is also: within a second and 4 x the bytes that are really on disk + 1 MiB,
one message of valid UTF-8, at most 4 KiB, without control characters and without bidi controls. All valid folders hold
the same numbers, so that the model behind them is one and the same.
"""
import copy
import json
import os
import random
import shutil
import stat
import struct
import sys

CONFIG = dict(model_type="gpt2", n_layer=1, n_embd=8, n_head=2, n_positions=16, vocab_size=257, activation_function="gelu_new", layer_norm_epsilon=1e-5)
L = "transformer.h.0."
SHAPES = {
    "transformer.wte.weight": [257, 8], "transformer.wpe.weight": [16, 8],
    L + "ln_1.weight": [8], L + "ln_1.bias": [8],
    L + "attn.c_attn.weight": [8, 24], L + "attn.c_attn.bias": [24], L + "attn.c_proj.weight": [8, 8], L + "attn.c_proj.bias": [8],
    L + "ln_2.weight": [8], L + "ln_2.bias": [8],
    L + "mlp.c_fc.weight": [8, 32], L + "mlp.c_fc.bias": [32], L + "mlp.c_proj.weight": [32, 8], L + "mlp.c_proj.bias": [8],
    "transformer.ln_f.weight": [8], "transformer.ln_f.bias": [8],
}
WTE, WPE, LAST, HEAD, C_ATTN = "transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.bias", "lm_head.weight", L + "attn.c_attn.weight"
ONE, INDEX, SHARDS = "model.safetensors", "model.safetensors.index.json", ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
GIB, MIB = 2**30, 2**20


# --- tensors and files -----------------------------------------------------------------------------------------------

def pack(dtype, numbers):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in numbers)
    return struct.pack(f"<{len(numbers)}{dict(F64='d', F32='f', F16='e', I32='i', U8='B')[dtype]}", *numbers)


def numbers_of(name, shape):
    """Few bits each, so that every dtype holds them exactly."""
    draw, count = random.Random(name), 1
    for n in shape:
        count *= n
    is_gain = ".ln_" in name and name.endswith("weight")
    return [1 + draw.randrange(128) / 128 if is_gain else draw.randrange(-127, 128) / 512 for _ in range(count)]


NUMBERS = {name: numbers_of(name, shape) for name, shape in SHAPES.items()}


def tensors(dtype="F32", **changes):
    """name -> [dtype, shape, data]; `changes` by name: None leaves a tensor out."""
    out = {n: [dtype, s, pack(dtype, NUMBERS[n])] for n, s in SHAPES.items()}
    out.update(changes)
    return {n: t for n, t in out.items() if t is not None}


def with_tensors(more, **kw):
    return tensors(**kw) | more


def head(data=None):
    return {HEAD: ["F32", [257, 8], pack("F32", NUMBERS[WTE]) if data is None else data]}


def header_and_data(parts, metadata={"format": "pt"}):
    header, data = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, (dtype, shape, raw) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return header, data


def framed(header, data=b"", length=None, pad=True):
    """The bytes of a file; `header` is a dict, text or bytes, `length` what the first eight bytes claim."""
    raw = json.dumps(header, separators=(",", ":")) if isinstance(header, dict) else header
    raw = raw.encode() if isinstance(raw, str) else raw
    raw += b" " * (-len(raw) % 8 if pad else 0)
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def stored(parts=None, **kw):
    return framed(*header_and_data(tensors() if parts is None else parts, **kw))


H, DATA = header_and_data(tensors())
TEXT = json.dumps(H, separators=(",", ":"))


def edited(change, data=DATA):
    """A good file whose header `change` has worked on."""
    header = copy.deepcopy(H)
    change(header)
    return framed(header, data)


def field(name, key, value):
    return edited(lambda h: h[name].update({key: value}))


def replaced(old, new):
    """A good file with a change in the text of its header, which must hit."""
    assert TEXT.count(old) >= 1, old
    return framed(TEXT.replace(old, new, 1), DATA)


class Sparse:
    def __init__(self, begin, size):
        self.begin, self.size = begin, size


class Link:
    def __init__(self, target):
        self.target = target


FIFO, SOCKET, FOLDER = object(), object(), object()
SPECIAL = {"a FIFO": FIFO, "a folder": FOLDER, "a socket": SOCKET, "a link to a device": Link("/dev/zero"),
    "a link to itself": Link(None), "a link to nothing": Link("nowhere")}


# --- cases -----------------------------------------------------------------------------------------------------------

cases = []
out_dir = None


def write(path, content):
    if content is FIFO:
        os.mkfifo(path)
    elif content is SOCKET:
        os.mknod(path, stat.S_IFSOCK | 0o644)
    elif content is FOLDER:
        os.mkdir(path)
    elif isinstance(content, Link):
        os.symlink(os.path.basename(path) if content.target is None else content.target, path)
    else:
        with open(path, "wb") as f:
            f.write(content.begin if isinstance(content, Sparse) else content.encode() if isinstance(content, str) else content)
            if isinstance(content, Sparse):
                f.truncate(content.size)


def case(name, what, expect, files, must=(), debatable=None, config=CONFIG):
    folder = os.path.join(out_dir, name)
    os.mkdir(folder)  # fails if two cases have one name
    if config is not None:
        files = {"config.json": json.dumps(config) if isinstance(config, dict) else config} | files
    for file, content in files.items():
        write(os.path.join(folder, file), content)
    cases.append(dict(name=name, what=what, expect=expect, must_name=list(must)) | ({"debatable": debatable} if debatable else {}))


def ok(name, what, files, **kw):
    case("ok_" + name, what, "ok", {ONE: files} if isinstance(files, bytes) else files, **kw)


def bad(name, what, content, *must, **kw):
    """A bad model.safetensors beside a good config.json."""
    case(name, what, kw.pop("expect", "corrupt"), {ONE: content}, [ONE, *must], **kw)


def index_of(shards, total=None, **more):
    """The index of shards (file -> tensors) as a dict."""
    size = sum(len(t[2]) for parts in shards.values() for t in parts.values())
    return {"metadata": {"total_size": size if total is None else total}, "weight_map": {n: f for f, parts in shards.items() for n in parts}} | more


def halves():
    names = list(SHAPES)
    all_ = tensors()
    return {SHARDS[0]: {n: all_[n] for n in names[:8]}, SHARDS[1]: {n: all_[n] for n in names[8:]}}


def sharded(shards=None, index=None, **files):
    """Files of a folder with an index; `index` is a dict or text, or a function that changes the right dict."""
    shards = halves() if shards is None else shards
    right = index_of(shards)
    if callable(index):
        index(right)
        index = right
    index = right if index is None else index
    out = {INDEX: json.dumps(index, indent=1) if isinstance(index, dict) else index}
    out |= {f: stored(parts) for f, parts in shards.items()}
    return {f: c for f, c in (out | files).items() if c is not None}


def bad_index(name, what, index, *must, expect="corrupt", **kw):
    case("index_" + name, what, expect, sharded(index=index), [INDEX, *must], **kw)


def mapped_to(value, name=LAST):
    return lambda index: index["weight_map"].update({name: value})


# --- the valid ones --------------------------------------------------------------------------------------------------

def valid():
    ok("f32", "valid: one file, float32, with __metadata__", stored())
    for dtype in ("F64", "BF16", "F16"):
        ok(dtype.lower(), f"valid: one file, {dtype}", stored(tensors(dtype)))
    kinds = ["F64", "BF16", "F32", "F16"]
    ok("mixed_dtypes", "valid: four dtypes in one file", stored({n: tensors(kinds[i % 4])[n] for i, n in enumerate(SHAPES)}))
    ok("no_metadata", "valid: no __metadata__", stored(metadata=None))
    ok("metadata_escapes", "valid: __metadata__ holds terminal escapes, which nobody prints", stored(metadata={"\x1b[31m": "\x1b]0;x\x07", "": "\u202e"}))
    ok("misaligned", "valid: the header has an odd length, so no tensor is aligned", framed(TEXT + " " * (1 - len(TEXT) % 2), DATA, pad=False))
    ok("spaces_behind_header", "valid: the header is padded with 4096 spaces", framed(TEXT + " " * 4096, DATA))
    ok("names_escaped", "valid: a tensor name is written with \\u escapes", replaced("transformer.wte", "\\u0074ransformer.wt\\u0065"))
    header, data = header_and_data(dict(reversed(tensors().items())))
    ok("data_in_other_order", "valid: data lies in the reverse order of the header", framed(dict(reversed(header.items())), data))
    ok("head_stored_equal", "valid: the tied head is stored too and equals the embedding", stored(with_tensors(head())))
    ok("head_untied", "valid: not tied, the head has a tensor of its own", stored(with_tensors(head())), config=CONFIG | {"tie_word_embeddings": False})
    ok("pickle_beside", "valid: a pytorch_model.bin lies beside it and is ignored", {ONE: stored(), "pytorch_model.bin": b"PK\3\4 not for us"})
    ok("sharded", "valid: two shards and an index", sharded())
    ok("sharded_no_metadata", "valid: an index without metadata", sharded(index=lambda i: i.pop("metadata")))
    one_of_one = {"model-00001-of-00001.safetensors": tensors()}
    ok("sharded_one_of_one", "valid: an index with one shard", sharded(one_of_one))
    shards = halves()
    shards[SHARDS[1]] |= head()
    ok("sharded_head_elsewhere", "valid: the tied head is stored in another shard and equals the embedding", sharded(shards))
    os.mkdir(os.path.join(out_dir, "_blobs"))
    for i, file in enumerate(SHARDS):
        write(os.path.join(out_dir, "_blobs", f"{i:064x}"), stored(halves()[file]))
    ok("links_as_in_hub_cache", "valid: shards are links to regular files outside the folder, as the hub's cache has them",
            {INDEX: json.dumps(index_of(halves()))} | {f: Link(f"../_blobs/{i:064x}") for i, f in enumerate(SHARDS)})
    ok("names_without_prefix", "valid: names as in the published gpt2 file, without 'transformer.'",
            stored({n.removeprefix("transformer."): t for n, t in tensors().items()}),
            debatable="GPT2Model saves without the prefix; the file of openai-community/gpt2 is one")
    masks = {L + "attn.bias": ["U8", [1, 1, 16, 16], bytes(j <= i for i in range(16) for j in range(16))],
            L + "attn.masked_bias": ["F32", [], pack("F32", [-1e4])]}
    ok("causal_mask_buffers", "valid: holds attn.bias and attn.masked_bias, buffers that old transformers versions saved", stored(with_tensors(masks)),
            debatable="not parameters, so unknown tensors to a strict reader; real files have them")
    ok("only_head_stored", "valid: tied, and only lm_head.weight is stored, not the embedding",
            stored({HEAD if n == WTE else n: t for n, t in tensors().items()}),
            debatable="safetensors keeps one of two shared tensors, by name order it may be the head; else corrupt, naming both")
    ok("index_names_single_file", "valid: the index maps all tensors to model.safetensors", sharded({ONE: tensors()}),
            debatable="some exporters write it; it is not ambiguous")
    ok("index_total_size_float", "valid: total_size is a float with the right value",
            sharded(index=lambda i: i["metadata"].update(total_size=float(i["metadata"]["total_size"]))),
            debatable="some versions wrote floats; else corrupt, naming total_size")


# --- one safetensors file --------------------------------------------------------------------------------------------

def frame():
    bad("file_empty", "model.safetensors has no byte", b"")
    bad("file_7_bytes", "too short for the header's length", b"\0" * 7)
    bad("length_0", "the header has length 0", framed(b"", DATA, length=0))
    bad("length_1", "the header has length 1", framed(b"{", DATA, length=1, pad=False))
    for label, length in (("2_63", 2**63), ("2_64_minus_1", 2**64 - 1), ("2_64_minus_8", 2**64 - 8), ("beyond_file", 99_999_999)):
        bad("length_" + label, f"the header's length says {length}", framed(TEXT, DATA, length=length), str(length))
    bad("length_big_endian", "the header's length is big-endian", struct.pack(">Q", len(TEXT)) + TEXT.encode() + DATA,
            str(int.from_bytes(struct.pack(">Q", len(TEXT)), "little")))
    bad("length_over_cap", "a header of 1 GiB in a sparse file", Sparse(struct.pack("<Q", GIB) + b"{}", GIB + 8), str(GIB))
    bad("length_cuts_json", "the header's length ends in the middle of its JSON", framed(TEXT, DATA, length=len(TEXT) // 2, pad=False))
    bad("length_reaches_into_data", "the header's length is 8 too long", framed(TEXT, DATA, length=len(TEXT) + 8, pad=False))
    bad("header_sparse_nul", "{} and then 90 MB of NUL in a sparse file", Sparse(struct.pack("<Q", 90_000_000) + b"{}", 90_000_008))
    for label, what, text in (
            ("not_json", "is no JSON", "hello, world"), ("array", "is an array", "[]"), ("string", "is a string", '"' + "a" * 30 + '"'),
            ("leading_space", "starts with a space", " " + TEXT),
            ("nul_padding", "is padded with NUL", TEXT + "\0" * 8), ("trailing_garbage", "has text behind its object", TEXT + "x"),
            ("two_objects", "holds two objects", TEXT + "{}"),
            ("bom", "starts with a byte-order mark", "\ufeff" + TEXT), ("utf16", "is UTF-16", TEXT.encode("utf-16-le")),
            ("comment", "holds a comment", TEXT[:-1] + "/* */}"),
            ("trailing_comma", "has a comma too much", TEXT[:-1] + ",}"), ("single_quotes", "has single quotes", TEXT.replace('"', "'")),
            ("unclosed_string", "ends in a string", '{"abc'),
            ("nan_literal", "holds the word NaN", TEXT.replace("[0,", "[NaN,", 1)),
            ("raw_escape", "holds a raw ESC byte in a name", TEXT.replace("wte", "w\x1bte", 1)),
            ("invalid_utf8", "is no UTF-8", TEXT.encode().replace(b"wte", b"w\xff\xfe", 1)),
            ("overlong_utf8", "holds an overlong UTF-8 form", TEXT.encode().replace(b"wte", b"w\xc0\xaf", 1)),
            ("utf8_surrogate", "holds a surrogate as UTF-8", TEXT.encode().replace(b"wte", b"\xed\xa0\x80", 1)),
            ("high_surrogate", "has an unpaired high surrogate escape", TEXT.replace("wte", "\\ud800", 1)),
            ("low_surrogate", "has an unpaired low surrogate escape", TEXT.replace("wte", "\\udc00", 1)),
            ("swapped_surrogates", "has surrogate escapes in the wrong order", TEXT.replace("wte", "\\udc00\\ud800", 1)),
            ("long_bad_string", "is one 4 MiB string that ends in a bad byte", b'{"' + b"a" * (4 * MIB) + b'\xff'),
            ("long_number", "holds a number of 4 MiB", '{"a":' + "1" * (4 * MIB) + "}"),
            ("depth_65", "is nested 65 deep", '{"a":' + "[" * 64 + "]" * 64 + "}"),
            ("depth_bomb", "is nested 100,000 deep", '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
            ("depth_bomb_objects", "is nested 100,000 deep in objects and never closed", '{"a":' * 100_000)):
        bad("header_" + label, "the header " + what, framed(text, DATA, pad=False))
    bad("header_empty_object", "the header is {} and there is no data", framed("{}", b"", pad=False), "transformer.")
    bad("header_empty_object_data", "the header is {} but there is data", framed("{}", DATA))
    for label, what, value in (("numbers", "holds a number", {"format": 1}), ("null_value", "holds null", {"format": None}),
            ("nested", "holds an object", {"format": {}}), ("list", "is a list", []), ("null", "is null", None), ("string", "is a string", "pt")):
        bad("metadata_" + label, f"__metadata__ {what}", edited(lambda h: h.update(__metadata__=value)), "__metadata__")
    bad("metadata_twice", "__metadata__ stands twice", replaced("{", '{"__metadata__":{},'), "__metadata__")
    bad("metadata_long_value", "__metadata__ holds a string of 2 MiB", edited(lambda h: h.update(__metadata__={"x": "y" * 2 * MIB})))
    for label, file in (("git_lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9999\n"),
            ("html", "<!DOCTYPE html><html>404 Not Found</html>"), ("gguf", b"GGUF\3\0\0\0" + b"\0" * 99),
            ("zip_of_pickle", b"PK\3\4\0\0\x08\x08\0\0" + b"\0" * 99), ("own_config", json.dumps(CONFIG))):
        bad("file_is_" + label, f"model.safetensors is really a {label.replace('_', ' ')}", file)


def offsets():
    end = len(DATA)
    wpe = H[WPE]["data_offsets"]

    def shift(name, begin, stop):
        return field(name, "data_offsets", [begin, stop])

    bad("overlap", "a tensor begins 4 bytes before the end of the one before",
            edited(lambda h: [t.update(data_offsets=[x - 4 for x in t["data_offsets"]]) for n, t in h.items() if n not in ("__metadata__", WTE)],
            DATA[:-4]), WPE)
    bad("overlap_alias", "two tensors have the same data", edited(lambda h: h[LAST].update(data_offsets=h["transformer.ln_f.weight"]["data_offsets"]),
            DATA[:-32]), "transformer.ln_f.")
    for label, at in (("start", 0), ("middle", wpe[0]), ("end", end)):
        def hole(h, at=at):
            for n, t in h.items():
                if n != "__metadata__" and t["data_offsets"][0] >= at:
                    t["data_offsets"] = [x + 8 for x in t["data_offsets"]]
        bad("hole_" + label, f"8 bytes at the {label} of the data belong to no tensor", edited(hole, DATA[:at] + b"\0" * 8 + DATA[at:]),
                *([WTE] if at == 0 else [WPE] if at < end else []))
    bad("reversed", "data_offsets run backwards", shift(WPE, wpe[1], wpe[0]), WPE)
    bad("beyond_file", "the last tensor ends behind the file", shift(LAST, end - 32 + 32, end + 32), LAST)
    bad("cut_by_one", "the file lacks its last byte", framed(H, DATA[:-1]), LAST)
    bad("cut_in_half", "the file lacks half of its data", framed(H, DATA[:end // 2]))
    bad("grown_by_one", "one byte behind the last tensor", framed(H, DATA + b"\0"))
    bad("grown_sparse", "64 GiB of nothing behind the last tensor", Sparse(framed(H, DATA), 64 * GIB))
    for label, value in (("negative", [-32, 0]), ("float", [0.0, 512.0]), ("strings", ["0", "512"]), ("booleans", [False, True]), ("one", [0]),
            ("three", [0, 512, 512]), ("null", None), ("object", {"begin": 0}), ("int64_max", [0, 2**63 - 1]), ("min_max", [-2**63, 2**63 - 1])):
        bad("offsets_" + label, f"data_offsets are {json.dumps(value)}", field(WPE, "data_offsets", value), WPE)
    text = f'[{wpe[0]},{wpe[1]}]'
    for label, to in (("exponent", f"[{wpe[0]},{wpe[1]}e0]"), ("20_digits", f"[{wpe[0]},{10**19 + wpe[1]}]"),
            ("2_64_wraps", f"[{wpe[0]},{2**64 + wpe[1]}]"), ("leading_zero", f"[{wpe[0]},0{wpe[1]}]"), ("plus", f"[{wpe[0]},+{wpe[1]}]")):
        bad("offsets_" + label, f"data_offsets are {to}", replaced(text, to))


def shapes_and_dtypes():
    for label, value in (("overflow", [2**32, 2**32, 2**32]), ("overflow_wraps_to_right_size", [257, 8 + 2**62]), ("negative", [-257, 8]),
            ("two_negatives", [-257, -8]), ("float", [257.0, 8]), ("boolean", [257, True]),
            ("strings", ["257", "8"]), ("number", 2056), ("object", {}), ("null", None), ("nested", [[257, 8]]),
            ("65_dims", [257, 8] + [1] * 63), ("zero", [0, 8]), ("zero_and_huge", [0, 2**62, 2**62]), ("one_less", [256, 8])):
        bad("shape_" + label, f"the embedding's shape is {json.dumps(value)[:60]}", field(WTE, "shape", value), WTE)
    for label, to in (("exponent", "[257e0,8]"), ("20_digits", f"[{10**19},8]"), ("2_63", f"[{2**63},8]")):
        bad("shape_" + label, f"the embedding's shape is {to}", replaced("[257,8]", to), *([] if label == "exponent" else [to[1:-3]]))
    bad("shape_a_million_zeros", "the shape has a million dims: 2 MB that become much more as parsed values", field(WTE, "shape", [0] * 1_000_000),
            debatable="a reader that bounds memory first need not name the tensor")
    for label, value in (("unknown", "F33"), ("lower_case", "f32"), ("number", 32), ("null", None), ("empty", ""), ("other_size", "F64"),
            ("escapes", "evil\x1b[31m"), ("newer_f4", "F4")):
        bad("dtype_" + label, f"the dtype is {json.dumps(value)}", field(WTE, "dtype", value), WTE)
    bad("dtype_integers", "weights are stored as I32", stored(tensors(**{WTE: ["I32", [257, 8], pack("I32", [1] * 2056)]})), WTE, "I32")
    for key in ("dtype", "shape", "data_offsets"):
        bad("tensor_without_" + key, f"a tensor has no {key}", edited(lambda h: h[WPE].pop(key)), WPE, key)
        old = json.dumps({key: H[WTE][key]}, separators=(",", ":"))[1:-1]
        bad("tensor_twice_" + key, f"a tensor has {key} twice", replaced(old, old + "," + old), key)
    bad("tensor_extra_key", "a tensor has a key that no format knows", field(WPE, "strides", [8, 1]), WPE, "strides")
    for label, value in (("number", 7), ("array", []), ("null", None), ("empty_object", {})):
        bad("tensor_is_" + label, f"a tensor is {json.dumps(value)}", edited(lambda h: h.update({WPE: value})), WPE)


def names():
    end = len(DATA)
    one = json.dumps({LAST: H[LAST]}, separators=(",", ":"))[1:-1]
    bad("name_twice", "a tensor stands twice", replaced(one, one + "," + one), LAST)
    bad("name_twice_by_escape", "a tensor stands twice, once with a \\u escape",
            replaced(one, one + "," + one.replace("transformer", "\\u0074ransformer")), LAST)
    for label, name, must in (("empty", "", ""), ("1_mib", "evil" + "x" * (MIB - 4), "evil"), ("over_1_mib", "evil" + "x" * MIB, ""),
            ("dots", "../../etc/evil", "../../etc/evil"), ("nul", "evil\0name", "evil"), ("newline", "evil\nerror: all is well", "evil"),
            ("ansi", "evil\x1b[31mred\x1b[2J", "evil"), ("osc", "evil\x1b]0;title\x07", "evil"), ("c1_csi", "evil\x9b31m", "evil"),
            ("bidi", "evil\u202egnp.exe\u2066", "evil"), ("line_separator", "evil\u2028next\u2029", "evil"),
            ("zero_width", "evil\u200b\u200d\ufeff", "evil"), ("homoglyph", "tr\u0430nsformer.wte.weight", ""),
            ("del", "evil\x7f\x08\x08", "evil"), ("format_string", "evil%s%n{}", "evil%s%n{}"), ("formula", "=cmd|evil", "=cmd|evil")):
        bad("name_" + label, f"an extra empty tensor has a name with {label.replace('_', ' ')}",
                edited(lambda h: h.update({name: {"dtype": "U8", "shape": [0], "data_offsets": [end, end]}})), *([must] if must else []))
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    many = {"".join(digits[i // 36**k % 36] for k in range(4)): {"dtype": "U8", "shape": [0], "data_offsets": [end, end]} for i in range(200_000)}
    bad("names_200000", "200,000 empty tensors that no model knows, before the model's own", framed(many | H, DATA))
    deep = {n.replace(".h.0.", f".h.{k}."): t for k in range(1000) for n, t in tensors().items() if k == 0 or ".h." in n}
    del deep[LAST]
    header, data = header_and_data({f"t{i}": ["U8", [0], b""] for i in range(100_000)} | deep)
    bad("names_quadratic", "100,000 empty tensors before those of a model of 1,000 layers, the last of which is missing: linear look-ups take seconds",
            framed(header, data), config=CONFIG | {"n_layer": 1000},
            debatable="the model alone takes a third of a second and 80 MiB today; of interest is the rest")


def values():
    def with_value(name, x, at, dtype="F32"):
        numbers = list(NUMBERS[name])
        numbers[at] = x
        return stored(tensors(**{name: [dtype, SHAPES[name], pack(dtype, numbers)]}))
    nan, inf = float("nan"), float("inf")
    for label, name, x, at, dtype in (("nan_first", WTE, nan, 0, "F32"), ("nan_last", LAST, nan, -1, "F32"), ("inf", C_ATTN, inf, 100, "F32"),
            ("minus_inf", WPE, -inf, 5, "F32"), ("nan_f64", WPE, nan, 5, "F64"),
            ("nan_bf16", WPE, nan, 5, "BF16"), ("inf_bf16", WPE, inf, 5, "BF16"), ("nan_f16", WPE, nan, 5, "F16"),
            ("inf_f16", C_ATTN, inf, 100, "F16"), ("beyond_f32", WPE, 1e300, 5, "F64")):
        bad("value_" + label, f"a weight of {name} is {x} in {dtype}", with_value(name, x, at, dtype), name)


def fit():
    bad("tensor_missing", "a matrix is missing", stored(tensors(**{C_ATTN: None})), C_ATTN)
    bad("tensor_missing_bias", "a bias is missing", stored(tensors(**{LAST: None})), LAST)
    bad("tensor_extra", "holds a tensor that this model does not know",
            stored(with_tensors({"transformer.h.0.evil.weight": ["F32", [1], b"\0" * 4]})), "transformer.h.0.evil.weight")
    raw = framed({**H, "evil": {"dtype": "U8", "shape": [64 * GIB], "data_offsets": [len(DATA), len(DATA) + 64 * GIB]}}, DATA)
    bad("tensor_extra_sparse", "an extra tensor of 64 GiB in a sparse file", Sparse(raw, len(raw) + 64 * GIB), "evil")
    begin = H[LAST]["data_offsets"][0]
    raw = framed({**H, LAST: {"dtype": "F32", "shape": [16 * GIB], "data_offsets": [begin, begin + 64 * GIB]}}, DATA[:begin])
    bad("tensor_huge_sparse", "a needed bias has 64 GiB in a sparse file", Sparse(raw, len(raw) + 64 * GIB), LAST, str(16 * GIB))
    bad("tensor_extra_layer", "holds a second layer, the config has one",
            stored(with_tensors({n.replace(".h.0.", ".h.1."): t for n, t in tensors().items() if ".h.0." in n})), "transformer.h.1.")
    bad("tensor_layer_00", "a layer is numbered 00", stored({n.replace(".h.0.", ".h.00."): t for n, t in tensors().items()}), "transformer.h.")
    bad("tensor_llama_names", "the tensors have llama's names", stored({n.replace("transformer.h", "model.layers").replace("transformer.wte",
            "model.embed_tokens"): t for n, t in tensors().items()}), WTE)
    for label, name, shape, must in (("transposed", C_ATTN, [24, 8], "24"), ("flat", WTE, [2056], "2056"), ("extra_dim", WTE, [1, 257, 8], "257"),
            ("bias_as_matrix", LAST, [1, 8], "1")):
        bad("fit_" + label, f"{name} is stored as {shape}", field(name, "shape", shape), name, must)
    bad("fit_vocabulary", "the embedding has a row too much", stored(tensors(**{WTE: ["F32", [258, 8], b"\0" * 258 * 32]})), WTE, "258")
    bad("fit_scalar", "a bias is a scalar", stored(tensors(**{LAST: ["F32", [], b"\0" * 4]})), LAST)
    qkv = {C_ATTN.replace("c_attn", p): ["F32", [8, 8], b"\0" * 256] for p in ("q_proj", "k_proj", "v_proj")}
    bad("fit_qkv_apart", "q, k and v are three tensors", stored(with_tensors(qkv, **{C_ATTN: None})), C_ATTN)
    raw = pack("F32", NUMBERS[WTE])
    bad("head_differs", "the config ties the head, the stored head differs from the embedding in one bit",
            stored(with_tensors(head(raw[:-4] + bytes([raw[-4] ^ 1]) + raw[-3:]))), HEAD)
    bad("head_shape", "the stored tied head has another shape", stored(with_tensors({HEAD: ["F32", [8, 257], raw]})), HEAD)
    nan = raw[:-4] + pack("F32", [float("nan")])
    bad("head_and_embedding_nan", "tied head and embedding are equal byte for byte, with a NaN",
            stored(with_tensors(head(nan), **{WTE: ["F32", [257, 8], nan]})))
    bad("head_missing", "not tied, and the head is missing", stored(), HEAD, config=CONFIG | {"tie_word_embeddings": False})


# --- an index and shards ---------------------------------------------------------------------------------------------

def index():
    right = json.dumps(index_of(halves()))
    for label, what, text in (("empty", "is empty", ""), ("not_json", "is no JSON", "hello"), ("array", "is an array", "[]"),
            ("null", "is null", "null"), ("bom", "starts with a byte-order mark", "\ufeff" + right), ("nul", "ends with NUL", right + "\0"),
            ("depth_bomb", "is nested 100,000 deep", "[" * 100_000), ("cut", "is cut off", right[:-20]),
            ("no_weight_map", "has no weight_map", '{"metadata":{}}'), ("empty_object", "is {}", "{}"),
            ("weight_map_twice", "has weight_map twice", right[:-1] + ',"weight_map":{}}'),
            ("high_surrogate", "has an unpaired surrogate", right.replace("wte", "\\ud800", 1)),
            ("million_zeros", "holds a million zeros", right[:-1] + ',"x":[' + "0," * 999_999 + "0]}")):
        bad_index(label, "the index " + what, text, *(["weight_map"] if "weight_map" in label or label == "empty_object" else []))
    bad_index("sparse", "the index is a sparse file of 64 GiB", Sparse(b"{", 64 * GIB), expect="storage",
            debatable="storage as read_file has it (larger than what is read); corrupt would do")
    for label, value in (("list", [LAST]), ("null", None), ("string", SHARDS[0]), ("empty", {})):
        bad_index("weight_map_" + label, f"weight_map is {json.dumps(value)}", lambda i: i.update(weight_map=value), "weight_map")
    for label, value in (("number", 1), ("null", None), ("list", [SHARDS[1]]), ("boolean", True)):
        bad_index("entry_" + label, f"a tensor's file is {json.dumps(value)}", mapped_to(value), LAST)
    outside = {"empty": "", "dot": ".", "dotdot": "..", "passwd": "../../etc/passwd", "absolute": "/etc/passwd",
            "round_trip": "../index_entry_round_trip/" + SHARDS[1], "hidden_dots": "x/../../" + SHARDS[1], "dot_slash": "./" + SHARDS[1],
            "subfolder": "sub/" + SHARDS[1],
            "double_slash": "//etc//passwd", "backslash": "..\\..\\evil", "nul": SHARDS[1] + "\0.txt", "newline": "evil\nerror: all is well",
            "ansi": "evil\x1b[31m", "bidi": "evil\u202esrosnetefas", "proc": "/proc/self/fd/0", "url": "https://evil.example/x.safetensors",
            "trailing_slash": SHARDS[1] + "/",
            "home": "~/" + SHARDS[1], "percent": "%2e%2e%2fevil", "long": "evil" * 1250}
    for label, target in outside.items():
        bad_index("entry_" + label, f"a tensor's file is {json.dumps(target)[:60]}", mapped_to(target),
                *([LAST] if target in ("", ".", "..") else ["evil"] if "evil" in target else []),
                debatable={"dot_slash": "harmless, but no writer makes it; names that are not plain file names are refused as a class",
                "subfolder": "harmless; as dot_slash", "percent": "a plain file name, which is missing: storage would do",
                "home": "as dot_slash", "long": "a plain file name that cannot exist: storage would do",
                "backslash": "on Linux a plain name; storage would do", "newline": "storage would do", "ansi": "storage would do",
                "bidi": "storage would do"}.get(label))
    bad_index("entry_config", "a tensor's file is config.json", mapped_to("config.json"), "config.json",
            debatable="as a safetensors file it is damaged; the message may name only config.json")
    bad_index("entry_itself", "a tensor's file is the index", mapped_to(INDEX))
    case("index_shard_missing", "a shard that the index names is not there", "storage", sharded(**{SHARDS[1]: None}), [SHARDS[1]])
    case("index_all_shards_missing", "the index stands alone", "storage", {INDEX: right}, [SHARDS[0]])
    case("shards_without_index", "two shards and no index", "storage", sharded(**{INDEX: None}), [INDEX])
    bad_index("shard_upper_case", "the index writes a shard's name in upper case", mapped_to(SHARDS[1].upper()), expect="storage")
    bad_index("wrong_shard", "a tensor is mapped to the shard that lacks it", mapped_to(SHARDS[0]), LAST, SHARDS[0])
    bad_index("swapped_shards", "all tensors are mapped to the other shard",
            lambda i: i.update(weight_map={n: SHARDS[f == SHARDS[0]] for n, f in i["weight_map"].items()}), "transformer.")
    bad_index("lacks_tensor", "a shard holds a tensor that the index does not name", lambda i: i["weight_map"].pop(LAST), LAST)
    bad_index("extra_tensor", "the index names a tensor that no shard has", mapped_to(SHARDS[1], "transformer.evil"), "transformer.evil")
    shards = halves()
    shards[SHARDS[0]][LAST] = shards[SHARDS[1]][LAST]
    case("index_tensor_in_two_shards", "a tensor is in two shards, equal", "corrupt", sharded(shards), [LAST])
    shards = halves()
    shards[SHARDS[0]][LAST] = ["F32", [8], b"\0" * 32]
    case("index_tensor_in_two_shards_differs", "a tensor is in two shards and differs", "corrupt", sharded(shards), [LAST])
    case("index_one_file_two_names", "the second shard is a link to the first", "corrupt", sharded(**{SHARDS[1]: Link(SHARDS[0])}), [SHARDS[1]])
    one = f'"{LAST}": "{SHARDS[1]}"'
    for label, second in (("", one), ("_differs", one.replace(SHARDS[1], SHARDS[0])), ("_by_escape", one.replace("transformer", "\\u0074ransformer"))):
        assert one in right
        bad_index("key_twice" + label, "a tensor stands twice in weight_map" + label.replace("_", " "), right.replace(one, one + ", " + second), LAST)
    for label, value in (("wrong", 1), ("negative", -1), ("string", "8"), ("20_digits", 10**19), ("huge", 2**62)):
        bad_index("total_size_" + label, f"total_size is {json.dumps(value)}", lambda i: i["metadata"].update(total_size=value),
                *(["total_size"] if label != "20_digits" else [str(10**19)]),
                debatable="transformers ignores it; a wrong one means that index and shards are not of one save")
    for label, value in (("list", []), ("string", "x")):
        bad_index("metadata_" + label, f"metadata is {json.dumps(value)}", lambda i: i.update(metadata=value), "metadata")
    bad_index("10000_shards", "10,000 tensors in 10,000 shards that are not there",
            lambda i: i["weight_map"].update({f"t{n}": f"model-{n:05}-of-10000.safetensors" for n in range(10_000)}), expect="storage",
            debatable="a reader that compares names with the model first says corrupt")
    bad_index("200000_names", "200,000 tensors that no model knows, all in one shard",
            lambda i: i["weight_map"].update({f"evil{n}": SHARDS[0] for n in range(200_000)}), "evil")
    case("index_shard_cut", "the second shard lacks its last byte", "corrupt", sharded(**{SHARDS[1]: stored(halves()[SHARDS[1]])[:-1]}), [SHARDS[1], LAST])
    case("index_shard_empty", "the second shard has no byte", "corrupt", sharded(**{SHARDS[1]: b""}), [SHARDS[1]])
    case("index_shard_nan", "the second shard holds a NaN", "corrupt", sharded(halves() | {SHARDS[1]: halves()[SHARDS[1]]
            | {LAST: ["F32", [8], pack("F32", [float("nan")] * 8)]}}), [SHARDS[1], LAST])
    case("index_shard_shape", "a tensor of the second shard has another shape", "corrupt",
            sharded(halves() | {SHARDS[1]: halves()[SHARDS[1]] | {LAST: ["F32", [9], b"\0" * 36]}}), [SHARDS[1], LAST])
    for what, content in SPECIAL.items():
        case("index_shard_is_" + what[2:].replace(" ", "_"), f"the second shard is {what}", "storage", sharded(**{SHARDS[1]: content}), [SHARDS[1]])
        case("index_is_" + what[2:].replace(" ", "_"), f"the index is {what}", "storage", sharded(index="", **{INDEX: content}), [INDEX])
    zeros = stored({n: [d, s, bytes(len(raw))] for n, (d, s, raw) in tensors().items()})
    case("both_disagree", "model.safetensors and an index are both there and hold different weights", "corrupt", sharded(**{ONE: zeros}),
            [ONE, INDEX], debatable="transformers takes model.safetensors without a word; naming both is safer")
    case("both_agree", "model.safetensors and an index are both there and hold the same", "corrupt", sharded(**{ONE: stored()}), [ONE, INDEX],
            debatable="either can be taken; refusing needs no comparison")


# --- other files -----------------------------------------------------------------------------------------------------

def files():
    for what, content in SPECIAL.items():
        bad("weights_are_" + what[2:].replace(" ", "_"), f"model.safetensors is {what}", content, expect="storage")
        case("config_is_" + what[2:].replace(" ", "_"), f"config.json is {what}", "storage", {ONE: stored(), "config.json": content}, ["config.json"],
                config=None)
    case("weights_missing", "config.json stands alone", "storage", {}, ["safetensors"])
    case("only_pickle", "only a pytorch_model.bin, no safetensors", "storage", {"pytorch_model.bin": b"PK\3\4"}, ["safetensors"],
            debatable="naming pytorch_model.bin and how to convert it is better still")
    case("only_adapter", "only an adapter_model.safetensors", "storage", {"adapter_model.safetensors": stored()}, [ONE])
    case("folder_empty", "the folder is empty", "storage", {}, ["config.json"], config=None)


def configs():
    good = json.dumps(CONFIG)

    def bad_config(name, what, content, *must, expect="invalid", **kw):
        case("config_" + name, what, expect, {ONE: stored()}, [ONE if expect == "corrupt" else "config.json", *must], config=content, **kw)

    case("config_missing", "config.json is not there", "storage", {ONE: stored()}, ["config.json"], config=None)
    for label, what, text in (("empty", "is empty", b""), ("blank", "holds only spaces", b" \n "), ("not_json", "is no JSON", b"hello"),
            ("array", "is an array", b"[]"), ("number", "is a number", b"1"), ("null", "is null", b"null"),
            ("empty_object", "is {}", b"{}"), ("bom", "starts with a byte-order mark", b"\xef\xbb\xbf" + good.encode()),
            ("utf16", "is UTF-16", good.encode("utf-16")), ("nul", "ends with NUL", good.encode() + b"\0"),
            ("invalid_utf8", "is no UTF-8", good.replace("gelu", "g\udcff").encode("utf-8", "surrogateescape")),
            ("cut", "is cut off", good[:-9].encode()), ("two", "holds two objects", (good + good).encode()),
            ("depth_65", "is nested 65 deep", (good[:-1] + ',"x":' + "[" * 65 + "]" * 65 + "}").encode()),
            ("depth_bomb", "is nested 100,000 deep", b'{"a":' * 100_000),
            ("python", "holds Python's None", good[:-1].encode() + b', "n_inner": None}')):
        bad_config(label, "config.json " + what, text)
    bad_config("sparse", "config.json is a sparse file of 64 GiB", Sparse(b"{", 64 * GIB), expect="storage",
            debatable="storage as read_file has it; invalid would do")
    bad_config("twice", "a key stands twice", good[:-1] + ', "n_layer": 2}', "n_layer")
    bad_config("twice_by_escape", "a key stands twice, once with a \\u escape", good[:-1] + ', "n_\\u006cayer": 2}', "n_layer")
    for label, key, value in (("family_unknown", "model_type", "evilnet"), ("family_number", "model_type", 2), ("family_case", "model_type", "GPT2"),
            ("family_escapes", "model_type", "evil\x1b[31m\u202e"), ("family_long", "model_type", "evil" * 200_000),
            ("layers_float", "n_layer", 1.0), ("layers_zero", "n_layer", 0), ("layers_negative", "n_layer", -1),
            ("layers_huge", "n_layer", 10**18), ("layers_boolean", "n_layer", True), ("layers_string", "n_layer", "1"),
            ("layers_null", "n_layer", None), ("layers_list", "n_layer", [1]),
            ("width_int64_max", "n_embd", 2**63 - 1), ("width_zero", "n_embd", 0), ("heads_do_not_divide", "n_head", 3),
            ("heads_zero", "n_head", 0), ("heads_many", "n_head", 16), ("vocabulary_negative", "vocab_size", -257),
            ("vocabulary_huge", "vocab_size", 2**62), ("inner_zero", "n_inner", 0),
            ("epsilon_negative", "layer_norm_epsilon", -1), ("epsilon_string", "layer_norm_epsilon", "1e-5"),
            ("activation_unknown", "activation_function", "evil()"), ("tied_string", "tie_word_embeddings", "yes"),
            ("dropout_above_1", "resid_pdrop", 1.5)):
        bad_config(label, f"{key} is {json.dumps(value)[:60]}", CONFIG | {key: value}, key)
    bad_config("layers_exponent", "n_layer is 1e0", good.replace('"n_layer": 1', '"n_layer": 1e0'), "n_layer")
    bad_config("width_20_digits", "n_embd has 20 digits", good.replace('"n_embd": 8', f'"n_embd": {10**19}'), str(10**19))
    bad_config("epsilon_overflows", "layer_norm_epsilon is 1e400", good.replace("1e-05", "1e400"), "1e400")
    bad_config("epsilon_nan", "layer_norm_epsilon is the word NaN", good.replace("1e-05", "NaN"))
    for key in ("model_type", "n_layer", "n_embd", "vocab_size"):
        bad_config("without_" + key, f"{key} is missing", {k: v for k, v in CONFIG.items() if k != key}, key)
    bad_config("key_unknown", "a key that changes the computation and that nobody knows", CONFIG | {"evil_attention": True}, "evil_attention")
    bad_config("key_near_with_escapes", "n_layer is missing, and a key that contains it holds terminal escapes: a hint must not print them",
            {k: v for k, v in CONFIG.items() if k != "n_layer"} | {"\x1b]0;evil\x07\x1b[2Jn_layer": 1}, "n_layer")
    bad_config("key_near_and_long", "n_layer is missing, and a key of 900 kB contains it: a hint must not print or compare all of it",
            {k: v for k, v in CONFIG.items() if k != "n_layer"} | {"n_layer" + "x" * 900_000: 1}, "n_layer")
    bad_config("key_long", "model_type is missing, and the only key has 900 kB", {"x" * 900_000: 1}, "model_type")
    bad_config("keys_many", "60,000 unknown keys, n_layer is missing", {k: v for k, v in CONFIG.items() if k != "n_layer"}
            | {f"k{n}": 0 for n in range(60_000)}, "n_layer")
    bad_config("many_values", "an unknown key holds 340,000 zeros in 1 MB", CONFIG | {"evil": [0] * 340_000}, "evil")
    for label, change, name in (("n_embd", {"n_embd": 16}, "transformer."), ("n_layer", {"n_layer": 2}, "transformer.h.1."),
            ("n_layer_2048", {"n_layer": 2048}, "transformer.h."), ("n_positions", {"n_positions": 32}, WPE),
            ("vocab_size", {"vocab_size": 300}, WTE), ("n_inner", {"n_inner": 64}, L + "mlp.")):
        bad_config("fit_" + label, f"the weights do not fit a config with {label} = {change[min(change)]}", CONFIG | change, name, expect="corrupt")
    bad_config("fit_n_positions_huge", "n_positions is 2^31, the weights have 16: shapes are compared before memory is planned or taken",
            CONFIG | {"n_positions": 2**31}, WPE, expect="corrupt", debatable="exit code 4 (does not fit) as long as memory is checked first")
    bad_config("fit_family", "a llama config beside gpt2 weights", dict(model_type="llama", hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=24, vocab_size=257, max_position_embeddings=16), "model.", expect="corrupt")


def main():
    global out_dir
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out_dir = sys.argv[1]
    os.makedirs(out_dir, exist_ok=True)
    if os.path.exists(os.path.join(out_dir, "cases.json")):  # of an earlier run: only what that one wrote goes
        for old in [c["name"] for c in json.load(open(os.path.join(out_dir, "cases.json")))] + ["_blobs"]:
            if os.path.basename(old) == old:
                shutil.rmtree(os.path.join(out_dir, old), ignore_errors=True)
    for group in (valid, frame, offsets, shapes_and_dtypes, names, values, fit, index, files, configs):
        group()
    with open(os.path.join(out_dir, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    print(f"{len(cases)} cases, {sum(c['expect'] == 'ok' for c in cases)} of them valid")


if __name__ == "__main__":
    main()
