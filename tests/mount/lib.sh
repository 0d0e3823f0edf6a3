# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the scripts here share: a mount namespace of their own, images made by this machine's mkfs, and the words of
# tests/cli/lib.sh. Sourced with the blkup binary as $1. Nothing is mounted or attached outside the namespace and the
# folder of the test; loop devices that are left are detached at the end.
if [ -z "${BLKUP_IN_NAMESPACE:-}" ]; then
        if ! unshare -m --propagation private true 2>/dev/null; then
                echo 'SKIP: mounting is not allowed here (no mount namespace of our own)'
                exit 77
        fi
        BLKUP_IN_NAMESPACE=1 exec unshare -m --propagation private bash "$0" "$@"
fi
# shellcheck source=tests/cli/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"

# Images may be large and sparse, mount points many: on a tmpfs of the test's own.
if ! mount -t tmpfs -o size=3g,mode=755 blkup-test "$work" 2>/dev/null; then
        echo 'SKIP: mounting is not allowed here'
        exit 77
fi
cd "$work"
have_loops=''
truncate -s 1M probe.img
if probe_loop=$(losetup -f --show probe.img 2>/dev/null); then
        losetup -d "$probe_loop"
        have_loops=1
fi

# Another program of this machine may have a hibernation image attached at the moment, a test of another tree for
# one: only tests/mount/hibernation.sh minds.
real_blkup=$blkup
cat >blkup-mount-test <<END
#!/bin/sh
[ "\$1" != mount ] || { shift; exec "$real_blkup" mount --ignore-hibernation "\$@"; }
exec "$real_blkup" "\$@"
END
chmod +x blkup-mount-test
blkup=$work/blkup-mount-test

clean_up() {
        # A script that has more to do at its end keeps its own status first.
        local status=${at_end:-$?}
        set +e
        cd /
        # A loop device of ours is one whose file lies in our folder; once that is unmounted, the names no longer say so.
        local -a loops
        mapfile -t loops < <(losetup -n -O NAME,BACK-FILE 2>/dev/null | grep -F "$work/" | cut -d' ' -f1)
        umount -R -l "$work" 2>/dev/null
        for name in "${loops[@]}"; do losetup -d "$name" 2>/dev/null; done
        rm -rf "$work"
        exit $status
}
trap clean_up EXIT

need_loops() {
        [ -n "$have_loops" ] || { skip 'no loop devices here'; finish; }
}

# knows TYPE: this kernel mounts it.
knows() {
        grep -qw "$1" /proc/filesystems
}

ext4() { # FILE [SIZE [MKFS OPTIONS]]
        truncate -s "${2:-16M}" "$1"
        mkfs.ext4 -q -F "${@:3}" "$1" 2>/dev/null
}

attach() { # FILE [OPTIONS]: prints the loop device
        losetup -f --show "${@:2}" "$1"
}

mounted() { # DIR: is something mounted there?
        awk -v at="$(realpath -m "$1")" '$5 == at { found = 1 } END { exit !found }' /proc/self/mountinfo
}

# What the topmost mount at DIR says of itself.
options_of() {
        awk -v at="$(realpath -m "$1")" '$5 == at { v = $6 } END { print v }' /proc/self/mountinfo
}

behind_dash() { # DIR NUMBER: 1 type, 2 source, 3 options of the super block
        awk -v at="$(realpath -m "$1")" -v n="$2" \
                '$5 == at { for (i = 7; $i != "-"; i++); v = $(i + n) } END { print v }' /proc/self/mountinfo
}

source_of() {
        behind_dash "$1" 2
}

super_of() {
        behind_dash "$1" 3
}

# says NAME CODE PART COMMAND...: fails with CODE, and stderr has PART.
says() {
        local name=$1 want=$2 part=$3
        shift 3
        run "$@"
        if [ "$code" = "$want" ] && [[ $err == *"$part"* ]]; then
                pass
        else
                fail "$name" "want: exit $want and '$part'" "$(shown)"
        fi
}

yes_if() { # NAME COMMAND...
        local name=$1
        shift
        if "$@"; then pass; else fail "$name: $*"; fi
}

no_if() { # NAME COMMAND...
        local name=$1
        shift
        if "$@"; then fail "$name: $*"; else pass; fi
}

# Loop devices that show files of this test.
count_loops() {
        losetup -n -O BACK-FILE 2>/dev/null | grep -cF "$work/" || true
}
