"""DCGAN's step as models/dcgan.gan writes it (mode=intended), in PyTorch: what tests/bench/cpu.sh races against."""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def generator():
    def up(a, b):
        return [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b, eps=0.8, momentum=0.9), nn.LeakyReLU(0.2)]
    return nn.Sequential(nn.Linear(128, 128), nn.Unflatten(1, (128, 1, 1)), nn.ConvTranspose2d(128, 512, 4, 4),
                         nn.BatchNorm2d(512, eps=0.8, momentum=0.9), nn.LeakyReLU(0.2), *up(512, 256), *up(256, 128),
                         *up(128, 64), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())


def discriminator():
    def down(a, b):
        return [nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b, eps=0.8, momentum=0.9), nn.LeakyReLU(0.2)]
    return nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2), *down(64, 128), *down(128, 256),
                         *down(256, 512), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8192, 1), nn.Flatten(0))


class Model:
    """Two critic updates (real, then fake) and one generator update with the same noise."""

    def __init__(self, batch, layout):
        self.batch = batch
        self.G, self.D = generator().to(memory_format=layout), discriminator().to(memory_format=layout)
        adam = dict(lr=2e-4, betas=(0.5, 0.999), eps=1e-7)
        self.opt = {n: torch.optim.Adam(n.parameters(), **adam) for n in (self.G, self.D)}
        self.x = (2 * torch.rand(batch, 3, 64, 64) - 1).to(memory_format=layout)
        self.fake, self.d_loss, self.g_loss = self._fake, self._d_loss, self._g_loss

    def compile(self):
        self.fake, self.d_loss = torch.compile(self._fake), torch.compile(self._d_loss)
        self.g_loss = torch.compile(self._g_loss)

    def _fake(self, z):
        with torch.no_grad():
            return self.G(z)

    def _d_loss(self, x, target):
        return bce(self.D(x), target)

    def _g_loss(self, z):
        logit = self.D(self.G(z))
        return bce(logit, torch.ones_like(logit))

    def update(self, net, loss):
        self.opt[net].zero_grad(set_to_none=True)
        loss.backward(inputs=list(net.parameters()))
        self.opt[net].step()

    def step(self):
        z = torch.randn(self.batch, 128)
        self.update(self.D, self.d_loss(self.x, 1 - 0.3 * torch.rand(self.batch)))
        self.update(self.D, self.d_loss(self.fake(z), 0.3 * torch.rand(self.batch)))
        self.D.requires_grad_(False)
        self.update(self.G, self.g_loss(z))
        self.D.requires_grad_(True)
