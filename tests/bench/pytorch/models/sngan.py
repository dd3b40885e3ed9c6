"""SNGAN on 64x64 images.

mode="published" is what the study's loop computed: weights never normalised, batch norm frozen at its running
statistics, dropout off, real images in [0, 1]. mode="intended" turns on spectral norm, batch statistics and dropout
0.2 (a unit is kept where its uniform draw is >= 0.2, then scaled by 1/0.8; draws in the flatten order c, h, w), with
real images in [-1, 1], the generator's range.

Spectral norm: W = weight.flatten(1), so u has the output channels of a convolution and the input channels of a
transposed one. One power iteration per call, v = l2(W^T u), u = l2(W v), both constants; then the layer uses W / sigma
with sigma = u W v, differentiated through sigma (the study's library overwrote W instead). u is the only state; in
"published" it is never touched. Each update calls each net at most once, so "per call" is also "per update".

Discriminator updates on real then on fake (two Adam updates), then the generator with the same z through the new
discriminator; one uniform per sample softens the labels. G runs twice a step (fakes without gradient, then its
own update), so its u and running statistics move twice a step; D's u moves three times.
compile() compiles both losses and the fake pass: everything but the optimizers.
"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from common import count, drop
from models.nets import Nets

CASES = {
    "sngan_published": dict(batch=4, mode="published"),
    "sngan_intended": dict(batch=4, mode="intended"),
}
BENCH = {"sngan": dict(batch=32, mode="intended")}


class Spectral:
    """Mixin of a convolution: its weight divided by its spectral norm while training."""

    def __init__(self, *args):
        super().__init__(*args)
        self.register_buffer("u", 0.02 * torch.randn(len(self.weight)))

    def unit_weight(self):
        if not self.training:
            return self.weight
        w = self.weight.flatten(1)
        with torch.no_grad():
            v = F.normalize(w.T @ self.u, dim=0)
            u = F.normalize(w @ v, dim=0)
            self.u.copy_(u)
        return self.weight / (u @ (w @ v))


class SNConv(Spectral, nn.Conv2d):
    def forward(self, x):
        return F.conv2d(x, self.unit_weight(), self.bias, self.stride, self.padding)


class SNConvTranspose(Spectral, nn.ConvTranspose2d):
    def forward(self, x):
        return F.conv_transpose2d(x, self.unit_weight(), self.bias, self.stride, self.padding)


class Discriminator(nn.Module):
    """[n, 3, 64, 64] and dropout draws [n, 1024] to logits [n]."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), SNConv(64, 128, 4, 2, 1), nn.LeakyReLU(0.2),
            SNConv(128, 256, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(256, 512, 4, 2, 1),
            SNConv(512, 256, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten())
        self.head = nn.Linear(1024, 1)

    def forward(self, x, u):
        return self.head(drop(self.body(x), u)).flatten()


class Generator(nn.Sequential):
    """[n, 128] to [n, 3, 64, 64]."""

    def __init__(self):
        layers = [nn.Linear(128, 128), nn.Unflatten(1, (128, 1, 1)), SNConvTranspose(128, 512, 4, 4), nn.LeakyReLU(0.2)]
        c = 512
        for out in [256, 128, 64]:
            # Keras momentum 0.1 keeps a tenth of the old value: PyTorch's momentum is the weight of the new one.
            norm = [nn.BatchNorm2d(out, eps=0.8, momentum=0.9)] if out == 128 else []
            layers += [SNConvTranspose(c, out, 4, 2, 1)] + norm + [nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, SNConvTranspose(c, 3, 4, 2, 1), nn.Tanh())


class Model(Nets):
    def __init__(self, batch, mode):
        self.batch, self.intended = batch, mode == "intended"
        self.G, self.D = Generator(), Discriminator()
        assert count(self.G) == (3_821_891, 1_344) and count(self.D) == (4_854_977, 640)
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
        return feed.uniform(self.batch, 1024) if self.intended else None

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
