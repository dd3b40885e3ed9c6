#!/bin/sh
# resume.sh - killed at any moment and resumed, a run makes the bits of one that was left alone.
. "$(dirname -- "$0")/lib.sh"
pack
options="--data x=s.pack --batch 8 --seed 3"
steps=60

expect 0 train tiny.gan $options --steps $steps --save-every 7 --out whole

# Lines in the log of the step a process has come to; waiting for it needs no clock.
wait_for() {
    while [ "$(losses victim 2>/dev/null | wc -l)" -lt "$1" ] && kill -0 "$pid" 2>/dev/null; do :; done
}
begin() {
    "$ganrun" "$@" >out 2>err &
    pid=$!
}

begin train tiny.gan $options --steps $steps --save-every 7 --out victim
for at in 3 10 16 17 30 45; do
    wait_for $at
    kill -9 $pid 2>/dev/null || fail "it ended before step $at"
    wait $pid 2>/dev/null || :
    begin train victim
done
wait $pid || fail "the last of them failed"
says 'resumed from step'
for f in ckpt/00000060.safetensors ckpt/00000060.json samples/00000000.png samples/00000007.png samples/00000060.png; do
    same whole/$f victim/$f
done
losses whole >a; losses victim >b
same a b
timed() { sed -n 's/.*"step": \([0-9]*\),.*"shares".*/\1/p' "$1/log.jsonl"; }    # whatever it was cut into
[ "$(timed whole)" = 8 ] && [ "$(timed victim)" = 8 ] || fail "steps timed: $(timed whole); $(timed victim)"

# Asked to stop, it saves where it is.
begin train tiny.gan $options --steps $steps --save-every 1000 --out polite --trace 1:3
victim=polite
while [ "$(losses polite 2>/dev/null | wc -l)" -lt 5 ]; do :; done
kill -STOP $pid                     # held where it is: the second one waits a moment for the lock
expect 1 train polite
says 'another ganrun is training in this folder'
kill -USR1 $pid
kill -CONT $pid
code=0
wait $pid || code=$?
[ $code = 75 ] || fail "stopped with $code, not 75"
exists polite/trace.json
expect 0 train polite
says 'resumed from step [1-9]'
same whole/ckpt/00000060.safetensors polite/ckpt/00000060.safetensors

# Stopping and going on by steps, on the reference device too.
expect 0 train tiny.gan $options --device ref --steps 6 --save-every 100 --out ref
expect 0 train tiny.gan $options --device ref --steps 4 --save-every 100 --out part
expect 0 train part --steps 6
same ref/ckpt/00000006.safetensors part/ckpt/00000006.safetensors
