#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The house rules a machine can see: sizes, widths, no tabs, no notes to self, no path of the builder.
# usage: check-tree.sh ROOT
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd)
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"

bad=0
refuse() {
        echo "$1"
        bad=1
}

while IFS= read -r file; do
        [ "$(stat -c %s "$root/$file")" -le 1048576 ] || refuse "$file: above 1 MiB"
        case $file in
        *.[ch])
                [ "$(wc -l <"$root/$file")" -le 900 ] || refuse "$file: above 900 lines: split it by job"
                while IFS=: read -r line _; do
                        [ -z "$line" ] || refuse "$file:$line: above 110 columns"
                done < <(LC_ALL=C.UTF-8 grep -nE '^.{111,}' "$root/$file")
                while IFS=: read -r line _; do
                        [ -z "$line" ] || refuse "$file:$line: a tab"
                done < <(grep -nP '\t' "$root/$file")
                ;;
        esac
        # Spelled in pieces, or this file would find itself.
        while IFS=: read -r line _; do
                [ -z "$line" ] || refuse "$file:$line: a note to self: do it or drop it"
        done < <(grep -nIwE 'TO''DO|FIX''ME|X''XX' "$root/$file")
        # "/a/b" or deeper only: a tree that lives in "/src" would find itself everywhere.
        case ${root#/} in
        */*)
                ! grep -qIF -- "$root" "$root/$file" || refuse "$file: names this machine's $root"
                ;;
        esac
done < <(tracked "$root")
exit $bad
