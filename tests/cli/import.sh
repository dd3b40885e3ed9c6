#!/bin/sh
# import.sh - `ganrun import`: what is exported as ONNX comes back as text that computes the same, and what is refused.
. "$(dirname -- "$0")/lib.sh"
pack
cp "$here/onnx.gan" .
expect 0 train onnx.gan --data x=s.pack --batch 2 --steps 2 --out run --threads 1

# close A.npy B.npy: the same numbers up to rounding.
close() {
    od -An -v -tf4 -w4 -j128 "$1" >a.txt
    od -An -v -tf4 -w4 -j128 "$2" >b.txt
    paste a.txt b.txt | awk 'NF != 2 { bad = 1 } { d = $1 - $2; m = $1 < 0 ? -$1 : $1; if (!(d*d <= 1e-10*(1 + m*m))) bad = 1 }
        END { exit bad || NR == 0 }' || fail "$1 and $2 differ"
}

# Inputs to give to both.
cat >inputs.gan <<'X'
model inputs
step {}
sample z4(z: [4])          = z
sample z5(z: [5])          = z
sample z52(z: [5, 2])      = z
sample z34(z: [3, 4])      = z
sample z45(z: [4, 5])      = z
sample z345(z: [3, 4, 5])  = z
sample z244(z: [2, 4, 4])  = z
sample z388(z: [3, 8, 8])  = z
sample z32(z: [3, 2])      = z
sample class               = floor(3*uniform())
X
expect 0 train inputs.gan --steps 1 --out inputs --threads 1
for shape in z4 z5 z52 z34 z45 z345 z244 z388 z32 class; do
    expect 0 sample inputs --entry $shape --count 5 -o $shape.npy --threads 1
done

# round ENTRY INPUT=FILE... : the entry exported and imported gives what it gave.
round() {
    entry=$1
    shift
    given=
    for pair in "$@"; do given="$given --input $pair"; done
    expect 0 export run --entry $entry -o $entry.onnx
    expect 0 import $entry.onnx
    prints "^$entry.gan$"
    prints "^$entry.safetensors$"
    "$(dirname -- "$ganrun")/ganc" check $entry.gan 2>err || fail "ganc check $entry.gan"
    [ ! -s err ] || fail "$entry.gan has warnings"
    "$(dirname -- "$ganrun")/ganc" fmt --check $entry.gan
    sed '/^data /d; /^sample features/d' $entry.gan >copy.gan    # no data to read
    rm -rf copy
    expect 0 train copy.gan --steps 1 --out copy --threads 1
    expect 0 sample run --entry $entry --count 5 -o theirs.npy --threads 1 $given
    expect 0 sample copy --entry output --count 5 -o ours.npy --threads 1 $given
    close theirs.npy ours.npy
}
round elements a=z5.npy b=z5.npy
round mixed a=z52.npy b=z5.npy
round sums a=z345.npy
round moved a=z345.npy
round padded a=z244.npy
round slopes a=z244.npy
round layers z=z4.npy
round products a=z34.npy b=z45.npy
round means a=z388.npy
round rows table=z32.npy y=class.npy which=class.npy

# Layers of the library, weights under their names.
for word in 'named(dense(192), "T.dense.0")(z)' 'named(conv(4, k=3, stride=2, pad=1), "U.conv.0")' 'net F = pretrained(layers, "layers.safetensors")'; do
    grep -qF "$word" layers.gan || fail "$word is not in layers.gan"
done
for word in T.dense.0.weight U.conv.0.bias U.conv_transpose.0.weight; do
    grep -aq "\"$word\"" layers.safetensors || fail "$word is not in layers.safetensors"
done

# Features for a metric, fixed features of a loss, and a copy that is trained.
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 2 --out tiny --threads 1
expect 0 eval tiny --features means.gan --count 16 --threads 1
prints ' kid '
sed '/^step/,$d' means.gan >transfer.gan
cat >>transfer.gan <<'X'
net C = copy(F)
net G(z: [4]) -> [3, 8, 8] = z |> dense(192) |> reshape(3, 8, 8)
step {
  update C minimize mse(C(a), 2) using adam(0.1)
  update G minimize mse(F(G(normal(4))), 2) using adam(0.1)
}
X
expect 0 train transfer.gan --data a=s.pack --batch 8 --steps 60 --out transfer --threads 1
losses transfer | awk '{ gsub(/[{}:,"CG]/, ""); if (NR == 1) { c = $2; g = $3 } d = $2; h = $3 } END { exit !(d < 0.5*c && h < 0.9*g) }' ||
    fail 'an imported net does not train'

# -o names both files.
expect 0 import layers.onnx -o "some where.gan"
exists "some where.gan" "some where.safetensors"
grep -q '"some where.safetensors"' "some where.gan" || fail 'the text names another file'

# Again over what an import left, but not over what was edited since, or is another model's.
expect 0 import layers.onnx -o "some where.gan"
echo '# mine' >>"some where.gan"
refused 1 'some where.gan is there already, and no import left it so: it was edited' ganrun import layers.onnx -o "some where.gan"
grep -q '^# mine' "some where.gan" || fail 'an edited text was written over'
cp "some where.gan" other.gan
expect 0 export run -o other.safetensors
cp other.safetensors kept.safetensors
refused 1 'other.gan is there already' ganrun import layers.onnx -o other.gan
same other.safetensors kept.safetensors

# One error names the node and why; neither file is written.
none() { absent bad.gan bad.safetensors; }
sed 's/Gemm/Gemx/' layers.onnx >bad.onnx
refused 1 '^ganrun: bad.onnx cannot be imported: Gemx: this operation has no translation here; ' ganrun import bad.onnx; none
expect 0 export run --entry counted -o counted.onnx
refused 1 'cannot be imported: Range: .*number' ganrun import counted.onnx -o bad.gan; none
head -c 700 layers.onnx >bad.onnx
refused 1 '^ganrun: bad.onnx: not an ONNX file, or a damaged one' ganrun import bad.onnx; none
refused 1 'not an ONNX file' ganrun import s.pack -o bad.gan; none
truncate -s 2G large.onnx
refused 1 '^ganrun: large.onnx: not an ONNX file, which has less than 2 GiB' ganrun import large.onnx -o bad.gan; none
refused 1 'there is no file nowhere.onnx' ganrun import nowhere.onnx -o bad.gan; none
: >bad.safetensors
refused 1 'bad.safetensors is there already, without bad.gan' ganrun import layers.onnx -o bad.gan
rm bad.safetensors
refused 2 '-o bad.txt: ' ganrun import layers.onnx -o bad.txt; none
