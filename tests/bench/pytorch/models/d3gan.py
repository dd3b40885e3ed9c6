"""D3GAN, two discriminators with swapped errors, on 32x32 images.

variant="single" is the one-GPU script (Mish, Adam beta2 0.999), variant="ddp" the multi-GPU one on one rank (ReLU, beta2
0.99). BCE on a sigmoid output with targets exactly 1 and 0 is computed from the logit (the same number below the
published log clamp at -100).

err1 = BCE(D1(x), 1) + BCE(D2(fake), 0), err2 = BCE(D2(x), 1) + BCE(D1(fake), 0). One backward of err1 + err2, then both
discriminators' Adam steps: recorded as one update. The gate is 1 if err1 >= err2 (values from before the update), else 2;
the generator's loss is BCE(D_gate(fake), 1) with the same fakes (one generator pass a step) and the updated discriminator.
Batch norm is in training mode throughout: D1 and D2 each see real then fake, and the gate's one the fakes once more.
compile() compiles the generator pass and both losses; the gate is decided on the host.
"""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from common import count, grads
from models.nets import Nets

CASES = {
    "d3gan_single": dict(batch=4, variant="single"),
    "d3gan_ddp": dict(batch=4, variant="ddp"),
}
BENCH = {"d3gan": dict(batch=32, variant="single")}


class Discriminator(nn.Sequential):
    """[n, 3, 32, 32] to logits [n]."""

    def __init__(self):
        layers, c = [], 3
        for i, out in enumerate([64, 128, 256, 512]):
            norm = [nn.BatchNorm2d(out)] if i else []
            layers += [nn.Conv2d(c, out, 4, 2, 1, bias=False)] + norm + [nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, nn.Conv2d(c, 1, 2, bias=False), nn.Flatten(0))


class Generator(nn.Sequential):
    """[n, 100] to [n, 3, 32, 32]."""

    def __init__(self, activation):
        layers = [nn.Unflatten(1, (100, 1, 1)), nn.ConvTranspose2d(100, 512, 2, bias=False), nn.BatchNorm2d(512), activation()]
        c = 512
        for out in [256, 128, 64]:
            layers += [nn.ConvTranspose2d(c, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), activation()]
            c = out
        super().__init__(*layers, nn.ConvTranspose2d(c, 3, 4, 2, 1, bias=False), nn.Tanh())


class Model(Nets):
    def __init__(self, batch, variant):
        self.batch, single = batch, variant == "single"
        self.G, self.D1, self.D2 = Generator(nn.Mish if single else nn.ReLU), Discriminator(), Discriminator()
        assert count(self.G) == (2_962_304, 1_920) and count(self.D1) == count(self.D2) == (2_759_424, 1_792)
        self.nets = {"G": self.G, "D1": self.D1, "D2": self.D2}
        adam = dict(lr=2e-4, betas=(0.5, 0.999 if single else 0.99))
        self.opt = {k: torch.optim.Adam(v.parameters(), **adam) for k, v in self.nets.items()}
        self.generate, self.g_loss, self.errors = self.G, self._g_loss, self._errors

    def compile(self):
        self.generate, self.g_loss = torch.compile(self.G), torch.compile(self._g_loss)
        self.errors = torch.compile(self._errors)

    def _errors(self, x, fake):
        real1, real2, fake1, fake2 = self.D1(x), self.D2(x), self.D1(fake), self.D2(fake)
        one, zero = torch.ones_like(real1), torch.zeros_like(real1)
        return bce(real1, one) + bce(fake2, zero), bce(real2, one) + bce(fake1, zero)

    def _g_loss(self, critic, fake):
        logits = critic(fake)
        return bce(logits, torch.ones_like(logits))

    def update(self, names, loss, record):
        for name in names:
            self.opt[name].zero_grad(set_to_none=True)
        loss.backward(inputs=[p for name in names for p in self.nets[name].parameters()])
        record.update(names, loss, grads(self.nets, names))
        for name in names:
            self.opt[name].step()

    def step(self, feed, record):
        """One iteration. Fed in order: images x, z."""
        n = self.batch
        x, z = feed.data("x", n, 3, 32, 32), feed.normal(n, 100)
        fake = self.generate(z)
        err1, err2 = self.errors(x, fake.detach())
        gate = torch.where(err1 >= err2, 1, 2)
        for name, value in [("err1", err1), ("err2", err2), ("gate", gate)]:
            record.value(name, value)
        self.update(["D1", "D2"], err1 + err2, record)
        critic = self.nets[f"D{gate.item()}"]
        critic.requires_grad_(False)  # a compiled backward would make its weight gradients too
        self.update(["G"], self.g_loss(critic, fake), record)
        critic.requires_grad_(True)
