"""Verdicts of hangs: every class of fault on both backends, with seeds. faults.py PROGRAM SEEDS_PER_CLASS [BACKEND]"""
import json
import os
import subprocess
import sys
import tempfile

CLASSES = ["missing", "order", "kind", "count", "dtype", "root", "dead", "stopped", "stuck"]
# In the middle of a transfer, of processes: the verdict is the one of the first word.
HALFWAY = ["dead_halfway", "stopped_halfway"]
CLASSES_OF = {"threads": CLASSES, "mpi": CLASSES + HALFWAY, "nodes": CLASSES[1:6] + ["dead", "stopped"] + HALFWAY}
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_plm": "isolated",
       "OMPI_MCA_orte_execute_quiet": "1"}


def run(program, backend, name, seed, ranks, folder, steps=40):
    command = [program, name, str(seed), str(ranks), str(steps)]
    environment = {**os.environ, **MPI}
    if backend != "threads":
        command = ["mpirun", "-n", str(ranks)] + command
    if backend == "nodes":
        environment["SEXTANT_RANKS_PER_NODE"] = "2"
        environment["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"  # as between nodes: none reads another's memory
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def main():
    program, seeds = sys.argv[1], int(sys.argv[2])
    backends = sys.argv[3:] or ["threads", "mpi", "nodes"]
    wrong = done = 0
    with tempfile.TemporaryDirectory() as folder:
        for backend in backends:
            for name in CLASSES_OF[backend]:
                cause = name.split("_")[0]
                for seed in range(seeds):
                    ranks = 3 + seed % 3
                    if backend == "nodes" and cause in ("dead", "stopped"):
                        ranks = 4  # a rank alone on its node shows less
                    result = run(program, backend, name, seed, ranks, folder)
                    verdicts = [l for l in result.stdout.splitlines() if l.startswith("VERDICT")]
                    # The culprit is drawn in the program; its name in the verdict is checked against a dry draw there.
                    expected = subprocess.run([program, "--culprit", name, str(seed), str(ranks)], capture_output=True,
                                              text=True).stdout.strip()
                    problems = []
                    if len(verdicts) != 1:
                        problems.append(f"{len(verdicts)} verdicts")
                    elif not verdicts[0].startswith(f"VERDICT {cause} {expected} "):
                        problems.append(f"expected {cause} of rank {expected}")
                    # mpirun itself answers for a rank that was killed by a signal.
                    if result.returncode != 7 and not (backend != "threads" and cause == "dead" and result.returncode == 137):
                        problems.append(f"exit code {result.returncode}")
                    if not (backend == "threads" and name == "dead"):
                        try:
                            # A second speaker that mpirun ended while it wrote leaves its temporary file: that is no dump.
                            dumps = [f for f in sorted(os.listdir(folder))
                                     if f.startswith(f"faults-{name}-{seed}.json") and ".tmp" not in f]
                            found = []
                            for path in dumps:
                                with open(f"{folder}/{path}") as file:
                                    found += json.load(file)["ranks"]
                                os.remove(f"{folder}/{path}")
                            numbers = [r["rank"] for r in found]
                            if not numbers or (backend != "nodes" and numbers != list(range(ranks))):
                                problems.append(f"the dump has ranks {numbers}")
                            if not all(r["collectives"] for r in found):
                                problems.append("the dump has a rank without collectives")
                        except (OSError, ValueError) as error:
                            problems.append(f"dump: {error}")
                    done += 1
                    if problems:
                        wrong += 1
                        print(f"{backend} {name} seed {seed}: {'; '.join(problems)}\n  {result.stdout}  {result.stderr}")
    print(f"{done - wrong} of {done} verdicts right")
    return wrong > 0


sys.exit(main())
