#!/bin/sh
# verify.sh - a published model recomputed from its reference, and what a wrong reference gives.
. "$(dirname -- "$0")/lib.sh"
reference=$here/../reference/d2gan_ring.json
model=$here/../../models/d2gan_ring.gan
expect 0 verify "$model" "$reference" --device ref --precision f64
prints '^verify: [0-9]* checks, worst relative error '
expect 0 verify "$model" "$reference"
sed 's/"loss": 2/"loss": 3/' "$reference" >wrong.json
expect 1 verify "$model" wrong.json
prints 'outside tolerance'
expect 1 verify tiny.gan "$reference"
expect 1 verify "$model" nothing.json
