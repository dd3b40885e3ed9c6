"""Shared by the PyTorch programs: formula-made numbers, feeds, and the record of a reference case.

models/NAME.py is a PyTorch transcription of one published GAN. It serves three ends:
  reference.py  runs a few float64 steps from formula-made weights and draws, and writes what a correct
                implementation must reproduce (tests/reference/NAME.json);
  exact.py      runs them in float32 and says how far off the reference that is;
  bench.py      times the same step in PyTorch, eager and compiled, as the speed to beat.

Formula-made numbers make the reference files small: any program can rebuild every weight, image and noise
vector exactly from a text key, so only results are stored.

    key(name)      FNV-1a, 64 bit, over the UTF-8 bytes of `name`
    bits(k, i)     splitmix64 finaliser of (k + (i + 1) * 0x9E3779B97F4A7C15) mod 2^64
    uniform(k, i)  ((bits(k, i) >> 11) + 0.5) / 2^53                      in (0, 1)
    normal(k, i)   sqrt(-2 ln uniform(k, 2i)) * cos(2 pi uniform(k, 2i+1))
`i` runs over the elements of the tensor in row-major order of the *stated shape* (PyTorch's order:
convolution [out, in, k...], transposed convolution [in, out, k...], dense [out, in], images [n, c, h, w]).
"""
import json
import math

import numpy as np
import torch

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def key(name: str) -> int:
    """64-bit FNV-1a hash of a name."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def bits(k: int, start: int, count: int) -> np.ndarray:
    """splitmix64 outputs `start .. start+count-1` of stream `k`, uint64 [count]."""
    with np.errstate(over="ignore"):
        i = np.arange(start, start + count, dtype=np.uint64)
        x = np.uint64(k) + (i + np.uint64(1)) * GOLDEN
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def unit(k: int, start: int, count: int) -> np.ndarray:
    """Uniform numbers in (0, 1), float64 [count]."""
    return ((bits(k, start, count) >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def uniform(name: str, shape, lo=0.0, hi=1.0) -> torch.Tensor:
    """Formula-made uniform tensor, float64, of `shape`."""
    n = math.prod(shape)
    return torch.from_numpy(lo + (hi - lo) * unit(key(name), 0, n)).reshape(tuple(shape))


def normal(name: str, shape, mean=0.0, std=1.0) -> torch.Tensor:
    """Formula-made normal tensor, float64, of `shape`."""
    n = math.prod(shape)
    u = unit(key(name), 0, 2 * n)
    x = np.sqrt(-2.0 * np.log(u[0::2])) * np.cos(2.0 * np.pi * u[1::2])
    return torch.from_numpy(mean + std * x).reshape(tuple(shape))


def digest(t: torch.Tensor, count=16) -> dict:
    """What is kept of a tensor: its length, sum, 2-norm and `count` evenly strided elements [index, value]."""
    v = t.detach().double().reshape(-1)
    stride = max(1, v.numel() // count)
    picks = [[i, float(v[i])] for i in range(0, v.numel(), stride)][:count]
    return {"numel": v.numel(), "sum": float(v.sum()), "l2": float(v.norm()), "samples": picks}


class FormulaFeed:
    """Feeds a step with formula-made draws and data, and remembers what it fed, in order."""

    def __init__(self, case: str, dtype=torch.float64):
        self.case, self.dtype, self.step, self.log = case, dtype, 0, []

    def begin(self, step: int):
        self.step, self.count = step, 0
        self.log.append([])

    def _name(self, kind, shape, **extra):
        name = f"{self.case}/step{self.step}/{self.count}:{kind}"
        self.count += 1
        self.log[-1].append({"key": name, "kind": kind, "shape": list(shape), **extra})
        return name

    def normal(self, *shape):
        """Standard normal draw of `shape` (batch first)."""
        return normal(self._name("normal", shape), shape).to(self.dtype)

    def uniform(self, *shape):
        """Uniform (0, 1) draw of `shape`."""
        return uniform(self._name("uniform", shape), shape).to(self.dtype)

    def data(self, stream, *shape, lo=-1.0, hi=1.0):
        """The next batch of data stream `stream`: uniform in (lo, hi)."""
        return uniform(self._name("data", shape, stream=stream, lo=lo, hi=hi), shape, lo, hi).to(self.dtype)

    def labels(self, stream, n, classes):
        """The next batch of integer labels of `stream`: floor(classes * uniform), int64 [n]."""
        u = uniform(self._name("labels", (n,), stream=stream, classes=classes), (n,))
        return (u * classes).floor().long()

    def label(self, stream, classes):
        """One label for the whole batch."""
        return self.labels(stream, 1, classes)


class RandomFeed:
    """Feeds a step from the framework's own generator: what a benchmark times. Data is made once and reused."""

    def __init__(self, device="cpu", dtype=torch.float32, channels_last=False):
        self.device, self.dtype, self.channels_last, self.cache = device, dtype, channels_last, {}

    def begin(self, step):
        self.count = 0

    def normal(self, *shape):
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def uniform(self, *shape):
        return torch.rand(*shape, device=self.device, dtype=self.dtype)

    def data(self, stream, *shape, lo=-1.0, hi=1.0):
        k = (stream, shape, self.count)
        self.count += 1
        if k not in self.cache:
            t = lo + (hi - lo) * torch.rand(*shape, device=self.device, dtype=self.dtype)
            if self.channels_last and t.dim() == 4:
                t = t.to(memory_format=torch.channels_last)
            self.cache[k] = t
        return self.cache[k]

    def labels(self, stream, n, classes):
        k = (stream, n, self.count)
        self.count += 1
        if k not in self.cache:
            self.cache[k] = torch.randint(classes, (n,), device=self.device)
        return self.cache[k]

    def label(self, stream, classes):
        return torch.randint(classes, (1,), device=self.device)


class NoRecord:
    """A record that keeps nothing (benchmarks)."""

    def update(self, nets, loss, params):
        pass

    def value(self, name, t):
        pass


class Record:
    """Keeps, per step, the losses and the gradient digests of each update, in order."""

    def __init__(self):
        self.steps = []

    def begin(self):
        self.steps.append({"updates": [], "values": {}})

    def update(self, nets, loss, params):
        """One optimizer update: names of the nets it changes, its loss, and [(param name, gradient)] in order."""
        self.steps[-1]["updates"].append({
            "nets": list(nets), "loss": float(loss.detach()),
            "grads": [{"param": n, **digest(g)} for n, g in params]})

    def value(self, name, t):
        """A named scalar the model logs."""
        self.steps[-1]["values"][name] = float(t.detach())


def fill(case: str, nets: dict):
    """Overwrite every parameter and buffer with formula-made numbers; return the list that says how.

    Weights (2 or more dimensions) are normal with standard deviation 1/sqrt(fan_in), or the net's own `deviation`; vectors
    named `weight` (norm gains) are 1 + 0.1 normal; other vectors 0.1 normal; running variances uniform in (0.5, 1.5).
    """
    how = []
    for net, module in nets.items():
        for name, p in list(module.named_parameters()) + list(module.named_buffers()):
            if not p.dtype.is_floating_point:
                continue
            k, shape = f"{case}/{net}/{name}", tuple(p.shape)
            leaf = name.rsplit(".", 1)[-1]
            if leaf.endswith("running_var"):
                t, rule = uniform(k, shape, 0.5, 1.5), {"kind": "uniform", "lo": 0.5, "hi": 1.5}
            elif len(shape) >= 2:
                fan = math.prod(shape) // shape[0]
                std = getattr(module, "deviation", fan**-0.5)
                t, rule = normal(k, shape, 0, std), {"kind": "normal", "mean": 0.0, "std": std}
            elif leaf == "weight":
                t, rule = normal(k, shape, 1, 0.1), {"kind": "normal", "mean": 1.0, "std": 0.1}
            else:
                t, rule = normal(k, shape, 0, 0.1), {"kind": "normal", "mean": 0.0, "std": 0.1}
            with torch.no_grad():
                p.copy_(t.to(p.dtype))
            how.append({"net": net, "param": name, "shape": list(shape), "key": k,
                        "trainable": isinstance(p, torch.nn.Parameter) and p.requires_grad, **rule})
    return how


def count(net):
    """(trainable, other) numbers held by a net."""
    return sum(p.numel() for p in net.parameters()), sum(b.numel() for b in net.buffers() if b.is_floating_point())


def drop(h, u):
    """Dropout 0.2 of [n, c] with uniform draws u [n, c]; None is off."""
    return h if u is None else h * (u >= 0.2) / 0.8


def grads(nets: dict, names):
    """[(net.param, gradient)] of the listed nets, in order of creation, skipping parameters with none."""
    return [(f"{n}.{k}", p.grad) for n in names for k, p in nets[n].named_parameters() if p.grad is not None]


def write(path, obj):
    """Write JSON with one line per innermost record, so that the file diffs and reads well."""
    def text(v, indent):
        pad = " " * indent
        nested = [x for x in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else [])
                  if isinstance(x, (dict, list)) and x]
        if not nested or (isinstance(v, dict) and all(not isinstance(x, dict) for x in nested) and "numel" in v):
            return json.dumps(v)
        if isinstance(v, list) and all(not isinstance(x, (dict, list)) for x in v):
            return json.dumps(v)
        if isinstance(v, dict) and set(v) >= {"key", "kind"}:
            return json.dumps(v)
        if isinstance(v, dict):
            return "{\n" + ",\n".join(f"{pad} {json.dumps(k)}: {text(x, indent + 1)}" for k, x in v.items()) + f"\n{pad}}}"
        return "[\n" + ",\n".join(f"{pad} {text(x, indent + 1)}" for x in v) + f"\n{pad}]"
    with open(path, "w") as f:
        f.write(text(obj, 0) + "\n")
