"""Write the case of nets for features: python features.py OUTDIR

One step of tests/reference/features.gan by torchvision's VGG, lpips, pytorch-fid, timm's DINOv2 and transformers' CLIP (these
two small), with formula-made weights in place of the published ones. Needs those five packages; nothing is downloaded.
"""
import math
import sys
import types

import timm
import torch
import torchvision
import transformers
from torch import nn
from torch.nn.functional import interpolate

from common import FormulaFeed, Record, digest, fill, write

sys.modules["lpips.trainer"] = types.ModuleType("lpips.trainer")  # draws in much that is not needed
import lpips  # noqa: E402
import pytorch_fid.inception as fid  # noqa: E402

NAME, SIZE, BATCH = "features", 48, 2


def fid_inception():
    """The [2048] of pytorch-fid for pictures in 0..1, without its download."""
    made, plain = {}, torchvision.models.inception_v3

    def keep(*args, **kwargs):
        made["net"] = plain(*args, **kwargs)
        return made["net"]

    torchvision.models.inception_v3 = keep
    fid.load_state_dict_from_url = lambda *args, **kwargs: made["net"].state_dict()
    return fid.InceptionV3([3], resize_input=True, normalize_input=True, requires_grad=False)


def dinov2():
    """Two blocks of it, which know the positions of 5 x 5 patches."""
    return timm.create_model("vit_small_patch14_dinov2", pretrained=False, img_size=70, embed_dim=24, depth=2, num_heads=3)


def class_token(net, x):
    """As dinov2's authors make it, who make positions for other pictures by the scale (n + 0.1)/m."""
    x = net.patch_embed.proj(x)
    h, w = x.shape[2:]
    at = net.pos_embed[:, 1:].reshape(1, 5, 5, -1).permute(0, 3, 1, 2)
    at = interpolate(at, mode="bicubic", scale_factor=((h + 0.1) / 5, (w + 0.1) / 5)).flatten(2).transpose(1, 2)
    tokens = x.flatten(2).transpose(1, 2) + at
    x = torch.cat([(net.cls_token + net.pos_embed[:, :1]).expand(len(x), -1, -1), tokens], 1)
    return net.norm(net.blocks(x))[:, 0]


def clip():
    return transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(
        hidden_size=24, intermediate_size=96, projection_dim=10, num_hidden_layers=2, num_attention_heads=3,
        image_size=SIZE, patch_size=16))


class InUse:
    """A net whose parameters come in the order in which they are used, for `fill`: `order` are parts of their names."""

    def __init__(self, net, order):
        self.net, self.order = net, order

    def place(self, name):
        block = [int(p) for p in name.split(".") if p.isdigit()]
        return (block or [-1 if "embeddings" in name or "pre_" in name else 99],
                [i for i, part in enumerate(self.order) if part in name][:1])

    def named_parameters(self):
        return sorted(self.net.named_parameters(), key=lambda p: self.place(p[0]))

    def named_buffers(self):
        return []


class Names(nn.Module):
    """The part of a net that is run, for `fill`: what else it has is not named."""

    def __init__(self, parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)


def exact(*numbers):
    """Constants a channel, not rounded to f32."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 3, 1, 1)


def widen(net):
    """He's deviation, or features behind many layers would tell no two pictures apart."""
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() >= 2:
                p.mul_(math.sqrt(2))


def main(out):
    G = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.Tanh())
    L = lpips.LPIPS(net="vgg", pnet_rand=True, verbose=False).eval()
    trunk = Names([getattr(L.net, f"slice{i}") for i in range(1, 6)])
    heads = Names([L.lin0, L.lin1, L.lin2, L.lin3, L.lin4])
    vgg19 = torchvision.models.vgg19(weights=None).features[:10]
    inception = fid_inception().eval()
    A = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False).eval()
    alex = Names([getattr(A.net, f"slice{i}") for i in range(1, 6)])
    alex_heads = Names([A.lin0, A.lin1, A.lin2, A.lin3, A.lin4])
    dino, see = dinov2().eval(), clip().eval()
    used = InUse(see, ["class_embedding", "patch_embedding", "position_embedding", "layrnorm", "layer_norm1", "q_proj",
                       "k_proj", "v_proj", "out_proj", "layer_norm2", "fc1", "fc2", "post_layernorm", "visual_projection"])
    nets = {"G": G, "T": trunk, "H": heads, "P": vgg19, "I": inception, "A": alex, "J": alex_heads, "V": dino, "C": used}
    for net in [*nets.values(), L, A]:
        (net.net if net is used else net).double()
    start = fill(NAME, nets)
    for row in start:
        if row["net"] in "TPI" and len(row["shape"]) >= 2:
            row["std"] *= math.sqrt(2)
        row["trainable"] = "running_" not in row["param"]
    for net in "TPI":
        widen(nets[net])
    feed, record = FormulaFeed(NAME), Record()
    feed.begin(0)
    record.begin()
    x = feed.data("x", BATCH, 3, SIZE, SIZE)
    mean, std = exact(0.485, 0.456, 0.406), exact(0.229, 0.224, 0.225)
    for net in (L, A):
        net.scaling_layer.shift, net.scaling_layer.scale = exact(-0.030, -0.088, -0.188), exact(0.458, 0.448, 0.450)
    seen_mean, seen_std = exact(0.48145466, 0.4578275, 0.40821073), exact(0.26862954, 0.26130258, 0.27577711)

    def taps(v):
        v = ((v + 1) / 2 - mean) / std
        return vgg19[:3](v), vgg19(v)

    def token(v):
        return class_token(dino, (interpolate((v + 1) / 2, size=(56, 56), mode="bicubic", antialias=True) - mean) / std)

    def embeds(v):
        return see(pixel_values=((v + 1) / 2 - seen_mean) / seen_std).image_embeds

    fake = G(x)
    a, b = taps(fake), taps(x)
    i, j = (inception((v + 1) / 2)[0].flatten(1) for v in (fake, x))
    losses = {"lpips": L(fake, x).mean(),
              "vgg": 0.5 * (a[0] - b[0]).abs().mean() + (a[1] - b[1]).abs().mean(),
              "fid": ((i - j) ** 2).mean() / (j**2).mean(),
              "alex": A(fake, x).mean(),
              "dino": ((token(fake) - token(x)) ** 2).mean(),
              "clip": ((embeds(fake) - embeds(x)) ** 2).mean()}
    for name, loss in losses.items():
        record.value(name, loss)
    g = [torch.autograd.grad(loss, list(G.parameters()), retain_graph=True) for loss in losses.values()]
    for loss, gradient in zip(losses.values(), g):
        record.update(["G"], loss, list(zip(["G.0.weight", "G.0.bias"], gradient)))
    with torch.no_grad():
        for gradient in g:
            for p, d in zip(G.parameters(), gradient):
                p.sub_(1e-3 * d)
    final = [{"param": f"{net}.{k}", **digest(v, 2)} for net, mod in nets.items()
             for k, v in list(mod.named_parameters()) + list(mod.named_buffers()) if v.dtype.is_floating_point]
    write(f"{out}/{NAME}.json", {
        "format": "gan-reference-1", "case": NAME, "model": NAME, "options": {"batch": BATCH, "size": SIZE},
        "notes": __doc__, "start": start, "fed": feed.log, "steps": record.steps, "final": final})


if __name__ == "__main__":
    main(sys.argv[1])
