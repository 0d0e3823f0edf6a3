#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The promise of the -o modes: byte for byte what this machine's `blkid -p` prints. Tags that only one of the two knows
# are left out by -s, which both have; order, encoding, separators and exit codes are compared as they are.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need blkid mkfs.ext4 mkfs.vfat sfdisk
blkid -V 2>&1 | grep -q util-linux || {
        skip 'blkid here is not that of util-linux'
        finish
}

make_ext4 plain.img 16M root
make_ext4 small.img 1M s
make_ext4 quotes.img 16M $'a "b\\c\'d`$'
make_ext4 blanks.img 16M '  two  blanks '
make_ext4 bytes.img 16M $'\200\377z\303\050\342\202'
make_ext4 controls.img 16M $'\001\033[31m\177z'
make_ext4 utf8.img 16M 'ümlaut €'
# shellcheck disable=SC2016 # not to be expanded, by anybody
make_ext4 shell.img 16M '$(id)<>&;|'
make_ext4 nolabel.img 16M ''
truncate -s 16M ext2.img
mkfs.ext2 -q -F -L ext2 ext2.img
truncate -s 16M ext3.img
mkfs.ext3 -q -F -L ext3 ext3.img
make_vfat fat16.img 16M BOOT
make_vfat fat12.img 1440K FLOPPY
make_vfat blank.img 16M 'A B'
truncate -s 64M fat32.img
mkfs.vfat -F 32 -n FAT32 -i 00ABCDEF fat32.img >/dev/null
truncate -s 8M nofat.img
mkfs.vfat -i 00000001 nofat.img >/dev/null
make_dos dos.img
make_gpt gpt.img
make_ambivalent both.img
truncate -s 16M empty.img
truncate -s 0 zero.img
mkdir dir

# compare NAME ARGUMENT...: stdout and exit code.
compare() {
        local name=$1 theirs=0 ours=0
        shift
        timeout 10 blkid -p "$@" >theirs.txt 2>theirs.err || theirs=$?
        timeout 10 "$blkup" probe "$@" >ours.txt 2>ours.err || ours=$?
        if [ "$theirs" = "$ours" ] && cmp -s theirs.txt ours.txt; then
                pass
        else
                fail "$name" "exit: blkid $theirs, blkup $ours" "$(diff theirs.txt ours.txt || true)" "$(cat ours.err)"
        fi
}

# tags_of IMAGE...: -s for each tag that blkid has.
tags_of() {
        { blkid -p -o export "$@" 2>/dev/null || true; } | sed -n 's/^\([A-Z_]*\)=.*/\1/p' | grep -vx DEVNAME | sort -u | sed 's/^/-s\n/'
}

modes='full value device udev export'
images=(plain small quotes blanks bytes controls utf8 shell nolabel ext2 ext3 fat16 fat12 blank fat32 nofat dos gpt
        both empty zero)
for image in "${images[@]}"; do
        mapfile -t tags < <(tags_of "$image.img")
        for mode in $modes; do
                # blkid hands control characters of a label to udev as they are; blkup does not (the _ENC form has them).
                [ "$image-$mode" != controls-udev ] || continue
                compare "$image.img, -o $mode" -o "$mode" "${tags[@]}" "$image.img"
        done
        compare "$image.img, -d -o full" -d -o full "${tags[@]}" "$image.img"
        compare "$image.img, -d -o export" -d -o export "${tags[@]}" "$image.img"
        compare "$image.img, usual mode" "${tags[@]}" "$image.img"
done

# Several devices: separators, and where the run ends.
mapfile -t tags < <(tags_of plain.img fat16.img gpt.img dos.img)
for mode in $modes; do
        compare "several, -o $mode" -o "$mode" "${tags[@]}" plain.img fat16.img gpt.img dos.img
        compare "missing among them, -o $mode" -o "$mode" "${tags[@]}" nosuch plain.img dir gpt.img nosuch
        compare "nothing among them, -o $mode" -o "$mode" "${tags[@]}" plain.img empty.img gpt.img
        compare "ambivalent among them, -o $mode" -o "$mode" "${tags[@]}" plain.img both.img gpt.img
        compare "only some tags, -o $mode" -o "$mode" -s LABEL -s PTTYPE plain.img fat16.img gpt.img
        compare "none of the tags, -o $mode" -o "$mode" -s MUMBLE plain.img gpt.img fat16.img
        compare "tags of the second only, -o $mode" -o "$mode" -s PTTYPE plain.img gpt.img fat16.img
        compare "tags of the first only, -o $mode" -o "$mode" -s LABEL plain.img gpt.img
        compare "with a folder's name, -o $mode" -o "$mode" "${tags[@]}" ./plain.img "$PWD/gpt.img"
done

# Filters and areas.
mapfile -t tags < <(tags_of plain.img)
{ head -c 1M /dev/zero; cat plain.img; } >shifted.img
for list in ext4 vfat vfat,ext4 noext4 novfat novfat,ext3; do
        compare "-n $list" -n "$list" "${tags[@]}" plain.img
        compare "-n $list of a table" -n "$list" gpt.img
        compare "-n $list, ambivalent" -n "$list" -s TYPE both.img
done
for list in filesystem raid raid,filesystem nofilesystem noraid noraid,crypto other nofilesystem,raid,crypto,other; do
        compare "-u $list" -u "$list" "${tags[@]}" plain.img
        compare "-u $list of a table" -u "$list" gpt.img
done
# No long fractions: util-linux 2.38.1 takes 1.999K for 2150.
for size in 1M 1048576 0x100000 04000000 1024K 1MiB 1024kib 0.5K 1.0M 512 1000KB; do
        compare "-O $size" -O "$size" "${tags[@]}" shifted.img
done
for area in '-S 16M' '-S 1M' '-S 8K' '-S 1K' '-S 0' '-O 0' '-O 16M' '-O 17M' '-O 1024' '-O 1024 -S 512'; do
        # shellcheck disable=SC2086
        compare "$area" $area "${tags[@]}" plain.img
done

# Wrong use: the exit code is the same; the words are ours.
same_exit() {
        local theirs=0 ours=0
        blkid -p "$@" >/dev/null 2>&1 || theirs=$?
        "$blkup" probe "$@" >/dev/null 2>&1 || ours=$?
        is "exit of $*" "$ours" "$theirs"
}
for args in '-o list' '-o mumble' '-u mumble' '-u nomumble' '-n no' '-O x' '-S -1' '-O 1000E' '-O 1Z' '-o full -o export'; do
        # shellcheck disable=SC2086
        same_exit $args plain.img
done
same_exit -u '' plain.img
same_exit -n '' plain.img
same_exit
same_exit dir
same_exit /dev/null
same_exit nosuch
is 'udev gets no control character' "$("$blkup" probe -o udev -s LABEL controls.img)" \
        $'ID_FS_LABEL=__[31m_z\nID_FS_LABEL_ENC=\\x01\\x1b\\x5b31m\\x7fz'

# Partitions of a device of our own, where loop devices can be made.
loops=()
# shellcheck disable=SC2317 # called by the trap
detach() {
        for loop in "${loops[@]}"; do partx -d "$loop" 2>/dev/null || true; losetup -d "$loop" 2>/dev/null || true; done
        rm -rf "$work"
}
trap detach EXIT
partitions_of() { # IMAGE: the partitions that the kernel made of it; the loop device in $loop
        loop=$(losetup --show -P -f "$1" 2>/dev/null) || return 1
        loops+=("$loop")
        # Where the loop driver scans nothing (max_part=0), the kernel can be told.
        compgen -G "${loop}p*" >/dev/null || partx -a "$loop" 2>/dev/null || true
        for ((i = 0; i < 20; i++)); do
                compgen -G "${loop}p*" >/dev/null && return 0
                sleep 0.1
        done
        return 1
}
if [ "$(id -u)" = 0 ] && have losetup; then
        dd if=plain.img of=gpt.img bs=1M count=4 seek=1 conv=notrunc status=none
        for table in gpt dos; do
                if ! partitions_of $table.img; then
                        skip "$table: no loop device with partitions can be made here"
                        continue
                fi
                for device in "$loop" "$loop"p*; do
                        # The extended partition is a 1 KiB device with a table of its own.
                        mapfile -t tags < <(tags_of "$device")
                        for mode in $modes; do
                                compare "$table: ${device##*/}, -o $mode" -o "$mode" "${tags[@]}" "$device"
                        done
                        compare "$table: ${device##*/}, -D" -D -o udev "${tags[@]}" "$device"
                done
        done
else
        skip 'partitions: needs root and losetup'
fi

finish
