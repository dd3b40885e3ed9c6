#!/bin/sh
# damage.sh - truncated files, a full disk, diverging losses: earlier saves stay intact, and the message says what to do.
. "$(dirname -- "$0")/lib.sh"
pack
options="--data x=s.pack --batch 8"
expect 0 train tiny.gan $options --steps 12 --save-every 3 --out run
cp -r run whole

# The newest checkpoint is damaged: the run resumes from the one before and ends bit-identical.
dd if=/dev/zero of=run/ckpt/00000012.safetensors bs=1 seek=900 count=40 conv=notrunc 2>/dev/null
expect 0 train run
says 'checkpoint of step 12 is damaged'
says 'resumed from step 9'
same run/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors

# A truncated checkpoint, and one without its json.
head -c 500 whole/ckpt/00000012.safetensors >run/ckpt/00000012.safetensors
rm run/ckpt/00000009.json
expect 0 train run
says 'resumed from step 6'
same run/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors

# Invalid JSON, a truncated log line, a partial temporary file.
echo '{"step": 1' >run/ckpt/00000012.json
printf '{"step": 13, "los' >>run/log.jsonl
echo half >run/ckpt/00000012.json.tmp-1
expect 0 train run
says 'resumed from step 9'
absent run/ckpt/00000012.json.tmp-1
losses run >a; losses whole >b
same a b

# A damaged line of the log is dropped; later lines are kept.
cp -r whole scribbled
sed -i 's/^{"step": 2, .*/{"step": 2, "ima/' scribbled/log.jsonl
expect 0 train scribbled
losses whole | grep -v '^2 ' >a; losses scribbled >b
same a b

for f in run/ckpt/*.safetensors; do echo nothing >$f; done
expect 1 train run --steps 14
says 'no checkpoint in run/ckpt is whole'
expect 1 sample run
says 'no checkpoint in run/ckpt is whole: put a copy'
mv run/ckpt damaged                 # the other thing that the message says
expect 0 train run --steps 14
says 'resumed from step 0'
exists run/ckpt/00000014.safetensors

# A format of another version is no damage: nothing older is resumed in its place.
cp -r whole later
sed -i 's/gan-checkpoint-1/gan-checkpoint-2/' later/ckpt/00000012.json
expect 2 train later --steps 14
says 'is of format `gan-checkpoint-2`, and this ganrun reads `gan-checkpoint-1`'
expect 2 sample later
sed -i 's/gan-run-1/gan-run-2/' later/options.json
expect 2 train later --steps 14
says 'options.json is of format `gan-run-2`'

# A checkpoint that cannot be read now may be valid: the run does not start, so as not to overwrite it.
cp -r whole unread
mv unread/ckpt/00000012.safetensors kept
mkdir unread/ckpt/00000012.safetensors
expect 3 train unread --steps 14
says '00000012.safetensors'
grep -q 'resumed' err && fail 'it resumed from an older checkpoint'
rmdir unread/ckpt/00000012.safetensors
mv kept unread/ckpt/00000012.safetensors
expect 0 train unread --steps 14
says 'resumed from step 12'

# A rejected command leaves the run unchanged.
cp -r whole asked
cp asked/options.json before
echo text >bad.txt
expect 1 train asked --data x=bad.txt --steps 14
same asked/options.json before
expect 0 train asked --steps 14

# A full disk: the save fails, earlier files stay, and the run resumes once there is space.
trap '' XFSZ
cp -r whole full
(ulimit -f 28; expect 3 train full --steps 15; says 'ckpt/.*File too large'; says 'checkpoints are as they were')
(ulimit -f 1; expect 3 train full --steps 15; says 'log.jsonl: File too large')
same full/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors
expect 0 train full --steps 15
says 'resumed from step 12'

# A NaN loss: the message names step and update, and nothing is saved.
expect 1 train tiny.gan $options --steps 9 --save-every 2 -s mode=broken --out broken
says 'step 5: the loss of G is not a number'
exists broken/ckpt/00000004.json
absent broken/ckpt/00000005.json broken/ckpt/00000006.json
expect 1 train broken
says 'resumed from step 4'
says 'step 5: the loss of G is not a number'
