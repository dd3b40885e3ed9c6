#!/bin/sh
# run.sh - the files of a run, and the commands that use them.
. "$(dirname -- "$0")/lib.sh"
pack
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 10 --save-every 2 --seed 5 --no-graph -s nz=6 --out run
says '^tiny: G .* weights; batch 8; x=s.pack; cpu'
says 'step 10/10'
says 'open run/index.html'
exists run/resolved.gan run/options.json run/index.html run/samples/00000000.png run/samples/00000010.png
exists run/events.out.tfevents.00000000.gan
exists run/ckpt/00000006.safetensors run/ckpt/00000008.json run/ckpt/00000010.json run/ckpt/00000010.safetensors
absent run/ckpt/00000004.json run/ckpt/00000004.safetensors           # only the newest three are kept
[ "$(losses run | wc -l)" = 10 ] || fail "not ten steps in the log"
losses run | grep -q '^10 {"D0": .*"D1": .*"G": ' || fail "not every update's loss in the log"
grep -q '"reports": {"level": ' run/log.jsonl || fail "no report in the log"
grep -q '"saved": true, "swd": ' run/log.jsonl || fail "no distance in the log"
says '^tick 5  step 10/10  kimg 0.08  time .*  sec/tick .*  sec/kimg .*  cpumem .*  D .* G .* level .*  .*eval [0-9]*%'
expect 0 report run
prints '^  time       data [0-9.]*%, D [0-9.]*%, G [0-9.]*%, .*eval [0-9.]*%$'

# Shares of a step's time, from a step timed launch by launch.
for device in cpu ref; do
    expect 0 train tiny.gan --data x=s.pack --batch 16 --steps 40 --seed 5 --device $device --out timed.$device
    says '^tick 0  step 40/40 .* level .*  .*[DG] [0-9]*%'    # one below 0.5 % is not shown; the save at the end takes less than these steps
    sed -n 's/.*"step": 8,.*"shares": {\([^}]*\)}.*/\1/p' timed.$device/log.jsonl | tr -d '",:' | awk '
        { for (i = 1; i < NF; i += 2) { all += $(i + 1); seen[$i] = $(i + 1) } }
        END { exit !(all > 0.999 && all < 1.001 && seen["D"] > 0 && seen["G"] > 0) }' ||
        fail "$device: shares: $(tail -2 timed.$device/log.jsonl)"
done

# A gradient's norm equals the value computed by hand, on every device and in every precision.
cp "$here/norm.gan" .
norm() {
    expect 0 train norm.gan --batch 4 --steps 2 "$@" --out norm
    [ "$(grep -c '"g_norm": 10[,}]' norm/log.jsonl)" = 2 ] || fail "$*: $(cat norm/log.jsonl)"
    rm -r norm
}
norm --device ref --precision f64
for precision in f32 bf16 f16; do norm --precision $precision; done
norm --micro 2

# Collapsing samples are reported once, also at the last save.
cat >alike.gan <<'END'
model alike
data x : image(3, 8, 8) scale(-1, 1)
net G(z: [3, 8, 8]) -> [3, 8, 8] { param a : [] = 1; a*z }
step { update G minimize mean(sum(G(normal(3, 8, 8))^2 + x, sample)) using adam(lr=0.5) }
sample fakes = G(normal(3, 8, 8))
END
expect 0 train alike.gan --data x=s.pack --batch 8 --steps 500 --save-every 250 --threads 1 --out alike
says '^step 500: collapsing. samples of the last save'
grep -q '"saved": true, .*"health": "collapsing"' alike/log.jsonl || fail "not in the log: $(cat alike/log.jsonl)"
expect 0 train alike --steps 501
[ "$(grep -c 'collapsing\. ' err)" = 0 ] || fail 'it is reported again'

# A loss and a report whose names are those of rounds of others.
cat >rounds.gan <<'END'
model rounds
data x : image(3, 8, 8) scale(-1, 1)
net D(x: [3, 8, 8]) -> [] = x |> flatten |> dense(1) |> squeeze
net D1 = D
step {
  repeat 2 { update D minimize mean(D(x)^2) using sgd(0.1); report seen = mean(D(x)) }
  update D1 minimize mean(D1(x)^2) using sgd(0.1)
  report seen0 = mean(x)
}
END
expect 0 train rounds.gan --data x=s.pack --batch 4 --steps 1 --threads 1 --out rounds
grep -q '"D0": .*"D1": .*"D1\.2": .*"seen0": .*"seen1": .*"seen0\.2": ' rounds/log.jsonl || fail "names of rounds: $(cat rounds/log.jsonl)"

# Saves of images so wide that no eight of them stand side by side, and of ones that are no image at all.
wide() {
    { echo 'model wide'; echo "net G(z: [2]) -> [1, 1, $1] = z |> dense(1) |> reshape(1, 1, 1) |> expand(1, 1, $1)"
      echo 'step { update G minimize mean(G(normal(2))^2) using sgd(0.1) }'; echo 'sample fakes = G(normal(2))'; } >wide.gan
    expect 0 train wide.gan --batch 2 --steps 1 --threads 1 --out wide
}
wide 10000; exists wide/samples/00000001.png; rm -r wide
wide 70000; absent wide/samples/00000001.png; says 'no .sample. of the model can be displayed'
refused 2 'sample fakes is .*, too large for a PNG: write it with -o NAME.npy' ganrun sample wide; rm -r wide

# With its streams closed, as some schedulers start a job, no file takes their place.
code=0
"$ganrun" train alike --steps 502 <&- >&- 2>&- || code=$?
[ "$code" = 0 ] || fail "closed streams: exit code $code"
[ "$(wc -l <alike/.lock)" = 2 ] || fail "messages in a file: $(cat alike/.lock)"

# Data that no result depends on are not opened; images are then not compared with any.
sed 's/ + x, /, /' alike.gan >unread.gan
expect 0 train unread.gan --data x=s.pack --batch 8 --steps 1 --out unread
exists unread/samples/00000001.png

# Saves show every `sample` that training changes; the first under the names it always has.
cat >several.gan <<'END'
model several
data x : image(3, 8, 8) scale(-1, 1)
net G(z: [3, 8, 8]) -> [3, 8, 8] { param a : [] = 1; a*z }
step { update G minimize mean(sum((G(normal(3, 8, 8)) - x)^2, sample)) using adam(lr=0.1) }
sample fakes = G(normal(3, 8, 8))
sample real = x
sample from(z: [3, 8, 8]) = G(z)
sample copies = G(x)
sample score = G(x) |> sum(sample)
END
expect 0 train several.gan --data x=s.pack --batch 9 --steps 2 --save-every 2 --out several
[ "$(cd several/samples && ls -d * */*)" = "$(printf '%s\n' 00000000.png 00000002.png copies copies/00000000.png copies/00000002.png)" ] ||
    fail "saves show: $(ls several/samples/*)"
[ "$(grep -o '<h[23]>[^<]*' several/index.html | grep -v '>Losses\|>Run' | tr '\n' ' ')" = \
    '<h2>Samples <h3>During training <h2>Samples: copies <h3>During training ' ] || fail 'not all are in the page'
grep -q 'samples/copies' several/events.out.tfevents.* || fail 'nothing of the second for TensorBoard'
expect 0 sample several --entry fakes --count 64 -o fakes.png
expect 0 sample several --entry copies --count 9 -o copies.png
same fakes.png several/samples/00000002.png
same copies.png several/samples/copies/00000002.png
expect 0 film several --entry copies -o film.png
expect 1 film several --entry from -o film.png
says 'several has no folder samples/from'
: >several/samples/copies/00000002.png.tmp-1-0                         # of a process that was killed
expect 0 train several --steps 3
absent several/samples/copies/00000002.png.tmp-1-0

grep -q 'config nz   = 6 ' run/resolved.gan || fail "the setting is not in resolved.gan"
grep -q 'data:image/png;base64,' run/index.html || fail "no picture in the page"
grep -q '<polyline' run/index.html || fail "no curve in the page"
grep -qE '(src|href)="?(http|//|samples)' run/index.html && fail "the page asks for other files"

# A finished run stays finished; more --steps resume it. Options that would change the run are rejected.
expect 0 train run
says 'has done its 10 steps'
absent run/events.out.tfevents.00000010.gan                           # there is nothing to write
expect 0 train run --steps 12
says 'resumed from step 10'
exists run/samples/00000012.png run/events.out.tfevents.00000010.gan
[ "$(losses run | wc -l)" = 12 ] || fail "the log did not go on"
expect 2 train run --batch 4
says 'fixed once a run has begun: .*ganrun train .* --from run`'
expect 1 train tiny.gan --data x=s.pack --batch 8 --out run
says 'ganrun train run. goes on with it'
expect 0 train tiny.gan --data x=s.pack --batch 8 --seed 5 -s nz=6 --steps 13 --out run --resume auto
says 'resumed from step 12'
expect 1 train tiny.gan --data x=s.pack --batch 8 --seed 5 --out run --resume auto
says 'another model .*: it has -s nz=6; give'
expect 1 train tiny.gan --data x=s.pack --batch 4 --seed 5 -s nz=6 --out run --resume auto
says 'another model .*: it has --batch 8; give'
sed 's/0.9)/0.8)/' tiny.gan >edited.gan
expect 1 train edited.gan --data x=s.pack --batch 8 --seed 5 -s nz=6 --out run --resume auto
says 'another model .*: it has another text, that of its resolved.gan; give'
expect 2 train tiny.gan --data x=s.pack --batch 8 --seed 6 -s nz=6 --out run --resume auto
says 'begun with --seed=5:'
expect 2 train tiny.gan --data x=s.pack --batch 8 --seed 5 -s nz=6 --out run --resume auto --micro 2
says 'begun without --micro:'
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 1 --out tree --deterministic
expect 2 train tiny.gan --data x=s.pack --batch 8 --out tree --resume auto
says 'begun with --deterministic=4:'
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 2 --out tree --resume auto --deterministic=4

# A run whose model text was edited is rejected.
cp -r run edited
sed 's/0\.9/0.8/' run/resolved.gan >edited/resolved.gan
expect 1 train edited --steps 20
says 'no longer the model'
expect 1 sample edited
says 'no longer the model'

# Samples: training's noise by default; reproducible for a seed.
expect 0 sample run
prints '^run/sample.png'
same run/sample.png run/samples/00000013.png
expect 0 sample run -o a.png --count 9 --seed 7
expect 0 sample run -o b.png --count 9 --seed 7 --threads 1
same a.png b.png
expect 0 sample run -o folder --count 11
exists folder/00000000.png folder/00000010.png
absent folder/00000011.png
expect 0 sample run -o numbers.npy --count 5
expect 2 sample run --entry fake
says 'did you mean `fakes`'

# Runs without --out get numbered folders.
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 1
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 1
exists runs/00000-tiny/index.html runs/00001-tiny/index.html

# Runs started at the same time get different folders; a mistake in the options leaves no folder.
"$ganrun" train tiny.gan --data x=s.pack --batch 8 --steps 1 >/dev/null 2>&1 &
first=$!
expect 0 train tiny.gan --data x=s.pack --batch 8 --steps 1
wait "$first" || fail 'the first of two runs begun at once'
exists runs/00002-tiny/index.html runs/00003-tiny/index.html
expect 1 train tiny.gan --data x=missing.pack --batch 8 --steps 1
absent runs/00004-tiny

# An update compiled once for each branch logs one loss a step: only one of them runs.
cat >turns.gan <<'END'
model turns
data x : image(3, 8, 8)
net D(x: [3, 8, 8]) -> [] = x |> flatten |> dense(1) |> squeeze
step {
  weight = if step > 1 { 1 } else { 2 }
  update D minimize mean(D(x)) * weight using sgd(lr=0.01)
}
END
expect 0 train turns.gan --data x=s.pack --batch 4 --steps 4 --threads 1 --out turns
[ "$(grep -c '"losses": {"D": [-0-9.e]*}' turns/log.jsonl)" = 4 ] || fail 'not one loss a step'

# A name keeps the value it was bound to when the state it was read from changes.
cat >states.gan <<'END'
model states "a count, before and after"
data x : image(3, 8, 8)
state count = 0
net D(x: [3, 8, 8]) -> [] { x |> flatten |> dense(1) |> squeeze }
step {
  before = count
  count := count + 1
  update D minimize mean(D(x)^2) using sgd(lr=1e-6)
  report before, after = count
}
END
for device in ref cpu; do
    expect 0 train states.gan --data x=s.pack --batch 4 --steps 2 --device $device --out states.$device
    grep -q '"step": 2,.*"before": 1, "after": 2' states.$device/log.jsonl || fail "$device: $(tail -2 states.$device/log.jsonl)"
done

# A generator that ends in tanh or sigmoid cannot imitate data of a wider range: a warning says so.
ranges() { sed "s/scale(-1, 1)/$1/; s/|> tanh/|> $2/" tiny.gan >ranges.gan; expect 0 train ranges.gan --data x=s.pack --batch 4 --steps 1 --threads 1 --out "ranges$3"; }
ranges '' tanh 1
says '^warning: data x goes from 0 to 255, but sample fakes is a tanh, from -1 to 1: `scale(-1, 1)`'
ranges 'scale(-1, 1)' sigmoid 2
says '^warning: data x goes from -1 to 1, but sample fakes is a sigmoid, from 0 to 1: `scale(0, 1)`'
quiet() { if grep '^warning' err; then fail "data $1 and $2"; fi; }
ranges 'scale(-1, 1)' tanh 3;   quiet 'of -1 to 1' tanh
ranges 'scale(0, 1)' tanh 4;    quiet 'of 0 to 1' tanh
ranges 'scale(0, 1)' sigmoid 5; quiet 'of 0 to 1' sigmoid

# A schedule that ends before the run.
sed 's/adam(lr=1e-3/adam(lr=cosine(1e-3, 0, 2)/' tiny.gan >ends.gan
expect 0 train ends.gan --data x=s.pack --batch 4 --steps 2 --threads 1 --out ends; quiet 'as long as' 'its schedule'
expect 0 train ends --steps 4
says '^warning: the learning rate of D is 0 from step 3 on, and the run ends with step 4: make the schedule longer, or train with --steps 2$'
sed 's/adam(lr=1e-3/adam(lr=1e-3*(1 - step\/2)/' tiny.gan >uphill.gan
expect 0 train uphill.gan --data x=s.pack --batch 4 --steps 4 --threads 1 --out uphill
says '^warning: the learning rate of D is below 0, uphill, from step 3 on, and the run ends with step 4: make the schedule longer, or train with --steps 2$'
sed -e 's/adam(lr=1e-3/adam(lr=ramp(1e-3, 0, from=0, to=2, at=epoch)/' -e 's/level = mean/level = mean(x) + mean/' tiny.gan >epochs.gan
expect 0 train epochs.gan --data x=s.pack --batch 25 --steps 10 --threads 1 --out epochs
says '^warning: the learning rate of D is 0 from step 5 on, and the run ends with step 10: make the schedule longer, or train with --steps 4$'
sed 's/adam(lr=1e-3/adam(lr=where(step % 5 < 1, 1e-3, 0)/' tiny.gan >every_fifth.gan
expect 0 train every_fifth.gan --data x=s.pack --batch 4 --steps 8 --threads 1 --out every_fifth; quiet 'longer than a period of' 'its schedule'

# A model in YAML trains as its text does; its run has the text, with the setting.
"$(dirname -- "$ganrun")/ganc" convert tiny.gan -o tiny.yaml
expect 0 train tiny.yaml --data x=s.pack --batch 8 --steps 2 --seed 5 -s nz=6 --out yaml
grep -q '^config nz = 6 ' yaml/resolved.gan || fail 'the run of YAML lacks its setting'
[ "$(losses yaml)" = "$(losses run | head -n 2)" ] || fail 'YAML trains otherwise'
expect 0 train yaml --steps 3
[ "$(losses yaml)" = "$(losses run | head -n 3)" ] || fail 'the run of YAML goes on otherwise'
