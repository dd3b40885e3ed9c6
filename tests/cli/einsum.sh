#!/bin/sh
# einsum.sh - one value read by two products with its equal axes exchanged, forward and backward: the library makes two
# copies of it, and the device agrees with the reference. The third axis is innermost, so none of the products reads it in
# place.
. "$(dirname -- "$0")/lib.sh"
cat >turned.gan <<'GAN'
model turned "products that read one value both ways"
net D() -> [] {
  param a : [4, 3, 3] = gauss(0.4)
  param b : [4, 3, 3] = gauss(0.4)
  param g : [4, 3, 3, 3] = gauss(0.4)
  there = einsum("oiab,oia->oib", g, a)
  back  = einsum("oiab,oib->oia", g, a)
  made  = einsum("oia,oib->oiab", a, b)
  sum(there*cos(reshape(arange(36), 4, 3, 3))) + 2*sum(back*cos(reshape(arange(36), 4, 3, 3))) + sum(made^2*cos(reshape(arange(108), 4, 3, 3, 3)))
}
fn sgd(lr)(w, g) = w - lr*g
step { update D minimize D() using sgd(0.05) }
GAN
for device in ref cpu; do
    expect 0 train turned.gan --batch 2 --steps 4 --device $device --precision f32 --out $device
    losses $device | tr -d '{}":,' >$device.losses
done
[ -s ref.losses ] || fail 'no losses'
paste ref.losses cpu.losses >both
awk '{ d = $3 - $6; if (d * d > 1e-8 * (1 + $3 * $3)) exit 1 } END { if (NR < 2) exit 1 }' both || { cat both; fail 'the devices differ'; }
