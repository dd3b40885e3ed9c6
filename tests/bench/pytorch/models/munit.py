"""MUNIT: unpaired translation, a picture taken apart into a content and a style of `ns` numbers.

For each of two domains nets C (content encoder), S (style encoder), G (decoder whose residual blocks are normed by
instance, gain and shift from the style through three dense layers) and D (patches at `scales` sizes, least squares).
A step is two Adam updates, as in the authors' program: both discriminators together, on fakes of styles drawn for them;
then all encoders and decoders together, on styles drawn anew. Weight decay is a part of the gradient. The layer norm
behind up-sampling is over all of a sample, with a gain and shift for each channel. No perceptual loss.
Options: wide, blocks and scales shrink a case.
compile() compiles both gradient computations; the optimizers stay eager.
"""
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, instance_norm, l1_loss

from common import count, grads
from models.nets import Nets

CASES = {"munit": dict(batch=2, size=32, wide=4, blocks=2, scales=2)}
BENCH = {"munit": dict(batch=1, size=64, wide=32)}
FULL = {"munit": dict(size=256, wide=64)}


def conv(c, out, k, stride=1, pad=0):
    return nn.Conv2d(c, out, k, stride, pad, padding_mode="reflect")


def norm(c):
    return nn.InstanceNorm2d(c, eps=1e-5)


class Residual(nn.Sequential):
    """x + block(x), no activation after the sum."""

    def __init__(self, c):
        super().__init__(conv(c, c, 3, 1, 1), norm(c), nn.ReLU(), conv(c, c, 3, 1, 1), norm(c))

    def forward(self, x):
        return x + super().forward(x)


class Content(nn.Sequential):
    """[n, 3, h, w] to [n, 4 wide, h / 4, w / 4]."""

    def __init__(self, wide, blocks):
        layers = [conv(3, wide, 7, 1, 3), norm(wide), nn.ReLU()]
        for c in [wide, 2 * wide]:
            layers += [conv(c, 2 * c, 4, 2, 1), norm(2 * c), nn.ReLU()]
        super().__init__(*layers, *[Residual(4 * wide) for _ in range(blocks)])


class Style(nn.Sequential):
    """[n, 3, h, w] to [n, ns]."""

    def __init__(self, wide, ns):
        layers, c = [conv(3, wide, 7, 1, 3), nn.ReLU()], wide
        for out in [2 * wide, 4 * wide, 4 * wide, 4 * wide]:
            layers += [conv(c, out, 4, 2, 1), nn.ReLU()]
            c = out
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, ns))


class Decoder(nn.Module):
    """[n, 4 wide, h / 4, w / 4] and [n, ns] to [n, 3, h, w]."""

    def __init__(self, wide, blocks, ns):
        super().__init__()
        c = 4 * wide
        self.mlp = nn.Sequential(nn.Linear(ns, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4 * c * blocks))
        self.blocks = nn.ModuleList([nn.ModuleList([conv(c, c, 3, 1, 1), conv(c, c, 3, 1, 1)]) for _ in range(blocks)])
        up = []
        for out in [2 * wide, wide]:
            up += [nn.Upsample(scale_factor=2), conv(2 * out, out, 5, 1, 2), nn.GroupNorm(1, out, eps=1e-5), nn.ReLU()]
        self.up = nn.Sequential(*up, conv(wide, 3, 7, 1, 3), nn.Tanh())

    def forward(self, h, s):
        p = self.mlp(s).reshape(len(s), len(self.blocks), 2, 2, h.shape[1], 1, 1)
        for i, (first, second) in enumerate(self.blocks):
            r = torch.relu(instance_norm(first(h), eps=1e-5) * p[:, i, 0, 1] + p[:, i, 0, 0])
            h = h + instance_norm(second(r), eps=1e-5) * p[:, i, 1, 1] + p[:, i, 1, 0]
        return self.up(h)


class Discriminator(nn.ModuleList):
    """[n, 3, h, w] to a list of scores [n, 1, h / 16, w / 16], [n, 1, h / 32, w / 32], ..."""

    def __init__(self, wide, scales):
        super().__init__()
        for _ in range(scales):
            layers, c = [], 3
            for out in [wide, 2 * wide, 4 * wide, 8 * wide]:
                layers += [conv(c, out, 4, 2, 1), nn.LeakyReLU(0.2)]
                c = out
            self.append(nn.Sequential(*layers, nn.Conv2d(c, 1, 1)))

    def forward(self, x):
        out = []
        for net in self:
            out.append(net(x))
            x = avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        return out


def apart(scores, target):
    return sum(((s - target)**2).mean() for s in scores)


class Model(Nets):
    def __init__(self, batch, size=256, wide=64, ns=8, blocks=4, scales=3):
        self.batch, self.size, self.ns = batch, size, ns
        kinds = {"C": lambda: Content(wide, blocks), "S": lambda: Style(wide, ns),
                 "G": lambda: Decoder(wide, blocks, ns), "D": lambda: Discriminator(wide, scales)}
        self.nets = {f"{kind}_{side}": make() for kind, make in kinds.items() for side in "AB"}
        self.d_names = ["D_A", "D_B"]
        self.g_names = [k for k in self.nets if k not in self.d_names]
        self.params = {k: [p for n in names for p in self.nets[n].parameters()]
                       for k, names in [("D", self.d_names), ("G", self.g_names)]}
        if (wide, blocks, ns) == (64, 4, 8):
            assert [count(self.nets[k])[0] for k in ["C_A", "S_A", "G_A"]] == [5_385_856, 2_764_936, 6_875_395]
        adam = dict(lr=1e-4, betas=(0.5, 0.999), eps=1e-8, weight_decay=1e-4)
        self.opt = {k: torch.optim.Adam(v, **adam) for k, v in self.params.items()}
        self.d_grads, self.g_grads = self._d_grads, self._g_grads

    def compile(self):
        torch._dynamo.config.trace_autograd_ops = True  # lets a compiled function call torch.autograd.grad
        self.d_grads, self.g_grads = torch.compile(self._d_grads), torch.compile(self._g_grads)

    def _d_grads(self, a, b, s_a, s_b):
        n = self.nets
        with torch.no_grad():
            ba, ab = n["G_A"](n["C_B"](b), s_a), n["G_B"](n["C_A"](a), s_b)
        loss = (apart(n["D_A"](ba), 0) + apart(n["D_A"](a), 1)) + (apart(n["D_B"](ab), 0) + apart(n["D_B"](b), 1))
        return loss.detach(), torch.autograd.grad(loss, self.params["D"])

    def _g_grads(self, a, b, s_a, s_b):
        """Losses (total, own, codes, back, adversarial) and the gradients of all encoders and decoders."""
        n = self.nets
        c_a, c_b, like_a, like_b = n["C_A"](a), n["C_B"](b), n["S_A"](a), n["S_B"](b)
        own = l1_loss(n["G_A"](c_a, like_a), a) + l1_loss(n["G_B"](c_b, like_b), b)
        ba, ab = n["G_A"](c_b, s_a), n["G_B"](c_a, s_b)
        c_ab, c_ba = n["C_B"](ab), n["C_A"](ba)
        codes = l1_loss(c_ab, c_a) + l1_loss(c_ba, c_b) + l1_loss(n["S_A"](ba), s_a) + l1_loss(n["S_B"](ab), s_b)
        back = l1_loss(n["G_A"](c_ab, like_a), a) + l1_loss(n["G_B"](c_ba, like_b), b)
        gan = apart(n["D_A"](ba), 1) + apart(n["D_B"](ab), 1)
        loss = gan + 10 * own + codes + 10 * back
        grad = torch.autograd.grad(loss, self.params["G"])
        return [t.detach() for t in (loss, own, codes, back, gan)], grad

    def update(self, name, nets, loss, grad, record):
        for p, g in zip(self.params[name], grad):
            p.grad = g
        record.update(nets, loss, grads(self.nets, nets))
        self.opt[name].step()
        torch.clear_autocast_cache()  # under autocast, casts of the old weights are cached

    def step(self, feed, record):
        """One iteration. Fed in order: pictures A and B, styles of A and B for the discriminators, then for the others."""
        n, s = self.batch, self.size
        a, b = feed.data("A", n, 3, s, s), feed.data("B", n, 3, s, s)
        loss, grad = self.d_grads(a, b, feed.normal(n, self.ns), feed.normal(n, self.ns))
        self.update("D", self.d_names, loss, grad, record)
        (loss, own, codes, back, gan), grad = self.g_grads(a, b, feed.normal(n, self.ns), feed.normal(n, self.ns))
        self.update("G", self.g_names, loss, grad, record)
        for name, t in [("own", own), ("codes", codes), ("back", back), ("gan", gan)]:
            record.value(name, t)
