#!/bin/sh
# run.sh [BUILD] - cosmoGAN on 64x64 maps of log-normal densities, which the model's `map` takes to tanh's range. Scores are
# those of one batch of 16 maps against another one; they swing from save to save (docs/gallery.md).
. "$(dirname -- "$0")/../lib.sh"
synth x lognormal 4096 --size 64
train 1000 --batch 16 -s size=64 -s half=1
evaluate --count 16
