#!/bin/sh
# gpu_bench.sh - tests/bench/gpu.sh with mock programs: it continues after failures, repeats nothing, and stops in time.
. "$(dirname -- "$0")/lib.sh"
cat >ganrun <<'END'
#!/bin/sh
echo "$*" >>calls
case $1 in
doctor) echo '  NVIDIA driver CUDA 13.0, 1 card: Pretended 9000, compute capability 9.0, 80.0 GiB' ;;
verify)
    case "$*" in
    *sngan_intended*--no-graph) echo 'cuda: an error at model.gan:5' >&2; exit 1 ;;
    *sngan_intended*) echo 'cuda: an error' >&2; exit 1 ;;
    esac
    echo 'all 12 checks hold' ;;
bench) echo '{"step_ms": 1.25, "step_ms_p90": 1.5, "launches_per_step": 150}' ;;
esac
END
sed -i "s,>>calls,>>$work/calls," ganrun
cat >python <<'END'
#!/bin/sh
case "$*" in
*--compile*) echo 'no compiler' >&2; exit 1 ;;
*bench.py*) echo 'case median_ms=2.5 rest' ;;
esac
END
printf '#!/bin/sh\necho "[  PASSED  ] 3 test(s)."\n' >suite
printf '#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n' >sanitizer
chmod +x ganrun suite python sanitizer
gpu() {
    code=0
    GANRUN=$work/ganrun DEVICE_TEST=$work/suite PYTHON=$work/python SANITIZER=$work/sanitizer \
        sh "$here/../bench/gpu.sh" --out "$work/card.tsv" "$@" >out 2>err || code=$?
}
line() { awk -F '\t' -v m="$1" -v p="$2" -v w="$3" '$3 == m && $5 == p && $6 == w { print $7, $8 }' card.tsv; }

gpu --minutes 0                                     # nothing starts, and the output says so
[ "$code" = 4 ] || fail "no time: exit code $code"
says 'the same command again goes on from here'
[ "$(wc -l <card.tsv)" = 1 ] || fail 'an item was run without time'

gpu
[ "$code" = 0 ] || fail "exit code $code"
[ "$(line - f32 device_test)" = '- [  PASSED  ] 3 test(s).' ] || fail 'line of the conformance suite'
[ "$(line dcgan_intended f32 verify)" = '- all 12 checks hold' ] || fail 'line of a case that passes'
[ "$(line sngan_intended f32 verify)" = '- failed (1): cuda: an error' ] || fail 'line of a case that fails'
[ "$(line sngan_intended f32 verify-launches)" = '- failed (1): cuda: an error at model.gan:5' ] || fail 'launch by launch'
[ "$(line d2gan_ring f32 memcheck)" = '- ========= ERROR SUMMARY: 0 errors' ] || fail 'memcheck'
line dcgan bf16 ganrun | grep -q '^1.25 p90 1.5, launches 150' || fail 'line of ganrun'
line wgan_gp f32 eager | grep -q '^2.5 ' || fail 'line of PyTorch'
line cyclegan f32 compiled | grep -q 'failed (1): no compiler' || fail 'line of PyTorch that fails'
grep -q '^==== sngan_intended 0 f32 verify: exit code 1: .*--tf32 off' card.tsv.log || fail 'the log'

lines=$(wc -l <card.tsv)
rm calls
gpu
[ "$code" = 0 ] || fail "again: exit code $code"
[ "$(wc -l <card.tsv)" = "$lines" ] || fail 'an item was repeated'
[ "$(cat calls)" = doctor ] || fail "called again: $(cat calls)"
rm calls
gpu verify --again
[ "$(grep -c verify calls)" = 2 ] || fail "not exactly the failed items were repeated: $(cat calls)"
gpu --what
[ "$code" = 2 ] || fail 'an unknown option'
printf '#!/bin/sh\n' >ganrun
gpu
[ "$code" = 3 ] || fail 'no card'
says 'this machine has no card'
