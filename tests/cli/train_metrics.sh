#!/bin/sh
# train_metrics.sh - metrics during training, and the best checkpoint they keep.
. "$(dirname -- "$0")/lib.sh"
pack
cp "$here/seen.gan" .
begin="train tiny.gan --data x=s.pack --batch 8 --seed 3"
measured() { sed -n 's/.*"step": \([0-9]*\), "score": "\([^"]*\)", "values": {"[^"]*": \([^,}]*\).*"best": \([0-9]*\), .*/\1 \3 \4/p' "$1/log.jsonl"; }

# At --eval-every and at the end, after a save: bit-identical to `ganrun eval` of that checkpoint.
expect 0 $begin --steps 9 --save-every 2 --eval-every 4 --keep 9 --features seen.gan --metric kid --count 16 --out run
says '^step 4: fakes kid of 16 by seen.gan [-0-9.e]*, the best so far$'
[ "$(measured run | cut -d' ' -f1 | tr '\n' ' ')" = '4 8 9 ' ] || fail "measured: $(cat run/log.jsonl)"
measured run | while read -r step value best; do
    expect 0 eval run --step "$step" --features seen.gan --metric kid --count 16 --json
    prints "\"generated\": $value,"
done
measured run | awk '!n++ || $2 < least { least = $2; best = $1 } $3 != best { exit 1 }' || fail "another is best: $(measured run)"
expect 0 report run
prints '^  best  *fakes kid of 16 by seen.gan: [-0-9.e]*, step [489]$'
expect 0 report run --json
prints '"best_score": {"name": "fakes kid of 16 by seen.gan", "step": [489], '
grep -q 'fakes kid of 16 by seen.gan</figcaption>' run/index.html || fail 'no curve in the page'
grep -q 'eval/kid' run/events.out.tfevents.* || fail 'nothing for TensorBoard'

# Evaluation does not change the run's bits.
expect 0 $begin --steps 9 --save-every 2 --keep 9 --out bare
for step in 4 9; do same run/ckpt/0000000$step.safetensors bare/ckpt/0000000$step.safetensors; done
losses run >a; losses bare >b; same a b

# The best checkpoint is kept beside the newest; here it is the first, of a net that only gets worse.
cat >worse.gan <<'MODEL'
model worse
data x : image(3, 8, 8) scale(-1, 1)
net G(z: [3, 8, 8]) -> [3, 8, 8] { param a : [] = 0.5; a*z }
step { update G minimize mean(x) - mean(G(normal(3, 8, 8))^2) using sgd(lr=1) }
sample fakes = G(normal(3, 8, 8))
MODEL
worse="train worse.gan --data x=s.pack --batch 8 --keep 1 --save-every 1 --metric swd --count 16"
expect 0 $worse --steps 6 --out worse
[ "$(ls worse/ckpt)" = "$(printf '%s\n' 00000001.json 00000001.safetensors 00000006.json 00000006.safetensors)" ] ||
    fail "kept: $(ls worse/ckpt)"
says '^step 6: fakes swd of 16 [0-9.]*; the best is [0-9.]* at step 1$'
expect 0 sample worse --step 1 -o first.npy
expect 0 $worse --steps 3 --out going        # a resumed run knows its best
expect 0 train going --steps 6
measured worse >a; measured going >b; same a b
[ "$(ls going/ckpt)" = "$(ls worse/ckpt)" ] || fail "kept by a resumed run: $(ls going/ckpt)"

# Early stopping: after so many evaluations without a new best, also where a run is interrupted in between. A larger
# number goes on, to the bits of a run that was never stopped.
kept() { ls "$1/ckpt" | sed -n 's/^0*\([0-9]*\)\.json$/\1/p' | tr '\n' ' '; }
expect 0 $worse --steps 6 --patience 2 --out patient
says '^step 3: 2 evaluations in a row without a better fakes swd of 16 end the run; the best is [0-9.]* at step 1, '
[ "$(kept patient)" = '1 3 ' ] || fail "kept: $(kept patient)"
expect 0 $worse --steps 2 --patience 2 --out parted
expect 0 train parted --steps 6
[ "$(kept parted)" = '1 3 ' ] || fail "an interrupted run kept $(kept parted)"
expect 0 train patient                       # it stays where it is
says '^step 3: 2 evaluations in a row '
expect 0 train patient --patience 4
says '^step 5: 4 evaluations in a row '
expect 0 train patient --patience 0
[ "$(kept patient)" = '1 6 ' ] || fail "kept at the end: $(kept patient)"
same patient/ckpt/00000006.safetensors worse/ckpt/00000006.safetensors
grep -q '"patience"' patient/options.json && fail 'no patience is an option of the run'

# On resuming, a checkpoint whose evaluation is missing is evaluated; the others are not evaluated again.
grep -v '"step": 6, "score"' going/log.jsonl >cut && cp cut going/log.jsonl
expect 0 train going
measured going >b; same a b
expect 0 train going
measured going >b; same a b

# Stopped by a signal while evaluating: it ends with its checkpoint, and evaluates it when resumed.
long="$begin --steps 4 --save-every 2 --features seen.gan --metric is --count 100000"
expect 0 $long --out long
"$ganrun" $long --out stopped >out 2>err &
pid=$!
while ! grep -q '"step": 2, "save_ms"' stopped/log.jsonl 2>/dev/null && kill -0 $pid; do :; done
kill -USR1 $pid
code=0
wait $pid || code=$?
[ $code = 75 ] || fail "stopped with $code, not 75"
exists stopped/ckpt/00000002.json
grep -q '"score"' stopped/log.jsonl && fail 'it was not stopped while it evaluated'
expect 0 train stopped
measured long >a; measured stopped >b; same a b

# A resumed run may change the metric or turn it off; scores of different names are not compared.
expect 0 train going --steps 8 --count 8
[ "$(measured going | tail -3 | cut -d' ' -f1,3 | tr '\n' ' ')" = '6 6 7 6 8 6 ' ] || fail "other figures: $(measured going)"
expect 0 train going --steps 9 --metric none
grep -q '"step": 9, "score"' going/log.jsonl && fail 'evaluated with --metric none'
grep -q '"monitor"' going/options.json && fail 'the metric is still in the options'

# Nor those of another model of features whose file has the same name.
expect 0 $begin --steps 4 --save-every 2 --eval-every 2 --features seen.gan --metric kid --count 16 --out moved
mkdir -p elsewhere
sed 's/= F(x)/= 100*F(x)/' seen.gan >elsewhere/seen.gan
expect 0 train moved --steps 6 --features elsewhere/seen.gan
[ "$(measured moved | tail -1 | cut -d' ' -f1,3)" = '6 6' ] || fail "the best of two models of features: $(measured moved)"
expect 0 report moved -o moved.csv
[ "$(head -1 moved.csv | grep -o 'kid of 16 by seen.gan ([0-9a-f]*)"' | sort -u | wc -l)" = 2 ] || fail "one column: $(head -1 moved.csv)"

# Options with the prefix `features.` set configs and weights of the feature model, the others those of the trained model;
# `ganrun eval` takes both forms. A resumed run may change them, which gives a score of another name.
cat >told.gan <<'MODEL'
model told
config size = 9
config width = 6
data x : image(3, size, size) scale(0, 1)
net body(x: [3, size, size]) -> [width] = x |> conv(width, k=3) |> relu |> mean(space)
net F = pretrained(body, "nowhere.safetensors")
step { }
sample features = F(x)
MODEL
for seed in 1 2; do
    sed 's/size = 9/size = 8/; s/pretrained.*/copy(body)/; s/step { }/step { update F minimize mean(F(x)) using sgd(lr=0) }/' told.gan >body.gan
    expect 0 train body.gan --data x=s.pack --steps 1 --batch 8 --seed $seed --out body$seed
    expect 0 export body$seed --net F -o f$seed.safetensors
done
told="--features told.gan --metric kid --count 16"
expect 0 $begin --steps 2 --save-every 1 $told -s features.size=8 --weights features.F=f1.safetensors --out told
cmp -s told/resolved.gan bare/resolved.gan || fail 'the trained model got options of the feature model'
says '^step 2: fakes kid of 16 by told.gan size=8 F=f1.safetensors '
of_one=$(measured told | tail -1 | cut -d' ' -f2)
for words in '-s features.size=8 --weights features.F=f1.safetensors' '-s size=8 --weights F=f1.safetensors'; do
    expect 0 eval told $told $words --json
    prints "\"generated\": $of_one,"
done
expect 0 train told --steps 3                # options are stored in its folder
says '^step 3: fakes kid of 16 by told.gan size=8 F=f1.safetensors '
expect 0 train told --steps 4 --weights features.F=f2.safetensors
says '^step 4: fakes kid of 16 by told.gan size=8 F=f2.safetensors '
expect 0 eval told $told -s size=8 --weights F=f1.safetensors --json
grep -q "\"generated\": $(measured told | tail -1 | cut -d' ' -f2)," out && fail 'other weights give the same features'
expect 0 train told --steps 5 --features seen.gan
says '^step 5: fakes kid of 16 by seen.gan '
refused 2 's is fixed once a run has begun'     ganrun train told -s lr=1
refused 2 's features.size is for the model of --features' ganrun $begin -s features.size=8 --out none
refused 2 'weights features.F is for the model of --features' ganrun $begin --weights features.F=f1.safetensors --out none
refused 1 'weights features.F=FILE says where'  ganrun $begin $told -s features.size=8 --out none
refused 2 'weights features.H: model told has no pretrained net' ganrun $begin $told -s features.size=8 --weights features.H=f1.safetensors --out none
refused 1 'told.gan'                            ganrun $begin $told -s features.sise=8 --out none
says 'size'

# Metrics that cannot be computed are rejected before the run is created.
refused 2 'there is no metric `fie`'            ganrun $begin --metric fie --out none
refused 2 'fid is of the features of a trained net' ganrun $begin --metric fid --out none
refused 2 'eval-every 3: metrics are evaluated after saves, and --save-every is 2' ganrun $begin --metric swd --save-every 2 --eval-every 3 --out none
refused 2 'count applies to --metric NAME or --features FILE.gan' ganrun $begin --count 5 --out none
refused 2 'patience applies to --metric NAME or --features FILE.gan' ganrun $begin --patience 5 --out none
refused 2 'patience 2 waits for a better value, and prdc has none' ganrun $begin --features seen.gan --metric prdc --patience 2 --out none
refused 1 'no `sample` of model tiny can be evaluated by it' ganrun $begin --metric chamfer --out none
refused 2 'no sample `fake`'                    ganrun $begin --metric swd --entry fake --out none
refused 1 'kid needs 6 samples and as many of the data, not 5' ganrun $begin --features seen.gan --metric kid --count 5 --out none
sed 's/8/9/g' seen.gan >larger.gan
refused 1 'takes images of \[3, 9, 9\], the samples are \[3, 8, 8\]: a config of its own for the size is set as -s features.size=8' ganrun $begin --features larger.gan --metric kid --out none
refused 1 'there is no such file'               ganrun $begin --features nowhere.gan --metric kid --out none
absent none
