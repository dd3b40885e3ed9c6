#!/bin/sh
# next.sh - `next` takes one batch at that statement: also in steps that skip a branch, and once before a loop that reads
# it; uninterrupted, resumed and compiled.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
pack
head='data x : image(3, 8, 8) scale(-1, 1)
net D(x: [3, 8, 8]) -> [] { x |> flatten |> dense(1) |> squeeze }
opt = sgd(lr=0.1)'
# taken NAME BATCHES STEP: 7 steps read BATCHES batches; the interrupted and the compiled run are bit-identical.
taken() {
    printf 'model %s "one"\n%s\nstep {\n%s\n}\n' "$1" "$head" "$3" >"$1.gan"
    expect 0 train "$1.gan" --data x=s.pack --batch 8 --steps 7 --out "$1"
    grep -q "\"batches\": \[$2\]" "$1/ckpt/00000007.json" || fail "$1: $(cat "$1/ckpt/00000007.json")"
    expect 0 train "$1.gan" --data x=s.pack --batch 8 --steps 5 --out "$1.part"
    expect 0 train "$1.part" --steps 7
    same "$1/ckpt/00000007.safetensors" "$1.part/ckpt/00000007.safetensors"
    "$ganc" compile "$1.gan" --batch 8 -o "$1.ganx" || fail 'ganc compile'
    expect 0 train "$1.ganx" --data x=s.pack --steps 7 --out "$1.compiled"
    same "$1/ckpt/00000007.safetensors" "$1.compiled/ckpt/00000007.safetensors"
}
taken lazy 7 'next x; pen = every 3 { mean(x) }; update D minimize mean(D(x)) + pen using opt'
taken choice 7 'next x; a = if step < 3 { mean(x) } else { 2*mean(x) }; update D minimize a*mean(D(normal(3, 8, 8))) using opt'
taken outside 7 'next x; repeat 3 { update D minimize mean(D(x)) using opt }'
taken inside 21 'repeat 3 { next x; r = every 2 { mean(D(x)^2) }; update D minimize mean(D(x)) + r using opt }'
taken sometimes 10 'every 3 { next x; update D minimize mean(D(x)) using opt }; update D minimize -mean(D(x)) using opt'

# A plan states where its batch is read; one without would train on zeros and is rejected.
"$ganc" emit --stage plan inside.gan --batch 8 -o inside.plan || fail 'ganc emit'
"$ganc" emit --from-stage plan inside.plan --stage plan -o again.plan || fail 'ganc emit --from-stage'
same inside.plan again.plan
grep -v '^  next stream' inside.plan >without.plan
refused 1 'no `next` takes its batch' ganc emit --from-stage plan without.plan --stage plan

# A reference case lists the batches of the rounds in order; its numbers are computed by hand.
expect 0 verify "$here/next.gan" "$here/next.json" --device ref --precision f64
