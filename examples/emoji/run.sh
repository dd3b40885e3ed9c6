#!/bin/sh
# run.sh [BUILD] - creates emoji.pack beside this script: the images of Noto Color Emoji, 64x64 on
# white. BUILD is the folder of ganrun and emoji_extract (default: build). A second run does nothing.
set -eu
here=$(cd "$(dirname -- "$0")" && pwd)
build=${1:-$here/../../build}
font=${EMOJI_FONT:-/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf}
pack=$here/emoji.pack

if [ -s "$pack" ] && "$build/ganrun" data verify "$pack" >/dev/null 2>&1; then
    echo "emoji.pack exists"
    exit 0
fi
if [ ! -f "$font" ]; then
    echo "emoji: $font is missing; install it with: apt-get install fonts-noto-color-emoji" >&2
    exit 3
fi
if [ ! -x "$build/emoji_extract" ]; then
    echo "emoji: $build/emoji_extract is missing; it is built where FreeType is (libfreetype-dev)" >&2
    exit 3
fi
rm -rf "$here/images"
"$build/emoji_extract" "$font" "$here/images"
"$build/ganrun" data pack "$here/images" -o "$pack" --size 64 --background white
"$build/ganrun" data preview "$pack" -o "$here/preview.png" --count 256 --columns 16
