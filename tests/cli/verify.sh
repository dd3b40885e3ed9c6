#!/bin/sh
# verify.sh - a published model recomputed from its reference case, and the failure of a wrong case: every number that a
# case states is checked.
. "$(dirname -- "$0")/lib.sh"
. "$here/kink_lib.sh"
reference=$here/../reference/d2gan_ring.json
model=$here/../../models/d2gan_ring.gan
expect 0 verify "$model" "$reference" --device ref --precision f64
prints '^verify: [0-9]* checks, worst relative error '
expect 0 verify "$model" "$reference"

# tampered SCRIPT MESSAGE: the case with one number changed fails with MESSAGE.
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

# A number that the case lacks, or a sum that is none, as where a weight is not finite, is no agreement.
tampered 's/"l2": 0\.546694261[0-9]*/"l2": null/' 'step 0 update 0 gradient D1.0.weight'
prints '^verify: .* worst relative error nan (step 0 update 0 gradient D1.0.weight)$'
tampered 's/"sum": -0\.581635735[0-9]*/"sum": null/' 'step 0 update 0 gradient D1.0.weight'
tampered 's/"l2": 0\.023553856[0-9]*/"l2": null/' 'final D2.2.bias'

# In f32 too a case that is wrong by more than rounding fails: the recomputation does not agree with it.
wrong_in_f32() {
    sed "$1" "$reference" >wrong.json
    ! cmp -s "$reference" wrong.json || fail "sed $1 changes nothing"
    expect 1 verify "$model" wrong.json
    prints "outside tolerance: $2"
    ! grep -q 'not judged' out || fail "a wrong case is excused"
}
wrong_in_f32 's/"loss": 2\.81870722/"loss": 2.83870722/' 'step 0 update 0 loss'
wrong_in_f32 's/"l2": 0\.546694261/"l2": 0.549694261/' 'step 0 update 0 gradient D1.0.weight'
wrong_in_f32 's/\[16, -0\.013723857/[16, -0.016723857/' 'step 0 update 0 gradient D1.0.weight'
wrong_in_f32 's/"l2": 0\.023553856/"l2": 0.023753856/' 'final D2.2.bias'

# An activation that f32 cannot distinguish from the kink of a leaky ReLU is not judged. All else in the case is.
kink_model true
kink 1 1
expect 0 verify kink.gan kink.json --device ref --precision f64
expect 0 verify kink.gan kink.json
prints '^  not judged: step 0 update 0 gradient N.near: error 0.8; rounding to f32 alone moves it by 0.8$'
prints '^verify: 5 checks, .*, 2 not judged$'
kink 1 1.01
expect 1 verify kink.gan kink.json
prints 'outside tolerance: step 0 update 0 gradient N.far'
kink 1.01 1    # at a kink, but wrong
expect 1 verify kink.gan kink.json
prints 'outside tolerance: step 0 update 0 gradient N.near'

# Where no weight of an update has a gradient, as behind a ReLU that is off, gradients are compared as they are.
kink_model true
sed 's/leaky_relu(.*) |>/relu(-concat(near*z, far*z)) |>/' kink.gan >off.gan
flat() {
    kink 0 "$1"
    sed 's/"loss": [0-9.]*/"loss": 0/; s/0\.900000001/1.000000001/g; s/1\.9\([],,]\)/2\1/g' kink.json >off.json
}
flat 0
expect 0 verify off.gan off.json --device ref --precision f64
prints '^verify: 5 checks, worst relative error 0 '
flat 0.001
expect 1 verify off.gan off.json --device ref --precision f64
prints 'outside tolerance: step 0 update 0 gradient N.far'

# A close comparison that decides an `if` is not flipped: the other branch is another program.
kink_model 'mean(z) > 0.999995'
kink 1 1
expect 0 verify kink.gan kink.json
prints '^verify: 5 checks, .*, 2 not judged$'
! grep -q 'excuses nothing' out || fail "a recomputation took the other branch"

# If one decides an `if` through another, the recomputation fails. The report says so; the verdict does not change.
kink_model 'mean(where(2*z > 1.99999, 1, 0)) > 0.5'
expect 0 verify kink.gan kink.json
prints '^  recomputed in f64 with close comparisons turned, .* excuses nothing: step 0: the model makes more'
prints '^verify: 5 checks, .*, 2 not judged$'
kink 1.01 1
expect 1 verify kink.gan kink.json
prints 'outside tolerance: step 0 update 0 gradient N.near'
prints '^verify: 5 checks, '

# Two close comparisons that cancel when both are flipped: f32 gets one of them wrong. The error is within the tolerance
# plus their effect, or not.
# cancel A B: near's gradient is 1, of which A depends on the first comparison, -B on the second.
cancel() {
    base=$(awk "BEGIN { printf \"%.17g\", 1 - $1 + $2 }")
    loss=$(awk "BEGIN { printf \"%.17g\", $base + $1 * 1e-8 - $2 * 5e-6 }")
    cat >kink.gan <<EOT
model kink
net N(z: [1]) -> [] {
  param near : [1] = 1
  y = leaky_relu(concat(near*z - 0.99999999, near*z - 0.999995, near*z), 0.2)
  $1*y[0] - $2*y[1] + $base*y[2]
}
opt = sgd(lr=0.1)
step {
  z = normal(1)
  update N minimize mean(N(z)) using opt
}
EOT
    cat >kink.json <<EOT
{"format": "gan-reference-1", "options": {"batch": 2},
 "start": [{"net": "N", "param": "near", "key": "a", "mean": 1, "shape": [1], "trainable": true, "kind": "normal", "std": 0}],
 "fed": [[{"key": "z", "kind": "normal", "shape": [2, 1], "mean": 1, "std": 0}]],
 "steps": [{"updates": [{"nets": ["N"], "loss": $loss, "grads": [$(number near 1)]}]}],
 "final": [$(number near 0.9)]}
EOT
}
cancel 0.004375 0.003125
expect 0 verify kink.gan kink.json --device ref --precision f64
expect 0 verify kink.gan kink.json
prints '^  not judged: step 0 update 0 gradient N.near: error 0.0035; rounding to f32 alone moves it by 0.001$'
cancel 0.006 0.0055
expect 0 verify kink.gan kink.json --device ref --precision f64
expect 1 verify kink.gan kink.json
prints 'outside tolerance: step 0 update 0 gradient N.near: error 0.0048, allowed 0.003'

# All that a case feeds is read: a draw too many, and a batch that the model takes once.
sed 's/"fed": \[\[/&{"key": "y", "kind": "normal", "shape": [2, 1], "mean": 1, "std": 0}, /' kink.json >more.json
expect 1 verify kink.gan more.json
says 'step 0: the case feeds another normal \[2, 1\], the model reads no more'
sed 's/"batch": 2/"batch": 4/' kink.json >wide.json
expect 1 verify kink.gan wide.json
says 'step 0: the case feeds normal \[2, 1\], the model asks for \[B, 1\] (.*) with a batch of 4'
sed 's/^  z = normal(1)/  z = x/; s/^net N/data x : float(1)\n&/' kink.gan >read.gan
sed 's/"key": "z", "kind": "normal"/"key": "z", "kind": "data", "stream": "x"/' kink.json >read.json
sed 's/"fed": \[\[\(.*\)\]\]/"fed": [[\1, \1]]/' read.json >twice.json
expect 1 verify read.gan twice.json
says 'step 0: the case feeds another data \[2, 1\], the model reads no more'
sed 's/"stream": "x"/"stream": "y"/' read.json >other.json
expect 1 verify read.gan other.json
says 'step 0: the model reads another batch of x \[B, 1\], the case has no more of that name'

expect 1 verify tiny.gan "$reference"
expect 1 verify "$model" nothing.json
