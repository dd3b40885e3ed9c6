#!/bin/sh
# damage.sh - truncated files, a full disk, diverging losses: earlier saves stay intact, and the message says what to do.
. "$(dirname -- "$0")/lib.sh"
pack
options="--data x=s.pack --batch 8"
expect 0 train tiny.gan $options --steps 12 --save-every 3 --out run
cp -r run whole

# The newest checkpoint is torn: the one before serves, and the run comes to the same bits.
dd if=/dev/zero of=run/ckpt/00000012.safetensors bs=1 seek=900 count=40 conv=notrunc 2>/dev/null
expect 0 train run
says 'checkpoint of step 12 is damaged'
says 'resumed from step 9'
same run/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors

# Cut short; and one whose json never came.
head -c 500 whole/ckpt/00000012.safetensors >run/ckpt/00000012.safetensors
rm run/ckpt/00000009.json
expect 0 train run
says 'resumed from step 6'
same run/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors

# A json that is no json, a log line torn in the middle, a file half written.
echo '{"step": 1' >run/ckpt/00000012.json
printf '{"step": 13, "los' >>run/log.jsonl
echo half >run/ckpt/00000012.json.tmp-1
expect 0 train run
says 'resumed from step 9'
absent run/ckpt/00000012.json.tmp-1
losses run >a; losses whole >b
same a b

# A line of the log that is damaged is left out; those behind it stay.
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

# What cannot be read now may be whole: nothing is begun that would write over it.
cp -r whole unread
mv unread/ckpt/00000012.safetensors kept
mkdir unread/ckpt/00000012.safetensors
expect 3 train unread --steps 14
says '00000012.safetensors'
grep -q 'resumed' err && fail 'it went back to an older checkpoint'
rmdir unread/ckpt/00000012.safetensors
mv kept unread/ckpt/00000012.safetensors
expect 0 train unread --steps 14
says 'resumed from step 12'

# What is refused leaves the run as it was.
cp -r whole asked
cp asked/options.json before
echo text >bad.txt
expect 1 train asked --data x=bad.txt --steps 14
same asked/options.json before
expect 0 train asked --steps 14

# No room: the save fails, what was there stays, and with room again it goes on.
trap '' XFSZ
cp -r whole full
(ulimit -f 28; expect 3 train full --steps 15; says 'ckpt/.*File too large'; says 'checkpoints are as they were')
(ulimit -f 1; expect 3 train full --steps 15; says 'log.jsonl: File too large')
same full/ckpt/00000012.safetensors whole/ckpt/00000012.safetensors
expect 0 train full --steps 15
says 'resumed from step 12'

# A loss that is not a number: step, update, and nothing saved of it.
expect 1 train tiny.gan $options --steps 9 --save-every 2 -s mode=broken --out broken
says 'step 5: the loss of G is not a number'
exists broken/ckpt/00000004.json
absent broken/ckpt/00000005.json broken/ckpt/00000006.json
expect 1 train broken
says 'resumed from step 4'
says 'step 5: the loss of G is not a number'
