#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A hibernation image on an attached device: no file system is mounted for writing without a word from the user.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
blkup=$real_blkup
need mkfs.ext4 mkswap
need_loops
mkdir m n
ext4 a.img
truncate -s 1M swap.img
mkswap swap.img >/dev/null 2>&1
gives 'plain swap is no image' 0 "$blkup" mount a.img m
umount m
swap=$(attach swap.img)
gives 'attached swap is no image' 0 "$blkup" mount a.img m
umount m
printf 'S1SUSPEND\0' | dd of=swap.img bs=1 seek=4086 conv=notrunc status=none
losetup -d "$swap"
swap=$(attach swap.img)
before=$(sha256sum a.img)
says 'an image' 32 "$swap holds a hibernation image" "$blkup" mount a.img m
has 'the way out' "$err" --ignore-hibernation
# A filter of system calls may refuse the look into the page cache, with any errno.
if have strace && strace -o /dev/null -e inject=preadv2:error=EPERM true 2>/dev/null; then
        for error in EPERM EINVAL ENOSYS; do
                says "an image, $error" 32 "$swap holds a hibernation image" \
                        env ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -e inject=preadv2:error=$error "$blkup" mount a.img m
        done
else
        skip 'no look into the page cache: no strace, or it may not trace'
fi
no_if 'nothing is mounted' mounted m
gives 'read-only' 0 "$blkup" mount -r a.img m
has 'it is told' "$err" 'without replaying its log'
has 'noload' "$(super_of m)" norecovery
umount m
is 'nothing was written' "$(sha256sum a.img)" "$before"
echo "$work/a.img $work/m ext4 loop 0 0
tmpfs $work/n tmpfs defaults 0 0" >fstab
says 'fstab' 64 'hibernation image' "$blkup" mount -a -T fstab
yes_if 'tmpfs does not belong to it' mounted n
umount n
loop=$(attach a.img)
gives 'read-only, from a device' 0 "$blkup" mount -r "$loop" m
says 'remount rw' 32 'hibernation image' "$blkup" mount -o remount,rw m
umount m
gives 'in words' 0 "$blkup" mount --ignore-hibernation "$loop" m
umount m
losetup -d "$loop" "$swap"
gives 'gone with it' 0 "$blkup" mount a.img m
umount m
# An image in a swap file lies in the file system itself; where, the kernel knows, or systemd's EFI variable.
loop=$(attach a.img)
gives 'before' 0 "$blkup" mount "$loop" m
dd if=/dev/urandom of=m/swap bs=4096 count=16 status=none
sync
first=$(filefrag -e m/swap | awk '$1 == "0:" { sub(/\.\..*/, "", $4); print $4 }')
block=$(stat -f -c %S m)
page=$(getconf PAGESIZE)
umount m
offset=$((first * block / page))
printf 'S1SUSPEND\0' | dd of=a.img bs=1 seek=$((offset * page + page - 10)) conv=notrunc status=none
losetup -d "$loop"
loop=$(attach a.img)
gives 'nobody told where it is' 0 "$blkup" mount "$loop" m
umount m
mkdir -p power
echo 0 >power/resume_offset
mount --bind power /sys/power
gives 'no swap file' 0 "$blkup" mount "$loop" m
umount m
echo "$offset" >power/resume_offset
says 'an image in a file' 32 "$loop holds a hibernation image" "$blkup" mount "$loop" m
echo "$loop $work/m ext4 defaults 0 0" >fstab
says 'an image in a file, from fstab' 32 'hibernation image' "$blkup" mount -a -T fstab
sum=$(sha256sum <"$loop")
says 'no tables are finished' 2 "$loop holds a hibernation image" "$blkup" lazyinit "$loop"
is 'nothing was written there' "$(sha256sum <"$loop")" "$sum"
echo "$((offset + 1))" >power/resume_offset
gives 'another place' 0 "$blkup" mount "$loop" m
umount m
umount /sys/power
if mount -t tmpfs tmpfs /sys/firmware; then
        mkdir -p /sys/firmware/efi/efivars
        { printf '\7\0\0\0'; printf '{"uuid":"00000000-0000-0000-0000-000000000000","offset":%s}' "$offset" | iconv -t UTF-16LE; } \
                >/sys/firmware/efi/efivars/HibernateLocation-8cf2644b-4b0b-428f-9387-6d876050dc67
        says 'told by the EFI variable' 32 "$loop holds a hibernation image" "$blkup" mount "$loop" m
        umount /sys/firmware
fi
losetup -d "$loop"
# What cannot be listed may hold one: no answer is not "none".
mount --bind /dev/null /proc/partitions
says 'no list of devices' 32 'cannot be listed' "$blkup" mount a.img m
no_if 'nothing is mounted without the list' mounted m
gives 'read-only without the list' 0 "$blkup" mount -r a.img m
umount m
umount /proc/partitions
finish
