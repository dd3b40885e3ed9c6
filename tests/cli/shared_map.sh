#!/bin/sh
# shared_map.sh - a net of one value without a batch axis, as of a fixed noise or an image that is optimized, is computed by no slower
# implementation of the library than a net of samples.
. "$(dirname -- "$0")/lib.sh"
cat >m.gan <<'END_MODEL'
model fixed "a net of a fixed map, or of samples"
config of = "map" | "samples"   "what the net is applied to"
data x : image(3, 8, 8) scale(-1, 1)
state z : [3, 8, 8] = gauss(1)
net G(z: [3, 8, 8]) -> [3, 8, 8] = z |> conv(48, k=3, pad=1) |> leaky_relu(0.2) |> conv(32, k=4, stride=2, pad=1) |> conv_transpose(3, k=4, stride=2, pad=1)
step { update G minimize mse(G(if of == "map" { z } else { x }), x) using sgd(0.1) }
sample made = G(x)
END_MODEL
pack
slow() {
    ONEDNN_VERBOSE=1 expect 0 train m.gan -s of="$1" --data x=s.pack --batch 1 --steps 1 --out "$1" --threads 1
    grep -q 'exec,cpu,convolution' out || exit 77    # built without oneDNN, or without its messages
    grep 'exec,cpu,convolution,.*ref' out | wc -l
}
of_map=$(slow map) of_samples=$(slow samples)
[ "$of_map" = "$of_samples" ] || fail "reference implementation: $of_map convolutions of a map, $of_samples of samples"
