#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# "blkid" beside this machine's: stdout and exit code byte for byte, with a cache for neither. What differs on purpose
# is compared with what the manual page says instead.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need blkid mkfs.ext4 mkfs.vfat sfdisk mkswap
blkid -V 2>&1 | grep -q util-linux || {
        skip 'blkid here is not that of util-linux'
        finish
}
theirs=$(command -v blkid)
export BLKID_FILE=$work/their-cache
mkdir bin
ln -s "$blkup" bin/blkid
ours=$work/bin/blkid

make_ext4 plain.img 16M 'my "l'
make_ext4 bytes.img 16M $'\200\377z\303\050'
make_ext4 long.img 16M 'sixteen-chars-xy'
make_vfat fat.img 16M BOOT
make_dos dos.img
make_gpt gpt.img
make_ambivalent both.img
truncate -s 16M empty.img
truncate -s 4M swap.img
mkswap -L schwapp -U 3e6be9de-8139-4a1c-9106-a43f08d823a7 swap.img >/dev/null
cp plain.img a-name-that-is-too-long-for-its-column.img
mkdir dir

# both NAME ARGUMENT...: stdout and exit code are the same.
both() {
        local name=$1 a=0 b=0
        shift
        timeout 20 "$theirs" "$@" >theirs.txt 2>theirs.err || a=$?
        timeout 20 "$ours" "$@" >ours.txt 2>ours.err || b=$?
        # A search looks at all devices of the machine. Where one of them cannot be read, "nobody has it" cannot be said.
        if [ "$a" = 2 ] && [ "$b" = 4 ] && grep -q '^blkup: blkid: /dev/.*nothing can be said' ours.err; then b=2; fi
        if [ "$a" = "$b" ] && cmp -s theirs.txt ours.txt; then
                pass
        else
                fail "$name: $*" "exit: theirs $a, ours $b" "$(diff theirs.txt ours.txt || true)" "$(cat ours.err)"
        fi
}

# Named, without -p.
modes='full value list device udev export'
for mode in $modes; do
        for image in plain bytes long fat dos gpt both empty swap a-name-that-is-too-long-for-its-column; do
                # Bytes above 127 in a table are shown as \xNN here, because a terminal may obey some of them.
                [ "$image-$mode" != bytes-list ] || continue
                both "named" -c /dev/null -o "$mode" $image.img
        done
        both "several" -c /dev/null -o "$mode" ./plain.img nosuch fat.img empty.img both.img dir gpt.img swap.img
        both "one tag" -c /dev/null -o "$mode" -s TYPE gpt.img plain.img dos.img fat.img
        both "two tags" -c /dev/null -o "$mode" -s TYPE -s PTTYPE gpt.img plain.img dos.img fat.img
        both "no such tag" -c /dev/null -o "$mode" -s MUMBLE plain.img
        both "by token" -c /dev/null -o "$mode" -t TYPE=vfat plain.img fat.img
        # With -o device, util-linux asks udev's links and its cache, never the named devices.
        [ "$mode" = device ] || both "best by token" -c /dev/null -o "$mode" -l -t 'LABEL="BOOT"' plain.img fat.img
        both "none by token" -c /dev/null -o "$mode" -t TYPE=xfs plain.img fat.img
        both "not encoded" -c /dev/null -d -o "$mode" plain.img fat.img
done
both 'filters are for -p' -c /dev/null -u raid plain.img
both 'written to' -c /dev/null -w nowhere plain.img
both 'nothing there' -c /dev/null nosuch dir empty.img
both 'extra arguments' -c /dev/null -U 3e6be9de-0000-4a1c-9106-a43f08d823a6 plain.img
both 'label nobody has' -c /dev/null -L 'nobody has this label'
both 'clean' -c /dev/null -g

# Low-level: the same printer as probe's, whose test compares it at length.
mapfile -t tags < <({ blkid -p -o export plain.img fat.img swap.img gpt.img || true; } | sed -n 's/^\([A-Z_]*\)=.*/\1/p' |
        grep -vx DEVNAME | sort -u | sed 's/^/-s\n/')
for mode in full value device udev export; do
        both "low-level" -p -o "$mode" "${tags[@]}" plain.img fat.img swap.img gpt.img
        both "low-level, both" -p -o "$mode" "${tags[@]}" plain.img both.img gpt.img
        both "low-level, nothing" -p -o "$mode" "${tags[@]}" plain.img empty.img gpt.img
        both "low-level, missing" -p -o "$mode" "${tags[@]}" nosuch plain.img dir gpt.img
        both "block sizes of a file" -i -o "$mode" plain.img
done
both 'types' -p -n vfat "${tags[@]}" fat.img plain.img
both 'usages' -p -u noraid,crypto "${tags[@]}" fat.img plain.img
both 'hint' -p -H session_offset=0 "${tags[@]}" plain.img
both 'hint without a value' -p -H mumble "${tags[@]}" plain.img
both 'hint with a wrong value' -p -H session_offset=x "${tags[@]}" plain.img
{ head -c 1M /dev/zero; cat plain.img; } >shifted.img
both 'area' -p -O 1M -S 16M "${tags[@]}" shifted.img

# Wrong use: the exit codes are the same.
same_exit() {
        local a=0 b=0
        timeout 20 "$theirs" "$@" >/dev/null 2>&1 || a=$?
        timeout 20 "$ours" "$@" >/dev/null 2>&1 || b=$?
        is "exit of $*" "$b" "$a"
}
same_exit -Q
same_exit --mumble
same_exit -o mumble plain.img
same_exit -o list -p plain.img
same_exit -p
same_exit -i
same_exit -l
same_exit -t mumble plain.img
same_exit -t A= plain.img
same_exit -p -u mumble plain.img
same_exit -p -O x plain.img
same_exit -s
# util-linux 2.38.1 dies by its own assertion here; its manual says 4.
usage_error '-n with -u' 4 'exclude each other' "$blkup" blkid -p -n ext4 -u raid plain.img
usage_error 'wrong word' 4 "'mumble'" "$blkup" blkid -o mumble
gives 'version' 0 "$ours" -V
matches 'version' "$out" 'blkup [0-9.]+'
gives 'old version' 0 "$ours" -v
is 'ambivalent without -p: a line' "$("$ours" both.img 2>&1)" \
        'blkup: blkid: both.img: ambivalent result (probably more filesystems on the device, use wipefs(8) to see more details)'
gives 'types' 0 "$ours" -k
has 'types' "$out" $'\next4\n'
is 'types: LUKS' "$(grep -c '^crypto_LUKS$' out.txt)" "$(blkid -k | grep -c '^crypto_LUKS$')"
is 'a cache file is neither read nor made' "$("$ours" -c cache.tab -o device plain.img; [ -e cache.tab ] || echo none)" \
        $'plain.img\nnone'

# Devices of our own.
loops=()
# shellcheck disable=SC2317 # called by the trap
detach() {
        ! mountpoint -q mnt || umount mnt
        for loop in "${loops[@]}"; do partx -d "$loop" 2>/dev/null || true; losetup -d "$loop" 2>/dev/null || true; done
        rm -rf "$work"
}
trap detach EXIT
attach() { # IMAGE: the device in $loop
        loop=$(losetup --show -f "$1" 2>/dev/null) || return 1
        loops+=("$loop")
}
if [ "$(id -u)" != 0 ] || ! have losetup || ! attach plain.img; then
        skip 'devices: needs root and loop devices'
        finish
fi
plain=$loop
attach fat.img
fat=$loop
attach gpt.img
gpt=$loop
partx -a "$gpt" 2>/dev/null || true
attach empty.img
empty=$loop

# DISKSEQ came with util-linux 2.39.
mapfile -t sizes < <(printf -- '-s\n%s\n' MINIMUM_IO_SIZE OPTIMAL_IO_SIZE PHYSICAL_SECTOR_SIZE LOGICAL_SECTOR_SIZE ALIGNMENT_OFFSET)
both 'block sizes' -i "${sizes[@]}" "$plain" "$fat"
for mode in value device udev export; do
        both 'block sizes' -i -o "$mode" "${sizes[@]}" "$plain" "$fat"
        both 'all of it' -p -i -o "$mode" "${sizes[@]}" "${tags[@]}" "$plain" "$gpt"
        both 'of an empty one' -p -i -o "$mode" "${sizes[@]}" "${tags[@]}" "$empty"
done
both 'block sizes of a file among them' -i "${sizes[@]}" plain.img "$plain"
both 'block sizes of what is missing' -i "${sizes[@]}" nosuch "$plain"
[ ! -e "/sys/block/${plain##*/}/diskseq" ] || has 'block sizes: DISKSEQ' "$("$ours" -i "$plain")" "DISKSEQ=\"$(cat "/sys/block/${plain##*/}/diskseq")\""

# The whole machine: others may attach and detach meanwhile, so only our devices are compared; ours are in natural order.
only_ours() {
        grep -E "^($plain|$fat|$gpt|$empty)(p[0-9]+)?[: ]|^($plain|$fat|$gpt|$empty)(p[0-9]+)?\$" "$1" | sort || true
}
for mode in full device list; do
        timeout 30 "$theirs" -c /dev/null -o $mode >all.theirs 2>/dev/null || true
        timeout 30 "$ours" -o $mode >all.ours 2>/dev/null || true
        is "all devices, -o $mode" "$(only_ours all.ours)" "$(only_ours all.theirs)"
done
has 'all devices: ours are there' "$("$ours" -o device)" "$fat"
if compgen -G "${gpt}p*" >/dev/null; then
        for mode in $modes; do both 'partition' -c /dev/null -o "$mode" "${gpt}p1" "${gpt}p2"; done
        is 'a disk with partitions is not scanned' "$("$ours" -o device | grep -cx "$gpt")" 0
else
        skip 'partitions of a loop device: the kernel makes none here'
fi
mkdir mnt
if mount -o ro "$plain" mnt 2>/dev/null; then
        both 'mounted' -c /dev/null -o list "$plain" "$fat"
        umount mnt
else
        skip 'mounted: mount is not permitted here'
fi

# By a tag, live. A label that nobody else on this machine has.
tune2fs -L "$(basename "$work")" "$plain" >/dev/null 2>&1
label=$(basename "$work" | cut -c1-16)
is '-L' "$("$ours" -L "$label")" "$plain"
is '-t -l' "$("$ours" -l -o device -t "LABEL=$label")" "$plain"
is '-t' "$("$ours" -o device -t "LABEL=$label")" "$plain"
tune2fs -f -U random "$plain" >/dev/null 2>&1 || true
uuid=$("$ours" -p -o value -s UUID "$plain")
is '-U' "$("$ours" -U "$uuid")" "$plain"

# Links of udev: a /dev of our own, where some lie.
if unshare -m true 2>/dev/null; then
        # shellcheck disable=SC2016 # for the inner shell
        unshare -m bash -c 'set -e
                plain=$1 fat=$2 label=$3 ours=$4
                a=$(stat -c "%Hr %Lr" "$plain") b=$(stat -c "%Hr %Lr" "$fat")
                mount -t tmpfs dev /dev
                # shellcheck disable=SC2086
                mknod "$plain" b $a
                # shellcheck disable=SC2086
                mknod "$fat" b $b
                mknod /dev/null c 1 3
                mkdir -p /dev/disk/by-label
                ln -s "../../${plain##*/}" "/dev/disk/by-label/$label"
                echo "true: $("$ours" -L "$label")"
                ln -sf "../../${fat##*/}" "/dev/disk/by-label/$label"
                echo "lie: $("$ours" -L "$label" 2>/dev/null)"
                ln -sf ../../nosuch "/dev/disk/by-label/$label"
                echo "dangling: $("$ours" -L "$label" 2>/dev/null)"
                ln -sf ../../null "/dev/disk/by-label/$label"
                echo "no disk: $("$ours" -L "$label" 2>/dev/null)"
                ' - "$plain" "$fat" "$label" "$ours" >links.txt 2>links.err || true
        is 'links' "$(cat links.txt links.err)" "true: $plain"$'\n'"lie: $plain"$'\n'"dangling: $plain"$'\n'"no disk: $plain"
else
        skip 'links: a mount namespace of our own is not permitted here'
fi
if have strace; then
        strace -f -e trace=openat,open -o trace.txt "$ours" >/dev/null 2>&1 || true
        is 'nothing is opened for writing' "$(grep -E '"/dev/|"/run/' trace.txt | grep -cE 'O_RDWR|O_WRONLY|O_CREAT')" 0
fi

finish
