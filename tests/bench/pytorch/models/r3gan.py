"""R3GAN: paired scores with R1 and R2, residual blocks of grouped convolutions, no norm; as the authors' code.

Blocks: 1x1 to twice the channels, 3x3 in groups, 1x1 back, leaky ReLU 0.2 behind a bias after the first two; the result is added to
the input. Levels of two blocks from 4x4 up, channels `wide` up to the extent `full`, then halved with each doubling, groups likewise.
Between levels a 1x1 convolution where channels change and the filter [1, 3, 3, 1] along both axes with zeros around: in G the
convolution first, in D the filter. G begins with a learned 4x4 basis times a linear map of z; D ends with one 4x4 filter a
channel and a linear map. Biases stand inside the blocks only.

D's step: mean(softplus(D(fake) - D(x))) + gamma/2 (R1 + R2). G's step: other images, other noise, arguments exchanged. Then the
average of G's weights. Rate, beta2, gamma and the average's memory follow cosines over 20 million images. The authors'
augmentation is left out.
compile() compiles the generator pass and the generator's loss; penalties need gradients of gradients, which are left eager.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import count, grads
from models.nets import Nets

CASES = {"r3gan": dict(batch=3, size=16, full=8, wide=16, groups=4, nz=6)}
BENCH = {"r3gan": dict(batch=8, size=32, full=32, wide=128, groups=16, nz=64)}
FULL = {"r3gan": dict(batch=32, size=64, wide=768, groups=96)}

SLOPE, BLOCKS, SPAN = 0.2, 2, 2e7


def cosine(start, end, seen):
    """From `start` to `end` over SPAN images."""
    return end + (start - end) * (1 + math.cos(math.pi * min(seen / SPAN, 1))) / 2


def taps(c, like):
    k = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=like.dtype, device=like.device) / 8
    return torch.outer(k, k).expand(c, 1, 4, 4)


class Up(nn.Module):
    def forward(self, x):
        return F.conv_transpose2d(x, 4 * taps(x.shape[1], x), stride=2, padding=1, groups=x.shape[1])


class Down(nn.Module):
    def forward(self, x):
        return F.conv2d(x, taps(x.shape[1], x), stride=2, padding=1, groups=x.shape[1])


class Block(nn.Module):
    def __init__(self, c, groups):
        super().__init__()
        self.a = nn.Conv2d(c, 2 * c, 1)
        self.b = nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=groups)
        self.c = nn.Conv2d(2 * c, c, 1, bias=False)

    def forward(self, x):
        return x + self.c(F.leaky_relu(self.b(F.leaky_relu(self.a(x), SLOPE)), SLOPE))


class Basis(nn.Module):
    def __init__(self, nz, c):
        super().__init__()
        self.basis = nn.Parameter(torch.randn(c, 4, 4))
        self.scale = nn.Linear(nz, c, bias=False)

    def forward(self, z):
        return self.basis * self.scale(z)[:, :, None, None]


def across(a, b):
    return [nn.Conv2d(a, b, 1, bias=False)] if a != b else []


class Model(Nets):
    def __init__(self, batch, size, full, wide, groups, nz):
        self.batch, self.size, self.nz, self.seen = batch, size, nz, 0
        extents = [4 * 2**i for i in range(int(math.log2(size)) - 1)]
        c = [int(wide * min(1, full / s)) for s in extents]

        def level(i):
            return [Block(c[i], groups * c[i] // wide) for _ in range(BLOCKS)]

        def generator():
            layers = [Basis(nz, c[0])] + level(0)
            for i in range(1, len(c)):
                layers += across(c[i - 1], c[i]) + [Up()] + level(i)
            return nn.Sequential(*layers, nn.Conv2d(c[-1], 3, 1, bias=False))

        layers = [nn.Conv2d(3, c[-1], 1, bias=False)] + level(-1)
        for i in range(len(c) - 2, -1, -1):
            layers += [Down()] + across(c[i + 1], c[i]) + level(i)
        layers += [nn.Conv2d(c[0], c[0], 4, groups=c[0], bias=False), nn.Flatten(), nn.Linear(c[0], 1, bias=False), nn.Flatten(0)]
        self.G, self.G_avg, self.D = generator(), generator(), nn.Sequential(*layers)
        if (size, full, wide, groups, nz) == (32, 32, 768, 96, 64):    # the authors' code makes as many for CIFAR-10
            assert (count(self.G)[0], count(self.D)[0]) == (20_732_160, 20_683_776)
        self.nets = {"G": self.G, "G_avg": self.G_avg, "D": self.D}
        self.opt = {k: torch.optim.Adam(self.nets[k].parameters(), lr=2e-4, betas=(0.0, 0.9)) for k in ["G", "D"]}
        self.generate, self.g_loss = self.G, self._g_loss

    def compile(self):
        self.generate, self.g_loss = torch.compile(self.G), torch.compile(self._g_loss)

    def _g_loss(self, z, x):
        return F.softplus(self.D(x) - self.D(self.G(z))).mean()

    def d_loss(self, x, fake):
        x, fake = x.detach().requires_grad_(True), fake.detach().requires_grad_(True)
        real, made = self.D(x), self.D(fake)
        penalty = 0
        for score, at in [(real, x), (made, fake)]:
            (slope,) = torch.autograd.grad(score.sum(), at, create_graph=True)
            penalty = penalty + slope.square().sum([1, 2, 3]).mean()
        return F.softplus(made - real).mean() + cosine(2, 0.2, self.seen) / 2 * penalty

    def update(self, name, loss, record):
        opt = self.opt[name]
        opt.zero_grad(set_to_none=True)
        loss.backward(inputs=list(self.nets[name].parameters()))
        record.update([name], loss, grads(self.nets, [name]))
        for group in opt.param_groups:
            group["lr"], group["betas"] = cosine(2e-4, 5e-5, self.seen), (0.0, cosine(0.9, 0.99, self.seen))
        opt.step()

    def average(self):
        keep = 0.5 ** (self.batch / max(cosine(1e-3, 5e5, self.seen), 1e-3))
        with torch.no_grad():
            for a, p in zip(self.G_avg.parameters(), self.G.parameters()):
                a.copy_(p.lerp(a, keep))

    def step(self, feed, record):
        """One iteration. Fed in order: images and z for D, images and z for G."""
        n = self.batch
        x, z = feed.data("x", n, 3, self.size, self.size), feed.normal(n, self.nz)
        with torch.no_grad():
            fake = self.generate(z)
        self.update("D", self.d_loss(x, fake), record)
        x, z = feed.data("x", n, 3, self.size, self.size), feed.normal(n, self.nz)
        self.update("G", self.g_loss(z, x), record)
        self.average()
        self.seen += n
