#!/bin/sh
# from.sh - a run that starts from another's weights (--from): those of the same name and shape, with reproducible bits.
. "$(dirname -- "$0")/lib.sh"
pack
go() { expect 0 train "$@"; }
go tiny.gan --data x=s.pack --batch 4 --steps 6 --save-every 3 --out a
go tiny.gan --data x=s.pack --batch 4 --steps 4 --save-every 2 --seed 0 --out b --from a
says 'ckpt/00000006.safetensors: 14 of 14 weights and states$'
same a/samples/00000006.png b/samples/00000000.png
# The initial weights are saved as the checkpoint of step 0.
expect 0 sample a -o a.png
expect 0 sample b --step 0 -o b.png
same a.png b.png
cp -r b only
rm only/ckpt/00000002.json only/ckpt/00000004.json
expect 0 eval only --best --count 16
prints '^tiny after 0 steps'
# Once resumed, it no longer needs the other run.
go tiny.gan --data x=s.pack --batch 4 --steps 2 --save-every 2 --out c --from a
mv a kept
go c --steps 4
losses b >b.losses
losses c >c.losses
same b.losses c.losses
same b/ckpt/00000004.safetensors c/ckpt/00000004.safetensors
mv kept a
# Weights of another shape are initialized and named; --from also takes a checkpoint file.
go tiny.gan -s nz=6 --data x=s.pack --batch 4 --steps 1 --out d --from a/ckpt/00000003.safetensors
says '13 of 14 weights and states; initialized: G.dense.0.w (of another shape)$'
# A copy of a net that the other run lacks starts with the net's loaded weights, not with its initial ones.
sed -e 's/^  report.*/  ema(G_avg, G, keep=0.999)\n  report apart = gap/' -e 's/^  z = .*/&\n  gap = mean((G(z) - G_avg(z))^2)/' \
    -e 's/^opt/net G_avg = copy(G)\n&/' tiny.gan >average.gan
go average.gan --data x=s.pack --batch 4 --steps 1 --out f --from a
says '20 of 20 weights and states; from the nets they are copies of: G_avg$'
grep -q '"reports": {"apart": 0}' f/log.jsonl || fail 'G_avg differs from G'
# An exported file, whose names are PyTorch's; one of a single net, without its name; one of a net in DataParallel.
expect 0 export a -o all.safetensors
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out all --from all.safetensors
says ': 14 of 14 weights and states$'
same b/ckpt/00000000.safetensors all/ckpt/00000000.safetensors
go tiny.gan -s nz=6 --data x=s.pack --batch 4 --steps 1 --out other --from all.safetensors
says '13 of 14 weights and states; initialized: G.dense.0.w (of another shape)$'
expect 0 export a --net G -o g.safetensors
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out one --from g.safetensors
says ': 6 of 14 weights and states; initialized: D.conv.0.w, '
cat >wrapped.gan <<'M'
model wrapped
data x : image(3, 8, 8) scale(-1, 1)
net module(z: [4]) -> [3, 8, 8] { z |> dense(3*8*8) |> reshape(3, 8, 8) |> batch_norm |> tanh }
step { update module minimize mean((module(normal(4)) - x)^2) using adam() }
M
go wrapped.gan --data x=s.pack --batch 4 --steps 1 --out wrapped
expect 0 export wrapped -o wrapped.safetensors
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out unwrapped --from wrapped.safetensors
says ': 6 of 14 weights and states; initialized: D.conv.0.w, '
# Normalized weights have the names of PyTorch's functions, which plain layers do not know; of weights that another function
# changes the command warns. Layers that normalize begin with plain weights as well.
cat >normed.gan <<'M'
model normed
data x : image(3, 8, 8) scale(-1, 1)
net D(x: [3, 8, 8]) -> [] {
  h = x |> conv(4, k=3, reparam=spectral_norm) |> conv_transpose(3, k=3, reparam=weight_norm) |> conv(3, k=1, reparam=equalized)
  mean(h, sample)
}
step { update D minimize mean((D(x) - 1)^2) using adam() }
M
sed 's/, reparam=[a-z_]*//g' normed.gan >plain.gan
go normed.gan --data x=s.pack --batch 4 --steps 2 --out normed
expect 0 export normed -o normed.safetensors
says '^warning: 1 of the weights (D.conv.1.weight) go through a `reparam`'
for tensor in 'D.conv.0.weight_orig [4, 3, 3, 3]' 'D.conv.0.weight_u [4]' 'D.conv.0.weight_v [27]' 'D.conv_transpose.0.weight_g [4, 1, 1, 1]' \
    'D.conv_transpose.0.weight_v [4, 3, 3, 3]' 'D.conv.1.weight [3, 3, 1, 1]'; do
    grep -aqF "\"${tensor%% *}\": {\"dtype\": \"F32\", \"shape\": ${tensor#* }" normed.safetensors || fail "exported: no $tensor"
done
go normed.gan --data x=s.pack --batch 4 --steps 1 --out again --from normed.safetensors
says ': 8 of 8 weights and states$'
go plain.gan --data x=s.pack --batch 4 --steps 1 --out unnormed --from normed.safetensors
says ': 4 of 6 weights and states; initialized: D.conv.0.w, D.conv_transpose.0.w$'
go plain.gan --data x=s.pack --batch 4 --steps 1 --out plain
expect 0 export plain -o plain.safetensors
! grep -q warning err || fail 'a warning for plain layers'
# Nor for those that meet one batch of codes for all samples, or a constant that is trained.
cat >shared.gan <<'M'
model shared
data x : image(3, 8, 8) scale(-1, 1)
net M(s: [3, 4]) -> [3, 4] = s |> linear(8) |> relu |> linear(4)
net G(z: [4]) -> [3, 8, 8] {
  param start : [4, 8, 8] = gauss(1)
  (start |> conv(4, k=3, pad=1) |> conv(3, k=1))*sum(z, sample)
}
step {
  z = M(normal(3, 4, per=batch))[0]
  update G, M minimize mean((G(z*normal(4)) - x)^2) using adam()
}
M
go shared.gan --data x=s.pack --batch 4 --steps 1 --out shared
expect 0 export shared -o shared.safetensors
! grep -q warning err || fail 'a warning for layers of shared values'
sed 's/linear(8)/linear(8, reparam=equalized)/; s/conv(3, k=1/&, reparam=equalized/' shared.gan >scaled.gan
go scaled.gan --data x=s.pack --batch 4 --steps 1 --out scaled
expect 0 export scaled -o scaled.safetensors
says '^warning: 2 of the weights (M.linear.0.weight) go through a `reparam`'
go normed.gan --data x=s.pack --batch 4 --steps 1 --out again2 --from plain.safetensors
says ': 6 of 8 weights and states; initialized: D.conv.0.spectral_norm.0.u, D.conv_transpose.0.g$'
# Nets under other names, as {"netG": ..., "netD": ...}; an average beside the net, whose shapes are the same.
sed -e 's/\<G\>/netG/g' -e 's/\<D\>/netD/g' tiny.gan >named.gan
go named.gan --data x=s.pack --batch 4 --steps 1 --out named
expect 0 export named -o named.safetensors
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out renamed --from named.safetensors
says 'named.safetensors, netG as G, netD as D: 14 of 14 weights and states$'
expect 0 sample named -o named.png
expect 0 sample renamed --step 0 -o renamed.png
same named.png renamed.png
sed -e 's/\<G\>/g/g' -e 's/\<D\>/d/g' -e 's/\<G_avg\>/g_avg/g' average.gan >lower.gan
go lower.gan --data x=s.pack --batch 4 --steps 1 --out lower
expect 0 export lower -o lower.safetensors
go average.gan --data x=s.pack --batch 4 --steps 1 --out upper --from lower.safetensors
says 'lower.safetensors, g as G, d as D, g_avg as G_avg: 20 of 20 weights and states$'
sed -e 's/\<G\>/gen/g' -e 's/\<D\>/critic/g' -e 's/\<G_avg\>/slow/g' average.gan >unlike.gan    # gen or slow: nothing says which
go unlike.gan --data x=s.pack --batch 4 --steps 1 --out unlike
expect 0 export unlike -o unlike.safetensors
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out unclear --from unlike.safetensors
says 'unlike.safetensors, critic as D: 8 of 14 weights and states; initialized: G.dense.0.w, '
# With another learning rate, and the optimizers' state.
sed 's/lr=1e-3/lr=1e-4/' tiny.gan >slower.gan
go slower.gan --data x=s.pack --batch 4 --steps 1 --out slow --from a --from-optimizer on
says '^24 of 24 tensors of optimizers. state$'
numbers() { tail -c "$(($(wc -c <"$1") - $(od -An -tu8 -N8 "$1") - 8))" "$1"; }
numbers a/ckpt/00000006.safetensors >a.numbers
numbers slow/ckpt/00000000.safetensors >slow.numbers
[ "$(wc -c <a.numbers)" -gt 10000 ] && same a.numbers slow.numbers
expect 2 train slower.gan --data x=s.pack --batch 4 --steps 1 --out slow --resume auto --from a
says 'begun with --from-optimizer=on: give the same'
expect 0 train slower.gan --data x=s.pack --batch 4 --steps 2 --out slow --resume auto --from a --from-optimizer on
expect 1 train slower.gan --data x=s.pack --batch 4 --steps 1 --out none --from all.safetensors --from-optimizer on
says 'all.safetensors has no state of these optimizers'
expect 2 train slower.gan --data x=s.pack --batch 4 --steps 1 --out none --from-optimizer on
absent none
# From another precision, and back bit-identically.
go tiny.gan --data x=s.pack --batch 4 --steps 1 --device ref --precision f64 --out g --from a
says ': 14 of 14 weights and states$'
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out h --from g/ckpt/00000000.safetensors
says ': 14 of 14 weights and states$'
same c/ckpt/00000000.safetensors h/ckpt/00000000.safetensors
# Stages of progressive growing: all weights of the smaller model are loaded, in G, its average and D.
stage() { go "$here/../../models/progan.gan" --device ref --data x=s.pack --batch 4 -s nz=3 -s wide=3 -s fade=2 "$@"; }
stage -s size=4 --steps 1 --out p4
stage -s size=8 --steps 3 --out p8 --from p4
says '20 of 41 weights and states; initialized: G.up.8.w, '
stage -s size=16 --steps 1 --out p16 --from p8
says '32 of 53 weights and states; initialized: G.up.16.w, '
# A damaged checkpoint is skipped.
printf x | dd of=a/ckpt/00000006.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out e --from a
says 'ckpt/00000003.safetensors: 14 of 14'

refused_run() {
    expect "$@"
    absent none
}
refused_run 1 train tiny.gan --data x=s.pack --out none --from nowhere
says 'there is no such run or file'
mkdir hollow
refused_run 1 train tiny.gan --data x=s.pack --out none --from hollow
says 'from: .*hollow is not the folder of a run'
cp a/options.json hollow
refused_run 1 train tiny.gan --data x=s.pack --out none --from hollow
says 'no whole checkpoint'
refused_run 1 train tiny.gan --data x=s.pack --out none --from tiny.gan
says 'not a safetensors file'
cat >other.gan <<'M'
model other
net F(z: [3]) -> [1] = z |> dense(1)
step { update F minimize mean(F(normal(3))^2) using adam() }
M
refused_run 1 train other.gan --out none --from a
says 'no weight of this model.*as F.dense.0.weight .1, 3.; it has .* in all'
expect 2 train b --from a
says 'fixed once a run has begun'
expect 2 train tiny.gan --data x=s.pack --batch 4 --steps 4 --out b --resume auto
says 'begun with --from'
# Killed before its first checkpoint was complete: resuming is an error, not a start with other weights.
rm b/ckpt/*
expect 1 train b
says 'before it had saved its initial weights'

# Classes that both runs have keep their numbers, also of a run whose folder is gone when this one goes on.
cat >pets.gan <<'EOF'
model pets "classes of folders"
data x : image(1, 4, 4) scale(-1, 1), y : label(3)
net D(x: [1, 4, 4], y: label(3)) -> [] = concat(flatten(x), one_hot(y)) |> dense(1) |> squeeze
step { update D minimize mean(D(x, y)) using sgd(0.1) }
sample class = one_hot(y)
EOF
go tiny.gan --data x=s.pack --batch 4 --steps 1 --out grids
for pet in first/cat first/dog second/ape second/bee second/dog; do mkdir -p $pet; cp grids/samples/00000000.png $pet/; done
go pets.gan --data x=first --batch 2 --steps 1 --out first.run --threads 1
go pets.gan --data x=second --batch 2 --steps 1 --out second.run --threads 1 --from first.run
says '^y: classes keep the numbers they have in the run it begins with; `ape` has 0, `bee` has 2$'
grep -q '"classes": \["ape", "dog", "bee"\]' second.run/options.json || fail "classes: $(cat second.run/options.json)"
rm -r first.run
go second.run --steps 2 --threads 1
! grep -q 'classes keep' err || fail 'the numbers are told again'
go pets.gan --data x=second --batch 2 --steps 1 --out third.run --threads 1 --from second.run/ckpt/00000002.safetensors
grep -q '"classes": \["ape", "dog", "bee"\]' third.run/options.json || fail "classes: $(cat third.run/options.json)"
# A folder whose samples are in no class's folder has no number, though one is left.
refused 1 'has none for samples in no class.s folder' ganrun sample third.run --entry class --all --data x=second/dog -o y.npy
