#!/bin/sh
# run.sh [BUILD] - cosmoGAN on 32x32 maps of log-normal densities, which the model's `map` takes to tanh's range. Scores are
# those of one batch of 32 maps against another one.
. "$(dirname -- "$0")/../lib.sh"
synth x lognormal 8192 --size 32
train 200 --batch 32 -s size=32 -s half=1
evaluate --count 32
