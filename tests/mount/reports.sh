#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Twelve public reports of other tools, each as a check (../shared/mount/bugs.md; the numbers are its).
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4
need_loops
mkdir m n
ext4 a.img
loop=$(attach a.img)

# 1: the option is named
says '1' 32 nosuchopt "$blkup" mount -t ext4 -o nosuchopt "$loop" m
has '1: in words' "$err" 'unknown option'

# 2: nofail
echo "/dev/nope-blkup $work/m ext4 nofail 0 0" >fstab
gives '2: nofail' 0 "$blkup" mount -a -T fstab
is '2: silence' "$err" ''
run "$blkup" mount -a -T fstab --json
has '2: listed' "$out" '"outcome": "skipped"'
echo "/dev/nope-blkup $work/m ext4 defaults 0 0" >fstab
says '2: without nofail' 32 /dev/nope-blkup "$blkup" mount -a -T fstab

# 3: rw of an image
gives '3: rw' 0 "$blkup" mount -o rw,relatime a.img n
has '3: is rw' ",$(options_of n)," ,rw,
yes_if '3: can be written' touch n/x
gives '3: umount' 0 "$blkup" umount n
losetup -d "$loop"
mkdir ro
mount --bind . ro
mount -o remount,bind,ro ro
chmod 0444 a.img
says '3: a file that cannot be written' 32 'cannot be written' "$blkup" mount -o rw ro/a.img n
gives '3: nothing said' 0 "$blkup" mount ro/a.img n
has '3: is told' "$err" 'mounted read-only'
gives '3: umount again' 0 "$blkup" umount n
chmod 0644 a.img
umount ro

# 4: mount right after umount, two at once on one device
loop=$(attach a.img)
rounds=${BLKUP_SOAK:+200}
hammer() {
        local i
        for ((i = 0; i < ${rounds:-40}; i++)); do
                "$blkup" mount -t ext4 "$loop" "$1" 2>>"$1.err" || echo "round $i" >>"$1.err"
                "$blkup" umount "$1" 2>>"$1.err" || echo "umount in round $i" >>"$1.err"
        done
}
hammer m &
hammer n
wait $!
is '4: never busy' "$(cat m.err n.err)" ''
losetup -d "$loop"

# 5: one loop number for two (tests/mount/loops.sh has the rounds)

# 6: a bind through a link into another mount; a bind and a later mount below its source
mkdir -p data/real src2/sub t1 t2 t3
ln -s data/real link
cat >fstab <<END
$work/link $work/t1 none bind 0 0
tmpfs $work/data tmpfs defaults,X-mount.mkdir 0 0
$work/src2 $work/t2 none bind 0 0
tmpfs $work/src2/sub tmpfs defaults 0 0
END
run "$blkup" mount -a -T fstab --dry-run
has '6: the link is followed' "$out" "$work/t1: $work/link
  after $work/data (its source lies there)"
has '6: file order is kept' "$out" "$work/src2/sub: tmpfs (tmpfs)
  after $work/t2 (a bind and a mount below its source: file order)"
mount -t tmpfs tmpfs data
mkdir data/real
touch data/real/inside
gives '6: mounts' 0 "$blkup" mount -a -T fstab
yes_if '6: the tree of the mount' test -e t1/inside
umount t1 t2 src2/sub data
# A link that lies on a mount of this run is seen only after it.
ext4 l.img
"$blkup" mount l.img m
mkdir m/deep
ln -s "$work/t3" m/deep/way
umount m
cat >fstab <<END
tmpfs $work/m/deep/way/x tmpfs X-mount.mkdir 0 0
tmpfs $work/t3 tmpfs defaults 0 0
$work/l.img $work/m ext4 loop 0 0
END
gives '6: a link on a mount of the run' 0 "$blkup" mount -a -T fstab
yes_if '6: it is seen' mounted t3/x
umount -R t3 m

# 7: xfs clone: causes.sh

# 8: a label with a blank, four spellings
ext4 lab.img 16M -L 'Foo Bar'
loop=$(attach lab.img)
mkdir -p links
for spelling in 'LABEL="Foo Bar"' 'LABEL=Foo\040Bar' 'LABEL="Foo\040Bar"'; do
        printf '%s %s ext4 defaults 0 0\n' "$spelling" "$work/m" >fstab
        gives "8: $spelling" 0 "$blkup" mount -a -T fstab
        is "8: $spelling is the device" "$(source_of m)" "$loop"
        umount m
done
ln -s "$loop" 'links/Foo\x20Bar'
printf '%s %s ext4 defaults 0 0\n' "$work/links/Foo\\134x20Bar" "$work/m" >fstab
gives '8: by link' 0 "$blkup" mount -a -T fstab
umount m
gives '8: on the command line' 0 "$blkup" mount 'LABEL=Foo Bar' m
umount m
losetup -d "$loop"

# 9: what a btrfs waits for
if knows btrfs && have mkfs.btrfs; then
        truncate -s 128M b.img
        mkfs.btrfs -q b.img >/dev/null
        gives '9: steps' 0 "$blkup" mount --time b.img m
        has '9: the step that waits' "$out" CREATE
        # 11: options of a live super block
        says '11: unknown option, live' 32 nosuchopt "$blkup" mount -o nosuchopt b.img n
        gives '11: an option that cannot be applied' 0 "$blkup" mount -o noatime,compress=zstd b.img n
        has '11: is told' "$err" 'the options of the file system were not applied'
        umount m n
else
        skip 'no btrfs here'
fi

# 10: mountinfo is read at most twice
if have strace; then
        mkdir many
        many=${BLKUP_SOAK:+500}
        mount -t tmpfs tmpfs many
        for ((i = 0; i < ${many:-100}; i++)); do
                mkdir "many/$i"
                mount -t tmpfs tmpfs "many/$i"
        done
        for ((i = 0; i < 32; i++)); do
                echo "tmpfs $work/many/new$i tmpfs X-mount.mkdir 0 0"
        done >fstab
        ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=open,openat,openat2 -o trace.txt "$blkup" mount -a -T fstab
        is '10: 32 are there' "$(grep -c "$work/many/new" /proc/self/mountinfo)" 32
        n=$(grep -c mountinfo trace.txt)
        if [ "$n" -le 2 ]; then pass; else fail "10: mountinfo was opened $n times"; fi
        umount -R many
else
        skip 'no strace here'
fi

# 12: order.sh
is 'no loop device is left' "$(count_loops)" 0
finish
