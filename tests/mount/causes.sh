#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Mounts that fail: the cause is named, and nothing is left mounted or attached.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4
need_loops
mkdir m n
ext4 a.img

# -- the sixteen ---------------------------------------------------------------------------------------------
says 'unknown option, ext4' 32 "unknown option 'nosuchopt'" "$blkup" mount -t ext4 -o nosuchopt a.img m
[[ $err != *superblock* && $err != *'super block'* ]] || fail 'an option is no super block' "$err"
says 'bad value' 32 "bad value 'abc' for option 'commit'" "$blkup" mount -o commit=abc a.img m
says 'tmpfs, bad value' 32 "bad value 'abc' for option 'size'" "$blkup" mount -t tmpfs -o size=abc tmpfs m
truncate -s 16M zero.img
says 'zeros as ext4' 32 'at byte 1080 expected 53 ef, found 00 00 (all zeros' "$blkup" mount -t ext4 zero.img m
says 'zeros without a type' 32 'no file system that is known is on zero.img; it begins with zeros' \
        "$blkup" mount zero.img m
ext4 small.img 16M
truncate -s 8M small.img
says 'device too small' 32 'is 16777216 bytes long, the device only 8388608' "$blkup" mount small.img m
ext4 sum.img 16M -O metadata_csum
printf '\x77' | dd of=sum.img bs=1 seek=$((1024 + 0x30)) conv=notrunc status=none
says 'checksum broken' 32 'the checksum of the ext4 super block on sum.img is wrong' "$blkup" mount -t ext4 sum.img m
says 'checksum broken, no type' 32 'the mark of ext4 is there at byte 1080' "$blkup" mount sum.img m
says 'device missing' 32 'the device /dev/nope-blkup does not exist' "$blkup" mount -t ext4 /dev/nope-blkup m
says 'a directory as source' 32 'n is a directory' "$blkup" mount -t ext4 n m
says 'target missing' 32 'the mount point nodir does not exist' "$blkup" mount a.img nodir
gives 'a mount that works' 0 "$blkup" mount a.img n
says 'rw and then ro' 32 "is mounted read-write at $work/n already" "$blkup" mount -r a.img m
gives 'its umount' 0 "$blkup" umount n
if knows overlay; then
        says 'overlay without layers' 32 'the option lowerdir= is missing' "$blkup" mount -t overlay overlay m
        says 'overlay without workdir' 32 'needs workdir=' "$blkup" mount -t overlay -o lowerdir=m,upperdir=n overlay m
else
        skip 'no overlay here'
fi
if knows xfs && have mkfs.xfs; then
        truncate -s 320M x.img
        mkfs.xfs -q x.img
        cp --sparse=always x.img x2.img
        says 'unknown option, xfs' 32 "unknown option 'nosuchopt'" "$blkup" mount -t xfs -o nosuchopt x.img m
        says 'xfs given as ext4' 32 'x.img holds xfs, not ext4' "$blkup" mount -t ext4 x.img m
        gives 'xfs' 0 "$blkup" mount x.img n
        says 'xfs with a duplicate UUID' 32 "duplicate UUID: another mounted xfs has the same one (" \
                "$blkup" mount x2.img m
        has 'it names where' "$err" "mounted at $work/n)"
        has 'and the way' "$err" nouuid
        gives 'nouuid works' 0 "$blkup" mount -o nouuid x2.img m
        gives 'both go' 0 "$blkup" umount m n
else
        skip 'no xfs here'
fi
if knows btrfs && have mkfs.btrfs; then
        truncate -s 128M b.img
        mkfs.btrfs -q b.img >/dev/null
        says 'btrfs subvol missing' 32 "b.img has no subvolume 'nope'" "$blkup" mount -o subvol=nope b.img m
        truncate -s 128M c.img d.img
        first=$(attach c.img) second=$(attach d.img)
        mkfs.btrfs -q -f -d raid0 "$first" "$second" >/dev/null
        losetup -d "$second"
        btrfs device scan --forget 2>/dev/null
        says 'btrfs member missing' 32 '1 of 2 are there' "$blkup" mount -t btrfs "$first" m
        losetup -d "$first"
else
        skip 'no btrfs here'
fi

# -- others of the kind --------------------------------------------------------------------------------------
says 'unknown type' 32 'unknown type foofs' "$blkup" mount -t foofs a.img m
says 'a type that begins with no' 32 'unknown type nosuchfs' "$blkup" mount -t nosuchfs a.img m
says 'helper missing' 32 '/sbin/mount.glusterfs is missing' "$blkup" mount -t glusterfs host:/x m
says 'no type name' 1 "'../x' is no name" "$blkup" mount -t ../x a.img m
mkswap -q swap.img 2>/dev/null || { truncate -s 1M swap.img; mkswap swap.img >/dev/null 2>&1; }
says 'a swap area' 32 'it is a swap area' "$blkup" mount swap.img m
says 'a swap area as ext4' 32 'holds swap, not ext4' "$blkup" mount -t ext4 swap.img m
says 'another type than listed' 32 'holds ext4, which -t xfs,btrfs leaves out' "$blkup" mount -t xfs,btrfs a.img m
says 'label missing' 32 'no device has LABEL=blkup-nope' "$blkup" mount LABEL=blkup-nope m
says 'bind source missing' 32 'nope does not exist' "$blkup" mount --bind nope m
says 'a file on a directory' 32 'm is a directory, and what is to be shown there is a file' "$blkup" mount --bind a.img m
touch file
says 'a directory on a file' 32 'the mount point file is a file' "$blkup" mount --bind n file
says 'remount of nothing' 32 'm is not mounted' "$blkup" mount -o remount,ro m
says 'open quotation mark' 1 'makes no sense' "$blkup" mount -o 'context="a,b' a.img m
says 'bad offset' 1 "'offset' makes no sense" "$blkup" mount -o offset=x a.img m
says 'umount of nothing' 32 'm is not mounted' "$blkup" umount m
is 'each name once' "$("$blkup" umount m 2>&1)" 'blkup: umount: m is not mounted'
is 'each name once, in the middle' "$("$blkup" mount a.img file 2>&1)" 'blkup: mount: the mount point file is no directory'
says 'umount of what is not there' 32 'nope does not exist' "$blkup" umount nope
gives 'for the busy ones' 0 "$blkup" mount a.img n
exec 7>n/open
says 'remount ro while written' 32 'something is open for writing there: process' "$blkup" mount -o remount,ro n
says 'umount while open' 32 "process $$ (bash): it has a file open there" "$blkup" umount n
exec 7>&-
mkdir n/sub
gives 'below it' 0 "$blkup" mount -t tmpfs tmpfs n/sub
says 'umount of a parent' 32 "$work/n/sub is mounted below it" "$blkup" umount n
gives 'the tree' 0 "$blkup" umount -R n
loop=$(attach a.img -r)
gives 'write-protected, nothing said' 0 "$blkup" mount "$loop" m
has 'it is told' "$err" 'write-protected: mounted read-only'
gives 'goes' 0 "$blkup" umount m
says 'write-protected, rw in words' 32 "$loop is write-protected, and rw was asked for" "$blkup" mount -w "$loop" m
losetup -d "$loop"
ext4 new.img 16M -O ^metadata_csum
printf '\x01' | dd of=new.img bs=1 seek=$((1024 + 0x63)) conv=notrunc status=none
says 'unknown feature' 32 'features that this kernel does not know: bit 0x1000000' "$blkup" mount -t ext4 new.img m
if knows erofs && knows squashfs && have mksquashfs; then
        mkdir tree
        echo hello >tree/file
        mksquashfs tree s.img -quiet -noappend >/dev/null
        says 'squashfs as erofs' 32 'holds squashfs, not erofs' "$blkup" mount -t erofs s.img m
fi
# Replay needed, device read-only.
ext4 dirty.img 16M
loop=$(attach dirty.img)
gives 'dirty: mount' 0 "$blkup" mount "$loop" m
echo x >m/x
sync -f m
dd if="$loop" of=copy.img bs=1M status=none
gives 'dirty: umount' 0 "$blkup" umount m
losetup -d "$loop"
loop=$(attach copy.img -r)
says 'a log to be replayed on a read-only device' 32 'must be replayed, and the device is read-only: -o ro,noload' \
        "$blkup" mount -t ext4 "$loop" m
gives 'noload' 0 "$blkup" mount -t ext4 -o ro,noload "$loop" m
gives 'goes too' 0 "$blkup" umount m
losetup -d "$loop"

no_if 'nothing is mounted' mounted m
is 'no loop device is left' "$(count_loops)" 0
finish
