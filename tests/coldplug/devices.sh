#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# coldplug with an fstab over loop devices: found by tag, finished, checked, mounted in order. Other devices of this
# machine are only looked at.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"
need_loops

tag=$$
ext4 one.img 64M -L "one-$tag"
ext4 two.img 256M -L "two-$tag" -E nodiscard,lazy_itable_init=1
ext4 three.img 16M -L "three-$tag"
ext4 broken.img 16M -L "broken-$tag"
ext4 ro.img 16M -L "ro-$tag"
ext4 twin.img 16M -L "twin-$tag"
cp twin.img twin2.img
# A root directory that is gone: nothing for fsck -a.
debugfs -w -R 'clri <2>' broken.img >/dev/null 2>&1
debugfs -w -R 'set_super_value state 2' broken.img >/dev/null 2>&1
declare -A loop=()
for name in one two three broken twin twin2; do loop[$name]=$(attach $name.img); done
loop[ro]=$(attach ro.img -r)
mkdir -p at/{one,three,broken,ro,twin,place,tmp}
uuid=$(blkid -p -o value -s UUID two.img)
cat >fstab <<END
LABEL=three-$tag $work/at/one/two/three ext4 defaults 0 2
UUID=$uuid $work/at/one/two ext4 noatime 0 2
LABEL=one-$tag $work/at/one ext4 defaults 0 1
${loop[broken]} $work/at/broken ext4 defaults 0 2
LABEL=ro-$tag $work/at/ro ext4 defaults 0 2
LABEL=twin-$tag $work/at/twin ext4 defaults 0 0
LABEL=absent-$tag $work/at/three ext4 nofail 0 0
${loop[three]} none swap sw 0 0
tmpfs-$tag $work/at/tmp tmpfs size=1m 0 0
END
mount "${loop[one]}" at/one
mkdir -p at/one/two
umount at/one
mount "${loop[two]}" at/place -o noinit_itable
mkdir at/place/three
umount at/place

coldplug -T fstab --dry-run --ignore-hibernation
no_if 'dry run' mounted at/one
is 'dry run' "$(entry "LABEL=one-$tag" .state)" 'would mount'

coldplug -T fstab --ignore-hibernation --finish=always
exits 'all but three' 64
is 'one' "$(entry "LABEL=one-$tag" .state)" mounted
is 'two' "$(entry "UUID=$uuid" .state)" mounted
is 'three' "$(entry "LABEL=three-$tag" .state)" mounted
yes_if 'in their order' mounted at/one/two/three
is 'two is finished' "$(entry "UUID=$uuid" .finish.state)" 'done'
has 'fsck ran' "$(entry "LABEL=one-$tag" .check.text)" 'clean'
is 'broken' "$(entry "${loop[broken]}" .state)" 'check failed'
has 'broken: why' "$(entry "${loop[broken]}" .check.text)" 'fsck.ext4 answered 4'
no_if 'broken is not mounted' mounted at/broken
is 'read-only' "$(entry "LABEL=ro-$tag" .state)" 'mounted ro'
is 'twins' "$(entry "LABEL=twin-$tag" .ready)" false
has 'twins: which' "$(entry "LABEL=twin-$tag" .locate.text)" "${loop[twin]}"
has 'twins: which' "$(entry "LABEL=twin-$tag" .locate.text)" "${loop[twin2]}"
is 'absent' "$(entry "LABEL=absent-$tag" .state)" 'not there'
is 'tmpfs' "$(entry "tmpfs-$tag" .state)" mounted
is 'options' "$(options_of at/one | grep -c nosuid)" 0

# Once more: all is there already.
coldplug -T fstab --ignore-hibernation --only "LABEL=one-$tag" --only "UUID=$uuid"
exits 'again' 0
is 'already' "$(jq -r '[.entries[].state] | unique[]' out.json)" 'already mounted'

# --only that is of no entry: not silence.
coldplug -T fstab --ignore-hibernation --only "LABEL=nobody-$tag"
exits '--only of nothing' 32
has '--only of nothing: it is told' "$(<err.txt)" "--only LABEL=nobody-$tag: no entry"
coldplug -T fstab --ignore-hibernation --only "LABEL=one-$tag" --only "LABEL=nobody-$tag"
exits '--only, one of two' 64
umount at/one/two/three at/one/two at/one at/ro at/tmp

# --mount, by path and by tag.
: >empty
coldplug -T empty --ignore-hibernation --mount "LABEL=one-$tag:$work/at/place" --mount "${loop[three]}:$work/at/three"
is '--mount' "$(entry "LABEL=one-$tag" .state)" mounted
has '--mount: options' ",$(options_of at/place)," ',nosuid,nodev,'
yes_if '--mount: a path' mounted at/three
umount at/place at/three

# A device that comes while it is waited for.
losetup -d "${loop[one]}"
(sleep 0.5 && attach one.img >loop.txt) &
coldplug -T empty --ignore-hibernation --wait 20 --mount "LABEL=one-$tag:$work/at/place"
wait
is '--wait' "$(entry "LABEL=one-$tag" .state)" mounted

# A copy that comes when the first is mounted: told with both names, and in the exit status.
ext4 first.img 16M -L "first-$tag"
cp first.img copy.img
attach first.img >first.txt
cat >fstab <<END
LABEL=first-$tag $work/at/one ext4 defaults 0 0
LABEL=absent-$tag $work/at/three ext4 nofail 0 0
END
(
        for ((i = 0; i < 200; i++)); do mounted at/one && break; sleep 0.05; done
        attach copy.img >copy.txt
) &
coldplug -T fstab --ignore-hibernation --wait 5 --only "LABEL=first-$tag" --only "LABEL=absent-$tag"
wait
exits 'a copy comes later' 64
is 'a copy comes later: the first stays' "$(entry "LABEL=first-$tag" .state)" mounted
is 'a copy comes later: it is told' "$(jq -r '.copies[] | .device + " " + .other + " " + .of' out.json)" \
        "$(<copy.txt) $(<first.txt) $work/at/one"
has 'a copy comes later: in words' "$(<err.txt)" "$(<copy.txt) and $(<first.txt) both carry LABEL=first-$tag"
umount at/one

# In little memory: the address space is large, what is touched is not.
case $(nm "$real_blkup" 2>/dev/null | grep -c __asan_init) in
0) is 'memory' "$(jq '.peak_bytes <= 8388608' out.json)" true ;;
*) skip 'memory: a build with the sanitizers' ;;
esac
finish
