"""HiFi-GAN: a spectrogram to sound, least squares, distances of features and of spectrograms; as the authors' code, V1.

G: 7 taps, then by each of `ups` a transposed convolution of twice as many taps and the mean of residual blocks of 3, 7 and 11 taps with
dilations 1, 3, 5, every convolution behind a leaky ReLU 0.1; 0.01 in front of the last one. Critics of periods fold the sound, mirrored
to a multiple, and see columns; critics of scales see it whole, and behind means of 4 every 2, once and twice. All weights are normed,
the first scale's by their spectrum: one round of the power iteration in front of each update, and weights differentiated through.

D's step: sum over critics of mean (r - 1)^2 + mean f^2. G's step, with the critics just updated: sum of mean (f - 1)^2, twice the mean
distances of all layers' features, 45 times the mean distance of logarithms of mel spectrograms of all frequencies. AdamW.
Weights are direction, then length, then bias.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from common import count, grads
from models.nets import Nets

CASES = {"hifigan": dict(batch=2, slice=2048, bands=8, wide=32, wide_D=128)}
BENCH = {"hifigan": dict(batch=4, slice=8192, bands=80, wide=512, wide_D=1024)}
FULL = {"hifigan": dict(batch=16)}

RATE, TOP, WINDOW, HOP, UPS = 22050, 8000, 1024, 256, [8, 8, 2, 2]


class One(nn.Module):
    def __init__(self, name, t):
        super().__init__()
        self.register_parameter(name, nn.Parameter(t))
        self.name = name

    def get(self):
        return getattr(self, self.name)


class Conv(nn.Module):
    """A convolution of 1 or 2 axes with a normed weight."""

    def __init__(self, a, b, k, spectral=False, up=False, **options):
        super().__init__()
        k = [k] if isinstance(k, int) else k
        groups = options.get("groups", 1)
        shape = [a, b, *k] if up else [b, a // groups, *k]
        self.v = One("v", torch.randn(shape) * math.prod(shape[1:]) ** -0.5)
        if spectral:
            self.register_buffer("u", F.normalize(torch.randn(shape[0]), dim=0))
        else:
            self.g = One("weight", self.v.v.detach().flatten(1).norm(dim=1))
        self.b = One("bias", torch.zeros(b))
        self.spectral, self.seen, self.options = spectral, None, options
        self.f = F.conv_transpose1d if up else (F.conv2d if len(k) == 2 else F.conv1d)

    def iterate(self):
        with torch.no_grad():
            m = self.v.v.flatten(1)
            self.seen = F.normalize(m.T @ self.u, dim=0)
            self.u.copy_(F.normalize(m @ self.seen, dim=0))

    def forward(self, x):
        m = self.v.v.flatten(1)
        if self.spectral:
            w = self.v.v / (self.u.clone() @ m @ self.seen)
        else:
            w = (self.g.weight[:, None] * m / m.norm(dim=1, keepdim=True)).reshape(self.v.v.shape)
        return self.f(x, w, self.b.bias, **self.options)


def act(x):
    return F.leaky_relu(x, 0.1)


class Residual(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.convs = nn.ModuleList(Conv(c, c, k, dilation=j, padding=(k - 1) // 2 * j) for d in [1, 3, 5] for j in [d, 1])

    def forward(self, x):
        for a, b in zip(self.convs[::2], self.convs[1::2]):
            x = x + b(act(a(act(x))))
        return x


class Generator(nn.Module):
    def __init__(self, bands, wide):
        super().__init__()
        levels = []
        for i, u in enumerate(UPS):
            levels.append(Conv(wide >> i, wide >> (i + 1), 2 * u, up=True, stride=u, padding=u // 2))
            levels += [Residual(wide >> (i + 1), k) for k in [3, 7, 11]]
        self.layers = nn.ModuleList([Conv(bands, wide, 7, padding=3), *levels, Conv(wide >> len(UPS), 1, 7, padding=3)])

    def forward(self, m):
        h = self.layers[0](m)
        for i in range(1, len(self.layers) - 1, 4):
            h = self.layers[i](act(h))
            h = sum(self.layers[i + j](h) for j in [1, 2, 3]) / 3
        return torch.tanh(self.layers[-1](F.leaky_relu(h, 0.01)))


class Critic(nn.Module):
    """Features of all layers, the scores last."""

    def __init__(self, convs, period=None):
        super().__init__()
        self.convs, self.period = nn.ModuleList(convs), period

    def forward(self, x):
        if p := self.period:
            if x.shape[2] % p:
                x = F.pad(x, (0, p - x.shape[2] % p), mode="reflect")
            x = x.reshape(x.shape[0], 1, -1, p)
        seen = []
        for c in self.convs[:-1]:
            x = act(c(x))
            seen.append(x)
        return [*seen, self.convs[-1](x)]


def of_period(p, wide_D):
    c = [1, wide_D // 32, wide_D // 8, wide_D // 2, wide_D, wide_D]
    convs = [Conv(c[i], c[i + 1], [5, 1], stride=(3 if i < 4 else 1, 1), padding=(2, 0)) for i in range(5)]
    return Critic([*convs, Conv(wide_D, 1, [3, 1], padding=(1, 0))], p)


def of_scale(spectral, wide_D):
    rows = [(8, 15, 1, 1), (8, 41, 2, 4), (4, 41, 2, 16), (2, 41, 4, 16), (1, 41, 4, 16), (1, 41, 1, 16), (1, 5, 1, 1)]
    convs, a = [], 1
    for part, k, stride, groups in rows:
        convs.append(Conv(a, wide_D // part, k, spectral, stride=stride, groups=groups, padding=k // 2))
        a = wide_D // part
    return Critic([*convs, Conv(a, 1, 3, spectral, padding=1)])


def mel_bank(bands, top, like):
    """Slaney's triangles [bands, WINDOW/2 + 1], each of area 1."""
    def to_mel(f):
        return f / (200 / 3) if f < 1000 else 15 + math.log(f / 1000) / (math.log(6.4) / 27)

    def to_hz(m):
        return m * 200 / 3 if m < 15 else 1000 * math.exp((m - 15) * math.log(6.4) / 27)
    edge = [to_hz(to_mel(top) * i / (bands + 1)) for i in range(bands + 2)]
    bank = torch.zeros(bands, WINDOW // 2 + 1, dtype=torch.float64)
    for b in range(bands):
        lo, mid, hi = edge[b:b + 3]
        for i in range(WINDOW // 2 + 1):
            f = i * RATE / WINDOW
            bank[b, i] = max(0.0, min((f - lo) / (mid - lo), (hi - f) / (hi - mid))) * 2 / (hi - lo)
    return bank.to(like)


class Model(Nets):
    def __init__(self, batch, slice, bands, wide, wide_D):
        self.batch, self.slice, self.bands, self.banks = batch, slice, bands, {}
        self.G = Generator(bands, wide)
        periods = [of_period(p, wide_D) for p in [2, 3, 5, 7, 11]]
        scales = [of_scale(i == 0, wide_D) for i in range(3)]
        self.critics = periods + scales
        if (bands, wide) == (80, 512):    # the paper's table 1, weights as they are used: 13.92 million
            assert count(self.G)[0] - sum(m.g.weight.numel() for m in self.G.modules() if isinstance(m, Conv)) == 13_926_017
        self.nets = {"G": self.G} | {f"P.{i}": p for i, p in enumerate(periods)} | {f"S.{i}": s for i, s in enumerate(scales)}
        self.critic_names = [k for k in self.nets if k != "G"]
        self.opt = {"G": self.adamw(["G"]), "D": self.adamw(self.critic_names)}

    def adamw(self, names):
        return torch.optim.AdamW([p for n in names for p in self.nets[n].parameters()], lr=2e-4, betas=(0.8, 0.99), weight_decay=0.01)

    def compile(self):
        self.G.forward = torch.compile(self.G.forward)

    def mel(self, x, top):
        if top not in self.banks:
            self.banks[top] = mel_bank(self.bands, top, x)
        x = F.pad(x, ((WINDOW - HOP) // 2,) * 2, mode="reflect")[:, 0]
        window = torch.hann_window(WINDOW, dtype=x.dtype, device=x.device)
        s = torch.stft(x, WINDOW, HOP, window=window, center=False, return_complex=True)
        return torch.log((self.banks[top] @ torch.sqrt(s.real**2 + s.imag**2 + 1e-9)).clamp(min=1e-5))

    def iterate(self):
        for c in self.critics[5].convs:
            c.iterate()

    def judged(self, x):
        half = F.avg_pool1d(x, 4, 2, padding=2)
        inputs = [x] * 6 + [half, F.avg_pool1d(half, 4, 2, padding=2)]
        return [c(v) for c, v in zip(self.critics, inputs)]

    def update(self, name, nets, loss, record):
        self.opt[name].zero_grad(set_to_none=True)
        loss.backward(inputs=[p for n in nets for p in self.nets[n].parameters()])
        record.update(nets, loss, grads(self.nets, nets))
        self.opt[name].step()

    def step(self, feed, record):
        """One iteration, fed one batch of sounds."""
        x = feed.data("x", self.batch, 1, self.slice)
        fake = self.G(self.mel(x, TOP))
        self.iterate()
        loss = sum((r[-1] - 1).square().mean() + f[-1].square().mean() for r, f in zip(self.judged(x), self.judged(fake.detach())))
        self.update("D", self.critic_names, loss, record)
        self.iterate()
        real, made = self.judged(x), self.judged(fake)
        loss = sum((f[-1] - 1).square().mean() for f in made)
        loss = loss + 2 * sum((a - b).abs().mean() for r, f in zip(real, made) for a, b in zip(r[:-1], f[:-1]))
        near = (self.mel(x, RATE / 2) - self.mel(fake, RATE / 2)).abs().mean()
        record.value("near", near)
        self.update("G", ["G"], loss + 45 * near, record)
