#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Signals, MMP, and politeness: what needs time.
# shellcheck source=tests/lazyinit/lib.sh
. "$(dirname "$0")/lib.sh"
need jq dumpe2fs

# -- SIGTERM finishes the unit and says how far it came ---------------------------------------------------------------
make_lazy a.img 64M -b 1024 -g 1024
cp a.img orig.img
groups=$(left a.img)
for signal in TERM INT; do
        cp orig.img a.img
        code=0
        "$blkup" lazyinit --background --wait-mult 1000 a.img >out.txt 2>err.txt &
        pid=$!
        pids+=("$pid")
        sleep 1.5
        # A job of a shell without job control ignores SIGINT; the program sets its own handler all the same.
        kill -s $signal $pid
        wait $pid || code=$?
        out=$(cat out.txt) err=$(cat err.txt)
        is "SIG$signal: exit" "$code" 1
        has "SIG$signal: how far it came" "$err" "of $groups groups are finished; run it again"
        told=$(sed -E 's/.*stopped: ([0-9]+) of .*/\1/' err.txt)
        is "SIG$signal: and that is true" "$((groups - $(left a.img)))" "$told"
        gives "SIG$signal: e2fsck" 0 e2fsck -fn a.img
        gives "SIG$signal: the next run goes on" 0 "$blkup" lazyinit a.img
        is "SIG$signal: to the end" "$(left a.img)" 0
done

# -- SIGKILL, somewhere ---------------------------------------------------------------------------------------------------
"$blkup" lazyinit --strategy write orig.img >/dev/null
want=$(sum_of orig.img)
for delay in 0.01 0.1 0.3 0.6; do
        make_lazy a.img 64M -b 1024 -g 1024 -U 3e6be9de-8139-4a1c-9106-a43f08d823a6
        "$blkup" lazyinit --background --wait-mult 3 a.img >/dev/null 2>&1 &
        pid=$!
        sleep $delay
        kill -KILL $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        gives "SIGKILL after $delay s: e2fsck" 0 e2fsck -fn a.img
        gives "SIGKILL after $delay s: the next run" 0 "$blkup" lazyinit a.img
        is "SIGKILL after $delay s: finished" "$(left a.img)" 0
done
gives 'a finished one is as it was' 0 "$blkup" lazyinit orig.img
is 'byte for byte' "$(sum_of orig.img)" "$want"

# -- politeness: the share of time at work ------------------------------------------------------------------------------
# A busy machine can make the last units of so short a run slow, which nothing pays for any more: up to three tries.
for mult in 0 1 10; do
        for try in 1 2 3; do
                make_lazy d.img 96M -b 1024 -g 1024 -i 1024
                longer "$blkup" lazyinit --background --wait-mult $mult --strategy write --json d.img
                if jq -e --argjson n $mult '.devices[0].background | (.duty_cycle * (1 + $n) - 1 | fabs) <= 0.05' \
                        <<<"$out" >/dev/null; then
                        pass
                        break
                elif [ $try = 3 ]; then
                        fail "duty cycle with $mult: not within 5 % of 1/(1+$mult)" "$(shown)"
                fi
        done
done

# -- MMP: held, given back, also when killed ------------------------------------------------------------------------------
mmp_seq() {
        local block
        block=$(dumpe2fs -h m.img 2>/dev/null | sed -n 's/^MMP block number: *//p')
        od -An -tx4 -j $((block * 1024 + 4)) -N 4 m.img | tr -d ' '
}
make_lazy m.img 16M -b 1024 -g 2048 -O mmp
cp m.img mmp.img
is 'MMP: clean at first' "$(mmp_seq)" ff4d4d50
gives 'MMP: --check does not touch it' 1 "$blkup" lazyinit --check m.img
"$blkup" lazyinit m.img >out.txt 2>err.txt &
pid=$!
pids+=("$pid")
sleep 3
if [ "$(mmp_seq)" != ff4d4d50 ]; then pass; else fail 'MMP: it is not taken'; fi
wait $pid && code=0 || code=$?
is 'MMP: done' "$code $(left m.img)" '0 0'
is 'MMP: given back' "$(mmp_seq)" ff4d4d50
gives 'MMP: e2fsck' 0 e2fsck -fn m.img
for signal in TERM KILL; do
        cp mmp.img m.img
        "$blkup" lazyinit m.img >out.txt 2>err.txt &
        pid=$!
        pids+=("$pid")
        sleep 3
        kill -s $signal $pid
        wait $pid 2>/dev/null || true
        for _ in $(seq 40); do
                [ "$(mmp_seq)" != ff4d4d50 ] || break
                sleep 0.1
        done
        is "MMP: given back after SIG$signal" "$(mmp_seq)" ff4d4d50
        gives "MMP: e2fsck after SIG$signal" 0 e2fsck -fn m.img
done
finish
