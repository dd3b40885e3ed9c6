"""D2GAN (Nguyen et al. 2017) on a ring of 8 Gaussians.

x = 2 (sin t, cos t) + sqrt(0.02) e with t = 2 pi k / 8, k a uniform label and e normal [n, 2]: 0.02 is the variance.
D1 and D2 end in softplus and are scores, not probabilities; no epsilon inside the logs. alpha weighs log D1(x), beta
weighs log D2(G(z)); both 1 as published, the weighted case tells them apart.

One Adam updates D1 and D2 jointly on loss1 + loss2 (also recorded as values), another one G, with a new z.
Adam's epsilon is not stated: 1e-8, the default. compile() compiles both losses and the fake pass.
"""
import math

import torch
from torch import nn

from common import count, grads
from models.nets import Nets

CASES = {
    "d2gan_ring": dict(batch=8, alpha=1.0, beta=1.0),
    "d2gan_ring_weighted": dict(batch=8, alpha=0.2, beta=0.1),
}
BENCH = {"d2gan_ring": dict(batch=32, alpha=1.0, beta=1.0)}


class Generator(nn.Sequential):
    """[n, 256] to [n, 2]."""

    def __init__(self):
        super().__init__(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


class Discriminator(nn.Sequential):
    """[n, 2] to scores [n], above 0."""

    def __init__(self):
        super().__init__(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 1), nn.Softplus(), nn.Flatten(0))


class Model(Nets):
    def __init__(self, batch, alpha, beta):
        self.batch, self.alpha, self.beta = batch, alpha, beta
        self.G, self.D1, self.D2 = Generator(), Discriminator(), Discriminator()
        assert count(self.G) == (49_666, 0) and count(self.D1) == count(self.D2) == (513, 0)
        self.nets = {"G": self.G, "D1": self.D1, "D2": self.D2}
        adam = dict(lr=2e-4, betas=(0.5, 0.999), eps=1e-8)
        self.opt = {"D": torch.optim.Adam([*self.D1.parameters(), *self.D2.parameters()], **adam),
                    "G": torch.optim.Adam(self.G.parameters(), **adam)}
        self.fake, self.g_loss, self.d_losses = self._fake, self._g_loss, self._d_losses

    def compile(self):
        self.fake, self.g_loss = torch.compile(self._fake), torch.compile(self._g_loss)
        self.d_losses = torch.compile(self._d_losses)

    def _fake(self, z):
        with torch.no_grad():
            return self.G(z)

    def _d_losses(self, x, fake):
        return ((self.D1(fake) - self.alpha * self.D1(x).log()).mean(),
                (self.D2(x) - self.beta * self.D2(fake).log()).mean())

    def _g_loss(self, z):
        fake = self.G(z)
        return (self.beta * self.D2(fake).log() - self.D1(fake)).mean()

    def update(self, opt, names, loss, record):
        self.opt[opt].zero_grad(set_to_none=True)
        loss.backward(inputs=[p for name in names for p in self.nets[name].parameters()])
        record.update(names, loss, grads(self.nets, names))
        self.opt[opt].step()

    def ring(self, feed):
        k, e = feed.labels("k", self.batch, 8), feed.normal(self.batch, 2)
        t = 2 * math.pi / 8 * k.to(e)
        return 2 * torch.stack([t.sin(), t.cos()], 1) + math.sqrt(0.02) * e

    def step(self, feed, record):
        """One iteration. Fed in order: k and e of the ring, z of the discriminators, z of the generator."""
        n = self.batch
        x, fake = self.ring(feed), self.fake(feed.normal(n, 256))
        loss1, loss2 = self.d_losses(x, fake)
        record.value("loss1", loss1)
        record.value("loss2", loss2)
        self.update("D", ["D1", "D2"], loss1 + loss2, record)
        for net in (self.D1, self.D2):
            net.requires_grad_(False)  # a compiled backward would make their weight gradients too
        self.update("G", ["G"], self.g_loss(feed.normal(n, 256)), record)
        for net in (self.D1, self.D2):
            net.requires_grad_(True)
