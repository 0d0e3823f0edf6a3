#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# coldplug and watch in a virtual machine, on disks of all kinds: bench/coldplug/vm does it, with a kernel of Debian's
# unpacked in $BLKUP_BENCH_KERNEL (vmlinuz or vmlinux, lib/modules/VERSION with indexes). The long cases with BLKUP_SOAK.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
cases=(all31 absent)
[ -z "${BLKUP_SOAK:-}" ] || cases=(all31 absent late hot-plug trouble overflow figures)
kernel=${BLKUP_BENCH_KERNEL:-$root/build/boot/kernel-amd64}
[ -d "$kernel/lib/modules" ] || { echo "SKIP: no kernel in $kernel; \$BLKUP_BENCH_KERNEL may name one"; exit 77; }
for tool in qemu-system-x86_64 qemu-img cpio busybox depmod mdadm lvm cryptsetup mkfs.xfs mkfs.btrfs genisoimage; do
        command -v "$tool" >/dev/null || { echo "SKIP: no $tool here"; exit 77; }
done
"$root/bench/coldplug/vm" image "$blkup" "$kernel" "$work/vm"
"$root/bench/coldplug/vm" disks "$kernel" "$work/vm"
"$root/bench/coldplug/vm" run "$kernel" "$work/vm" "${cases[@]}"
