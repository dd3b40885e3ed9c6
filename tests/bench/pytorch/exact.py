"""How exact is PyTorch itself? python exact.py [--float64] [CASE ...]

Runs reference cases in float32 and judges them as `ganrun verify` does: where this is inside the tolerance, so must we
be; where it is not, this says how far off another f32 program lands. With --float64 the arithmetic is float64 and only
what is given (weights, data, draws) is rounded to float32: what no f32 program can better.
"""
import importlib
import json
import pathlib
import sys

import torch

from common import FormulaFeed, Record, digest, fill
from models import CASES

REFERENCE = pathlib.Path(__file__).parents[2] / "reference"


def error(want, got):
    """Largest difference of two digests; that of the sum of n elements counts divided by sqrt(n)."""
    picks = dict(got["samples"])
    return max([abs(got["l2"] - want["l2"]), abs(got["sum"] - want["sum"]) / want["numel"] ** 0.5]
               + [abs(picks[i] - x) for i, x in want["samples"]])


class RoundedFeed(FormulaFeed):
    """Feeds what float32 can hold, in float64."""

    def normal(self, *shape):
        return super().normal(*shape).float().double()

    def uniform(self, *shape):
        return super().uniform(*shape).float().double()

    def data(self, *args, **options):
        return super().data(*args, **options).float().double()


def worst(pairs):
    """(relative error, name) of the worst of (name, wanted digest, digest); what is zero up to rounding is left out."""
    pairs = list(pairs)
    least = 1e-10 * max(want["l2"] for _, want, _ in pairs)
    return max((error(want, got) / want["l2"], name) for name, want, got in pairs if want["l2"] > least)


def run(case, double):
    module, options = CASES[case]
    dtype = torch.float64 if double else torch.float32
    torch.manual_seed(0)
    model = importlib.import_module(f"models.{module}").Model(**options)
    fill(case, model.nets)  # parameters are float32: rounded here
    if double:
        model.double()
    feed, record = (RoundedFeed if double else FormulaFeed)(case, dtype), Record()
    reference = json.loads((REFERENCE / f"{case}.json").read_text())
    for step in range(len(reference["steps"])):
        feed.begin(step)
        record.begin()
        model.step(feed, record)
    for got, want in zip(record.steps[0]["updates"], reference["steps"][0]["updates"]):
        loss = abs(got["loss"] - want["loss"]) / max(abs(want["loss"]), 1)
        grad, name = worst((w["param"], w, g) for w, g in zip(want["grads"], got["grads"]))
        print(f"{case}: step 0 {','.join(want['nets'])}: loss {loss:.1e}, gradients {grad:.1e} ({name})")
    state = {f"{n}.{k}": v for n, net in model.nets.items() for k, v in net.state_dict().items()}
    final, name = worst((w["param"], w, digest(state[w["param"]])) for w in reference["final"])
    print(f"{case}: final {final:.1e} ({name})", flush=True)


if __name__ == "__main__":
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    for name in names or list(CASES):
        run(name, "--float64" in sys.argv)
