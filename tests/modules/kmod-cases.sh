#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The command lines of modprobe and lsmod over the data trees beside the project: same lines, same exit code.
# usage: kmod-cases.sh BLKUP
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/cli/lib.sh
. "$here/../cli/lib.sh"

cases=${BLKUP_SHARED:-$root/../shared}/modules/kmod-cases
[ -d "$cases" ] || {
        echo 'SKIP: ../shared/modules/kmod-cases is not here'
        exit 77
}
ln -s "$blkup" modprobe
ln -s "$blkup" lsmod

while IFS=$'\t' read -r name _ want _ compare; do
        [ "$name" != case ] || continue
        dir=$cases/$name
        read -r program rest <"$dir/cmd"
        # shellcheck disable=SC2086 # the words of the command line
        run "./$program" -d "$dir/rootfs" $rest
        cp out.txt got
        if [ "$compare" = first-occurrence ]; then
                awk '!seen[$0]++' out.txt >got
                awk '!seen[$0]++' "$dir/expected.out" >want
        else
                cp "$dir/expected.out" want
        fi
        if [ "$code" = "$want" ] && cmp -s want got; then
                pass
        else
                fail "$name: exit $code, not $want" "$(diff want got || true)" "$err"
        fi
done <"$cases/INDEX.tsv"
finish
