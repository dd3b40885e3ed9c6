"""CycleGAN on 256x256 RGB pairs.

Nets G_AB, G_BA (ResNet, 9 blocks, up-sampling by nearest neighbour then convolution) and D_A, D_B (four stride-2
layers); instance norm without gains or state, so the biases in front of it have zero gradient up to rounding.
A step is three Adam updates: both generators jointly (discriminators fixed), then D_A, then D_B. The discriminators
see fakes made before the generator update, passed through a pool per domain. An image i enters the pool of its
domain in batch order: while the pool has room it is stored and passed on; when the pool is full and u[i, 0] > 0.5,
slot floor(u[i, 1] * capacity) is passed on and overwritten by the image; else the image is passed on, not stored.
u [n, 2] is drawn whether or not the pool is full. The learning rate is constant (decay starts at epoch 100).
Options: blocks and pool (capacity) shrink a case; any size that is a multiple of 16 and at least 32 works.
compile() compiles all three gradient computations; pools and optimizers stay eager.
"""
import torch
from torch import nn
from torch.nn.functional import l1_loss, mse_loss

from common import count, grads
from models.nets import Nets

CASES = {
    "cyclegan": dict(batch=1, size=32),
    "cyclegan_pool": dict(batch=2, size=32, blocks=2, pool=3),
}
BENCH = {"cyclegan": dict(batch=1, size=256)}


def norm(c):
    return [nn.InstanceNorm2d(c, eps=1e-5), nn.ReLU(inplace=True)]


class Residual(nn.Sequential):
    """x + block(x), no activation after the sum."""

    def __init__(self, c):
        half = [nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3)]
        super().__init__(*half, *norm(c), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c, eps=1e-5))

    def forward(self, x):
        return x + super().forward(x)


class Generator(nn.Sequential):
    """[n, 3, h, w] to [n, 3, h, w]."""

    def __init__(self, blocks):
        layers = [nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), *norm(64)]
        layers += [nn.Conv2d(64, 128, 3, 2, 1), *norm(128), nn.Conv2d(128, 256, 3, 2, 1), *norm(256)]
        layers += [Residual(256) for _ in range(blocks)]
        for c in [128, 64]:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(2 * c, c, 3, 1, 1), *norm(c)]
        super().__init__(*layers, nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh())


class Discriminator(nn.Sequential):
    """[n, 3, h, w] to scores [n, 1, h / 16, w / 16]."""

    def __init__(self):
        layers, c = [], 3
        for i, out in enumerate([64, 128, 256, 512]):
            layers += [nn.Conv2d(c, out, 4, 2, 1)] + ([nn.InstanceNorm2d(out, eps=1e-5)] if i else [])
            layers += [nn.LeakyReLU(0.2, inplace=True)]
            c = out
        super().__init__(*layers, nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(512, 1, 4, 1, 1))


class Pool:
    """History of generated images: the first `count` of `capacity` slots are filled."""

    def __init__(self, capacity):
        self.capacity, self.count, self.images = capacity, 0, None

    def exchange(self, new, u):
        """Take the images `new`, return as many for the discriminator; u [n, 2] decides (no host synchronisation)."""
        if self.images is None:
            self.images = new.new_zeros(self.capacity, *new.shape[1:])
        out = []
        for i in range(len(new)):
            x = new[i:i + 1]
            if self.count < self.capacity:
                self.images[self.count] = x[0]
                self.count += 1
            else:
                swap, slot = u[i, 0] > 0.5, (u[i, 1:] * self.capacity).long()
                old = self.images[slot]
                self.images[slot] = torch.where(swap, x, old)
                x = torch.where(swap, old, x)
            out.append(x)
        return torch.cat(out)


class Model(Nets):
    def __init__(self, batch, size, blocks=9, pool=50):
        self.batch, self.size = batch, size
        self.nets = {"G_AB": Generator(blocks), "G_BA": Generator(blocks), "D_A": Discriminator(), "D_B": Discriminator()}
        self.params = {k: list(v.parameters()) for k, v in self.nets.items()}
        self.params["G"] = self.params["G_AB"] + self.params["G_BA"]
        assert count(self.nets["D_A"]) == count(self.nets["D_B"]) == (2_764_737, 0)
        assert blocks != 9 or count(self.nets["G_AB"]) == count(self.nets["G_BA"]) == (11_378_179, 0)
        adam = dict(lr=2e-4, betas=(0.5, 0.999), eps=1e-8)
        self.opt = {k: torch.optim.Adam(self.params[k], **adam) for k in ["G", "D_A", "D_B"]}
        self.pool = {"A": Pool(pool), "B": Pool(pool)}
        self.g_grads, self.d_grads = self._g_grads, self._d_grads

    def compile(self):
        torch._dynamo.config.trace_autograd_ops = True  # lets a compiled function call torch.autograd.grad
        self.g_grads, self.d_grads = torch.compile(self._g_grads), torch.compile(self._d_grads)

    def _g_grads(self, a, b):
        """Losses (total, adversarial, cycle, identity), both fakes, and the gradients of G_AB then G_BA."""
        g_ab, g_ba, d_a, d_b = self.nets.values()
        identity = (l1_loss(g_ba(a), a) + l1_loss(g_ab(b), b)) / 2
        fake_b, fake_a = g_ab(a), g_ba(b)
        score_b, score_a = d_b(fake_b), d_a(fake_a)
        adversarial = (mse_loss(score_b, torch.ones_like(score_b)) + mse_loss(score_a, torch.ones_like(score_a))) / 2
        cycle = (l1_loss(g_ba(fake_b), a) + l1_loss(g_ab(fake_a), b)) / 2
        loss = adversarial + 10 * cycle + 5 * identity
        grad = torch.autograd.grad(loss, self.params["G"])
        return [t.detach() for t in (loss, adversarial, cycle, identity)], fake_a.detach(), fake_b.detach(), grad

    def _d_grads(self, name, real, fake):
        r, f = self.nets[name](real), self.nets[name](fake)
        loss = (mse_loss(r, torch.ones_like(r)) + mse_loss(f, torch.zeros_like(f))) / 2
        return loss.detach(), torch.autograd.grad(loss, self.params[name])

    def update(self, name, nets, loss, grad, record):
        for p, g in zip(self.params[name], grad):
            p.grad = g
        record.update(nets, loss, grads(self.nets, nets))
        self.opt[name].step()
        torch.clear_autocast_cache()  # under autocast, casts of the old weights are cached

    def step(self, feed, record):
        """One iteration. Fed in order: images A, images B, u of pool A, u of pool B."""
        n, s = self.batch, self.size
        real = {"A": feed.data("A", n, 3, s, s), "B": feed.data("B", n, 3, s, s)}
        (loss, adversarial, cycle, identity), fake_a, fake_b, grad = self.g_grads(real["A"], real["B"])
        self.update("G", ["G_AB", "G_BA"], loss, grad, record)
        total = 0
        for side, fake in [("A", fake_a), ("B", fake_b)]:
            shown = self.pool[side].exchange(fake, feed.uniform(n, 2))
            d_loss, grad = self.d_grads(f"D_{side}", real[side], shown)
            self.update(f"D_{side}", [f"D_{side}"], d_loss, grad, record)
            total = total + d_loss / 2
        for name, t in [("D", total), ("GAN", adversarial), ("cycle", cycle), ("identity", identity)]:
            record.value(f"loss_{name}", t)
