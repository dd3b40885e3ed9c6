#!/bin/sh
# install.sh - `cmake --install` and the Debian package: programs that run from there, manual pages, shell completion.
. "$(dirname -- "$0")/lib.sh"
command -v cmake >/dev/null || { echo 'SKIPPED: no cmake'; exit 77; }
cmake --install "$(dirname -- "$ganrun")" --prefix "$work/there" >out 2>err || fail 'cmake --install'
share=there/share
exists there/bin/ganc there/bin/ganrun
for program in ganc ganrun; do
    "there/bin/$program" --version | grep -q "^$program " || fail "$program does not run from there"
    page=$share/man/man1/$program.1
    "$(dirname -- "$ganrun")/$program" completion man | cmp - "$page" || fail "another page of $program"
    grep -q "^\.SH SYNOPSIS" "$page" || fail "no synopsis of $program"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww "$page" 2>err >page || fail "$page"
        [ ! -s err ] || fail "$page is not as roff wants it"
    fi
    for shell in bash:bash-completion/completions/$program zsh:zsh/site-functions/_$program fish:fish/vendor_completions.d/$program.fish; do
        script=$share/${shell#*:}
        [ -s "$script" ] || fail "no $script"
        if command -v "${shell%%:*}" >/dev/null; then
            "${shell%%:*}" -n "$script" || fail "$script"
        fi
    done
done
[ ! -e "$(dirname -- "$ganrun")/libgan_mpi.so" ] || exists there/lib/gan/libgan_mpi.so
"$ganrun" doctor | grep '  MPI' >want || :
there/bin/ganrun doctor | grep '  MPI' | cmp - want || fail 'MPI is not found from there'

# The Debian package has the same files, and asks for the libraries that are loaded when first called.
if command -v cpack >/dev/null && command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null; then
    cpack --config "$(dirname -- "$ganrun")/CPackConfig.cmake" -B "$work/package" >out 2>err || fail 'cpack'
    for package in package/gan*.deb; do
        dpkg-deb -x "$package" root
        dpkg-deb -f "$package" Package Depends
    done >fields
    grep -q '^Depends:.* libarchive13' fields || fail "no libarchive: $(cat fields)"
    (cd there && find . ! -type d) | sed 's/^\.//' | sort >want
    (cd root/usr && find . ! -type d) | sed 's/^\.//' | sort | cmp - want || fail 'the package has other files'
    root/usr/bin/ganc --version | grep -q "^ganc " || fail 'ganc of the package'
fi

# Completions of fish; zsh accepts the function.
if command -v fish >/dev/null; then
    fish_offers() { HOME=$work fish -c "source there/share/fish/vendor_completions.d/ganrun.fish; complete -C '$1'" 2>err | cut -f1 | tr '\n' ' '; }
    [ "$(fish_offers 'ganrun tr')" = 'train ' ] && [ "$(fish_offers 'ganrun data p')" = 'pack preview ' ] &&
        [ "$(fish_offers 'ganrun train --precision b')" = 'bf16 ' ] &&
        [ "$(fish_offers 'ganrun data pack --s')" = '--size --skip-bad --split ' ] && [ ! -s err ] || fail 'fish'
fi
if command -v zsh >/dev/null; then
    [ "$(HOME=$work zsh -f -c 'autoload -Uz compinit; compinit -u -D; . there/share/zsh/site-functions/_ganrun; print $_comps[ganrun]')" = _ganrun ] ||
        fail 'zsh'
fi

# Completions of bash at the cursor.
command -v bash >/dev/null || exit 0
cat >try <<'END'
source "$1"; name=$2; shift 2
COMP_WORDS=("$name" "$@"); COMP_CWORD=$#
"_$name"
echo "${COMPREPLY[*]}"
END
offers() {
    want=$1 name=$2
    shift 2
    got=$(bash try "there/share/bash-completion/completions/$name" "$name" "$@")
    [ "$got" = "$want" ] || fail "$name $*: bash offers '$got', not '$want'"
}
offers train                            ganrun tr
offers 'pack preview'                   ganrun data p
offers '--size --split --skip-bad'              ganrun data pack faces --s
offers '--fps'                          ganrun film run1 --f
offers bf16                             ganrun train mine.gan --precision b
offers 'cpu cuda'                       ganrun train mine.gan --device c
offers 'text json'                      ganc check --error-format ''
offers '--batch --bucket-mb'            ganc plan mine.gan --b
offers ''                               ganrun train mine
