"""BEGAN (Berthelot et al. 2017): the critic is an autoencoder, a controller keeps the balance.

G and the second half of D are one structure: dense to [wide, 8, 8], then pairs of 3x3 convolutions and elu, between them
nearest upsampling to the full size. The first half of D is pairs that grow by `wide` channels as they halve the extent.
D's loss is l1(D(x), x) - k l1(D(fake), fake), G's the second term; both are of the weights before either update. Then
k moves by speed (gamma real - fake), within [0, 1].
compile() compiles G and D.
"""
import torch
from torch import nn
from torch.nn import functional as F

from common import grads
from models.nets import Nets

CASES = {"began": dict(batch=3, size=16, wide=4, nz=5, gamma=0.5, speed=0.5)}
BENCH = {"began": dict(batch=16, size=64, wide=64, nz=64, gamma=0.5, speed=0.001)}


def cv(a, b, stride=1):
    return [nn.Conv2d(a, b, 3, stride, 1), nn.ELU()]


def pair(a, b):
    return cv(a, b) + cv(b, b)


def decode(size, wide, nz):
    layers, s = [nn.Linear(nz, wide * 64), nn.Unflatten(1, (wide, 8, 8)), *pair(wide, wide)], 8
    while s < size:
        layers += [nn.Upsample(scale_factor=2), *pair(wide, wide)]
        s *= 2
    return layers + [nn.Conv2d(wide, 3, 3, 1, 1)]


def encode(size, wide, nz):
    layers, c, s = cv(3, wide) + pair(wide, wide), wide, size
    while s > 8:
        layers += cv(c, c + wide, 2) + pair(c + wide, c + wide)
        c, s = c + wide, s // 2
    return layers + [nn.Flatten(), nn.Linear(c * 64, nz)]


class Model(Nets):
    def __init__(self, batch, size, wide, nz, gamma, speed):
        self.batch, self.size, self.nz, self.gamma, self.speed, self.k = batch, size, nz, gamma, speed, 0.0
        self.G = nn.Sequential(*decode(size, wide, nz))
        self.D = nn.Sequential(*encode(size, wide, nz), *decode(size, wide, nz))
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(v.parameters(), lr=1e-4, betas=(0.5, 0.999)) for k, v in self.nets.items()}
        self.generate, self.copy = self.G, self.D

    def compile(self):
        self.generate, self.copy = torch.compile(self.G), torch.compile(self.D)

    def step(self, feed, record):
        """One iteration. Fed in order: images, z."""
        x, z = feed.data("x", self.batch, 3, self.size, self.size), feed.uniform(self.batch, self.nz)
        fake = self.generate(2 * z - 1)
        real_loss, fake_loss = F.l1_loss(self.copy(x), x), F.l1_loss(self.copy(fake), fake)
        d_loss = real_loss - self.k * fake_loss
        for name, loss in [("D", d_loss), ("G", fake_loss)]:
            self.opt[name].zero_grad(set_to_none=True)
            loss.backward(inputs=list(self.nets[name].parameters()), retain_graph=name == "D")
            record.update([name], loss, grads(self.nets, [name]))
        for name in ["D", "G"]:
            self.opt[name].step()
        balance = self.gamma * real_loss.item() - fake_loss.item()
        self.k = min(max(self.k + self.speed * balance, 0.0), 1.0)
