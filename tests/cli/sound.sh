#!/bin/sh
# sound.sh - WAV files of every format as data, and samples as WAV.
. "$(dirname -- "$0")/lib.sh"
corpus=$here/../fuzz/corpus/sound
mkdir -p s/low s/high
cp "$corpus"/pcm8.wav "$corpus"/pcm16.wav "$corpus"/float.wav s/low/
cp "$corpus"/pcm24.wav "$corpus"/pcm32.wav s/high/
if ! "$ganrun" doctor | grep -q '^  libsndfile  *[^m ]'; then
    refused 1 'none of 5 samples' ganrun data pack s -o s.pack --length 256
    grep -q 'built without libsndfile: install libsndfile1-dev' err || fail 'no hint to install libsndfile'
    exit 0
fi

expect 0 data inspect s
prints '^sounds     5 at 16000 Hz, 1 channel, 200 to 300 samples$'
expect 0 data inspect s --json
prints '"sounds": \[{"count": 5, "rate": 16000, "channels": 1, "shortest": 200, "longest": 300}\]'
refused 2 'it has [0-9]* samples at 16000 Hz, the first 300: give all one length with --length N' ganrun data pack s -o s.pack
expect 0 data pack s -o s.pack --length 256 --labels folders
says 'padded with silence: 2 of 5'
says 'cut: 3 of 5'
expect 0 data inspect s.pack
prints 'data x : float(1, 256) scale(-1, 1), y : label(2)'
prints '16000 Hz, cut or padded to 256 samples'
printf 'model longer\ndata x : float(1, 512)\nnet G(z: [1]) -> [1, 512] = z |> dense(512) |> reshape(1, 512)
step { update G minimize mse(G(normal(1)), x) using sgd() }\n' >longer.gan
expect 1 train longer.gan --data x=s.pack --batch 2 --steps 1 --out longer
says 'expects .1, 512., the data has .1, 256..*sounds are packed again with another --length$'

# Every file holds the same numbers, i/256 - 1/2 at index i mod 256, rounded to its format.
"$ganrun" data pack s/low -o low.pack --length 200 2>/dev/null >/dev/null || fail 'low'
"$ganrun" data pack s/high -o high.pack --length 200 2>/dev/null >/dev/null || fail 'high'
for set in low high; do
    expect 0 data inspect $set.pack
    prints 'values     -0.5 to 0.27[0-9]*'
done

# Files that differ from the first are named, with a way to fix them.
cp "$corpus"/rate.wav "$corpus"/stereo.wav s/low/
expect 1 data pack s -o no.pack --length 256
says '^bad: low/rate.wav: 8000 Hz, and others have 16000 Hz: convert it first'
says '^bad: low/stereo.wav: 2 channels, and others have 1'
absent no.pack
expect 0 data pack s -o skipped.pack --length 256 --skip-bad
prints '5 samples'
rm s/low/rate.wav s/low/stereo.wav
mkdir two; cp "$corpus"/stereo.wav two
expect 0 data pack two -o two.pack --length 64
expect 0 data inspect two.pack
prints 'float(2, 64)'
head -c 40 "$corpus"/pcm16.wav >two/cut.wav
expect 1 data pack two -o no.pack --length 64
says '^bad: cut.wav: '
head -c 300 "$corpus"/pcm16.wav >two/cut.wav                  # truncated
expect 1 data pack two -o no.pack --length 64
says '^bad: cut.wav: broken WAV: the file ends too early'
{ head -c 40 "$corpus"/stereo.wav; printf '\377\377\377\377'; tail -c +45 "$corpus"/stereo.wav; } >two/cut.wav     # written to a pipe: its length is unknown
expect 0 data pack two -o two.pack --length 64
prints '2 samples'

# Floating-point files may be of another scale: 30000 for full scale, as programs write them that think in 16 bits.
float() { for x; do printf "$x"; done; }
wav() { # wav BYTES WORD... : f32 at 16 kHz
    n=$1; shift
    printf "RIFF\\$(printf %03o $((n + 36)))\\0\\0\\0WAVEfmt \\020\\0\\0\\0\\003\\0\\001\\0\\200\\076\\0\\0\\0\\372\\0\\0\\004\\0\\040\\0data\\$(printf %03o $n)\\0\\0\\0"
    float "$@"
}
mkdir loud
wav 8 '\0\0\200\077' '\0\0\0\277' >loud/a.wav             # 1, -0.5
expect 0 data pack loud -o loud.pack
! grep -q beyond err || fail '1 is not beyond 1'
wav 8 '\0\140\352\306' '\0\0\0\077' >loud/b.wav           # -30000, 0.5
expect 0 data pack loud -o loud.pack
says '^beyond -1 to 1, and kept so: 1 of 2, to 30000$'
printf 'model loud\ndata x : float(1, 2)\nnet G(z: [1]) -> [1, 2] = z |> dense(2) |> reshape(1, 2)
step { update G minimize mse(G(normal(1)), x) using sgd() }\n' >loud.gan
expect 0 train loud.gan --data x=loud --batch 2 --steps 1 --out loud.run
says 'x: of 2 sounds 1 go beyond -1 to 1, to 30000\|loud: of 2 sounds 1 go beyond -1 to 1, to 30000'

# Training on a folder of sounds.
cp "$here/../../models/wavegan.gan" .
expect 0 train wavegan.gan -s slice=256 -s wide=2 -s rounds=1 --data x=s --batch 4 --steps 2 --threads 1 --out run
says 'of 5 sounds 2 are shorter and padded with silence, 3 are longer and cut'
# The sampling rate is the data's. A run's page plays its newest samples, which are also written as files.
prints() { grep -q -e "$1" "${2:-out}" || fail "${2:-standard output} does not say: $1"; }
prints '"rate": 16000' run/options.json
exists run/samples/00000002.wav
prints '<audio controls src="data:audio/wav;base64,UklGR' run/index.html
expect 0 sample run -o own.wav --count 1
[ "$(od -A n -t u4 -j 24 -N 4 own.wav | tr -d ' ')" = 16000 ] || fail 'another rate than the data'
expect 0 sample run -o each/ --count 5
[ "$(ls each | tr '\n' ' ')" = '00000000.wav 00000001.wav 00000002.wav 00000003.wav 00000004.wav ' ] || fail "each/ has $(ls each)"
same each/00000000.wav own.wav
expect 0 report run run -o two.html
prints '<audio controls' two.html
mkdir fast; cp "$corpus"/rate.wav fast/a.wav; cp "$corpus"/rate.wav fast/b.wav; cp "$corpus"/rate.wav fast/c.wav; cp "$corpus"/rate.wav fast/d.wav
refused 1 'x: .*fast are at 8000 Hz, those of .*/s before it at 16000 Hz' \
    ganrun train wavegan.gan -s slice=256 -s wide=2 -s rounds=1 --data x=s --data x=fast --batch 4 --steps 2 --out mixed

refused 1 'x: the sounds of .*fast are at 8000 Hz, those the run began with at 16000 Hz' ganrun train run --data x=fast --steps 3

expect 0 sample run -o made.wav --count 3 --rate 8000
[ "$(wc -c <made.wav)" = $((44 + 2 * (3 * 256 + 2 * 2000))) ] || fail 'another length'
cmp -s made.wav "$corpus"/pcm16.wav && fail 'made is not data'
mkdir made; mv made.wav made
expect 0 data inspect made
prints '^sounds     1 at 8000 Hz, 1 channel, 4768 to 4768 samples$'
refused 2 '1000000' ganrun sample run -o made.wav --rate 2000000
pack
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --threads 1 --out pictures
refused 2 'no sound of 1 or 2 channels' ganrun sample pictures -o no.wav

# Audio metrics: with enough windows, at the rate of the data or another.
"$ganrun" data synth tones --out tones --count 24 --size 1024 >/dev/null
expect 0 train wavegan.gan -s slice=1024 -s wide=2 -s rounds=1 --data x=tones --batch 4 --steps 1 --threads 1 --out tuned
expect 0 eval tuned --count 12 # rows of numbers: four windows are too few for a spectrum
prints '^sounds  *x  *12  *swd  *[0-9.]*  *[0-9.]*  *[0-9.]*$'
if ! "$ganrun" eval tuned --count 12 --rate 8000 --metric mel >out 2>err; then
    refused 1 'want OpenBLAS' ganrun eval tuned --metric mel --rate 8000
else
    prints '^sounds  *x  *12  *mel frechet  *[0-9.]*  *[0-9.]*  *[0-9.]*$'
fi
cat >heard.gan <<'MODEL'
model heard
config slice = 256
data x : float(1, slice)
net F(x: [1, slice]) -> [6] = x |> conv(6, k=9) |> relu |> mean(space)
step { }
sample features = F(x)
MODEL
expect 0 eval tuned --features heard.gan -s slice=1024 --count 12 --metric kid     # by any net's features
prints '^sounds  *x  *12  *kid  *[0-9.e-]*  *[0-9.e-]*  *-$'
refused 1 'takes samples of \[1, 256\], the samples are \[1, 1024\]' ganrun eval tuned --features heard.gan
{ sed 's/^sample .*//' wavegan.gan; echo 'sample copies = 0.5*x + 0.001*G(normal(nz))'; } >copies.gan
expect 0 train copies.gan -s slice=1024 -s wide=2 -s rounds=1 --data x=tones --batch 4 --steps 1 --threads 1 --out copies
expect 0 eval copies --count 12 --metric error --rate 8000
prints '^copies  *x  *12  *mel error  *0\.[1-9]'
grep -q '"name": "copies mel error of 12 at 8000 Hz"' copies/scores.jsonl || fail "scores: $(cat copies/scores.jsonl)"    # other numbers than at the rate of the data

# Sounds as an array.
cat >line.gan <<'X'
model line
data x : float(1, 1024) scale(-1, 1)
net D(x: [1, 1024]) -> [] { x |> flatten |> dense(1) |> squeeze }
step { update D minimize mean(D(x)^2) using sgd(0.01) }
sample noise = normal(1, 1024)
X
expect 0 train line.gan --data x=tones --batch 4 --steps 1 --threads 1 --out line
expect 0 sample line -o line.npy --count 8
expect 0 train line.gan --data x=line.npy --batch 4 --steps 1 --threads 1 --out again
sed 's/1, 1024/2, 1024/' line.gan >two.gan
expect 1 train two.gan --data x=line.npy --batch 4 --steps 1 --out two
says 'x: the model expects \[2, 1024\], the data has \[1, 1024\]'

# The example.
STEPS=2 THREADS=1 OUT=$work/example "$here/../../examples/wavegan/run.sh" "$(dirname -- "$ganrun")" >out 2>err || fail 'examples/wavegan'
exists example/sounds.wav example/run/ckpt/00000002.safetensors
