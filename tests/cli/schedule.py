"""`sextant schedule` as people and programs use it: numbers, lists, pictures, traces, and every bad input.

Usage: schedule.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

program = sys.argv[1]
folder = tempfile.TemporaryDirectory()


def start(*arguments):
    return subprocess.run([program, "schedule", *arguments], capture_output=True, text=True, timeout=60, cwd=folder.name)


def run(*arguments):
    done = start(*arguments)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    assert not done.stderr, done.stderr
    return done.stdout


def fails(code, message, *arguments):
    done = start(*arguments)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    assert done.stderr == f"error: {message}\n", (arguments, done.stderr)
    assert not done.stdout


def write(name, text):
    with open(os.path.join(folder.name, name), "w") as file:
        file.write(text)


def read(name):
    with open(os.path.join(folder.name, name)) as file:
        return file.read()


shape = ("--stages", "4", "--microbatches", "8")

# Numbers as schedules.md has them.
v = json.loads(run("zb-v", *shape, "--json"))
assert v["makespan"] == 25.5 and v["bubble"] == 1.5 and abs(v["bubble_fraction"] - 0.0588) < 1e-4 and v["span_bubble"] == 0
assert v["peak_chunks"] == [8, 8, 8, 8] and v["sends"] == 96 and v["stages"] == 8
v = json.loads(run("1f1b", *shape, "--json", "--latency", "0.25", "--times", "1,1,1"))
assert v["makespan"] == 37 and v["peak_chunks"] == [4, 3, 2, 1]
assert v["ops"][2] == "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7"
for rank in v["time_by_rank"]:
    assert abs(sum(rank.values()) - v["makespan"]) < 1e-9, rank
for changes, peak in zip(v["live_chunks"], v["peak_chunks"]):
    assert max(n for _, n in changes) == peak and changes[-1][1] == 0 and changes == sorted(changes, key=lambda c: c[0])
path = v["critical_path"]
assert path[0]["start"] == 0 and path[0]["rank"] == 0 and path[-1]["end"] == v["makespan"]
assert all(a["end"] <= b["start"] + 1e-9 for a, b in zip(path, path[1:]))

# What is written is read again as the same schedule, pairs and mirrors included.
for kind, more in (("interleaved", ("--virtual", "3", "--group", "5")), ("zb-v", ()), ("dualpipe", ()), ("dualpipe-v", ())):
    one = json.loads(run(kind, *shape, *more, "--csv=a.csv", "--json"))
    again = json.loads(run("csv:a.csv", "--json"))
    assert again["schedule"] == "csv:a.csv"
    for field in ("makespan", "ops", "peak_chunks", "sends", "critical_path"):
        assert one[field] == again[field], (kind, field)
    assert run(kind, *shape, *more, "--csv") == read("a.csv")

# Pictures: plain where piped, as wide as asked, in colour where asked.
for width in (80, 100, 200):
    lines = run("1f1b", *shape, "--width", str(width)).splitlines()
    rows = [line for line in lines if re.match(r"r\d", line)][:4]
    assert all(len(line) <= width for line in lines[:8]) and max(map(len, rows)) == width, (width, rows)
    assert "\033" not in "".join(lines)
    assert rows[0].startswith("r0 F0") and "B0=" in rows[3]
assert "\033[48;5;" in run("1f1b", *shape, "--colour")
assert max(len(line) for line in run("1f1b", *shape).splitlines()[:6]) == 80

# Many ranks and microbatches are drawn too, and an idle rank's row is blank there.
assert len(run("1f1b", "--stages", "64", "--microbatches", "256").splitlines()) > 64

# SVG is XML, one box for each action (and one behind all, and legends); the trace has every action and message.
run("zb-v", *shape, "--svg", "a.svg", "--trace", "a.json")
tree = ElementTree.fromstring(read("a.svg"))
titles = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}title")]
assert len(titles) == 4 * 2 * 8 * 3 and "0F0: 0 to 0.5" in titles
events = json.loads(read("a.json"))["traceEvents"]
slices = [e for e in events if e["ph"] == "X"]
assert sum(re.match(r"\d", e["name"]) is not None for e in slices) == 4 * 2 * 8 * 3
assert sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) == 96
assert max(e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "live chunks") == 8
assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {f"rank {r}" for r in range(4)}
by_thread = {}
for e in slices:
    by_thread.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
for thread in by_thread.values():
    for a, b in zip(thread, thread[1:]):
        assert b[0] >= a[1] - 1e-3 or b[1] <= a[1] + 1e-3, (a, b)

text = run("zb-v", *shape, "--print-program")
assert "3I0{ u3 }" in text and "SEND act 0->1 mb0 to 1" in text and "pp 3" in text
assert "zb-v" in run() and "csv:FILE" in run()

# Bad input: one message, with the rule and what would be valid.
fails(2, "sextant schedule: there is no schedule zbv; did you mean zb-v? (bfs, dualpipe, dualpipe-v, gpipe, interleaved, naive, 1f1b, zb-capped, zb-h1, zb-h2, zb-v, or csv:FILE)", "zbv", *shape)
fails(2, "sextant schedule: --microbatches is missing: sextant schedule gpipe --stages 4 --microbatches 8", "gpipe", "--stages", "4")
fails(2, "sextant schedule: a kind is missing: sextant schedule 1f1b --stages 4 --microbatches 8 ('sextant schedule' lists the kinds)", *shape)
fails(2, "sextant schedule: schedule dualpipe does not go with this shape:\n  - pipeline ranks = 3 is odd, and its two directions meet in the middle; use 2 or 4\n"
      "  - microbatches = 5 is less than twice the 3 pipeline ranks; use at least 6", "dualpipe", "--stages", "3", "--microbatches", "5")
fails(2, "sextant schedule: schedule dualpipe-v does not go with this shape:\n  - microbatches = 7 is less than twice the 4 pipeline ranks; use at least 8", "dualpipe-v", "--stages", "4", "--microbatches", "7")
fails(2, "sextant schedule: schedule interleaved does not go with this shape:\n  - group = 2 is less than the 4 pipeline ranks, and ranks would wait for each other; use group = 4 or more", "interleaved", *shape, "--group", "2")
fails(2, "sextant schedule: --stages: found '0', expected an integer from 1 to 16384", "gpipe", "--stages", "0", "--microbatches", "8")
for bad in ("1,1", "1,1,1,1", "0,0,0", "-1,1,1", "nan,1,1", "inf,1,1", "1, 1,1", "a", "", "1e99,1,1"):
    fails(2, f"sextant schedule: --times: found '{bad}', expected three numbers from 0 to 1e9, at least one above 0, for F, I and W: --times 1,1,1", "gpipe", *shape, f"--times={bad}")
fails(2, "sextant schedule: --latency: found 'nan', expected a number from 0 to 1e+09", "gpipe", *shape, "--latency", "nan")
fails(2, "sextant schedule: --width: found '20', expected an integer from 80 to 200", "gpipe", *shape, "--width", "20")
fails(2, "--json and --csv both go to standard output; give one a file: --csv=FILE", "gpipe", *shape, "--json", "--csv")
fails(2, "sextant schedule: 16384 ranks x 1048576 microbatches x 1 chunks are more than 20000000 passes; use fewer microbatches: what repeats shows in a few", "gpipe", "--stages", "16384", "--microbatches", "1048576")
fails(9, "none.csv: cannot be read: No such file or directory", "csv:none.csv")
write("missing.csv", "0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n")
fails(3, "missing.csv: is no schedule of 2 stages and 2 microbatches:\n  - missing.csv:1: rank 0: 0B1 is missing; every stage runs every microbatch once", "csv:missing.csv")
write("doubled.csv", "0F0,0F0,0B0\n1F0,1B0\n")
fails(3, "doubled.csv: is no schedule of 2 stages and 1 microbatches:\n  - doubled.csv:1: rank 0: 0F0 comes twice; leave one of them out", "csv:doubled.csv")
write("circle.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
fails(3, "circle.csv: this program is not sound:\n  - pp 0, instruction 5 [deadlock]: ranks wait for each other's results: pp 0 waits in WAIT RECV grad 1->0 mb0 from 1 (instruction 5) for pp 1; "
      "pp 1 waits in WAIT RECV act 0->1 mb1 from 0 (instruction 3) for pp 0; put what one of them waits for earlier in the other's list", "csv:circle.csv")
fails(3, "a.csv: has ranks (rows) = 4, but 3 was asked for; use 4", "csv:a.csv", "--stages", "3")
fails(3, f"--svg a.csv: is read or written by this command as something else; use another file", "csv:a.csv", "--svg", "a.csv")
print("ok")
