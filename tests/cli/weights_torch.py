"""weights_torch.py GANRUN: spectral_norm and weight_norm, by either name they have in PyTorch, there and back."""
import json
import struct
import subprocess
import sys
import warnings

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

warnings.filterwarnings("ignore")
ganrun = sys.argv[1]
BODY = """
fn body(x: [3, 8, 8]) -> [5] {
  h = x |> named(conv(6, k=3, pad=1, reparam=spectral_norm), "a") |> leaky_relu(0.2)
  h = h |> named(conv_transpose(6, k=4, stride=2, pad=1, reparam=spectral_norm), "b") |> leaky_relu(0.2)
  h = h |> named(conv(4, k=4, stride=4, reparam=weight_norm), "c") |> leaky_relu(0.2)
  h |> flatten |> named(dense(5, reparam=spectral_norm), "d")
}
"""


class Net(nn.Module):
    def __init__(self, spectral, weight):
        super().__init__()
        self.a, self.b = spectral(nn.Conv2d(3, 6, 3, padding=1)), spectral(nn.ConvTranspose2d(6, 6, 4, 2, 1))
        self.c, self.d = weight(nn.Conv2d(6, 4, 4, 4)), spectral(nn.Linear(64, 5))

    def forward(self, x):
        act = lambda x: nn.functional.leaky_relu(x, 0.2)
        return self.d(act(self.c(act(self.b(act(self.a(x)))))).flatten(1))


def run(*words):
    done = subprocess.run([ganrun, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ganrun {words}: {done.stderr}"
    return done.stderr


def load(path):    # safetensors.torch.load_file, for tensors of f32
    data = open(path, "rb").read()
    behind = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:behind])
    return {k: torch.tensor(np.frombuffer(data[behind + x["data_offsets"][0]:behind + x["data_offsets"][1]], "<f4").reshape(x["shape"]))
            for k, x in header.items() if k != "__metadata__"}


def close(got, want, what):
    error = np.abs(got - want).max()/np.abs(want).max()
    assert error < 1e-5, f"{what}: error {error}"
    print(f"{what}: error {error:.1e}")


def newer(weights):    # the new spectral_norm's names; the new weight_norm reads the old ones itself
    new = {"orig": "original", "u": "0._u", "v": "0._v"}
    spectral = [k[:-len("weight_orig")] for k in weights if k.endswith("weight_orig")]
    names = {f"{s}weight_{old}": f"{s}parametrizations.weight.{name}" for s in spectral for old, name in new.items()}
    return {names.get(k, k): x for k, x in weights.items()}


images = np.random.default_rng(1).normal(size=(4, 3, 8, 8)).astype("float32")
np.save("z.npy", images)
np.save("x.npy", images)

# Trained here, loaded there.
open("ours.gan", "w").write("model ours\ndata x : float(3, 8, 8)\n" + BODY + """
net N = body
step { update N minimize mean(sum((N(x) - 1)^2, sample)) using adam(lr=0.01) }
sample out(z: [3, 8, 8]) = N(z)
""")
run("train", "ours.gan", "--data", "x=x.npy", "--batch", "4", "--steps", "5", "--out", "ours")
run("sample", "ours", "--input", "z=z.npy", "--count", "4", "-o", "out.npy")
assert "warning" not in run("export", "ours", "--net", "N", "-o", "n.safetensors")
weights = load("n.safetensors")
for name, net, given in [("utils", Net(spectral_norm, weight_norm), weights),
                         ("parametrizations", Net(parametrizations.spectral_norm, parametrizations.weight_norm), newer(weights))]:
    net.load_state_dict(given)    # strict
    with torch.no_grad():
        close(net.eval()(torch.tensor(images)).numpy(), np.load("out.npy"), f"exported, torch.nn.utils: {name}")
try:
    Net(lambda x: x, lambda x: x).load_state_dict(weights)
    raise SystemExit("plain layers load normalized weights")
except RuntimeError:
    pass

# Made there, read here.
open("theirs.gan", "w").write("model theirs\ndata x : float(3, 8, 8)\n" + BODY + """
net N = pretrained(body, "theirs.pth")
state n = 0
step { n := n + mean(x) }
sample out(z: [3, 8, 8]) = N(z)
""")
torch.manual_seed(3)
for name, net in [("utils", Net(spectral_norm, weight_norm)),
                  ("parametrizations", Net(parametrizations.spectral_norm, parametrizations.weight_norm))]:
    with torch.no_grad():
        for _ in range(200):    # until u and v are singular vectors: v is not read, it follows from u
            net(torch.tensor(images))
        want = net.eval()(torch.tensor(images)).numpy()
    torch.save(net.state_dict(), "theirs.pth")
    run("train", "theirs.gan", "--data", "x=x.npy", "--batch", "4", "--steps", "1", "--out", name)
    run("sample", name, "--input", "z=z.npy", "--count", "4", "-o", "out.npy")
    close(np.load("out.npy"), want, f"read, torch.nn.utils: {name}")
