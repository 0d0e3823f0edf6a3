#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The options of `blkup probe`: what is refused, and what the values mean.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat sfdisk

make_ext4 a.img 16M 'a label'
make_vfat b.img 8M BOOT
make_gpt c.img

usage_error 'no device' 4 'no device' "$blkup" probe
usage_error 'only options' 4 'no device' "$blkup" probe -o udev
usage_error 'unknown option' 4 "unknown option '--mumble'" "$blkup" probe --mumble a.img
usage_error 'unknown letter' 4 "unknown option '-Z'" "$blkup" probe -Z a.img
usage_error 'unknown letter after a known one' 4 "unknown option '-Z'" "$blkup" probe -pZ a.img
usage_error 'ambiguous' 4 "ambiguous option '--d'" "$blkup" probe --d a.img
is 'a unique beginning is enough' "$("$blkup" probe --out device a.img)" a.img
usage_error 'value for a switch' 4 '--debug takes no value' "$blkup" probe --debug=1 a.img
for option in -o -s -n -u -O -S --columns --timeline --direct --session-offset; do
        usage_error "$option without its value" 4 "$option needs a value" "$blkup" probe a.img "$option"
done

# -o
usage_error '-o unknown' 4 "'mumble'" "$blkup" probe -o mumble a.img
usage_error '-o empty' 4 "''" "$blkup" probe -o '' a.img
usage_error '-o list' 4 'list' "$blkup" probe -o list a.img
usage_error '-o prefix' 4 "'ful'" "$blkup" probe -o ful a.img
run "$blkup" probe a.img
full=$out
is 'full is the usual mode' "$full" "$("$blkup" probe -o full a.img)"
is 'the last -o counts' "$("$blkup" probe -o udev -o device a.img)" a.img
is '-p is accepted' "$("$blkup" probe -p a.img)" "$full"
is '--output=MODE' "$("$blkup" probe --output=device a.img)" a.img
is 'options after the device' "$("$blkup" probe a.img -o device)" a.img
is '-- ends the options' "$(cp a.img ./-o; "$blkup" probe -o value -s TYPE -- -o)" ext4

# what excludes each other
usage_error '-u with -n' 4 'exclude' "$blkup" probe -u raid -n ext4 a.img
usage_error '-o with --json' 4 'exclude' "$blkup" probe -o full --json a.img
usage_error '-o with --columns' 4 'exclude' "$blkup" probe -o full --columns NAME a.img
usage_error '-s with --columns' 4 'exclude' "$blkup" probe -s TYPE --columns NAME a.img
usage_error '-o with --partitions' 4 'partitions' "$blkup" probe -o full --partitions c.img

# -s
is '-s' "$("$blkup" probe -o value -s TYPE -s LABEL a.img)" $'a label\next4'
gives '-s of a tag that is not there' 0 "$blkup" probe -o value -s MUMBLE a.img
is '-s of a tag that is not there prints nothing' "$out" ''
mapfile -t many < <(for ((i = 0; i < 127; i++)); do printf '%s\n' -s "T$i"; done)
gives '127 tags' 0 "$blkup" probe "${many[@]}" a.img
usage_error '128 tags' 4 'at most 127' "$blkup" probe "${many[@]}" -s T127 a.img

# -n and -u
is '-n of its type' "$("$blkup" probe -o value -s TYPE -n ext4 a.img)" ext4
is '-n of a list' "$("$blkup" probe -o value -s TYPE -n vfat,ext4 a.img)" ext4
gives '-n of another type' 2 "$blkup" probe -n vfat a.img
gives '-n no' 2 "$blkup" probe -n noext4 a.img
gives '-n no, second' 2 "$blkup" probe -n novfat,ext4 a.img
gives '-n no, twice' 2 "$blkup" probe -n novfat,noext4 a.img
is '-n no of another' "$("$blkup" probe -o value -s TYPE -n novfat a.img)" ext4
is '-n leaves the tables' "$("$blkup" probe -o value -s PTTYPE -n vfat c.img)" gpt
usage_error '-n unknown' 4 'mumble' "$blkup" probe -n mumble a.img
usage_error '-n unknown among known' 4 'mumble' "$blkup" probe -n ext4,mumble a.img
usage_error '-n prefix' 4 'ext' "$blkup" probe -n ext a.img
usage_error '-n empty' 4 'empty' "$blkup" probe -n '' a.img
usage_error '-n no alone' 4 'empty' "$blkup" probe -n no a.img
is '-u' "$("$blkup" probe -o value -s TYPE -u filesystem a.img)" ext4
is '-u list' "$("$blkup" probe -o value -s TYPE -u raid,filesystem a.img)" ext4
gives '-u of another' 2 "$blkup" probe -u raid,crypto,other a.img
gives '-u no' 2 "$blkup" probe -u nofilesystem a.img
gives '-u no, second' 2 "$blkup" probe -u noraid,filesystem a.img
gives '-u no of all leaves nothing' 2 "$blkup" probe -u nofilesystem,raid,crypto,other a.img
is '-u no of another' "$("$blkup" probe -o value -s TYPE -u noraid a.img)" ext4
for list in mumble filesystem,mumble filesystemx files '' no ',' 'filesystem,' nofilesystem,noraid; do
        usage_error "-u '$list'" 4 'unknown usage' "$blkup" probe -u "$list" a.img
done

# -O and -S: one file system 3 MiB into an image, found there in each way to say it.
{ head -c 3M /dev/zero; cat b.img; } >off.img
for size in 3145728 0x300000 014000000 3M 3m 3MiB 3mib 3072K 3072KiB ' 3M' +3M 3145.728KB 3.145728MB 3.0M 0.0029296875G; do
        run "$blkup" probe -O "$size" -o value -s LABEL off.img
        is "-O '$size'" "$out" BOOT
done
for size in '' K M 3X 3MX 3MIB 3Mi '3 M' 3M3 -3M 0x 3.5 .5M 3,5M 1e6 3BB 3B; do
        usage_error "-O '$size'" 4 'no size' "$blkup" probe "-O$size" off.img
        [ -z "$size" ] || usage_error "-S '$size'" 4 'no size' "$blkup" probe "-S$size" off.img
done
for size in 18446744073709551616 16E 18447PB 0x10000000000000000 99999999999999999999999999E; do
        usage_error "-O $size" 4 '64 bits' "$blkup" probe -O "$size" off.img
        usage_error "--session-offset $size" 4 '64 bits' "$blkup" probe --session-offset "$size" off.img
done
is 'the area is told' "$("$blkup" probe --json -O 3M -S 1.5M off.img | tr -d ' \n' | grep -o '"size":[0-9]*')" '"size":1572864'
is '-S 0 is all' "$("$blkup" probe -S 0 -o device a.img)" a.img
gives '-O beyond the end' 2 "$blkup" probe -O 1T a.img
gives '-O at the end' 2 "$blkup" probe -O 16M a.img
gives '-O 18446744073709551615' 2 "$blkup" probe -O 18446744073709551615 a.img

# --columns, --direct, --io-stats, --timeline
usage_error '--columns unknown' 4 "'MUMBLE'; known: NAME SIZE FSTYPE" "$blkup" probe --columns NAME,MUMBLE a.img
usage_error '--columns empty' 4 "''" "$blkup" probe --columns '' a.img
usage_error '--columns with a hole' 4 "''" "$blkup" probe --columns NAME,,SIZE a.img
usage_error '--direct unknown' 4 "'maybe'" "$blkup" probe --direct maybe a.img
for when in auto always never; do
        is "--direct=$when" "$("$blkup" probe --direct=$when a.img)" "$full"
done
usage_error '--io-stats unknown' 4 "'xml'" "$blkup" probe --io-stats=xml a.img
usage_error '--timeline suffix' 4 'known: .json' "$blkup" probe --timeline where.txt a.img
usage_error '--timeline no suffix' 4 'known: .json' "$blkup" probe --timeline json a.img
usage_error '--timeline only a suffix' 4 'known: .json' "$blkup" probe --timeline .json a.img

# --debug, and its other name
for way in option probe io all other,io; do
        if [ $way = option ]; then
                run "$blkup" probe --debug a.img
        else
                run env BLKUP_DEBUG=$way "$blkup" probe a.img
        fi
        is "debug by $way: the answer is the same" "$out" "$full"
        has "debug by $way: a read" "$err" 'a.img: read at '
        has "debug by $way: a refusal" "$err" 'refused'
done
run env BLKUP_DEBUG=other "$blkup" probe a.img
is 'BLKUP_DEBUG of something else' "$err" ''

# -d and -D
make_ext4 odd.img 16M $'x\001\351"'
is '-d: as it is' "$("$blkup" probe -d -o export -s LABEL odd.img | od -An -c -w64 | tr -d ' ')" \
        'DEVNAME=odd.img\nLABEL=x001351"\n'
is 'without -d' "$("$blkup" probe -o export -s LABEL odd.img)" $'DEVNAME=odd.img\nLABEL=x^AM-i\\"'
gives '-D' 0 "$blkup" probe -D a.img

# Behind its door the child that looks makes three kinds of call, as strace sees it. Its exit is not always seen: at the
# end the parent closes the line and kills it, and either may be first.
if [ "$(id -u)" = 0 ] &&
        ASAN_OPTIONS=detect_leaks=0 strace -f -o calls.txt "$blkup" probe a.img b.img c.img >/dev/null 2>&1; then
        child=$(awk '/prctl\(PR_SET_SECCOMP/ { print $1; exit }' calls.txt)
        is 'the cage: a child was shut in' "$([ -n "$child" ] && echo yes)" yes
        is 'the cage: what it calls then' "$(awk -v child="$child" '$1 == child && shut && $2 ~ /^[a-z0-9_]+\(/ {
                        sub(/\(.*/, "", $2); print $2 }
                $1 == child && /prctl\(PR_SET_SECCOMP/ { shut = 1 }' calls.txt | sort -u | grep -vx exit | xargs)" 'read write'
else
        skip 'the cage by strace: not root, or no strace here'
fi

finish
