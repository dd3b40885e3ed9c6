#!/bin/sh
# run.sh [BUILD] - WGAN-GP on 64x64 shapes: 200 steps of five critic updates with the penalty and one of G.
. "$(dirname -- "$0")/../lib.sh"
synth x shapes 4096 --size 64
train 200 --batch 16
evaluate
