"""AAE3d, adversarial autoencoder of 3,375-point protein clouds.

Nets E (encoder: convolutions along the points, maximum over positions, dense layers; code = mu + exp(logvar / 2) * noise),
G (decoder, dense) and D (critic on codes, dense). A step encodes once, then makes two Adam updates: the critic
(Wasserstein loss with gradient penalty 10, no epsilon in the norm; the encoder is not changed), then encoder and
generator jointly (0.5 * Chamfer distance, summed over batch and points, minus the mean score by the updated critic;
the critic is not changed). Distances are |x|^2 + |y|^2 - 2xy, a full points x points matrix per sample; under
autocast they keep the precision of x. Data lies in (0, 1). The critic's last bias has zero gradient up to rounding.
Only G's last layer depends on the number of points. The learning rate is constant, as published.
compile() compiles everything but the optimizers: encoder (forward and backward apart), critic gradients (the penalty's
double backward included, traced inside one graph) and encoder-generator gradients down to the code.
"""
import torch
from torch import nn

from common import count, grads
from models.nets import Nets

CASES = {
    "aae3d": dict(batch=3, points=125),
}
BENCH = {"aae3d": dict(batch=32, points=3375)}


def mlp(*widths):
    """Dense layers with ReLU between them."""
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU(inplace=True)]
    return layers[:-1]


class Encoder(nn.Module):
    """Clouds [n, 3, points] and noise [n, 64] to codes [n, 64]."""

    def __init__(self):
        super().__init__()
        layers, c = [], 3
        for out, k in zip([64, 128, 256, 256, 512], [5, 5, 3, 1, 1]):
            layers += [nn.Conv1d(c, out, k), nn.ReLU(inplace=True)]
            c = out
        self.conv = nn.Sequential(*layers[:-1])
        self.fc = nn.Sequential(nn.Linear(512, 256), nn.ReLU(inplace=True))
        self.mu, self.logvar = nn.Linear(256, 64), nn.Linear(256, 64)

    def forward(self, x, noise):
        h = self.fc(self.conv(x).max(2).values)
        return self.mu(h) + (0.5 * self.logvar(h)).exp() * noise


class Generator(nn.Sequential):
    """Codes [n, 64] to clouds [n, 3, points]."""

    def __init__(self, points):
        super().__init__(*mlp(64, 64, 128, 512, 1024, 3 * points), nn.Unflatten(1, (3, points)))


class Critic(nn.Sequential):
    """Codes [n, 64] to scores [n]."""

    def __init__(self):
        super().__init__(*mlp(64, 512, 512, 128, 64, 1), nn.Flatten(0))


def chamfer(x, y):
    """Squared distance to the nearest point of the other cloud, both ways, summed over points and batch."""
    with torch.autocast(x.device.type, enabled=False):
        y = y.to(x.dtype)
        squares = x.square().sum(1)[:, :, None] + y.square().sum(1)[:, None, :]
        d = torch.baddbmm(squares, x.transpose(1, 2), y, alpha=-2)
        return d.min(1).values.sum() + d.min(2).values.sum()


class Model(Nets):
    def __init__(self, batch, points):
        self.batch, self.points = batch, points
        self.E, self.G, self.D = Encoder(), Generator(points), Critic()
        self.nets = {"E": self.E, "G": self.G, "D": self.D}
        self.params = {k: list(v.parameters()) for k, v in self.nets.items()}
        assert count(self.E) == (502_272, 0) and count(self.D) == (369_921, 0)
        assert points != 3375 or count(self.G) == (10_981_965, 0)
        adam = dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8)
        self.opt = {"D": torch.optim.Adam(self.params["D"], **adam),
                    "EG": torch.optim.Adam(self.params["E"] + self.params["G"], **adam)}
        self.encode, self.d_grads, self.g_grads = self.E, self._d_grads, self._g_grads

    def compile(self):
        torch._dynamo.config.trace_autograd_ops = True  # lets a compiled function call torch.autograd.grad
        self.encode = torch.compile(self.E)
        self.d_grads, self.g_grads = torch.compile(self._d_grads), torch.compile(self._g_grads)

    def _d_grads(self, z, prior, a):
        """Critic loss on codes z (no gradient asked) and its gradients."""
        between = (prior + a * (z - prior)).requires_grad_()
        slope, = torch.autograd.grad(self.D(between).sum(), between, create_graph=True)
        penalty = (slope.square().sum(1).sqrt() - 1).square().mean()
        loss = self.D(z).mean() - self.D(prior).mean() + 10 * penalty
        return loss.detach(), torch.autograd.grad(loss, self.params["D"])

    def _g_grads(self, x, z):
        """Encoder-generator loss and its gradients: of the codes z, then of G."""
        z = z.detach().requires_grad_()
        loss = 0.5 * chamfer(x, self.G(z)) - self.D(z).mean()
        return loss.detach(), torch.autograd.grad(loss, [z, *self.params["G"]])

    def update(self, name, nets, loss, grad, record):
        for p, g in zip([p for k in nets for p in self.params[k]], grad):
            p.grad = g
        record.update(nets, loss, grads(self.nets, nets))
        self.opt[name].step()
        torch.clear_autocast_cache()  # under autocast, casts of the old weights are cached

    def step(self, feed, record):
        """One iteration. Fed in order: clouds x, encoder noise, prior codes, u of the penalty [n, 1]."""
        n = self.batch
        x, noise = feed.data("x", n, 3, self.points, lo=0.0, hi=1.0), feed.normal(n, 64)
        prior, a = feed.normal(n, 64), feed.uniform(n, 1)
        z = self.encode(x, noise)
        self.update("D", ["D"], *self.d_grads(z.detach(), prior, a), record)
        loss, (dz, *g) = self.g_grads(x, z.detach())
        e = torch.autograd.grad(z, self.params["E"], dz)
        self.update("EG", ["E", "G"], loss, [*e, *g], record)
