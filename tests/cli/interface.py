"""What other programs rely on: JSON fields, metrics lines, text forms, and the examples that --help prints.

Usage: interface.py PROGRAM SOURCE_FOLDER
"""
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time

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

    # A mixed plan: proved, trained with every promise kept, traced, compared with another.
    mixed = ["plan.tp=2", "plan.pp=2", "plan.dp_shard=2", "plan.zero=3", "plan.num_microbatches=2"]
    verdict = json.loads(run("verify", run_file, *mixed, "--json"))
    assert verdict["proved"] and verdict["ranks"] == 8 and verdict["worst_relative_error"] < 1e-10 and verdict["bytes_match"] and verdict["peak_memory_match"]
    assert verdict["worst_tensor"].startswith(("gradient of ", "weight ", "loss", "gradient norm"))
    run("train", run_file, *mixed, "train.steps=3", f"--json={folder}/mixed.json", "--trace", folder + "/trace.json", f"train.output={folder}/mixed")
    ours = json.load(open(folder + "/mixed.json"))
    assert ours["comm_bytes"] == ours["predicted_comm_bytes"] > 0 and ours["peak_memory_bytes"] == ours["predicted_peak_memory_bytes"]
    assert ours["comm_by_group_bytes"] == ours["predicted_comm_by_group_bytes"] and ours["comm_by_group_bytes"]["messages"] > 0
    assert all(abs(x - y) < 1e-4 * y for x, y in zip(ours["losses"], summary["losses"])), (ours["losses"], summary["losses"])
    events = json.load(open(folder + "/trace.json"))["traceEvents"]
    assert {e["pid"] for e in events} == set(range(8)) and sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) > 0
    again = json.loads(run("train", run_file, f"train.initial_weights={folder}/mixed", "--json"))["losses"][0]
    other = json.loads(run("train", run_file, *mixed, f"train.initial_weights={folder}/mixed", "--json"))["losses"][0]
    assert abs(again - other) < 1e-5 * again
    with open(folder + "/one.json", "w") as file:
        file.write(json.dumps(summary))
    compared = json.loads(run("compare", folder + "/one.json", folder + "/mixed.json", "--json"))
    assert compared["fields"]["final_loss"]["a"] == summary["final_loss"] and compared["b_over_a"] > 0 and compared["time_by_what"]

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

    # A tokenizer of another model in the folder: not used for one of bytes, which takes no other either.
    run("train", run_file, f"train.output={folder}/bpe")
    assert run("generate", folder + "/bpe", "--prompt", "In the", "--tokens", "3").startswith("In the")
    refused = subprocess.run([program, "generate", folder + "/bpe", "--prompt", "x", "--tokenizer", folder + "/small.json"], capture_output=True, text=True)
    assert refused.returncode == 3 and "trained on tokens of bytes" in refused.stderr, refused.stderr

    # One file twice is twice its tokens, on any number of threads; leftovers of a killed run go; two runs at once do not mix.
    for threads in ("1", "4"):
        tokens = json.loads(run("data", folder + "/text.txt", folder + "/text.txt", "--out", folder + "/two.tokens", "--threads", threads, "--json"))
        assert tokens["documents"] == 2 and tokens["tokens"] == 2 * (text_bytes - 6 + 1), tokens
    os.mkdir(folder + "/two.tokens.parts")
    for left in ("/two.tokens.tmp123", "/two.tokens.parts/0123456789abcdef.part"):
        open(folder + left, "w").close()
    holder = os.open(folder + "/two.tokens.parts", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    refused = subprocess.run([program, "data", folder + "/text.txt", "--out", folder + "/two.tokens"], capture_output=True, text=True)
    assert refused.returncode == 9 and "in use by another" in refused.stderr, refused.stderr
    os.close(holder)
    run("data", folder + "/text.txt", "--out", folder + "/two.tokens")
    assert not [name for name in os.listdir(folder) if name.startswith("two.tokens.")]

    # A save of many files that is killed leaves the old weights or none, but never a mixture.
    with open(folder + "/wide.json", "w") as file:
        file.write(json.dumps(dict(json.load(open(folder + "/model.json")), vocab_size=20000)))
    save = ["train", run_file, f"model.config={folder}/wide.json", "train.steps=1", f"train.output={folder}/many", "train.shard_bytes=20000"]
    def saved():
        many = folder + "/many"
        if not os.path.exists(many + "/model.safetensors.index.json"):
            return None
        with open(many + "/model.safetensors.index.json") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
        return [open(f"{many}/{name}", "rb").read() for name in names]

    run(*save, "train.seed=2")
    second = saved()
    run(*save)
    first = saved()
    assert len(first) == 3 and first != second
    for delay in range(6):
        process = subprocess.Popen([program, *save, "train.seed=2"], stderr=subprocess.DEVNULL)
        while process.poll() is None and not any(".tmp" in name for name in os.listdir(folder + "/many")):
            pass
        time.sleep(delay / 1000)
        process.kill()
        process.wait()
        assert saved() in (None, first, second), delay
        run(*save)

    seen = json.loads(run("doctor", "--json"))
    assert seen["cores"] >= 1 and seen["peak_flops_per_s"] > 1e9 and seen["bandwidth_bytes_per_s"] > 1e8 and isinstance(seen["problems"], list)

    presets = json.loads(run("presets", "--json"))
    assert len(presets) == 90 and {p["name"]: p["parameters"] for p in presets}["gpt2"] == 124439808
    program_text = run("train", run_file, "--ranks", "4", "--print-program=units")
    assert "REDUCE" in program_text and "unit L00" in program_text

# Every example that the help prints names real options, commands and files.
for command in ("train", "generate", "data", "check", "verify", "schedule", "compare", "presets", "plan", "simulate", "explain", "validate", "calibrate"):
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
