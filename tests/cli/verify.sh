#!/bin/sh
# verify.sh - a published model recomputed from its reference, and what a wrong reference gives: every number a case
# states is looked at.
. "$(dirname -- "$0")/lib.sh"
reference=$here/../reference/d2gan_ring.json
model=$here/../../models/d2gan_ring.gan
expect 0 verify "$model" "$reference" --device ref --precision f64
prints '^verify: [0-9]* checks, worst relative error '
expect 0 verify "$model" "$reference"

# tampered SCRIPT 'what verify says': the case with one number changed.
tampered() {
    sed "$1" "$reference" >wrong.json
    ! cmp -s "$reference" wrong.json || fail "sed $1 changes nothing"
    expect 1 verify "$model" wrong.json --device ref --precision f64
    prints "outside tolerance: $2"
}
tampered 's/"loss": 2\.81870722/"loss": 2.81880722/' 'step 0 update 0 loss'
tampered 's/"l2": 0\.546694261/"l2": 0.546794261/' 'step 0 update 0 gradient D1.0.weight'
tampered 's/"sum": -0\.581635735/"sum": -0.581735735/' 'step 0 update 0 gradient D1.0.weight'
tampered 's/\[16, -0\.013723857/[16, -0.013733857/' 'step 0 update 0 gradient D1.0.weight'
tampered 's/\[8, -0\.078316963/[8, -0.078416963/' 'final D2.2.weight'
tampered 's/"l2": 0\.023553856/"l2": 0.023653856/' 'final D2.2.bias'

expect 1 verify tiny.gan "$reference"
expect 1 verify "$model" nothing.json
