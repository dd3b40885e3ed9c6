#!/bin/sh
# run.sh [BUILD] - AAE3d on clouds of 512 points, a chain with two hinges. Metrics: Chamfer distance of reconstructions to their
# originals; clusters of codes against the four states of the hinges.
. "$(dirname -- "$0")/../lib.sh"
synth x chains 2048 --size 512
train 4000 --batch 16 -s points=512
evaluate --count 256 --subset 64
