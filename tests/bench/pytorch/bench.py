"""Time training steps in PyTorch: python bench.py CASE[:BATCH]... [--batch N] [--device cpu|cuda] [--threads T]
[--compile [--cudagraphs]] [--bf16] [--channels-last] [--full] [--steps N] [--warmup N]
[--turn FILE] [--patience S]

Prints one line a case: case, batch, device, dtype, layout, mode, median, least and mean ms per step, processor ms per step, peak
MiB; or that it failed, and why. The timed step includes drawing noise, all forward and backward passes and the optimizers;
data is resident.

--turn: of several such processes with the same FILE all build, compile and warm up at once, and none times its steps before
all have done so; then they time them one after the other. --patience: a case that is not ready after S seconds has failed.
"""
import argparse
import contextlib
import fcntl
import gc
import importlib
import resource
import signal
import statistics
import sys
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from common import NoRecord, RandomFeed
from models import BENCH, FULL


class Turn:
    """Who prepares holds the file's lock with others, who times its steps holds it alone."""

    def __init__(self, path):
        self.file = open(path, "w") if path else None
        self.together()

    def together(self):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def alone(self):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_UN)  # to keep it and wait for all others would be a deadlock
            fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.together()


class NotReady(BaseException):  # no Exception: compilers turn those into their own
    pass


@contextlib.contextmanager
def within(seconds):
    def over(*_):
        raise NotReady(f"after {seconds} s")

    signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)  # 0: none
    try:
        yield
    finally:
        signal.alarm(0)


def build(case, o):
    module, options = BENCH[case]
    options = options | (FULL.get(case, {}) if o.full else {})
    model = importlib.import_module(f"models.{module}").Model(**dict(options, batch=o.batch)).to(o.device)
    if o.channels_last:
        for net in model.nets.values():
            net.to(memory_format=torch.channels_last)
    if o.compile:
        if o.cudagraphs:
            importlib.import_module("torch._inductor.config").triton.cudagraphs = True
        model.compile()
    return model


def stepper(model, o):
    feed, record = RandomFeed(o.device, torch.float32, o.channels_last), NoRecord()
    sync = torch.cuda.synchronize if o.device == "cuda" else (lambda: None)

    def step(i):
        feed.begin(i)
        if o.compile and o.cudagraphs:  # what the last step made may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(o.device, torch.bfloat16, enabled=o.bf16):
            model.step(feed, record)
        sync()

    return step


def measure(case, o, turn):
    torch.manual_seed(0)
    t0 = time.perf_counter()
    with within(o.patience):
        step = stepper(build(case, o), o)
        for i in range(o.warmup):
            step(i)
    first = time.perf_counter() - t0
    with turn.alone():
        for i in range(o.warmup if o.turn else 0):  # the card has done other things meanwhile
            step(i)
        times, used = [], time.process_time()
        for i in range(o.steps):
            t = time.perf_counter()
            step(i)
            times.append(time.perf_counter() - t)
        used = (time.process_time() - used) / o.steps
    peak = (torch.cuda.max_memory_allocated() / 2**20 if o.device == "cuda"
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return (f"median_ms={statistics.median(times) * 1e3:.3f} min_ms={min(times) * 1e3:.3f} mean_ms={statistics.fmean(times) * 1e3:.3f} cpu_ms={used * 1e3:.1f} "
            f"warmup_s={first:.1f} peak_mib={peak:.0f}")


def forget(o):
    """What one case leaves: compiled code, memory, its peak."""
    if o.compile:
        torch.compiler.reset()
    gc.collect()
    if o.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def words(e):
    """The first lines of an error."""
    return f"{type(e).__name__}: {' '.join(str(e).split())}"[:300]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("case", nargs="+")
    a.add_argument("--batch", type=int)
    a.add_argument("--device", default="cpu")
    a.add_argument("--threads", type=int)
    a.add_argument("--compile", action="store_true")
    a.add_argument("--cudagraphs", action="store_true", help="with --compile on cuda: replay through CUDA graphs")
    a.add_argument("--bf16", action="store_true")
    a.add_argument("--channels-last", action="store_true")
    a.add_argument("--full", action="store_true", help="as large as the models are by default, not what two cores can time")
    a.add_argument("--steps", type=int, default=10)
    a.add_argument("--warmup", type=int, default=3)
    a.add_argument("--turn", metavar="FILE")
    a.add_argument("--patience", type=int, default=0)
    o = a.parse_args()
    cases = []
    for case in o.case:
        name, _, batch = case.partition(":")
        if name not in BENCH:
            a.error(f"{name}: no case; choose from {', '.join(sorted(BENCH))}")
        usual = BENCH[name][1] | (FULL.get(name, {}) if o.full else {})
        cases.append((name, int(batch or o.batch or usual["batch"])))
    if o.threads:
        torch.set_num_threads(o.threads)
    if o.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    # Autocast keeps its bf16 copies of the weights until the context ends: drop them when an optimizer writes.
    register_optimizer_step_post_hook(lambda *_: torch.clear_autocast_cache())
    turn, failed = Turn(o.turn), False
    for name, o.batch in cases:
        how = f"{'bf16' if o.bf16 else 'f32'} {'nhwc' if o.channels_last else 'nchw'} {'compile' if o.compile else 'eager'}"
        try:
            said = measure(name, o, turn)
        except (Exception, NotReady) as e:  # the other cases are to be timed all the same
            said, failed = f"failed: {words(e)}", True
        print(f"{name} batch={o.batch} {o.device} {how} {said}", flush=True)
        forget(o)
    sys.exit(failed)


if __name__ == "__main__":
    main()
