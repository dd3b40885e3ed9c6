#!/bin/sh
# run.sh [BUILD] - cosmoGAN on 64x64 maps of log-normal densities, which the model's `map` transforms to tanh's range. Scores vary
# from save to save, so the learning rate is half of the published one and falls to 0 over the second half, and the best of the last
# 20 saves is evaluated, as in the authors' follow-up study. Scores are means over 16 batches of 16 maps (docs/gallery.md).
. "$(dirname -- "$0")/../lib.sh"
synth x lognormal 4096 --size 64
every=50
train 3000 --batch 16 --keep 20 -s size=64 -s half=1 -s wide=32 -s lr=1e-4 -s decay="${STEPS:-3000}"
evaluate --count 256 --subset 16 --best
