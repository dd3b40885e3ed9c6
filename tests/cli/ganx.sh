#!/bin/sh
# ganx.sh - a compiled model is one file, the same bytes every time, and runs as its text does; a damaged one is refused.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
"$ganc" compile tiny.gan -s nz=5 --batch 4 -o a.ganx || fail 'ganc compile'
TZ=Asia/Tokyo "$ganc" compile tiny.gan -s nz=5 --batch 4 -o b.ganx
same a.ganx b.ganx
"$ganc" compile a.ganx -o b.ganx # its text, compiled again
same a.ganx b.ganx
[ "$("$ganc" hash a.ganx)" = "$("$ganc" hash tiny.gan -s nz=5 --batch 4)" ] || fail 'another hash'
"$ganc" check a.ganx

pack
run() { expect 0 train "$1" --data x=s.pack $2 --steps 3 --save-every 3 --out "$3" --threads 1; }
run a.ganx '' compiled
run tiny.gan '-s nz=5 --batch 4' text
same compiled/ckpt/00000003.safetensors text/ckpt/00000003.safetensors
expect 0 train compiled --steps 5 --threads 1
expect 0 train text --steps 5 --threads 1
same compiled/ckpt/00000005.safetensors text/ckpt/00000005.safetensors
expect 0 bench a.ganx --steps 1 --warmup 0 --device ref --json
prints '"batch": 4,'

# A memory limit is compiled in.
cp "$here/../../models/sngan.gan" .
"$ganc" plan sngan.gan --batch 8 >whole || fail 'ganc plan'
"$ganc" compile sngan.gan --batch 8 --memory 160M -o limited.ganx || fail 'ganc compile --memory'
"$ganc" plan sngan.gan --batch 8 --memory 160M >want || fail 'ganc plan --memory'
"$ganc" plan limited.ganx >got || fail 'ganc plan of a .ganx with a limit'
sed 's/model\.gan:/sngan.gan:/' got | tr -s ' ' >got.text     # the text inside has its own name
tr -s ' ' <want | cmp -s - got.text || fail 'the plan is of another limit'
cmp -s whole want && fail 'the limit changes nothing'
"$ganc" plan limited.ganx --memory 1G >got || fail 'another limit'
cmp -s want got && fail 'another limit is not used'

# For ranks: the manifest says so, and a single process recompiles the text.
"$ganc" compile tiny.gan -s nz=5 --batch 4 --ranks 2 -o ranks.ganx || fail 'ganc compile --ranks 2'
unzip -p ranks.ganx manifest.json 2>/dev/null | grep -q '"ranks": 2' || ! command -v unzip >/dev/null || fail 'no ranks in the manifest'
run ranks.ganx '' alone
same alone/ckpt/00000003.safetensors compiled/ckpt/00000003.safetensors
refused 2 'among 5 ranks' ganc compile tiny.gan --batch 4 --ranks 5 -o no.ganx
absent no.ganx

# Options fixed at compile time are rejected.
for option in '--batch 8' '--precision bf16' '-s nz=6'; do
    refused 2 'is compiled' ganrun train a.ganx --data x=s.pack $option --out no
done
absent no
refused 1 'there is no file' ganrun train none.ganx --data x=s.pack
refused 2 'needs -o FILE.ganx' ganc compile tiny.gan
refused 2 'needs -o FILE.ganx' ganc compile tiny.gan -o tiny.zip
refused 1 'error\[E' ganc compile tiny.gan -s nz=0 -o c.ganx
says '^tiny.gan:[0-9]'
absent c.ganx

# Diagnostics name the .ganx file and the text inside.
mkdir -p made
sed '/^step/i warn_unless(batch_size == 1, "a batch of one")' tiny.gan >odd.gan
"$ganc" compile odd.gan -s nz=5 --batch 4 -o made/odd.ganx 2>err || fail 'ganc compile'
says '^odd.gan:[0-9]*:1: warning.W0904.: a batch of one'
"$ganc" check made/odd.ganx 2>err
says '^made/odd.ganx/model.gan:[0-9]*:1: warning.W0904.: a batch of one'
"$ganc" compile tiny.gan -s mode=broken --batch 4 -o made/broken.ganx
for device in ref cpu; do # ref recompiles the text, cpu runs the compiled plan
    expect 1 train made/broken.ganx --data x=s.pack --device $device --steps 5 --out broken_$device --threads 1
    says '^made/broken.ganx/model.gan:[0-9]*:[0-9]*: error.E0701.: `sqrt` gave NaN'
done

# For GPUs: machine code if NVRTC is installed, else one clear error.
refused 2 'cpu, cuda or cuda:sm_90' ganc compile tiny.gan --target cude -o c.ganx
code=0
"$ganc" compile tiny.gan --batch 4 --target cuda:sm_90 -o c.ganx 2>err || code=$?
if [ "$code" = 0 ]; then
    "$ganc" compile tiny.gan --batch 4 --target cuda:sm_90 -o d.ganx # from the cache
    same c.ganx d.ganx
    # Whatever kernels other models left in the cache, and on however many cores.
    core=$(taskset -pc $$ 2>/dev/null | sed 's/.*: //; s/[-,].*//')
    fresh() { XDG_CACHE_HOME=$PWD/kept ${core:+taskset -c $core} "$ganc" compile tiny.gan --batch 4 --target cuda:sm_90 "$@"; }
    fresh -s nz=5 -o other.ganx || fail 'ganc compile -s nz=5'
    fresh -o d.ganx || fail 'ganc compile on one core'
    same c.ganx d.ganx
    refused 2 'an architecture is sm_70' ganc compile tiny.gan --target cuda:90 -o e.ganx
    refused 2 'NVRTC .* makes no code for it' ganc compile tiny.gan --target cuda:sm_999 -o e.ganx
    "$ganc" hash c.ganx >out # its text runs on other devices
else
    [ "$code" = 3 ] || fail "without NVRTC: exit code $code"
    says 'libnvrtc'
    absent c.ganx
fi

# Damage: truncated, two bytes changed in the middle of each member, not an archive. Between members lie sizes
# that the archive's end repeats, and readers take from there.
size=$(wc -c <a.ganx)
head -c $((size / 2)) a.ganx >cut.ganx
refused 1 'cut.ganx is not a compiled model, or is damaged' ganc hash cut.ganx
begin= damaged=0
for at in $(LC_ALL=C grep -abo -e "$(printf 'PK\003\004')" -e "$(printf 'PK\001\002')" a.ganx | cut -d: -f1 | sed 7q); do
    if [ "$begin" ]; then
        cp a.ganx bad.ganx
        printf '\125\252' | dd of=bad.ganx bs=1 seek=$(((begin + at) / 2)) conv=notrunc 2>/dev/null
        refused 1 'bad.ganx' ganc hash bad.ganx
        damaged=$((damaged + 1))
    fi
    begin=$at
done
[ "$damaged" = 6 ] || fail "$damaged members were damaged, not 6"
echo 'model text' >text.ganx
refused 1 'not a compiled model' ganc hash text.ganx
: >empty.ganx
refused 1 'not a compiled model' ganc hash empty.ganx
