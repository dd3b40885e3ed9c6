#!/bin/sh
# bad_model.sh - files that are not models: one error each with file and line, and no run is created. Errors in otherwise
# valid models are in tests/golden/err.
. "$(dirname -- "$0")/lib.sh"
pack

# bad MESSAGE FILE [WORD...]: `ganc check` and `ganrun train` report the same error.
bad() {
    line=$1 file=$2
    shift 2
    refused 1 "$line" ganc check "$file" "$@"
    refused 1 "$line" ganrun train "$file" --data x=s.pack --batch 8 --steps 2 --out run "$@"
    absent run
}
edit() { sed "$1" tiny.gan >wrong.gan; }

# Not a text.
head -c 3000 "$ganrun" >binary.gan;                     bad 'binary.gan:1:.*E0103.*not a text' binary.gan
head -c 3000 "$ganrun" >binary.yaml;                    bad 'binary.yaml:1:.*E0103.*not a text' binary.yaml
printf 'model caf\351\n' >latin.gan;                    bad 'latin.gan:1:10: .*not UTF-8' latin.gan
printf 'model m\n# \300\257\n' >overlong.gan;           bad 'overlong.gan:2:3: .*not UTF-8' overlong.gan
printf 'model m\n# \355\240\200\n' >surrogate.gan;      bad 'surrogate.gan:2:3: .*not UTF-8' surrogate.gan
printf 'model m\n\000\n' >zero.gan;                     bad 'zero.gan:2:1: .*E0103' zero.gan
: >empty.gan;                                           bad 'empty.gan:1:1: .*begins with `model NAME`' empty.gan
: >empty.yaml;                                          bad 'empty.yaml:1:1: .*an empty file' empty.yaml
mkdir folder.gan;                                       refused 1 'folder.gan is a folder' ganc check folder.gan
                                                        bad 'no file nothing.gan' nothing.gan
head -c 20000000 /dev/zero | tr '\0' '#' >long.gan;     bad 'long.gan: 20000000 bytes is not a model' long.gan

# Unbounded input: 10 MB of open brackets, recursion, loops.
open_brackets() { head -c 10485760 /dev/zero | tr '\0' "$1"; }
open_brackets '[' >open.gan;                            bad 'open.gan:1:1: .*E0115' open.gan
{ echo 'model m'; echo 'a = '; open_brackets '('; } >open2.gan; bad 'open2.gan:[23]:.*E0105.*too deeply' open2.gan
{ echo 'model m'; echo 'step {'; yes 'if 1 {' | head -n 1000000; } >open3.gan; bad 'open3.gan:[0-9]*:.*E0105' open3.gan
open_brackets '[' >open.yaml;                           bad 'open.yaml:1:.*E0105.*too deeply' open.yaml
open_brackets '-' >minus.gan;                           bad 'minus.gan:1:1: .*E0115' minus.gan
{ printf 'model m\na = '; open_brackets '-'; } >minus2.gan;     bad 'minus2.gan:2:.*E0105.*too deeply' minus2.gan
{ cat tiny.gan; echo 'fn f(n) = f(n + 1)'; echo 'a = f(0)'; } >wrong.gan;    bad 'wrong.gan:2[0-9]:.*nested more than' wrong.gan
edit 's/^net D.*/net D(x: [3, 8, 8]) -> [] { E(x) }\nnet E(x: [3, 8, 8]) -> [] { D(x) }\nfn Old(x) {/'
                                                        bad 'wrong.gan:1[0-9]:.*nested more than' wrong.gan
{ cat tiny.gan; echo 'a = [i*k for i in range(100000) for k in range(100000)]'; } >wrong.gan; refused 1 'wrong.gan:2' ganc check wrong.gan
edit 's/^step {/step {\n  s = 0\n  for i in range(1000000000) { s = s + i }/'
                                                        bad 'wrong.gan:1[0-9]:.*takes more than .* steps' wrong.gan
{ echo 'a: &a [x, x]'; echo 'b: [*a, *a]'; } >bomb.yaml; bad 'bomb.yaml:1:.*anchors' bomb.yaml

# A typo in a name, key, unit or axis.
edit 's/tanh/tahn/';                                    bad 'wrong.gan:8:.*`tahn` is not defined' wrong.gan
edit 's/pad=1/padd=1/';                                 bad 'wrong.gan:11:.*no parameter `padd`' wrong.gan
edit 's/beta1=/beta=/';                                 bad 'wrong.gan:14:.*no parameter `beta`' wrong.gan
edit 's/update G/update H/';                            bad 'wrong.gan:19:.*`H` is not defined' wrong.gan
edit 's/mean(G(z))/mean(G(z), batsh)/';                 bad 'wrong.gan:20:.*`batsh` is not defined' wrong.gan
edit 's/lr=1e-3/lr=ramp(1e-3, 0, from=1, to=2, at=kimgs)/'; bad 'wrong.gan:14:.*`kimgs` is not defined' wrong.gan
edit 's/scale(/scael(/';                                bad 'wrong.gan:6:.*`scael` is not a data word' wrong.gan
edit 's/G minimize/G minimise/';                        bad 'wrong.gan:19:.*found `minimise`' wrong.gan
edit 's/sample fakes = G/sample fakes = g/';            bad 'wrong.gan:23:.*`g` is not defined' wrong.gan
                                                        bad 'no config `nzz`' tiny.gan -s nzz=3
                                                        bad 'did you mean `mode=broken`' tiny.gan -s mode=brokn
                                                        bad 'cannot be `four`: a number' tiny.gan -s nz=four

# Shapes, absurd numbers.
edit 's/\[3, 8, 8\]) ->/[3, 9, 8]) ->/';                bad 'wrong.gan:18:.*expects `x` to be \[3, 9, 8\], got \[3, 8, 8\]' wrong.gan
edit 's/dense(3\*8\*8)/dense(100)/';                    bad 'wrong.gan:8:.*cannot reshape' wrong.gan
edit 's/conv(4/conv(0/';                                bad 'wrong.gan:11:.*whole numbers above 0' wrong.gan
edit 's/conv(4/conv(1e30/';                             bad 'wrong.gan:11:.*2^40' wrong.gan
edit 's/conv(4/conv(1e999/';                            bad 'wrong.gan:11:.*is not a number' wrong.gan
edit 's/image(3, 8, 8)/image(3, 8, -8)/';               bad 'wrong.gan:6:.*whole numbers above 0' wrong.gan
edit 's/repeat 2/repeat -2/';                           bad 'wrong.gan:18:.*a whole number from 1 to' wrong.gan
                                                        bad 'tiny.gan:1.*whole numbers above 0' tiny.gan -s nz=0
                                                        bad 'tiny.gan:1.*whole numbers above 0' tiny.gan -s nz=-1
                                                        bad 'tiny.gan:1.*2^40' tiny.gan -s nz=1e13

# Updates of nets that the loss does not depend on.
edit 's/^net D/net C(x: [3]) -> [] = x |> dense(1) |> squeeze\nnet D/; s/update D/update D, C/'
                                                        bad 'wrong.gan:19:.*does not depend on the weights of `C`' wrong.gan
edit 's/update G minimize bce(D(G(z)), 1)/update G minimize bce(D(stop(G(z))), 1)/'
                                                        bad 'wrong.gan:19:.*does not depend on the weights of `G`' wrong.gan
edit 's/update G minimize.*/update G minimize bce(D(G(z)), 1)/'; bad 'wrong.gan:19:.*expected `using`' wrong.gan

# More memory than the machine has: exit code 3, before anything is written.
refused 3 'the plan needs .* MiB' ganrun train tiny.gan --data x=s.pack --batch 8 --steps 2 --out run --device ref --precision f64 -s nz=22000000
absent run

# The command line of the compiler.
refused 2 'did you mean `check`' ganc chek tiny.gan
refused 2 '`ganc check` takes FILE' ganc check
refused 2 'unknown option `--bacth`: did you mean `--batch`' ganc check tiny.gan --bacth 4
refused 2 '--batch needs a whole number from 1 to 1048576, not `0`' ganc check tiny.gan --batch 0
refused 2 '--batch needs .* not `-4`' ganc plan tiny.gan --batch -4
refused 2 '--batch needs .* not `1e99`' ganc plan tiny.gan --batch 1e99
refused 2 '-s needs KEY=VALUE, not `nz`: a config of the model, as in -s lr=1e-4' ganc check tiny.gan -s nz
refused 2 '--stage needs tokens|.*|dot, not `grap`' ganc emit tiny.gan --stage grap
refused 2 'emit needs --stage S' ganc emit tiny.gan

# With --error-format json a file that cannot be read is an object too, and the files behind it are still checked.
code=0
sed 's/tanh/tahn/' tiny.gan >wrong.gan
"$(dirname -- "$ganrun")/ganc" check --error-format json nowhere.gan wrong.gan 2>err || code=$?
[ $code = 1 ] || fail "a missing file as JSON: exit code $code"
says '^{"$message_type": "diagnostic", "message": "there is no file nowhere.gan", "code": null, "level": "error", "spans": \[\]'
says '"file_name": "wrong.gan"'
[ "$(grep -vc '^{.*}$' err)" = 0 ] || fail "a line that is no object"

# Of several files the worst exit code counts, whichever comes last.
expect_code() {
    code=0
    "$(dirname -- "$ganrun")/ganc" check "$@" 2>err || code=$?
    [ $code = 2 ] || fail "ganc check $*: exit code $code, not 2"
}
"$(dirname -- "$ganrun")/ganc" compile tiny.gan -o tiny.ganx --batch 4
expect_code tiny.ganx wrong.gan --batch 8
expect_code wrong.gan tiny.ganx --batch 8

# Conversion to the same format is rejected, because comments would be lost. `fmt` does not format YAML.
cp tiny.gan before.gan
refused 2 'tiny.gan is a model.s text, which `ganc fmt` lays out, already' ganc convert tiny.gan -o tiny.gan
same tiny.gan before.gan
"$(dirname -- "$ganrun")/ganc" convert tiny.gan -o tiny.yaml || fail 'convert'
refused 2 'tiny.yaml is YAML already' ganc convert tiny.yaml -o other.yml
refused 2 'tiny.yaml is YAML, and fmt lays out a model.s text' ganc fmt tiny.yaml
absent other.yml
refused 2 'convert needs -o FILE.gan or -o FILE.yaml' ganc convert tiny.gan

# fmt --check names a file that it would change, and fmt changes it; an unknown library is an error.
{ cat tiny.gan; printf '\n\nfn   twice( x )=2*x\n'; } >loose.gan
cp loose.gan before.gan
refused 1 'loose.gan is not in canonical layout: run `ganc fmt loose.gan`' ganc fmt --check loose.gan
same loose.gan before.gan
"$(dirname -- "$ganrun")/ganc" fmt loose.gan && "$(dirname -- "$ganrun")/ganc" fmt --check loose.gan || fail 'fmt'
tail -n 1 loose.gan | grep -Fqx 'fn twice(x) = 2*x' || fail 'fmt did not lay it out'
{ cat tiny.gan; echo 'use "std.layers"'; } >use.gan
"$(dirname -- "$ganrun")/ganc" check use.gan || fail 'use of a library'
sed 's/std.layers/std.layer/' use.gan >unused.gan
refused 1 'E0605.*there is no library `std.layer`' ganc check unused.gan
refused 2 '--precision needs f64|f32|bf16|f16, not `f17`' ganc plan tiny.gan --precision f17
refused 2 'no such diagnostic' ganc explain E9999
refused 1 'binary.gan:1:' ganc fmt binary.gan
refused 1 'there is no file gone.gan' ganc fmt gone.gan
refused 1 'binary.gan:1:' ganc convert binary.gan -o binary2.yaml
absent binary2.yaml
