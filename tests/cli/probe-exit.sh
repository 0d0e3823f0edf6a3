#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Exit codes and the one line that explains each: what is not a device, what is empty, what is both, what cannot be
# opened, and answers that cannot be written.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat sfdisk

make_ext4 a.img 16M 'a label'
make_dos dos.img
truncate -s 16M empty.img
ambivalent='ambivalent result (probably more filesystems on the device, use wipefs(8) to see more details)'

# 0
gives 'a file system' 0 "$blkup" probe a.img
is 'a file system: nothing on stderr' "$err" ''
gives 'a table' 0 "$blkup" probe dos.img
gives 'several' 0 "$blkup" probe a.img dos.img

# 2: nothing, every place was read
gives 'nothing' 2 "$blkup" probe empty.img
is 'nothing: not a word' "$out$err" ''
for size in 0 1 511 512 513 1023 1024 1025 1537 4095 65537 1474559 1474560 1474561 1999999; do
        truncate -s 0 odd.img
        truncate -s $size odd.img
        for mode in full value device udev export; do
                gives "$size zero bytes, -o $mode" 2 "$blkup" probe -o $mode odd.img
                is "$size zero bytes, -o $mode: not a word" "$out$err" ''
        done
        # All ones look like no format either.
        tr '\0' '\377' <odd.img >ones.img
        gives "$size bytes of 0xff" 2 "$blkup" probe ones.img
        is "$size bytes of 0xff: not a word" "$out$err" ''
done
# A table in a file that is too small for file systems is still a table.
head -c 512 dos.img >tiny.img
is '512 bytes with a table' "$("$blkup" probe -o value -s PTTYPE tiny.img)" dos

# 2: missing, or no device; the others are still looked at
mkdir dir
mkfifo fifo
ln -s loop loop
ln -s nowhere dangling
for name in nosuch nosuch/deeper a.img/deeper dir /dev/null /dev/full fifo loop dangling '' "$(printf 'x%.0s' {1..300})"; do
        one_line "'${name::20}'" 2 "blkup: probe: $name: " "$blkup" probe "$name"
done
gives 'missing before one that is there' 0 "$blkup" probe -o device nosuch a.img
is 'missing before one that is there: it is told' "$(grep -c nosuch err.txt)" 1
is 'missing before one that is there: the answer' "$out" a.img
gives 'a folder after one that is there' 0 "$blkup" probe -o device a.img dir
one_line 'name with a line break and an escape' 2 'blkup: probe: no\x0asuch\x1b: ' "$blkup" probe $'no\nsuch\e'

# 2: no permission
if [ "$(id -u)" != 0 ]; then
        cp a.img secret.img
        chmod 000 secret.img
        one_line 'no permission' 2 'secret.img: Permission denied; try as root' "$blkup" probe secret.img
        gives 'no permission ends the run' 2 "$blkup" probe -o device secret.img a.img
elif have setpriv && chmod 755 "$work" && cp a.img secret.img && chmod 000 secret.img &&
        setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all test -x "$blkup" 2>/dev/null; then
        # Where a coverage build writes what it counts, instead of complaining on stderr.
        mkdir -m 1777 counts
        nobody=(env GCOV_PREFIX="$work/counts" setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all
                --bounding-set=-all)
        one_line 'no permission' 2 'secret.img: Permission denied; try as root' "${nobody[@]}" "$blkup" probe secret.img
        gives 'no permission ends the run' 2 "${nobody[@]}" "$blkup" probe -o device secret.img a.img
        is 'no permission ends the run: no answer' "$out" ''
        # Root of whom the machine keeps something away is not told to become root.
        chown 65534 secret.img
        weak=(env GCOV_PREFIX="$work/counts" setpriv --inh-caps=-all --bounding-set=-all)
        gives 'no permission, as root' 2 "${weak[@]}" "$blkup" probe secret.img
        is 'no permission, as root: what is said' "$err" 'blkup: probe: secret.img: Permission denied'
else
        skip 'no permission: nobody cannot be taken on here'
fi

# 8
make_ambivalent both.img
for mode in full value device export; do
        one_line "ambivalent, -o $mode" 8 "both.img: $ambivalent" "$blkup" probe -o $mode both.img
done
gives 'ambivalent, -o udev' 8 "$blkup" probe -o udev both.img
is 'ambivalent, -o udev: the line' "$out" 'ID_FS_AMBIVALENT=filesystem:vfat:FAT16 filesystem:ext4:1.0'
is 'ambivalent, -o udev: no word' "$err" ''
is 'ambivalent: -n decides' "$("$blkup" probe -n ext4 -o value -s TYPE both.img)" ext4

# the first that is not 0 ends the run
gives 'found, nothing, found' 2 "$blkup" probe -o device a.img empty.img dos.img
is 'found, nothing, found: ended' "$out" a.img
gives 'found, ambivalent, nothing' 8 "$blkup" probe -o device a.img both.img empty.img
is 'found, ambivalent, nothing: ended' "$out" a.img
gives 'nothing, ambivalent' 2 "$blkup" probe -o device empty.img both.img
is 'nothing, ambivalent: ended' "$out$err" ''
gives 'missing, nothing, found' 2 "$blkup" probe -o device nosuch empty.img a.img
# ... but the table and JSON have a place for all of them
gives 'JSON goes on' 2 "$blkup" probe --json a.img empty.img both.img nosuch dos.img
is 'JSON goes on: all' "$(grep -c '"device":' out.txt)" 5
gives 'the table goes on' 2 "$blkup" probe --columns NAME a.img empty.img both.img nosuch dos.img
is 'the table goes on: all' "$(wc -l <out.txt)" 6

# 4: the answer cannot be written
for how in '' --json '--columns NAME' '-o udev' '--json --columns NAME' '--columns +PTUUID --partitions'; do
        code=0
        # shellcheck disable=SC2086
        "$blkup" probe $how dos.img >/dev/full 2>err.txt || code=$?
        is "full disk $how: exit" "$code" 4
        is "full disk $how: line" "$(cat err.txt)" 'blkup: probe: standard output: No space left on device'
        code=0
        # shellcheck disable=SC2086
        "$blkup" probe $how dos.img >&- 2>err.txt || code=$?
        is "closed stdout $how: exit" "$code" 4
        is "closed stdout $how: line" "$(cat err.txt)" 'blkup: probe: standard output: Bad file descriptor'
done
if have prlimit; then
        code=0
        prlimit --fsize=10 "$blkup" probe a.img >small.txt 2> >(cat >err.txt) || code=$?
        is 'file too large: exit' "$code" 4
else
        skip 'file too large: no prlimit here'
fi
mapfile -t many < <(for ((i = 0; i < 2000; i++)); do echo a.img; done)
code=0
"$blkup" probe "${many[@]}" >/dev/full 2>err.txt || code=$?
is 'full disk, long answer: exit' "$code" 4
is 'full disk, long answer: one line' "$(wc -l <err.txt)" 1
code=0
{ "$blkup" probe "${many[@]}" 2>err.txt || echo $? >code.txt; } | true
is 'reader gone: exit' "$(cat code.txt)" 4
is 'reader gone: line' "$(cat err.txt)" 'blkup: probe: standard output: Broken pipe'
code=0
"$blkup" probe a.img >&- 2>&- || code=$?
is 'closed stdout and stderr' "$code" 4
code=0
"$blkup" probe empty.img >&- 2>&- <&- || code=$?
is 'all closed, no answer to write' "$code" 2

# An image on a descriptor that was closed must not become stdout: it is untouched.
cp a.img before.img
for ((i = 0; i < 3; i++)); do "$blkup" probe a.img >&- 2>/dev/null || true; done
for ((i = 0; i < 3; i++)); do "$blkup" probe --debug --io-stats a.img >/dev/null 2>&- || true; done
is 'the image is as it was' "$(cmp a.img before.img && echo same)" same

finish
