#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What this process or machine has not enough of, or does not have at all: each message says what, of which object, and what
# to do; no answer that could not be printed ends well.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4

make_ext4 a.img 16M 'a label'
mkdir dir mnt
echo "$work/a.img $work/mnt ext4 loop,noauto 0 0" >fstab
sed 's/,noauto//' fstab >auto

# limited LIMIT COMMAND...: runs it with that ulimit.
limited() {
        # shellcheck disable=SC2016
        run bash -c 'ulimit $0 && exec "$@"' "$1" "$blkup" "${@:2}"
}
more_files='Too many open files: this process may open no more, raise ulimit -n'
# A sanitizer keeps descriptors, and wants more memory than there is.
is_checked=$(nm -D "$blkup" 2>/dev/null | sed -n "s/.*__asan_init.*/yes/p" || true)
for n in 4 5 6 7 8; do
        for command in 'coldplug --dry-run --modules never -T fstab' 'coldplug --dry-run --image a.img' 'watch --modules never -T fstab' \
                'mount -o ro a.img mnt' 'probe a.img'; do
                # shellcheck disable=SC2086
                patience=5 limited "-n $n" $command
                case $err in
                *'Too many open files'*) has "ulimit -n $n: $command" "$err" "$more_files" ;;
                *) matches "ulimit -n $n: $command: $code" "$err" '([^C]|C[^a])*' ;; # no "Cannot allocate"
                esac
                umount mnt 2>/dev/null || true
        done
done
if [ -n "$is_checked" ]; then
        skip 'little memory: a sanitizer wants much'
else
        for command in 'findfs LABEL=nowhere' 'blkid a.img' 'coldplug --dry-run --image a.img' 'probe a.img'; do
                # shellcheck disable=SC2086
                limited '-v 6000' $command
                matches "little memory: $command" "$code $err" '[1-9][0-9]* .*([Oo]ut of memory|Cannot allocate memory: free some).*|0 .*'
                if [[ $err != *'not answer'* ]]; then pass; else fail "little memory: $command" "$(shown)"; fi
        done
fi

# Threads and processes: some do with few, and what cannot says so; none waits for those that cannot be made.
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)
if have prlimit && have setpriv && chmod 755 "$work" && chmod 644 a.img && "${nobody[@]}" test -x "$blkup" 2>/dev/null; then
        cp a.img b.img
        for n in 2 3 4 5 6 7 8 10 12; do
                patience=20 run "${nobody[@]}" env ASAN_OPTIONS=detect_leaks=0 prlimit --nproc=$n "$blkup" coldplug --dry-run \
                        --image a.img --image b.img
                matches "ulimit -u $n: coldplug" "$code $err" '0 |[1-9][0-9]* .*raise ulimit -u.*'
        done
else
        skip 'few processes: no prlimit or setpriv, or nobody cannot run the program'
fi

# What the command line names and is not there.
gives 'no fstab' 2 "$blkup" mount -a -T nosuch
is 'no fstab: the line' "$err" 'blkup: mount: nosuch: No such file or directory; -T names another'
gives 'a folder as fstab' 32 "$blkup" coldplug -T dir
is 'a folder as fstab: the line' "$err" 'blkup: coldplug: dir: Is a directory; -T names another'
gives 'no crypttab' 32 "$blkup" watch -T fstab --crypttab nosuch
is 'no crypttab: the line' "$err" 'blkup: watch: nosuch: No such file or directory; --crypttab names another'
gives 'options of many words' 1 "$blkup" mount -t tmpfs -o "$(printf 'a,%.0s' {1..2500})" none mnt
is 'options of many words: the line' "$err" \
        'blkup: mount: mnt: the options are too many or too long: leave some out (at most 1024, of 65536 bytes)'

if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
        gives 'options of 5000 bytes' 32 "$blkup" mount -t tmpfs -o "$(printf 'a%.0s' {1..5000})" none mnt
        has 'options of 5000 bytes: the line' "$err" 'the options are too long: the kernel takes a page of them ('
        # away FOLDER COMMAND...: what is mounted at FOLDER is not there.
        away() {
                # shellcheck disable=SC2016
                run unshare -m bash -c 'mount -t tmpfs none "$0" && exec "$@"' "$1" "$blkup" "${@:2}"
        }
        if [ -n "$is_checked" ]; then
                skip 'no /proc: a sanitizer looks there'
        else
                away /proc umount mnt
                is 'no /proc: umount' "$code $err" '2 blkup: umount: there is no /proc/self/mountinfo: is /proc mounted?'
                away /proc modules list
                is 'no /proc: modules list' "$code $err" \
                        '1 blkup: modules: there is no /proc/modules: is /proc mounted, and can this kernel load modules?'
        fi
        away /sys coldplug --dry-run -T fstab --modules never
        is 'no /sys: coldplug' "$code $err" '32 blkup: coldplug: there is no /sys/class/block: is /sys mounted?'
        away /sys watch -T fstab --modules never
        is 'no /sys: watch' "$code $err" '32 blkup: watch: there is no /sys/class/block: is /sys mounted?'
        away /dev mount -o ro a.img mnt
        has 'no /dev/loop-control' "$err" 'no loop devices here (the module loop is missing, or /dev/loop-control)'
else
        skip 'what needs a mount namespace: not root, or there is none'
fi

# An answer that cannot be printed.
for command in 'mount -a -T auto --dry-run' 'mount -a -T auto --dry-run --json' 'coldplug --dry-run --image a.img' \
        'coldplug --dry-run --json --image a.img' 'lazyinit a.img' 'lazyinit --json a.img' 'probe a.img' 'blkid a.img' \
        'modules plan --show-config' 'mount --help' 'coldplug --version'; do
        # shellcheck disable=SC2086
        for where in /dev/full closed; do
                code=0
                if [ $where = closed ]; then
                        "$blkup" $command >&- 2>err.txt || code=$?
                else
                        "$blkup" $command >$where 2>err.txt || code=$?
                fi
                is "to $where: $command: exit" "$((code != 0))" 1
                has "to $where: $command: the line" "$(cat err.txt)" 'standard output: '
        done
done
finish
