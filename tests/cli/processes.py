"""Training on processes: the same losses as on threads; one message and the right code whatever goes wrong.

Usage: processes.py PROGRAM
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bad_input"))
from bad_input import write_inputs  # noqa: E402

PROGRAM = sys.argv[1]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_plm": "isolated", "OMPI_MCA_orte_execute_quiet": "1"}


def run(words, folder, environment=None, **more):
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})}, **more)


def errors(text):
    return [line for line in text.splitlines() if line.startswith("error:")]


def require(condition, what, result):
    if not condition:
        print(f"{what}\n--- code {result.returncode}\n{result.stdout}\n{result.stderr}")
        sys.exit(1)


def start(folder, words, **more):
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ, **MPI}, **more)
    for line in process.stderr:
        if line.startswith("step 3/"):
            return process
    sys.exit("the run did not start")


def ranks_of(folder):
    """Processes of the run in this folder, by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") != folder or os.readlink(f"/proc/{pid}/exe") != PROGRAM:
                continue
            with open(f"/proc/{pid}/environ") as file:
                rank = re.search("OMPI_COMM_WORLD_RANK=([0-9]+)", file.read())
            if rank:
                found[int(rank.group(1))] = int(pid)
        except OSError:
            pass
    return found


def losses(folder, name):
    with open(f"{folder}/{name}") as file:
        return json.load(file)["losses"]


with tempfile.TemporaryDirectory() as parent:
    a, b = f"{parent}/a", f"{parent}/b"
    for folder in (a, b):
        os.mkdir(folder)
        write_inputs(folder)
    train = [PROGRAM, "train", "good.toml", "train.output=out"]

    # The same numbers on both backends, whether mpirun is started or starts.
    result = run(train + ["--ranks", "4", "--json=threads.json"], a)
    require(result.returncode == 0, "threads", result)
    result = run(train + ["--ranks", "4", "--backend", "mpi", "--json=mpi.json"], a)
    require(result.returncode == 0 and losses(a, "mpi.json") == losses(a, "threads.json"), "--backend mpi", result)
    require("OMPI_MCA_rmaps_base_oversubscribe=1" in result.stderr, "what is set is said", result)
    for nodes in ("", "2", "1"):
        result = run(["mpirun", "-n", "4"] + train + ["--json=mpi.json", "--trace=trace.json"], a, {**MPI, "SEXTANT_RANKS_PER_NODE": nodes})
        with open(f"{a}/trace.json") as file:
            require({e["pid"] for e in json.load(file)["traceEvents"]} == {0, 1, 2, 3}, "a trace of all processes", result)
        require(result.returncode == 0 and losses(a, "mpi.json") == losses(a, "threads.json"), "mpirun", result)
    # Two machines, as far as Open MPI can tell: a host of another name, reached by an agent in place of ssh.
    agent = f"{parent}/agent.sh"
    with open(agent, "w") as file:
        file.write('#!/bin/sh\nh=$1; shift; exec unshare -u sh -c \'hostname "$0"; exec sh -c "$1"\' "$h" "$*"\n')
    os.chmod(agent, 0o755)
    if run(["unshare", "-u", "true"], a).returncode == 0:
        hosts = {**MPI, "OMPI_MCA_plm_rsh_agent": agent, "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
        del hosts["OMPI_MCA_plm"]
        result = run(["mpirun", "--host", f"{socket.gethostname()}:2,another-node:2"] + train + ["--json=mpi.json"], a, hosts)
        require(result.returncode == 0 and losses(a, "mpi.json") == losses(a, "threads.json"), "two hosts", result)
        require("4 ranks (processes of mpirun, 2 here)" in result.stderr, "two ranks a host", result)
    else:
        print("not tested: two hosts on one machine; this user may not give a process another host name")

    result = run(["mpirun", "-n", "3", PROGRAM, "check", "good.toml"], a, MPI)
    require(result.returncode == 0 and result.stdout == run([PROGRAM, "check", "good.toml"], a).stdout, "check", result)

    # Ranks that see different things, on one node and on several.
    both = ["mpirun", "-n", "2"] + [PROGRAM, "train", f"{a}/good.toml"] + [":", "-n", "2", PROGRAM, "train", f"{b}/good.toml"]
    with open(f"{b}/text.txt", "r+b") as file:
        file.seek(100)
        file.write(b"#")
    for nodes in ("", "2"):
        environment = {**MPI, "SEXTANT_RANKS_PER_NODE": nodes}
        result = run(both, a, environment)
        require(result.returncode == 5 and len(errors(result.stderr)) == 1
                and "rank 2 sees something else than rank 0" in result.stderr, "another text", result)
    os.remove(f"{b}/text.txt")
    for nodes in ("", "2"):
        environment = {**MPI, "SEXTANT_RANKS_PER_NODE": nodes}
        result = run(both, a, environment)
        require(result.returncode == 9 and len(errors(result.stderr)) == 1 and "text.txt" in result.stderr, "no text", result)
    result = run(both[:-1] + [f"{b}/good.toml", "train.steps=9"], a, MPI)
    require(len(errors(result.stderr)) == 1, "no text, other settings", result)
    shutil.copy(f"{a}/text.txt", f"{b}/text.txt")
    result = run(both + ["train.steps=9"], a, MPI)
    require(result.returncode == 5 and len(errors(result.stderr)) == 1 and "settings" in result.stderr, "other settings", result)

    # A bad run file, a plan for other ranks: said once.
    result = run(["mpirun", "-n", "4"] + train + ["optimizer.learning_rat=1"], a, MPI)
    require(result.returncode == 3 and len(errors(result.stderr)) == 1 and "learning_rate" in result.stderr, "bad key", result)
    result = run(["mpirun", "-n", "4"] + train + ["plan.dp_shard=2"], a, MPI)
    require(result.returncode in (2, 3) and len(errors(result.stderr)) == 1, "ranks", result)
    result = run(["mpirun", "-n", "2"] + train + ["--backend", "threads"], a, MPI)
    require(result.returncode == 2 and "threads" in errors(result.stderr)[0], "threads under mpirun", result)

    # A rank dies, or stops, in the middle of a run.
    endless = ["train.steps=1000000000", "train.log_every=1", "train.timeout_s=1"]
    for name, sent in (("dead", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        process = start(a, train + endless + ["--ranks", "4", "--backend", "mpi"])
        os.kill(ranks_of(a)[2], sent)
        text = process.stderr.read()
        code = process.wait(timeout=60)
        said = errors(text)
        if code != 7 or len(said) != 1 or not said[0].startswith(f"error: {name} in ") or "rank 2" not in said[0]:
            sys.exit(f"{name}: code {code}\n{text}")
        with open(f"{a}/out/collectives.json") as file:
            dump = json.load(file)
        assert [r["rank"] for r in dump["ranks"]] == [0, 1, 2, 3] and all(r["collectives"] for r in dump["ranks"])
        time.sleep(0.1)
        left = ranks_of(a)
        assert not left, left

    # Ctrl-C: the step is finished and the weights are saved, whenever it comes.
    launched = ["--ranks", "4", "--backend", "mpi"]
    for delay in (0.02, 0.1, 0.2, None):
        if delay is None:
            process = start(a, train + endless + launched)
        else:
            process = subprocess.Popen(train + endless + launched, cwd=a, stderr=subprocess.PIPE, text=True)
            time.sleep(delay)
        process.send_signal(signal.SIGINT)
        text = process.stderr.read()
        code = process.wait(timeout=60)
        assert code == 130 and len(errors(text)) == 1 and "are saved" in text, (delay, code, text)
        assert not ranks_of(a)

    # Under nohup a hang-up changes nothing.
    for backend in ([], ["--backend", "mpi"]):
        process = start(a, train + endless + ["--ranks", "2"] + backend, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        text = process.stderr.read()
        assert process.wait(timeout=60) == 130, text

    # mpirun is killed: said once. Who watches goes: the run goes on. What cannot be written is said.
    process = start(a, train + endless + launched)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    text = process.stderr.read()
    assert process.wait(timeout=60) == 7 and len(errors(text)) == 1 and "signal 9" in text, text
    process = start(a, train + ["train.steps=300", "train.log_every=1"] + launched)
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    with open("/dev/full", "w") as full:
        result = subprocess.run(train + launched + ["--json"], cwd=a, stdout=full, stderr=subprocess.PIPE, text=True)
    require(result.returncode == 9 and len(errors(result.stderr)) == 1, "full", result)

    # Signals in the middle of a product change nothing in memory.
    with open(f"{a}/large.json", "w") as file:
        json.dump(dict(json.load(open(f"{a}/model.json")), hidden_size=512, intermediate_size=2048, num_hidden_layers=2), file)
    process = start(a, train + endless + ["model.config=large.json", "workload.sequence=32"])
    for _ in range(1000):
        if process.poll() is None:
            process.send_signal(signal.SIGUSR1)
        time.sleep(0.0005)
    text = process.stderr.read()
    assert process.wait(timeout=60) == 130, text
print("ok")
