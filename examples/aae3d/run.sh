#!/bin/sh
# run.sh [BUILD] - AAE3d on clouds of 512 points, a chain with two hinges: copies are held against their originals by the
# Chamfer distance, codes are grouped and compared with the four states of the hinges.
. "$(dirname -- "$0")/../lib.sh"
synth x chains 2048 --size 512
train 4000 --batch 16 -s points=512
evaluate --count 256 --lot 64
