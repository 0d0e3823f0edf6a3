#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The programs of `watch --exec`: those that hang, die, flood, leave a daemon, close what they have, cannot be run or
# vanish; and events with names of all kinds. $2: hooks-tell.
tell=$(realpath -- "$2")
# shellcheck source=tests/coldplug/lib.sh
. "$(dirname "$0")/lib.sh"

hook() { # NAME: a script from standard input
        { echo '#!/bin/bash'; cat; } >"$1"
        chmod +x "$1"
}
runs() { # WHAT NAME: $took is in ms
        local start
        start=$(date +%s%3N)
        code=0
        timeout 60 "$tell" "$work/$2" "$1" </dev/null >out.txt 2>err.txt || code=$?
        took=$(($(date +%s%3N) - start))
}

# Arguments, environment, descriptors.
hook show <<'END'
{
        printf '%s|' "$#" "$@"
        echo
        env | tr '\n' '|'
        echo
        ls -l /proc/self/fd | grep -c 'socket:\|anon_inode\|/dev/\(sd\|vd\|loop\)'
        ps -o pgid= -p $$ | tr -d ' '
        echo "$$"
        echo
} >>"${0%/*}/shown"
echo to standard output
END
runs hostile show
is 'hostile: the code' "$code" 0
is 'hostile: it ran twice' "$(grep -c '^7|ready|/dev/sda|' shown)" 2
has 'hostile: nothing is left to be understood' "$(head -n 1 shown)" \
        '|\x24\x28touch\x20\x2fnobody\x29\x20\x60x\x60|\x0a\x0a'
has 'hostile: quotes and bytes' "$(head -n 1 shown)" \
        '|\x22\x27\x5c\x3b\x26\x7c\x3c\x3e\x2a\x3f\x7e#\x1b\x5b31m\x80\xff||-rf\x20\x2f|'
is 'hostile: a path that is none is left out' "$(head -n 1 shown | cut -d'|' -f 7)" ''
is 'hostile: a label is cut' "$(($(head -n 1 shown | cut -d'|' -f 5 | wc -c) <= 4097))" 1
is 'hostile: a long path is whole' "$(grep '^7|' shown | tail -n 1 | cut -d'|' -f 7 | wc -c)" $((1 + 4 * 4094 + 1))
# With what bash adds.
is 'the environment' "$(sed -n 2p shown | tr '|' '\n' | grep -v '^$\|^PWD=\|^SHLVL=\|^_=\|^OLDPWD=' | sort | tr '\n' ' ')" \
        'LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin '
is 'a group of its own' "$(sed -n 4p shown)" "$(sed -n 5p shown)"
has 'its standard output' "$(<err.txt)" 'to standard output'
is 'ours has nothing' "$(<out.txt)" ''

hook dies <<'END'
kill -SEGV $$
END
runs hostile dies
is 'dies: it is said' "$(grep -c "dies ready: ended by signal 11" err.txt)" 2
hook fails <<'END'
exit 3
END
runs hostile fails
is 'fails: it is said' "$(grep -c "fails ready: exit 3" err.txt)" 2

# A child that hangs with it is killed with it; both within the five seconds of the end.
hook hangs <<'END'
sleep 1000 &
echo $! >>"${0%/*}/children"
wait
END
runs hostile hangs
is 'hangs: the code' "$code" 0
is 'hangs: in time' "$((took >= 4500 && took < 15000))" 1
has 'hangs: it is said' "$(<err.txt)" 'hangs ready does not end: killed'
mapfile -t children <children
yes_if 'hangs: its child is gone' is_over "${children[@]:?}"
hook stubborn <<'END'
trap '' TERM INT HUP
kill -STOP $$
END
runs hostile stubborn
is 'stopped by itself: in time' "$((took < 15000))" 1

# A daemon is not waited for, and stays.
hook daemon <<'END'
setsid sleep 30 &
echo $! >>"${0%/*}/daemons"
END
runs hostile daemon
is 'a daemon: nobody waits' "$code $(grep -c 'does not end' err.txt)" '0 0'
while read -r pid; do yes_if 'a daemon stays' kill "$pid"; done <daemons

hook closes <<'END'
exec 0<&- 1>&- 2>&-
echo lost
exit 0
END
runs hostile closes
is 'closes all: the code' "$code $(grep -c 'does not end' err.txt)" '0 0'
hook floods <<'END'
head -c 10000000 /dev/zero
head -c 10000000 /dev/zero >&2
END
code=0
timeout 60 "$tell" "$work/floods" hostile 2>&1 >/dev/null | wc -c >count || code=$?
is 'floods: all comes out' "$(($(<count) >= 40000000))" 1
# Nobody reads it: it is killed, and nothing else waits.
mkfifo pipe
(exec <pipe; exec sleep 20) &
reader=$!
start=$(date +%s%3N)
timeout 60 "$tell" "$work/floods" hostile 2>pipe || true
is 'floods, nobody reads: in time' "$(($(date +%s%3N) - start < 15000))" 1
kill "$reader"

echo '#!/bin/sh' >no-program
runs hostile no-program
is 'not executable: it is said' "$(grep -c 'no-program ready: Permission denied' err.txt)" 2
printf 'nothing known' >no-format
chmod +x no-format
runs hostile no-format
has 'no program: it is said' "$(<err.txt)" 'Exec format error'
hook vanishes <<'END'
rm "$0"
END
runs hostile vanishes
is 'vanishes: the second call' "$(grep -c 'vanishes ready: No such file' err.txt)" 1

hook quick <<'END'
sleep 0.02
END
runs flood quick
has 'more events than are kept' "$(<err.txt)" '4096 events wait for the programs of --exec: more are dropped'
is 'more events than are kept: said once' "$(grep -c dropped err.txt)" 1
is 'more events than are kept: the end' "$((took < 15000))" 1

# In watch itself, of a device with such a name; what hangs is in nobody's way.
need_loops
ext4 odd.img 16M -L $'$(x)"\n\'`;'
uuid=$(blkid -p -o value -s UUID odd.img)
mkdir -p $'at/a b\n"$(touch x)'
cat >fstab <<END
UUID=$uuid $work/at/a\\040b\\012"\$(touch\\040x) ext4 defaults 0 0
END
device=$(attach odd.img)
rm -f shown
hook slow <<'END'
sleep 1000
END
"$blkup" watch -T fstab --ignore-hibernation --modules=never --assemble=never --exec "$work/show" \
        --exec "$work/slow" >told.txt 2>err.txt &
watcher=$!
for ((i = 0; i < 200; i++)); do grep -q "^settled" told.txt && break; sleep 0.05; done
for ((i = 0; i < 100; i++)); do [ -s shown ] && break; sleep 0.05; done
yes_if 'watch: settled beside a program that hangs' grep -q "^settled" told.txt
if mountpoint -q $'at/a b\n"$(touch x)'; then pass; else fail 'watch: mounted' "$(<told.txt)" "$(<err.txt)"; fi
start=$(date +%s%3N)
kill "$watcher"
code=0
wait "$watcher" || code=$?
is 'watch: it ends' "$code $(($(date +%s%3N) - start < 15000))" '0 1'
yes_if 'watch: the first event came through' grep -q '^7|device|/dev/' shown
is 'watch: no descriptor of ours' "$(sed -n 3p shown)" 0
no_if 'watch: no child is left' pgrep -f "$work/slow"
umount $'at/a b\n"$(touch x)'
rm -f shown
"$blkup" watch -T fstab --ignore-hibernation --modules=never --assemble=never --exec "$work/show" >told.txt 2>err.txt &
watcher=$!
for ((i = 0; i < 200; i++)); do grep -q "^7|ready|$device" shown 2>/dev/null && break; sleep 0.05; done
kill "$watcher"
wait "$watcher"
has 'watch: the names' "$(grep "^7|ready|$device" shown)" \
        "|ext4|\\x24\\x28x\\x29\\x22\\x0a\\x27\\x60\\x3b|$uuid|$work/at/a\\x20b\\x0a\\x22\\x24\\x28touch\\x20x\\x29|"
no_if 'nobody has run a name' test -e x -o -e at/x
finish
