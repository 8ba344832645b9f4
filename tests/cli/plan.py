"""`sextant plan`, `simulate`, `explain`, `validate`, `calibrate` as people and programs use them.

Usage: plan.py PROGRAM SOURCE
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

program, source = sys.argv[1:]
folder = tempfile.TemporaryDirectory()


def start(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, cwd=folder.name)


def run(*arguments):
    done = start(*arguments)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    return done.stdout


def fails(code, message, *arguments):
    done = start(*arguments)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    assert done.stderr.startswith("error: ") and message in done.stderr, (arguments, done.stderr)
    assert done.stdout == "", (arguments, done.stdout)


def write(name, text):
    with open(os.path.join(folder.name, name), "w") as file:
        file.write(text)


small = ("plan", "--model", "llama3.1-8b", "--cluster", "h100-dgx", "--devices", "64", "--sequence", "8192")

# A plan: ranked, with a certificate; text and JSON say the same; the file is read by the other commands.
answer = json.loads(run(*small, "--global-batch", "512", "--json"))
plans, certificate = answer["plans"], answer["certificate"]
assert len(plans) == 5 and all(p["fits"] for p in plans)
steps = [p["step_time_s"] for p in plans]
assert steps == sorted(steps) and certificate["best"] == steps[0] and certificate["proved"]
assert certificate["bound"] >= plans[0]["bound_s"] and certificate["bound"] >= steps[0]
counts = certificate["counts"]
assert counts["simulated"] >= len(plans) and counts["memory"] > 0 and counts["bounded"] > 0 and counts["indivisible"] > 0
for p in plans + [answer["rule_of_thumb"]]:
    assert p["dp"] * p["cp"] * p["tp"] * p["pp"] == 64
    assert p["dp"] * p["microbatch_size"] * p["num_microbatches"] == 512
    parts = p["compute_s"] + sum(p["exposed_s"].values()) + p["bubble_s"]
    assert abs(parts - p["step_time_s"]) < 1e-6 * p["step_time_s"] and 0 < p["mfu"] < 1 and p["peak_bytes"] > 0
    assert set(p["exposed_s"]) == {"tp", "cp", "ep", "dp", "pp"}
assert answer["rule_of_thumb"]["step_time_s"] >= steps[0]
text = run(*small, "--global-batch-tokens", "4M", "--out", "best.toml", "--why-not", "tp=16")
for words in ("certificate: best", "rule of thumb", "why not tp=16: its best", "loses by", "8,030,261,248 parameters", "step time", "memory"):
    assert words in text, (words, text)
again = json.loads(run("simulate", "best.toml", "--json"))
assert abs(again["step_time_s"] - steps[0]) < 1e-9 and again["peak_bytes"] == plans[0]["peak_bytes"]
only = json.loads(run(*small, "--global-batch", "512", "--only", "tp=4,pp=2", "--json"))
assert all(p["tp"] == 4 and p["pp"] == 2 for p in only["plans"]) and only["plans"][0]["step_time_s"] > steps[0]
for words in (["plan"], small, small + ("--global-batch", "512", "--global-batch-tokens", "4M")):
    assert start(*words).returncode == 2, words

# Experts: all ways to spread them; the winner's file is simulated to the same time, and explained.
experts = ("plan", "--model", "mixtral-8x7b", "--cluster", "h100-dgx", "--devices", "64", "--sequence", "4096", "--global-batch", "512")
answer = json.loads(run(*experts, "--out", "experts.toml", "--json"))
steps = [p["step_time_s"] for p in answer["plans"]]
assert steps == sorted(steps) and answer["certificate"]["proved"]
for p in answer["plans"]:
    assert p["dp"] * p["cp"] * p["tp"] % (p["ep"] * p["etp"]) == 0 and 8 % p["ep"] == 0
    assert (p["exposed_s"]["ep"] > 0) == (p["ep"] * p["etp"] > 1)
assert answer["plans"][0]["ep"] > 1
again = json.loads(run("simulate", "experts.toml", "--json"))
assert abs(again["step_time_s"] - steps[0]) < 1e-9
# A rank with more rows than the mean holds and takes more.
unfair = json.loads(run("simulate", "experts.toml", "model.expert_imbalance=1.3", "--json"))
assert unfair["step_time_s"] > 1.05 * steps[0] and unfair["peak_bytes"] > again["peak_bytes"]
assert "experts" in run("explain", "experts.toml")
only = json.loads(run(*experts, "--only", "ep=1,etp=1", "--json"))
assert all(p["ep"] == p["etp"] == 1 for p in only["plans"]) and only["plans"][0]["step_time_s"] > steps[0]

# T1: a prediction of another job is said to be one (16 heads and SwiGLU in microbatches of one, for 8 heads and GELU in
# microbatches of eight).
def job(name, heads, family, microbatch):
    write(f"{name}.json", json.dumps(dict(model_type="llama", hidden_size=768, num_hidden_layers=12, num_attention_heads=heads,
          num_key_value_heads=heads, intermediate_size=3072, vocab_size=50304, max_position_embeddings=2048) if family == "llama"
          else dict(model_type="gpt2", n_embd=768, n_layer=12, n_head=heads, n_inner=3072, vocab_size=50304, n_positions=2048)))
    write(f"{name}.toml", f'[model]\nconfig = "{name}.json"\n[cluster]\nname = "a100-dgx"\ndevices = 1\n[workload]\nsequence = 2048\n'
          f'global_batch = 8\nprecision = "bf16"\n[plan]\nmicrobatch_size = {microbatch}\n')
    run("simulate", f"{name}.toml", f"--json={name}_out.json")
job("simulated", 16, "llama", 1)
job("measured", 8, "gpt2", 8)
found = json.loads(run("compare", "simulated_out.json", "measured_out.json", "--json"))["other_job"]
for words in ("heads 16 against 8", "activation swiglu against gelu", "microbatch_size 1 against 8"):
    assert words in found, (words, found)
assert json.loads(run("compare", "measured_out.json", "measured_out.json", "--json"))["other_job"] == []
assert "These are not the same job: " in run("compare", "simulated_out.json", "measured_out.json")

# How sure: an interval around the step, and what moves it; slower devices, and layers dealt out for them.
spread = json.loads(run("simulate", "experts.toml", "--spread", "--json"))["spread"]
assert spread["least_s"] < steps[0] < spread["greatest_s"] and any("over ep" in c["what"] for c in spread["changed"])
write("pipeline.toml", '[model]\nconfig = "llama3.1-8b"\n[cluster]\nname = "h100-dgx"\ndevices = 4\n[workload]\nsequence = 2048\n'
      'global_batch = 32\nprecision = "bf16"\n[plan]\npp = 4\ndp_shard = 1\nmicrobatch_size = 1\nrecompute = "full"\n')
slow = json.loads(run("simulate", "pipeline.toml", "--slow", "1=1.5,3=1.2", "--balance", "--json"))
assert slow["balanced_step_time_s"] < 0.95 * slow["step_time_s"]
assert sum(slow["balanced_stages"]) == 34 and slow["balanced_stages"][1] < slow["balanced_stages"][2]
assert start("simulate", "pipeline.toml", "--slow", "4=2").returncode == 2

# What nobody can plan.
fails(3, "did you mean llama3.1-8b?", "plan", "--model", "llama3.1-8", "--cluster", "h100-dgx", "--devices", "64", "--sequence", "8192", "--global-batch", "64")
fails(3, "did you mean h100-dgx?", "plan", "--model", "llama3.1-8b", "--cluster", "h100-dgk", "--devices", "64", "--sequence", "8192", "--global-batch", "64")
fails(3, "at most 65536", "plan", "--model", "llama3.1-8b", "--cluster", "h100-dgx", "--devices", "100000", "--sequence", "8192", "--global-batch", "64")
fails(3, "longer than the model's positions", "plan", "--model", "gpt2", "--cluster", "h100-dgx", "--devices", "8", "--sequence", "8192", "--global-batch", "64")
fails(4, "no plan fits: memory is what is short", "plan", "--model", "llama3.1-405b", "--cluster", "h100-dgx", "--devices", "32", "--sequence", "8192", "--global-batch", "64")
fails(4, "devices", "plan", "--model", "llama3.1-405b", "--cluster", "h100-dgx", "--devices", "32", "--sequence", "8192", "--global-batch", "64")
fails(4, "no plan fits: none of", *small[:6], "63", "--sequence", "8192", "--global-batch", "512")
fails(2, "did you mean pp?", *small, "--global-batch", "512", "--why-not", "ppp=4")
fails(2, "expected a number of tokens", *small, "--global-batch-tokens", "4G")
fails(3, "no whole number of sequences", *small, "--global-batch-tokens", "10000")

# Published: Llama 3 405B as it was trained; a slower coordinate; a trace.
published = os.path.join(source, "examples/plans/llama3-405b.toml")
base = json.loads(run("simulate", published, "--json"))
assert 0.35 < base["mfu"] < 0.5, base["mfu"]
slow = json.loads(run("simulate", published, "--slow", "3=1.2", "--json"))
assert slow["step_time_s"] > 1.1 * base["step_time_s"] and slow["imbalance_s"] > base["imbalance_s"]
once, twice, other = (json.loads(run("simulate", published, "--jitter", "0.05", "--seed", seed, "--json"))["step_time_s"] for seed in "112")
assert once == twice != other and once > base["step_time_s"]
run("simulate", published, "--trace", "step.json")
with open(os.path.join(folder.name, "step.json")) as file:
    assert len(json.load(file)["traceEvents"]) > 1000
fails(2, "expected PP=FACTOR", "simulate", published, "--slow", "99=2")
fails(3, "devices: is 16384, but the plan needs 6144", "simulate", published, "plan.tp=3")
fails(3, "tp = 3 does not divide", "simulate", published, "plan.tp=3", "cluster.devices=6144")
write("none.toml", "[model]\nconfig = \"gpt2\"\n[workload]\nsequence = 64\nglobal_batch = 2\n")
fails(3, "no cluster; write", "simulate", "none.toml")
assert "step time" in run("simulate", "none.toml", "--cluster", "a100-dgx")

# Explained: the numbers are those of the simulation.
text = run("explain", published)
for words in ("optimizer", "two moments, master copy", "/ 128 shards", "(pp - 1) / (V M) = (16 - 1) / (8 x 16) = 11.7 %", "attention in full", "of them)"):
    assert words in text, (words, text)
table = json.loads(run("explain", "--strategies", "--model", "llama3.1-8b", "--cluster", "h100-dgx", "--sequence", "8192", "--json"))["strategies"]
by_name = {row["strategy"]: row for row in table}
assert by_name["zero 3"]["peak_bytes"] < by_name["zero 2"]["peak_bytes"] < by_name["zero 1"]["peak_bytes"] < by_name["dp"]["peak_bytes"]
assert by_name["tp + sp"]["peak_bytes"] < by_name["tp"]["peak_bytes"] and by_name["one device"]["received_bytes"] == 0

# Published runs: rows, and figures by hand.
row = {"id": "x-1", "source": "s", "hardware": {"gpu": "A100-80GB", "gpus": 8},
       "model": {"layers": 4, "hidden": 1024, "heads": 8, "ffn_hidden": 4096, "vocab": 51200, "seq_len": 2048},
       "plan": {"dp": 8, "tp": 1, "pp": 1, "cp": 1, "mbs": 1, "gbs": 8, "precision": "BF16"}, "measured": {"iter_time_s": 0.1}}
write("runs.json", json.dumps([row, dict(row, id="x-2", hardware={"gpu": "abacus", "gpus": 8})]))
checked = json.loads(run("validate", "runs.json", "--json"))
first, second = checked["rows"]
assert second["reason"] == "no cluster file for abacus" and first["measured_s"] == 0.1 and first["fits"]
assert checked["overall"]["covered"] == 0.5
assert abs(checked["overall"]["mape"] - abs(first["predicted_s"] / 0.1 - 1)) < 1e-12
assert "x-1" in run("validate", "runs.json", "--rows")
write("bad.json", "{}")
fails(3, "expected a JSON array of rows", "validate", "bad.json")

# This machine, and a step that it predicts.
run("calibrate", "--ranks", "2", "--threads", "1", "--out", "machine.toml")
with open(os.path.join(folder.name, "machine.toml")) as file:
    assert "[kernels]" in file.read()
if shutil.which("mpirun"):
    run("calibrate", "--ranks", "2", "--threads", "1", "--backend", "mpi", "--out", "processes.toml")
    with open(os.path.join(folder.name, "processes.toml")) as file:
        assert "all-reduce of 2 ranks" in file.read()
write("model.json", json.dumps(dict(model_type="llama", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                    intermediate_size=128, vocab_size=257, max_position_embeddings=64)))
write("text.txt", "In the beginning God created the heaven and the earth. " * 200)
write("run.toml", '[model]\nconfig = "model.json"\n[cluster]\nname = "machine.toml"\n[workload]\nsequence = 64\nglobal_batch = 8\n[plan]\ndp_shard = 2\n'
                  '[data]\ntrain = "text.txt"\n[optimizer]\n[train]\nsteps = 5\nthreads = 1\n')
trained = json.loads(run("train", "run.toml", "--json"))
assert trained["predicted_step_time_s"] > 0 and trained["step_time_s"] > 0
with open(os.path.join(folder.name, "measured.json"), "w") as file:
    file.write(json.dumps(trained))
run("simulate", "run.toml", "--json=predicted.json")
compared = json.loads(run("compare", "predicted.json", "measured.json", "--json"))
assert compared["fields"]["comm_bytes_a_step"]["a"] == compared["fields"]["comm_bytes_a_step"]["b"] > 0
assert {"linear F", "attention I", "head I"} <= {t["what"] for t in compared["time_by_what"] if t["a_s"] > 0 and t["b_s"] > 0}
predicted = json.loads(run("simulate", "run.toml", "--json"))
assert predicted["step_time_s"] == trained["predicted_step_time_s"]

# A cluster file of one's own, and what can be wrong with it.
good = run("presets", "--clusters", "h100-dgx")
write("mine.toml", good)
assert json.loads(run("simulate", "none.toml", "--cluster", "mine.toml", "--json")) == json.loads(run("simulate", "none.toml", "--cluster", "h100-dgx", "--json"))
write("mine.toml", good.replace("memory_GBps", "memory_GBs"))
fails(3, "memory_GBps", "simulate", "none.toml", "--cluster", "mine.toml")
write("mine.toml", good.replace("bandwidth_GBps = 450", "bandwidth_GBps = -1"))
fails(3, "bandwidth_GBps", "simulate", "none.toml", "--cluster", "mine.toml")
assert len(json.loads(run("presets", "--clusters", "--json"))) == 20
