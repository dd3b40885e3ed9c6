"""StyleGAN2 (Karras et al. 2020, the authors' config F): styles scale what a convolution reads, noise at every layer.

Weights are drawn from N(0, 1) and scaled as they are used. R1 every 16 steps and path lengths every 8 are terms of the
steps they fall in, weighed by 16 and 8; no rate is corrected for them. Fakes are made of two styles for a share
`mixing` of the samples, which meet at a layer drawn for each. The mapping's mean style moves with every call of it.
Samples that D compares with each other stand side by side. Adam with betas 0 and 0.99. M_avg and G_avg follow M and G.
compile() compiles the generator pass and D.
"""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import grads
from models.nets import Nets

CASES = {"stylegan2": dict(batch=3, size=16, nz=6, depth=2, wide=6)}
BENCH = {"stylegan2": dict(batch=8, size=32, nz=128, depth=4, wide=128)}
FULL = {"stylegan2": dict(size=64, nz=512, depth=8, wide=512)}
MIXING, GAMMA, PATH, GROUP = 0.9, 10, 2, 4


def act(x):
    return math.sqrt(2) * F.leaky_relu(x, 0.2)


def blur(x, pad):
    """[1, 3, 3, 1] / 8 along both axes, with `pad` zeros around."""
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0], dtype=x.dtype, device=x.device) / 8
    c = x.shape[1]
    return F.conv2d(F.pad(x, [pad] * 4), (taps[:, None] * taps).expand(c, 1, 4, 4), groups=c)


class Dense(nn.Module):
    def __init__(self, n, c, std=1.0, rate=1.0, bias=0.0):
        super().__init__()
        self.weight = nn.Parameter(std * torch.randn(c, n))
        self.bias = nn.Parameter(torch.full((c,), bias))
        self.scale = rate / math.sqrt(n)

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias)


class Conv(nn.Module):
    def __init__(self, n, c, k, stride=1, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c, n, k, k))
        self.bias = nn.Parameter(torch.zeros(c)) if bias else None
        self.stride, self.pad, self.scale = stride, k // 2 if stride == 1 else 0, 1 / math.sqrt(n * k * k)

    def forward(self, x):
        return F.conv2d(x, self.weight * self.scale, self.bias, self.stride, self.pad)


class Mapping(nn.Module):
    """[n, nz] to [n, nz]."""

    def __init__(self, nz, depth):
        super().__init__()
        self.body = nn.Sequential(*[Dense(nz, nz, std=100.0, rate=0.01) for _ in range(depth)])
        self.register_buffer("centre", torch.zeros(nz))

    def forward(self, z):
        h = z / (z.square().mean(1, keepdim=True) + 1e-8).sqrt()
        for layer in self.body:
            h = act(layer(h))
        with torch.no_grad():
            self.centre.lerp_(h.mean(0), 0.005)
        return h


class Modulated(nn.Module):
    """Equations 1 and 3 of the paper: the scales stand around one convolution for the whole batch."""

    def __init__(self, n, c, k, nz, up=False, demod=True):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n, c, k, k) if up else torch.randn(c, n, k, k))
        self.style = Dense(nz, n, bias=1.0)
        self.k, self.up, self.demod, self.scale = k, up, demod, 1 / (k * math.sqrt(n))

    def forward(self, x, style):
        s, m = self.style(style), self.w * self.scale
        x = x * s[:, :, None, None]
        y = 4 * blur(F.conv_transpose2d(x, m, stride=2), 1) if self.up else F.conv2d(x, m, padding=self.k // 2)
        if not self.demod:
            return y
        power = m.square().sum((2, 3))
        d = s.square() @ (power if self.up else power.T)
        return y / (d + 1e-8).sqrt()[:, :, None, None]


class Noise(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.strength, self.bias = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(c))

    def forward(self, x, noise):
        return act(x + self.strength * noise + self.bias[:, None, None])


class Styled(nn.Module):
    def __init__(self, n, c, nz, up=False):
        super().__init__()
        self.conv, self.noise = Modulated(n, c, 3, nz, up), Noise(c)

    def forward(self, x, style, noise):
        return self.noise(self.conv(x, style), noise)


class Rgb(nn.Module):
    def __init__(self, n, nz):
        super().__init__()
        self.bias, self.conv = nn.Parameter(torch.zeros(3)), Modulated(n, 3, 1, nz, demod=False)

    def forward(self, x, style):
        return self.conv(x, style) + self.bias[:, None, None]


class Generator(nn.Module):
    """Styles [n, 2 * levels, nz] and noise of each layer to [n, 3, size, size]."""

    def __init__(self, channels, nz):
        super().__init__()
        self.start, self.body = nn.Parameter(torch.randn(channels[0], 4, 4)), nn.ModuleList()
        self.body.extend([Styled(channels[0], channels[0], nz), Rgb(channels[0], nz)])
        for a, b in zip(channels, channels[1:]):
            self.body.extend([Styled(a, b, nz, up=True), Styled(b, b, nz), Rgb(b, nz)])

    def forward(self, w, noise):
        h = self.body[0](self.start.expand(len(w), -1, -1, -1), w[:, 0], noise[0])
        y = self.body[1](h, w[:, 1])
        for i in range(1, len(self.body) // 3 + 1):
            up, layer, rgb = self.body[3 * i - 1:3 * i + 2]
            h = layer(up(h, w[:, 2 * i - 1], noise[2 * i - 1]), w[:, 2 * i], noise[2 * i])
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False) + rgb(h, w[:, 2 * i + 1])
        return y


class Shrink(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv, self.down, self.skip = Conv(a, a, 3), Conv(a, b, 3, 2), Conv(a, b, 1, 2, bias=False)

    def forward(self, x):
        return (act(self.down(blur(act(self.conv(x)), 2))) + self.skip(blur(x, 1))) / math.sqrt(2)


class Discriminator(nn.Module):
    """[n, 3, size, size] to [n]."""

    def __init__(self, channels):
        super().__init__()
        self.head = Conv(3, channels[-1], 1)
        self.body = nn.Sequential(*[Shrink(b, a) for a, b in reversed(list(zip(channels, channels[1:])))])
        self.conv, self.dense = Conv(channels[0] + 1, channels[0], 3), Dense(channels[0] * 16, channels[0])
        self.score = Dense(channels[0], 1)

    def forward(self, x):
        h = self.body(act(self.head(x)))
        n = len(h)
        g = h.unflatten(0, (-1, min(GROUP, n)))
        d = ((g - g.mean(1, keepdim=True)).square().mean(1) + 1e-8).sqrt().mean((1, 2, 3))
        d = d.repeat_interleave(min(GROUP, n))[:, None, None, None].expand(n, 1, 4, 4)
        return self.score(act(self.dense(act(self.conv(torch.cat([h, d], 1))).flatten(1)))).flatten()


class Model(Nets):
    def __init__(self, batch, size, nz, depth, wide):
        levels = size.bit_length() - 2
        channels = [min(wide, 64 * wide // (4 << i)) for i in range(levels)]
        self.batch, self.size, self.nz, self.levels, self.count = batch, size, nz, levels, 0
        self.M, self.G, self.D = Mapping(nz, depth), Generator(channels, nz), Discriminator(channels)
        self.M_avg, self.G_avg = copy.deepcopy(self.M), copy.deepcopy(self.G)
        self.nets = {"M": self.M, "G": self.G, "D": self.D, "M_avg": self.M_avg, "G_avg": self.G_avg}
        adam = dict(lr=2e-3, betas=(0.0, 0.99))
        self.opt = {"D": torch.optim.Adam(self.D.parameters(), **adam),
                    "G": torch.optim.Adam([*self.M.parameters(), *self.G.parameters()], **adam)}
        self.usual, self.keep = 0.0, 0.5 ** (batch / 10000)
        self.generate, self.judge = self.G, self.D

    def compile(self):
        self.generate, self.judge = torch.compile(self.G), torch.compile(self.D)

    def styles(self, feed):
        n, layers = self.batch, 2 * self.levels
        first, second = self.M(feed.normal(n, self.nz)), self.M(feed.normal(n, self.nz))
        mixed = feed.uniform(n) < MIXING
        change = torch.where(mixed, 1 + feed.labels("change", n, layers - 1).to(mixed.device), layers)
        layer = torch.arange(layers, device=mixed.device)
        return torch.where((layer < change[:, None])[:, :, None], first[:, None], second[:, None])

    def noise(self, feed):
        sizes = [4] + [4 << (i // 2 + 1) for i in range(2 * self.levels - 2)]
        return [feed.normal(self.batch, 1, s, s) for s in sizes]

    def fakes(self, feed):
        w = self.styles(feed)
        return self.generate(w, self.noise(feed))

    def path_lengths(self, feed):
        w = self.styles(feed)
        y = self.G(w, self.noise(feed)) * feed.normal(self.batch, 3, self.size, self.size) / self.size
        slope = torch.autograd.grad(y.sum(), w, create_graph=True)[0]
        length = (slope.square().sum((1, 2)) / (2 * self.levels)).sqrt()
        middle = self.usual + 0.01 * (length.mean() - self.usual)
        self.usual = middle.detach()
        return (length - middle).square().mean()

    def update(self, names, loss, record):
        opt = self.opt[names[-1]]
        opt.zero_grad(set_to_none=True)
        loss.backward(inputs=[p for name in names for p in self.nets[name].parameters()])
        record.update(names, loss, grads(self.nets, names))
        opt.step()

    @torch.no_grad()
    def average(self):
        for name in ["M", "G"]:
            for a, p in zip(self.nets[name + "_avg"].parameters(), self.nets[name].parameters()):
                a.lerp_(p, 1 - self.keep)
            for a, b in zip(self.nets[name + "_avg"].buffers(), self.nets[name].buffers()):
                a.copy_(b)

    def step(self, feed, record):
        """One iteration. Fed in order: images; for each lot of fakes two z, uniforms, layers, noise; in the lot of the
        path lengths, which comes before G's own, also noise of pictures."""
        penalties = self.count % 16 == 0, self.count % 8 == 0
        self.count += 1
        x = feed.data("x", self.batch, 3, self.size, self.size)
        real, r1 = self.judge, 0
        if penalties[0]:
            x = x.detach().requires_grad_()
            real = self.D
        score = real(x)
        if penalties[0]:
            slope = torch.autograd.grad(score.sum(), x, create_graph=True)[0]
            r1 = 16 * GAMMA / 2 * slope.square().sum((1, 2, 3)).mean()
            record.value("r1", r1)
        with torch.no_grad():
            fake = self.fakes(feed)
        self.update(["D"], F.softplus(-score).mean() + F.softplus(self.judge(fake)).mean() + r1, record)

        lengths = 0
        if penalties[1]:
            lengths = 8 * PATH * self.path_lengths(feed)
            record.value("lengths", lengths)
        self.update(["M", "G"], F.softplus(-self.judge(self.fakes(feed))).mean() + lengths, record)
        self.average()
