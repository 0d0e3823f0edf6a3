#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The modules of a real kernel: plans equal to modprobe's for every module and for a part of the aliases, and no false
# alarm of the checker. The kernel is that of a linux-image package on this machine, or $BLKUP_TEST_SYSROOT.
# usage: debian.sh BLKUP
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/cli/lib.sh
. "$here/../cli/lib.sh"

sysroot=${BLKUP_TEST_SYSROOT:-}
folder=$(find "$sysroot/lib/modules" -mindepth 2 -maxdepth 2 -name modules.dep.bin -printf '%h\n' 2>/dev/null | sort | head -n 1)
if [ -z "$folder" ] || ! have modprobe; then
        echo "SKIP: no kernel with depmod's indexes in $sysroot/lib/modules, or no modprobe"
        exit 77
fi
release=${folder##*/}
sed 's/:.*//; s|.*/||; s/\.ko.*//' "$folder/modules.dep" >names
awk 'NR % 29 == 0 && $2 !~ "/" { gsub(/\*/, "0", $2); gsub(/[][?]/, "", $2); print $2 }' "$folder/modules.alias" >aliases

# kmod prefixes paths with its folder and reads this machine's configuration, which is empty here.
mkdir empty
theirs() {
        xargs -a "$1" modprobe -C "$work/empty" -d "${sysroot:-/}" -S "$release" -q -a -D 2>/dev/null | sed "s|insmod $sysroot/|insmod /|" || true
}
ours() { # FILE OPTIONS...
        local list=$1
        shift
        "$blkup" modules plan -d "${sysroot:-/}" -S "$release" -q --files-from "$list" "$@" || true
}

version=$(modprobe --version | sed -n 's/kmod version //p')
which=all
[ "$version" -gt 30 ] || which=first # kmod 30 reads one softdep line a module
for list in names aliases; do
        theirs $list >want
        ours $list --softdep=$which >got
        if [ -s want ] && cmp -s want got; then
                pass
        else
                fail "$list: not as kmod $version" "$(diff want got | head -n 10 || true)"
        fi
done

patience=200
run "$blkup" modules check --all -d "${sysroot:-/}" -S "$release"
is 'no false alarm' "$code $(tail -n 1 out.txt)" "0 $(wc -l <names) modules, 0 refused"
finish
