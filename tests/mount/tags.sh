#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# UUID=, LABEL= and their kin: found, refused when two have it, and the cases where two belong together.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4
need_loops
mkdir m n
uuid=$(cat /proc/sys/kernel/random/uuid)
ext4 a.img 16M -U "$uuid" -L blkuptag
a=$(attach a.img)
gives 'by UUID' 0 "$blkup" mount "UUID=$uuid" m
is 'the device' "$(source_of m)" "$a"
umount m
gives 'in capitals' 0 "$blkup" mount -U "${uuid^^}" m
umount m
gives '-L' 0 "$blkup" mount -L blkuptag m
umount m
gives 'findfs' 0 "$blkup" findfs "LABEL=blkuptag"
is 'findfs prints it' "$out" "$a"
one_line 'findfs of nothing' 1 'no device has it' "$blkup" findfs LABEL=blkup-nope
usage_error 'findfs of no tag' 2 'is no tag' "$blkup" findfs /dev/sda
usage_error 'findfs of two' 2 'one tag' "$blkup" findfs LABEL=a LABEL=b

# Quotation marks as in fstab.
for tag in "LABEL=\"blkuptag\"" "LABEL='blkuptag'" "UUID=\"$uuid\""; do
        answer=$("$blkup" findfs "$tag" 2>&1 || true)
        is "findfs $tag" "$answer" "$a"
        gives "mount $tag" 0 "$blkup" mount "$tag" m
        gives "umount $tag" 0 "$blkup" umount "$tag"
done

# Two that do not belong together: both are named.
cp a.img b.img
b=$(attach b.img)
says 'two devices' 32 "two devices have UUID=$uuid" "$blkup" mount "UUID=$uuid" m
has 'the one' "$err" "$a"
has 'the other' "$err" "$b"
says 'two labels' 32 'two devices have LABEL=blkuptag' "$blkup" mount LABEL=blkuptag m
no_if 'nothing is mounted' mounted m
one_line 'findfs says so' 1 'two devices have it' "$blkup" findfs "UUID=$uuid"
has 'findfs: the one' "$err" "$a"
has 'findfs: the other' "$err" "$b"
gives 'by name it can be' 0 "$blkup" mount -t ext4 "$b" m
umount m
losetup -d "$b"

# A mapping and what it stands on.
if have dmsetup && dmsetup create "blkup-test-$$" --table "0 $(blockdev --getsz "$a") linear $a 0" 2>/dev/null; then
        gives 'a holder and its slave' 0 "$blkup" mount "UUID=$uuid" m
        has 'the holder is taken' "$(source_of m)" dm-
        umount m
        dmsetup remove "blkup-test-$$"
else
        skip 'no device-mapper here: a holder and its slave'
fi
losetup -d "$a"

# Members of one btrfs.
if knows btrfs && have mkfs.btrfs; then
        truncate -s 128M b1.img b2.img
        b1=$(attach b1.img) b2=$(attach b2.img)
        mkfs.btrfs -q -f -d raid1 -m raid1 "$b1" "$b2" >/dev/null
        btrfs device scan "$b1" "$b2" >/dev/null 2>&1
        gives 'members of one btrfs' 0 "$blkup" mount "UUID=$(blkid -p -o value -s UUID "$b1")" m
        umount m
        losetup -d "$b1" "$b2" >/dev/null
else
        skip 'no btrfs here'
fi

# A whole disk and its own partition that begins where the disk begins: not so with tables of partitions, but a
# hybrid image shows one file system in both.
if have sfdisk; then
        truncate -s 20M d.img
        ext4 p.img 16M -U "$uuid"
        dd if=p.img of=d.img bs=1M conv=notrunc status=none
        printf 'label: dos\nstart=0, size=40000, type=83\n' | sfdisk -q --force --wipe never d.img >/dev/null 2>&1 || true
        if d=$(attach d.img -P) && [ -b "${d}p1" ]; then
                gives 'a whole disk and its partition' 0 "$blkup" findfs "UUID=$uuid"
                is 'the partition is taken' "$out" "${d}p1"
        else
                skip 'no partition on a loop device here: a whole disk and its partition'
        fi
        [ -z "${d:-}" ] || losetup -d "$d"
        d=''
fi

# PARTUUID, PARTLABEL
if have sfdisk; then
        truncate -s 20M g.img
        printf 'label: gpt\nsize=16M, name="blkup part"\n' | sfdisk -q g.img >/dev/null
        dd if=p.img of=g.img bs=1M seek=1 count=16 conv=notrunc status=none
        if d=$(attach g.img -P) && [ -b "${d}p1" ]; then
                gives 'PARTLABEL' 0 "$blkup" mount 'PARTLABEL=blkup part' m
                is 'the partition' "$(source_of m)" "${d}p1"
                umount m
                gives 'PARTUUID' 0 "$blkup" findfs "PARTUUID=$(blkid -p -o value -s PART_ENTRY_UUID "${d}p1")"
        else
                skip 'no partition on a loop device here'
        fi
        [ -z "$d" ] || losetup -d "$d"
fi

# --wait: a device that appears later; the others do not wait for it.
ext4 late.img 16M -L blkuplate
echo "LABEL=blkuplate $work/m ext4 defaults 0 0
tmpfs $work/n tmpfs defaults 0 0
LABEL=blkup-never $work/x ext4 nofail,X-mount.mkdir 0 0" >fstab
(sleep 0.5; attach late.img >late.txt) &
start=$(date +%s%N)
gives '--wait' 0 "$blkup" mount -a -T fstab --wait 2
took=$((($(date +%s%N) - start) / 1000000))
wait
yes_if 'it came' mounted m
yes_if 'the other too' mounted n
if [ $took -ge 1900 ] && [ $took -lt 6000 ]; then pass; else fail "took $took ms, not 2 s"; fi
umount m n
losetup -d "$(cat late.txt)"
says '--wait is over' 32 'did not appear' "$blkup" mount --wait 0.2 LABEL=blkup-never m
is 'no loop device is left' "$(count_loops)" 0
finish
