#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Loop devices: never one image on two, no number lost in a race, none left behind.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mksquashfs
need_loops
mkdir tree
echo hello >tree/file
mksquashfs tree s.img -quiet -noappend >/dev/null

# 64 workers, one squashfs, 20 times; all through one device.
for ((i = 0; i < 64; i++)); do
        mkdir -p "at$i"
        echo "$work/s.img $work/at$i squashfs loop,ro 0 0"
done >fstab
for ((round = 0; round < 20; round++)); do
        "$blkup" mount -a -j 64 -T fstab || { fail "round $round: exit"; break; }
        [ "$(count_loops)" = 1 ] || { fail "round $round: $(count_loops) loop devices"; break; }
        [ "$(cat at*/file | grep -c hello)" = 64 ] || { fail "round $round: not all are there"; break; }
        "$blkup" umount at* || { fail "round $round: umount"; break; }
        [ "$(count_loops)" = 0 ] || { fail "round $round: a loop device is left"; break; }
done
is '64 workers, 20 rounds' "$round" 20

# 64 processes at once.
for ((i = 0; i < 64; i++)); do "$blkup" mount -o loop,ro s.img "at$i" 2>>multi.err & done
wait
is '64 processes: no failure' "$(cat multi.err)" ''
is '64 processes: one device' "$(count_loops)" 1
is '64 processes: all there' "$(cat at*/file | grep -c hello)" 64
gives 'all go' 0 "$blkup" umount at*
is 'and the device' "$(count_loops)" 0

# Images set up at once by as many processes: the race for a free number.
n=16
for ((i = 0; i < n; i++)); do cp s.img "s$i.img"; done
for ((round = 0; round < ${BLKUP_SOAK:+20}5; round++)); do
        for ((i = 0; i < n; i++)); do "$blkup" mount "s$i.img" "at$i" 2>>race.err & done
        wait
        [ "$(count_loops)" = $n ] || { fail "round $round: $(count_loops) of $n"; break; }
        "$blkup" umount $(seq -f 'at%g' 0 $((n - 1))) 2>>race.err || { fail "round $round: umount" "$(cat race.err)"; break; }
done
is 'no race is lost' "$(cat race.err)" ''

# An ext4 image a second time: the same device, the same super block.
ext4 a.img
gives 'first' 0 "$blkup" mount a.img at0
gives 'second' 0 "$blkup" mount a.img at1
is 'one device' "$(count_loops)" 1
ln a.img b.img
gives 'by another name' 0 "$blkup" mount b.img at2
is 'still one device' "$(count_loops)" 1
says 'another part of it' 32 'overlapping' "$blkup" mount -t ext4 -o offset=4096 a.img at3
gives 'umount all of it' 0 "$blkup" umount --all-of at0
no_if 'all are gone' mounted at2
is 'no device' "$(count_loops)" 0
# Somebody else's loop device on the file is taken, too.
loop=$(attach a.img)
gives 'a device that is there' 0 "$blkup" mount a.img at0
is 'is used' "$(source_of at0)" "$loop"
is 'and no other made' "$(count_loops)" 1
gives 'goes' 0 "$blkup" umount at0
losetup -d "$loop"

# offset and sizelimit
truncate -s 40M disk.img
ext4 part.img 16M
dd if=part.img of=disk.img bs=1M seek=4 conv=notrunc status=none
gives 'offset' 0 "$blkup" mount -o loop,offset=4M,sizelimit=16M disk.img at0
gives 'goes' 0 "$blkup" umount at0
says 'sizelimit too small' 32 'the device only 8388608' "$blkup" mount -o loop,offset=4M,sizelimit=8M disk.img at0
is 'a failure leaves no device' "$(count_loops)" 0
gives 'by name of the image' 0 "$blkup" mount a.img at0
gives 'umount IMAGE' 0 "$blkup" umount a.img
no_if 'it is gone' mounted at0

# The benchmark makes 32 of them; killed, it leaves none.
ours() { losetup -l -n -O BACK-FILE | grep -c 'blkup-bench-mount\.' || true; }
before=$(ours)
"$blkup" bench --rounds 1000 mount >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 200 && $(ours) < before + 3; i++)); do sleep 0.05; done
yes_if 'it has begun' [ "$(ours)" -ge $((before + 3)) ]
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
for ((i = 0; i < 200 && $(ours) > before; i++)); do sleep 0.05; done
is 'nothing is left' "$(ours)" "$before"
finish
