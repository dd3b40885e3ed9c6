"""SAGAN (Zhang et al. 2019): residual blocks (Miyato and Koyama 2018), one layer of attention in each net, hinge loss.

Every weight matrix, attention's and D's embedding included, is divided by its spectral norm: one power iteration an
update, shared by all calls of the net in it (W = weight.flatten(1), v and u constants, sigma = u W v). G's norms take
gain and shift from tables of the class; D adds the class by projection. One batch of fakes serves both updates: D on
images and fakes, then G through the new D. Adam with beta1 = 0, D's rate four times G's.
compile() compiles the generator pass and D's loss.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from models.nets import Nets

CASES = {"sagan": dict(batch=3, size=16, nz=6, kinds=3, wide=4, attn=8)}
BENCH = {"sagan": dict(batch=16, size=32, nz=64, kinds=10, wide=64, attn=16)}
FULL = {"sagan": dict(size=128, nz=128, kinds=1000, attn=32)}


class Spectral:
    """Mixin of a layer: `unit` is its weight divided by its spectral norm, as of the last refresh()."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.register_buffer("u", torch.randn(len(self.weight)))

    def refresh(self):
        w = self.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(w.T @ self.u, dim=0)
            u = F.normalize(w @ v, dim=0)
            self.u.copy_(u)
        self.unit = self.weight / (u @ (w @ v))


class Conv(Spectral, nn.Conv2d):
    def forward(self, x):
        return F.conv2d(x, self.unit, self.bias, padding=self.padding)


class Dense(Spectral, nn.Linear):
    def forward(self, x):
        return F.linear(x, self.unit, self.bias)


class Embed(Spectral, nn.Embedding):
    def forward(self, y):
        return F.embedding(y, self.unit)


def conv(a, b, k, bias=True):
    return Conv(a, b, k, padding=k // 2, bias=bias)


class ClassNorm(nn.Module):
    def __init__(self, c, kinds):
        super().__init__()
        self.norm = nn.BatchNorm2d(c, affine=False)
        self.gain, self.shift = nn.Embedding(kinds, c), nn.Embedding(kinds, c)

    def forward(self, x, y):
        return self.norm(x) * self.gain(y)[:, :, None, None] + self.shift(y)[:, :, None, None]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner, half = max(1, c // 8), max(1, c // 2)
        self.scale = nn.Parameter(torch.zeros(1))
        self.f, self.g = conv(c, inner, 1, False), conv(c, inner, 1, False)
        self.h, self.o = conv(c, half, 1, False), conv(half, c, 1, False)

    def forward(self, x):
        weight = (self.f(x).flatten(2).transpose(1, 2) @ self.g(x).flatten(2)).softmax(2)
        o = self.h(x).flatten(2) @ weight.transpose(1, 2)
        return x + self.scale * self.o(o.unflatten(2, x.shape[2:]))


class Grow(nn.Module):
    def __init__(self, a, b, kinds):
        super().__init__()
        self.norm1, self.conv1 = ClassNorm(a, kinds), conv(a, b, 3)
        self.norm2, self.conv2 = ClassNorm(b, kinds), conv(b, b, 3)
        self.skip = conv(a, b, 1)

    def forward(self, x, y):
        h = self.conv1(F.interpolate(F.relu(self.norm1(x, y)), scale_factor=2))
        return self.conv2(F.relu(self.norm2(h, y))) + self.skip(F.interpolate(x, scale_factor=2))


class Shrink(nn.Module):
    def __init__(self, a, b, first):
        super().__init__()
        self.first, self.conv1, self.conv2, self.skip = first, conv(a, b, 3), conv(b, b, 3), conv(a, b, 1)

    def forward(self, x):
        h = self.conv2(F.relu(self.conv1(x if self.first else F.relu(x))))
        return F.avg_pool2d(h + self.skip(x), 2)


class Generator(nn.Module):
    """[n, nz] and classes [n] to [n, 3, size, size]."""

    def __init__(self, size, nz, kinds, wide, attn):
        super().__init__()
        rises = int(math.log2(size)) - 2
        self.c = 16 * wide
        self.head, self.body = Dense(nz, self.c * 16), nn.ModuleList()
        c = self.c
        for i in range(1, rises + 1):
            out = wide * min(16, 2 ** (rises - i))
            self.body.append(Grow(c, out, kinds))
            c = out
            if 4 * 2**i == attn:
                self.body.append(Attention(c))
        self.norm, self.tail = nn.BatchNorm2d(c), conv(c, 3, 3)

    def forward(self, z, y):
        h = self.head(z).view(-1, self.c, 4, 4)
        for layer in self.body:
            h = layer(h, y) if isinstance(layer, Grow) else layer(h)
        return torch.tanh(self.tail(F.relu(self.norm(h))))


class Discriminator(nn.Module):
    """[n, 3, size, size] and classes [n] to [n]."""

    def __init__(self, size, kinds, wide, attn):
        super().__init__()
        rises, c, s, layers = int(math.log2(size)) - 2, 3, size, []
        for i in range(rises):
            layers.append(Shrink(c, wide * min(16, 2**i), i == 0))
            c, s = wide * min(16, 2**i), s // 2
            if s == attn:
                layers.append(Attention(c))
        self.body = nn.Sequential(*layers)
        self.conv1, self.conv2 = conv(c, c, 3), conv(c, c, 3)
        self.score, self.embed = Dense(c, 1), Embed(kinds, c)

    def forward(self, x, y):
        h = self.body(x)
        h = F.relu(h + self.conv2(F.relu(self.conv1(F.relu(h))))).sum((2, 3))
        return self.score(h).flatten() + (h * self.embed(y)).sum(1)


class Model(Nets):
    def __init__(self, batch, size, nz, kinds, wide, attn):
        self.batch, self.size, self.nz, self.kinds = batch, size, nz, kinds
        self.G, self.D = Generator(size, nz, kinds, wide, attn), Discriminator(size, kinds, wide, attn)
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(self.nets[k].parameters(), lr=lr, betas=(0.0, 0.9))
                    for k, lr in [("G", 1e-4), ("D", 4e-4)]}
        self.generate, self.d_loss = self.G, self._d_loss

    def compile(self):
        self.generate, self.d_loss = torch.compile(self.G), torch.compile(self._d_loss)

    def refresh(self, name):
        for layer in self.nets[name].modules():
            if isinstance(layer, Spectral):
                layer.refresh()

    def _d_loss(self, x, y, fake, told):
        return F.relu(1 - self.D(x, y)).mean() + F.relu(1 + self.D(fake, told)).mean()

    def step(self, feed, record):
        """One iteration. Fed in order: images and classes, classes of fakes, z."""
        n = self.batch
        x, y = feed.data("x", n, 3, self.size, self.size), feed.labels("y", n, self.kinds)
        told, z = feed.labels("told", n, self.kinds), feed.normal(n, self.nz)
        self.refresh("G")
        self.refresh("D")
        fake = self.generate(z, told)
        self.update("D", self.d_loss(x, y, fake.detach(), told), record)
        self.refresh("D")
        self.update("G", -self.D(fake, told).mean(), record)
