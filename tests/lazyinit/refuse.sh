#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Who else uses the device: each is refused, and the image is byte-identical afterwards.
# shellcheck source=tests/lazyinit/lib.sh
. "$(dirname "$0")/lib.sh"
need python3

make_lazy a.img 16M -b 1024 -g 2048
before=$(sum_of a.img)

unchanged() {
        is "$1: unchanged" "$(sum_of a.img)" "$before"
}

# -- locks and writers ------------------------------------------------------------------------------------------------
# hold CODE: runs python with the image open as f, until it is told to end.
hold() {
        rm -f ready
        python3 -c "
import fcntl, os, struct, sys, time
$1
open('ready', 'w').close()
time.sleep(60)" &
        holder=$!
        pids+=("$holder")
        for _ in $(seq 200); do
                [ ! -f ready ] || return 0
                sleep 0.05
        done
        fail 'the holder did not start'
}
release() {
        kill "$holder"
        wait "$holder" 2>/dev/null || true
}

# As qemu does: read locks of the open file description on single bytes (F_OFD_SETLK is 37).
hold "f = open('a.img', 'rb'); fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 100, 1, 0))"
refused 'a foreign OFD lock' locked "$blkup" lazyinit a.img
refused 'a foreign OFD lock, --check' locked "$blkup" lazyinit --check a.img
unchanged 'a foreign OFD lock'
release
hold "f = open('a.img', 'rb'); fcntl.flock(f, fcntl.LOCK_EX)"
refused 'a foreign flock' locked "$blkup" lazyinit a.img
unchanged 'a foreign flock'
release
hold "f = open('a.img', 'r+b')"
refused 'an open writer' open-writer "$blkup" lazyinit a.img
refused 'an open writer, --check' open-writer "$blkup" lazyinit --check a.img
unchanged 'an open writer'
release
hold "f = open('a.img', 'rb')"
gives 'an open reader is no harm' 1 "$blkup" lazyinit --check a.img
release

# -- what a user gives by mistake -----------------------------------------------------------------------------------------
mkdir folder
one_line 'a folder' 4 'is a directory' "$blkup" lazyinit folder
one_line 'a character device' 4 'not a block device or regular file' "$blkup" lazyinit /dev/null
one_line 'nothing' 4 'No such file' "$blkup" lazyinit nothing.img
truncate -s 1M empty.img
refused 'no file system' not-ext4 "$blkup" lazyinit empty.img

# -- loop devices, mounts, hibernation: as root -----------------------------------------------------------------------------
if [ "$(id -u)" != 0 ] || ! attach a.img; then
        skip 'loop devices: not root, or there are none'
        finish
fi
# udev may look at a new device for a moment.
gives 'a device, --check' 1 "$blkup" lazyinit --check "$loop"
refused 'the file of a loop device' loop "$blkup" lazyinit a.img
unchanged 'the file of a loop device'
first=$loop
attach a.img
refused 'a loop device with a twin' loop "$blkup" lazyinit "$first"
unchanged 'a loop device with a twin'
detach "$loop"

mkdir mnt
if mount -t ext4 -o noinit_itable,ro,noload "$first" mnt 2>mount.err; then
        mounted+=("$work/mnt")
        refused 'a mounted device' busy "$blkup" lazyinit "$first"
        refused 'a mounted device, --check' busy "$blkup" lazyinit --check "$first"
        gives 'status of a mounted one' 1 "$blkup" lazyinit status mnt
        has 'status: nobody works on it' "$out" 'nobody works on it'
        umount mnt
        unchanged 'a mounted device'
else
        skip "mount: $(head -n 1 mount.err)"
fi

# A hibernation image on a swap area.
truncate -s 1M swap.img
printf 'S1SUSPEND\0' | dd of=swap.img bs=1 seek=4086 conv=notrunc status=none
attach swap.img
swap=$loop
longer "$blkup" lazyinit "$first"
if [ "$code" = 2 ] && [[ $err == *"(hibernation)"*"$swap"* ]]; then pass; else fail 'hibernation' "$(shown)"; fi
refused 'hibernation, an image file' hibernation "$blkup" lazyinit empty.img
unchanged 'hibernation'
gives 'hibernation ignored' 1 "$blkup" lazyinit --check --ignore-hibernation "$first"
detach "$swap"

# Read-only devices.
losetup -d "$first"
attach a.img -r
refused 'a read-only device' read-only "$blkup" lazyinit "$loop"
detach "$loop"

# A device that no kernel mounts it on.
if mkfs.ext4 -q -F -b 1024 -E lazy_itable_init=1 k.img 16M >mkfs.txt && attach k.img -b 4096; then
        refused 'sectors larger than blocks' large-sectors "$blkup" lazyinit "$loop"
        detach "$loop"
        gives 'sectors larger than blocks: not written' 1 "$blkup" lazyinit --check k.img
else
        skip 'sectors larger than blocks: no such loop device here'
fi

# And without all that, on the device.
attach a.img
gives 'a device' 0 "$blkup" lazyinit "$loop"
detach "$loop"
is 'a device: finished' "$(left a.img)" 0
gives 'a device: e2fsck' 0 e2fsck -fn a.img

# A loop device over a sparse file: what reads as zero is not written, so nothing is allocated.
make_sparse s.img 1G
n=$(stat -c %b s.img)
attach s.img
gives 'a thin device' 0 "$blkup" lazyinit "$loop"
detach "$loop"
sync -f s.img
if [ $(($(stat -c %b s.img) - n)) -le 64 ]; then pass; else fail 'a thin device stays thin' "$(stat -c %b s.img) $n"; fi
is 'a thin device: finished' "$(left s.img)" 0

# The whole disk's lock is what udev respects.
if have sfdisk && have flock && attach a.img; then
        flock "$loop" sleep 8 &
        pids+=($!)
        sleep 0.3
        refused 'a device that udev has' locked "$blkup" lazyinit "$loop"
fi
finish
