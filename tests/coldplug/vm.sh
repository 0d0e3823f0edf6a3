#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# coldplug and watch in a virtual machine, on disks of all kinds: bench/coldplug/vm does it, with a kernel of Debian's
# unpacked in $BLKUP_BENCH_KERNEL (vmlinuz or vmlinux, lib/modules/VERSION with indexes), which `./do soak` fetches, and
# `./do test` does not.
# With BLKUP_SOAK all cases; what is measured then is a release build, not the one with sanitizers.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/../cli/lib.sh"
cases=(all31 absent)
[ -z "${BLKUP_SOAK:-}" ] || cases=(all31 absent late deep copy pulled hot-plug parts trouble held overflow)
kernel=${BLKUP_BENCH_KERNEL:-$root/build/boot/kernel-amd64}
[ -d "$kernel/lib/modules" ] || { echo "SKIP: no kernel in $kernel; \$BLKUP_BENCH_KERNEL may name one"; exit 77; }
for tool in qemu-system-x86_64 qemu-img cpio busybox depmod mdadm lvm cryptsetup mkfs.xfs mkfs.btrfs genisoimage; do
        command -v "$tool" >/dev/null || { echo "SKIP: no $tool here"; exit 77; }
done

# boot BLKUP CASE...: adds what these cases print last to the counts.
boot() {
        local build=$1 code=0
        shift
        "$root/bench/coldplug/vm" image "$build" "$kernel" vm
        "$root/bench/coldplug/vm" run "$kernel" vm "$@" | tee out || code=$?
        if [[ $(tail -n 1 out) =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
                passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
                skipped=$((skipped + BASH_REMATCH[3]))
        else
                fail "$*: exit status $code"
        fi
}

"$root/bench/coldplug/vm" image "$blkup" "$kernel" vm
"$root/bench/coldplug/vm" disks "$kernel" vm
boot "$blkup" "${cases[@]}"
if [ -n "${BLKUP_SOAK:-}" ]; then
        if meson setup release "$root" --native-file "$root/native/release.ini" >log 2>&1 && ninja -C release >>log 2>&1; then
                boot release/src/cli/blkup figures udev
        else
                fail 'a release build' "$(tail -n 20 log)"
        fi
fi
finish
