#!/bin/sh
# inspect.sh - commands that inspect a run: interp, film, export, report, diff.
. "$(dirname -- "$0")/lib.sh"
pack
begin() { expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 6 --save-every 2 --threads 1 "$@"; }
begin --out one
begin --out two --seed 7

# A row of interp starts at a sample and ends at the next.
expect 0 sample one -o s.npy --count 5 --threads 1
expect 0 sample two -o t.npy --count 5 --threads 1
expect 0 interp two -o i.npy --rows 5 --count 3 --threads 1
floats() { tail -c +129 "$1" | od -An -v -w768 -tf4 | cut -c 1-200; } # one image of 3*8*8 a line; its first numbers
floats t.npy >samples
floats i.npy >between
[ "$(wc -l <between)" = 15 ] || fail 'not 15 images'
near() { awk -v want="$1" '{ n = split(want, w); for (k = 1; k <= n; k++) if ((d = $k - w[k]) > 1e-4 || d < -1e-4) exit 1 }'; }
for r in 0 1 2 3; do
    sample=$(sed -n $((r + 1))p samples)
    sed -n $((3 * r + 1))p between | near "$sample" || fail "row $r does not begin at sample $r"
    next=$(sed -n $((r + 2))p samples)
    sed -n $((3 * r + 2))p between | near "$next" && fail "row $r does not change"
done
expect 0 interp one
exists one/interp.png
expect 2 interp one -o i.gif
says '^ganrun: -o i.gif: what can be written is .png .npy$'
expect 2 sample one -o s.jpg
says '^ganrun: -o s.jpg: what can be written is .png .npy .wav, or a folder: a name that ends in /$'
expect 2 data preview s.pack -o s.jpg
says '^ganrun data preview: -o s.jpg: what can be written is .png$'
absent s.jpg i.gif
expect 0 sample one -o v1.2/ --count 2
exists v1.2/00000001.png
expect 0 sample one -o v1.2/ --count 1
says '^v1.2/ has 1 other file, from before$'
expect 1 interp tiny.gan
says 'not the folder of a run'

# --step selects a checkpoint; the default is the newest.
expect 0 sample one --step 6 -o six.npy --count 5 --threads 1
same s.npy six.npy
expect 0 sample one --step 4 -o four.npy --count 5 --threads 1
cmp -s s.npy four.npy && fail 'another checkpoint gives the same samples'
expect 0 export one --step 2 -o two.safetensors
expect 1 sample one --step 3
says 'one has no checkpoint of step 3; there are 2, 4, 6 (--keep N of training keeps more)'

# --model: another text with the run's weights gives the same samples, and a new one.
sed '/^model/s/tiny/more/' one/resolved.gan >more.gan
echo 'sample half = 0.5*G(normal(nz))' >>more.gan
expect 0 sample one --model more.gan -o m.npy --count 5 --threads 1
same s.npy m.npy
expect 0 sample one --model more.gan --entry half -o h.npy --count 5 --threads 1
floats h.npy | awk '{ for (k = 1; k <= NF; k++) if ($k > 0.5 || $k < -0.5) exit 1 }' || fail '`half` of a tanh is beyond 0.5'
expect 0 export one --model more.gan --entry half -o half.onnx
expect 0 interp one --model more.gan --entry half -o half.png
expect 0 eval one --model more.gan
absent one/scores.jsonl
echo 'net Q(x: [3, 8, 8]) -> [] = x |> flatten |> dense(1) |> squeeze' >>more.gan
echo 'sample other = Q(G(normal(nz)))' >>more.gan
expect 2 sample one --model more.gan -o m.npy
says 'a `sample` of model more reads Q.dense.0.w, which the checkpoint does not have$'
refused 2 'model is for ONNX' ganrun export one --model more.gan -o m.safetensors

# Options that contradict each other or would have no effect are errors.
for command in sample interp; do
    refused 2 'data q: the model has no such data: there is `x`' ganrun $command one -o q.png --data q=s.pack
    refused 2 'model tiny has no pretrained net of that name' ganrun $command one -o q.png --weights Q=s.npy
done
refused 2 'rate is of sounds' ganrun sample one -o q.png --rate 8000
refused 2 'give one of them' ganrun eval one --best --step 4
refused 2 'settings are fixed' ganrun eval one -s nz=3
refused 1 'is a run, and not the demo' ganrun demo --out one
refused 2 'a pack is shown as it is' ganrun data preview s.pack -o q.png --size 64
refused 2 'give one of them' ganrun data pack samples -o q.pack --out q.pack
absent q.png q.pack
expect 0 train one --steps 4                                # fewer than the 6 done
says 'has done 6 steps, more than were asked for'
expect 0 train one --steps 6

# Film: one frame for each grid.
expect 2 film one -o f.gif
says '^ganrun: -o f.gif: what can be written is .png$'
expect 2 film one --fps 1001
says '^ganrun: --fps is at most 1000$'
expect 0 film one --fps 5
exists one/film.png
frames() { grep -a -o "$1" one/film.png | wc -l; }
[ "$(frames fcTL)" = 4 ] && [ "$(frames fdAT)" = 3 ] && [ "$(frames acTL)" = 1 ] || fail 'another number of frames'
head -c 20 one/samples/00000004.png >one/samples/00000004.png.new
mv one/samples/00000004.png.new one/samples/00000004.png
expect 1 film one -o cut.png
says '00000004.png is cut short'
absent cut.png
expect 1 film .
says 'has no samples/\|no samples'
refused 1 'elsewhere is not the folder of a run with images: there is no such folder' ganrun film elsewhere

# distance: features, or any arrays with equally many numbers a sample.
expect 0 sample one -o few.npy --count 4 --threads 1
expect 0 sample two -o t.npy --count 12 --threads 1
expect 0 sample one -o s.npy --count 12 --threads 1
expect 0 distance s.npy s.npy
prints '^swd  *0$'
prints '^recall  *1$'
expect 0 distance s.npy t.npy --json
prints '{"swd": 0\.[0-9]*[1-9].*"coverage": '
expect 1 distance few.npy t.npy
says '4 samples and 12 of data'
expect 1 distance s.npy nowhere.npy
says 'nowhere.npy'

# Export: PyTorch's names; without the net's prefix for --net.
expect 0 export one -o all.safetensors
grep -a -q '"G.dense.0.weight"' all.safetensors && grep -a -q '"D.batch_norm.0.running_var"' all.safetensors || fail 'names'
grep -a -q '"opt' all.safetensors && fail 'optimizer state is exported'
expect 0 export one --net D -o d.safetensors
grep -a -q '"conv.0.weight"' d.safetensors || fail 'names of one net'
grep -a -q '"dense.0.weight": {[^}]*\[1, 256\]' d.safetensors || fail "the shape of D's last weight"
expect 2 export one --net d -o no.safetensors
says 'did you mean `D`'
expect 2 export one -o no.pt
absent no.safetensors no.pt

# Numbers of single weights are in the log, and not in the progress line, on the open page or where runs are compared.
sed 's/ using opt$/ using watched(opt)/' tiny.gan >watched.gan
expect 0 train watched.gan --data x=s.pack --batch 4 --steps 6 --save-every 2 --threads 1 --out watched
says ' grad_norm/G [0-9]'
grep -q 'update_ratio' err && fail 'the progress line has numbers of weights'
[ "$(grep -c '"grad/G.dense.0.w": [0-9].*"update_ratio/G.dense.0.w": [0-9]' watched/log.jsonl)" = 6 ] || fail 'no gradient norms in the log'
grep -q '<summary>Reports of single weights: ' watched/index.html || fail 'the page has no folded curves'
grep -q '"losses"' one/log.jsonl && losses one >plain && losses watched >seen && same plain seen
expect 0 report watched
prints '^  report update_ratio/G.dense.0.w  *[0-9]'
expect 0 report one watched
prints ' grad_norm/G'
grep -q 'update_ratio' out && fail 'a comparison has numbers of weights'

# A log whose first lines were removed, for their size, is read to its end.
cp -r one trimmed
sed -i '1,/"step": 2,/d' trimmed/log.jsonl
expect 0 report one; sed -n 's/^one: //p; /^  loss/p' out >whole
expect 0 report trimmed; sed -n 's/^trimmed: //p; /^  loss/p' out >part
same whole part
! grep -q ' 0 ms in the median' out || fail 'steps that are not in the log have a time'
rm -r trimmed
# Report and diff read only the run's folder.
expect 0 report one
prints 'one: 6 of 6 steps, saved at 6'
cp -r one long
sed 's/"steps": *6/"steps": 4/' one/options.json >long/options.json
expect 0 report long
prints 'long: 6 steps (the last command asked for 4), saved at 6'
prints 'loss   G '
expect 0 report one --json
prints '"steps": 6, "steps_asked": 6, "saved": 6'
# Shares of time follow from the log's steps and saves.
sed -n 's/.*"step": 0, "save_ms".*//; s/.*"\(step_ms\|save_ms\)": \([0-9.]*\).*/\1 \2/p' one/log.jsonl >took
said=$(sed -n 's/.*"eval": \([0-9.]*\)}.*/\1/p' out)
awk -v said="$said" '{ all += $2; saves += $1 == "save_ms" ? $2 : 0 }
    END { exit !(saves > 0 && said > saves / all - 1e-6 && said < saves / all + 1e-6) }' took ||
    fail "eval $said, but the log has $(cat took)"
expect 0 diff one two
prints 'seed           0 | 7'
prints 'the same graph'
prints ', different from the first step on$'
expect 0 diff one one
prints 'the same options'
prints ', bitwise equal as far as both go$'
expect 0 train tiny.gan -s nz=6 --data x=s.pack --batch 4 --steps 2 --threads 1 --out three
expect 0 diff one three
prints '^  - config nz   = 4'
prints '^  + config nz   = 6'
expect 1 diff one nowhere
says 'nowhere is not the folder of a run'
for option in deterministic:0:2 micro:0:2 tf32:on:off compress:off:bf16; do      # every option that changes bits
    name=${option%%:*} values=${option#*:}
    cp -r two other
    sed "s/\"$name\": [a-z0-9]*/\"$name\": $(echo "${values#*:}" | sed 's/off/false/; s/bf16/true/')/" two/options.json >other/options.json
    expect 0 diff two other
    prints "^  $name  *${values%:*} | ${values#*:}\$"
    expect 0 report one other
    grep -q 'mean of' out && fail "runs that differ in $name are means of seeds"
    rm -r other
done

# Several runs: differing options, results, and the mean of runs that differ only in their seed.
expect 0 report one two
prints '^run  *steps  seed '
prints '^one  *6  *0 '
prints '^mean of 2 seeds .* ± '
grep -q 'mean of' out && cp -r one copy && expect 0 report one copy && grep -q 'mean of' out && fail 'a copy is another seed'
expect 0 report one two three
prints '^run  *steps  *-s nz  *seed '
expect 0 eval one --count 8 --threads 1
expect 0 eval one --count 8 --threads 1 --seed 5
expect 0 eval one --count 8 --threads 1 --seed 5             # the same score again: counted once
[ "$(grep -c 'swd pixels of 8' one/scores.jsonl)" = 3 ] || fail 'evaluations are not kept'
expect 0 report one two -o both.html
prints 'fakes swd pixels of 8, generated/data'
prints '^one .* ± .* at 6'
for word in '<table class="runs">' '<polyline' 'Newest samples' 'two after 6 steps'; do
    grep -q "$word" both.html || fail "the page has no $word"
done
grep -q 'src="[^d]\|href=' both.html && fail 'the page asks for other files'
expect 0 report one two --json
awk '{ exit gsub(/"run": /, "") != 2 || gsub(/"name": "fakes swd pixels of 8"/, "") != 3 }' out || fail 'two runs as JSON'
# Two files of one name are told apart, and a line that was cut short takes no other with it.
mkdir apart
"$ganrun" data synth shapes --out apart/s.pack --count 20 --size 8 --seed 9 >/dev/null
cp -r one parted
printf '{"step": 6' >>parted/scores.jsonl
expect 0 eval parted --count 8 --threads 1 --data x=s.pack
expect 0 report parted -o parted.csv
head -1 parted.csv | grep -q '"fakes swd pixels of 8 against s.pack","fakes swd' || fail "one file: $(head -1 parted.csv)"
expect 0 eval parted --count 8 --threads 1 --data x=apart/s.pack
expect 0 report parted -o parted.csv
[ "$(head -1 parted.csv | grep -o '"fakes swd pixels of 8 against s.pack ([0-9a-f]*)"' | sort -u | wc -l)" = 2 ] ||
    fail "two files of one name: $(head -1 parted.csv)"
echo '{"step": 6, "name": "cut' >>one/scores.jsonl
printf '{"step": 6' >>one/scores.jsonl
expect 0 report one two                                      # damaged lines are ignored
expect 0 report one two -o both.csv
sed -n 1p both.csv | grep -q '^"run","steps",' && grep -q '^"two","6",' both.csv || fail "the table: $(cat both.csv)"
[ "$(awk -F '","' '{ print NF }' both.csv | sort -u | wc -l)" = 1 ] || fail 'rows of different lengths'
[ "$(wc -l <both.csv)" = 3 ] || fail 'rows that are no runs'
for column in 'distance' 'best kept' 'best kept, step' 'fakes swd pixels of 8' 'fakes swd pixels of 8, deviation' \
    'fakes swd pixels of 8, step' 'fakes swd pixels of 8, data'; do
    awk -F '","|^"|"$' -v name="$column" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
        NR == 2 { exit !(at && $at ~ /^[0-9.e-]+$/) }' both.csv || fail "no number in column $column: $(cat both.csv)"
done
cp both.csv now.csv                                          # scores of earlier versions, whose members had other names
sed -i 's/"generated": /"made": /; s/"data": /"real": /' one/scores.jsonl
expect 0 report one two -o both.csv
same both.csv now.csv
swd=$(sed -n 's/^{"step": 6, "saved.*"swd": \([^,]*\),.*/\1/p' one/log.jsonl)
[ -n "$swd" ] && grep -q "\"$swd\"" both.csv || fail 'the distance is rounded'

# Runs whose models differ only by an edit are no seeds of one another.
cp tiny.gan keep.gan && sed 's/conv(4,/conv(5,/' keep.gan >tiny.gan
begin --out edited --seed 7
mv keep.gan tiny.gan
expect 0 report one edited
prints '^run  *steps  *seed  *model hash '
grep -q 'mean of' out && fail 'another model is another seed'
begin --out again -s nz=5
expect 0 report again
prints '^  -s         nz=5$'
expect 2 report one two -o page.pdf
says 'what can be written is .html .csv'
expect 1 report one nowhere
says 'nowhere is not the folder of a run: there is no such folder'
mkdir hollow
expect 0 report both.csv one hollow two                      # as a pattern gives them
says 'both.csv is not the folder of a run: left out'
says 'hollow is not the folder of a run: left out'
prints '^one ' && prints '^two '
expect 1 report both.csv hollow
says 'hollow is not the folder of a run: it has no options.json'
rm one/ckpt/00000006.safetensors one/ckpt/00000006.json
expect 0 report one two                                      # the best of the existing checkpoints
prints '^one .* at [24] '

# Names of files may be of any bytes; a line stays a line.
mkdir odd
cp one/samples/00000000.png "$(printf 'odd/two\nlines\033.png')"
expect 0 data inspect odd
prints '^first      two?lines?.png$'
expect 0 data pack odd -o odd.pack --size 8
expect 0 data inspect odd.pack
prints '^first      two?lines?.png$'
# What a run keeps is not written over.
cp -r one own
kept=$(ls own/ckpt/*.safetensors | tail -1)
refused 2 'the run wrote this file itself' ganrun export own -o "$kept"
refused 2 'the run wrote this file itself' ganrun sample own -o own/samples/00000000.png
refused 2 'the run wrote what is in this folder itself' ganrun sample own -o own/samples
(cd own/samples && refused 2 'the run wrote this file itself' ganrun sample .. -o 00000000.png)
same "$kept" "one/ckpt/${kept##*/}"
expect 0 export own -o own/weights.safetensors
