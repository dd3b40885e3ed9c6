#!/bin/sh
# bad_data.sh - unusable data: one error that names the file and the sample, before the first step.
. "$(dirname -- "$0")/lib.sh"
pack
cat >numbers.gan <<'MODEL'
model numbers
data x : float(4)
net G(z: [2]) -> [4] = z |> dense(4)
net D(x: [4]) -> [] = x |> dense(1) |> squeeze
opt = adam(lr=1e-3)
step {
  update D minimize mean(D(x)) - mean(D(G(normal(2)))) using opt
  update G minimize mean(D(G(normal(2)))) using opt
}
MODEL
mkdir few
for i in 1 2 3 4 5 6; do expect 0 data preview s.pack -o few/$i.png --count $i; done

# bad MESSAGE DATA [MODEL]: training rejects the data with MESSAGE and creates no run.
bad() {
    refused 1 "$1" ganrun train "${3:-tiny.gan}" --data "x=$2" --batch 4 --steps 2 --out run
    absent run
}
# damaged MESSAGE PACK: `data verify` reports it too.
damaged() {
    bad "$1" "$2"
    refused 1 "$1" ganrun data verify "$2"
}

# Of another kind than the model's, which is said before anything is compiled for it.
XDG_CACHE_HOME=$work/cold
                                                        bad 's.pack: x: the model expects .4., the data has .3, 8, 8.' s.pack numbers.gan
[ -z "$(find cold -name '*.so')" ] || fail "kernels were compiled for data that do not fit: $(ls cold/*)"
XDG_CACHE_HOME=$(dirname -- "$ganrun")/tests/cache

# Folders: empty, one image, fewer than a batch, no images, a name with a typo.
mkdir empty;                                            bad 'empty: no images or sounds in it' empty
mkdir one; cp few/1.png one;                            bad 'one: x: a batch of 4, and the data has 1 sample$' one
mkdir three; cp few/[123].png three;                    bad 'three: x: a batch of 4, and the data has 3 samples' three
mkdir words; echo hello >words/a;                       bad 'words: none of 1 samples' words
                                                        says '^a: not a PNG, JPEG or WebP image but text'
mkdir notes; echo hello >notes/a.txt;                   bad 'notes: no images or sounds in it' notes
cp few/* notes; expect 0 train tiny.gan --data x=notes --batch 4 --steps 1 --out run; rm -r run
mkdir sounds; printf 'RIFF\044\0\0\0WAVEfmt ' >sounds/a.wav; bad 'sounds: these are sounds; images are needed' sounds
mkdir mixed; cp few/1.png mixed; cp sounds/a.wav mixed/b.wav
bad 'mixed: 1 of 2 samples' mixed;                      says '^b.wav: .* a WAV sound: sounds have folders'
printf 'RIFF\044\0\0\0WEBP' >sounds/a.wav;              bad 'sounds: none of 1 samples' sounds
                                                        says '^a.wav: .*WebP'
                                                        bad 'fwe: there is no such file or folder' fwe
                                                        bad 'not every shell knows ~ there' '~/fwe'
                                                        bad '1.png: a single image' few/1.png
                                                        bad 'tiny.gan: not a folder' tiny.gan
mkfifo pipe; refused 3 'cannot map .*pipe: not a regular file' ganrun train tiny.gan --data x=pipe --batch 4 --steps 2 --out run
refused 3 'cannot map pipe: not a regular file' ganrun data inspect pipe; absent run

# A path that options.json cannot store (not UTF-8); through a link with a valid name, training works.
odd=$(printf 'gar\347on')
cp -r few "$odd";                                       bad 'is not UTF-8: a run' "$odd"
expect 0 data inspect "$odd"
ln -s "$odd" even; expect 0 train tiny.gan --data x=even --batch 4 --steps 1 --out run; expect 0 train run --steps 2; rm -r run

# Images: truncated, empty, a text named .png. With --skip-bad the others are used.
spoil() { rm -rf spoilt; cp -r few spoilt; cat >"spoilt/$1"; }
head -c 60 few/6.png | spoil 6.png;                     bad 'spoilt: 1 of 6 samples cannot be used' spoilt
                                                        says '^6.png: broken PNG'
rm -rf spoilt; cp -r few spoilt; ln -sf nowhere spoilt/6.png; bad 'spoilt: 1 of 6' spoilt; says '^6.png: a link that leads nowhere'
: | spoil 6.png;                                        bad 'spoilt: 1 of 6' spoilt; says '^6.png: empty file'
echo 'no picture' | spoil notes.png;                    bad 'spoilt: 1 of 7' spoilt; says '^notes.png: not a PNG, .* but text'
refused 1 'spoilt: 1 of 7' ganrun data pack spoilt -o out.pack --size 8
absent out.pack
refused 2 'o few: this is what is to be packed' ganrun data pack few -o few
refused 3 'cannot create spoilt: Is a directory' ganrun data pack few -o spoilt
expect 0 train tiny.gan --data x=spoilt --batch 4 --steps 1 --out run --skip-bad
says '^notes.png: not a PNG'
rm -r run
expect 0 data pack spoilt -o out.pack --size 8 --skip-bad
exists out.pack

# Packs: not a pack, truncated, and damaged in each part.
: >none.pack;                                           bad 'none.pack: empty file' none.pack
head -c 9000 "$ganrun" >other.pack;                     bad 'other.pack: not a folder' other.pack
refused 1 's.pack: this is a pack already.* what it was made of' ganrun data pack s.pack -o t.pack --size 8
head -c 900 s.pack >cut.pack;                           damaged 'cut.pack: truncated pack: 900 bytes' cut.pack
head -c 12000 s.pack >cut.pack;                         damaged 'cut.pack: truncated pack: 12000 bytes' cut.pack
{ cat s.pack; echo more; } >longer.pack;                damaged 'longer.pack: truncated pack' longer.pack
size=$(wc -c <s.pack)
poke() { cp s.pack poked.pack; printf '\252\125\252\125' | dd of=poked.pack bs=1 seek="$1" conv=notrunc 2>/dev/null; }
poke 2000;                                              damaged 'poked.pack: damaged pack: its first' poked.pack
poke $((size - 200));                                   damaged 'poked.pack: damaged pack: its header' poked.pack
poke $((size - 40));                                    damaged 'poked.pack: ' poked.pack
poke 8000                                               # a sample: detected when read, before a step uses it
refused 1 'poked.pack: damaged pack: samples 0 to 39 (from shapes:0)' ganrun data verify poked.pack
refused 1 'poked.pack: damaged pack: samples 0 to 39 (from shapes:0)' \
    ganrun train tiny.gan --data x=poked.pack --batch 4 --steps 2 --out run
absent run/log.jsonl run/ckpt/00000001.json
rm -rf run

# Arrays: NaN, infinity, truncated, wrong shape or version, and images where the model requires numbers.
# npy FILE SHAPE WORD... : float32, each word little-endian.
npy() {
    file=$1 header="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
    shift 2
    printf '\223NUMPY\001\000\166\000%-117s\n' "$header" >"$file"
    for word; do printf "$word" >>"$file"; done
}
npy none.npy '0, 3, 8, 8';                              bad 'none.npy: an array without samples' none.npy
expect 1 data inspect none.npy
says 'none.npy: an array without samples'
npy number.npy '' '\0\0\0\0';                           bad 'number.npy: an array without samples' number.npy
expect 1 data inspect number.npy
says 'number.npy: an array without samples'
# Channels last, without --channels-last.
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 9, 9, 3), }"
  head -c 972 s.pack; } >last.npy
                                                        bad 'last.npy: samples of 9 channels .*data pack --channels-last' last.npy
expect 0 data inspect last.npy
prints 'pack it with --channels-last'
prints 'data x : image(3, 9, 9) scale(-1, 1)'
expect 0 data pack last.npy --channels-last --size 8 -o last.pack
expect 0 train tiny.gan --data x=last.pack --batch 4 --steps 1 --out run; rm -r run
# As many streams as a checkpoint has positions for.
{ echo 'model many'; for i in $(seq 65); do echo "data x$i : float(1)"; done
  echo 'net G(z: [1]) -> [1] = z |> dense(1)'; printf 'step { update G minimize mean(sum(G(x1)'
  for i in $(seq 2 65); do printf ' + x%s' "$i"; done; echo ', sample)) using sgd(lr=0.1) }'; } >many.gan
npy one.npy '4, 1' '\000\000\200\077\000\000\200\077\000\000\200\077\000\000\200\077'
refused 1 'has 65 `data` statements, the maximum is 64' ganrun train many.gan \
    $(for i in $(seq 65); do echo "--data x$i=one.npy"; done) --batch 4 --steps 1 --out run
# Of numbers of 64 bits 32 are kept, which is said where more could matter: 0.1 and 0.5, two samples each.
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 1), }"
  for i in 1 2; do printf '\232\231\231\231\231\231\271\077\000\000\000\000\000\000\340\077'; done; } >wide.npy
{ echo 'model wide'; echo 'data x : float(1)'; echo 'net G(z: [1]) -> [1] = z |> dense(1)'
  echo 'step { update G minimize mean(sum(G(x), sample)) using sgd(lr=0.1) }'; } >wide.gan
expect 0 train wide.gan --data x=wide.npy --batch 4 --steps 1 --device ref --precision f64 --out run; rm -r run
says 'wide.npy: its numbers are rounded to 32 bits, in 2 of 4 samples$'
expect 0 train wide.gan --data x=wide.npy --batch 4 --steps 1 --device ref --out run; rm -r run
grep -q rounded err && fail 'in f32 there is nothing to say'
expect 0 data pack wide.npy -o wide.pack
says '^numbers rounded to 32 bits: in 2 of 4$'
# Control bytes in names do not reach a terminal.
odd_name=$(printf 'esc\033[2J.png')
mkdir escapes; echo text >"escapes/$odd_name"
expect 1 data inspect escapes
prints 'esc?\[2J.png: not a PNG'
expect 1 data pack escapes -o escapes.pack
says '^bad: esc?\[2J.png: not a PNG'
expect 1 train tiny.gan --data "x=escapes/$odd_name" --batch 4 --steps 1 --out none
says 'esc?'
LC_ALL=C grep -q "$(printf '\033')" out err && fail 'an escape sequence was printed'
# CIFAR's folders and pickles say what to use instead; a table of numbers is read.
mkdir binary python
: >binary/data_batch_1.bin; : >binary/data_batch_2.bin; : >python/batches.meta; : >python/data_batch_1
refused 1 'binary: .* named one by one: --data x=FILE for each' ganrun data pack binary -o c.pack
refused 1 'python: CIFAR.s Python version, of pickles' ganrun data inspect python
printf '\200\002}.' >p.pickle;                          bad 'p.pickle: a pickle, which is a program for Python' p.pickle
printf 'a,b\n1,2\n3,4\n' >t.csv;                       refused 2 'o t.csv: this is what is to be packed' ganrun data pack t.csv -o t.csv
printf 'a,b\n1,2\n3,x\n' >t.csv;                       bad 't.csv: line 3: `x` in column b is not a number' t.csv
sed 's/x/4/' t.csv >numbers.csv
expect 0 data inspect numbers.csv
prints 'data x : float(2)'
expect 0 data pack numbers.csv -o numbers.pack
expect 0 data inspect numbers.pack
prints 'data x : float(2)'
absent c.pack
# The folder of a run is rejected: its images are sample grids. A folder of samples that it wrote is accepted.
expect 0 train tiny.gan --data x=s.pack --batch 4 --steps 1 --out run
for words in 'inspect run' 'pack run --size 8 -o grids.pack'; do
    expect 1 data $words
    says 'run: the folder of a run, not of samples: `ganrun report` shows it'
done
absent grids.pack
expect 1 train tiny.gan --data x=run --batch 4 --steps 1 --out other
says 'run: the folder of a run, not of samples'
absent other
expect 0 sample run -o made/ --count 4
expect 0 data inspect made
rm -r run

# What images lose as they become the model's is said, unless an option asked for it.
cat >grey.gan <<'MODEL'
model grey
data x : image(1, 8, 8) scale(-1, 1)
net D(x: [1, 8, 8]) -> [] = flatten(x) |> dense(1) |> squeeze
step { update D minimize mean(D(x)) using adam() }
MODEL
expect 0 train grey.gan --data x=made --batch 4 --steps 1 --out run
says '/made: of 4 images 4 are in colour, and made grey: a field image(3, ...) keeps colours$'
expect 0 data pack made --channels 1 -o grey.pack
! grep -q colour err || fail '--channels 1 asks for grey'
expect 0 train grey.gan --data x=grey.pack --batch 4 --steps 1 --out run --resume auto
! grep -q colour err || fail 'grey images have no colours to lose'
rm -r run
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 4, 8, 8), }"
  head -c 1024 s.pack; } >clear.npy
expect 0 train tiny.gan --data x=clear.npy --batch 4 --steps 1 --out run; rm -r run
says 'clear.npy: of 4 images 4 are transparent in places, and put on the background: white, unless `ganrun data pack'
expect 0 data pack clear.npy --size 6 -o clear.pack
says '^transparent in places, and put on the background: 4 of 4$'
expect 0 data pack clear.npy --size 6 -o clear.pack --background black
! grep -q background err || fail '--background says which'
o='\000\000\200\077' nan='\000\000\300\177' inf='\000\000\200\377'
npy ok.npy  '5, 4' $o $o $o $o  $o $o $o $o  $o $o $o $o  $o $o $o $o  $o $o $o $o
npy nan.npy '5, 4' $o $o $o $o  $o $o $o $o  $o $o $nan $o  $o $o $o $o  $o $o $o $o
npy inf.npy '5, 4' $o $o $o $o  $o $o $o $o  $o $o $o $o  $o $o $o $o  $o $inf $o $o
npy wide.npy '4, 5' $o $o $o $o $o  $o $o $o $o $o  $o $o $o $o $o  $o $o $o $o $o
expect 0 train numbers.gan --data x=ok.npy --batch 4 --steps 1 --out run; rm -r run
                                                        bad 'nan.npy: 1 of 5 samples.*; where NaN means' nan.npy numbers.gan
                                                        says '^nan.npy:2: NaN at element 2'
                                                        bad 'inf.npy: 1 of 5 samples.* leaves them out$' inf.npy numbers.gan
                                                        says '^inf.npy:4: infinity at element 1'
                                                        bad 'wide.npy: x: .*expects \[4\], the data has \[5\]' wide.npy numbers.gan
head -c 190 ok.npy >cut.npy;                            bad 'cut.npy: npy has .* bytes' cut.npy numbers.gan
npy huge.npy '5, 999999999999999999999' $o;             bad 'huge.npy: ' huge.npy numbers.gan
npy minus.npy '-5, 4' $o;                               bad 'minus.npy: ' minus.npy numbers.gan
                                                        bad 'ok.npy: its samples are not images .* data inspect. gives' ok.npy tiny.gan
                                                        bad 's.pack: x: .*expects \[4\], the data has \[3, 8, 8\]' s.pack numbers.gan
expect 0 train numbers.gan --data x=nan.npy --batch 4 --steps 1 --out run --skip-bad
says '^nan.npy:2: NaN'

# Attributes of a table are a vector; its length must be the model's.
cat >attributes.gan <<'MODEL'
model attributes
config n = 2 "attributes"
data x : image(3, 8, 8) scale(-1, 1), y : float(n)
data target : float(n)
net G(z: [2], y: [n]) -> [3, 8, 8] = concat(z, y) |> dense(192) |> reshape(3, 8, 8)
net D(x: [3, 8, 8], y: [n]) -> [] = concat(flatten(x), y) |> dense(1) |> squeeze
opt = adam(lr=1e-3)
step {
  fake = G(normal(2), target)
  update D minimize mean(D(x, y)) - mean(D(fake, target)) using opt
  update G minimize mean(D(fake, target)) using opt
}
MODEL
printf '6\nMale Young Bald\n' >attr.txt
for i in 1 2 3 4 5 6; do echo "$i.jpg  1 -1 -1" >>attr.txt; done
expect 0 data pack few -o attr.pack --size 8 --labels attr.txt --label-columns Male,Bald
expect 0 train attributes.gan --data x=attr.pack --data target=attr.pack --batch 4 --steps 1 --out attributes
refused 1 'attr.pack: y: the model expects \[3\], the data has \[2\]' ganrun train attributes.gan -s n=3 \
    --data x=attr.pack --data target=attr.pack --batch 4 --steps 1 --out more

# A class comes with its image, from the same --data.
cat >classes.gan <<'MODEL'
model classes
data x : image(3, 8, 8) scale(-1, 1), y : label(2)
net D(x: [3, 8, 8], y: label(2)) -> [] = concat(flatten(x), one_hot(y)) |> dense(1) |> squeeze
step { update D minimize mean(D(x, y)) using adam() }
MODEL
refused 1 'y: .*few has samples, of which labels are a part: leave out --data y' ganrun train classes.gan \
    --data x=few --data y=few --batch 4 --steps 1 --out more

# Labels that begin with 1.
for i in 1 2 3 4 5 6; do echo "$i.jpg  $((1 + i % 2))"; done >one.txt
expect 0 data pack few -o one.pack --size 8 --labels one.txt
says '^no sample has a class below 1: --first-class 1 makes it class 0$'
expect 0 data inspect one.pack
prints '^  *they begin with 1: `data pack --first-class 1` makes it class 0$'
refused 1 'one.pack: y: the data has 3 classes, the model.s label has 2: .*; no sample is of a class below 1: .*--first-class 1' \
    ganrun train classes.gan --data x=one.pack --batch 4 --steps 1 --out more
expect 0 data pack few -o zero.pack --size 8 --labels one.txt --first-class 1
! grep -q first-class err || fail 'they begin with 0 now'
expect 0 data inspect zero.pack
prints '2 classes of 3 samples$'
expect 0 train classes.gan --data x=zero.pack --batch 4 --steps 1 --out more
rm -r more
refused 1 'one.txt: it has class 1, and --first-class is 2' ganrun data pack few -o two.pack --size 8 --labels one.txt --first-class 2
refused 2 'is for --labels that are numbers' ganrun data pack few -o two.pack --size 8 --labels folders --first-class 1
refused 2 'is for --labels that are numbers' ganrun data pack few -o two.pack --size 8 --first-class 1
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }"; printf '\002\001\001\003'; } >y.npy
{ printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 1), }"; printf '\001\001\000\001'; } >y1.npy    # as Keras has them
expect 0 data pack clear.npy --channels 3 --labels y1.npy -o y1.pack
refused 1 'y: the labels of .*y1.pack are vectors, .*; classes are one axis of whole numbers' \
    ganrun train classes.gan --data x=y1.pack --batch 4 --steps 1 --out more
expect 0 data pack clear.npy --size 6 --labels y.npy --first-class 1 -o clear.pack
expect 0 data inspect clear.pack
prints '3 classes of 1 to 2 samples$'
refused 2 "'8,8' is not a size: N or WxH" ganrun data pack few --size 8,8 -o out.pack

# A pack may be replaced, nothing else.
printf '1,2\n3,4\n' >plain.csv
cp "$(dirname -- "$0")/tiny.gan" mine.gan
refused 1 'mine.gan is there already, and is no pack' ganrun data pack plain.csv -o mine.gan
refused 1 'mine.gan is there already, and is no pack' ganrun data synth shapes --count 4 --size 8 -o mine.gan
refused 1 'mine.gan is there already, and is no npy file' ganrun data synth ring --count 4 -o mine.gan
same mine.gan "$(dirname -- "$0")/tiny.gan"
expect 0 data synth ring --count 4 -o mine.numbers
expect 0 data synth ring --count 4 -o mine.numbers
: >fresh.pack
expect 0 data pack plain.csv -o fresh.pack
expect 0 data pack plain.csv -o fresh.pack
