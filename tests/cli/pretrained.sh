#!/bin/sh
# pretrained.sh - pretrained nets: a file's weights, found by name, never trained, in no checkpoint; and the errors where the
# file is another, has other names or shapes, or is missing.
. "$(dirname -- "$0")/lib.sh"
pack
go() { expect 0 train "$@"; }
# A net with layer names of another program, trained to get its weight file.
cat >layers.txt <<'M'
fn body(x: [3, 8, 8]) -> [4, 8, 8], [4, 4, 4] {
  a = named(conv(4, k=3, pad=1), "features", 0)(x) |> relu
  b = named(batch_norm(), "features", 1)(a) |> max_pool(2)
  [a, b]
}
M
{ echo 'model teacher'; cat layers.txt; cat <<'M'
data x : image(3, 8, 8) scale(-1, 1)
net T = body
step { a, b = T(x); update T minimize mean((b - 1)^2) using adam(lr=1e-2) }
M
} >teacher.gan
go teacher.gan --data x=s.pack --batch 4 --steps 3 --out teacher
expect 0 export teacher --net T -o f.safetensors
for name in features.0.weight features.0.bias features.1.weight features.1.bias features.1.running_mean features.1.running_var; do
    grep -aq "\"$name\"" f.safetensors || fail "f.safetensors has no $name"
done

{ echo 'model student'; cat layers.txt; cat <<'M'
data x : image(3, 8, 8) scale(-1, 1)
net F = pretrained(body, "f.safetensors")
net D = copy(F)
net G(z: [4]) -> [3, 8, 8] { z |> dense(3*8*8) |> reshape(3, 8, 8) |> tanh }
opt = adam(lr=1e-3)
step {
  a, b = F(G(normal(4)))
  c, d = F(x)
  e, f = eval(D)(x)
  report same = mean((f - d)^2)
  update G minimize l1(a, c) + l1(b, d) using opt
  update D minimize mean(f^2) using opt
}
sample fakes = G(normal(4))
sample features { a, b = F(G(normal(4))); b }
M
} >student.gan
go student.gan --data x=s.pack --batch 4 --steps 4 --save-every 2 --out a
# A copy starts with the weights of the pretrained net, which does not change.
grep -q '"step": 1,.*"reports": {"same": 0}' a/log.jsonl || fail 'the copy does not begin with the file'
grep -q '"step": 4,.*"reports": {"same": 0}' a/log.jsonl && fail 'the copy was not trained'
grep -aq '"F\.' a/ckpt/00000004.safetensors && fail 'a checkpoint has the weights of a pretrained net'
grep -aq '"D.features.0.w"' a/ckpt/00000004.safetensors || fail 'a checkpoint lacks the copy'
expect 0 export a -o a.safetensors
grep -aq '"F\.' a.safetensors && fail 'weights of a pretrained net are exported'
expect 1 export a --net F -o b.safetensors
says 'no weights to export of a pretrained net'
# Resumed after the file has moved.
go student.gan --data x=s.pack --batch 4 --steps 2 --save-every 2 --out b
mkdir away
mv f.safetensors away/g.safetensors
expect 1 train b --steps 4
says "the pretrained net F has its weights from $(pwd)/f.safetensors, and there is no such file: --weights F=FILE"
go b --steps 4 --weights F=away/g.safetensors
losses a >a.losses
losses b >b.losses
same a.losses b.losses
same a/ckpt/00000004.safetensors b/ckpt/00000004.safetensors
# A sample that does not use the net does not need its file.
expect 0 sample a --entry fakes -o fakes.png --count 4 --weights F=away/g.safetensors
expect 1 sample a --entry features -o a.npy --count 4
says 'there is no such file'
expect 0 sample a --entry features -o a.npy --count 4 --weights F=away/g.safetensors
expect 0 sample b --entry features -o b.npy --count 4
same a.npy b.npy
# A run is not resumed with other weights.
expect 0 train teacher --steps 4
expect 0 export teacher --net T -o f.safetensors
expect 1 train a --steps 6
says 'f.safetensors holds other weights for F than this run began with'
go a --steps 6 --weights F=away/g.safetensors
# A compiled model gives the same losses; the reference device runs it too.
"$(dirname -- "$ganrun")/ganc" compile student.gan -o student.ganx --batch 4
go student.ganx --data x=s.pack --steps 2 --out x --weights F=away/g.safetensors
losses x | sed -n 1p >x.losses
sed -n 1p a.losses | cmp -s - x.losses || fail 'a compiled model has other losses'
go student.gan --data x=s.pack --batch 4 --steps 1 --device ref --out r --weights F=away/g.safetensors
# Another precision is converted, names with a prefix are found, and --from takes PyTorch's names.
expect 0 export teacher -o prefixed.safetensors
go teacher.gan --data x=s.pack --batch 4 --steps 1 --device ref --precision f64 --out wide --from prefixed.safetensors
says '6 of 6 weights'
expect 0 export wide --net T -o wide.safetensors
sed 's/f.safetensors"/wide.safetensors"/' student.gan >wide.gan
go wide.gan --data x=s.pack --batch 4 --steps 1 --out w
sed 's/"f.safetensors"/"prefixed.safetensors", prefix="T"/' student.gan >prefixed.gan
go prefixed.gan --data x=s.pack --batch 4 --steps 1 --out p

# Two weights of a layer that PyTorch would both call `weight` stay distinct: in export, --from and `pretrained`.
cat >both.txt <<'M'
fn both(x: [3, 8, 8]) -> [3, 8, 8] { param w : [3, 1, 1] = 1; param gain : [3, 1, 1] = 2; x*w + gain }
data x : image(3, 8, 8) scale(-1, 1)
M
{ echo 'model both'; cat both.txt; echo 'net T = both'; echo 'step { update T minimize mean(T(x)^2) using sgd(lr=0) }'; } >both.gan
{
    echo 'model reads'; cat both.txt; cat <<'M'
net F = pretrained(both, "both.safetensors")
net G(x: [3, 8, 8]) { param w : [3, 1, 1] = 0; x*w }
step { report f = mean(F(0*x)); update G minimize mean(G(x)^2) using sgd() }
M
} >reads.gan
go both.gan --data x=s.pack --batch 4 --steps 1 --out both
expect 0 export both --net T -o both.safetensors
expect 0 export both -o whole.safetensors
go both.gan --data x=s.pack --batch 4 --steps 1 --out begun --from whole.safetensors
says '2 of 2 weights'
go reads.gan --data x=s.pack --batch 4 --steps 1 --out reads
grep -q '"reports": {"f": 2}' reads/log.jsonl || fail 'two weights were loaded from one tensor'

# The same net saved by torch.save in a checkpoint dictionary; the expected value at zero is PyTorch's.
cp "$here/features.pth" .
{ echo 'model reads'; cat layers.txt; cat <<'M'
data x : image(3, 8, 8)
net F = pretrained(body, "features.pth")
net G(x: [3, 8, 8]) { param w : [3, 1, 1] = 0; x*w }
step { a, b = F(0*x); report f = mean(b); update G minimize mean(G(x)^2) using sgd() }
M
} >torch.gan
go torch.gan --data x=s.pack --batch 4 --steps 1 --device ref --precision f64 --out torch
grep -q '"reports": {"f": 0.69535076329' torch/log.jsonl || fail "another value than PyTorch's: $(cat torch/log.jsonl)"
expect 0 data inspect features.pth
prints '^features.pth: weights, 7 tensors, 129 numbers$'
prints '^features.0.weight  *F32 \[4, 3, 3, 3\]$'
prints '^features.1.num_batches_tracked  *I64 \[\]$'
expect 0 data inspect prefixed.safetensors --json
prints '"name": *"T.features.0.weight", *"dtype": *"F32", *"shape": *\[4, 3, 3, 3\]'

refused_run() {
    expect "$@"
    absent none
}
refused_run 1 train student.gan --data x=s.pack --out none --weights F=prefixed.safetensors
says '6 of 6 weights and states of net F are not in it: features.0.weight of \[4, 3, 3, 3\] is not there; it has T.features'
sed 's/conv(4, k=3/conv(4, k=5/; s/pad=1/pad=2/' student.gan >large.gan
refused_run 1 train large.gan --data x=s.pack --out none
says '1 of 6 weights .* features.0.weight of \[4, 3, 5, 5\] is \[4, 3, 3, 3\]'
refused_run 1 train student.gan --data x=s.pack --out none --weights F=student.gan
says 'not a safetensors file'
refused_run 1 train student.gan --data x=s.pack --out none --weights F=nowhere
says 'there is no such file'
refused_run 2 train student.gan --data x=s.pack --out none --weights G=f.safetensors
says 'has no pretrained net of that name'
printf 'x' | dd of=f.safetensors bs=1 seek=3 conv=notrunc 2>/dev/null
refused_run 1 train student.gan --data x=s.pack --out none
says 'safetensors file'
