#!/bin/sh
# gpu_bench.sh - tests/bench/gpu.sh with mock programs: it continues after failures, repeats nothing, stops in time, and gives
# every stage a share of the time.
. "$(dirname -- "$0")/lib.sh"
cat >ganrun <<'END'
#!/bin/sh
echo "$*" >>calls
case $1 in
doctor) echo '  NVIDIA driver CUDA 13.0, 1 card: Pretended 9000, compute capability 9.0, 80.0 GiB' ;;
verify)
    [ ! -e "${LD_LIBRARY_PATH%%:*}/libcudnn.so.9" ] || echo "$*" >>hidden
    case "$*" in
    *--no-graph*sngan_intended*) echo 'cuda: an error at model.gan:5' >&2; exit 1 ;;
    *sngan_intended*) echo 'cuda: an error' >&2; exit 1 ;;
    esac
    echo 'all 12 checks hold' ;;
bench)
    case "$*" in
    *--roofline*) echo '400000 GFLOP/s in f32' ;;
    *--top*) printf '     ms  share  what\n  0.100  20%%  add\n  0.050  10%%  mul\n' ;;
    *) echo '{"step_ms": 1.25, "step_ms_p90": 1.5, "launches_per_step": 150}' ;;
    esac
    ;;
esac
END
sed -i "s,>>calls,>>$work/calls; echo >>$work/ran,; s,>>hidden,>>$work/hidden," ganrun
cat >python <<'END'
#!/bin/sh
here=$(dirname -- "$0") code=0
case "$*" in
*find_spec*) [ ! -e "$here/no_torch" ] && exit 0 || exit 1 ;;
*--compile*--patience*) [ ! -e "$here/slow" ] || { echo "${2%:*} batch=${2#*:} cuda failed: NotReady: after 5 s"; exit 1; } ;;
esac
case "$*" in
*--compile*cudagraphs*) echo 'no compiler' >&2; exit 1 ;;
*bench.py*) echo "$*" >>"$here/processes" ;;
*) exit 0 ;;
esac
shift
for case; do
    case $case in
    cyclegan:*) echo "cyclegan batch=${case#*:} cuda failed: no memory"; code=1 ;;
    *:*) echo "${case%:*} batch=${case#*:} cuda median_ms=2.5 rest" ;;
    *) exit $code ;;
    esac
done
END
printf '#!/bin/sh\n' >ganc
printf '#!/bin/sh\necho "captured and replayed"\n' >nccl
cat >mpirun <<'END'
#!/bin/sh
while [ "$1" != -n ]; do shift; done
shift 2
exec "$@"
END
cat >suite <<'END'
#!/bin/sh
dir=$(dirname -- "$0")
[ "$*" != --list ] || { echo adds; echo sorts; exit 0; }
[ ! -e "$dir/broken" ] || [ "$*" = adds ] || { echo "[  FAILED  ] $*"; exit 1; }
echo "[  PASSED  ] 3 test(s)."
END
printf '#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n' >sanitizer
printf '#!/bin/sh\necho "$*: 1 is wrong"\nexit 1\n' >launches
mkdir clock
cat >clock/date <<END # every call of ganrun takes half a minute
#!/bin/sh
case \$1 in
+%s) echo \$((30 * \$(wc -l <$work/ran))) ;;
*) echo 2026-01-01 ;;
esac
END
chmod +x ganrun ganc nccl suite launches python sanitizer mpirun clock/date
gpu() {
    code=0
    PATH=$with$work:$PATH GANRUN=$work/ganrun GANC=$work/ganc DEVICE_TEST=$work/suite LAUNCHES=$work/launches NCCL_ALONE=$work/nccl PYTHON=$work/python \
        SANITIZER=$work/sanitizer MOST=3 sh "$here/../bench/gpu.sh" --out "$work/card.tsv" "$@" >out 2>err || code=$?
}
with=
line() { awk -F '\t' -v m="$1" -v p="$2" -v w="$3" '$3 == m && $5 == p && $6 == w { print $7, $8 }' card.tsv; }

gpu --minutes 0                                     # nothing starts, and the output says so
[ "$code" = 4 ] || fail "no time: exit code $code"
says 'the same command again goes on from here'
[ "$(wc -l <card.tsv)" = 1 ] || fail 'an item was run without time'

gpu
[ "$code" = 0 ] || fail "exit code $code"
[ "$(line sorts f32 device_test)" = '- [  PASSED  ] 3 test(s).' ] || fail 'line of a test of the conformance suite'
[ "$(line dcgan_intended f32 verify)" = '- all 12 checks hold' ] || fail 'line of a case that passes'
[ "$(line sngan_intended f32 verify)" = '- failed (1): cuda: an error' ] || fail 'line of a case that fails'
[ "$(line sngan_intended f32 verify-launches)" = '- failed (1): cuda: an error at model.gan:5' ] || fail 'launch by launch'
[ "$(line sngan_intended f32 verify-chain)" = '- failed (1): cuda: an error' ] || fail 'as a chain'
[ "$(line sngan f32 launches)" = '- failed (1): cuda f32 models/sngan.gan:2: 1 is wrong' ] || fail 'one by one'
[ "$(line dcgan bf16 launches)" = '- failed (1): cuda bf16 models/dcgan.gan:2: 1 is wrong' ] || fail 'one by one, of every card'
[ "$(line wgan_gp_published f32 verify-own)" = '- all 12 checks hold' ] || fail 'line of a case without cuDNN'
[ "$(grep -c wgan_gp_published hidden) $(grep -c sngan_intended hidden) $(wc -l <hidden)" = '1 1 5' ] ||
    fail 'cuDNN is not hidden, or not from those cases alone'
awk -F '\t' '{ at[$3 " " $6] = NR }
    END { for (x in at) if (x ~ / (verify|launches|device_test)$/ && at[x] > correct) correct = at[x]
          exit !(correct < at["dcgan ganrun"] && at["d3gan ganrun"] < at["dcgan eager"] &&
                 at["dcgan eager"] < at["dcgan compiled-graphs"] && at["dcgan compiled"] < at["d2gan_ring memcheck"]) }' card.tsv ||
    fail "another order: $(cut -f 3-6 card.tsv)"
[ "$(line dcgan_intended f32 memcheck)" = '- ========= ERROR SUMMARY: 0 errors' ] || fail 'memcheck'
line dcgan bf16 ganrun | grep -q '^1.25 p90 1.5, launches 150' || fail 'line of ganrun'
[ "$(line - - roofline)" = '- 400000 GFLOP/s in f32' ] || fail 'line of the peaks'
line sngan f32 top | grep -q '0.100  20%  add' || fail 'line of the slowest launch'
line wgan_gp f32 eager | grep -q '^2.5 ' || fail 'line of PyTorch'
[ "$(line cyclegan f32 eager)" = '- failed (1): no memory
- failed (1): no memory' ] || fail 'line of PyTorch that fails'
[ "$(line sngan f32 compiled-graphs)" = '- failed (1): no compiler
- failed (1): no compiler' ] || fail 'line of PyTorch that ends without one'
[ "$(grep -v compile processes | grep -c 'dcgan:32 .*d3gan:32 ')" = 4 ] || fail "not one process for all models: $(cat processes)"
[ "$(grep 'd3gan:32 .*--compile' processes | grep -c -- --turn)" = 2 ] || fail 'compiled in turn'
[ "$(line d2gan_ring f32 staged)" = '1.25 communication , waited for ' ] || fail 'line of two ranks'
[ "$(line - f32 nccl)" = '- captured and replayed' ] || fail 'line of NCCL'
[ "$(line wgan_gp_published f32 verify-staged)" = '- all 12 checks hold' ] || fail 'line of a case on two ranks'
grep -q '^==== [0-9]* s, exit code 1: .*sngan_intended.*--tf32 off' card.tsv.log || fail 'the log'

lines=$(wc -l <card.tsv)
rm calls
gpu
[ "$code" = 0 ] || fail "again: exit code $code"
[ "$(wc -l <card.tsv)" = "$lines" ] || fail 'an item was repeated'
[ "$(cat calls)" = doctor ] || fail "called again: $(cat calls)"
rm calls
gpu correct --again
[ "$(grep -c verify calls)" = 4 ] || fail "not exactly the failed items were repeated: $(cat calls)"

# At half a minute each nine minutes are too few for all cases: steps have their turn in the same session.
rm card.tsv
with=$work/clock:
gpu
[ "$code" = 4 ] || fail "too little time: exit code $code"
awk -F '\t' '$6 ~ /^verify/ { last = NR } $6 == "ganrun" && !bench { bench = NR } END { exit !(bench && bench < last) }' card.tsv ||
    fail "steps waited for all cases: $(cut -f 3-6 card.tsv)"
lines=$(wc -l <card.tsv)
gpu --again
[ "$(wc -l <card.tsv)" -gt "$lines" ] || fail 'a second session did not go on'
[ "$(cut -f 2-6 card.tsv | grep -v 'failed\|sngan_intended\|compiled\|cyclegan' | sort | uniq -d | wc -l)" = 0 ] || fail 'an item was repeated'
with=

rm card.tsv
: >broken
gpu correct --only none
[ "$code" = 0 ] || fail "a broken suite: exit code $code"
[ "$(line adds f32 device_test)" = '- [  PASSED  ] 3 test(s).' ] || fail 'line of a test that passes'
[ "$(line sorts f32 device_test)" = '- failed (1): [  FAILED  ] sorts' ] || fail 'line of a test that fails'
rm broken

rm card.tsv
: >slow
gpu compiled --only sngan
[ "$code" = 4 ] || fail "not compiled in time: exit code $code"
[ "$(wc -l <card.tsv)" = 1 ] || fail 'what was not compiled in time has a line'
rm slow
gpu compiled --only sngan
[ "$code" = 0 ] && [ "$(line sngan bf16 compiled | wc -l)" = 2 ] || fail 'what was not compiled in time is not repeated'

rm card.tsv
: >no_torch
gpu eager compiled
[ "$code" = 0 ] || fail "without PyTorch: exit code $code"
line - - torch | grep -q 'PyTorch is not found' || fail 'nothing says that PyTorch is missing'
[ -z "$(line dcgan f32 eager)" ] || fail 'PyTorch was started though it is missing'
gpu --what
[ "$code" = 2 ] || fail 'an unknown option'
printf '#!/bin/sh\n' >ganrun
gpu
[ "$code" = 3 ] || fail 'no card'
says 'this machine has no card'
