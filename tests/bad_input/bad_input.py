"""Runs every case of cases.txt; compares exit code and message with messages.txt. Cases that start ranks and fix no plan
run again on four: the same exit code, and the same words unless sizes or numbers of the run stand in them (codes 4, 8).

Usage: bad_input.py PROGRAM [--update]
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
program = sys.argv[1]  # absolute: cases run in a folder of their own

MODEL = dict(model_type="llama", hidden_size=16, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=24, vocab_size=257, max_position_embeddings=32)
RUN = """[model]
config = "model.json"
[workload]
sequence = 16
global_batch = 4
[plan]
[data]
train = "text.txt"
[optimizer]
[train]
steps = 2
"""


def safetensors(header, data):
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def write_inputs(folder):
    files = {
        "good.toml": RUN,
        "text.txt": "In the beginning God created the heaven and the earth. " * 40,
        "short.txt": "In the",
        "empty.toml": "",
        "binary.dat": b"\x7fELF\x02\x01\x00\xff\xfe" * 50,
        "model.json": json.dumps(MODEL),
        "unknown_section.toml": RUN.replace("[train]", "[trian]"),
        "unknown_key.toml": RUN.replace("global_batch", "globl_batch"),
        "wrong_type.toml": RUN.replace("sequence = 16", 'sequence = "16"'),
        "duplicate_key.toml": RUN.replace("sequence = 16", "sequence = 16\nsequence = 16"),
        "unclosed_string.toml": RUN.replace('"text.txt"', '"text.txt'),
        "missing_key.toml": RUN.replace("sequence = 16\n", ""),
        "duplicate.json": '{"model_type": "llama",\n "hidden_size": 8, "hidden_size": 16}',
        "unknown_field.json": json.dumps(dict(MODEL, num_layer=3)),
        "heads.json": json.dumps(dict(MODEL, num_attention_heads=5, num_key_value_heads=5)),
        "family.json": json.dumps(dict(MODEL, model_type="lama")),
        "absurd.json": json.dumps(dict(MODEL, hidden_size=2**30, num_attention_heads=2**20, num_key_value_heads=2**20)),
        "small_vocabulary.json": json.dumps(dict(MODEL, vocab_size=100)),
        "cut.tokens": b"SXTOKENS" + struct.pack("<IIQQQq", 2, 2, 257, 1000, 0, 256) + b"ab" * 100,
        "cut.safetensors": safetensors({"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}, b"\0" * 300),
        "hostile.safetensors": struct.pack("<Q", 2**63) + b"{}",
        "lines.jsonl": '{"text": "a"}\n{"body": "b"}\n',
        "latin1.txt": "caf\u00e9 au lait".encode("latin-1"),
        "unigram.json": json.dumps(dict(model=dict(type="Unigram", vocab=[]))),
        "tokenizer.json": open(os.path.join(here, "..", "tokenizer", "base.json")).read(),
        "window.json": json.dumps(dict(MODEL, layer_types=["sliding_attention"])),
        "dropout.json": json.dumps(dict(MODEL, attention_dropout=0.1)),
        "neox.json": json.dumps(dict(model_type="gpt_neox", hidden_size=20, num_hidden_layers=1, num_attention_heads=4, intermediate_size=24,
                                     vocab_size=257, max_position_embeddings=32, hidden_act="gelu")),
        "two.csv": "0F0,0B0\n1F0,1B0\n",
        "mixture.json": json.dumps(dict(MODEL, model_type="mixtral", num_local_experts=4, num_experts_per_tok=5)),
        "shape.safetensors": safetensors({"model.embed_tokens.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}, b"\0" * 16),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())


def run(arguments, folder):
    done = subprocess.run([program, *arguments], capture_output=True, timeout=60, cwd=folder)
    text = done.stderr.decode("utf-8", "replace") if done.returncode else ""
    # The message only: progress and the summary come before it, paths and this machine's sizes are not golden.
    at = text.rfind("error: ")
    message = text[at:] if at >= 0 else text
    message = message.replace(folder, "{}")
    message = re.sub(r"this machine has [0-9.]+ [kMGT]?B", "this machine has N GB", message)
    message = re.sub(r"(needs?) [0-9.]+ [kMGTP]?B \(peak [0-9.]+ [kMGTP]?B", r"\1 N TB (peak N TB", message)
    message = re.sub(r"step \d+: (the [a-z ]+ is) [a-z ]+,", r"step N: \1 off,", message)  # when and how depends on rounding
    return done.returncode, message.strip()


def main():
    cases = []
    for line in open(os.path.join(here, "cases.txt")):
        if line.startswith("#") or not line.strip():
            continue
        name, arguments, code = (part.strip() for part in line.split("::"))
        cases.append((name, arguments.split(), int(code)))
    golden_file = os.path.join(here, "messages.txt")
    failures, lines = [], []
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(folder)
        for name, arguments, code in cases:
            arguments = [a.replace("{}", folder) for a in arguments]
            found, message = run(arguments, folder)
            lines.append(f"## {name} ({code})\n{message}\n")
            if found != code:
                failures.append(f"{name}: exit code {found}, expected {code}: {message}")
            if not message.startswith("error: "):
                failures.append(f"{name}: no message that starts with 'error: ': {message}")
            # What four ranks share must end with the same words as on one.
            if arguments[:1] == ["train"] and "--ranks" not in arguments and "plan." not in " ".join(arguments):
                again = run([arguments[0], *arguments[1:], "--ranks", "4"] if len(arguments) > 1 else arguments, folder)
                same = re.sub(r"\d+ ranks? needs?", "N ranks need", again[1]) == re.sub(r"\d+ ranks? needs?", "N ranks need", message)
                if again[0] != code or not (same or code in (4, 8)):
                    failures.append(f"{name} on four ranks: exit code {again[0]}: {again[1]}")
    text = "\n".join(lines)
    if "--update" in sys.argv:
        open(golden_file, "w").write(text)
    elif open(golden_file).read() != text:
        for old, new in zip(open(golden_file).read().split("## "), text.split("## ")):
            if old != new:
                failures.append(f"message changed:\n  golden: {old}\n  now:    {new}")
    for failure in failures:
        print(failure)
    print(f"{len(cases)} cases, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
