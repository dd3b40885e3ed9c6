"""Time one training step in PyTorch: python bench.py CASE [--batch N] [--device cpu|cuda] [--threads T]
[--compile [--cudagraphs]] [--bf16] [--channels-last] [--steps N]

Prints one line: case, batch, device, dtype, layout, mode, median and least ms per step, processor ms per step, peak MiB.
The timed step includes drawing noise, all forward and backward passes and the optimizers; data is resident.
"""
import argparse
import importlib
import resource
import statistics
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from common import NoRecord, RandomFeed
from models import BENCH


def main():
    a = argparse.ArgumentParser()
    a.add_argument("case", choices=sorted(BENCH))
    a.add_argument("--batch", type=int)
    a.add_argument("--device", default="cpu")
    a.add_argument("--threads", type=int)
    a.add_argument("--compile", action="store_true")
    a.add_argument("--cudagraphs", action="store_true", help="with --compile on cuda: replay through CUDA graphs")
    a.add_argument("--bf16", action="store_true")
    a.add_argument("--channels-last", action="store_true")
    a.add_argument("--steps", type=int, default=10)
    a.add_argument("--warmup", type=int, default=3)
    o = a.parse_args()
    module, options = BENCH[o.case]
    options = dict(options, **({"batch": o.batch} if o.batch else {}))
    torch.manual_seed(0)
    if o.threads:
        torch.set_num_threads(o.threads)
    if o.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    m = importlib.import_module(f"models.{module}")
    model = m.Model(**options).to(o.device)
    if o.channels_last:
        for net in model.nets.values():
            net.to(memory_format=torch.channels_last)
    if o.compile:
        if o.cudagraphs:
            importlib.import_module("torch._inductor.config").triton.cudagraphs = True
        model.compile()
    feed = RandomFeed(o.device, torch.float32, o.channels_last)
    record = NoRecord()
    # Autocast keeps its bf16 copies of the weights until the context ends: drop them when an optimizer writes.
    register_optimizer_step_post_hook(lambda *_: torch.clear_autocast_cache())
    sync = torch.cuda.synchronize if o.device == "cuda" else (lambda: None)

    def step(i):
        feed.begin(i)
        with torch.autocast(o.device, torch.bfloat16, enabled=o.bf16):
            model.step(feed, record)
        sync()

    t0 = time.perf_counter()
    for i in range(o.warmup):
        step(i)
    first = time.perf_counter() - t0
    times, used = [], time.process_time()
    for i in range(o.steps):
        t = time.perf_counter()
        step(i)
        times.append(time.perf_counter() - t)
    used = (time.process_time() - used) / o.steps
    med = statistics.median(times)
    peak = (torch.cuda.max_memory_allocated() / 2**20 if o.device == "cuda"
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"{o.case} batch={options.get('batch')} {o.device} {'bf16' if o.bf16 else 'f32'} "
          f"{'nhwc' if o.channels_last else 'nchw'} {'compile' if o.compile else 'eager'} "
          f"median_ms={med * 1e3:.1f} min_ms={min(times) * 1e3:.1f} cpu_ms={used * 1e3:.1f} warmup_s={first:.1f} peak_mib={peak:.0f}", flush=True)


if __name__ == "__main__":
    main()
