#!/bin/sh
# eval.sh - `ganrun eval`: which metrics compare which samples, and what it prints.
. "$(dirname -- "$0")/lib.sh"
pack
"$ganrun" data synth shapes --out t.pack --count 40 --size 8 --seed 1 >/dev/null
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 2 --out run

# Images are compared with the data field of their shape: the training data, or other data.
expect 0 eval run --count 16
prints '^tiny after 2 steps, against the data it was trained on'
prints '^fakes  *x  *16  *swd pixels  *[0-9.]* *[0-9.]* *[0-9.]*$'
expect 0 eval run --count 16 --data x=t.pack
prints 'against the data of --data'
mv out first
expect 0 eval run --count 16 --data x=t.pack --threads 1
same first out
expect 0 eval run --count 16 --json --metric swd
prints '"model": "tiny", "step": 2, "rows": \[{"sample": "fakes", "against": "x", "samples": 16, "metric": "swd pixels", "generated": '
expect 0 eval run --count 16 --data x=t.pack --subset 16 --threads 1
same first out
expect 0 eval run --count 16 --data x=t.pack --subset 8 --threads 1   # means over two smaller sets: larger distances
awk '/swd pixels/ { print $6, $7 }' first out | awk 'NR == 1 { a = $1 } NR == 2 { exit !($1 > a) }' || fail "smaller sets have no larger distance"
expect 0 eval run --count 999                                     # limited to half of the data
says '^--count 999: x has data for [0-9]*, as half of them is compared with the other half$'
prints '^fakes  *x  *16  '

# The same in a model whose step calls `next` before it reads the batch.
sed 's/^step {/step {\n  next x/' tiny.gan >onward.gan
expect 0 train onward.gan --data x=s.pack --batch 8 --steps 2 --save-every 2 --out onward
grep -q '"saved": true, "swd": ' onward/log.jsonl || fail 'a save logs no distance'
expect 0 eval onward --count 16
prints '^fakes  *x  *16  *swd pixels  *[0-9.]* *[0-9.]* *[0-9.]*$'
sed 's/^sample .*/sample copies = x + 0*G(normal(nz))/' onward.gan >copies.gan    # copies of a batch other than the step's
expect 0 train copies.gan --data x=s.pack --batch 8 --steps 1 --out copies
expect 0 eval copies --count 16
prints '^copies  *x  *16  *error  *0 '

# Data that no result depends on are not opened, so nothing can be compared with them.
sed 's/^step {/step {\n  seen = mean(x)/; s/D(x)/D(normal(3, 8, 8))/' tiny.gan >blind.gan
expect 0 train blind.gan --data x=s.pack --batch 8 --steps 1 --out blind
refused 1 'no number of the model depends on x' ganrun eval blind

# --keep keeps more checkpoints; --best takes the one with the smallest ratio printed on standard error.
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 10 --save-every 2 --keep 4 --out kept
[ "$(ls kept/ckpt/*.json | wc -l)" = 4 ] || fail "not four checkpoints"
expect 0 eval kept --count 16 --best
[ "$(grep -c '^step [0-9]*: largest ratio' err)" = 4 ] || fail "not four were evaluated"
best=$(sed -n 's/^step \([0-9]*\): largest ratio of generated to data \([0-9.]*\)$/\2 \1/p' err | sort -n | head -n 1)
prints "^tiny after ${best#* } steps"

# Rows of a table, which no other metric is for: by all their numbers.
sed 's/^sample .*/sample rows = normal(5)/' tiny.gan >rows.gan
expect 0 sample run --model rows.gan --count 40 -o rows.npy
cat >table.gan <<'MODEL'
model table
data x : float(5)
net G(z: [2]) -> [5] = z |> dense(5)
net D(x: [5]) -> [] = x |> dense(1) |> squeeze
step {
  update D minimize logistic(D(x), D(G(normal(2)))) using adam()
  update G minimize non_saturating(D(G(normal(2)))) using adam()
}
sample rows = G(normal(2))
MODEL
expect 0 train table.gan --data x=rows.npy --batch 8 --steps 1 --out table
expect 0 eval table --count 16
prints '^rows  *x  *16  *swd  *[0-9.]* *[0-9.]* *[0-9.]*$'

# Codes of data with labels: as many groups as classes, and how far they are the classes.
"$ganrun" data synth chains --count 64 -o chains.pack >/dev/null
cat >codes.gan <<'MODEL'
model codes
data x : float(3, 3375), y : label(4)
net E(v: [4]) -> [4] = v |> dense(4)
step { update E minimize mean((E(one_hot(y)) - normal(4))^2) using adam() }
sample code  = 100*one_hot(y) + 0*E(one_hot(y))
sample noise = normal(3) + 0*x[0, 0] + 0*mean(E(one_hot(y)))
MODEL
expect 0 train codes.gan --data x=chains.pack --data y=chains.pack --batch 8 --steps 1 --out codes
expect 0 eval codes --metric groups
prints '^code  *-  *[0-9]*  *groups  *4 '
prints '^code  *-  *[0-9]*  *silhouette  *1 '
prints '^code  *-  *[0-9]*  *agreement  *1 '
awk '/^noise .* agreement/ { found = $5 < 0.5 } END { exit !found }' out || fail 'noise agrees with the classes'

# A scalar sample is its own metric.
{ cat tiny.gan; echo 'sample three = 3'; } >three.gan
expect 0 train three.gan --data x=s.pack --batch 8 --steps 1 --out three
expect 0 eval three --count 16 --entry three
prints '^three .* value  *3 '
refused 1 'three is one value, not one per sample; add 0[*]sample_index() to make it so' ganrun sample three --entry three

refused 2 'no metric `swf`: did you mean `swd`' ganrun eval run --metric swf
refused 2 'fid is of the features of a trained net: --features' ganrun eval run --metric fid
refused 2 'no sample `fake`'                    ganrun eval run --entry fake
refused 2 'no sample `pictures`: there is `fakes`' ganrun eval run --entry pictures
refused 1 'nothing to evaluate'                  ganrun eval run --metric chamfer
refused 1 'not the folder of a run'             ganrun eval tiny.gan
"$ganrun" data synth shapes --out few.pack --count 12 --size 8 >/dev/null
refused 1 'two batches of 8'                    ganrun eval run --data x=few.pack

# Of the model of --features -s k=1 and -s features.k=1 are one setting.
refused 2 '-s features.size is given twice, `8` and, as size, `9`: keep one' \
    ganrun eval run --features seen.gan -s size=9 -s features.size=8

# --features FILE: given enough data, samples and one half are compared with the other half; else samples with all data.
cat >seen.gan <<'MODEL'
model seen
config size = 8
data x : image(3, size, size) scale(0, 1)
net F(x: [3, size, size]) -> [6] = x |> conv(6, k=3) |> relu |> mean(space)
step { }
sample features = F(x)
MODEL
expect 0 eval run --features seen.gan --count 16
prints '^fakes  *x  *16  *coverage '
prints '^fakes  *x  *16  *kid  *[0-9.e-]*  *[0-9.e-]*  *-$'      # data's is about zero: no unit
mv out first
if grep -q 'without it: install libopenblas-dev' err; then    # the other metrics do not need OpenBLAS
    grep -q ' fid ' first && fail "a FID without OpenBLAS"
    refused 1 'Frechet distances (FID) want OpenBLAS' ganrun eval run --features seen.gan --metric fid
else
    grep -q '^fakes  *x  *16  *fid  *[0-9.e-]*  *[0-9.e-]*  *[0-9.]*$' first || fail "no FID"
    expect 0 eval run --features seen.gan --count 16 --threads 1 --metric fid
    grep ' fid ' first | cmp -s - out && fail "the title is missing"
    grep -q "$(grep ' fid ' first)" out || fail "another FID on one thread"
    grep -q 'fid:' err && fail 'enough samples are reported as too few'
    expect 0 eval run --features seen.gan --count 5 --metric fid
    says '^fid: 5 samples and .* for 6 features: a covariance needs more than 6 of each'
fi
expect 0 eval run --features seen.gan --count 32 --metric kid
prints '^fakes  *x  *32  *kid  *[0-9.e-]*  *-  *-$'
refused 1 'takes images of \[3, 9, 9\], the samples are \[3, 8, 8\]' ganrun eval run --features seen.gan -s size=9
expect 0 eval run --features seen.gan --count 16 --metric is      # requires logits, so it is computed only when named
prints '^fakes  *x  *16  *inception score  *1\.[0-9]*  *1\.[0-9]* '
# Another model of features of the same file name gives other numbers, which a report tells apart.
mkdir -p elsewhere
sed 's/-> \[6\]/-> [6]/; s/^sample features = F(x)/sample features = 2*F(x)/' seen.gan >elsewhere/seen.gan
cmp -s seen.gan elsewhere/seen.gan && fail 'elsewhere/seen.gan is the same'
expect 0 eval run --features elsewhere/seen.gan --count 32 --metric kid
expect 0 report run -o told.csv
[ "$(head -1 told.csv | grep -o 'kid of 32 by seen.gan[^"]* ([0-9a-f]*)"' | sort -u | wc -l)" -ge 2 ] || fail "two models of one name: $(head -1 told.csv)"
grep -q ' inception score ' first && fail 'an Inception Score of features'
refused 1 'of 10 splits: 9 samples are too few' ganrun eval run --features seen.gan --count 9 --metric is
refused 2 'is is of the features of a trained net: --features' ganrun eval run --metric is
refused 2 'the metrics are fid, kid, prdc and is' ganrun eval run --features seen.gan --metric swd
refused 2 'subset is not for --features'      ganrun eval run --features seen.gan --subset 8
refused 1 'there is no such file'          ganrun eval run --features nowhere.gan
sed 's/ |> mean(space)//; s/\[6\]/[6, 6, 6]/' seen.gan >maps.gan
refused 1 'one axis of numbers'            ganrun eval run --features maps.gan
sed 's/F(x)$/F(normal(3, 8, 8))/' seen.gan >blind.gan
refused 1 'should read one `data` field'   ganrun eval run --features blind.gan

# One model with every kind of comparison: points generated by the model text, reconstructions and codes of point clouds,
# maps transformed by `map`, a scalar that is its own metric, a translation into another field.
cat >all.gan <<'MODEL'
model all
data c : float(3, 32) scale(0, 1)
data m : float(1, 16, 16) map(squash, stretch)
data p : image(3, 8, 8) scale(-1, 1)
data q : image(3, 8, 8) scale(-1, 1)
data l : float(1, 256)
fn squash(v)  = 2*v/(v + 1) - 1
fn stretch(t) = (1 + t)/(1 - t)
net E(c: [3, 32]) -> [2] = c |> flatten |> dense(2)
net R(z: [2]) -> [3, 32] = z |> dense(96) |> reshape(3, 32)
net M(z: [4]) -> [1, 16, 16] = z |> dense(256) |> reshape(1, 16, 16) |> tanh
net T(x: [3, 8, 8]) -> [3, 8, 8] = x |> conv(3, k=3, pad=1)
net L(x: [1, 256]) -> [1, 256] = x |> conv(1, k=3, pad=1)
opt = adam(lr=1e-3)
step {
  update L minimize l1(L(l), l) using opt
  update E, R minimize chamfer(c, R(E(c))) using opt
  update M minimize mse(M(normal(4)), m) using opt
  update T minimize l1(T(p), q) using opt
}
sample square = stack(sign(uniform() - 0.5), sign(uniform() - 0.5)) + 0.01*normal(2)
sample spots  = E(normal(3, 32))
sample codes  = [E(c)]
sample copies = R(E(c))
sample maps   = M(normal(4))
sample into_q = T(p)
sample cycle  = l1(T(T(p)), p)
sample line   = L(l)
sample lines  = L(normal(1, 256))
MODEL
"$ganrun" data synth chains --out c.pack --count 32 --size 32 >/dev/null
"$ganrun" data synth lognormal --out m.npy --count 32 --size 16 >/dev/null
"$ganrun" data synth outlines --out q.pack --count 40 --size 8 --seed 1 >/dev/null
LC_ALL=C sed 's/(32, 1, 16, 16), }/(32, 1, 256), }   /' m.npy > l.npy    # curves of the same numbers
expect 0 train all.gan --data c=c.pack --data m=m.npy --data p=s.pack --data q=q.pack --data l=l.npy --batch 8 --steps 2 --out all
expect 0 eval all --count 64 --entry spots
prints '^spots  *square  *64  *modes of the data  *4 '
expect 0 eval all --count 16
for row in     'copies  *c  *16  *chamfer  ' 'copies  *c  *16  *chamfer matching ' 'maps  *m  *16  *histogram chi2 ' \
    'maps  *m  *16  *spectrum chi2 ' 'into_q  *q  *16  *swd pixels ' 'cycle  *-  *2  *value ' 'line  *l  *16  *error ' 'lines  *l  *16  *swd '; do
    prints "^$row"
done
refused 1 "nothing that is measured is a distance" ganrun eval all --metric groups --best
grep -q 'largest ratio' err && fail 'a ratio of nothing is printed'
expect 0 sample all --entry maps -o maps.npy --count 8            # densities, in the units of the files
[ "$(tail -c +129 maps.npy | od -A n -t f4 -w4 -v | awk '$1 < 0' | wc -l)" = 0 ] || fail "a density below 0"

# Points and point clouds are plotted, as in training; only images can be written to a folder.
for entry in spots copies; do
    expect 0 sample all --entry $entry -o $entry.png --count 9
    [ "$(head -c 4 $entry.png | tail -c 3)" = PNG ] || fail "$entry.png is no picture"
done
refused 2 'no image of 1 or 3 channels: write it' ganrun sample all --entry spots -o spots
sed -e '/^net T/d' -e '/T(/d' -e '/^net M/d' -e '/M(/d' -e '/^net L/d' -e '/L(/d' -e '/^data [mpql]/d' all.gan >points.gan
expect 0 train points.gan --data c=c.pack --batch 8 --steps 1 --out points
exists points/samples/00000001.png

# In a sample, `step`, `epoch` and `kimg` are those of its checkpoint, during and after training.
cat >far.gan <<'M'
model far
data x : image(3, 8, 8) scale(-1, 1)
net D(x: [3, 8, 8]) -> [] = x |> flatten |> dense(1) |> squeeze
step { update D minimize mean(D(x)) using sgd(lr=0.1) }
sample far = step + 100*epoch + 1000000*kimg
M
expect 0 train far.gan --data x=s.pack --batch 8 --steps 11 --save-every 6 --device ref --metric value --entry far --out far
grep -o '"value": [0-9.]*' far/log.jsonl >far.scores || :
printf '"value": %s\n' 48106 88211 | cmp -s - far.scores || fail "while training: $(cat far.scores far/log.jsonl)"
expect 0 eval far --entry far --count 8
prints '^far .*value  *88211 '
grep -v '"score"' far/log.jsonl >far.log
cp far.log far/log.jsonl    # as if the run had ended before it evaluated
expect 0 train far
says '^step 11: far value of 32 88211$'
