"""Ctrl-C in a run: the step is finished, weights are saved, exit code 130, and the weights can be used.

Usage: interrupt.py PROGRAM
"""
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from bad_input import write_inputs  # noqa: E402

for ranks in ("1", "4"):
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(folder)
        process = subprocess.Popen([sys.argv[1], "train", folder + "/good.toml", "--ranks", ranks, "train.steps=1000000000", "train.log_every=1", f"train.output={folder}/out"],
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("step 3/"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        code = process.wait(timeout=60)
        assert code == 130, (code, rest)
        assert "error: interrupted behind step" in rest and "saved" in rest, rest
        written = subprocess.run([sys.argv[1], "generate", folder + "/out", "--prompt", "In", "--tokens", "3"], capture_output=True, text=True, timeout=60)
        assert written.returncode == 0 and written.stdout.startswith("In"), written
print("ok")
