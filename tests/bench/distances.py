"""The sliced Wasserstein distance of two sets of features, by ganrun's code and by numpy, in turn: distances.py [ROUNDS]

5,000 x 2,048 features (random, 64 hidden directions, rectified), 128 directions. The least of ROUNDS by the clock, and of
processor time, in seconds; and both distances, which are of different directions. Needs numpy, and build/tests/swd_times.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

N, D, HIDDEN, DIRECTIONS = 5000, 2048, 64, 128
TIMES = pathlib.Path(__file__).parents[2] / "build/tests/swd_times"


def features(rng, scale, mix):
    return np.maximum(rng.standard_normal((N, HIDDEN), np.float32) @ mix * np.float32(scale), 0)


def swd(rng, a, b):
    """By numpy: each direction's projections lie side by side, so that they are sorted fastest."""
    u = rng.standard_normal((DIRECTIONS, D), np.float32)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    return np.abs(np.sort(u @ a.T, axis=1) - np.sort(u @ b.T, axis=1)).mean()


def theirs(rng, a, b):
    clock, processor = time.perf_counter(), time.process_time()
    distance = swd(rng, a, b)
    return time.perf_counter() - clock, time.process_time() - processor, distance


def ours(files):
    out = subprocess.run([TIMES, *files, "3"], check=True, capture_output=True, text=True).stdout
    rounds = [[float(x) for x in line.split()] for line in out.splitlines()]
    return min(rounds)


def main(rounds=5):
    rng = np.random.default_rng(1)
    mix = rng.standard_normal((HIDDEN, D), np.float32) / np.float32(HIDDEN ** 0.5)
    a, b = features(rng, 1, mix), features(rng, 1.05, mix)
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}.npy" for name in "ab"]
        for file, x in zip(files, (a, b)):
            np.save(file, x)
        rows = [(ours(files), min(theirs(rng, a, b) for _ in range(3))) for _ in range(rounds)]
    for name, of in (("ganrun", 0), ("numpy " + np.__version__, 1)):
        clock, processor = (min(row[of][i] for row in rows) for i in range(2))
        print(f"{name}: {clock:.4f} s, of processor time {processor:.4f}; distance {rows[0][of][2]:.6g}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
