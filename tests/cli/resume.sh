#!/bin/sh
# resume.sh - a run that is killed at any moment and resumed has the bits of an uninterrupted one.
. "$(dirname -- "$0")/lib.sh"
pack
options="--data x=s.pack --batch 8 --seed 3"
steps=600

expect 0 train tiny.gan $options --steps $steps --save-every 7 --out whole

# Waits until the victim has logged this many steps, without a clock.
wait_for() {
    while [ "$(losses victim 2>/dev/null | wc -l)" -lt "$1" ] && kill -0 "$pid" 2>/dev/null; do :; done
}
begin() {
    "$ganrun" "$@" >out 2>err &
    pid=$!
}

begin train tiny.gan $options --steps $steps --save-every 7 --out victim
for at in 3 10 16 17 130 345; do
    wait_for $at
    kill -9 $pid 2>/dev/null || fail "it ended before step $at"
    wait $pid 2>/dev/null || :
    begin train victim
done
wait $pid || fail "the last of them failed"
says 'resumed from step'
for f in ckpt/00000600.safetensors ckpt/00000600.json samples/00000000.png samples/00000007.png samples/00000600.png; do
    same whole/$f victim/$f
done
losses whole >a; losses victim >b
same a b
timed() { sed -n 's/.*"step": \([0-9]*\),.*"shares".*/\1/p' "$1/log.jsonl"; }    # the same steps however the run was interrupted
[ "$(echo $(timed whole))" = '8 109 210 311 412 513' ] && [ "$(timed victim)" = "$(timed whole)" ] ||
    fail "steps timed: $(timed whole); $(timed victim)"

# Signalled to stop, it saves at the current step.
begin train tiny.gan $options --steps $steps --save-every 1000 --out polite --trace 1:3
victim=polite
while [ "$(losses polite 2>/dev/null | wc -l)" -lt 5 ]; do :; done
kill -STOP $pid                     # suspended: the second process waits a moment for the lock
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
same whole/ckpt/00000600.safetensors polite/ckpt/00000600.safetensors

# So do a batch system's other warnings, and SIGHUP, unless the run was started by nohup.
victim=hung
for signal in USR2 XCPU HUP; do
    rm -rf hung
    begin train tiny.gan $options --steps 1000000 --save-every 1000000 --out hung
    while [ "$(losses hung 2>/dev/null | wc -l)" -lt 5 ]; do :; done
    kill -$signal $pid
    code=0
    wait $pid || code=$?
    [ $code = 75 ] || fail "SIG$signal: exit code $code"
    says 'stopped after step [0-9]*, which is saved'
done
# Asked for fewer steps than it has done, it keeps all that it was started with.
cp hung/options.json before.json
cp hung/index.html before.html
expect 0 train hung --steps 2
says '^this run has done [0-9]* steps, more than were asked for, and stays as it is'
same hung/options.json before.json
same hung/index.html before.html
(trap '' HUP; expect 0 train tiny.gan $options --steps 6000 --save-every 1000000 --out kept) &
pid=$!
while [ "$(losses kept 2>/dev/null | wc -l)" -lt 5 ]; do :; done
kill -HUP "$(head -n 1 kept/.lock)"
wait $pid || fail "SIGHUP ended a run started by nohup"
exists kept/ckpt/00006000.json

# On a terminal the first interrupt is acknowledged, as a step may take long.
if command -v script >out; then
    script -qec "$ganrun train tiny.gan $options --steps 1000000 --save-every 1000000 --out shown" typed </dev/null >out 2>&1 &
    pid=$!
    while [ "$(losses shown 2>/dev/null | wc -l)" -lt 5 ]; do kill -0 $pid || fail 'it did not begin'; done
    kill -INT "$(head -n 1 shown/.lock)"
    code=0
    wait $pid || code=$?
    [ $code = 75 ] || fail "SIGINT on a terminal: exit code $code"
    grep -q 'another Ctrl-C ends now, without saving' typed || fail "not acknowledged: $(cat typed)"
fi

# Its output pipe is closed: it continues.
{ code=0; "$ganrun" train tiny.gan $options --steps 20 --out unread || code=$?; echo $code >code; } 2>&1 >/dev/null | head -n 1 >/dev/null
[ "$(cat code)" = 0 ] || fail "closed pipe: exit code $(cat code)"
exists unread/ckpt/00000020.json

# Before there is anything to save a signal ends it at once, here during a slow compilation; a run that goes on is as it
# was, and asks to be run again.
printf '#!/bin/sh\n: >compiling\nexec sleep 60\n' >slow_cc
chmod +x slow_cc
interrupted() { # interrupted CODE SIGNAL WORD...
    want=$1 signal=$2
    shift 2
    rm -rf compiling empty
    XDG_CACHE_HOME=$work/empty GAN_CC=$work/slow_cc "$ganrun" train "$@" 2>err >out &
    pid=$!
    while [ ! -e compiling ]; do kill -0 $pid || fail 'it compiled nothing'; done
    kill -$signal $pid
    code=0
    wait $pid || code=$?
    [ $code = "$want" ] || fail "SIG$signal while it compiled: exit code $code"
}
interrupted 130 INT tiny.gan $options --steps 2 --out unbegun
says 'stopped before the run began: nothing is saved'
interrupted 143 TERM tiny.gan $options --steps 2
absent unbegun runs
interrupted 75 TERM polite --steps $((steps + 1))
says 'stopped before another step, the run is as it was; `ganrun train polite` resumes'
expect 0 train polite
says "resumed from step $steps"

# Stopping after a number of steps and resuming, on the reference device too.
expect 0 train tiny.gan $options --device ref --steps 6 --save-every 100 --out ref
expect 0 train tiny.gan $options --device ref --steps 4 --save-every 100 --out part
expect 0 train part --steps 6
same ref/ckpt/00000006.safetensors part/ckpt/00000006.safetensors
# On another device, which every later command then uses; not in f64, whose weights are other ones.
expect 0 train part --steps 7 --device cpu
says '; cpu, '
expect 0 train part --steps 8
says '; cpu, '
expect 2 train part --steps 9 --device gpu
says '--device needs cpu|cuda|ref, not `gpu`'
expect 2 train part --steps 9 --device cpu --precision f64
says 'device cpu does not compute in f64'
expect 0 train tiny.gan $options --device ref --precision f64 --steps 2 --out double
expect 2 train double --steps 3 --device cpu
says 'device cpu does not compute in f64'
expect 2 train double --steps 3 --device cpu --precision f32
says 'cannot go on in f32'
expect 0 train double --steps 3
