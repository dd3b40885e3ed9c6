"""WGAN-GP on 64x64 images.

mode="published": x^ = x + a (G(z) - x) with one *normal* a per sample, no epsilon in the norm's root, a sigmoid after
the critic, dropout 0.2 before its last layer (a unit is kept where its uniform draw is >= 0.2, then scaled by 1/0.8;
draws in the flatten order c, h, w; fresh in each critic pass), real images in [0, 1].
mode="intended" repairs known problems: uniform a, 1e-7 added inside the root (as upstream's fix),
no sigmoid, no dropout, real images in [-1, 1], the generator's range. The networks are the same: layer norm over channels
only, per pixel (eps 1e-3); batch norm with batch statistics in every generator call (eps 0.8).

Five critic updates on the same real batch, each with a new z (the generator is not differentiated but its running
statistics move), then one generator update with a new z. Critic loss: mean D(fake) - mean D(x) + 10 mean((|dD/dx^| - 1)^2).
compile() compiles both losses and the fake pass. torch.compile cannot differentiate a compiled function twice, nor trace
torch.autograd.grad by default, but it does trace torch.func.grad: so the eager step takes the inner gradient with the
former (create_graph) and the compiled step with the latter, which makes the whole critic loss one graph.
"""
import torch
from torch import nn

from common import count, drop
from models.nets import Nets

CASES = {
    "wgan_gp_published": dict(batch=4, mode="published"),
    "wgan_gp_intended": dict(batch=4, mode="intended"),
}
BENCH = {"wgan_gp": dict(batch=32, mode="published")}


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of each pixel of [n, c, h, w]."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def norm(c):
    # Keras momentum 0.1 keeps a tenth of the old value: PyTorch's momentum is the weight of the new one.
    return nn.BatchNorm2d(c, eps=0.8, momentum=0.9)


class Critic(nn.Module):
    """[n, 3, 64, 64] and dropout draws [n, 8192] to scores [n]."""

    def __init__(self, last):
        super().__init__()
        layers, c = [], 3
        for i, out in enumerate([64, 128, 256, 512]):
            layers += [nn.Conv2d(c, out, 4, 2, 1)] + ([ChannelNorm(out, eps=1e-3)] if i else []) + [nn.LeakyReLU(0.2)]
            c = out
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Sequential(nn.Linear(8192, 1), last, nn.Flatten(0))

    def forward(self, x, u):
        return self.head(drop(self.body(x), u))


class Generator(nn.Sequential):
    """[n, 128] to [n, 3, 64, 64]."""

    def __init__(self):
        layers = [nn.Linear(128, 128), nn.Unflatten(1, (128, 1, 1)),
                  nn.ConvTranspose2d(128, 512, 4, 4), norm(512), nn.LeakyReLU(0.2)]
        c = 512
        for out in [256, 128, 64]:
            layers += [nn.ConvTranspose2d(c, out, 4, 2, 1), norm(out), nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh())


class Model(Nets):
    def __init__(self, batch, mode):
        self.batch, self.published = batch, mode == "published"
        self.eps = 0.0 if self.published else 1e-7
        self.G, self.D = Generator(), Critic(nn.Sigmoid() if self.published else nn.Identity())
        assert count(self.G) == (3_823_555, 1_920) and count(self.D) == (2_766_529, 0)
        self.nets = {"G": self.G, "D": self.D}
        adam = dict(lr=2e-4, betas=(0.5, 0.9), eps=1e-7)
        self.opt = {k: torch.optim.Adam(v.parameters(), **adam) for k, v in self.nets.items()}
        self.fake, self.g_loss, self.d_loss, self.slope = self._fake, self._g_loss, self._d_loss, self._slope

    def compile(self):
        self.fake, self.g_loss = torch.compile(self._fake), torch.compile(self._g_loss)
        self.d_loss = torch.compile(self._d_loss)
        self.slope = torch.func.grad(lambda x, u: self.D(x, u).sum())

    def _fake(self, z):
        with torch.no_grad():
            return self.G(z)

    def _slope(self, x, u):
        """Gradient of each score to its own image, itself differentiable."""
        x.requires_grad_()
        return torch.autograd.grad(self.D(x, u).sum(), x, create_graph=True)[0]

    def _d_loss(self, x, fake, u_fake, u_real, a, u_mid):
        """Critic loss and, for the record, its penalty."""
        gap = self.D(fake, u_fake).mean() - self.D(x, u_real).mean()
        slope = self.slope(x + a.view(-1, 1, 1, 1) * (fake - x), u_mid)
        penalty = ((slope.square().sum((1, 2, 3)) + self.eps).sqrt() - 1).square().mean()
        return gap + 10 * penalty, penalty.detach()

    def _g_loss(self, z, u):
        return -self.D(self.G(z), u).mean()

    def mask(self, feed):
        return feed.uniform(self.batch, 8192) if self.published else None

    def mix(self, feed):
        return feed.normal(self.batch) if self.published else feed.uniform(self.batch)

    def step(self, feed, record):
        """One iteration. Fed in order: images x; five times z, dropout draws of the fake and of the real pass, a,
        dropout draws of the penalty pass; then z, dropout draws. No dropout draws in mode "intended".
        """
        n = self.batch
        x = feed.data("x", n, 3, 64, 64, lo=0.0 if self.published else -1.0)
        for i in range(5):
            fake = self.fake(feed.normal(n, 128))
            loss, penalty = self.d_loss(x, fake, self.mask(feed), self.mask(feed), self.mix(feed), self.mask(feed))
            record.value(f"penalty{i}", penalty)
            self.update("D", loss, record)
        self.D.requires_grad_(False)  # a compiled backward would make D's weight gradients too
        self.update("G", self.g_loss(feed.normal(n, 128), self.mask(feed)), record)
        self.D.requires_grad_(True)
