#!/bin/sh
# plan.sh - `ganc plan`: the rows of a net's layers add up to the net, and peak memory is slots plus the largest work
# memory.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
"$ganc" plan tiny.gan --batch 4 >text || fail 'ganc plan'
"$ganc" plan tiny.gan --batch 4 --json >json || fail 'ganc plan --json'
for net in G D; do
    net_row=$(awk -v n=$net '$1 == n && NF == 3 { print $2, $3 }' text)
    layers=$(awk -v n="^$net[.]" '$1 ~ n { a += $(NF-2); b += $(NF-1) } END { print a+0, b+0 }' text)
    [ "$net_row" = "$layers" ] || fail "$net has $net_row weights and state, its layers $layers"
done
# 4 output channels, 3x3x3 kernel and bias; 8x8 pixels of 4 samples: 2*27*4*64*4 operations for one call
grep -Eq '^  D.conv.0 +tiny.gan:11 +\[B, 4, 8, 8\] +112 +0 +0.000$' text || fail 'no row of the convolution'
grep -q '"name": "D.conv.0", "net": "D", "at": "tiny.gan:11", "output": \[4, 8, 8\], "trainable": 112, "not_trainable": 0, "gflop": 5.5296e-05' json ||
    fail 'the convolution in JSON'
number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" json; }
work=$(grep -o '"work_bytes": [0-9]*' json | sort -t: -k2 -n | tail -n 1 | cut -d' ' -f2)
[ "$(number peak_bytes)" = $(($(number slot_bytes) + work)) ] || fail 'the peak is not slots and work'
# On a GPU, workspace for copies of the largest convolution's operands, and 16 MiB.
[ "$(number card_bytes)" -gt $(($(number peak_bytes) + 16777216)) ] || fail 'no room for libraries on a card'
# Collectives: a row for each in both forms, the same bytes; smaller buckets are more of them. The regions, drawn and explained.
"$ganc" plan tiny.gan --batch 4 --ranks 2 >text || fail 'ganc plan --ranks'
"$ganc" plan tiny.gan --batch 4 --ranks 2 --json >json || fail 'ganc plan --ranks --json'
grep -q '^  rank 0 of 2: samples 0 to 1 of 4; collectives [0-9a-f]*$' text || fail 'not the samples of rank 0'
rows=$(awk '/^  in  *call/ { on = 1; next } on { n++; b += $4 } END { print n, b }' text)
[ "$rows" = "$(grep -o '"precision": "f[0-9]*", "bytes": [0-9]*, "parts"' json | awk '{ n++; b += $4 } END { print n, b }')" ] ||
    fail 'other collectives in JSON'
grep -q '"what": "gradients of D", .*"ready_at": "tiny.gan:[0-9]*", "needed_at": "tiny.gan:[0-9]*"' json || fail 'no lines of a collective'
"$ganc" plan tiny.gan --batch 4 --ranks 2 --bucket-mb 1e-5 | awk -v rows="$rows" '/^  in  *call/ { on = 1; next } on { n++ }
    END { split(rows, r, " "); exit !(n > r[1]) }' || fail 'small buckets are no more'
refused 2 '--bucket-mb needs a number above 0, at most a million, not `0`' ganc plan tiny.gan --bucket-mb 0
"$ganc" emit tiny.gan --stage dot >dot || fail 'ganc emit --stage dot'
awk '$2 == "->" { n++; if ($1 !~ /^r[0-9]+$/ || $3 !~ /^r[0-9]+;$/ || substr($3, 2) + 0 <= substr($1, 2) + 0) bad = 1 } END { exit bad || !n }' dot ||
    fail 'an edge that is none, or leads back'
regions=$("$ganc" explain-fusion tiny.gan | tee fusion | sed -n 's/^step: \([0-9]*\) regions.*/\1/p')
[ "$regions" = "$(grep -c '^region [0-9]*, ' fusion)" ] && [ "$regions" = "$(grep -c ' \[label="' dot)" ] || fail "$regions regions, others are shown"

# Weights created in a net's own body, or by a plain function called there, belong to the net's own row.
cat >own.gan <<'M'
model own
data x : image(3, 4, 4) scale(-1, 1)
fn shift(x) { param b : [3, 4, 4] = 0; state n = 0; n := n + 1; x + b }
net D(x: [3, 4, 4]) -> [] {
  param scale = 1
  scale * x |> shift |> flatten |> dense(1) |> squeeze
}
step { update D minimize mean(D(x)) using adam() }
M
"$ganc" plan own.gan >text || fail 'ganc plan own.gan'
grep -Eq '^  D +98 +1$' text || fail 'D has not 49 + 1 + 48 weights and a state'
grep -Eq '^  D +own.gan:4 +- +49 +1 +0.000$' text || fail 'no row of what D makes itself'
# An inner layer has its own row: attention's four convolutions are not in attention's row.
cat >deep.gan <<'M'
model deep
data x : image(8, 4, 4) scale(-1, 1)
net D(x: [8, 4, 4]) -> [] = x |> attention |> flatten |> dense(1) |> squeeze
step { update D minimize mean(D(x)) using adam() }
M
"$ganc" plan deep.gan >text || fail 'ganc plan deep.gan'
grep -Eq '^  D.attention.0 +deep.gan:3 +\[B, 8, 4, 4\] +1 +0 ' text || fail 'attention counts what its convolutions made'
# Orthogonal initial weights take little more than the 2 n^2 N operations of a QR factorization (8.6 GFLOP here).
cat >qr.gan <<'M'
model qr
data x : image(1, 64, 64) scale(-1, 1)
net D(x: [1, 64, 64]) -> [] = x |> flatten |> dense(1024, init=orthogonal) |> dense(1) |> squeeze
step { update D minimize mean(D(x)) using adam() }
M
"$ganc" plan qr.gan --json >json || fail 'ganc plan qr.gan'
init=$(grep -o '"kind": "init"[^}]*"gflop": [0-9]*' json | sed 's/.* //')
[ "$init" -ge 8 ] && [ "$init" -lt 13 ] || fail "orthogonal weights take $init GFLOP"
# Bytes moved are, like GFLOP, those of all rounds.
cat >rounds.gan <<'M'
model rounds
config n = 2
net D(x: [8]) -> [] = x |> dense(1) |> squeeze
step { repeat n { update D minimize mean(D(normal(8))) using sgd() } }
M
moved() { "$ganc" plan rounds.gan -s n=$1 --json | sed 's/.*"kind": "step"[^}]*"bytes_moved": \([0-9]*\).*/\1/'; }
[ "$(moved 6)" = $(($(moved 2) * 3)) ] || fail "2 rounds move $(moved 2) bytes, 6 $(moved 6)"
"$ganc" plan rounds.gan | grep -Eq '^  function +launches +GFLOP +moved MiB +work MiB' || fail 'no bytes moved in the table'
# A limit that the step keeps anyway changes nothing: whether an attention's scores are made in strips is none of its.
cat >tokens.gan <<'M'
model tokens
data x : float(16, 1000)
net N(x: [16, 1000]) = x |> conv(16, k=1) |> multihead_attention(1)
step { update N minimize mean(N(x)^2) using sgd() }
M
"$ganc" plan tokens.gan --batch 4 >free || fail 'ganc plan tokens.gan'
"$ganc" plan tokens.gan --batch 4 --memory 64M | cmp -s free - || fail 'a limit that is kept changes the plan'

# Less memory than a step wants: what is launched again is told, and is all that the plan has more than without a limit.
dcgan=$here/../../models/dcgan.gan
"$ganc" plan "$dcgan" --batch 64 --json >free || fail 'ganc plan dcgan.gan'
"$ganc" plan "$dcgan" --batch 64 --memory 150M --json >json || fail 'ganc plan --memory'
[ "$(number peak_bytes)" -le 157286400 ] || fail 'the limit is not kept'
step='"kind": "step", "launches": '
of() { grep -o "$1[0-9]*" "$2" | head -n 1 | grep -o '[0-9]*$'; }
again=$(of '"again": {"launches": ' json)
[ "$again" -gt 0 ] && [ "$(of "$step" json)" = $(($(of "$step" free) + again)) ] || fail "$again launches are made again"
