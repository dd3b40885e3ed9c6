#!/bin/sh
# run.sh [BUILD] - D3GAN on 32x32 shapes: two discriminators, and a gate that chooses which of them trains G.
. "$(dirname -- "$0")/../lib.sh"
synth x shapes 4096 --size 32
train 400 --batch 64
evaluate
