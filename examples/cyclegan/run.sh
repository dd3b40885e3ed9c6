#!/bin/sh
# run.sh [BUILD] - CycleGAN between filled shapes and outlines of other shapes, cropped from 72x72 to 64x64. Metrics:
# `cycle`, the cycle-consistency error; A_to_B and B_to_A against the other domain.
. "$(dirname -- "$0")/../lib.sh"
synth A shapes 1000 --size 72
synth B outlines 1000 --size 72
train 200 --batch 1 -s size=64 -s blocks=6
evaluate --count 64
