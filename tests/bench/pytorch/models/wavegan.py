"""WaveGAN (Donahue et al. 2019): sounds by one-dimensional convolutions of 25 taps and stride 4, WGAN-GP.

Convolutions are padded as TensorFlow's SAME does, transposed ones are their adjoints. Phase shuffle moves the features
of D's layers but the last by -2 to 2 places, reflecting at the ends, by one number for the whole batch that is drawn at
each call. `rounds` updates of D, each with data and z of its own, then one of G. Adam, 1e-4, betas 0.5 and 0.9.
compile() compiles the generator pass.
"""
import torch
from torch import nn
from torch.nn import functional as F

from models.nets import Nets

CASES = {"wavegan": dict(batch=3, slice=256, nz=5, wide=3, rounds=2)}
BENCH = {"wavegan": dict(batch=8, slice=4096, nz=100, wide=32, rounds=2)}
FULL = {"wavegan": dict(batch=64, slice=16384, wide=64, rounds=5)}
SHUFFLE, PENALTY = 2, 10
TAPS, STRIDE = 25, 4
BEFORE, AFTER = (TAPS - STRIDE) // 2, (TAPS - STRIDE + 1) // 2


class Up(nn.ConvTranspose1d):
    def __init__(self, a, b):
        super().__init__(a, b, TAPS, STRIDE)

    def forward(self, x):
        return super().forward(x)[:, :, BEFORE:-AFTER]


class Generator(nn.Module):
    """[n, nz] to [n, 1, slice]."""

    def __init__(self, levels, nz, wide):
        super().__init__()
        self.c = wide << (levels - 1)
        self.head, layers = nn.Linear(nz, 16 * self.c), [nn.ReLU()]
        for i in range(1, levels):
            layers += [Up(self.c >> (i - 1), self.c >> i), nn.ReLU()]
        self.body = nn.Sequential(*layers, Up(wide, 1), nn.Tanh())

    def forward(self, z):
        return self.body(self.head(z).view(-1, self.c, 16))


class Discriminator(nn.Module):
    """[n, 1, slice] and places moved behind each layer but the last to [n]."""

    def __init__(self, levels, wide):
        super().__init__()
        sizes = [1, *(wide << i for i in range(levels))]
        self.body = nn.ModuleList([nn.Conv1d(a, b, TAPS, STRIDE) for a, b in zip(sizes, sizes[1:])])
        self.score = nn.Linear(16 * sizes[-1], 1)

    def forward(self, x, moved):
        for i, layer in enumerate(self.body):
            x = F.leaky_relu(layer(F.pad(x, (BEFORE, AFTER))), 0.2)
            if i < len(moved):
                x = F.pad(x, (SHUFFLE, SHUFFLE), mode="reflect")[:, :, moved[i]:moved[i] + x.shape[2]]
        return self.score(x.flatten(1)).flatten()


class Model(Nets):
    def __init__(self, batch, slice, nz, wide, rounds):
        self.levels = (slice // 16).bit_length() // 2
        self.batch, self.slice, self.nz, self.rounds = batch, slice, nz, rounds
        self.G, self.D = Generator(self.levels, nz, wide), Discriminator(self.levels, wide)
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.5, 0.9)) for k, net in self.nets.items()}
        self.generate = self.G

    def compile(self):
        self.generate = torch.compile(self.G)

    def judge(self, x, feed):
        return self.D(x, [int(feed.label("moved", 2 * SHUFFLE + 1)) for _ in range(self.levels - 1)])

    def penalty(self, x, fake, feed):
        mid = (x + feed.uniform(self.batch)[:, None, None] * (fake - x)).requires_grad_()
        slope = torch.autograd.grad(self.judge(mid, feed).sum(), mid, create_graph=True)[0]
        return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    def step(self, feed, record):
        """One iteration. Fed in order: `rounds` times sounds, z, places moved of data, of fakes, uniforms, places moved
        between; z, places moved."""
        n = self.batch
        for _ in range(self.rounds):
            x, z = feed.data("x", n, 1, self.slice), feed.normal(n, self.nz)
            with torch.no_grad():
                fake = self.generate(z)
            real = self.judge(x, feed).mean()
            loss = self.judge(fake, feed).mean() - real
            self.update("D", loss + PENALTY * self.penalty(x, fake, feed), record)
        self.update("G", -self.judge(self.generate(feed.normal(n, self.nz)), feed).mean(), record)
