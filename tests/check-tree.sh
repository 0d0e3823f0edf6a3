#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The house rules a machine can see: sizes, widths, no tabs, no notes to self, no path of the builder.
# usage: check-tree.sh ROOT
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd)
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"

cd "$root"
found=$(mktemp)
trap 'rm -f "$found"' EXIT
# All files at once: a process for each of two thousand files takes longer than the looking.
mapfile -t files < <(tracked .)
code=()
for file in "${files[@]}"; do
        case $file in *.[ch]) code+=("$file") ;; esac
done

# nothing MESSAGE COMMAND...: each "FILE:LINE:..." that the command prints is refused.
nothing() {
        { "${@:2}" || true; } | cut -d: -f1,2 | sed "s/\$/: $1/" >>"$found"
}

# Spelled in pieces, or this file would find itself.
nothing 'a note to self: do it or drop it' grep -nIwE 'TO''DO|FIX''ME|X''XX' /dev/null "${files[@]}"
stat -c '%s %n' "${files[@]}" | awk '$1 > 1048576 { print substr($0, index($0, " ") + 1) ": above 1 MiB" }' >>"$found"
if [ ${#code[@]} != 0 ]; then
        nothing 'above 110 columns' env LC_ALL=C.UTF-8 grep -nE '^.{111,}' /dev/null "${code[@]}"
        nothing 'a tab' grep -nP '\t' /dev/null "${code[@]}"
        wc -l "${code[@]}" | awk '$2 != "total" && $1 > 900 { print $2 ": above 900 lines: split it by job" }' >>"$found"
fi
# "/a/b" or deeper only: a tree that lives in "/src" would find itself everywhere.
case ${root#/} in
*/*) { grep -lIF -- "$root" "${files[@]}" || true; } | sed 's/$/: names the folder of this machine/' >>"$found" ;;
esac
cat "$found"
[ ! -s "$found" ]
