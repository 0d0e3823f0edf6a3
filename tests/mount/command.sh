#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The command line of mount and umount: attributes, binds, moves, propagation, remounts, one operand, JSON.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4
mkdir m n a b
gives 'attributes' 0 "$blkup" mount -t tmpfs -o nosuid,nodev,noexec,noatime,size=1m,mode=700 tmpfs m
is 'they are there' "$(options_of m)" rw,nosuid,nodev,noexec,noatime
has 'size too' "$(awk -v at="$work/m" '$5 == at' /proc/self/mountinfo)" size=1024k
gives 'remount ro' 0 "$blkup" mount -o remount,ro m
is 'ro, and the others stay' "$(options_of m)" ro,nosuid,nodev,noexec,noatime
gives 'remount rw,exec,relatime' 0 "$blkup" mount -o remount,rw,exec,relatime m
is 'changed' "$(options_of m)" rw,nosuid,nodev,relatime
gives 'user implies' 0 "$blkup" mount -t tmpfs -o user tmpfs n
is 'nosuid,nodev,noexec' "$(options_of n)" rw,nosuid,nodev,noexec,relatime
gives 'off again' 0 "$blkup" umount n
gives 'the last word wins' 0 "$blkup" mount -t tmpfs -o ro,rw,nosuid,suid tmpfs n
is 'rw,suid' "$(options_of n)" rw,relatime
gives 'off again' 0 "$blkup" umount n

mkdir m/sub
gives 'below' 0 "$blkup" mount -t tmpfs tmpfs m/sub
touch m/sub/here
gives 'bind' 0 "$blkup" mount --bind m a
no_if 'without what is below' test -e a/sub/here
gives 'rbind, ro' 0 "$blkup" mount -o rbind,ro m b
yes_if 'with it' test -e b/sub/here
no_if 'all of it read-only' touch b/sub/new 2>/dev/null
yes_if 'the source is not' touch m/sub/new
gives 'a tree goes' 0 "$blkup" umount -R b
gives 'and the bind' 0 "$blkup" umount a
touch f g
gives 'a file on a file' 0 "$blkup" mount --bind f g
gives 'goes' 0 "$blkup" umount g
gives 'move' 0 "$blkup" mount --move m a
no_if 'moved away' mounted m
yes_if 'moved there' mounted a/sub
gives 'shared' 0 "$blkup" mount --make-rshared a
yes_if 'it is shared' grep -q " $work/a .* shared:" /proc/self/mountinfo
gives 'private' 0 "$blkup" mount --make-private a
no_if 'no longer' grep -q " $work/a .* shared:" /proc/self/mountinfo
gives 'stacked' 0 "$blkup" mount -t tmpfs top a
is 'the top one' "$(source_of a)" top
gives 'only the top goes' 0 "$blkup" umount a
yes_if 'the other stays' mounted a
says 'twice the same place' 0 '' "$blkup" mount -t tmpfs tmpfs b
gives 'lazy' 0 "$blkup" umount -l b
gives 'all of a type' 0 "$blkup" umount --dry-run -a -t tmpfs
has 'says which' "$out" "$work/a/sub"
yes_if 'and does nothing' mounted a/sub
gives 'recursive' 0 "$blkup" umount -R a

# One operand, and the fstab.
echo "tmpfs $work/m tmpfs noauto,nosuid 0 0" >fstab
gives 'noauto' 0 "$blkup" mount -a -T fstab
no_if 'not by -a' mounted m
gives 'by its directory' 0 "$blkup" mount -T fstab "$work/m"
has 'with its options' "$(options_of m)" nosuid
gives 'umount' 0 "$blkup" umount m
gives 'more options' 0 "$blkup" mount -T fstab -o noexec m
has 'both' "$(options_of m)" nosuid,noexec || has 'both' "$(options_of m)" noexec
gives 'umount' 0 "$blkup" umount m
one_line 'not in it' 1 'not found in fstab' "$blkup" mount -T fstab /nowhere
gives 'filters' 0 "$blkup" mount -a -T fstab -t ext4
gives 'mkdir' 0 "$blkup" mount -m -t tmpfs tmpfs deep/er/still
yes_if 'made' mounted deep/er/still
gives 'listing' 0 "$blkup" mount -t tmpfs
has 'has it' "$out" "tmpfs on $work/deep/er/still type tmpfs (rw,relatime"
gives 'umount' 0 "$blkup" umount deep/er/still
usage_error 'three operands' 1 'too many' "$blkup" mount a b c
usage_error '-a and an operand' 1 '-a takes no' "$blkup" mount -a m
usage_error '-j' 1 '-j' "$blkup" mount -j x -a
usage_error '--wait' 1 '--wait' "$blkup" mount --wait -1 -a
usage_error 'umount without a name' 1 'no mount point' "$blkup" umount
usage_error 'timeline' 1 'suffix' "$blkup" mount -a --timeline x.txt

# Broken lines cost themselves alone.
mkdir -p good
{
        echo "# a remark"
        echo 'one'                                              # 2
        echo "tmpfs $work/x"                                    # 3
        echo "tmpfs relative tmpfs defaults 0 0"                # 4
        echo "tmpfs $work/x ../../etc defaults 0 0"             # 5
        echo "tmpfs $work/x tmpfs defaults x 0"                 # 6
        echo "tmpfs $work/x tmpfs defaults 0 y"                 # 7
        echo "tmpfs $work/x tmpfs defaults 0 -1"                # 8
        echo "tmpfs $work/x tmpfs defaults 0 0 seven"           # 9
        echo "UUID= $work/x ext4 defaults 0 0"                  # 10
        echo "LABEL=\"open $work/x ext4 defaults 0 0"           # 11
        echo "LABEL=\"a\"b $work/x ext4 defaults 0 0"           # 12
        echo "tmpfs $work/x tmpfs context=\"a,b 0 0"            # 13
        printf '%s\n' "tmpfs $work/x\\000y tmpfs defaults 0 0" # 14
        printf 'tmpfs %s/x tmpfs def\001aults 0 0\n' "$work"    # 15
        printf 'tmpfs %s/x tmpfs a\0b 0 0\n' "$work"            # 16
        echo "tmpfs $work/x tmpfs offset=12q 0 0"               # 17
        echo "tmpfs $work/x tmpfs =1 0 0"                       # 18
        echo "tmpfs $work/x tmpfs loop=/etc/passwd 0 0"         # 19
        echo "tmpfs $work/x tmpfs defaults 99999999999 0"       # 20
        echo "tmpfs /$(printf 'x%.0s' {1..5000}) tmpfs defaults 0 0" # 21
        echo "tmpfs $work/x ,ext4 defaults 0 0"                 # 22
        echo "tmpfs $work/x tmpfs X-mount.mkdir=9z 0 0"         # 23
        head -c 70000 /dev/zero | tr '\0' x; echo               # 24
        echo "tmpfs $work/good tmpfs defaults 0 0"              # 25
} >fstab
run "$blkup" mount -a -T fstab
is 'broken lines: exit' "$code" 64
for ((line = 2; line <= 24; line++)); do has "line $line is named" "$err" "fstab line $line:"; done
is 'and no other' "$(grep -c 'fstab line' err.txt)" 23
yes_if 'the good one is mounted' mounted good
"$blkup" umount good

# JSON
if have python3 && python3 -c 'import jsonschema' 2>/dev/null; then
        echo "tmpfs $work/m tmpfs defaults 0 0
/dev/nope-blkup $work/n ext4 defaults 0 0
broken" >fstab
        for args in "mount -a -T fstab --dry-run --json" "mount -a -T fstab --json" "umount m nope --json"; do
                # shellcheck disable=SC2086 # words
                run "$blkup" $args
                if python3 -c 'import json, sys, jsonschema
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' out.txt "$root/docs/schema/mount.json" \
                        2>schema.txt; then
                        pass
                else
                        fail "schema: $args" "$(cat schema.txt)" "$out"
                fi
        done
else
        skip 'no python3-jsonschema here'
fi

# Where the new calls are forbidden, the old one does it.
finish
