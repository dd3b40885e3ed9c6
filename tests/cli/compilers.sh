#!/bin/sh
# compilers.sh - the C compiler of kernels: one that does not work, a wrapper whose compiler changes while its file stays
# the same, a /tmp that is not writable.
. "$(dirname -- "$0")/lib.sh"
cc=$(command -v gcc || command -v clang || command -v cc)
mkdir bin
PATH=$work/bin:$PATH
pack
units() { find cache -name '*.so' | wc -l; }

cat >bin/cc <<'END'
#!/bin/sh
echo "no environment loaded" >&2
exit 1
END
chmod +x bin/cc
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --out broken
! grep -q 'reference loops' err || fail "no other compiler was tried"

GAN_CC="$cc -pipe" "$ganrun" train tiny.gan --data x=s.pack --batch 4 --steps 1 --out asked >out 2>err
says "^GAN_CC is .* -pipe., no C compiler (a program's name or path, without options): kernels run as reference loops"

# Without a PATH, as in some job systems, a compiler does not find its parts.
for path in '' PATH=; do
    env -i $path HOME="$work/home" "$ganrun" train tiny.gan --data x=s.pack --batch 4 --steps 1 --out bare --cache bare.cache \
        >out 2>err || fail "without a PATH: $path"
    ! grep -q 'reference loops' err || fail "without a PATH no compiler is found: $path"
    rm -r bare bare.cache
done
# Nor a HOME: nothing is kept, which is said.
env -i "$ganrun" train tiny.gan --data x=s.pack --batch 4 --steps 1 --out bare >out 2>err || fail 'without a HOME'
says '^compiled kernels are not kept: neither XDG_CACHE_HOME nor HOME is set; --cache DIR'
env -i "$ganrun" train tiny.gan --data x=s.pack --batch 4 --steps 1 --out looped --device ref >out 2>err || fail 'without a HOME'
! grep -q 'not kept' err || fail 'of the reference, which compiles nothing'

export XDG_CACHE_HOME=$work/cache
printf '#!/bin/sh\n[ "$1" != --version ] || { cat "%s/version"; exit 0; }\nexec %s "$@"\n' "$work" "$cc" >bin/cc
echo 'cc 12' >version
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --out first
before=$(units)
[ "$before" -gt 0 ] || fail "nothing was compiled"
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --out same
[ "$(units)" = "$before" ] || fail "the same compiler compiled again"
echo 'cc 14' >version
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --out other
[ "$(units)" = $((2 * before)) ] || fail "$(units) units, not twice $before: kernels of another compiler were used"
