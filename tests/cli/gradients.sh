#!/bin/sh
# gradients.sh GANRUN - input gradients that the cpu device computes as forward convolutions equal the reference device's.
. "$(dirname -- "$0")/lib.sh" "$1"
cp "$here/gradients.gan" .
for device in ref cpu; do
    expect 0 train gradients.gan --batch 3 --steps 3 --device $device --precision f32 --out $device
    losses $device | tr -c '0-9.e\n-' ' ' > $device.losses
done
[ "$(wc -l < ref.losses)" = 3 ] || fail "three steps were asked for"
paste -d ' ' ref.losses cpu.losses | awk '
    { for (i = 2; i <= NF/2; i++) { d = $i - $(i + NF/2); if (d*d > 1e-8*$i*$i) exit 1; n++ } }
    END { if (n != 9) exit 1 }' || { cat ref.losses cpu.losses >&2; fail "the devices differ"; }
