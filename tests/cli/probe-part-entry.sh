#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# PART_ENTRY_* of real partitions: loop devices of this test's own, cut by the kernel (partx), against blkid.
# usage: probe-part-entry.sh BLKUP
here=$(dirname "$0")
# shellcheck source=tests/cli/lib.sh
. "$here/lib.sh"

loop=''
detach() {
        [ -z "$loop" ] || { partx -d "$loop" 2>/dev/null || true; losetup -d "$loop"; }
        loop=''
}
trap 'detach; rm -rf "$work"' EXIT

# disk NAME SECTOR COMMAND: a loop device that COMMAND has cut, its partitions made known; false where that is not possible.
disk() {
        rm -f disk.img
        truncate -s 64M disk.img
        if ! loop=$(losetup --show -b "$2" -f disk.img 2>/dev/null); then
                loop=''
                skip "$1: no loop device to be had"
                return 1
        fi
        "$3"
        partx -d "$loop" 2>/dev/null || true
        partx -a "$loop" 2>/dev/null || true
        if [ ! -e "${loop}p1" ]; then
                skip "$1: no partitions on loop devices here"
                detach
                return 1
        fi
}

# compare NAME: each partition in each form, as blkid prints it but for the tags that it did not have yet.
compare() {
        local part mode
        for part in "${loop}"p*; do
                for mode in export udev full value; do
                        run "$blkup" probe -o "$mode" "$part"
                        if [ "$mode" = value ] || [ "$mode" = full ]; then
                                if [ "$out" = "$(blkid -p -o "$mode" "$part" | tr -d '\0')" ]; then
                                        pass
                                else
                                        fail "$1: ${part##*p} in $mode" "$(shown)"
                                fi
                        elif diff <(grep -vE '^(ID_FS_)?(FSSIZE|FSBLOCKSIZE|FSLASTBLOCK|ENDIANNESS)=' <<<"$out") \
                                  <(blkid -p -o "$mode" "$part") >diff.txt; then
                                pass
                        else
                                fail "$1: ${part##*p} in $mode" "$(<diff.txt)"
                        fi
                done
        done
        run "$blkup" probe -D -o export "${loop}p1"
        case $out in *PART_ENTRY*) fail "$1: -D prints PART_ENTRY" "$(shown)" ;; *) pass ;; esac
}

if [ "$(id -u)" != 0 ]; then
        skip 'needs root for a loop device'
        finish
fi
if ! have partx || ! have blkid; then
        skip 'no partx or blkid here'
        finish
fi

# shellcheck disable=SC2317 # called by its name
cut_dos() {
        sfdisk -q "$loop" <<'END'
label: dos
label-id: 0x12345678
start=2048,size=20480,type=83,bootable
start=22528,size=40960,type=5
start=24576,size=4096,type=82
start=30720,size=4096,type=83
END
}

# shellcheck disable=SC2317 # called by its name
cut_gpt() {
        sgdisk -n 1:2048:8191 -c '1:a näme "q"' -t 1:ef00 -A 1:set:2 -n 3:8192:12287 "$loop" >/dev/null
}

try() {
        if disk "$@"; then
                compare "$1"
                detach
        fi
}

try 'dos, 512-byte sectors' 512 cut_dos
if have sgdisk; then
        try 'gpt, 512-byte sectors' 512 cut_gpt
        try 'gpt, 4096-byte sectors' 4096 cut_gpt
else
        skip 'no sgdisk here'
fi
finish
