#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Deliberately broken modules, built from the recipes beside the project: verdict and errno are those of a real kernel.
# usage: bad.sh BLKUP
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/cli/lib.sh
. "$here/../cli/lib.sh"

give_up() {
        echo "SKIP: $1"
        exit 77
}

bad=${BLKUP_SHARED:-$root/../shared}/modules/bad
kdir=${BLKUP_TEST_KDIR:-/usr/src/linux-headers-6.1.0-57-amd64}
moddir=${BLKUP_TEST_MODDIR:-/lib/modules/6.1.0-57-amd64}
[ -d "$bad" ] || give_up '../shared/modules/bad is not here'
[ -f "$kdir/Module.symvers" ] || give_up "no kernel headers in $kdir"
for tool in make gcc-12 python3 xz; do
        have "$tool" || give_up "no $tool"
done
cases=$bad/cases.tsv
if [ ! -d "$moddir/kernel/fs/nls" ]; then
        skip "no modules in $moddir: the cases from Debian's own are left out"
        grep -v '	deb:' "$cases" >cases.tsv
        cases=$work/cases.tsv
        moddir=/nonexistent
fi
MODDIR=$moddir KDIR=$kdir sh "$bad/build.sh" "$work/out" "$cases" >build.log 2>&1 || give_up "cannot build: $(tail -n 1 build.log)"

expected() { # ID COLUMN
        awk -F'\t' -v id="$1" -v n="$2" '$1 == id { print $n }' "$bad/expected.tsv"
}

while IFS=$'\t' read -r id base _ pre params flags _; do
        # Only Debian's own modules are signed; looking for a kernel's keys takes a while.
        keys=()
        case $base in deb:*) [ -z "${BLKUP_TEST_KEYS:-}" ] || keys=(--keys "$BLKUP_TEST_KEYS") ;; esac
        args=(--json=lines --symvers "$kdir/Module.symvers" --flags "$flags" "${keys[@]}")
        [ "$pre" = - ] || args+=(--loaded "$work/out/src/$pre.ko")
        [ "$params" = - ] || args+=(--params "$params")
        # Without the key nothing says that the signature is wrong, and the flipped byte is found for what it breaks.
        if [ "$id" = sig-flip ] && [ ${#keys[@]} = 0 ]; then
                skip "$id: BLKUP_TEST_KEYS names no vmlinux with the kernel's certificate"
                continue
        fi
        run "$blkup" modules check "${args[@]}" "$work/out/ko/$id.ko"
        want="$(expected "$id" 3) $(expected "$id" 4)"
        is "$id" "$(sed -E 's/.*"verdict":"([a-z]*)","errno":"?([A-Z]*|null)"?,.*/\1 \2/; s/null/-/' out.txt)" "$want"
        run "$blkup" modules check --sig-enforce "${args[@]}" "$work/out/ko/$id.ko"
        is "$id, signatures required" "$(sed -E 's/.*"errno":"?([A-Z]*|null)"?,.*/\1/; s/null/-/' out.txt)" "$(expected "$id" 6)"
done < <(grep -v '^#' "$cases")
finish
