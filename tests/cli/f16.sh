#!/bin/sh
# f16.sh - runs in f16: loss scales are in the log and in checkpoints, so resumed runs have the same bits; precisions that
# keep weights in f32 resume each other's checkpoints; a loss that cannot be scaled ends the run with the reason.
. "$(dirname -- "$0")/lib.sh"
pack
options="--data x=s.pack --batch 8 --seed 3 --save-every 3"
reports() { sed -n 's|.*"step": '"$2"', .*"'"$3"'": \([^,}]*\).*|\1|p' "$1/log.jsonl"; }

for device in ref cpu; do
    expect 0 train tiny.gan $options --device $device --precision f16 --steps 6 --out whole.$device
    expect 0 train tiny.gan $options --device $device --precision f16 --steps 3 --out parts.$device
    expect 0 train parts.$device --steps 6
    same whole.$device/ckpt/00000006.safetensors parts.$device/ckpt/00000006.safetensors
    [ "$(reports whole.$device 6 loss_scale/G)" = 65536 ] || fail "the log has no scale"
    [ "$(reports whole.$device 6 skipped_updates/D1)" = 0 ] || fail "the log has no skipped updates"
done
"$ganrun" train tiny.gan $options --device cpu --steps 6 --out full >/dev/null 2>&1
losses full >a; losses whole.cpu >b; losses whole.ref >c
cmp -s a b && fail "f16 is f32"
for f in b c; do
    paste -d ' ' a $f | tr -c '0-9.e\n-' ' ' | awk '
        { for (i = 2; i <= NF/2; i++) { d = $i - $(i + NF/2); if (d*d > 1e-4) exit 1; n++ } }
        END { if (n < 18) exit 1 }' || { cat a $f >&2; fail "f16 is far from f32"; }
done

# Resuming an f32 run in f16 starts the loss scales, and back; f64 stores other weights.
expect 0 train full --precision f16 --steps 9
[ "$(reports full 7 loss_scale/D0)" = 65536 ] || fail "the scale of a resumed run"
expect 0 train full --precision bf16 --steps 12
expect 0 train full --precision f16 --steps 15
expect 2 train full --precision f64
says 'does not compute in f64'
expect 0 train tiny.gan $options --device ref --precision f64 --steps 3 --out double
expect 2 train double --precision f16
says 'cannot go on in f16'

# An update with a NaN loss is skipped; too many in a row end the run, with checkpoints intact.
expect 1 train tiny.gan $options --device cpu --precision f16 -s mode=broken --steps 90 --out broken
says 'updates of G are skipped one after another'
[ "$(reports broken 6 skipped_updates/G)" = 1 ] || fail "skipped: $(reports broken 6 skipped_updates/G), not 1"
[ "$(reports broken 6 loss_scale/G)" = 32768 ] || fail "the scale was not halved"
[ "$(reports broken 6 skipped_updates/D0)" = 0 ] || fail "another update was skipped"
exists broken/ckpt/00000030.safetensors
expect 1 train broken
says 'skipped one after another'
