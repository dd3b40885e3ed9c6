#!/bin/sh
# new.sh - `ganc new`: your own model starts as a copy of a published one.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
models=$here/../../models
for file in "$models"/*.gan; do
    from=$(basename "$file" .gan)
    "$ganc" new "my_$from" --from "$from" || fail "ganc new my_$from"
    [ "$(head -n 1 "my_$from.gan")" = "$(head -n 1 "$file" | sed "s/^model $from/model my_$from/")" ] || fail "my_$from: its name"
    sed 1d "$file" >want
    sed 1d "my_$from.gan" | cmp -s - want || fail "my_$from: more than its name differs"
done
"$ganc" check my_dcgan.gan
cp my_dcgan.gan before
refused 1 'is there already' ganc new my_dcgan --from sngan
same my_dcgan.gan before
refused 2 'did you mean `wgan_gp`' ganc new mine --from wgangp
refused 2 'there are aae3d acgan' ganc new mine --from nothing_like_it
refused 2 'needs --from MODEL' ganc new mine
refused 2 'letters, digits and _' ganc new a/b --from dcgan
refused 2 '`ganc new` takes NAME; 0 given' ganc new
absent mine.gan
