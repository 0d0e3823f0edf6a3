#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The release build is the same, byte for byte, wherever the tree and the build lie: built twice, from copies
# in folders of different depth, once in the tree and once beside it. usage: check-reproducible.sh ROOT
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd)
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# build TREE BUILD: a copy of the tracked files in TREE, built in BUILD.
build() {
        mkdir -p "$1"
        tracked "$root" | tar -C "$root" -cf - -T - | tar -C "$1" -xf -
        if ! { meson setup "$2" "$1" --native-file "$1/native/release.ini" && ninja -C "$2"; } >"$scratch/log" 2>&1; then
                cat "$scratch/log"
                exit 1
        fi
}
build "$scratch/a" "$scratch/a/build"
build "$scratch/much/deeper/b" "$scratch/beside"

passed=0 failed=0
while IFS= read -r file; do
        if cmp "$scratch/a/build/$file" "$scratch/beside/$file"; then
                passed=$((passed + 1))
        else
                failed=$((failed + 1))
        fi
done < <(cd "$scratch/a/build" && find . \( -name '*.a' -o -name '*.o' -o -name '*.[1-9]' -o -perm /100 \) -type f \
        ! -path './meson-*' -o -path './meson-private/*.pc' | sort)
if [ $((passed + failed)) = 0 ]; then
        echo "nothing was built"
        exit 1
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
