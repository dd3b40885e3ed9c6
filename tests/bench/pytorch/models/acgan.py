"""AC-GAN (Odena et al. 2017) at 32x32: the generator is told a class, the discriminator has to name it.

D's two heads are one dense layer each. Dropout of 0.5 behind every layer of D (a unit is kept where its uniform draw
is >= 0.5, then doubled). G runs once a step: D learns from its fakes, then G through the new D, which drops anew.
Adam, 2e-4, betas 0.5 and 0.999. compile() compiles the generator pass and D.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from common import grads
from models.nets import Nets

CASES = {"acgan": dict(batch=3, nz=5, wide=4, kinds=3)}
BENCH = {"acgan": dict(batch=32, nz=100, wide=64, kinds=10)}


class Generator(nn.Module):
    """[n, nz] and classes [n] to [n, 3, 32, 32]."""

    def __init__(self, nz, wide, kinds):
        super().__init__()
        self.wide, self.embed, self.head = wide, nn.Embedding(kinds, nz), nn.Linear(nz, 8 * wide * 16)
        layers = [nn.BatchNorm2d(8 * wide), nn.ReLU()]
        for a, b in [(8, 4), (4, 2)]:
            layers += [nn.ConvTranspose2d(a * wide, b * wide, 4, 2, 1, bias=False), nn.BatchNorm2d(b * wide), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.ConvTranspose2d(2 * wide, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, z, y):
        return self.body(self.head(z * self.embed(y)).view(-1, 8 * self.wide, 4, 4))


class Discriminator(nn.Module):
    """[n, 3, 32, 32] and a draw for each layer to logits [n] and classes [n, kinds]."""

    def __init__(self, wide, kinds):
        super().__init__()
        self.head, self.body = nn.Conv2d(3, wide, 3, 2, 1, bias=False), nn.ModuleList()
        for a, b, stride in [(1, 2, 1), (2, 4, 2), (4, 8, 2)]:
            self.body.append(nn.Sequential(nn.Conv2d(a * wide, b * wide, 3, stride, 1, bias=False), nn.BatchNorm2d(b * wide)))
        self.source, self.kind = nn.Linear(8 * wide * 16, 1), nn.Linear(8 * wide * 16, kinds)

    def forward(self, x, draws):
        for layer, u in zip([self.head, *self.body], draws):
            x = F.leaky_relu(layer(x), 0.2) * (u >= 0.5) * 2
        x = x.flatten(1)
        return self.source(x).flatten(), self.kind(x)


class Model(Nets):
    def __init__(self, batch, nz, wide, kinds):
        self.batch, self.nz, self.wide, self.kinds = batch, nz, wide, kinds
        self.G, self.D = Generator(nz, wide, kinds), Discriminator(wide, kinds)
        self.nets = {"G": self.G, "D": self.D}
        self.opt = {k: torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for k, net in self.nets.items()}
        self.generate, self.judge = self.G, self.D

    def compile(self):
        self.generate, self.judge = torch.compile(self.G), torch.compile(self.D)

    def ask(self, x, feed):
        n, c = self.batch, self.wide
        return self.judge(x, [feed.uniform(n, *s) for s in [(c, 16, 16), (2 * c, 16, 16), (4 * c, 8, 8), (8 * c, 4, 4)]])

    def update(self, name, loss, record):
        self.opt[name].zero_grad(set_to_none=True)
        loss.backward(inputs=list(self.nets[name].parameters()), retain_graph=name == "D")
        record.update([name], loss, grads(self.nets, [name]))
        self.opt[name].step()

    def step(self, feed, record):
        """One iteration. Fed in order: images, their classes; classes of fakes, z; dropout of D on data, on fakes, again."""
        n = self.batch
        x, y = feed.data("x", n, 3, 32, 32), feed.labels("y", n, self.kinds)
        told, z = feed.labels("told", n, self.kinds), feed.normal(n, self.nz)
        fake = self.generate(z, told)
        (real_logit, real_kind), (logit, kind) = self.ask(x, feed), self.ask(fake.detach(), feed)
        ones, zeros = torch.ones_like(logit), torch.zeros_like(logit)
        source = bce(real_logit, ones) + bce(logit, zeros)
        self.update("D", source + F.cross_entropy(real_kind, y) + F.cross_entropy(kind, told), record)
        record.value("accuracy", (real_kind.argmax(1) == y).to(logit.dtype).mean())
        logit, kind = self.ask(fake, feed)
        self.update("G", bce(logit, ones) + F.cross_entropy(kind, told), record)
