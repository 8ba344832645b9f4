"""Ids of 200 random Unicode strings under fifteen ways to prepare text, against those of Hugging Face's own library
(golden.json, made by scripts/tokenizer_oracles --golden). For NFC the text is normalised before, since that library's
tables are older than Unicode 14.

Usage: golden.py PROGRAM...: our encode_lines; or, to write golden.json, "--write" and an oracle ("node rust.mjs").
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import variants  # noqa: E402


def inputs(folder):
    """Writes the strings; returns their file by variant."""
    plain, normal = f"{folder}/strings.jsonl", f"{folder}/strings_nfc.jsonl"
    subprocess.run(["/usr/bin/python3", f"{HERE}/random_strings.py", "200", "5", plain], check=True)
    extra = ["a <mask> b<sep>  c", "x\n\nif ifx  <|endoftext|>\u00a0<mask>", "if" * 9, "   a    b        c", "aaaaaaaaaaa" * 30, ""]
    with open(plain, "a") as file:
        file.writelines(json.dumps(text) + "\n" for text in extra)
    with open(plain) as file, open(normal, "w") as out:
        out.writelines(json.dumps(unicodedata.normalize("NFC", json.loads(line))) + "\n" for line in file)
    return {name: normal if v[0] else plain for name, v in variants.VARIANTS.items()}


def digests(path):
    with open(path) as file:
        return [hashlib.sha1(line.strip().replace(" ", "").encode()).hexdigest()[:8] for line in file]


def main():
    program = [word for word in sys.argv[1:] if word != "--write"]
    with tempfile.TemporaryDirectory() as folder:
        files = inputs(folder)
        variants.write(folder)
        found = {}
        for name, strings in files.items():
            subprocess.run([*program, f"{folder}/{name}.json", strings, f"{folder}/out"], check=True, stderr=subprocess.DEVNULL)
            found[name] = digests(f"{folder}/out")
        if "--write" in sys.argv:
            with open(f"{HERE}/golden.json", "w") as file:
                json.dump(found, file, indent=0)
                file.write("\n")
            return 0
        with open(f"{HERE}/golden.json") as file:
            golden = json.load(file)
        failures = 0
        for name, strings in files.items():
            with open(strings) as file:
                texts = file.read().splitlines()
            wrong = [i for i in range(len(texts)) if found[name][i] != golden[name][i]]
            failures += len(wrong)
            if wrong:
                print(f"{name}: {len(wrong)} of {len(texts)} strings differ, the first: {texts[wrong[0]]}")
        print(f"{len(files)} variants, {failures} failures")
        return failures > 0


sys.exit(main())
