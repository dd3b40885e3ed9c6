"""onnx_runtime.py GANRUN MODEL RUN: every sample of a run, exported, gives in ONNX Runtime what `ganrun sample` gives."""
import re
import subprocess
import sys

import numpy as np
import onnxruntime

ganrun, model, run = sys.argv[1:]
N = 6
draw = np.random.default_rng(0)
text = open(model).read()


def values(name, shape):
    kinds = re.search(rf"\b{name}: label\((\d+)\)", text)
    return (draw.integers(0, int(kinds[1]), shape[0]) if kinds else draw.standard_normal(shape)).astype(np.float32)


def differs(entry):
    subprocess.run([ganrun, "export", run, "--entry", entry, "-o", "s.onnx"], check=True, stdout=subprocess.DEVNULL)
    session = onnxruntime.InferenceSession("s.onnx")
    given, words = {}, []
    for i in session.get_inputs():
        given[i.name] = values(i.name, [N if extent == "N" else extent for extent in i.shape])
        np.save(f"{i.name}.npy", given[i.name])
        words += ["--input", f"{i.name}={i.name}.npy"]
    subprocess.run([ganrun, "sample", run, "--entry", entry, "--count", str(len(given[i.name])), "-o", "s.npy", "--threads", "1"] + words,
                   check=True, stdout=subprocess.DEVNULL)
    theirs = session.run(None, given)[0]
    ours = np.load("s.npy").reshape(theirs.shape)
    return np.abs(theirs - ours).max() / max(1, np.abs(ours).max())


entries = re.findall(r"(?m)^sample (\w+)", text)
assert entries
for entry in entries:
    off = differs(entry)
    print(f"{entry}: {off:.1e}")
    assert off < 2e-6, f"{entry} differs by {off}"
