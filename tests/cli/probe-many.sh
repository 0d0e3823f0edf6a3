#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Many at a time: order, separators, exit codes; what hangs or dies is named and stops nothing.
# probe-many.sh BLKUP HANG: HANG is a library to preload that makes opening of *hang* never end and of *crash* kill.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
hang=${2:-}
need mkfs.ext4 mkfs.vfat sfdisk jq

make_ext4 a.img 4M a
make_vfat b.img 8M B
make_gpt c.img
make_ambivalent both.img
truncate -s 4M empty.img
mkdir dir
cp a.img $'new\nline.img'
names=(a.img b.img c.img)

# order, and the same text as one after the other
for ((i = 0; i < 40; i++)); do printf '%s\n' "${names[@]}"; done >list
mapfile -t many <list
for mode in full value device udev export; do
        "$blkup" probe -o $mode "${many[@]}" >want.txt
        for j in 1 2 7 1000; do
                gives "-o $mode -j $j" 0 "$blkup" probe -o $mode -j $j --files-from list
                is "-o $mode -j $j: text" "$(cmp out.txt want.txt && echo same)" same
        done
        gives "-o $mode, time limit" 0 "$blkup" probe -o $mode --timeout 10 --files-from list
        is "-o $mode, time limit: text" "$(cmp out.txt want.txt && echo same)" same
        gives "-o $mode, names and -j" 0 "$blkup" probe -o $mode -j 3 "${many[@]}"
        is "-o $mode, names and -j: text" "$(cmp out.txt want.txt && echo same)" same
done
"$blkup" probe -o full "${many[@]}" >want.txt
gives 'usual mode' 0 "$blkup" probe --files-from list
is 'usual mode: text' "$(cmp out.txt want.txt && echo same)" same
printf '%s\0' a.img $'new\nline.img' >list0
gives 'NUL' 0 "$blkup" probe -0 --files-from list0 -o value -s TYPE
is 'NUL: both' "$out" $'ext4\next4'
is 'from standard input, after the others' "$("$blkup" probe --files-from - -o device b.img <<<$'\n\na.img\n\n')" $'b.img\na.img'
is 'no newline at the end' "$(printf 'a.img\nb.img' | "$blkup" probe --files-from - -o device)" $'a.img\nb.img'

# JSON
gives 'lines' 0 "$blkup" probe --json=lines --files-from list
is 'lines: one each' "$(jq -r .device out.txt | cmp - list && echo same)" same
gives 'array' 0 "$blkup" probe --json --files-from list
is 'array: one each' "$(jq -r '.devices[].device' out.txt | cmp - list && echo same)" same
is 'array: schema' "$(jq .blkup.schema out.txt)" 1
is 'the same as one after the other' "$(jq -c '.devices[]' out.txt)" "$("$blkup" probe --json "${many[@]}" | jq -c '.devices[]')"
gives 'columns' 0 "$blkup" probe --json=lines --columns NAME,FSTYPE --files-from list
is 'columns' "$(head -1 out.txt)" '{"name":"a.img","fstype":"ext4"}'
gives 'partitions' 0 "$blkup" probe --json=lines --partitions c.img
is 'partitions' "$(jq '.partitions | length' out.txt)" 2
: >none
gives 'an empty list' 2 "$blkup" probe --json --files-from none
is 'an empty list: valid' "$(jq -c .devices out.txt)" '[]'

# what is bad ends nothing; the worst decides
printf '%s\n' nosuch a.img both.img empty.img dir b.img >bad
gives 'bad ones' 8 "$blkup" probe -o device --files-from bad
is 'bad ones: the good' "$out" $'a.img\nb.img'
is 'bad ones: named in order' "$(cut -d: -f3 err.txt | tr -d ' ')" $'nosuch\nboth.img\ndir'
gives 'nothing' 2 "$blkup" probe -o device -j 2 a.img empty.img b.img
gives 'missing' 2 "$blkup" probe -o device -j 2 a.img nosuch b.img
gives 'lines of bad ones' 8 "$blkup" probe --json=lines --files-from bad
is 'lines of bad ones: verdicts' "$(jq -r .verdict out.txt | tr '\n' ' ')" 'unknown found ambivalent nothing unknown found '

# wrong use
usage_error '-0 alone' 4 '--files-from' "$blkup" probe -0 a.img
usage_error '-j 0' 4 "'0'" "$blkup" probe -j 0 a.img
usage_error '-j x' 4 "'x'" "$blkup" probe -j x a.img
for t in 0 0.0 x . 1.2345 -1 ''; do usage_error "--timeout '$t'" 4 '--timeout' "$blkup" probe --timeout "$t" a.img; done
usage_error 'table' 4 'not with a table' "$blkup" probe --columns NAME -j 2 a.img
usage_error 'timeline' 4 '--timeline' "$blkup" probe --timeline x.json --timeout 2 a.img
usage_error 'json words' 4 "'mumble'" "$blkup" probe --json=mumble a.img
one_line 'list that is not there' 4 'nosuch: No such file' "$blkup" probe --files-from nosuch
one_line 'list that is a folder' 4 'dir: Is a directory' "$blkup" probe --files-from dir
code=0
"$blkup" probe --files-from list >/dev/full 2>err.txt || code=$?
is 'full disk: exit' "$code" 4
is 'full disk: one line' "$(cat err.txt)" 'blkup: probe: standard output: No space left on device'
gives 'costs' 0 "$blkup" probe --io-stats=json -o device -j 2 a.img b.img
is 'costs: in order' "$(jq -r 'select(.bytes > 0).device' err.txt)" $'a.img\nb.img'

# progress is for terminals
is 'no progress elsewhere' "$("$blkup" probe --files-from list 2>&1 >/dev/null)" ''

# no processes, or not enough of what they need: fewer look, or this one
"$blkup" probe -o full a.img b.img c.img >want.txt
if have prlimit; then
        for n in 4 5 6 7 8 9 10 11 12; do
                # A build that needs more to start at all says nothing about this.
                prlimit --nofile=$n "$blkup" --version >/dev/null 2>&1 || continue
                run env ASAN_OPTIONS=detect_leaks=0 prlimit --nofile=$n "$blkup" probe -j 3 -o full a.img b.img c.img
                # An image that there is no descriptor for is named, and the exit code says so.
                unopened=$(grep -c 'img: Too many open files: this process may open no more, raise ulimit -n$' err.txt || true)
                is "$n descriptors: each image" "$((unopened + $(wc -l <out.txt)))" 3
                is "$n descriptors: exit" "$code" "$((unopened > 0 ? 4 : 0))"
        done
else
        skip 'few descriptors: no prlimit here'
fi
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
[ "$(id -u)" = 0 ] || nobody=()
if have prlimit && have setpriv && chmod 755 "$work" && chmod 644 ./*.img && "${nobody[@]}" test -x "$blkup" 2>/dev/null; then
        gives 'no process' 0 "${nobody[@]}" env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=0 "$blkup" probe -j 3 -o full a.img b.img c.img
        is 'no process: text' "$(cmp out.txt want.txt && echo same)" same
        gives 'no process: JSON' 0 "${nobody[@]}" env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=0 "$blkup" probe -j 3 --json a.img b.img c.img
        is 'no process: JSON' "$(jq '.devices | length' out.txt)" 3
        one_line 'no process and a time limit' 4 'cannot go on' "${nobody[@]}" env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=0 "$blkup" probe --timeout 5 a.img
else
        skip 'no process: nobody cannot be taken on here'
fi

# what hangs, what dies
if [ -z "$hang" ] || [ ! -e "$hang" ] || ! LD_PRELOAD=$hang true 2>/dev/null; then
        skip 'hanging and dying: no library to preload'
        finish
fi
cp a.img hang.img
cp a.img crash.img
probe=(env LD_PRELOAD="$hang" ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "$blkup" probe)
# what cannot be opened for a reason that says nothing of it
for name in nofile stale; do
        cp a.img $name.img
        one_line "$name" 4 "blkup: probe: $name.img: " "${probe[@]}" $name.img
        gives "$name: JSON" 4 "${probe[@]}" --json $name.img a.img
        one_line "$name: blkid" 4 "blkup: blkid: $name.img: " "${probe[@]::4}" blkid $name.img
        one_line "$name: blkid -p" 4 "blkup: blkid: $name.img: " "${probe[@]::4}" blkid -p $name.img
done
printf '%s\n' a.img hang.img b.img crash.img c.img >list
for ((i = 0; i < 5; i++)); do cat list; done >list5
run "${probe[@]}" --files-from list5 -j 3 --timeout 0.3 -o device
is 'hanging and dying: exit' "$code" 4
is 'hanging and dying: the others, in order' "$out" "$(grep -v -e hang -e crash list5)"
is 'hanging and dying: named' "$(sort err.txt | uniq -c | sed 's/^ *//')" \
        '5 blkup: probe: crash.img: the process that looked at it died: nothing can be said'$'\n''5 blkup: probe: hang.img: no answer in time: nothing can be said'
run "${probe[@]}" --json=lines --timeout 0.3 hang.img a.img
is 'hanging: JSON' "$(jq -c '[.device, .verdict, .error]' out.txt)" '["hang.img","unknown","no answer in time"]'$'\n''["a.img","found",null]'
grep -v hang list5 >listc
run "${probe[@]}" --files-from listc -j 2 -o device
is 'dying without a time limit' "$code $out" "4 $(grep -v -e hang -e crash list5)"
finish
