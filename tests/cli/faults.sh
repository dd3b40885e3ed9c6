#!/bin/sh
# faults.sh - unusual numbers and missing files: a run's folder can still be resumed.
. "$(dirname -- "$0")/lib.sh"
pack
train="train tiny.gan --data x=s.pack --batch 8 --threads 1"
expect 0 $train --save-every 4 --steps 12 --out run
expect 2 train run --steps 13 --threads 2000                 # or options.json could not be read back
says '--threads needs a whole number from 1 to 1024'
expect 2 bench tiny.gan --batch 8 --threads 2000
printf x | dd of=run/ckpt/00000012.safetensors bs=1 seek=3000 conv=notrunc 2>dd.err
: >run/ckpt/00000003.safetensors                             # killed between the two files of a checkpoint
: >run/ckpt/mine.safetensors
expect 0 train run --steps 10 --keep 1
says 'resumed from step 8'
absent run/ckpt/00000003.safetensors
exists run/ckpt/mine.safetensors
exists run/ckpt/00000010.json run/ckpt/00000010.safetensors  # the damaged later one does not count as newest
absent run/ckpt/00000012.json run/ckpt/00000012.safetensors run/ckpt/00000008.json
: >run/samples/00000004.png
expect 0 train run --steps 14                                # a missing image does not end the run
says 'resumed from step 10'

# Samples damaged after the run began: --skip-bad applies to a resumed run, in both forms of the command.
mkdir pictures
for i in 1 2 3 4 5 6 7 8 9; do cp run/samples/00000000.png pictures/$i.png; done
late="train tiny.gan --data x=pictures --batch 8 --threads 1 --out late --resume auto"
expect 0 $late --steps 1
echo text >pictures/3.png
expect 1 $late --steps 2
says 'skip-bad leaves them out'
expect 0 $late --steps 2 --skip-bad
expect 0 train late --steps 3                                # the run keeps the option
! grep -q 'data have changed' err || fail 'the same data are said to be others'

# A change of the data between two runs is reported: results differ from those of an uninterrupted run.
mv pictures elsewhere                                        # not reported when the same data have only moved
expect 0 train late --steps 4 --data x=elsewhere
! grep -q 'data have changed' err || fail 'the same data elsewhere are said to be others'
cp elsewhere/1.png elsewhere/99.png
expect 0 train late --steps 5
says 'the data have changed since step 4: x: 9 samples, content [0-9a-f]*; before that x: 8 samples, content [0-9a-f]*\.'
expect 0 train late --steps 6
! grep -q 'data have changed' err || fail 'the change is reported twice'

# Epochs count the batches that a step reads.
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
# They are those of the longest stream, which need not be the first.
sed 's/mean(sum(G(x)/mean(G(y)) + mean(sum(G(x)/' epochs.gan >longest.gan
expect 0 data synth shapes --out few.pack --count 40 --size 8
expect 0 train longest.gan --data x=s.pack --data y=few.pack --batch 40 --steps 6 --out longest
grep -o '"e": [0-9]*' longest/log.jsonl >is
grep -o '"e": [0-9]*' epochs/log.jsonl | cmp -s - is || fail "$(cat longest/log.jsonl)"
