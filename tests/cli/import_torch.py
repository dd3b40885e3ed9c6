"""import_torch.py GANRUN: nets of PyTorch, exported with a fixed and with a dynamic batch, give what `ganrun sample` gives of their import."""
import importlib.util
import re
import subprocess
import sys
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
ganrun = sys.argv[1]
N = 3


class Residual(nn.Module):    # ResNet's
    def __init__(self, c, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))


class Excite(nn.Module):    # MobileNetV3's
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, c//4, 1), nn.Conv2d(c//4, c, 1)

    def forward(self, x):
        return x*F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


class ViT(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.embed, self.cls = nn.Conv2d(3, c, 8, 8), nn.Parameter(torch.randn(1, 1, c))
        self.pos = nn.Parameter(torch.randn(1, 17, c))
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(c, 4, 2*c, activation="gelu", batch_first=True, norm_first=True), 2)
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.head(self.blocks(x)[:, 0])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.norm = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16)
        self.up, self.instance = nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True)
        self.out = nn.Conv2d(16, 3, 3, padding=1, padding_mode="reflect")

    def forward(self, x):
        a = F.silu(self.down1(x))
        b = self.instance(self.up(F.leaky_relu(self.norm(self.down2(a)), 0.2)))
        y = F.interpolate(torch.cat([a, b], 1), scale_factor=2, mode="nearest")
        return torch.tanh(self.out(y)), F.interpolate(y, size=(48, 40), mode="bilinear", align_corners=True)


class ConvNeXt(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, c, 4, 4), nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm, self.wide, self.narrow = nn.LayerNorm(c, eps=1e-6), nn.Linear(c, 4*c), nn.Linear(4*c, c)
        self.gamma = nn.Parameter(torch.rand(c))

    def forward(self, x):
        x = self.stem(x)
        h = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.gamma*self.narrow(F.gelu(self.wide(h)))).permute(0, 3, 1, 2)


image = torch.randn(1, 3, 32, 32)
nets = {
    "resnet": (nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1),
                             Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), image),
    "mobilenet": (nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Hardswish(), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(),
                                Excite(16), nn.PReLU(16), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(1024, 5), nn.LogSoftmax(1)), image),
    "pools": (nn.Sequential(nn.MaxPool2d(3), nn.Conv2d(3, 8, 1), nn.AvgPool2d(5, padding=1), nn.AvgPool2d(2, ceil_mode=True), nn.Flatten()),
              torch.randn(1, 3, 38, 41)),    # each leaves something at the end, but the last
    "vit": (ViT(), image),
    "unet": (UNet(), image),
    "convnext": (ConvNeXt(), image),
    "dcgan": (nn.Sequential(nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1),
                            nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 3, 3, 2, 1, output_padding=1), nn.Tanh()), torch.randn(1, 16, 1, 1)),
}


def run(*words):
    subprocess.run([ganrun, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def export(net, x, path, dynamo, dynamic):
    if dynamo:
        shapes = ({0: torch.export.Dim("N", min=1, max=64)},) if dynamic else None
        torch.onnx.export(net, (x,), path, dynamo=True, opset_version=18, dynamic_shapes=shapes, verbose=False)
    else:
        axes = {"x": {0: "N"}} if dynamic else None
        torch.onnx.export(net, (x,), path, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes=axes)


def differs(name, net, x, dynamo, dynamic):
    export(net, x, "net.onnx", dynamo, dynamic)
    run("import", "net.onnx")
    text = re.sub(r"(?m)^(data|sample features) .*\n", "", open("net.gan").read())    # no data to read
    open("copy.gan", "w").write(text)
    subprocess.run(["rm", "-rf", "copy"], check=True)
    run("train", "copy.gan", "--steps", "1", "--out", "copy", "--threads", "1")
    many = torch.randn(N, *x.shape[1:])
    np.save("x.npy", many.numpy())
    with torch.no_grad():
        theirs = net(many)
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    entries = re.findall(r"(?m)^sample (\w+)\((\w+):", text)
    assert len(entries) == len(theirs)
    worst = 0
    for (entry, given), y in zip(entries, theirs):
        run("sample", "copy", "--entry", entry, "--count", str(N), "--input", f"{given}=x.npy", "-o", "y.npy", "--threads", "1")
        y = y.numpy()
        worst = max(worst, np.abs(np.load("y.npy").reshape(y.shape) - y).max()/max(1, np.abs(y).max()))
    return worst


torch.manual_seed(0)
for name, (net, x) in nets.items():
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    net.eval()
    for dynamo in (False, True) if importlib.util.find_spec("onnxscript") else (False,):
        for dynamic in (False, True):
            off = differs(name, net, x, dynamo, dynamic)
            print(f"{name}, {'torch.export' if dynamo else 'TorchScript'}, {'dynamic' if dynamic else 'fixed'} batch: {off:.1e}")
            assert off < 1e-5, f"{name} differs by {off}"
