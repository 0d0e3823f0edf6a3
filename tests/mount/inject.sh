#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# EPERM and ENOSYS in place of each new call: mount(2) does it, with the same result.
# usage: inject.sh BLKUP INJECT
# The path before lib.sh goes elsewhere; it starts this script once more.
set -- "$(realpath -- "$1")" "$(realpath -- "$2")"
inject=$2
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4
mkdir m src
touch src/file
state() { # all that mountinfo says of m but its numbers
        awk -v at="$work/m" '$5 == at { $1 = $2 = $3 = ""; print }' /proc/self/mountinfo
}

# same NAME WAY ARGS...: mounted WAY, and as without any refusal.
same() {
        local name=$1 way=$2 want
        shift 2
        gives "$name: plain" 0 "$inject" none ENOSYS "$@"
        want=$(state)
        umount m
        for error in EPERM ENOSYS; do
                for call in $calls all; do
                        run "$inject" "$call" "$error" "$@"
                        is "$name: $call $error: exit" "$code $out" "0 $way"
                        is "$name: $call $error: as without" "$(state)" "$want"
                        umount m
                        no_if "$name: $call $error: one mount" mounted m
                done
        done
}

calls='fsopen fsconfig create fsmount move_mount'
same tmpfs classic tmpfs tmpfs "$work/m" nosuid,noexec,size=1m,mode=700
same 'tmpfs, ro' classic tmpfs tmpfs "$work/m" ro,noatime
calls='open_tree mount_setattr move_mount'
same bind classic none "$work/src" "$work/m" bind,ro,nosuid
if [ -n "$have_loops" ]; then
        ext4 a.img
        loop=$(attach a.img)
        calls='fsopen fsconfig create fsmount move_mount'
        same ext4 classic ext4 "$loop" "$work/m" commit=7,nodev,lazytime
        same 'ext4, ro' classic ext4 "$loop" "$work/m" ro,noload
        losetup -d "$loop"
else
        skip 'no loop devices here: ext4'
fi

# A remount, and propagation.
for error in EPERM ENOSYS; do
        for call in fspick create mount_setattr all; do
                mount -t tmpfs -o nosuid,size=1m tmpfs m
                run "$inject" $call $error none none "$work/m" remount,ro,noexec
                is "remount: $call $error" "$code" 0
                is "remount: $call $error: flags" "$(options_of m)" ro,nosuid,noexec,relatime
                run "$inject" $call $error none none "$work/m" shared
                is "shared: $call $error" "$code" 0
                yes_if 'is shared' grep -q " $work/m .* shared:" /proc/self/mountinfo
                umount m
        done
done
finish
