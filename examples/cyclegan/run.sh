#!/bin/sh
# run.sh [BUILD] - CycleGAN between filled shapes and outlines of other shapes, cut to 64x64 from 72x72. `cycle` is the
# error of going there and back; A_to_B and B_to_A are held against the other domain.
. "$(dirname -- "$0")/../lib.sh"
synth A shapes 1000 --size 72
synth B outlines 1000 --size 72
train 200 --batch 1 -s size=64 -s blocks=6
evaluate --count 64
