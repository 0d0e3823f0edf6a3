#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Parents before children whatever the file's order: /a, /a/b, /a/b/c and 29 siblings, shuffled, 100 rounds.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "$0")/lib.sh"
mkdir root
lines() {
        echo "tmpfs $work/root/a tmpfs X-mount.mkdir 0 0"
        echo "tmpfs $work/root/a/b tmpfs X-mount.mkdir 0 0"
        echo "tmpfs $work/root/a/b/c tmpfs X-mount.mkdir 0 0"
        for ((i = 0; i < 29; i++)); do echo "tmpfs $work/root/s$i tmpfs X-mount.mkdir 0 0"; done
}
mount -t tmpfs tmpfs root
for ((round = 0; round < 100; round++)); do
        lines | shuf --random-source=<(yes "$round") >fstab
        if ! "$blkup" mount -a -T fstab; then
                fail "round $round: exit"
                break
        fi
        seen=0
        for dir in root/a root/a/b root/a/b/c root/s0 root/s28; do
                # seen through its path, not only in the table
                [ "$(stat -f -c %T "$dir")" = tmpfs ] && mountpoint -q "$dir" && seen=$((seen + 1))
        done
        n=$(grep -c " $work/root/" /proc/self/mountinfo)
        if [ "$seen" != 5 ] || [ "$n" != 32 ]; then
                fail "round $round: $seen of 5 seen, $n of 32 mounted" "$(cat fstab)"
                break
        fi
        if ! "$blkup" umount root/a root/a/b root/a/b/c root/s*; then
                fail "round $round: umount"
                break
        fi
        n=$(grep -c " $work/root/" /proc/self/mountinfo || true)
        [ "$n" = 0 ] || { fail "round $round: $n left"; break; }
done
is 'rounds' "$round" 100

# umount: names in any order, all at once; whole trees; a device; everything of a type.
lines >fstab
gives 'again' 0 "$blkup" mount -a -T fstab
gives 'already there' 0 "$blkup" mount -a -T fstab
is 'not twice' "$(grep -c " $work/root/" /proc/self/mountinfo)" 32
gives 'recursive' 0 "$blkup" umount -R root/a
no_if 'gone' mounted root/a
is 'the others stay' "$(grep -c " $work/root/" /proc/self/mountinfo)" 29
says 'some fail' 64 'nope does not exist' "$blkup" umount root/s0 nope root/s1
no_if 's0 is gone' mounted root/s0
no_if 's1 is gone' mounted root/s1
# A parent that failed: its child is not mounted over the wrong place.
cat >fstab <<END
/dev/nope-blkup $work/root/p ext4 X-mount.mkdir 0 0
tmpfs $work/root/p/q tmpfs X-mount.mkdir 0 0
tmpfs $work/root/good tmpfs X-mount.mkdir 0 0
END
says 'a parent fails' 64 "$work/root/p, which is not mounted" "$blkup" mount -a -T fstab
no_if 'the child is not there' mounted root/p/q
yes_if 'the others are' mounted root/good
# A chain that closes a circle ends all the same.
mkdir -p root/x root/y
cat >fstab <<END
$work/root/x $work/root/y/in none bind,X-mount.mkdir 0 0
$work/root/y $work/root/x/in none bind,X-mount.mkdir 0 0
END
run "$blkup" mount -a -T fstab
if [ "$code" != 124 ]; then pass; else fail 'a circle hangs'; fi
# The timeline and the graph.
lines >fstab
"$blkup" umount -R root/x root/y root/good 2>/dev/null || true
gives 'timeline' 0 "$blkup" mount -a -T fstab --timeline t.json
if have jq; then
        yes_if 'it has the steps' jq -e '[.traceEvents[] | select(.name == "CREATE")] | length >= 3' t.json
fi
umount -R -l root
finish
