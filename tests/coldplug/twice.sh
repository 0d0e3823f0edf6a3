#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What is there already is left as it is, whoever mounted it and by whatever path; lines for one device are in the order
# of the file; what stands in a line that is bound is no device; what somebody mounts by hand is taken note of.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"
need_loops
tag=$$
watcher=''
trap 'at_end=$?; [ -z "$watcher" ] || { kill "$watcher"; wait "$watcher"; }; clean_up' EXIT

ext4 a.img 16M -L "a-$tag"
ext4 b.img 16M -L "b-$tag"
ext4 file.img 16M
ext4 under.img 16M
a=$(attach a.img) b=$(attach b.img)
mkdir -p at/{p,bound,own,all,image,real,shm,other,under}
mount "$a" at/p
mkdir at/p/folder
umount at/p
ln -s real at/link
: >at/text
echo words >text
cat >fstab <<END
LABEL=a-$tag $work/at/p ext4 defaults 0 0
$work/at/p/folder $work/at/bound none bind 0 0
$work/at/p $work/at/p none bind 0 0
$work/at/p $work/at/all none rbind 0 0
$work/file.img $work/at/image ext4 loop 0 0
LABEL=b-$tag $work/at/link ext4 defaults 0 0
LABEL=b-$tag $work/at/link xfs,ext4 defaults 0 0
$work/under.img $work/at/under auto loop 0 0
over $work/at/under tmpfs size=1m 0 0
$work/text $work/at/text none bind 0 0
/dev/shm $work/at/shm none bind 0 0
END
[ -d /dev/shm ] || sed -i '$d' fstab
lines=$(wc -l <fstab)
ours() { grep -F " $work/at/" /proc/self/mountinfo; }
ready() { jq '[.entries[] | select(.ready)] | length' out.json; }

coldplug -T fstab --ignore-hibernation --dry-run
is 'dry run' "$(ready)" "$lines"
has 'dry run: a folder on what is not mounted yet' "$(entry "$work/at/p/folder" .mount.text)" "$work/at/p is not mounted yet"
no_if 'dry run: nothing is mounted' ours

# The devices of others may be broken: that is no matter of these lines, and costs the exit status its 0.
coldplug -T fstab --ignore-hibernation
is 'all' "$(ready)" "$lines"
is 'a file that is bound' "$(cat at/text)" words
no_if 'an image is no copy of itself' grep -q "both carry.*$work" err.txt
is 'a line that is there twice' "$(ours | grep -c "$work/at/real ")" 1
ours >before.txt
coldplug -T fstab --ignore-hibernation
is 'again' "$(ready)" "$lines"
is 'again: all is there' "$(jq -r '[.entries[].state] | unique | join(", ")' out.json)" 'already mounted'
is 'again: nothing is mounted' "$(ours)" "$(cat before.txt)"
# Ends: each turn takes a mount away.
while umount -R -q at/*/ at/text 2>/dev/null || ours | grep -q .; do
        for place in at/*; do umount -R -q "$place" 2>/dev/null || true; done
done
# It minds the line that is there twice.
mount -a -T fstab 2>/dev/null || true
ours >before.txt
coldplug -T fstab --ignore-hibernation
is 'behind mount -a' "$(jq -r '[.entries[].state] | unique | join(", ")' out.json)" 'already mounted'
is 'behind mount -a: nothing is mounted' "$(ours)" "$(cat before.txt)"
while ours | grep -q .; do
        for place in at/*; do umount -R -q "$place" 2>/dev/null || true; done
done

# Which types a list means.
cat >fstab <<END
LABEL=a-$tag $work/at/p xfs,ext4,btrfs defaults 0 0
LABEL=b-$tag $work/at/own xfs,btrfs defaults 0 0
LABEL=b-$tag $work/at/other noxfs,btrfs defaults 0 0
END
coldplug -T fstab --ignore-hibernation
is 'a list of types' "$(jq -r '[.entries[].ready] | join(" ")' out.json)" 'true false true'
has 'a list of types: why' "$err" "$b holds ext4, which the types xfs,btrfs leave out"
umount at/p at/other

# The first line decides.
cat >fstab <<END
LABEL=a-$tag $work/at/p ext4 defaults 0 0
LABEL=a-$tag $work/at/other ext4 ro 0 2
$a $work/at/own ext4 defaults 0 0
END
for ((i = 0; i < 8; i++)); do
        coldplug -T fstab --ignore-hibernation
        is "one device, run $i" "$(jq -r '[.entries[].ready] | join(" ")' out.json)" 'true false true'
        umount at/p at/own
done

# The first line wants no check, the second does.
cat >fstab <<END
LABEL=a-$tag $work/at/p ext4 defaults 0 0
LABEL=a-$tag $work/at/other ext4 defaults 0 2
END
coldplug -T fstab --ignore-hibernation
is 'one device, a check' "$(jq -r '[.entries[].check.state] | join(", ")' out.json)" 'nothing to do, done'
is 'one device, a check: ready' "$(ready)" 2
umount at/p at/other

# A parent that failed, and is mounted by hand then.
cat >fstab <<END
LABEL=a-$tag $work/at/p ext4 no-such-option 0 0
LABEL=b-$tag $work/at/p/folder ext4 defaults 0 0
$work/file.img $work/at/image ext4 loop 0 0
END
"$blkup" watch --json -T fstab --ignore-hibernation --modules=never --assemble=never >told.txt 2>err.txt &
watcher=$!
tells 'its parent failed' ".event == \"failed\" and .target == \"$work/at/p/folder\""
mount "$a" at/p
tells 'its parent is mounted by hand' ".event == \"ready\" and .target == \"$work/at/p/folder\""
tells 'an image' ".event == \"ready\" and .target == \"$work/at/image\""
# What is mounted over it has not unmounted it.
mount -t tmpfs over at/p/folder
sleep 0.3
no_if 'something is mounted over it' grep -q 'left alone' told.txt
umount at/p/folder
umount at/p/folder
tells 'it is unmounted' ".event == \"warning\" and .target == \"$work/at/p/folder\""
kill "$watcher"
wait "$watcher" || true
watcher=''
no_if 'an image is no copy of itself' grep -q "both carry.*$work" told.txt
is 'it says nothing else' "$(cat err.txt)" ''
umount at/p at/image
finish
