#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Lines of the fstab for swap: devices, and a file on what is mounted first; what is none is never swapped on.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"
need_loops
need mkswap swapoff debugfs
tag=$$

swap_off() {
        local name
        for name in "${ours[@]}"; do ! grep -q "^${name}[[:space:]]" /proc/swaps || swapoff "$name"; done
}
declare -a ours=("$work/at/data/file" "$work/at/data/open")
trap 'at_end=$?; swap_off || :; clean_up' EXIT

truncate -s 16M one.img two.img not.img
mkswap -q -L "one-$tag" one.img
mkswap -q two.img
ext4 data.img 64M -L "data-$tag"
ext4 not.img 16M
cp two.img asleep.img
printf 'S1SUSPEND\0' | dd of=asleep.img bs=1 seek=4086 conv=notrunc status=none
one=$(attach one.img) two=$(attach two.img) data=$(attach data.img) not=$(attach not.img)
ours+=("$one" "$two")
mkdir -p at/data
mount "$data" at/data
dd if=/dev/zero of=at/data/file bs=1M count=8 status=none
chmod 600 at/data/file
cp at/data/file at/data/open
chmod 644 at/data/open
mkswap -q at/data/file
mkswap -q at/data/open 2>/dev/null
truncate -s 8M at/data/holes
mkswap -q at/data/holes 2>/dev/null
umount at/data

# Of what cannot be read to its end nobody says that nothing is on it.
ext4 bad.img 16M
bad=$(attach bad.img)
mkdir -p at/bad
mount "$bad" at/bad
dd if=/dev/zero of=at/bad/file bs=1M count=8 conv=fsync status=none
sync -f at/bad
block=$(stat -f -c %S at/bad)
umount at/bad
first=$(debugfs -R 'bmap /file 0' bad.img 2>/dev/null)
mount -o ro "$bad" at/bad
truncate -s $((first * block + 262144)) bad.img # its beginning is there
echo 3 >/proc/sys/vm/drop_caches
echo "$work/at/bad/file none swap sw 0 0" >fstab
coldplug -T fstab --ignore-hibernation --dry-run
matches 'unreadable swap file' "$err" '.*at/bad/file: swapon: failed: .*read error at .*'
umount at/bad
losetup -d "$bad"
before=$(wc -l </proc/swaps)
if ! swapon "$one" 2>/dev/null; then
        skip 'swapon is not allowed here'
        finish
fi
swapoff "$one"

cat >fstab <<END
$work/at/data/file none swap sw,pri=7 0 0
$work/at/data/open none swap nofail 0 0
$work/at/data/holes none swap sw 0 0
LABEL=one-$tag none swap defaults 0 0
$two swap swap pri=x 0 0
$not none swap sw 0 2
LABEL=absent-$tag none swap nofail 0 0
LABEL=data-$tag $work/at/data ext4 defaults 0 0
$two none swap noauto 0 0
END

coldplug -T fstab --ignore-hibernation --dry-run
is 'dry run' "$(entry "LABEL=one-$tag" .state)" 'would activate'
is 'dry run: nothing is' "$(wc -l </proc/swaps)" "$before"
coldplug -T fstab --ignore-hibernation --no-mount
is 'no mount: nothing is' "$(wc -l </proc/swaps)" "$before"

coldplug -T fstab --ignore-hibernation
exits 'some' 64
is 'by its label' "$(entry "LABEL=one-$tag" '[.kind, .state, .ready, .mount.state] | join(" ")')" 'swap active true done'
yes_if 'by its label: it is' grep -q "^${one}[[:space:]]" /proc/swaps
is 'a file: on what was mounted for it' "$(entry "$work/at/data/file" .state)" active
is 'a file: its priority' "$(sed -n "s|^$work/at/data/file .*\t||p" /proc/swaps)" 7
has 'a file that all may read' "$(entry "$work/at/data/open" .mount.text)" "its mode is 0644: others may read"
has 'a file that all may read: said' "$err" "chmod 600 $work/at/data/open"
is 'holes' "$(entry "$work/at/data/holes" .ready)" false
has 'holes: why' "$err" "$work/at/data/holes: swapon: failed: it has holes"
has 'a bad priority' "$(entry "$two" .mount.text)" 'pri=x: pri= is a number from -1 to 32767'
no_if 'a bad priority: not used' grep -q "^${two}[[:space:]]" /proc/swaps
has 'a file system' "$(entry "$not" .mount.text)" "$not: no swap area: ext4 is on it"
is 'a file system' "$(entry "$not" '[.mount.state, .check.state] | join(" ")')" 'refused nothing to do'
is 'one that is not there' "$(entry "LABEL=absent-$tag" .state)" 'not there'
is 'none but these' "$(wc -l </proc/swaps)" $((before + 3))

coldplug -T fstab --ignore-hibernation
is 'again' "$(entry "LABEL=one-$tag" .state) $(entry "$work/at/data/file" .state)" 'already active already active'

run "$blkup" coldplug -T fstab --ignore-hibernation --modules=never --assemble=never --only "LABEL=one-$tag"
matches 'the table' "$(grep "^${one#/dev/} " out.txt)" '.* swap .* \[SWAP\] .* already active'

# Two lines for one area, at once.
swap_off
printf '%s none swap sw 0 0\nLABEL=%s none swap sw 0 0\n' "$one" "one-$tag" >twice
coldplug -T twice --ignore-hibernation --only "$one"
exits 'twice' 0
is 'twice' "$(jq -r '[.entries[].state] | sort | join(", ")' out.json)" 'active, already active'
swap_off

# A hibernation image: not that area, and none at all.
asleep=$(attach asleep.img)
printf '%s none swap sw 0 0\n%s none swap sw 0 0\n' "$asleep" "$one" >fstab
before_sum=$(md5sum <asleep.img)
coldplug -T fstab
is 'asleep: refused' "$(jq -r '[.entries[].state] | join(" ")' out.json)" 'refused refused'
no_if 'asleep: a rule of ours, not of a container' grep -q 'refused: .*container' err.txt
coldplug -T fstab --ignore-hibernation
has 'asleep: its own area in any case' "$(entry "$asleep" .mount.text)" "$asleep: it holds a hibernation image"
is 'asleep: another on demand' "$(entry "$one" .state)" active
is 'asleep: not a byte of it' "$(md5sum <asleep.img)" "$before_sum"
swap_off

# A device that cannot be written to.
losetup -d "$two"
two=$(attach two.img -r)
printf '%s none swap sw 0 0\n' "$two" >fstab
coldplug -T fstab --ignore-hibernation
is 'read-only' "$(entry "$two" '[.state, .mount.text] | join(": ")')" 'refused: a read-only device'
finish
