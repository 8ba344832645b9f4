"""Tokenizers that differ in what they do before BPE, all with the small vocabulary of base.json.

Usage: variants.py FOLDER: writes them there. Also imported by golden.py.
"""
import copy
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CL100K = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
O200K = "|".join([rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?", rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def level(**more):
    return dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True) | more


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return dict(type="Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


def sequence(*parts):
    return dict(type="Sequence", pretokenizers=list(parts))


def token(content, **more):
    return dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) | more


BARE = level(use_regex=False)
VARIANTS = {
    "gpt2": (None, level(), []),
    "cl100k": (None, sequence(split(CL100K), BARE), []),
    "o200k": (None, sequence(split(O200K), BARE), []),
    "inverted": (None, sequence(split(CL100K, "Removed", True), BARE), []),
    "digits": (None, sequence(dict(type="Digits", individual_digits=True), level()), []),
    "digit_runs": (None, sequence(dict(type="Digits", individual_digits=False), level()), []),
    "prefix_space": (None, level(add_prefix_space=True), []),
    "removed": (None, sequence(split(r"\s+", "Removed"), BARE), []),
    "contiguous": (None, sequence(split(r"\p{N}", "Contiguous"), BARE), []),
    "with_previous": (None, sequence(split(r"\p{P}", "MergedWithPrevious"), BARE), []),
    "with_next": (None, sequence(split(r"\p{P}", "MergedWithNext"), BARE), []),
    "literal": (None, sequence(split(" ", "MergedWithNext", kind="String"), BARE), []),
    "qwen_nfc": (dict(type="NFC"), sequence(split(QWEN), BARE), []),
    "strip": (None, level(), [token("<mask>", lstrip=True), token("<sep>", rstrip=True), token("\n\n"), token("if"), token("ifx")]),
    "spaces": (None, level(), [token(" " * n, normalized=True, special=False) for n in range(8, 1, -1)]),
}


def write(folder):
    with open(f"{HERE}/base.json") as file:
        base = json.load(file)
    for name, (normalizer, pre_tokenizer, added) in VARIANTS.items():
        made = copy.deepcopy(base)
        made["normalizer"], made["pre_tokenizer"] = normalizer, pre_tokenizer
        vocab = made["model"]["vocab"]
        following = max(vocab.values()) + 1
        for t in added:
            where = vocab.get(t["content"])
            made["added_tokens"].append(dict(id=following if where is None else where, **t))
            following += where is None
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(made, file)


if __name__ == "__main__":
    write(sys.argv[1])
