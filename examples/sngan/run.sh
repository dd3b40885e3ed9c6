#!/bin/sh
# run.sh [BUILD] - SNGAN on 64x64 shapes: spectral norms in both nets.
. "$(dirname -- "$0")/../lib.sh"
synth x shapes 4096 --size 64
train 200 --batch 32
evaluate
