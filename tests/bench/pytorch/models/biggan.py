"""BigGAN (Brock et al. 2019), the 128x128 one of the authors' PyTorch code at other widths and extents.

Each norm of G takes gain (around 1) and shift from a dense layer of the class's embedding, which all norms share, and a
part of z. Attention asks keys pooled by 2. Every weight matrix but G's embedding is divided by its spectral norm as in
sagan. `rounds` updates of D, each with data, classes and z of its own, then one of G, whose gradient has the
orthogonal regularisation's added (half of it, as in the authors' code). Adam with betas 0 and 0.999. G_avg follows G.
compile() compiles the generator pass and D's loss.
"""
import copy

import torch
from torch import nn
from torch.nn import functional as F

from common import grads
from models.nets import Nets
from models.sagan import Conv, Dense, Embed, Spectral, conv

CASES = {"biggan": dict(batch=3, levels=[2, 2, 1], wide=6, kinds=3, shared=4, z_chunk=3, attn=8, rounds=2, keep=0.9)}
BENCH = {"biggan": dict(batch=16, levels=[4, 4, 4, 4], wide=16, kinds=10, shared=32, z_chunk=20, attn=16, rounds=2, keep=0.999)}
FULL = {"biggan": dict(levels=[16, 16, 8, 4, 2, 1], wide=96, kinds=1000, shared=128, attn=64, keep=0.9999)}
APART = 1e-4


class Norm(nn.Module):
    def __init__(self, c, told):
        super().__init__()
        self.norm = nn.BatchNorm2d(c, affine=False)
        self.gain, self.shift = Dense(told, c, bias=False), Dense(told, c, bias=False)

    def forward(self, x, told):
        return self.norm(x) * (1 + self.gain(told))[:, :, None, None] + self.shift(told)[:, :, None, None]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner, half = max(1, c // 8), max(1, c // 2)
        self.scale = nn.Parameter(torch.zeros(1))
        self.f, self.g = conv(c, inner, 1, False), conv(c, inner, 1, False)
        self.h, self.o = conv(c, half, 1, False), conv(half, c, 1, False)

    def forward(self, x):
        g, h = (F.max_pool2d(layer(x), 2).flatten(2) for layer in (self.g, self.h))
        weight = (self.f(x).flatten(2).transpose(1, 2) @ g).softmax(2)
        o = h @ weight.transpose(1, 2)
        return x + self.scale * self.o(o.unflatten(2, x.shape[2:]))


class Grow(nn.Module):
    def __init__(self, a, b, told):
        super().__init__()
        self.norm1, self.conv1 = Norm(a, told), conv(a, b, 3)
        self.norm2, self.conv2 = Norm(b, told), conv(b, b, 3)
        self.skip = conv(a, b, 1)

    def forward(self, x, told):
        h = self.conv1(F.interpolate(F.relu(self.norm1(x, told)), scale_factor=2))
        return self.conv2(F.relu(self.norm2(h, told))) + self.skip(F.interpolate(x, scale_factor=2))


class Generator(nn.Module):
    """[n, z_chunk * len(levels)] and classes [n] to [n, 3, size, size]."""

    def __init__(self, levels, wide, kinds, shared, z_chunk, attn):
        super().__init__()
        self.c, self.z_chunk = levels[0] * wide, z_chunk
        self.embed, self.head, self.body = nn.Embedding(kinds, shared), Dense(z_chunk, self.c * 16), nn.ModuleList()
        c, s = self.c, 4
        for level in levels[1:]:
            self.body.append(Grow(c, level * wide, shared + z_chunk))
            c, s = level * wide, 2 * s
            if s == attn:
                self.body.append(Attention(c))
        self.norm, self.tail = nn.BatchNorm2d(c), conv(c, 3, 3)

    def forward(self, z, y):
        z, e = z.split(self.z_chunk, 1), self.embed(y)
        h, i = self.head(z[0]).view(-1, self.c, 4, 4), 0
        for layer in self.body:
            if isinstance(layer, Grow):
                i += 1
                h = layer(h, torch.cat([e, z[i]], 1))
            else:
                h = layer(h)
        return torch.tanh(self.tail(F.relu(self.norm(h))))


class Block(nn.Module):
    """D's: the first has no activation in front and pools before its shortcut; the last keeps extent and channels."""

    def __init__(self, a, b, first, last):
        super().__init__()
        self.first, self.last = first, last
        self.conv1, self.conv2 = conv(a, b, 3), conv(b, b, 3)
        if not last:
            self.skip = conv(a, b, 1)

    def forward(self, x):
        h = self.conv2(F.relu(self.conv1(x if self.first else F.relu(x))))
        if self.last:
            return h + x
        skip = self.skip(F.avg_pool2d(x, 2)) if self.first else F.avg_pool2d(self.skip(x), 2)
        return F.avg_pool2d(h, 2) + skip


class Discriminator(nn.Module):
    """[n, 3, size, size] and classes [n] to [n]."""

    def __init__(self, levels, wide, kinds, attn):
        super().__init__()
        c, s, layers = 3, 4 * 2 ** (len(levels) - 1), []
        for i, level in enumerate(reversed(levels)):
            last = i == len(levels) - 1
            layers.append(Block(c, level * wide, i == 0, last))
            c = level * wide
            if not last:
                s //= 2
                if s == attn:
                    layers.append(Attention(c))
        self.body = nn.Sequential(*layers)
        self.score, self.embed = Dense(c, 1), Embed(kinds, c)

    def forward(self, x, y):
        h = F.relu(self.body(x)).sum((2, 3))
        return self.score(h).flatten() + (h * self.embed(y)).sum(1)


class Model(Nets):
    def __init__(self, batch, levels, wide, kinds, shared, z_chunk, attn, rounds, keep):
        self.batch, self.size, self.nz, self.kinds = batch, 4 * 2 ** (len(levels) - 1), z_chunk * len(levels), kinds
        self.rounds, self.keep = rounds, keep
        self.G, self.D = Generator(levels, wide, kinds, shared, z_chunk, attn), Discriminator(levels, wide, kinds, attn)
        self.G_avg = copy.deepcopy(self.G)
        self.nets = {"G": self.G, "D": self.D, "G_avg": self.G_avg}
        self.opt = {k: torch.optim.Adam(self.nets[k].parameters(), lr=lr, betas=(0.0, 0.999))
                    for k, lr in [("G", 5e-5), ("D", 2e-4)]}
        self.generate, self.d_loss = self.G, self._d_loss

    def compile(self):
        self.generate, self.d_loss = torch.compile(self.G), torch.compile(self._d_loss)

    def refresh(self, *names):
        for name in names:
            for layer in self.nets[name].modules():
                if isinstance(layer, Spectral):
                    layer.refresh()

    def _d_loss(self, x, y, fake, told):
        return F.relu(1 - self.D(x, y)).mean() + F.relu(1 + self.D(fake, told)).mean()

    def update(self, name, loss, record):
        self.opt[name].zero_grad(set_to_none=True)
        loss.backward(inputs=list(self.nets[name].parameters()))
        record.update([name], loss, grads(self.nets, [name]))
        if name == "G":
            self.apart()
        self.opt[name].step()

    @torch.no_grad()
    def apart(self):
        for p in self.G.parameters():
            if p.dim() > 1 and p is not self.G.embed.weight:
                w = p.flatten(1)
                gram = w @ w.T
                p.grad += 2 * APART * ((gram - gram.diag().diag()) @ w).view_as(p)

    @torch.no_grad()
    def average(self):
        for a, p in zip(self.G_avg.parameters(), self.G.parameters()):
            a.lerp_(p, 1 - self.keep)
        for a, b in zip(self.G_avg.buffers(), self.G.buffers()):
            a.copy_(b)

    def step(self, feed, record):
        """One iteration. Fed in order: `rounds` times images and classes, classes of fakes, z; classes of fakes, z."""
        n = self.batch
        for _ in range(self.rounds):
            x, y = feed.data("x", n, 3, self.size, self.size), feed.labels("y", n, self.kinds)
            told, z = feed.labels("told", n, self.kinds), feed.normal(n, self.nz)
            self.refresh("D", "G")
            with torch.no_grad():
                fake = self.generate(z, told)
            self.update("D", self.d_loss(x, y, fake, told), record)
        told, z = feed.labels("told", n, self.kinds), feed.normal(n, self.nz)
        self.refresh("D", "G")
        self.update("G", -self.D(self.generate(z, told), told).mean(), record)
        self.average()
