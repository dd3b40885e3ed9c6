"""Times a model's training step in PyTorch: bench.py dcgan --batch 32 [--bf16] [--compile] [--channels-last]

Prints one line: median, least and warm-up time, peak memory. Noise, passes and optimizers are inside the step; data is
resident, as in `ganrun bench`.
"""
import argparse
import importlib
import resource
import statistics
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--bf16", action="store_true")
    a.add_argument("--compile", action="store_true")
    a.add_argument("--channels-last", action="store_true")
    a.add_argument("--steps", type=int, default=7)
    a.add_argument("--warmup", type=int, default=3)
    o = a.parse_args()
    torch.manual_seed(0)
    layout = torch.channels_last if o.channels_last else torch.contiguous_format
    model = importlib.import_module(o.model).Model(o.batch, layout)
    if o.compile:
        model.compile()
    # Autocast keeps its bf16 copies of the weights until the context ends: drop them when an optimizer writes.
    register_optimizer_step_post_hook(lambda *_: torch.clear_autocast_cache())

    def step():
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=o.bf16):
            model.step()
        return (time.perf_counter() - start) * 1e3

    warmup = sum(step() for _ in range(o.warmup))
    times = [step() for _ in range(o.steps)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"pytorch {torch.__version__} {o.model} batch={o.batch} {'bf16' if o.bf16 else 'f32'} "
          f"{'nhwc' if o.channels_last else 'nchw'} {'compile' if o.compile else 'eager'} "
          f"median_ms={statistics.median(times):.1f} min_ms={min(times):.1f} warmup_ms={warmup:.0f} peak_mib={peak:.0f}")


if __name__ == "__main__":
    main()
