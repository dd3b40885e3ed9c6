#!/bin/sh
# train_stages.sh - a run with stages: the same bits as a chain of runs with --from, wherever it is stopped, on any number of
# ranks.
. "$(dirname -- "$0")/lib.sh"
"$ganrun" data synth shapes --out s.pack --count 40 --size 16 >/dev/null
cat >grows.gan <<'M'
model grows "layers are added as the pictures grow"

config size = 4 "pixels a side"
config rate = 1e-3

data x : image(3, size, size) resize(size) scale(-1, 1)

stages {
  stage 4 { size = 4 }
  for s in [8, 16] { stage s/2 { size = s; rate = 2e-3 } }
}

sizes = [s for s in [8, 16, 32] for k in if s <= size { [1] } else { [] }]

net G(z: [6]) -> [3, size, size] {
  h = z |> dense(8*4*4) |> reshape(8, 4, 4)
  for s in sizes { h = h |> upsample(2) |> conv(8, k=3, pad=1) |> leaky_relu(0.2) }
  to_rgb = conv(3, k=1)
  h |> to_rgb |> tanh
}

net D(x: [3, size, size]) -> [] {
  h = x |> conv(8, k=3, pad=1) |> leaky_relu(0.2)
  mean(h, space) |> dense(1) |> squeeze
}

step {
  z = normal(6)
  fade = ramp(0, 1, from=0, to=4)
  update D minimize bce(D(x), 1) + bce(D(stop(G(z))), 0) using adam(rate)
  update G minimize bce(D(G(z)), 1) using adam(rate)
  report fade
}

sample fakes = G(normal(6))
sample steps = step
M
go() { expect 0 train "$@"; }
stage='--data x=s.pack --batch 4 --save-every 3'

go grows.gan $stage --seed 5 --out whole
says '^stage 1 of 3, size=4: steps 1 to 4$'
says '^stage 2 of 3, size=8, rate=0.002: steps 5 to 8$'
says '^from whole/ckpt/00000004.safetensors: .* weights and states; initialized: '
says '^stage 3 of 3, size=16, rate=0.002: steps 9 to 16$'

# Seeds of later stages are numbers that a checkpoint can hold too.
refused 2 '--seed 9007199254740991: each of the 3 stages adds one to it, so it is at most 9007199254740990' \
    ganrun train grows.gan $stage --seed 9007199254740991 --out far
absent far

# A stage equals a run with its settings and --from the stage before; each stage has its own seed.
chain() {   # chain WHOLE NAME FIRST LAST SEED OPTION...: the run NAME logs the losses of steps FIRST to LAST of the run WHOLE
    of=$1 name=$2 first=$3 last=$4 seed=$5
    shift 5
    go grows.gan "$@" --data x=s.pack --save-every 3 --seed "$seed" --steps $((last - first + 1)) --out "$name"
    losses "$name" | awk -v by=$((first - 1)) '{ $1 += by; print }' >"$name.losses"
    losses "$of" | sed -n "${first},${last}p" >whole.losses
    same "$name.losses" whole.losses
}
chain whole first 1 4 5 -s size=4 --batch 4
chain whole second 5 8 6 -s size=8 -s rate=2e-3 --batch 4 --from first
chain whole third 9 16 7 -s size=16 -s rate=2e-3 --batch 4 --from second
# `step` in the model text counts from the start of the stage.
sed -n 's/.*"step": 9,.*"reports": {"fade": \([^}]*\)}.*/\1/p' whole/log.jsonl >fade
[ "$(cat fade)" = 0 ] || fail "stage 3 begins with fade $(cat fade)"

# --steps below the steps already done changes nothing.
go whole --steps 6
says '^this run has done 16 steps, more than were asked for'
grep -q '"steps": 16,' whole/options.json || fail 'options.json has another number of steps'
grep -q '<td>stage</td><td>steps 5 to 8: size=8, rate=0.002</td>' whole/index.html || fail 'a page does not list its stages'
grep -q '16 of 16 steps' whole/index.html || fail 'a page has more steps than its run'

# Stopped within a stage or at its end, or with a damaged checkpoint after one: the resumed run is bit-identical.
for at in 2 4 6 8 12; do
    go grows.gan $stage --seed 5 --steps $at --out "cut$at"
    go "cut$at" --steps 16
    same whole/ckpt/00000016.safetensors "cut$at/ckpt/00000016.safetensors"
    losses whole >whole.losses
    losses "cut$at" >cut.losses
    same whole.losses cut.losses
    rm -r "cut$at"
done
go grows.gan $stage --seed 5 --steps 9 --out torn
says '^stage 3 of 3'
printf x | dd of=torn/ckpt/00000009.safetensors bs=1 seek=1000 conv=notrunc 2>/dev/null
go torn --steps 16                          # from the end of the previous stage
same whole/ckpt/00000016.safetensors torn/ckpt/00000016.safetensors

# The run uses its own copy of the text, whatever happens to the file; extra steps extend the last stage.
cp grows.gan other.gan
go other.gan $stage --seed 5 --steps 3 --out kept
sed -i 's/conv(8, k=3/conv(9, k=3/' other.gan
go kept --steps 18
losses kept | sed -n 1,16p >kept.losses
same whole.losses kept.losses
sed -i 's/stage 4 {/stage 3 {/' kept/resolved.gan
expect 1 train kept --steps 20
says 'is no longer the model this run began with'

# A stage may set the batch size: bit-identical to a run with that --batch, wherever it is stopped; the count of samples
# continues.
sed -e 's/stage 4 { size = 4/& ; batch_size = 2*batch_size/' -e 's/rate = 2e-3/&; batch_size = if s == 16 { 2 } else { 4 }/' \
    grows.gan >batches.gan
"$(dirname -- "$ganrun")/ganc" plan batches.gan --batch 4 >out
prints '^  stage 1: 4 steps with size=4, batch_size=8$'
prints '^  stage 2: 4 steps with size=8, rate=0.002$'
prints '^  stage 3: 8 steps with size=16, rate=0.002, batch_size=2$'
"$(dirname -- "$ganrun")/ganc" plan batches.gan --batch 4 --json >out
prints '"steps": *4, *"batch": *8,.*"steps": *8, *"batch": *2,'
go batches.gan $stage --seed 5 --out batched
says '^stage 3 of 3, size=16, rate=0.002, batch_size=2: steps 9 to 16$'
chain batched of8 1 4 5 -s size=4 --batch 8
chain batched of4 5 8 6 -s size=8 -s rate=2e-3 --batch 4 --from of8
chain batched of2 9 16 7 -s size=16 -s rate=2e-3 --batch 2 --from of4
sed -n 's/.*"step": \([0-9]*\), "images": \([0-9]*\),.*/\1:\2/p' batched/log.jsonl | tr '\n' ' ' >images
grep -q ' 4:32 5:36 .* 8:48 9:50 .*16:64 $' images || fail "samples of steps: $(cat images)"
for at in 3 4 6 8 11; do
    go batches.gan $stage --seed 5 --steps $at --out cut
    go cut --steps 16
    same batched/ckpt/00000016.safetensors cut/ckpt/00000016.safetensors
    rm -r cut
done
go batches.gan --data x=s.pack --batch 20 --kimg 1 --seed 5 --out kimg      # 4 steps of 40, 4 of 4, then of 2
exists kimg/ckpt/00000420.json
expect 0 sample batched --step 8 -o folder --count 5
exists folder/00000004.png
sed -i 's/{ 2 } else { 4 }/{ 1 } else { 4 }/' batched/resolved.gan
expect 1 train batched --steps 17
says 'is no longer the model this run began with'

# A net that a stage does not use keeps its weights of an earlier stage.
cat >parts.gan <<'M'
model parts "nets trained in turns"
config part = "a" | "b" | "both"
stages {
  stage 3 { part = "a" }
  stage 3 { part = "b" }
  stage 3 { part = "both" }
}
net A(z: [2]) -> [] = z |> dense(1) |> squeeze
net B(z: [2]) -> [] = z |> dense(1) |> squeeze
step {
  if part != "b" { update A minimize mean(A(normal(2))^2) using adam(0.1) }
  if part != "a" { update B minimize mean(B(normal(2))^2) using adam(0.1) }
  if part == "a" { report left = mean(B(normal(2))) }
}
M
go parts.gan --batch 4 --save-every 1 --out parts
if grep -q 'warning' err; then fail 'a warning about a net that another stage trains'; fi
says '^from parts/ckpt/00000003.safetensors: 2 of 2 weights and states$'
says '^from parts/ckpt/00000006.safetensors: 4 of 4 weights and states$'
exists parts/ckpt/00000003.json parts/ckpt/00000006.json
absent parts/ckpt/00000005.json

# The time line of a stage is there once it is over.
"$ganrun" train parts.gan --batch 4 --save-every 100000 --steps 1000000 --trace 1:2 --out traced >out 2>err &
pid=$!
while kill -0 $pid 2>/dev/null && ! grep -q '"step": 4,' traced/log.jsonl 2>/dev/null; do sleep 0.01; done
kill -9 $pid || fail 'the traced run ended'
wait $pid || :
grep -q '"step 2"' traced/trace.json || fail 'the time line of stage 1 is lost'
rm -r traced

# Commands on a checkpoint use its stage's model.
go grows.gan $stage --seed 5 --keep 9 --out all
for of in 4:4 8:8 16:16; do
    expect 0 sample all --step ${of%:*} -o made.npy
    expect 0 data inspect made.npy
    prints "3, ${of#*:}, ${of#*:}\]\$"
done
expect 0 eval all --step 4 --count 16
expect 0 eval all --step 15 --entry steps --count 4
prints '^steps .*value  *7 '
expect 0 eval all --best --count 16
says '^step 16: largest ratio'
if grep -q '^step 4: largest ratio' err; then fail 'steps of another stage were compared'; fi
expect 0 film all -o film.png
says 'earlier grids have another size and are left out$'
expect 0 report all

# On two ranks, if MPI is available: the same bits.
. "$here/ranks_lib.sh"
if can_mpirun; then
    go grows.gan $stage --seed 5 --deterministic --out alone
    ranks 0 2 train grows.gan $stage --seed 5 --deterministic --steps 6 --out two
    ranks 0 2 train two --steps 16
    same alone/ckpt/00000016.safetensors two/ckpt/00000016.safetensors
    sed 's/{ 2 } else/{ 1 } else/' batches.gan >single.gan
    ranks 2 2 train single.gan $stage --out none
    says '^ganrun: stage 3 of 3: a batch of 1 has no sample for each of 2 ranks$'
    absent none
    sed 's/{ 2 } else/{ 4 } else/' batches.gan >fours.gan
    go fours.gan $stage --seed 5 --deterministic --out alone8
    ranks 0 2 train fours.gan $stage --seed 5 --deterministic --steps 6 --out two8
    ranks 0 2 train two8 --steps 16
    same alone8/ckpt/00000016.safetensors two8/ckpt/00000016.safetensors
fi

# A NaN loss before the stage's first save: its steps are repeated from the stage's start.
sed 's/minimize bce(D(G(z)), 1)/& * (if size == 8 { log(2.5 - step) } else { 1 })/' grows.gan >breaks.gan
expect 1 train breaks.gan --data x=s.pack --batch 4 --save-every 100 --out breaks
says 'step 8: .*; repeating from step 4 to see where it comes from$'
says 'error.E0701.: .log. gave NaN in step 8'
says 'train breaks. reaches the same step again$'

# Setting a staged config turns stages off.
go grows.gan -s size=8 $stage --steps 2 --out one
if grep -q 'stage' err one/resolved.gan; then fail 'a run of one size has stages'; fi
go one --steps 3

# Evaluation during training: each stage has its own best step.
go grows.gan $stage --seed 5 --metric swd --out monitored
says '^step 6: .* the best so far$'
same whole/ckpt/00000016.safetensors monitored/ckpt/00000016.safetensors

# Errors of a later stage are reported before the first one trains.
expect 3 train grows.gan $stage --memory 100K --out none
says '^ganrun: stage 3 of 3: --memory 100.0 KiB: batch 4 needs [0-9.]* KiB, even with recomputation'
absent none
cat >seen.gan <<'M'
model seen "a net of a file in its second stage"
config by = "sight" | "pixels"
stages {
  stage 2 { by = "pixels" }
  stage 2 { by = "sight" }
}
net V = pretrained(fn_of, "v.safetensors")
fn fn_of(x: [3]) -> [3] = x |> dense(3)
net G(z: [3]) -> [3] = z |> dense(3)
step {
  made = G(normal(3))
  update G minimize mean((if by == "sight" { V(made) } else { made })^2) using sgd(0.1)
}
M
expect 1 train seen.gan --steps 4 --out none
says '^ganrun: stage 2 of 2: .*v.safetensors, and there is no such file'
absent none
go seen.gan --steps 2 --out early           # ends before the stage that reads it
sed -e 's/^net V.*/net V = fn_of/' -e '/^stages/,/^}/d' -e 's/update G/update V, G/' seen.gan >whole.gan
go whole.gan --steps 1 --out other
expect 0 export other --net V -o v.safetensors
go seen.gan --save-every 1 --out reads
go reads --steps 5

expect 1 train grows.gan -s size=s $stage --out none
says 'error.E0611.: config `size` cannot be `s`'
absent none
"$(dirname -- "$ganrun")/ganc" compile grows.gan -o grows.ganx
expect 2 train grows.ganx --data x=s.pack --out none
says 'a run through the stages of its text needs that text$'
absent none
sed -i 's/\[8, 16\] { stage/[8, 18] { stage/' grows.gan
expect 1 train grows.gan $stage --out none
says 'note: in stage 3 of 3, with size=18, rate=0.002$'
absent none

# Data that do not suit a later stage: said before anything is compiled.
cat >late.gan <<'MODEL'
model late
config size = 16
data x : image(3, size, size) scale(-1, 1)
net D(x: [3, size, size]) -> [] = x |> flatten |> dense(1) |> squeeze
step { update D minimize mean(D(x)^2) using adam(lr=1e-3) }
stages {
  stage 2 { size = 16 }
  stage 2 { size = 8 }
}
MODEL
XDG_CACHE_HOME=$work/cold
refused 1 'stage 2 of 2: .*s.pack: x: the model expects .3, 8, 8., the data has .3, 16, 16.' \
    ganrun train late.gan --data x=s.pack --batch 4 --out late
absent late
[ -z "$(find cold -name '*.so')" ] || fail "kernels were compiled before a stage that cannot be trained: $(ls cold/*)"
