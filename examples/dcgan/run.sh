#!/bin/sh
# run.sh [BUILD] - DCGAN on 64x64 shapes: 200 steps of two updates of D and one of G.
. "$(dirname -- "$0")/../lib.sh"
synth x shapes 4096 --size 64
train 200 --batch 32
evaluate
