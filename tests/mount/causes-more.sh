#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# More mounts that fail, each with its cause in one line; and what must not fail.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 debugfs
need_loops
mkdir m n o
ext4 a.img

# One line, whatever it is.
tells() { # NAME CODE PART COMMAND...
        says "$@"
        is "$1: lines" "$(wc -l <err.txt)" 1
        no_if "$1: mounted" mounted m
}

log_is_readable=''
if dd if=/dev/kmsg iflag=nonblock bs=8192 count=1 of=/dev/null status=none 2>/dev/null; then log_is_readable=1; fi
if_log() {
        if [ -n "$log_is_readable" ]; then tells "$@"; else skip "$1: the kernel's log cannot be read"; fi
}

# -- a part of an image ----------------------------------------------------------------------------------------
tells 'offset behind the end' 32 'offset=1073741824 lies behind the end of a.img' "$blkup" mount -o offset=1G a.img m
tells 'the same with a type' 32 'offset=1073741824 lies behind the end of a.img' \
        "$blkup" mount -t ext4 -o offset=1G a.img m
tells 'offset at the end' 32 'lies behind the end of a.img' "$blkup" mount -o offset=16M a.img m
tells 'an offset too many' 32 'from offset 4096 on; without offset= it is ext4' "$blkup" mount -o offset=4096 a.img m
tells 'an offset too many, type' 32 'from offset 4096 on' "$blkup" mount -t ext4 -o offset=4096 a.img m
tells 'too small a limit' 32 'a.img: it is only 100 bytes long' "$blkup" mount -o sizelimit=100 a.img m
gives 'a limit behind the end is none' 0 "$blkup" mount -o sizelimit=1G a.img m
gives 'its umount' 0 "$blkup" umount m
{ truncate -s 1M two.img && cat a.img >>two.img; }
gives 'offset and limit' 0 "$blkup" mount -o offset=1M,sizelimit=16M two.img m
gives 'its umount' 0 "$blkup" umount m
: >empty
tells 'an empty image' 32 'it is empty' "$blkup" mount empty m
printf abc >three
tells 'three bytes' 32 'it is only 3 bytes long' "$blkup" mount three m
if have sfdisk; then
        truncate -s 16M table.img
        printf 'label: gpt\nsize=4M\n' | sfdisk -q table.img
        tells 'a partition table' 32 'it holds a partition table (gpt): mount one of its partitions' "$blkup" mount table.img m
fi

# -- loop= -----------------------------------------------------------------------------------------------------
tells 'loop= is no loop device' 1 "'loop' makes no sense" "$blkup" mount -o loop=/dev/loop/../null a.img m
tells 'loop= is the control device' 1 "'loop' makes no sense" "$blkup" mount -o loop=/dev/loop-control a.img m
tells 'loop= is not there' 32 'that loop= names does not exist' "$blkup" mount -o loop=/dev/loop999999 a.img m
# shellcheck disable=SC2016
tells 'no loop-control' 32 'no loop devices here' unshare -m bash -c \
        'mount -t tmpfs none /dev && exec "$@"' - "$blkup" mount a.img m
if have setpriv; then
        chmod 755 "$work"
        cp "$real_blkup" own
        chmod 755 own
        tells 'not root, an image' 32 'not root' setpriv --reuid 65534 --regid 65534 --clear-groups "$work/own" mount a.img m
        tells 'not root, propagation' 32 'not permitted: not root' \
                setpriv --reuid 65534 --regid 65534 --clear-groups "$work/own" mount --make-shared m
fi

# -- ext4 ------------------------------------------------------------------------------------------------------
truncate -s 8M journal.img
mke2fs -q -F -O journal_dev -b 1024 journal.img 2>/dev/null
journal=$(attach journal.img)
ext4 far.img 16M -b 1024 -J "device=$journal"
uuid=$(blkid -p -o value -s UUID "$journal")
if_log 'journal elsewhere' 32 "with the UUID $uuid: it is on $journal: -o journal_path=$journal" \
        "$blkup" mount -o journal_path="$(attach a.img -r)" far.img m
losetup -d "$(losetup -n -O NAME -j a.img)"
losetup -d "$journal"
if_log 'journal not there' 32 "with the UUID $uuid, and no device here has it" "$blkup" mount far.img m
mke2fs -q -F -O journal_dev -b 1024 journal.img 2>/dev/null
journal=$(attach journal.img)
if_log 'another journal' 32 'not the one that was opened' "$blkup" mount -o journal_path="$journal" far.img m
losetup -d "$journal"
tells 'journal_path of nothing' 32 "'/dev/nope-blkup'" "$blkup" mount -o journal_path=/dev/nope-blkup far.img m
ext4 root.img
debugfs -w -R 'clri <2>' root.img 2>/dev/null
if_log 'no root directory' 32 'get root inode failed' "$blkup" mount root.img m
ext4 block.img 16M -O ^metadata_csum
printf '\x09' | dd of=block.img bs=1 seek=$((1024 + 0x18)) conv=notrunc status=none
if_log 'block size of 512 KiB' 32 'block.img: Invalid argument; the kernel says: ' "$blkup" mount -t ext4 block.img m
no_if 'the size that follows is not told' grep -q 'bytes are missing' err.txt
ext4 group.img 16M -O ^metadata_csum
printf '\0\0\0\0' | dd of=group.img bs=1 seek=$((1024 + 0x28)) conv=notrunc status=none
if_log 'no inodes in a group' 32 'nodes per group' "$blkup" mount -t ext4 group.img m
no_if 'no escapes at the end' grep -qF '\x0a' err.txt
if_log 'an option in two words' 32 'quotafile must be on filesystem root' \
        "$blkup" mount -o usrjquota=a/b,jqfmt=vfsv0 a.img m
if_log 'quota without its format' 32 'a.img: Invalid argument; the kernel says: EXT4-fs: journaled quota format' \
        "$blkup" mount -o usrjquota=aquota.user a.img m

# -- others ----------------------------------------------------------------------------------------------------
if knows btrfs && have mkfs.btrfs; then
        truncate -s 128M b.img
        mkfs.btrfs -q b.img >/dev/null
        truncate -s 100M b.img
        tells 'a btrfs cut short' 32 'is 134217728 bytes long, the device only 104857600' "$blkup" mount b.img m
fi
if knows squashfs && have mksquashfs && [ -n "$log_is_readable" ]; then
        mkdir tree
        mksquashfs tree s.img -quiet -noappend >/dev/null
        printf '\x09' | dd of=s.img bs=1 seek=28 conv=notrunc status=none
        tells 'squashfs of a later time' 32 'ismatch, trying to mount newer 9.0' "$blkup" mount -t squashfs s.img m
        rm -r tree
fi

# -- overlay ---------------------------------------------------------------------------------------------------
if knows overlay && [ -n "$log_is_readable" ]; then
        mkdir low up wrk
        mount -t tmpfs other o
        mkdir o/w
        tells 'upper is work' 32 'workdir and upperdir must be separate' \
                "$blkup" mount -t overlay -o lowerdir=low,upperdir=up,workdir=up overlay m
        tells 'work on another file system' 32 'must reside under the same mount' \
                "$blkup" mount -t overlay -o lowerdir=low,upperdir=up,workdir=o/w overlay m
        tells 'one layer' 32 'at least 2 lowerdir' "$blkup" mount -t overlay -o lowerdir=low overlay m
        tells 'no such layer' 32 "'lowerdir=nope': No such file" "$blkup" mount -t overlay -o lowerdir=nope overlay m
        umount o
else
        skip 'no overlay, or no log of it'
fi

# -- the tree --------------------------------------------------------------------------------------------------
touch file
tells 'a file as mount point' 32 'the mount point file is no directory' "$blkup" mount a.img file
no_if 'nothing of the way back' grep -q unmounting err.txt
tells 'remount of what is missing' 32 'the mount point nope does not exist' "$blkup" mount -o remount,ro nope
no_if 'mkdir would not help' grep -q mkdir err.txt
tells 'an empty source' 32 'the name of the source is empty' "$blkup" mount '' m
tells 'an empty target' 32 'the name of the mount point is empty' "$blkup" mount a.img ''
tells 'propagation of no mount' 32 'n is no mount point' "$blkup" mount --make-private n
tells 'a move of no mount' 32 'n cannot be moved: it is no mount point' "$blkup" mount --move n m
mount -t tmpfs shared o
mount --make-shared o
mkdir o/x
mount -t tmpfs below o/x
tells 'a move from a shared mount' 32 "$work/o) is shared: blkup mount --make-private $work/o" \
        "$blkup" mount --move o/x m
umount o/x
mkdir un
mount -t tmpfs unbindable un
mount --make-unbindable un
tells 'a bind of an unbindable mount' 32 "un lies on $work/un, which is unbindable" "$blkup" mount --bind un m
tells 'a move of one into a shared' 32 "$work/un is unbindable, and $work/o is shared" "$blkup" mount --move un o/x
umount un o
gives 'for the umounts' 0 "$blkup" mount -t tmpfs tmpfs n
run bash -c "cd n && exec $real_blkup umount ."
is 'umount of the working directory: exit' "$code" 32
has 'it is told' "$err" 'the working directory of this command is there'
if unshare -Urm true 2>/dev/null; then
        says 'umount of a locked mount' 32 'it is locked' unshare -Urm "$real_blkup" umount n
fi
gives 'goes' 0 "$blkup" umount n
says 'umount of a tag that nobody has' 32 'no device has LABEL=blkup-nope' "$blkup" umount LABEL=blkup-nope

# -- fstab from a pipe, few descriptors ---------------------------------------------------------------------------
mkdir x
# shellcheck disable=SC2016
gives 'fstab from a pipe' 0 bash -c '(sleep 0.2; echo "tmpfs $2/x/p tmpfs X-mount.mkdir") | "$1" mount -a -T /dev/stdin' \
        - "$blkup" "$work"
yes_if 'what it names' mounted x/p
umount x/p
rmdir x/p
for i in {1..12}; do
        cp a.img "few$i.img"
        echo "$work/few$i.img $work/x/$i auto X-mount.mkdir"
done >few
for limit in 14 20 40; do
        run bash -c "ulimit -n $limit; exec $real_blkup mount --ignore-hibernation -a -T few"
        is "$limit descriptors" "$code$err" 0
        is "$limit descriptors: all are mounted" "$(grep -c " $work/x/" /proc/self/mountinfo)" 12
        umount x/*
done

no_if 'nothing is mounted' mounted m
finish
