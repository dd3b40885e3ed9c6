"""DCGAN on 64x64 images.

mode="published" is what the study's loop computed: batch norm frozen at its running statistics, dropout off, real images
in [0, 1]. mode="intended" turns on batch statistics and dropout 0.2 before the last layer (a unit is kept where its uniform
draw is >= 0.2, then scaled by 1/0.8; draws in the flatten order c, h, w), with real images in [-1, 1], the generator's range.

Discriminator updates on real then on fake (two Adam updates), then the generator with the same z through the new
discriminator; one uniform per sample softens the labels. G runs twice a step (fakes without gradient, then its own update),
so its running statistics move twice. compile() compiles both losses and the fake pass: everything but the optimizers.
"""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from common import count, drop
from models.nets import Nets

CASES = {
    "dcgan_published": dict(batch=4, mode="published"),
    "dcgan_intended": dict(batch=4, mode="intended"),
}
BENCH = {"dcgan": dict(batch=32, mode="intended")}


def norm(c):
    # Keras momentum 0.1 keeps a tenth of the old value: PyTorch's momentum is the weight of the new one.
    return nn.BatchNorm2d(c, eps=0.8, momentum=0.9)


class Discriminator(nn.Module):
    """[n, 3, 64, 64] and dropout draws [n, 8192] to logits [n]."""

    def __init__(self):
        super().__init__()
        layers, c = [], 3
        for i, out in enumerate([64, 128, 256, 512]):
            layers += [nn.Conv2d(c, out, 4, 2, 1)] + ([norm(out)] if i else []) + [nn.LeakyReLU(0.2)]
            c = out
        self.body, self.head = nn.Sequential(*layers, nn.Flatten()), nn.Linear(8192, 1)

    def forward(self, x, u):
        return self.head(drop(self.body(x), u)).flatten()


class Generator(nn.Sequential):
    """[n, 128] to [n, 3, 64, 64]."""

    def __init__(self):
        layers = [nn.Linear(128, 128), nn.Unflatten(1, (128, 1, 1)), nn.ConvTranspose2d(128, 512, 4, 4), norm(512), nn.LeakyReLU(0.2)]
        c = 512
        for out in [256, 128, 64]:
            layers += [nn.ConvTranspose2d(c, out, 4, 2, 1), norm(out), nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh())


class Model(Nets):
    def __init__(self, batch, mode):
        self.batch, self.intended = batch, mode == "intended"
        self.G, self.D = Generator(), Discriminator()
        assert count(self.G) == (3_823_555, 1_920) and count(self.D) == (2_766_529, 1_792)
        self.nets = {"G": self.G, "D": self.D}
        for net in self.nets.values():
            net.train(self.intended)
        adam = dict(lr=2e-4, betas=(0.5, 0.999), eps=1e-7)
        self.opt = {k: torch.optim.Adam(v.parameters(), **adam) for k, v in self.nets.items()}
        self.fake, self.g_loss, self.d_loss = self._fake, self._g_loss, self._d_loss

    def compile(self):
        self.fake, self.g_loss = torch.compile(self._fake), torch.compile(self._g_loss)
        self.d_loss = torch.compile(self._d_loss)

    def _fake(self, z):
        with torch.no_grad():
            return self.G(z)

    def _d_loss(self, x, u, target):
        return bce(self.D(x, u), target)

    def _g_loss(self, z, u):
        logits = self.D(self.G(z), u)
        return bce(logits, torch.ones_like(logits))

    def mask(self, feed):
        return feed.uniform(self.batch, 8192) if self.intended else None

    def step(self, feed, record):
        """One iteration. Fed in order: images x, z; D on real: dropout draws, u of the labels; D on fake: the same;
        G: dropout draws. No dropout draws in mode "published".
        """
        n = self.batch
        x, z = feed.data("x", n, 3, 64, 64, lo=-1.0 if self.intended else 0.0), feed.normal(n, 128)
        self.update("D", self.d_loss(x, self.mask(feed), 1 - 0.3 * feed.uniform(n)), record)
        fake = self.fake(z)
        self.update("D", self.d_loss(fake, self.mask(feed), 0.3 * feed.uniform(n)), record)
        self.D.requires_grad_(False)  # a compiled backward would make D's weight gradients too
        self.update("G", self.g_loss(z, self.mask(feed)), record)
        self.D.requires_grad_(True)
