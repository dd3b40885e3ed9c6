#!/bin/sh
# run.sh [BUILD] - D2GAN on the ring of eight Gaussians, with the weights that keep it from collapsing (at 1 and 1 it
# covers two modes); needs no files. How many modes are covered, and how many points lie on one.
. "$(dirname -- "$0")/../lib.sh"
train 25000 --batch 512 -s alpha=0.2 -s beta=0.1
evaluate --count 2048
