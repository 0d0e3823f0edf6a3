#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A device that hangs, one with read errors and one full of garbage delay nobody, and are named. Devices by nbdkit, which
# nbdfuse shows as files, and loop devices on those.
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"
need_loops
need nbdkit nbdfuse
[ -c /dev/fuse ] || { skip 'no /dev/fuse here'; finish; }

declare -a servers=()
# What waits for the silent device goes on when nbdfuse, a child of its server, is gone; a polite signal both would answer
# after their 60 seconds.
end_servers() {
        local pid
        for pid in "${servers[@]}"; do
                pkill -KILL -P "$pid" 2>/dev/null || true
                kill -KILL "$pid" 2>/dev/null || true
                wait "$pid" 2>/dev/null || true
        done
        servers=()
}
trap 'at_end=$?; end_servers; clean_up' EXIT

tag=$$
# serve NAME NBDKIT ARGUMENTS...: a file that nbdkit answers for
serve() {
        local name=$1 i
        shift
        touch "$name"
        # Behind -C 1: with more connections nbdkit 1.32's delay filter can end on an assertion when they close.
        nbdkit -U - "$@" --run "exec nbdfuse -C 1 '$work/$name' \$uri" >/dev/null 2>"$name.log" &
        servers+=($!)
        for ((i = 0; i < 200; i++)); do
                [ "$(stat -c %s "$name")" = 0 ] || return 0
                sleep 0.05
        done
        skip "nbdfuse does not serve $name here: $(head -c 300 "$name.log")"
        finish
}

ext4 good.img 16M -L "good-$tag"
ext4 silent.img 16M -L "silent-$tag"
ext4 errors.img 16M -L "errors-$tag"
head -c 16M /dev/urandom >garbage.img
serve silent --filter=delay file silent.img rdelay=60 wdelay=60
serve errors --filter=error file errors.img error-pread-rate=100%
attach good.img >/dev/null
garbage=$(attach garbage.img) silent=$(attach silent) errors=$(attach errors)
mkdir -p at/{good,garbage,silent,errors}
cat >fstab <<END
LABEL=good-$tag $work/at/good ext4 defaults 0 0
$silent $work/at/silent ext4 defaults 0 0
$errors $work/at/errors ext4 defaults 0 0
$garbage $work/at/garbage auto defaults 0 0
END

start=${EPOCHREALTIME/./}
coldplug -T fstab --ignore-hibernation --timeout 10
took=$(((${EPOCHREALTIME/./} - start) / 1000))
exits 'one of four' 64
is 'good' "$(entry "LABEL=good-$tag" .state)" mounted
ready=$(entry "LABEL=good-$tag" '.mount.start_us + .mount.us | floor')
if [ "$ready" -lt 8000000 ]; then pass; else fail "good was ready after $ready us"; fi
is 'silent' "$(entry "$silent" .state)" silent
has 'silent is named' "$err" "$silent: probe: timed out"
is 'errors' "$(entry "$errors" .state)" unreadable
has 'errors is named' "$err" "$errors: probe: failed"
has 'garbage is named' "$err" "$garbage: nothing known is on it"
# The command does not wait for what never answers.
if [ "$took" -lt 30000 ]; then pass; else fail "it took $took ms"; fi
echo "good was ready after $ready us; the command ended after $took ms, at --timeout 10"
umount at/good

# A device that cannot be read is not one that ends too early.
says 'mount of read errors' 32 'byte 1080 of errors cannot be read: Input/output error' \
        "$blkup" mount --ignore-hibernation -t ext4 errors at/errors

# Who looks for a lost journal on all devices does not wait for the silent one.
truncate -s 8M journal.img
mke2fs -q -F -O journal_dev -b 1024 journal.img 2>/dev/null
journal=$(attach journal.img)
ext4 far.img 16M -b 1024 -J "device=$journal"
losetup -d "$journal"
if dd if=/dev/kmsg iflag=nonblock bs=8192 count=1 of=/dev/null status=none 2>/dev/null; then
        says 'a lost journal' 32 'and no device here has it' "$blkup" mount --ignore-hibernation far.img at/errors
fi

# The same for one device at a time: who has found what it looked for waits a second for the others.
quick() { # NAME CODE COMMAND...
        local name=$1 code=0 start=${EPOCHREALTIME/./} took
        shift
        blockdev --flushbufs "$silent" 2>/dev/null || true
        run timeout 50 "${@:2}" || true
        took=$(((${EPOCHREALTIME/./} - start) / 1000))
        is "$name: exit" "$code_of_run" "$1"
        if [ "$took" -lt 25000 ]; then pass; else fail "$name took $took ms"; fi
}
# The leak checker stops all threads at the end, and waits for one that waits for the silent device.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
good=$(losetup -n -O NAME -j good.img)
code_of_run=0
run() { code_of_run=0; out=$("$@" 2>err.txt) || code_of_run=$?; err=$(cat err.txt); }
quick 'findfs' 0 "$blkup" findfs "LABEL=good-$tag"
is 'findfs: the device' "$out" "$good"
quick 'blkid -L' 0 "$blkup" blkid -L "good-$tag"
is 'blkid -L: the device' "$out" "$good"
quick 'mount by label' 0 "$blkup" mount "LABEL=good-$tag" at/good
umount at/good
quick 'findfs of what nobody has' 1 "$blkup" findfs "LABEL=nobody-$tag"
has 'it names who is silent' "$err" "does not answer"
quick 'mount' 0 "$blkup" mount "$good" at/good
umount at/good
end_servers

# A checker is waited for; a second signal leaves it to itself. In a namespace of our own it stands in the place of
# another, which needs a file to lie over.
checker=$(readlink -f "$(type -P fsck.ext4)")
cat >slow-fsck <<END
#!/bin/sh
echo begins
touch $work/began
sleep 4
echo 'slow: clean'
echo 'slow: again' >&2
touch $work/ended
END
chmod +x slow-fsck
ext4 check.img 16M -L "check-$$"
attach check.img >check.txt
mkdir -p at/check
echo "LABEL=check-$$ $work/at/check ext4 defaults 0 2" >fstab
if mount --bind slow-fsck "$checker"; then
        for command in coldplug watch; do
                for signals in TERM INT 'TERM TERM'; do
                        rm -f began ended
                        # A shell's background jobs ignore SIGINT.
                        python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$real_blkup" "$command" -T fstab --ignore-hibernation --modules=never --assemble=never \
                                >out.txt 2>err.txt &
                        pid=$!
                        for ((i = 0; i < 200; i++)); do [ -e began ] && break; sleep 0.05; done
                        for signal in $signals; do kill -"$signal" "$pid"; sleep 0.3; done
                        code=0
                        wait "$pid" || code=$?
                        name="$command, $signals"
                        has "$name: it is said" "$(<err.txt)" "waits for fsck.ext4 of $(<check.txt), "
                        case $command-$signals in
                        *' '*)
                                no_if "$name: ends before the checker" test -e ended
                                for ((i = 0; i < 200; i++)); do [ -e ended ] && break; sleep 0.05; done
                                ;;
                        coldplug-TERM) is "$name: the code" "$code" 143 ;;
                        coldplug-INT) is "$name: the code" "$code" 130 ;;
                        watch-*) is "$name: the code" "$code" 0 ;;
                        esac
                        yes_if "$name: the checker has ended" test -e ended
                        umount at/check 2>/dev/null || true
                done
        done
        # Nobody asked for the end: what others may wait for is named all the same.
        # In the same file: another would not be the one that lies there.
        sed 's/^sleep 4/sleep 8/' slow-fsck >slower-fsck
        cat slower-fsck >slow-fsck
        rm -f began ended
        coldplug -T fstab --ignore-hibernation
        is 'a check that takes long' "$(entry "LABEL=check-$$" .ready)" true
        has 'a check that takes long: it is said' "$err" "waits for fsck.ext4 of $(<check.txt), "
        umount at/check 2>/dev/null || true
        umount "$checker"
fi
finish
