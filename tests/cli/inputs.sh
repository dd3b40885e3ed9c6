#!/bin/sh
# inputs.sh - inputs of a `sample`: class after class and random noise by default, or values of --input.
. "$(dirname -- "$0")/lib.sh"
cat >m.gan <<'END'
model inputs "a sample with inputs"
data x : float(2)
net G(z: [3], y: label(4)) -> [2] = concat(z, one_hot(y, 4)) |> dense(2)
net D(x: [2]) -> [] = x |> dense(4) |> tanh |> dense(1) |> squeeze
opt = adam(lr=1e-2)
step {
  fake = G(normal(3), categorical(4))
  update D minimize bce(D(x), 1) + bce(D(fake), 0) using opt
  update G minimize bce(D(fake), 1) using opt
}
sample fakes(y: label(4)) = G(normal(3), y)
sample told(z: [3], y: label(4)) {
  class = unsqueeze(y, 0)
  concat(z, class)
}
sample pairs(a: label(2), z: [1], b: label(3)) = concat(z, unsqueeze(a, 0), unsqueeze(b, 0))
sample classes(b: label(2), c: label(3), a: label(1)) = expand(reshape(b + 2*c, 1, 1, 1), 1, 4, 4)
sample single(a: label(1)) = expand(reshape(a + 0*normal(1), 1, 1, 1), 1, 4, 4)
sample one(y: label(4)) = expand(y/3, 1, 4, 4)
END
"$ganrun" data synth ring --out x.pack --count 200 >/dev/null
expect 0 train m.gan --data x=x.pack --batch 3 --steps 2 --out run --threads 1
draw() { expect 0 sample run --entry told -o s.npy --threads 1 "$@"; }
column() { tail -c +129 s.npy | od -An -v -w16 -tf4 | awk -v c="$1" '{ printf "%s ", $c }'; }

# Classes in turn, over batches of three; different noise for each sample, reproducible.
draw --count 6
[ "$(column 4)" = '0 1 2 3 0 1 ' ] || fail "classes: $(column 4)"
[ "$(column 1 | tr ' ' '\n' | sort -u | grep -c .)" = 6 ] || fail "draws: $(column 1)"
cp s.npy z.npy
draw --count 6
same s.npy z.npy
draw --count 6 --seed 5
cmp -s s.npy z.npy && fail 'another seed gives the same draws'

# --input values are repeated from the first.
draw --count 5 --input y=3,1
[ "$(column 4)" = '3 1 3 1 3 ' ] || fail "given classes: $(column 4)"
expect 0 sample run --entry fakes -o f.npy --count 4 --threads 1
expect 2 sample run --entry told -o s.npy --input z=1
says 'an .npy file'
"$ganrun" sample run --entry told -o rows.npy --count 2 --threads 1 >/dev/null
expect 1 sample run --entry told -o s.npy --input z=rows.npy
says 'needs an array .n, 3.: .3. for each sample'
expect 2 sample run --entry told -o s.npy --input y=4
says 'not a class from 0 to 3'
expect 2 sample run --entry told -o s.npy --input y=two
says 'needs numbers'
expect 2 sample run --entry told -o s.npy --input Y=1
says 'did you mean `y`?'
expect 3 sample run --entry told -o s.npy --input z=nothing.npy
says 'nothing.npy'
expect 2 sample run --entry told -o s.npy --input w=1
says ': there are `z`, `y`$'
expect 2 sample run --entry told -o s.npy --input y=1 --input y=2
says '--input y is given twice'

# Two class inputs: all pairs, the last varies fastest; an input given by --input is not enumerated.
pairs() { expect 0 sample run --entry pairs -o p.npy --threads 1 "$@"; tail -c +129 p.npy | od -An -v -w12 -tf4 | awk '{ printf "%s%s ", $2, $3 }'; }
got=$(pairs --count 7)
[ "$got" = '00 01 02 10 11 12 00 ' ] || fail "pairs: $got"
got=$(pairs --count 4 --input b=2)
[ "$got" = '02 12 02 12 ' ] || fail "pairs of a given one: $got"
expect 1 interp run --entry classes -o i.npy --rows 2 --count 2 --threads 1
says 'nothing to interpolate'

# A grid's columns are the classes of the fastest varying input; an input with one class does not count.
width() { od -An -j16 -N4 -tu1 "$1" | awk '{ print 256*$3 + $4 }'; }
expect 0 sample run --entry classes -o six.png --count 12 --threads 1
expect 0 sample run --entry single -o all.png --count 36 --threads 1
expect 0 sample run --entry one -o eight.png --count 8 --threads 1
[ "$(width six.png)" = "$(width all.png)" ] || fail "6 columns: $(width six.png), $(width all.png)"
[ "$(width eight.png)" -gt "$(width six.png)" ] || fail "8 columns: $(width eight.png)"
expect 0 sample run --entry fakes -o codes.npy --count 4 --threads 1
cat >codes.gan <<'END'
model codes "its sample is of the shape of another's input"
net G(z: [3]) -> [3] = z |> dense(3)
step { update G minimize mse(G(normal(3)), 1) using sgd() }
sample made = G(normal(3))
sample back(z: [3]) = 2*z
END
expect 0 train codes.gan --batch 2 --steps 1 --out c --threads 1
expect 0 sample c --entry made -o made.npy --count 3 --threads 1
expect 0 sample c --entry back -o twice.npy --count 4 --input z=made.npy --threads 1
numbers() { tail -c +129 "$1" | od -An -v -w4 -tf4; }
{ numbers made.npy; numbers made.npy | head -3; } | awk '{ print 2*$1 }' >want
numbers twice.npy | awk '{ print 1*$1 }' >got
near=$(paste want got | awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) print "far" }')
[ -z "$near" ] || fail 'not twice what was given'

# As many samples as an array has rows; rows of two arrays belong together; numbers are finite.
expect 0 sample c --entry back -o twice.npy --input z=made.npy --threads 1
[ "$(numbers twice.npy | wc -l)" = 9 ] || fail 'other than a sample for each row'
expect 0 sample run --entry told -o two.npy --count 2 --threads 1
cat >both.gan <<'END'
model both
net G(z: [1]) -> [1] = z |> dense(1)
step { update G minimize mean(G(normal(1))^2) using sgd() }
sample apart(a: [3], b: [3], c: []) = a - b + c
sample inverse(a: [3]) = 1/(a - a)
END
expect 0 train both.gan --batch 2 --steps 1 --out both --threads 1
npy() { # npy FILE ROWS NUMBERS: three a row
    { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2, 3), }"; printf "$3"; } >$1
}
zero='\0\0\0\0' one='\0\0\200\077' nan='\0\0\300\177'
npy one.npy 1 $one$one$one
npy two.npy 2 $one$one$one$zero$zero$zero
npy three.npy 3 $one$one$one$zero$zero$zero$one$one$one
npy nan.npy 2 $one$one$one$zero$nan$zero
expect 0 sample both --entry apart -o a.npy --input a=two.npy --input b=one.npy --input c=0,1,2
[ "$(numbers a.npy | wc -l)" = 6 ] || fail 'one row is for all samples'
refused 1 'three.npy has 3 rows, an array before it 2' ganrun sample both --entry apart -o no.npy --input a=two.npy --input b=three.npy
refused 2 'input a: number 4, for sample 1, is NaN' ganrun sample both --entry apart -o no.npy --input a=nan.npy
refused 2 'input c: number 1, for sample 1, is beyond f32' ganrun sample both --entry apart -o no.npy --input c=1,1e39
expect 0 sample both --entry inverse -o a.npy --input a=two.npy
says '^2 of 2 samples have numbers that are not finite$'

# A grid has a column for each class; rows of `interp` keep their class.
expect 0 sample run --entry one -o g.png --count 8 --threads 1
expect 0 interp run --entry told -o i.npy --rows 3 --count 2 --threads 1
tail -c +129 i.npy | od -An -v -w16 -tf4 | awk '{ printf "%s ", $4 }' >classes
[ "$(cat classes)" = '0 0 1 1 2 2 ' ] || fail "classes along rows: $(cat classes)"

# Volumes are shown as their maximum along depth, curves are plotted.
cat >shown.gan <<'END'
model shown "shapes that are no pictures"
net G(z: [3]) -> [3] = z |> dense(3)
step { update G minimize mse(G(normal(3)), 1) using sgd() }
sample volume = expand(reshape(arange(5)/4, 1, 5, 1, 1), 1, 5, 4, 4) + 0*normal(1, 1, 1, 1)
sample flat   = expand(1, 1, 4, 4) + 0*normal(1, 1, 1)
sample curve  = expand(0.5, 1, 40) + 0*normal(1, 1)
sample line   = stack(reshape(2*arange(40)/39 - 1, 40), expand(0.5, 40)) + 0*normal(1, 1)
END
expect 0 train shown.gan --batch 2 --steps 1 --out shown --threads 1
for entry in volume flat curve line; do expect 0 sample shown --entry $entry -o $entry.png --count 4 --threads 1; done
same volume.png flat.png
same curve.png line.png

# A pack written into the folder that it is made from.
pack; mkdir within; for i in 1 2 3; do expect 0 data preview s.pack -o within/$i.png --count $i; done
expect 0 data pack within -o within/own.pack --size 8
prints 'own.pack: 3 samples'

# Labels: folders are classes; a pack without labels is an error, a single class a warning.
cat >l.gan <<'END'
model labelled
data x : image(3, 8, 8) scale(-1, 1), y : label(4)
net D(x: [3, 8, 8], y: label(4)) -> [] = concat(flatten(x), one_hot(y)) |> dense(1) |> squeeze
step { update D minimize mean(D(x, y)) using adam(lr=1e-3) }
END
"$ganrun" data synth shapes --out p.pack --count 8 --size 8 >/dev/null
mkdir -p mixed sorted/a sorted/b
for i in 1 2 3 4; do "$ganrun" data preview p.pack -o mixed/$i.png --count "$i" --columns 1 >/dev/null 2>&1; done
cp mixed/1.png mixed/2.png sorted/a
cp mixed/3.png mixed/4.png sorted/b
"$ganrun" data pack mixed -o plain.pack --size 8 >/dev/null 2>&1
expect 1 train l.gan --data x=plain.pack --batch 2 --steps 1 --out none
says 'y: .*plain.pack has no labels; pack its source again with --labels'
expect 0 train l.gan --data x=mixed --batch 2 --steps 1 --out mixed.run
says 'y: all samples are of one class'
expect 0 train l.gan --data x=sorted --batch 2 --steps 1 --out sorted.run
grep -q 'one class' err && fail 'two folders are two classes'
says 'y: the data has 2 classes of the 4 that the model.s label has'
sed 's/label(4)/label(2)/g' l.gan >two.gan
expect 0 train two.gan --data x=sorted --batch 2 --steps 1 --out two.run
grep -q 'classes' err && fail 'a label of as many classes as the data'
true

# Classes by the names in the data.
cat >named.gan <<'END'
model named "classes that have names"
data x : image(3, 8, 8) scale(-1, 1), y : label(3)
net G(z: [3], y: label(3)) -> [3, 8, 8] = concat(z, one_hot(y)) |> dense(192) |> reshape(3, 8, 8)
step { update G minimize mse(G(normal(3), y), x) using sgd() }
sample which(y: label(3), k: label(5)) = concat(one_hot(y), one_hot(k))
END
"$ganrun" data synth shapes --out s.pack --count 12 --size 8 >/dev/null
expect 0 train named.gan --data x=s.pack --batch 3 --steps 1 --out named --threads 1
rm s.pack
expect 0 sample named -o n.npy --count 3 --input y=triangle,circle --input k=0 --threads 1
[ "$(tail -c +129 n.npy | od -An -v -w32 -tf4 | awk '{ printf "%s%s%s ", $1, $2, $3 }')" = '001 100 001 ' ] || fail 'not the classes named'
expect 2 sample named -o n.npy --input y=squares
says 'did you mean `square`?'
cp -r named comma && sed 's/"square"/"square, blue"/' named/options.json >comma/options.json
expect 0 sample comma -o n.npy --count 2 --input 'y=circle,square, blue' --input k=0 --threads 1
expect 0 sample named -o same.npy --count 2 --input y=circle,square --input k=0 --threads 1
same n.npy same.npy
sed 's/"fields": {"y": {"classes": \(\[[^]]*]\)}}/"classes": \1/' named/options.json >comma/options.json    # as earlier versions wrote it
grep -q '"classes": \["circle"' comma/options.json || fail "options.json: $(cat comma/options.json)"
expect 0 sample comma -o n.npy --count 2 --input y=circle,square --input k=0 --threads 1
same n.npy same.npy
expect 2 sample named --entry what
says 'model named has no sample `what`: there is `which`$'
expect 2 sample named --label 3
says 'write --input y=3'
expect 2 sample named -o n.npy --input k=square
says 'needs numbers'

# The folders of a data set's parts are no classes, but for one of them, and beside others.
mkdir -p whole/train whole/test vehicles
cp -r sorted/a sorted/b whole/train; cp -r sorted/a whole/Test; rmdir whole/test
refused 1 'whole: its folders Test, train are the parts of a data set, and no classes: name one of them' \
    ganrun train l.gan --data x=whole --batch 2 --steps 1 --out none
refused 1 'whole: its folders Test, train' ganrun data pack whole -o whole.pack --size 8 --labels folders
expect 0 data pack whole/train -o whole.pack --size 8 --labels folders
cp -r sorted/a vehicles/train; cp -r sorted/b vehicles/bus
expect 0 data pack vehicles -o whole.pack --size 8 --labels folders
expect 0 data pack whole -o all.pack --size 8

# Other data have the numbers of the run's classes, whichever of them there are; so has a run that goes on.
for folder in begun/bird begun/cat held/cat more/ape more/bird more/cat elks/elk; do
    mkdir -p $folder
    cp mixed/[12].png $folder
done
sed 's/^model.*/model told/; s/label(4)/label(2)/g' l.gan >told.gan
echo 'sample class = y + 0' >>told.gan
expect 0 train told.gan --data x=begun --batch 2 --steps 1 --out told --threads 1
classes() { expect 0 sample told --entry class --all -o y.npy --threads 1 "$@"; tail -c +129 y.npy | od -An -v -w4 -tf4 | tr -d ' \n'; }
[ "$(classes)" = 0011 ] && [ "$(classes --data x=held)" = 11 ] || fail "classes: $(classes) $(classes --data x=held)"
refused 1 'more: y: the run.s label has 2 classes, and has none for `ape`: there are `bird`, `cat`$' ganrun train told --data x=more
refused 1 'has none for samples in no class.s folder, `\.`: there are `bird`, `cat`$' ganrun sample told --entry class --all --data x=begun/cat -o y.npy
cp -r begun/cat begun/aye
refused 1 'begun: y: the run.s label has 2 classes, and has none for `aye`' ganrun train told --steps 2
rm -r begun/aye
sed 's/label(2)/label(4)/g' told.gan >wide.gan
expect 0 train wide.gan --data x=begun --batch 2 --steps 1 --out wide --threads 1
expect 0 train wide --data x=more --steps 2 --threads 1
expect 0 train wide --data x=elks --steps 3 --threads 1
grep -q '"y": {"classes": \["bird", "cat", "ape", "elk"]}' wide/options.json || fail "classes: $(cat wide/options.json)"
expect 0 sample wide --entry class --all --data x=begun -o y.npy --threads 1
[ "$(tail -c +129 y.npy | od -An -v -w4 -tf4 | tr -d ' \n')" = 0011 ] || fail 'classes of a run that went on elsewhere'

# An older version kept the names of one label of several, and not which it was.
mkdir -p signs/red && cp mixed/[12].png signs/red
cat >twice.gan <<'END'
model twice
data x : image(3, 8, 8) scale(-1, 1), y : label(2)
data u : image(3, 8, 8) scale(-1, 1), v : label(2)
net G(z: [3], y: label(2)) -> [3, 8, 8] = concat(z, one_hot(y)) |> dense(192) |> reshape(3, 8, 8)
step { update G minimize mse(G(normal(3), y), x) + mse(G(normal(3), v), u) using sgd() }
sample class = v + 0
END
expect 0 train twice.gan --data x=begun --data u=signs --batch 2 --steps 1 --out twice --threads 1
sed 's/"fields": .*"settings"/"classes": ["bird", "cat"], "settings"/' twice/options.json >older.json
grep -q '"classes": \["bird", "cat"], "settings"' older.json && ! grep -q fields older.json || fail "options.json: $(cat older.json)"
mv older.json twice/options.json
expect 0 sample twice --all -o y.npy --threads 1
[ "$(tail -c +129 y.npy | od -An -v -w4 -tf4 | tr -d ' \n')" = 00 ] || fail 'the classes of another label'
expect 0 train twice --steps 2 --threads 1
grep -q '"v": {"classes": \["red"]}' twice/options.json || fail "classes: $(cat twice/options.json)"

# A sample that is called like a net, and its input like a weight of it.
cat >alike.gan <<'END'
model alike
net H(z: [2]) -> [2] { param w : [2] = 1; w*z }
net G(z: [2]) -> [2] { param w : [2] = 1; w*z }
step { update G minimize mean(G(normal(2))^2) using sgd(0.1) }
sample H(w: [2]) = H(w)
END
expect 0 train alike.gan --batch 2 --steps 1 --out alike --threads 1
expect 0 sample alike -o alike.npy --count 3 --threads 1
