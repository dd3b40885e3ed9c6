#!/bin/sh
# run.sh [BUILD] - WaveGAN on plucked strings: from a folder of WAV files to a WAV file. SOUNDS=FOLDER: your own data
. "$(dirname -- "$0")/../lib.sh"
sounds=${SOUNDS:-tones}
if [ ! -s x.pack ]; then
    [ "${SOUNDS:-}" ] || "$ganrun" data synth tones --out tones --count 512 --size 4096 >&2
    "$ganrun" data pack "$sounds" -o x.pack --length 4096 >&2
fi
train_data="--data x=x.pack"
train 200 --batch 16 -s slice=4096 -s wide=16
"$ganrun" sample run -o sounds.wav --count 16 >&2
echo "listen to $PWD/sounds.wav" >&2
