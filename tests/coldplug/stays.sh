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
trap 'at_end=$?; [ -z "$watcher" ] || end_watch TERM; clean_up' EXIT

# What others of this machine have attached is not to be assembled, and no module to be loaded here.
start_watch() {
        : >told.txt
        "$blkup" watch --json -T fstab --ignore-hibernation --modules=never --assemble=never >>told.txt 2>err.txt &
        watcher=$!
}
count() { jq -c "select($1)" told.txt | wc -l; }

# Devices that come again under their name: so high that `losetup -f` gives nobody else the same one meanwhile.
attach_high() {
        local n
        for ((n = 100 + tag % 20; n < 128; n++)); do
                [ -b "/dev/loop$n" ] && losetup "/dev/loop$n" "$1" 2>/dev/null && echo "/dev/loop$n" && return 0
        done
        return 1
}
# Only what is ours.
detach() {
        case $(losetup -n -O BACK-FILE "$1" 2>/dev/null) in
        "$work"/*) losetup -d "$1" ;;
        *) return 1 ;;
        esac
}

ext4 one.img 16M -L "one-$tag"
cp one.img copy.img
ext4 two.img 16M -L "two-$tag"
truncate -s 16M empty.img
mkdir -p at/{one,two}
if ! one=$(attach_high one.img) || ! two=$(attach_high empty.img); then
        skip 'no loop device above 100 is free'
        finish
fi
copy=$(attach copy.img)
cat >fstab <<END
LABEL=one-$tag $work/at/one ext4 defaults 0 0
$two $work/at/two auto defaults 0 0
END

start_watch
tells 'two copies' ".event == \"failed\" and .target == \"$work/at/one\" and (.text // \"\" | contains(\"both carry\"))"
tells 'nothing on it' ".event == \"failed\" and .target == \"$work/at/two\" and (.text // \"\" | contains(\"nothing known\"))"
no_if 'a doubtful device is not mounted' mounted at/one
detach "$copy"
tells 'one copy has gone' ".event == \"ready\" and .target == \"$work/at/one\""
yes_if 'one copy has gone' mounted at/one
detach "$two"
tells 'the loop device has gone' ".event == \"gone\" and .device == \"$two\""
losetup "$two" two.img
tells 'another file' ".event == \"ready\" and .target == \"$work/at/two\""
yes_if 'another file' mounted at/two

# What somebody unmounts is left alone, also when its device comes again.
umount at/one
tells 'unmounted' ".event == \"warning\" and .target == \"$work/at/one\" and (.text // \"\" | contains(\"left alone\"))"
detach "$one"
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

# What stands at a place is only taken away if it is what was mounted there: the device and its mount go, and somebody
# mounts another thing before that is seen.
cat >fstab <<END
LABEL=new-$tag $work/at/two ext4 defaults 0 0
END
start_watch
tells 'mounted to go' ".event == \"ready\" and .target == \"$work/at/two\""
# The work is done by a child.
worker=$(pgrep -P "$watcher")
kill -STOP "$worker"
detach "$two" # goes with its mount
umount at/two
mount -t tmpfs "somebodys-$tag" at/two
kill -CONT "$worker"
tells 'it goes' ".event == \"gone\" and .device == \"$two\""
sleep 0.5
is 'what is somebody else'"'"'s stays' "$(findmnt -n -o SOURCE at/two)" "somebodys-$tag"
end_watch TERM
umount at/two
losetup "$two" two.img

# Each name once.
is 'coldplug of a folder' "$("$blkup" coldplug --image at 2>&1 >/dev/null)" 'blkup: coldplug: at: probe: failed: is a directory'

# A reader that does not read, and then one that has gone: what is plugged in is brought up all the same.
mkfifo pipe
python3 - pipe <<'END' &
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)
open("sized", "w").close()
time.sleep(60)
END
reader=$!
for ((i = 0; i < 200; i++)); do [ -e sized ] && break; sleep 0.05; done
cat >fstab <<END
LABEL=late-$tag $work/at/one ext4 defaults 0 0
END
"$blkup" watch --json -T fstab --ignore-hibernation --modules=never --assemble=never >pipe 2>err.txt &
watcher=$!
# Each a line of some 120 bytes: more than the pipe holds.
for ((i = 0; i < 25; i++)); do
        detach "$two" && sleep 0.05
        losetup "$two" two.img 2>/dev/null || true
        sleep 0.05
done
ext4 late.img 16M -L "late-$tag"
attach late.img >/dev/null
for ((i = 0; i < 100; i++)); do mounted at/one && break; sleep 0.05; done
yes_if 'nobody reads' mounted at/one
end_watch TERM
is 'nobody reads: it is said' "$code $(cat err.txt)" '32 blkup: watch: standard output is not read: what was left is lost'
kill "$reader"
umount at/one
: >err.txt
"$blkup" watch -T fstab --ignore-hibernation --modules=never --assemble=never 2>err.txt > >(head -n 0) &
watcher=$!
for ((i = 0; i < 100; i++)); do mounted at/one && break; sleep 0.05; done
yes_if 'the reader has gone' mounted at/one
for ((i = 0; i < 100; i++)); do [ -s err.txt ] && break; sleep 0.05; done
is 'the reader has gone: it is said' "$(cat err.txt)" 'blkup: watch: standard output: Broken pipe: goes on without it'
end_watch HUP
is 'the reader has gone: the code' "$code" 32
umount at/one

# No descriptor but the three, and few of all.
for few in 12 18; do
        code=0
        # --foreground: the SIGCONT behind SIGTERM makes LeakSanitizer hang at the end.
        (ulimit -n "$few"; exec timeout --foreground 2 "$blkup" watch -T fstab --ignore-hibernation --modules=never --assemble=never \
                --no-mount </dev/null >told.txt 2>err.txt) || code=$?
        case $few-$code in
        12-32 | 18-124) pass ;;
        *) fail "$few descriptors" "$code" "$(cat told.txt err.txt)" ;;
        esac
done
finish
