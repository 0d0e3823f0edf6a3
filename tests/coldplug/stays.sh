#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# watch over loop devices: what failed is tried again when its cause has gone, what somebody unmounts is left alone, and
# signals end it at any moment. Other devices of this machine are only looked at.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"
need_loops

tag=$$
watcher=''
end_watch() { # SIGNAL...: ends it, and says how in $code
        local signal
        code=0
        for signal in "$@"; do kill -"$signal" "$watcher" 2>/dev/null || true; done
        wait "$watcher" || code=$?
        watcher=''
}
trap '[ -z "$watcher" ] || end_watch TERM; clean_up' EXIT

# What others of this machine have attached is not to be assembled, and no module to be loaded here.
start_watch() {
        : >told.txt
        "$blkup" watch --json -T fstab --ignore-hibernation --modules=never --assemble=never >>told.txt 2>err.txt &
        watcher=$!
}

# told FILTER: waits until an event is so
told() {
        local i
        for ((i = 0; i < 200; i++)); do
                jq -c "select($1)" told.txt 2>/dev/null | grep -q . && return 0
                sleep 0.05
        done
        return 1
}
tells() { # NAME FILTER
        if told "$2"; then pass; else fail "$1: not told" "$(cat told.txt err.txt)"; fi
}
count() { jq -c "select($1)" told.txt | wc -l; }

ext4 one.img 16M -L "one-$tag"
cp one.img copy.img
ext4 two.img 16M -L "two-$tag"
truncate -s 16M empty.img
mkdir -p at/{one,two}
one=$(attach one.img) copy=$(attach copy.img) two=$(attach empty.img)
cat >fstab <<END
LABEL=one-$tag $work/at/one ext4 defaults 0 0
$two $work/at/two auto defaults 0 0
END

start_watch
tells 'two copies' ".event == \"failed\" and .target == \"$work/at/one\" and (.text // \"\" | contains(\"both carry\"))"
tells 'nothing on it' ".event == \"failed\" and .target == \"$work/at/two\" and (.text // \"\" | contains(\"nothing known\"))"
no_if 'a doubtful device is not mounted' mounted at/one
losetup -d "$copy"
tells 'one copy has gone' ".event == \"ready\" and .target == \"$work/at/one\""
yes_if 'one copy has gone' mounted at/one
losetup -d "$two"
tells 'the loop device has gone' ".event == \"gone\" and .device == \"$two\""
losetup "$two" two.img
tells 'another file' ".event == \"ready\" and .target == \"$work/at/two\""
yes_if 'another file' mounted at/two

# What somebody unmounts is left alone, also when its device comes again.
umount at/one
tells 'unmounted' ".event == \"warning\" and .target == \"$work/at/one\" and (.text // \"\" | contains(\"left alone\"))"
losetup -d "$one"
tells 'its device goes' ".event == \"gone\" and .device == \"$one\""
losetup "$one" one.img
tells 'its device comes' ".event == \"device\" and .device == \"$one\" and .label == \"one-$tag\""
sleep 1
no_if 'unmounted stays so' mounted at/one
is 'mounted once' "$(count ".event == \"ready\" and .target == \"$work/at/one\"")" 1
end_watch TERM
is 'it ends' "$code" 0
is 'it says nothing else' "$(cat err.txt)" ''
umount at/two

# The kernel's word that something has changed.
mkfs.ext4 -q -F -L "other-$tag" "$two"
cat >fstab <<END
LABEL=new-$tag $work/at/two ext4 defaults 0 0
END
start_watch
tells 'settled' '.event == "settled"'
e2label "$two" "new-$tag"
echo change >"/sys/block/${two#/dev/}/uevent"
# Where no uevents are to be had, nothing tells of it.
if told ".event == \"ready\" and .target == \"$work/at/two\""; then pass; else skip 'a new label: no uevents here'; fi
end_watch INT INT
is 'two signals' "$code" 0
umount at/two 2>/dev/null || true
finish
