#!/bin/sh
# control_flow.sh - run-time control flow: an `if` in a `sample`, `each sample` on a batch of any size.
. "$(dirname -- "$0")/lib.sh"
cat >m.gan <<'END'
model choices "samples that depend on the state; a pool smaller than the batch"
data x : float(2)
net G(z: [3]) -> [2] = z |> dense(2)
net D(x: [2]) -> [] = x |> dense(4) |> tanh |> dense(1) |> squeeze
opt = adam(lr=1e-2)
old = replay(50)
state k = 0
step {
  k := k + 1
  fake = G(normal(3))
  seen = old(fake)
  update D minimize bce(D(x), 1) + bce(D(seen), 0) using opt
  update G minimize bce(D(fake), 1) using opt
  report passed = mean(abs(seen - fake))
}
fn late() {
  y = if k > 2 { 0*normal(3) + 40 } else { 0*normal(3) - 5 }
  z = if k > 3 { y + 100 } else { y }
  concat(z, 2*z)
}
sample late = late()
sample turns = (each sample { 1*x }) - x
END
"$ganrun" data synth ring --out x.pack --count 200 >/dev/null
first() { tail -c +129 "$1" | od -An -v -w24 -tf4 | head -1 | tr -s ' '; }
for d in ref cpu; do
    for n in 1 3 4; do
        expect 0 train m.gan --data x=x.pack --batch 70 --steps $n --out $d$n --device $d --threads 1
        expect 0 sample $d$n --entry late -o s.npy --count 4 --device $d --threads 1
        case $n in 1) want=' -5 -5 -5 -10 -10 -10' ;; 3) want=' 40 40 40 80 80 80' ;; 4) want=' 140 140 140 280 280 280' ;; esac
        [ "$(first s.npy)" = "$want" ] || fail "$d, step $n: $(first s.npy)"
    done
    expect 0 sample ${d}4 --entry turns -o s.npy --count 4 --device $d --data x=x.pack --threads 1
    [ "$(tail -c +129 s.npy | od -An -v -tf4 | tr -d ' 0\n-')" = '' ] || fail "$d: turns of another sample"
done

# The first 50 samples pass through the pool; half of the others are swapped, the same ones on both devices.
report() { sed -n 's/.*"passed": \([^,}]*\).*/\1/p' "$1/log.jsonl" | cut -c 1-6; }
report ref4 >a
report cpu4 >b
same a b
grep -q '[1-9]' a || fail 'nothing was swapped'
