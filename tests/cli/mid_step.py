"""A rank that dies or is stopped in the middle of a step, under every strategy: the run ends with a verdict that names the
rank, the operation, where in the program it stands, and for messages peer and tag.

Usage: mid_step.py PROGRAM
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad_input"))
from bad_input import write_inputs  # noqa: E402

program = sys.argv[1]
MESSAGE = r"(RECV|SEND) (act|grad) \d->\d mb\d (to|from) \d"
# A strategy, and what must stand in the verdict if it is found where its ranks talk within a step.
PLANS = {
    "pipeline": ("plan.pp=2 plan.num_microbatches=4 plan.schedule=zb-h1", rf"(recv from|send to) rank \d, tag \d+ at {MESSAGE}|{MESSAGE}"),
    "tensor": ("plan.tp=2", r"all_reduce(_max)?\(\d+ x f32\) at \S+"),
    "sequence": ("plan.tp=2 plan.sequence_parallel=true", r"(all_gather|reduce_scatter|all_reduce(_max)?)\(\d+ x f32\) at \S+"),
    "fully_sharded": ("plan.dp_shard=2 plan.zero=3", r"(all_gather|reduce_scatter)\(\d+ x f32\) at (parameters|gradients) of \S+"),
    # Gradients are summed over cp ranks too.
    "context": ("plan.cp=2", r"(all_gather|reduce_scatter|all_reduce)\(\d+ x f32\) at \S+"),
}


def rank_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", file.read())
        with open(f"/proc/{pid}/comm") as file:
            return int(found[1]) if found and file.read().strip() == "sextant" else None
    except OSError:
        return None


failed = False
with tempfile.TemporaryDirectory() as folder:
    write_inputs(folder)
    for how in (signal.SIGKILL, signal.SIGSTOP):
        runs = {}
        for name, (plan, wanted) in PLANS.items():
            place = f"{folder}/{how.name}-{name}"
            os.mkdir(place)
            runs[name] = (subprocess.Popen([program, "train", folder + "/good.toml", *plan.split(), "--backend", "mpi", "train.steps=1000000", "train.timeout_s=5",
                                            "train.log_every=1", "train.threads=1"], cwd=place, stderr=open(place + "/err", "w"), env=dict(os.environ, HOME=place)), place, wanted)
        for name, (process, place, _) in runs.items():
            end = time.time() + 60
            while "step 3/" not in open(place + "/err").read() and process.poll() is None and time.time() < end:
                time.sleep(0.05)
            mine = []
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                try:
                    if rank_of(pid) == 1 and os.readlink(f"/proc/{pid}/cwd") == place:
                        mine.append(pid)
                except OSError:
                    pass
            assert len(mine) == 1, (name, mine, open(place + "/err").read()[-2000:])
            os.kill(mine[0], how)
            runs[name] += (mine[0],)
        for name, (process, place, wanted, pid) in runs.items():
            try:
                code = process.wait(60)
            except subprocess.TimeoutExpired:
                code = "hangs"
                process.kill()
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
            text = open(place + "/err").read()
            verdict = "".join(line for line in text.splitlines() if line.startswith("error: "))
            named = re.search(wanted, verdict) and re.search(r"rank 1[, ]", verdict)
            between = re.search(r"loss, norm and wish|count of valid|last sums", verdict)  # it fell between two of its operations
            ok = code == 7 and (named or between)
            failed |= not ok
            print(f"{how.name} {name}: {'ok' if ok else 'FAILED'}: {code}: {verdict[:300]}")
sys.exit(1 if failed else 0)
