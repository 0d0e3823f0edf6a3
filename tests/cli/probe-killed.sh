#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The process that looks at a slow device is killed or stopped from outside: that says nothing of the device. Neither it
# nor the cage's child outlives the command.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 losetup

throttle=/sys/fs/cgroup/blkio/blkup-test-$$
if [ "$(id -u)" != 0 ] || [ ! -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ] ||
        [ ! -e "/proc/self/task/$$/children" ] || ! mkdir "$throttle"; then
        skip 'no cage without root, or no way here to slow a device down'
        finish
fi
make_ext4 a.img 64M slow
loop=$(losetup --find --show a.img)
trap 'losetup -d "$loop"; rmdir "$throttle"; rm -rf "$work"' EXIT
echo "$(cat "/sys/block/${loop#/dev/}/dev") 30000" >"$throttle/blkio.throttle.read_bps_device"

# slowly OPTION...: begins a probe of the device in the background; $pid and, when it has one, the $child of the cage.
slowly() {
        # shellcheck disable=SC2016
        # Not in a group of its own: the kernel wakes what is stopped in one whose last leader ends.
        sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$throttle" "$blkup" probe --direct always "$@" "$loop" \
                >out.txt 2>err.txt &
        pid=$! child=''
        for ((i = 0; i < 1000; i++)); do
                # The cage's child, or the process that looks, and its child.
                child=$(children $pid)
                case " $* " in *' --timeout '*) child=$(children "${child:-0}") ;; esac
                [ -z "$child" ] || break
                sleep 0.01
        done
        sleep 0.1
}
children() {
        [ ! -e "/proc/$1/task/$1/children" ] || tr -d ' ' <"/proc/$1/task/$1/children"
}
# ended: waits for the command; $code.
ended() {
        code=0
        wait "$pid" 2>wait.txt || code=$?
        out=$(cat out.txt) err=$(cat err.txt)
}
# is_gone NAME PID: the process ends within two seconds.
is_gone() {
        for ((i = 0; i < 200; i++)); do
                if [ ! -e "/proc/$2" ] || grep -qs '^State:.Z' "/proc/$2/status"; then break; fi
                sleep 0.01
        done
        if ((i < 200)); then pass; else fail "$1: process $2 is left" "$(head -3 "/proc/$2/status")"; kill -9 "$2"; fi
}

for signal in KILL STOP; do
        slowly
        if [ -z "$child" ]; then
                kill "$pid"
                ended
                skip "no cage here: $err"
                finish
        fi
        kill -$signal "$child"
        ended
        is "child gets SIG$signal: exit" "$code" 0
        has "child gets SIG$signal: the answer" "$out" 'LABEL="slow"'
        is_gone "child gets SIG$signal" "$child"
done

# Whoever is killed, its child goes with it, also when that was stopped.
for before in CONT STOP; do
        slowly
        kill -$before "$child"
        kill -KILL "$pid"
        ended
        is_gone "killed, its child after SIG$before" "$child"
        slowly --timeout 1
        kill -$before "$child"
        ended
        is "given up, the child after SIG$before: exit" "$code" 4
        has "given up, the child after SIG$before: the line" "$err" 'no answer in time'
        is_gone "given up, the child after SIG$before" "$child"
done
finish
