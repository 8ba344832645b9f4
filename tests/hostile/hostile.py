"""Runs the program on every folder that folders.py writes: exit code, what a good message names, nothing in it that
changes a terminal, the golden messages, and one and the same text from all valid folders.

Usage: hostile.py PROGRAM [--update]
"""
import json
import os
import subprocess
import sys
import tempfile
import unicodedata
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = sys.argv[1]
CODES = {"ok": 0, "invalid": 3, "corrupt": 5, "storage": 9}
# Decided otherwise than folders.py expects: a plain name that does not exist is a missing file; a file with more values
# than its size explains is refused before anybody knows what they are for.
DECIDED = {"index_entry_percent": 9}
NEED_NOT_NAME = {"config_many_values", "index_entry_percent"}


def run(folder):
    return subprocess.run([PROGRAM, "generate", folder, "--prompt", "In", "--tokens", "3"], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)


def main():
    golden = {}
    failures = 0
    with tempfile.TemporaryDirectory() as parent:
        subprocess.run([sys.executable, f"{HERE}/folders.py", parent], check=True, stdout=subprocess.DEVNULL)
        with open(f"{parent}/cases.json") as file:
            cases = json.load(file)
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda c: run(f"{parent}/{c['name']}"), cases))
        texts = set()
        for case, result in zip(cases, results):
            folder, wrong = f"{parent}/{case['name']}", []
            text = result.stderr.decode("utf-8", "replace")
            expected = DECIDED.get(case["name"], CODES[case["expect"]])
            if result.returncode != expected:
                wrong.append(f"exit code {result.returncode}, expected {expected}")
            if expected == 0:
                texts.add(result.stdout)
                continue
            shown = text.replace(folder, "{}")
            if case["name"] not in NEED_NOT_NAME:
                wrong += [f"does not name {must!r}" for must in case["must_name"] if must not in shown]
            odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n"}
            if odd or "\ufffd" in text or len(text) > 4096 or text.count("\n") > 2 or not text.startswith("error: "):
                wrong.append(f"is no message for a terminal: {sorted(map(ascii, odd))}, {len(text)} characters")
            golden[case["name"]] = f"{result.returncode} {shown.strip()}"
            if wrong:
                failures += 1
                print(f"{case['name']} ({case['what']}): {'; '.join(wrong)}\n  {shown}")
        if len(texts) != 1:
            failures += 1
            print(f"valid folders give {len(texts)} different texts")
    path = f"{HERE}/messages.json"
    if "--update" in sys.argv:
        with open(path, "w") as file:
            json.dump(golden, file, indent=1, ensure_ascii=False)
            file.write("\n")
    with open(path) as file:
        for name, message in json.load(file).items():
            if golden.get(name) != message:
                failures += 1
                print(f"{name}: message changed\n  golden: {message}\n  now:    {golden.get(name)}")
    print(f"{len(cases)} cases, {failures} failures")
    sys.exit(failures > 0)


main()
