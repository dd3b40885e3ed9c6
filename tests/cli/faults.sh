#!/bin/sh
# faults.sh - unusual numbers and missing files: a run's folder can still be resumed.
. "$(dirname -- "$0")/lib.sh"
pack
train="train tiny.gan --data x=s.pack --batch 8 --threads 1"
expect 0 $train --save-every 4 --steps 12 --out run
expect 2 train run --steps 13 --threads 2000                 # options.json could not be read again
says '--threads wants a whole number from 1 to 1024'
expect 2 bench tiny.gan --batch 8 --threads 2000
printf x | dd of=run/ckpt/00000012.safetensors bs=1 seek=3000 conv=notrunc 2>dd.err
expect 0 train run --steps 10 --keep 1
says 'resumed from step 8'
exists run/ckpt/00000010.json run/ckpt/00000010.safetensors  # a damaged later one is not the newest
absent run/ckpt/00000012.json run/ckpt/00000012.safetensors run/ckpt/00000008.json
: >run/samples/00000004.png
expect 0 train run --steps 14                                # a picture lost is no reason to stop
says 'resumed from step 10'

# Samples that turn bad later: --skip-bad holds for a run that goes on, by either way to say so.
mkdir pictures
for i in 1 2 3 4 5 6 7 8 9; do cp run/samples/00000000.png pictures/$i.png; done
late="train tiny.gan --data x=pictures --batch 8 --threads 1 --out late --resume auto"
expect 0 $late --steps 1
echo text >pictures/3.png
expect 1 $late --steps 2
says 'skip-bad leaves them out'
expect 0 $late --steps 2 --skip-bad
expect 0 train late --steps 3                                # and from then on
! grep -q 'data have changed' err || fail 'the same data are said to be others'

# Data that change between two runs of a folder are told: what follows is not what an uninterrupted run would have made.
mv pictures elsewhere                                        # but not where they only lie elsewhere
expect 0 train late --steps 4 --data x=elsewhere
! grep -q 'data have changed' err || fail 'the same data elsewhere are said to be others'
cp elsewhere/1.png elsewhere/99.png
expect 0 train late --steps 5
says 'the data have changed since step 4: x: 9 samples, content [0-9a-f]*; before that x: 8 samples, content [0-9a-f]*\.'
expect 0 train late --steps 6
! grep -q 'data have changed' err || fail 'the change is told twice'


# Epochs are those of what a step takes.
cat >epochs.gan <<'END'
model epochs "the first field is a sample's alone"
data y : image(3, 8, 8) scale(-1, 1)
data x : image(3, 8, 8) scale(-1, 1)
net G(z: [3, 8, 8]) -> [3, 8, 8] { param a : [] = 1; a*z }
step { update G minimize mean(sum(G(x)^2, sample)) using adam(lr=0.01); report e = epoch }
sample fakes = G(y)
END
expect 0 train epochs.gan --data x=s.pack --data y=s.pack --batch 40 --steps 6 --out epochs
grep -q '"e": 2' epochs/log.jsonl || fail "$(cat epochs/log.jsonl)"
