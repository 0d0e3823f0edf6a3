#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# --timeline: trace events that hold together, and a file that is whole or what it was before.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 jq

make_ext4 a.img 16M 'a label'
cp a.img b.img
truncate -s 16M empty.img
answer=$("$blkup" probe a.img)

gives 'a timeline' 0 "$blkup" probe --timeline t.json a.img
is 'the answer is the same' "$out" "$answer"
is 'trace events' "$(jq -c '.traceEvents | type' t.json)" '"array"'
is 'complete events have a time' "$(jq -c '[.traceEvents[] | select(.ph == "X") | .ts >= 0 and .dur >= 0] | unique' t.json)" '[true]'
is 'reads are among them' "$(jq '[.traceEvents[] | select(.ph == "X" and .cat == "read")] | length > 0' t.json)" true
is 'and the device is' "$(jq '[.. | strings | select(contains("a.img"))] | length > 0' t.json)" true
is 'nothing is left beside it' "$(echo t.json*)" t.json
is 'its mode follows the umask' "$(stat -c %a t.json)" "$(printf '%o' $((0666 & ~$(umask))))"

for device in empty.img nosuch; do
        gives "of $device" 2 "$blkup" probe --timeline $device.json $device
        is "of $device: JSON" "$(jq -c '.traceEvents | type' $device.json)" '"array"'
done
gives 'of two' 0 "$blkup" probe --timeline two.json -o device a.img b.img
is 'of two: both' "$(jq -c '[.. | strings | select(endswith(".img"))] | unique | length >= 2' two.json)" true

# It cannot be written: one line, 4, the answer is there all the same, nothing is left behind.
mkdir folder.json
for file in nosuch/t.json folder.json a.img/t.json; do
        gives "$file" 4 "$blkup" probe --timeline $file a.img
        is "$file: the answer" "$out" "$answer"
        is "$file: one line" "$(wc -l <err.txt)" 1
        has "$file: one line" "$err" "blkup: probe: $file: "
done
is 'nothing is left behind' "$(find . -name '*.json.*' | wc -l)" 0
if have prlimit; then
        cp t.json before.json
        # No file may grow beyond 100 bytes: writing fails half-way. The answer goes to a pipe, which has no such limit.
        code=0
        prlimit --fsize=100 "$blkup" probe --timeline t.json a.img 2>&1 | cat >all.txt || code=$?
        is 'a full disk: exit' "$code" 4
        is 'a full disk: line' "$(grep -c '^blkup: probe: t.json: .*File too large' all.txt)" 1
        is 'a full disk: the file is what it was' "$(cmp t.json before.json && echo same)" same
        is 'a full disk: nothing is left behind' "$(echo t.json*)" t.json
else
        skip 'a full disk: no prlimit here'
fi
# A link is replaced, not followed.
echo keep >target
ln -s target link.json
gives 'over a link' 0 "$blkup" probe --timeline link.json a.img
is 'over a link: the target is what it was' "$(cat target)" keep

finish
