"""cosmoGAN on 256x256 convergence maps (one channel).

Nets G (latent 64) and D (logits), 5x5 kernels, stride 2, SAME padding: 1 before, 2 after; the transposed convolution is
the exact adjoint. Batch norm in training mode, decay 0.9 (PyTorch momentum 0.1); the moving variance takes the unbiased
batch variance. Biases in front of a norm have zero gradient up to rounding.
A step is one simultaneous update: one forward pass (D on real, then D on fake, so D's moving averages move twice, G's
once), the gradients of both losses from it, then Adam on D and Adam on G; neither gradient sees the other update.
One uniform u per step swaps the real and fake labels of the whole batch if u < flip.
mode="published" has 384 filters in D's last convolution and ends a step with the forward-only printing run of all
presets (same maps, new z and u, updated nets; it moves the averages again); mode="intended" has 512 filters and no
printing run. Options: flip; size (a multiple of 16) scales the maps and the dense layers. No schedule, as published.
compile() compiles everything but the optimizers.
"""
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from common import count, grads
from models.nets import Nets

CASES = {
    "cosmogan_published": dict(batch=4, size=64, mode="published"),
    "cosmogan_intended": dict(batch=4, size=64, mode="intended"),
    "cosmogan_flip": dict(batch=2, size=32, mode="published", flip=0.5),
}
BENCH = {"cosmogan": dict(batch=32, size=256, mode="published")}  # published: 64, over 30 s a step on two CPU cores


def norm(c):
    return nn.BatchNorm2d(c, eps=1e-5, momentum=0.1)


class Up(nn.ConvTranspose2d):
    """Transposed convolution to twice the size: padding 1 crops one pixel on each side, one more goes at the end."""

    def __init__(self, c, out):
        super().__init__(c, out, 5, 2, 1)

    def forward(self, x):
        return super().forward(x)[..., :-1, :-1]


class Discriminator(nn.Sequential):
    """[n, 1, size, size] to logits [n]."""

    def __init__(self, size, last):
        layers, c = [], 1
        for i, out in enumerate([64, 128, 256, last]):
            layers += [nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(c, out, 5, 2)] + ([norm(out)] if i else []) + [nn.LeakyReLU(0.2)]
            c = out
        super().__init__(*layers, nn.Flatten(), nn.Linear(last * (size // 16) ** 2, 1), nn.Flatten(0))


class Generator(nn.Sequential):
    """[n, 64] to [n, 1, size, size]."""

    def __init__(self, size):
        side, c = size // 16, 512
        layers = [nn.Linear(64, c * side**2), nn.Unflatten(1, (c, side, side)), norm(c), nn.ReLU()]
        for out in [256, 128, 64]:
            layers += [Up(c, out), norm(out), nn.ReLU()]
            c = out
        super().__init__(*layers, Up(c, 1), nn.Tanh())


class Model(Nets):
    def __init__(self, batch, size, mode, flip=0.01):
        self.batch, self.size, self.flip, self.printing = batch, size, flip, mode == "published"
        self.G, self.D = Generator(size), Discriminator(size, 384 if mode == "published" else 512)
        self.nets = {"G": self.G, "D": self.D}
        self.params = {k: list(v.parameters()) for k, v in self.nets.items()}
        if size == 256:
            assert count(self.G) == (12_824_449, 1_920)
            assert count(self.D) == ((3_583_873, 1_536) if mode == "published" else (4_436_225, 1_792))
        adam = dict(lr=2e-4, betas=(0.5, 0.999), eps=1e-8)
        self.opt = {k: torch.optim.Adam(v, **adam) for k, v in self.params.items()}
        self.grads, self.losses = self._grads, self._losses

    def compile(self):
        torch._dynamo.config.trace_autograd_ops = True  # lets a compiled function call torch.autograd.grad
        self.grads, self.losses = torch.compile(self._grads), torch.compile(self._losses)

    def _losses(self, x, z, u):
        """D and G losses from one forward pass; moves the averages."""
        swap = (u < self.flip).to(x.dtype).expand(len(x))
        real, fake = self.D(x), self.D(self.G(z))
        return bce(real, 1 - swap) + bce(fake, swap), bce(fake, torch.ones_like(fake))

    def _grads(self, x, z, u):
        d_loss, g_loss = self._losses(x, z, u)
        d = torch.autograd.grad(d_loss, self.params["D"], retain_graph=True)
        return {"D": (d_loss.detach(), d), "G": (g_loss.detach(), torch.autograd.grad(g_loss, self.params["G"]))}

    def step(self, feed, record):
        """One iteration. Fed in order: maps x, z, u; for the printing run z, u."""
        n, s = self.batch, self.size
        x = feed.data("x", n, 1, s, s)
        result = self.grads(x, feed.normal(n, 64), feed.uniform(1))
        for name, (loss, grad) in result.items():
            for p, g in zip(self.params[name], grad):
                p.grad = g
            record.update([name], loss, grads(self.nets, [name]))
        for opt in self.opt.values():
            opt.step()
        torch.clear_autocast_cache()  # under autocast, casts of the old weights are cached
        if self.printing:
            with torch.no_grad():
                d_loss, g_loss = self.losses(x, feed.normal(n, 64), feed.uniform(1))
            record.value("d_loss", d_loss)
            record.value("g_loss", g_loss)
