#!/bin/sh
# ranks_verify.sh - a reference case on ranks is checked with sums that really were reduced between them.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
. "$here/kink_lib.sh"
need_mpirun
models=$here/../../models reference=$here/../reference
case="$models/d2gan_ring.gan $reference/d2gan_ring.json --device ref --precision f64"

ranks 0 3 verify $case
[ "$(grep -c '^verify: ' out)" = 1 ] || fail "not one verdict"
ranks 0 2 verify $case --overlap off --bucket-mb 0.001
ranks 0 2 verify $case --deterministic=2

# Without communication the sums are wrong on every rank.
ranks 1 2 verify $case --comm null
prints 'outside tolerance: step 0'

# Each rank recomputes the graph itself, and recovers from a recomputation that fails.
kink_model 'mean(where(2*z > 1.99999, 1, 0)) > 0.5'
kink 1 1
ranks 0 2 verify kink.gan kink.json --precision f32
prints 'excuses nothing: step 0'
prints '^verify: 5 checks, .*, 2 not judged$'

# A batch with fewer samples than ranks.
batch=$(sed -n 's/.*"batch": \([0-9]*\).*/\1/p' "$reference/cyclegan.json" | head -1)
ranks 2 $((batch + 1)) verify "$models/cyclegan.gan" "$reference/cyclegan.json" --device ref --precision f64
says 'has no sample for each'

# A stopped rank ends the other within the deadline.
start 2 verify "$models/dcgan.gan" "$reference/dcgan_intended.json" --device ref --precision f64 --deadline 4
rank1=$(process 1)
kill -STOP "$rank1"
ends 3 "$rank1"
says 'rank 1 on .* does not answer'
