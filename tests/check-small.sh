#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The prober alone, as one static file, is small enough for any initramfs, and answers as the usual build does; the whole
# command has not grown beyond what it had come to.
# usage: check-small.sh ROOT BLKUP
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd) blkup=$(realpath "${2:?BLKUP}")
most=200704 most_whole=438272
command -v musl-gcc >/dev/null || { echo 'SKIP: no musl-gcc here'; exit 77; }
export PATH="$PATH:/usr/sbin:/sbin"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
small=$scratch/build/src/cli/blkup-probe whole=$scratch/build/src/cli/blkup
if ! { meson setup "$scratch/build" "$root" --native-file "$root/native/static.ini" && ninja -C "$scratch/build" src/cli/blkup-probe src/cli/blkup; } \
        >"$scratch/log" 2>&1; then
        cat "$scratch/log"
        exit 1
fi
strip "$small" "$whole"

passed=0 failed=0
# is WHAT GOT WANT
is() {
        if [ "$2" = "$3" ]; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                printf 'FAIL: %s\n%s\n%s\n' "$1" "$2" "$3"
        fi
}
size=$(stat -c %s "$small")
echo "blkup-probe, static and stripped: $size bytes"
is "at most $most bytes" "$([ "$size" -le $most ] && echo yes)" yes
size=$(stat -c %s "$whole")
echo "blkup, static and stripped: $size bytes"
is "at most $most_whole bytes" "$([ "$size" -le $most_whole ] && echo yes)" yes
cd "$scratch"
truncate -s 4M empty.img both.img table.img
mkswap -q -L small -U 11111111-2222-3333-4444-555555555555 both.img
printf 'label: dos\nlabel-id: 0x12345678\nsize=1M, type=83\n' | sfdisk -q table.img
# Without the version that it names, and whether there was a cage.
for how in '-o udev' '-o export' '-o full' '--json=lines --partitions' '--json=lines -s TYPE'; do
        for image in empty.img both.img table.img nosuch.img; do
                # shellcheck disable=SC2086 # options and their words
                ours=$("$small" $how $image 2>&1; echo "exit $?")
                # shellcheck disable=SC2086
                theirs=$("$blkup" probe $how $image 2>&1; echo "exit $?")
                is "$how $image" "$ours" "$theirs"
        done
done
is 'what it does without is refused' "$("$small" --explain both.img >/dev/null 2>&1; echo $?)" 4
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
