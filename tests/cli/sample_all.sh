#!/bin/sh
# sample_all.sh - `sample --all`: one sample for each of the data, in their order, without random crops and flips.
. "$(dirname -- "$0")/lib.sh"
cat >m.gan <<'END'
model all "what a sample reads of its data"
data x : image(1, 4, 4) resize(8) crop(4) flip scale(0, 255), w : float weight
data u : float
net D(x: [1, 4, 4]) -> [] = x |> flatten |> dense(1) |> squeeze
net Q(x: [1, 4, 4]) -> [] = x |> flatten |> dense(1) |> squeeze
step { update D minimize mean((1 + w + u)*D(x)) using sgd(0.1); report q = mean(Q(x)) }
sample level = mean(x, sample)
sample left = x[0, 0, 0]
sample more = mean(x, sample) + u
sample copy = x
sample noise = normal(2)
sample noisy = x + normal(1, 4, 4)
END
header() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; }
# Five images of 8x8, each of one grey, but for the columns of the last: 0, 10, ... 70.
{ header '|u1' '(5, 1, 8, 8)'; for v in 10 20 30 40; do for i in $(seq 64); do printf "\\$(printf %03o $v)"; done; done
  for i in $(seq 8); do for v in 0 10 20 30 40 50 60 70; do printf "\\$(printf %03o $v)"; done; done; } >x.npy
{ header '<f4' '(5,)'; for i in 1 2 3 4 5; do printf '\000\000\200\077'; done; } >w.npy
expect 0 train m.gan --data x=x.npy --data w=w.npy --data u=w.npy --batch 3 --steps 2 --out run --threads 1
says 'warning.W0902.: `Q` is never updated'
numbers() { tail -c +129 s.npy | od -An -v -w4 -tf4 | tr -s ' \n' ' '; }

expect 0 sample run --entry level --all -o s.npy --threads 1
[ "$(numbers)" = ' 10 20 30 40 35 ' ] || fail "levels: $(numbers)"
! grep -q warning err || fail 'warnings of the training come again'
expect 0 sample run --entry left --all -o s.npy --threads 1
[ "$(numbers)" = ' 10 20 30 40 20 ' ] || fail "a crop from the middle, not flipped: $(numbers)"

# Images are named after the files that they are made from, where these are files.
expect 0 sample run --entry copy --all -o grey --threads 1
[ "$(ls grey | tr '\n' ' ')" = '00000000.png 00000001.png 00000002.png 00000003.png 00000004.png ' ] || fail "of an array: $(ls grey)"
mkdir -p pets/sub
cp grey/00000000.png pets/cat.png
cp grey/00000001.png 'pets/sub/a dog.x.png'
expect 0 sample run --entry copy --all --data x=pets -o pictures --threads 1
exists pictures/00000000-cat.png 'pictures/00000001-a dog.x.png'
expect 0 data pack pets -o pets.pack --channels 1
expect 0 sample run --entry copy --all --data x=pets.pack -o pictures --threads 1
[ "$(ls pictures | wc -l)" = 2 ] || fail "of a pack: $(ls pictures)"

# Fewer samples than a batch, in other data; nothing of w and u, which the sample does not read.
{ header '|u1' '(1, 1, 8, 8)'; for i in $(seq 64); do printf '\007'; done; } >one.npy
expect 0 sample run --entry level --all --data x=one.npy -o s.npy --threads 1
[ "$(numbers)" = ' 7 ' ] || fail "one: $(numbers)"
# --data replaces the sources of the fields that it names, and of no other.
expect 0 sample run --entry more --all --data x=one.npy -o s.npy --threads 1
[ "$(numbers)" = ' 8 ' ] || fail "one and the run's u: $(numbers)"
expect 0 sample run --entry more --all --data x=one.npy --data x=one.npy -o s.npy --threads 1
[ "$(numbers)" = ' 8 8 ' ] || fail "two in place of x: $(numbers)"
# Another text need not have all of the run's data, but what --data names.
sed '/^data u/d; /^step/d; s/^sample more.*/step {}/' m.gan >less.gan
expect 0 sample run --model less.gan --entry level --all -o s.npy --threads 1
[ "$(numbers)" = ' 10 20 30 40 35 ' ] || fail "levels of another text: $(numbers)"
says 'warning.W090'
refused 2 'data u: the model has no such data' ganrun sample run --model less.gan --data u=w.npy -o s.npy
refused 1 'a batch of 3, and the data has 1 sample' ganrun sample run --entry level --data x=one.npy -o s.npy
refused 2 '\-\-all and --count both say how many' ganrun sample run --entry level --all --count 3 -o s.npy
refused 2 'sample noise reads no data' ganrun sample run --entry noise --all -o s.npy
refused 2 'data x: sample noise reads no data' ganrun sample run --entry noise --data x=one.npy -o s.npy

# What is wrong with what is asked for, and with the data, is said before anything is planned or weights are read.
mkdir bad
printf x >bad/1.png
mv run/ckpt ckpt
first() { refused "$1" "$2" ganrun "$3" run --threads 1 $4; }
first 1 '/bad: none of 1 samples' sample '--entry copy --data x=bad'
first 1 '/bad: none of 1 samples' interp '--entry noisy --data x=bad -o i.npy'
first 1 '/bad: none of 1 samples' eval '--data x=bad'
first 2 'sample left is' sample '--entry left -o s.wav'
first 2 'no sample `right`' eval '--entry right'
first 1 'there is no such file' eval '--features nowhere.gan'
first 1 'run has no checkpoint yet' sample '--entry noise -o s.npy'

# Numbers are scaled as the run's data were, whatever extremes other data have: 0, 10, 4 and 4, then 0, 5, 4 and 4.
cat >range.gan <<'END'
model range
data v : float scale(-1, 1)
net D(v: []) -> [] = unsqueeze(v, 0) |> dense(1) |> squeeze
step { update D minimize mean(D(v)) using sgd(0.1) }
sample same = v + 0
END
column() { header '<f4' '(4,)'; printf "$1"; }
column '\0\0\0\0\0\0\040\101\0\0\200\100\0\0\200\100' >begun.npy
column '\0\0\0\0\0\0\240\100\0\0\200\100\0\0\200\100' >held.npy
expect 0 train range.gan --data v=begun.npy --batch 2 --steps 2 --out ranged --threads 1
ranged() { expect 0 sample ranged --entry same --all -o s.npy --threads 1 "$@"; numbers; }
[ "$(ranged)" = ' -1 1 -0.2 -0.2 ' ] && [ "$(ranged --data v=held.npy)" = ' -1 0 -0.2 -0.2 ' ] ||
    fail "ranges: $(ranged) $(ranged --data v=held.npy)"
expect 0 train ranged --data v=held.npy --steps 3 --threads 1
[ "$(ranged)" = ' -1 0 -0.2 -0.2 ' ] || fail "the range of a run that goes on: $(ranged)"
column '\0\0\0\0\0\0\240\101\0\0\200\100\0\0\200\100' >wide.npy
expect 0 sample ranged --entry same --all --data v=wide.npy -o s.npy --threads 1
says '^v: these numbers go from 0 to 20, and scale maps 0 to 10'
sed 's/"fields": {"v": {"range": \[[^]]*]}}, //' ranged/options.json >older.json        # of an earlier version
! grep -q fields older.json || fail "options.json: $(cat older.json)"
mv older.json ranged/options.json
[ "$(ranged)" = ' -1 1 0.6 0.6 ' ] || fail "the range of the data: $(ranged)"

# Images of 8 and 16 bits are alike, 0 to 255 where nothing scales them: 128 and 128*257.
images() { header "$1" '(2, 1, 4, 4)'; for i in $(seq 32); do printf "$2"; done; }
images '|u1' '\200' >x8.npy
images '<u2' '\200\200' >x16.npy
for range in 'scale(0, 51)' ''; do
    sed "s/^data x.*/data x : image(1, 4, 4) $range/; s/^data u.*//; s/1 + w + u/1/; /^sample more/d" m.gan >bits.gan
    expect 0 train bits.gan --data x=x8.npy --data x=x16.npy --batch 2 --steps 1 --out bits --threads 1
    expect 0 sample bits --entry level --all -o s.npy --threads 1
    case $range in
        scale*) [ "$(numbers)" = ' 25.6 25.6 25.6 25.6 ' ] || fail "16 bits, scaled: $(numbers)";;
        *) [ "$(numbers)" = ' 128 128 128 128 ' ] || fail "16 bits: $(numbers)";;
    esac
    rm -r bits
done

# Cells of a table that are missing, and their mask, from the table and from a pack of it.
cat >gaps.gan <<'EOF'
model gaps "a table with gaps"
data t : float(2) scale(0, 1) missing(-1), there : known(t)
net D(t: [2], there: [2]) -> [] = concat(t, there) |> dense(1) |> squeeze
step { update D minimize mean(D(t, there)) using sgd(0.1) }
sample row = t
sample mask = there
EOF
printf 'a,b\n1,\nNA,5\n3,2\n' >gaps.csv
expect 1 data pack gaps.csv -o gaps.pack
says 'line 2: column b is empty: missing(0) in the model'
expect 0 data pack gaps.csv -o gaps.pack --missing
says 'missing: 2 numbers'
expect 0 data inspect gaps.pack
prints 'data x : float(2) scale(-1, 1) missing(0)'
for data in gaps.csv gaps.pack; do
  rm -rf gaps
  expect 0 train gaps.gan --data t=$data --batch 2 --steps 2 --out gaps --threads 1
  expect 0 sample gaps --entry row --all -o s.npy --threads 1
  [ "$(numbers)" = ' 0 -1 -1 1 0.5 0.25 ' ] || fail "rows with gaps: $(numbers)"
  expect 0 sample gaps --entry mask --all -o s.npy --threads 1
  [ "$(numbers)" = ' 1 0 0 1 1 1 ' ] || fail "their mask: $(numbers)"
done
expect 0 export gaps --entry row -o row.onnx
grep -aq 'data, from 0 to 1, -1 where missing' row.onnx || fail 'row.onnx does not say what its input is'
expect 0 export gaps --entry mask -o mask.onnx
grep -aq '1 where t is known, 0 where it is missing' mask.onnx || fail 'mask.onnx does not say what its input is'
expect 2 train gaps.gan --data t=gaps.csv --data there=gaps.csv --batch 2 --steps 2 --out other --threads 1
says 'there: it is the mask of t'
