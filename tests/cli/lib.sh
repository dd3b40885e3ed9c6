# lib.sh - functions for the scripts beside it. Sourced with $1: ganrun. Each script works in a temporary folder and
# deletes it at the end.
set -eu
ganrun=$1
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
XDG_CACHE_HOME=$(dirname -- "$ganrun")/tests/cache       # kernels are compiled once for all scripts
export XDG_CACHE_HOME
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/tiny.gan" .

fail() { printf 'FAILED: %s\n' "$*" >&2; cat out err >&2 2>/dev/null; exit 1; }

# expect CODE WORD... : runs ganrun with its output in `out` and `err`, and checks the exit code.
expect() {
    want=$1
    shift
    code=0
    "$ganrun" "$@" >out 2>err || code=$?
    [ "$code" = "$want" ] || fail "ganrun $*: exit code $code, not $want"
}
says() { grep -q -e "$1" err || fail "standard error does not say: $1"; }
prints() { grep -q -e "$1" out || fail "standard output does not say: $1"; }
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
exists() { for f in "$@"; do [ -e "$f" ] || fail "there is no $f"; done; }
absent() { for f in "$@"; do [ ! -e "$f" ] || fail "there is a $f"; done; }
losses() { sed -n 's/.*"step": \([0-9]*\),.*"losses": \({[^}]*}\).*/\1 \2/p' "$1/log.jsonl"; }
pack() { "$ganrun" data synth shapes --out s.pack --count 40 --size 8 >/dev/null; }

# refused CODE MESSAGE PROGRAM WORD... : the command fails with exactly one error, no standard output, no temporary files.
refused() {
    want=$1 line=$2 program=$3
    shift 3
    code=0
    "$(dirname -- "$ganrun")/$program" "$@" >out 2>err || code=$?
    [ "$code" = "$want" ] || fail "$program $*: exit code $code, not $want"
    says "$line"
    n=$(grep -c -e '^ganrun[ a-z]*: ' -e '^ganc: ' -e ' error\[E' err) || :
    [ "$n" = 1 ] || fail "$program $*: $n errors, not one"
    [ ! -s out ] || fail "$program $*: something on standard output"
    left=$(find . -name '*.tmp-*' ! -path "./${busy:-}/*")      # busy: a run that is still writing
    [ -z "$left" ] || fail "$program $*: left $left"
}
