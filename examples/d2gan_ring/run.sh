#!/bin/sh
# run.sh [BUILD] - D2GAN on the ring of eight Gaussians, with loss weights that avoid mode collapse (at 1 and 1 it
# covers two modes). Needs no data files. Metrics: modes covered, and the share of points on a mode.
. "$(dirname -- "$0")/../lib.sh"
train 25000 --batch 512 -s alpha=0.2 -s beta=0.1
evaluate --count 2048
