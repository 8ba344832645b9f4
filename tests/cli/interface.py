"""What other programs rely on: JSON fields, metrics lines, text forms, and the examples that --help prints.

Usage: interface.py PROGRAM SOURCE_FOLDER
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad_input"))
from bad_input import write_inputs  # noqa: E402

program, source = sys.argv[1:]


def run(*arguments, cwd=None):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, cwd=cwd)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    write_inputs(folder)
    run_file = folder + "/good.toml"

    for _ in range(2):  # appended over two runs
        summary = json.loads(run("train", run_file, "--ranks", "2", "train.steps=3", "--json", f"train.metrics={folder}/metrics.jsonl", f"train.output={folder}/out"))
    for field in ("steps", "skipped_steps", "interrupted", "losses", "final_loss", "tokens_per_s", "step_time_s", "mfu", "peak_flops_per_s", "peak_memory_bytes", "predicted_peak_memory_bytes",
                  "peak_memory_by_tag_bytes", "resident_peak_bytes", "predicted_resident_bytes", "comm_bytes", "predicted_comm_bytes", "comm_by_group_bytes", "predicted_comm_by_group_bytes", "time_by_what_s"):
        assert field in summary, field
    assert summary["steps"] == 3 == len(summary["losses"]) and summary["final_loss"] == summary["losses"][-1]
    assert summary["comm_bytes"] == summary["predicted_comm_bytes"] > 0
    assert summary["peak_memory_bytes"] == summary["predicted_peak_memory_bytes"] == sum(summary["peak_memory_by_tag_bytes"].values())
    assert 0 < summary["mfu"] < 1.5

    lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
    assert [line["step"] for line in lines] == [0, 1, 2, 0, 1, 2]
    assert all(set(line) == {"step", "loss", "grad_norm", "learning_rate", "tokens", "skipped", "time_s", "resident_bytes"} for line in lines)

    # Training goes on from saved weights: the first loss is about the last one, and equal on one rank and on two.
    first = [json.loads(run("train", run_file, "--ranks", ranks, "--json", f"train.initial_weights={folder}/out/model.safetensors"))["losses"][0] for ranks in ("1", "2")]
    assert abs(first[0] - first[1]) < 1e-5 * first[0] and abs(first[0] - summary["losses"][0]) > 1e-3, (first, summary["losses"])

    checked = json.loads(run("check", run_file, "--ranks", "2", "--json"))
    assert checked["valid"] and checked["ranks"] == 2 and checked["predicted_peak_memory_bytes"] == summary["predicted_peak_memory_bytes"]
    assert 3 * checked["predicted_comm_bytes"] == summary["predicted_comm_bytes"]

    run("data", folder + "/text.txt", folder + "/short.txt", "--out", folder + "/two.tokens")
    tokens = json.loads(run("data", folder + "/text.txt", folder + "/short.txt", "--out", folder + "/two.tokens", "--json"))
    seconds = tokens.pop("seconds")
    text_bytes = len(open(folder + "/text.txt").read()) + 6
    assert seconds > 0 and tokens == {"files": 2, "bytes": text_bytes, "tokens": text_bytes + 2, "documents": 2, "vocabulary": 257, "parts": 1, "reused_parts": 0}, tokens
    run("train", run_file, "data.train=two.tokens", "data.documents=separate")

    # A tokenizer of our own: learned, used, kept beside the weights, and found there again.
    run("data", folder + "/text.txt", "--train-tokenizer", folder + "/small.json", "--vocabulary", "300", "--out", folder + "/small.tokens")
    with open(folder + "/bpe.toml", "w") as file:
        file.write(open(run_file).read().replace("text.txt", "small.tokens").replace("model.json", "bpe.json").replace("[data]\n", '[data]\ntokenizer = "small.json"\n'))
    with open(folder + "/bpe.json", "w") as file:
        file.write(open(folder + "/model.json").read().replace("257", "300"))
    run("train", folder + "/bpe.toml", f"train.output={folder}/bpe")
    assert open(folder + "/bpe/tokenizer.json").read() == open(folder + "/small.json").read()
    assert run("generate", folder + "/bpe", "--prompt", "In the", "--tokens", "3").startswith("In the")

    seen = json.loads(run("doctor", "--json"))
    assert seen["cores"] >= 1 and seen["peak_flops_per_s"] > 1e9 and seen["bandwidth_bytes_per_s"] > 1e8 and isinstance(seen["problems"], list)

    presets = json.loads(run("presets", "--json"))
    assert len(presets) == 90 and {p["name"]: p["parameters"] for p in presets}["gpt2"] == 124439808
    program_text = run("train", run_file, "--ranks", "4", "--print-program=units")
    assert "REDUCE" in program_text and "unit L00" in program_text

# Every example that the help prints names real options, commands and files.
for command in ("train", "generate", "data", "check", "presets"):
    text = run(command, "--help")
    examples = re.findall(r"^  sextant (\S+)(.*)$", text, flags=re.M)
    assert examples, command
    for name, rest in examples:
        assert name == command
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in text.split("Examples:")[0] or option in text.split("Example:")[0], option
        for path in re.findall(r"examples/\S+", rest):
            assert os.path.exists(os.path.join(source, path)), path
print("ok")
