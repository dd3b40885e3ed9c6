# kink_lib.sh - a reference case of two weights with an activation at a kink. Sourced.
#
# kink_model CONDITION: kink.gan, an activation that f32 cannot distinguish from the kink of a leaky ReLU, in a step with
# one update where CONDITION holds and two where it does not; z is 1 for every sample. kink NEAR FAR: kink.json, the
# gradients in the case; 1 and 1 are correct.
kink_model() {
    cat >kink.gan <<EOT
model kink
net N(z: [1]) -> [] {
  param near : [1] = 1
  param far  : [1] = 2
  leaky_relu(concat(near*z, far*z) - 1, 0.2) |> sum(sample)
}
opt = sgd(lr=0.1)
step {
  z = normal(1)
  if $1 { update N minimize mean(N(z)) using opt }
  else  { repeat 2 { update N minimize mean(N(z)) using opt } }
}
EOT
}
number() { echo "{\"param\": \"$1\", \"numel\": 1, \"sum\": $2, \"l2\": $2, \"samples\": [[0, $2]]}"; }
kink() {
    shape='"shape": [1], "trainable": true, "kind": "normal", "std": 0'
    cat >kink.json <<EOT
{"format": "gan-reference-1", "options": {"batch": 2},
 "start": [{"net": "N", "param": "near", "key": "a", "mean": 1.000000001, $shape},
           {"net": "N", "param": "far", "key": "b", "mean": 2, $shape}],
 "fed": [[{"key": "z", "kind": "normal", "shape": [2, 1], "mean": 1, "std": 0}]],
 "steps": [{"updates": [{"nets": ["N"], "loss": 1.000000001, "grads": [$(number near "$1"), $(number far "$2")]}]}],
 "final": [$(number near 0.900000001), $(number far 1.9)]}
EOT
}
