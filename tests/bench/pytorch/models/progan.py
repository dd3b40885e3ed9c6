"""Progressive growing (Karras et al. 2018), one stage of it: a resolution, whose newest layers are being faded in.

Weights are drawn from N(0, 1) and multiplied by He's constant in every pass; in front of no activation (to_rgb, the score)
the constant is 1 / sqrt(fan in). G: a 4x4 convolution of the latent, which is on a hypersphere, then twice the extent by
repetition and two 3x3 convolutions a level; each convolution is followed by leaky ReLU 0.2 and a norm of every pixel's
channels. D is its mirror, with means of 2x2, and the deviation over the minibatch as one more channel at 4x4. While a
level is faded in, `share` (a number each net keeps) of it is mixed with what the level below gives: in G pictures, in D
what from_rgb of the halved picture gives; real pictures are mixed with their own halves in the same way. share is
min(step / fade, 1). WGAN-GP with one update of D to one of G, weight 10, and 0.001 D(x)^2 on data. Adam with betas 0 and
0.99. G_avg follows G.

compile() compiles the generator pass and D's passes but that of the penalty: torch.compile cannot differentiate a
compiled function twice.
"""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import count
from models.nets import Nets

CASES = {
    "progan_first": dict(batch=3, size=4, nz=6, wide=5),
    "progan_fade": dict(batch=4, size=16, nz=6, wide=5, fade=4, group=2),
}
BENCH = {"progan": dict(batch=16, size=32, nz=128, wide=64, fade=50000)}
FULL = {"progan": dict(nz=512, wide=512)}
LAMBDA, DRIFT, KEEP, RATE = 10, 0.001, 0.999, 1e-3


class Equalized(nn.Module):
    """A convolution of k x k, padded to its extent, or with extents of none a dense layer."""

    def __init__(self, n, c, k=0, gain=math.sqrt(2)):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c, n, k, k) if k else torch.randn(c, n))
        self.bias = nn.Parameter(torch.zeros(c))
        self.pad, self.scale = k // 2, gain / math.sqrt(self.weight[0].numel())

    def forward(self, x):
        w = self.weight * self.scale
        return F.linear(x, w, self.bias) if w.dim() == 2 else F.conv2d(x, w, self.bias, padding=self.pad)


class First(nn.Module):
    """The 4x4 convolution of one place: each of 16 places sees one tap of the kernel, stored [n, c, 4, 4]."""

    def __init__(self, n, c):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(n, c, 4, 4)), nn.Parameter(torch.zeros(c))
        self.scale = math.sqrt(2 / (16 * n))

    def forward(self, z):
        return torch.tensordot(z, self.weight * self.scale, 1) + self.bias[:, None, None]


def act(x):
    return F.leaky_relu(x, 0.2)


def unit(x):
    """Every pixel's channels, or a latent, to a mean square of 1."""
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8)


def double(x):
    return x.repeat_interleave(2, 2).repeat_interleave(2, 3)


def halve(x):
    return F.avg_pool2d(x, 2)


class Fading(nn.Module):
    """A net that keeps how far its newest level is faded in."""

    deviation = 1.0  # of its weights when it begins

    def __init__(self, fades):
        super().__init__()
        if fades:
            self.register_buffer("share", torch.zeros(()))

    def fade(self, old, new):
        return old * (1 - self.share) + new * self.share


class Generator(Fading):
    """[n, nz] to [n, 3, size, size]."""

    def __init__(self, nz, channels, fades):
        super().__init__(fades)
        self.first, self.second = First(nz, channels[0]), Equalized(channels[0], channels[0], 3)
        self.levels = nn.ModuleList([
            nn.ModuleList([Equalized(a, b, 3), Equalized(b, b, 3)]) for a, b in zip(channels, channels[1:])])
        self.old_rgb = Equalized(channels[-2], 3, 1, gain=1) if fades else None
        self.rgb = Equalized(channels[-1], 3, 1, gain=1)

    def forward(self, z):
        h = unit(act(self.first(unit(z))))
        h = unit(act(self.second(h)))
        before = h
        for one, two in self.levels:
            before = double(h)
            h = unit(act(two(unit(act(one(before))))))
        return self.rgb(h) if self.old_rgb is None else self.fade(self.old_rgb(before), self.rgb(h))


class Discriminator(Fading):
    """[n, 3, size, size] to [n]."""

    def __init__(self, channels, fades, group):
        super().__init__(fades)
        self.group, self.rgb = group, Equalized(3, channels[-1], 1)
        down = list(zip(channels[::-1], channels[-2::-1]))
        newest = [nn.ModuleList([Equalized(b, b, 3), Equalized(b, a, 3)]) for b, a in down[:1]]
        self.newest = nn.ModuleList(newest)
        self.old_rgb = Equalized(3, channels[-2], 1) if fades else None
        self.levels = nn.ModuleList([nn.ModuleList([Equalized(b, b, 3), Equalized(b, a, 3)]) for b, a in down[1:]])
        self.conv, self.dense = Equalized(channels[0] + 1, channels[0], 3), Equalized(16 * channels[0], channels[0])
        self.score = Equalized(channels[0], 1, gain=1)

    def spread(self, h):
        n = self.group or len(h)
        out = []
        for part in h.split(n):
            value = (part.var(0, unbiased=False) + 1e-8).sqrt().mean()
            out.append(value.expand(len(part), 1, *h.shape[2:]))
        return torch.cat(out)

    def forward(self, x):
        h = act(self.rgb(x))
        for one, two in self.newest:
            h = halve(act(two(act(one(h)))))
        if self.old_rgb is not None:
            h = self.fade(act(self.old_rgb(halve(x))), h)
        for one, two in self.levels:
            h = halve(act(two(act(one(h)))))
        h = act(self.conv(torch.cat([h, self.spread(h)], 1)))
        return self.score(act(self.dense(h.flatten(1)))).flatten()


class Model(Nets):
    def __init__(self, batch, size, nz, wide, fade=0, group=0):
        channels = [min(wide, 32 * wide // s) for s in [4 << i for i in range(size.bit_length() - 2)]]
        self.fades = size > 4 and fade > 0
        self.batch, self.size, self.nz, self.fade, self.count = batch, size, nz, fade, 0
        self.G, self.D = Generator(nz, channels, self.fades), Discriminator(channels, self.fades, group)
        self.G_avg = copy.deepcopy(self.G)
        self.nets = {"G": self.G, "G_avg": self.G_avg, "D": self.D}
        self.opt = {k: torch.optim.Adam(self.nets[k].parameters(), RATE, (0.0, 0.99), 1e-8) for k in ("G", "D")}
        self.generate, self.judge = self.G, self.D

    def compile(self):
        self.generate, self.judge = torch.compile(self.G), torch.compile(self.D)

    @torch.no_grad()
    def average(self):
        for a, p in zip(self.G_avg.parameters(), self.G.parameters()):
            a.mul_(KEEP).add_(p, alpha=1 - KEEP)
        for a, b in zip(self.G_avg.buffers(), self.G.buffers()):
            a.copy_(b)

    def step(self, feed, record):
        """One iteration. Fed in order: images, z, uniforms between them and fakes, z."""
        n, x = self.batch, feed.data("x", self.batch, 3, self.size, self.size)
        if self.fades:
            share = min(self.count / self.fade, 1.0)
            self.G.share.fill_(share)
            self.D.share.fill_(share)
            x = (1 - share) * double(halve(x)) + share * x
        self.count += 1

        with torch.no_grad():
            fake = self.generate(feed.normal(n, self.nz))
        real = self.judge(x)
        u = feed.uniform(n).view(-1, 1, 1, 1)
        between = (x + u * (fake - x)).requires_grad_()
        slope = torch.autograd.grad(self.D(between).sum(), between, create_graph=True)[0]
        penalty = (slope.square().sum((1, 2, 3)).sqrt() - 1).square().mean()
        record.value("penalty", penalty)
        loss = self.judge(fake).mean() - real.mean() + LAMBDA * penalty + DRIFT * real.square().mean()
        self.update("D", loss, record)

        self.update("G", -self.judge(self.generate(feed.normal(n, self.nz))).mean(), record)
        self.average()
