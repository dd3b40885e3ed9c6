"""StarGAN (Choi et al. 2018): one generator from any domain to any other; where to is told as maps.

`rounds` updates of D, each with data and domains of its own (data, a domain's loss on data, a penalty), then one of G
on the last batch: its domain's loss and the way back to where the picture came from. Adam, betas 0.5 and 0.999; the
rate is 1e-4 for the whole of a case. compile() compiles G and D.
"""
import torch
from torch import nn
from torch.nn import functional as F

from models.nets import Nets

CASES = {"stargan": dict(batch=2, size=16, kinds=3, wide=4, blocks=1, depth=2, rounds=2)}
BENCH = {"stargan": dict(batch=4, size=64, kinds=5, wide=32, blocks=3, depth=5, rounds=2)}
FULL = {"stargan": dict(batch=16, size=128, wide=64, blocks=6, depth=6, rounds=5)}
DOMAIN, BACK, PENALTY = 1, 10, 10


def norm(c, *act):
    return [nn.InstanceNorm2d(c, affine=True), *act]


def conv(a, b, k, stride=1):
    return nn.Conv2d(a, b, k, stride, k // 2 if stride == 1 else 1, bias=False)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(conv(c, c, 3), *norm(c, nn.ReLU()), conv(c, c, 3), *norm(c))

    def forward(self, x):
        return x + self.body(x)


class Generator(nn.Module):
    """[n, 3, size, size] and domains [n] to [n, 3, size, size]."""

    def __init__(self, kinds, wide, blocks):
        super().__init__()
        self.kinds = kinds
        layers = [conv(3 + kinds, wide, 7), *norm(wide, nn.ReLU())]
        for c in (wide, 2 * wide):
            layers += [conv(c, 2 * c, 4, 2), *norm(2 * c, nn.ReLU())]
        layers += [Residual(4 * wide) for _ in range(blocks)]
        for c in (4 * wide, 2 * wide):
            layers += [nn.ConvTranspose2d(c, c // 2, 4, 2, 1, bias=False), *norm(c // 2, nn.ReLU())]
        self.body = nn.Sequential(*layers, conv(wide, 3, 7), nn.Tanh())

    def forward(self, x, to):
        maps = F.one_hot(to, self.kinds).to(x.dtype)[:, :, None, None].expand(-1, -1, *x.shape[2:])
        return self.body(torch.cat([x, maps], 1))


class Discriminator(nn.Module):
    """[n, 3, size, size] to scores of places [n, 1, s, s] and of domains [n, kinds]."""

    def __init__(self, size, kinds, wide, depth):
        super().__init__()
        sizes, layers = [3, *(wide << i for i in range(depth))], []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.01)]
        self.body, self.score = nn.Sequential(*layers), conv(sizes[-1], 1, 3)
        self.kind = nn.Conv2d(sizes[-1], kinds, size >> depth, bias=False)

    def forward(self, x):
        h = self.body(x)
        return self.score(h), self.kind(h).flatten(1)


class Model(Nets):
    def __init__(self, batch, size, kinds, wide, blocks, depth, rounds):
        self.batch, self.size, self.kinds, self.rounds = batch, size, kinds, rounds
        self.G, self.D = Generator(kinds, wide, blocks), Discriminator(size, kinds, wide, depth)
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(net.parameters(), lr=1e-4, betas=(0.5, 0.999)) for k, net in self.nets.items()}
        self.generate, self.judge = self.G, self.D

    def compile(self):
        self.generate, self.judge = torch.compile(self.G), torch.compile(self.D)

    def penalty(self, x, fake, feed):
        mid = (x + feed.uniform(self.batch)[:, None, None, None] * (fake - x)).requires_grad_()
        slope = torch.autograd.grad(self.D(mid)[0].sum(), mid, create_graph=True)[0]
        return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    def step(self, feed, record):
        """One iteration. Fed in order: `rounds` times images and their domains, domains to go to, uniforms; domains."""
        n = self.batch
        for _ in range(self.rounds):
            x, y = feed.data("x", n, 3, self.size, self.size), feed.labels("y", n, self.kinds)
            to = feed.labels("to", n, self.kinds)
            with torch.no_grad():
                fake = self.generate(x, to)
            real, kind = self.judge(x)
            loss = self.judge(fake)[0].mean() - real.mean() + DOMAIN * F.cross_entropy(kind, y)
            self.update("D", loss + PENALTY * self.penalty(x, fake, feed), record)
        to = feed.labels("to", n, self.kinds)
        fake = self.generate(x, to)
        score, kind = self.judge(fake)
        back = F.l1_loss(self.generate(fake, y), x)
        record.value("back", back)
        self.update("G", -score.mean() + DOMAIN * F.cross_entropy(kind, to) + BACK * back, record)
