#!/bin/sh
# bad_run.sh - failing machines, and run folders that are damaged or in use: one error, and saved files stay intact.
. "$(dirname -- "$0")/lib.sh"
pack
data="--data x=s.pack --batch 8"
expect 0 train tiny.gan $data --steps 6 --save-every 2 --out whole
copy() { rm -rf run; cp -r whole run; }

# Option values that are not numbers or out of range: nothing is created.
bad_number() { refused 2 "$1" ganrun train tiny.gan --data x=s.pack --out new "$2" "$3"; absent new; }
bad_number '--steps needs a whole number'      --steps 0
bad_number '--steps needs a whole number'      --steps -1
bad_number '--steps needs a whole number'      --steps 1e6
bad_number '--steps needs a whole number'      --steps 4000000000000
bad_number '--steps needs a whole number'      --steps 99999999999999999999999
bad_number '--batch needs a whole number'      --batch 0
bad_number '--batch needs a whole number'      --batch -8
bad_number '--batch .*the maximum is'             --batch 99999999
bad_number '--kimg needs a whole number'       --kimg nan
bad_number '--kimg needs a whole number'       --kimg -1
bad_number '--threads needs a whole number'    --threads 0
bad_number '--seed needs a whole number'       --seed -1
bad_number '--save-every needs a whole number' --save-every 0
refused 2 '--count needs a whole number' ganrun sample whole --count 0
refused 2 '--step needs a whole number from 0 to 99999999' ganrun sample whole --step 4294967296
refused 2 '--count needs a whole number' ganrun sample whole --count 99999999999
refused 2 '--steps needs a whole number' ganrun bench tiny.gan --batch 4 --steps 0
refused 2 '--count' ganrun data synth shapes --out new.pack --count 0
refused 2 '--size' ganrun data synth shapes --out new.pack --count 4 --size -8
absent new.pack

# Output paths that cannot be written.
refused 3 'cannot create folder s.pack'     ganrun train tiny.gan $data --steps 2 --out s.pack
refused 3 'cannot create folder s.pack/run' ganrun train tiny.gan $data --steps 2 --out s.pack/run
refused 3 'cannot create folder /proc/'     ganrun train tiny.gan $data --steps 2 --out /proc/no/run
refused 3 'cannot create no/x.pack'         ganrun data synth shapes --out no/x.pack --count 4 --size 8
refused 3 'cannot create no/x.png'          ganrun sample whole -o no/x.png
refused 2 'what is written is a file'       ganrun sample whole -o -

# Checkpoints: the newest truncated, all truncated, none. (damage.sh resumes from those that remain.)
tear() { for f; do head -c 40 "$f" >torn; mv torn "$f"; done; }
copy; tear run/ckpt/*.safetensors;  refused 1 'no checkpoint in run/ckpt is whole' ganrun sample run
                                    refused 1 'no checkpoint in run/ckpt is whole' ganrun train run --steps 9
copy; tear run/ckpt/*.json;         refused 1 'no checkpoint in run/ckpt is whole' ganrun sample run
copy; rm -r run/ckpt;               refused 1 'run has no checkpoint yet' ganrun sample run
# What cannot be looked at (here a link to itself; else a server that does not answer) is not absent: no run begins again over it.
looped() { copy; rm -r "run/$1"; ln -s "$(basename "$1")" "run/$1"; }
looped ckpt;                        refused 3 'cannot list run/ckpt: Too many levels' ganrun train run --steps 9
                                    refused 3 'cannot list run/ckpt: Too many levels' ganrun sample run
looped ckpt/00000006.json;          refused 3 '00000006.json: Too many levels'        ganrun train run --steps 9
looped options.json;                refused 3 'options.json: Too many levels'         ganrun train run --steps 9
                                    refused 1 'run is a run already' ganrun train tiny.gan $data --steps 9 --out run
looped log.jsonl;                   refused 3 'log.jsonl: Too many levels'            ganrun train run --steps 9
copy; tear run/ckpt/00000006.safetensors
expect 0 sample run -o a.png;       says '6 is damaged'
copy; echo '{' >run/options.json;   refused 1 'options.json' ganrun train run --steps 9
copy; echo '{' >run/options.json;   refused 1 'options.json' ganrun sample run
changed() { copy; sed -i "$2" "run/$1"; }
changed options.json 's/"device": "cpu"/"device": "tpu"/'
refused 1 'options.json: `device` is missing or makes no sense' ganrun train run --steps 9
refused 1 'options.json: `device` is missing or makes no sense' ganrun sample run
changed options.json 's/"precision": "f32"/"precision": "f64"/'
refused 1 'the checkpoint of step 6 is in f32, the run in f64' ganrun sample run --device ref
changed options.json 's/"seed": 0/"seed": 1/'
refused 1 'the checkpoint of step 6 is of seed 0, the run of seed 1' ganrun train run --steps 9
changed ckpt/00000006.json 's/"model": "./"model": "-/'
refused 1 'the checkpoint of step 6 is of another model: its hash is -.*, that of resolved.gan [0-9a-f]*$' ganrun sample run
copy; rm run/resolved.gan;          refused 1 'no file run/resolved.gan' ganrun train run --steps 9
copy; echo 'model' >run/resolved.gan; refused 1 'run/resolved.gan' ganrun train run --steps 9
copy; refused 2 '--comm nccl is for --device cuda' ganrun train run --steps 9 --comm nccl
copy; mv s.pack t.pack;             refused 1 's.pack is no longer there; --data x=PATH' ganrun train run --steps 9
mv t.pack s.pack
expect 0 train run --steps 7;       says 'resumed from step 6'

# If only the files after a checkpoint cannot be written, the message says that the checkpoint is saved.
copy; rm run/index.html; mkdir run/index.html
refused 3 'saving after step 8 failed; its checkpoint is whole: cannot create run/index.html' \
    ganrun train run --steps 8 --keep 1
exists run/ckpt/00000008.json
rm -r run/index.html; expect 0 train run --steps 9; says 'resumed from step 8'

# The kernel cache: damaged entries are rebuilt, and results are bit-identical.
XDG_CACHE_HOME=$work/cache
train_again() {
    rm -rf again
    expect 0 train tiny.gan $data --steps 6 --save-every 2 --out again
    same again/ckpt/00000006.safetensors whole/ckpt/00000006.safetensors
    [ "$(grep -c -i -e error err)" = 0 ] || fail "an error of the cache is shown"
}
empty() { : >"$1"; }
cut_short() { head -c 4000 "$1" >part; cp part "$1"; }
spoil() { printf 'not an object' | dd of="$1" bs=1 seek=$(($(wc -c <"$1") / 2)) conv=notrunc 2>/dev/null; }
other() { head -c 5000 "$work/s.pack" >part; cp part "$1"; }
train_again
set -- $(find cache -type f)
[ $# -ge 4 ] || fail "no kernels in the cache"
empty "$1"; cut_short "$2"; spoil "$3"; other "$4"
train_again
# Temporary files of a killed process are deleted after a day; all other files are kept.
hash=0123456789abcdef0123456789abcdef
touch -d '2 days ago' cache/gan/$hash.so.12-7ffc.c cache/gan/$hash.so.12-7ffc.o cache/gan/$hash.so.tmp-12-0 \
    cache/gan/$hash.tar.gz cache/gan/$hash.c cache/gan/$hash.so
touch cache/gan/$hash.so.13-7ffc.c
rm cache/gan/pruned # as if an hour had passed
train_again
absent cache/gan/$hash.so.12-7ffc.c cache/gan/$hash.so.12-7ffc.o cache/gan/$hash.so.tmp-12-0
exists cache/gan/$hash.tar.gz cache/gan/$hash.c cache/gan/$hash.so cache/gan/$hash.so.13-7ffc.c
rm -r cache; echo 'no folder' >cache; train_again
rm cache
XDG_CACHE_HOME=$(dirname -- "$ganrun")/tests/cache

# Into a folder of others, but over none of their files.
mkdir shared; echo keep >shared/index.html
refused 1 'shared has a file index.html, which the run would write over' ganrun train tiny.gan $data --steps 3 --out shared
[ "$(cat shared/index.html)" = keep ] || fail 'index.html was written over'
mv shared/index.html shared/page.html; expect 0 train tiny.gan $data --steps 3 --out shared
exists shared/page.html shared/index.html

# Two runs in one folder: the second fails and names the process that holds the lock; the first continues.
"$ganrun" train tiny.gan $data --steps 1000000 --save-every 2 --out two >first.out 2>first.err &
first=$! busy=two
# Any checkpoint will do: old ones are deleted during the loop.
until ls two/ckpt/*.json >ls.out 2>&1; do kill -0 $first 2>/dev/null || fail "the first run ended"; sleep 0.05; done
refused 1 "two is a run already"                ganrun train tiny.gan $data --steps 3 --out two
refused 1 "two/.lock is in use by process $first on $(uname -n)" ganrun train two
refused 1 "two/.lock is in use by process $first" ganrun train tiny.gan $data --steps 1000000 --save-every 2 --out two --resume auto
[ "$(cat /proc/$first/comm)" = ganrun ] || fail "killall would not find it"
kill $first
code=0; wait $first || code=$?
[ "$code" = 75 ] || { cat first.err >&2; fail "the first run ended with $code"; }
expect 0 sample two -o a.png

# Nobody reads what the run says: asked to stop, it saves and ends all the same.
mkfifo pipe
exec 3<>pipe
"$ganrun" train tiny.gan $data --steps 1000000 --save-every 2 --out unheard >out 2>pipe &
first=$!
until ls unheard/ckpt/*.json >ls.out 2>&1; do kill -0 $first 2>/dev/null || fail "it ended by itself"; sleep 0.05; done
dd if=/dev/zero of=pipe bs=4096 oflag=nonblock 2>dd.err || :   # until it is full
kill $first
code=0; wait $first || code=$?
exec 3<&-
[ "$code" = 75 ] || fail "the run that nobody reads ended with $code"
expect 0 sample unheard -o a.png

# Killed by a signal while writing: the exit status is the signal's, and no partial file remains.
for signal in TERM HUP; do
    "$ganrun" data synth shapes --out ended.pack --count 10000000 --size 64 >out 2>err &
    first=$!
    until ls ended.pack.tmp-* >ls.out 2>&1; do kill -0 $first 2>/dev/null || fail "it ended by itself"; done
    kill -$signal $first
    code=0; wait $first || code=$?
    [ $code -gt 128 ] || fail "killed by a signal, exit code $code"
    absent ended.pack ended.pack.tmp-*
done

# Data truncated while being read: one error with the file's name; checkpoints stay intact.
cp s.pack cut.pack
"$ganrun" train tiny.gan --data x=cut.pack --batch 8 --steps 1000000 --save-every 2 --out cut >first.out 2>err &
first=$!
until ls cut/ckpt/*.json >ls.out 2>&1; do kill -0 $first 2>/dev/null || fail "the run ended"; sleep 0.05; done
: >cut.pack
code=0; wait $first || code=$?
[ "$code" = 3 ] || fail "it ended with $code"
says '^ganrun: .*/cut.pack was cut short while it was read'
expect 0 sample cut -o a.png
rm -r cut

# A file system that has no locks, as some of clusters: a run is begun and gone on with all the same.
cat >nolocks.c <<'C'
#include <errno.h>
int flock(int fd, int how) { (void)fd, (void)how; errno = ENOSYS; return -1; }
C
cc -shared -fPIC -o nolocks.so nolocks.c
if LD_PRELOAD=$work/nolocks.so "$ganrun" --version >out 2>&1; then # a sanitizer wants to be loaded first
    for steps in 2 4; do
        LD_PRELOAD=$work/nolocks.so "$ganrun" train tiny.gan $data --steps $steps --out unlocked --resume auto 2>err >out ||
            fail 'a file system without locks'
    done
    exists unlocked/ckpt/00000004.json
fi

# No more threads, as where a container limits processes: libgomp then ends the program itself, with 1.
cat >nothreads.c <<'C'
#include <errno.h>
int pthread_create(void *id, void *how, void *run, void *user) { (void)id, (void)how, (void)run, (void)user; return EAGAIN; }
C
cc -shared -fPIC -o nothreads.so nothreads.c
if LD_PRELOAD=$work/nothreads.so "$ganrun" --version >out 2>&1; then
    code=0
    LD_PRELOAD=$work/nothreads.so "$ganrun" train tiny.gan $data --threads 2 --steps 2 --out threadless 2>err >out || code=$?
    [ "$code" = 3 ] || fail "without threads it ended with $code"
fi

# Read while it trains: of the checkpoints that were listed the process that saves has removed some, and put newer ones there.
cat >saves.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    if (strstr(path, getenv("AT")) && system("mv late/* run/ckpt && rm run/ckpt/00000002.*"))
        abort();
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
C
cc -shared -fPIC -o saves.so saves.c
if LD_PRELOAD=$work/saves.so AT=none "$ganrun" --version >out 2>&1; then
    for at in 2.json 2.safetensors; do
        copy
        mkdir late
        mv run/ckpt/00000006.* late
        rm run/ckpt/00000004.*
        LD_PRELOAD=$work/saves.so AT=$at "$ganrun" sample run -o a.png >out 2>err || fail "a checkpoint that is removed meanwhile"
        ! grep -q damaged err || fail 'a checkpoint that was removed counts as damaged'
        expect 0 sample run -o b.png
        same a.png b.png
        rm -r late
    done
fi

# A full disk and a read-only disk. Needs permission to mount a tmpfs; otherwise a file size limit replaces it.
if mkdir small && mount -t tmpfs -o size=800k tmpfs small 2>/dev/null; then
    trap 'umount small 2>/dev/null || :; rm -rf "$work"' EXIT
    expect 0 train tiny.gan $data --steps 2 --save-every 2 --out small/run
    cp small/run/ckpt/00000002.safetensors saved
    head -c 1000000 /dev/zero >small/filler 2>/dev/null || :
    refused 3 'small/run/.*No space left on device' ganrun train small/run --steps 8
    same small/run/ckpt/00000002.safetensors saved
    refused 3 'small/new.*No space left on device'  ganrun train tiny.gan $data --steps 2 --out small/new
    refused 3 'x.pack.*No space left on device'     ganrun data synth shapes --out small/x.pack --count 4 --size 8
    refused 3 'x.png.*No space left on device'      ganrun sample small/run -o small/x.png
    expect 0 sample run -o a.png --cache small/c             # kernels are a run's own where they cannot be kept
    says 'compiled kernels are not kept: .*small/c/.*No space left on device; --cache DIR'
    absent small/x.pack small/x.png
    rm small/filler
    expect 0 train small/run --steps 8
    says 'resumed from step [0-9]'
    mount -o remount,noexec small
    expect 0 sample run -o b.png --cache small/c
    says 'compiled kernels are not kept: .*small/c.*; where this folder may hold no programs'
    same a.png b.png
    mount -o remount,ro small
    refused 3 'small/.*Read-only file system' ganrun train tiny.gan $data --steps 2 --out small/other
    refused 3 'small/.*Read-only file system' ganrun train small/run --steps 12
    refused 3 'small/.*Read-only file system' ganrun sample small/run -o small/x.png
    expect 0 sample small/run -o x.png
    umount small
else
    echo 'no tmpfs may be mounted here: a limit on file sizes stands in for the full disk'
    trap '' XFSZ
    copy
    (ulimit -f 8; refused 3 'run/.*File too large' ganrun train run --steps 9)
    same run/ckpt/00000006.safetensors whole/ckpt/00000006.safetensors
    expect 0 train run --steps 9
    says 'resumed from step 6'
fi

# A name that no file can have is no run that is there.
long=$(printf '%256s' '' | tr ' ' n)
refused 3 'cannot create folder n*: File name too long' ganrun train tiny.gan --data x=s.pack --batch 4 --steps 1 --out $long
