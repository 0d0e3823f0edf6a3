#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What tools/new-format writes compiles without a warning, and it refuses what it must.
# usage: check-new-format.sh SOURCE_ROOT
set -euo pipefail
root=$(cd "${1:?SOURCE_ROOT}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

is() { # is WHAT COMMAND...: the command succeeds
        if "${@:2}" >"$work/out" 2>&1; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
                echo "FAIL: $1"
                sed 's/^/    /' "$work/out"
        fi
}

refuses() { # refuses WHAT ARGUMENT...
        is "$1" bash -c '! "$@"' - "$work/tools/new-format" "${@:2}"
}

mkdir -p "$work/tools" "$work/src/probe/formats"
cp "$root/tools/new-format" "$work/tools/"
cp "$root/src/probe/registry.def" "$work/src/probe/"
is 'it writes a format' "$work/tools/new-format" examplefs ext4
is 'the source compiles' "${CC:-cc}" -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/src" -I"$root/include" \
        -c "$work/src/probe/formats/examplefs.c" -o "$work/examplefs.o"
is 'the line stands before ext4' grep -A1 -qx 'FORMAT(examplefs)' "$work/src/probe/registry.def"
is 'ext4 comes right behind it' bash -c "grep -A1 -x 'FORMAT(examplefs)' '$work/src/probe/registry.def' | tail -n 1 | grep -qx 'FORMAT(ext4)'"
is 'the recipe can be run' test -x "$work/tests/golden/examplefs/plain/recipe"
refuses 'a format that is there' examplefs ext4
refuses 'a place that is not there' otherfs nosuchfs
refuses 'a name that is a path' ../evil ext4
refuses 'too few words' otherfs

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
