"""Paired translation (Isola et al. 2017): a U-Net against a discriminator of 70x70 patches of pairs.

A level of the U halves the extent, runs the levels below, comes back and is joined with what came in; levels of 8 wide
channels above the innermost drop half of what comes back (draws in the order n, c, h, w; kept where >= 0.5). One batch of
fakes serves both updates: D on pairs and fakes, then G through the new D, with 100 times the distance to the pair.
compile() compiles G and D.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from models.nets import Nets

CASES = {"pix2pix": dict(batch=2, size=64, wide=2)}
BENCH = {"pix2pix": dict(batch=1, size=256, wide=64)}


class Level(nn.Module):
    """[n, c, s, s] to [n, 2 c, s, s]."""

    def __init__(self, c, s, wide):
        super().__init__()
        inner = min(2 * c, 8 * wide)
        self.drops = c == 8 * wide and s > 2
        self.down = nn.Conv2d(c, inner, 4, 2, 1, bias=False)
        self.below = nn.Sequential(nn.BatchNorm2d(inner), Level(inner, s // 2, wide)) if s > 2 else nn.Identity()
        self.up = nn.ConvTranspose2d(2 * inner if s > 2 else inner, c, 4, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(c)

    def forward(self, x, draw):
        h = self.down(F.leaky_relu(x, 0.2))
        if isinstance(self.below, nn.Sequential):
            h = self.below[1](self.below[0](h), draw)
        h = self.norm(self.up(F.relu(h)))
        if self.drops:
            h = h * (draw(*h.shape) >= 0.5) / 0.5
        return torch.cat([x, h], 1)


class Generator(nn.Module):
    """[n, 3, size, size] to the same."""

    def __init__(self, size, wide):
        super().__init__()
        self.head, self.body = nn.Conv2d(3, wide, 4, 2, 1), Level(wide, size // 2, wide)
        self.tail = nn.ConvTranspose2d(2 * wide, 3, 4, 2, 1)

    def forward(self, a, draw):
        return torch.tanh(self.tail(F.relu(self.body(self.head(a), draw))))


class Discriminator(nn.Sequential):
    """[n, 6, size, size] to a logit for each patch."""

    def __init__(self, wide):
        layers, c = [nn.Conv2d(6, wide, 4, 2, 1), nn.LeakyReLU(0.2)], wide
        for out, stride in [(2 * wide, 2), (4 * wide, 2), (8 * wide, 1)]:
            layers += [nn.Conv2d(c, out, 4, stride, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, nn.Conv2d(c, 1, 4, 1, 1))


class Model(Nets):
    def __init__(self, batch, size, wide):
        self.batch, self.size = batch, size
        self.G, self.D = Generator(size, wide), Discriminator(wide)
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(v.parameters(), lr=2e-4, betas=(0.5, 0.999)) for k, v in self.nets.items()}
        self.generate, self.judge = self.G, self.D

    def compile(self):
        self.generate, self.judge = torch.compile(self.G), torch.compile(self.D)

    def says(self, a, b, real):
        logits = self.judge(torch.cat([a, b], 1))
        return bce(logits, torch.full_like(logits, real))

    def step(self, feed, record):
        """One iteration. Fed in order: images a and b, the draws of G's dropout from the inside out."""
        shape = (self.batch, 3, self.size, self.size)
        a, b = feed.data("a", *shape), feed.data("b", *shape)
        fake = self.generate(a, feed.uniform)
        self.update("D", (self.says(a, b, 1.0) + self.says(a, fake.detach(), 0.0)) / 2, record)
        self.update("G", self.says(a, fake, 1.0) + 100 * F.l1_loss(fake, b), record)
