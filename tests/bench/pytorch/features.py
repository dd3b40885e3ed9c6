"""Write the case of nets for features: python features.py OUTDIR

One step of tests/reference/features.gan by torchvision's VGG, lpips and pytorch-fid, with formula-made weights in place of
the published ones. Needs those three packages; nothing is downloaded.
"""
import math
import sys
import types

import torch
import torchvision
from torch import nn

from common import FormulaFeed, Record, digest, fill, write

sys.modules["lpips.trainer"] = types.ModuleType("lpips.trainer")  # draws in much that is not needed
import lpips  # noqa: E402
import pytorch_fid.inception as fid  # noqa: E402

NAME, SIZE, BATCH = "features", 48, 2


def fid_inception():
    """The [2048] of pytorch-fid for pictures in 0..1, without its download."""
    made, plain = {}, torchvision.models.inception_v3

    def keep(*args, **kwargs):
        made["net"] = plain(*args, **kwargs)
        return made["net"]

    torchvision.models.inception_v3 = keep
    fid.load_state_dict_from_url = lambda *args, **kwargs: made["net"].state_dict()
    return fid.InceptionV3([3], resize_input=True, normalize_input=True, requires_grad=False)


class Names(nn.Module):
    """The part of a net that is run, for `fill`: what else it has is not named."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)


def exact(*numbers):
    """Constants a channel, not rounded to f32."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 3, 1, 1)


def widen(net):
    """He's deviation, or features behind many layers would tell no two pictures apart."""
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() >= 2:
                p.mul_(math.sqrt(2))


def main(out):
    G = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.Tanh())
    L = lpips.LPIPS(net="vgg", pnet_rand=True, verbose=False).eval()
    trunk = Names([getattr(L.net, f"slice{i}") for i in range(1, 6)])
    heads = Names([L.lin0, L.lin1, L.lin2, L.lin3, L.lin4])
    vgg19 = torchvision.models.vgg19(weights=None).features[:10]
    inception = fid_inception().eval()
    nets = {"G": G, "T": trunk, "H": heads, "P": vgg19, "I": inception}
    for net in nets.values():
        net.double()
    L.double()
    start = fill(NAME, nets)
    for row in start:
        if row["net"] in "TPI" and len(row["shape"]) >= 2:
            row["std"] *= math.sqrt(2)
        row["trainable"] = "running_" not in row["param"]
    for net in "TPI":
        widen(nets[net])
    feed, record = FormulaFeed(NAME), Record()
    feed.begin(0)
    record.begin()
    x = feed.data("x", BATCH, 3, SIZE, SIZE)
    mean, std = exact(0.485, 0.456, 0.406), exact(0.229, 0.224, 0.225)
    L.scaling_layer.shift, L.scaling_layer.scale = exact(-0.030, -0.088, -0.188), exact(0.458, 0.448, 0.450)

    def taps(v):
        v = ((v + 1) / 2 - mean) / std
        return vgg19[:3](v), vgg19(v)

    fake = G(x)
    a, b = taps(fake), taps(x)
    i, j = (inception((v + 1) / 2)[0].flatten(1) for v in (fake, x))
    losses = {"lpips": L(fake, x).mean(),
              "vgg": 0.5 * (a[0] - b[0]).abs().mean() + (a[1] - b[1]).abs().mean(),
              "fid": ((i - j) ** 2).mean() / (j**2).mean()}
    for name, loss in losses.items():
        record.value(name, loss)
    g = [torch.autograd.grad(loss, list(G.parameters()), retain_graph=True) for loss in losses.values()]
    for loss, gradient in zip(losses.values(), g):
        record.update(["G"], loss, list(zip(["G.0.weight", "G.0.bias"], gradient)))
    with torch.no_grad():
        for gradient in g:
            for p, d in zip(G.parameters(), gradient):
                p.sub_(1e-3 * d)
    final = [{"param": f"{net}.{k}", **digest(v, 2)} for net, mod in nets.items()
             for k, v in list(mod.named_parameters()) + list(mod.named_buffers()) if v.dtype.is_floating_point]
    write(f"{out}/{NAME}.json", {
        "format": "gan-reference-1", "case": NAME, "model": NAME, "options": {"batch": BATCH, "size": SIZE},
        "notes": __doc__, "start": start, "fed": feed.log, "steps": record.steps, "final": final})


if __name__ == "__main__":
    main(sys.argv[1])
