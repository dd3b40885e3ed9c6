"""InfoGAN (Chen et al. 2016) at 28x28: a discrete code and `continuous` continuous ones that Q reads off the image.

D and Q see a picture through one body, which learns with D; G learns with Q. G runs once a step, the body once on data
and twice on fakes. Adam, 2e-4 for the body and D, 1e-3 for G and Q, betas 0.5 and 0.999.
compile() compiles the generator pass and the body.
"""
import torch
from torch import nn
from torch.nn import functional as F

from common import grads
from models.nets import Nets

CASES = {"infogan": dict(batch=6, nz=5, kinds=3, continuous=2, wide=4)}
BENCH = {"infogan": dict(batch=32, nz=62, kinds=10, continuous=2, wide=64)}
DISCRETE, CONTINUOUS = 1.0, 0.1


def fc(a, b, *act):
    return [nn.Linear(a, b, bias=False), nn.BatchNorm1d(b), *act]


class Generator(nn.Module):
    """[n, nz], classes [n] and codes [n, continuous] to [n, 1, 28, 28]."""

    def __init__(self, nz, kinds, continuous, wide):
        super().__init__()
        self.kinds, self.wide = kinds, wide
        self.head = nn.Sequential(*fc(nz + kinds + continuous, 16 * wide, nn.ReLU()), *fc(16 * wide, 2 * wide * 49, nn.ReLU()))
        self.body = nn.Sequential(nn.ConvTranspose2d(2 * wide, wide, 4, 2, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
                                  nn.ConvTranspose2d(wide, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z, y, code):
        code = torch.cat([z, F.one_hot(y, self.kinds).to(z.dtype), code], 1)
        return self.body(self.head(code).view(-1, 2 * self.wide, 7, 7))


def body(wide):
    act = nn.LeakyReLU(0.1)
    return nn.Sequential(nn.Conv2d(1, wide, 4, 2, 1), act, nn.Conv2d(wide, 2 * wide, 4, 2, 1, bias=False),
                         nn.BatchNorm2d(2 * wide), act, nn.Flatten(), *fc(2 * wide * 49, 16 * wide, act))


class Reader(nn.Module):
    """Q: features to scores of the classes, mean and log of the variance of the continuous codes."""

    def __init__(self, kinds, continuous, wide):
        super().__init__()
        self.body = nn.Sequential(*fc(16 * wide, 2 * wide, nn.LeakyReLU(0.1)))
        self.kind, self.mean, self.logvar = (nn.Linear(2 * wide, n) for n in (kinds, continuous, continuous))

    def forward(self, h):
        h = self.body(h)
        return self.kind(h), self.mean(h), self.logvar(h)


class Model(Nets):
    def __init__(self, batch, nz, kinds, continuous, wide):
        self.batch, self.nz, self.kinds, self.continuous = batch, nz, kinds, continuous
        self.nets = {"G": Generator(nz, kinds, continuous, wide), "Body": body(wide), "D": nn.Linear(16 * wide, 1),
                     "Q": Reader(kinds, continuous, wide)}
        self.generate, self.look = self.nets["G"], self.nets["Body"]
        self.opt = {}
        for names, lr in [("Body D", 2e-4), ("G Q", 1e-3)]:
            weights = [p for name in names.split() for p in self.nets[name].parameters()]
            self.opt[names] = torch.optim.Adam(weights, lr=lr, betas=(0.5, 0.999))

    def compile(self):
        self.generate, self.look = torch.compile(self.generate), torch.compile(self.look)

    def update(self, names, loss, record):
        self.opt[names].zero_grad(set_to_none=True)
        names_list = names.split()
        loss.backward(inputs=[p for name in names_list for p in self.nets[name].parameters()], retain_graph=names == "Body D")
        record.update(names_list, loss, grads(self.nets, names_list))
        self.opt[names].step()

    def step(self, feed, record):
        """One iteration. Fed in order: images; classes, continuous codes (uniform), z of the fakes."""
        n, D = self.batch, self.nets["D"]
        x = feed.data("x", n, 1, 28, 28)
        told, code, z = feed.labels("told", n, self.kinds), 2 * feed.uniform(n, self.continuous) - 1, feed.normal(n, self.nz)
        fake = self.generate(z, told, code)
        real = F.softplus(-D(self.look(x))).mean()
        self.update("Body D", real + F.softplus(D(self.look(fake.detach()))).mean(), record)

        h = self.look(fake)
        kind, mean, logvar = self.nets["Q"](h)
        surprise = ((code - mean).square() / logvar.exp() + logvar).sum(1).mean() / 2
        lost = DISCRETE * F.cross_entropy(kind, told) + CONTINUOUS * surprise
        record.value("lost", lost)
        self.update("G Q", F.softplus(-D(h)).mean() + lost, record)
