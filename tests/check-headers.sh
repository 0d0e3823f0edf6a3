#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Each public header compiles alone, as C99 without extensions and as C++; a program that includes them all
# sees no name but ours.
# usage: check-headers.sh ROOT CC
set -euo pipefail
root=${1:?ROOT}
cc=${2:?CC}
shopt -s nullglob
headers=("$root"/include/blkup/*.h)
if [ ${#headers[@]} = 0 ]; then
        echo "SKIP: no public header yet"
        exit 77
fi

passed=0 failed=0 skipped=0
try() {
        if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
cxx=
for candidate in g++ clang++; do
        # clang++ may be there without a C++ library; the headers need none.
        if [ -z "$cxx" ] && echo 'int x;' | $candidate -x c++ -fsyntax-only - 2>/dev/null; then cxx=$candidate; fi
done
for header in "${headers[@]}"; do
        try "$cc" -std=c99 -pedantic-errors -Wall -Wextra -Werror -I"$root/include" -fsyntax-only -x c "$header"
        if [ -n "$cxx" ]; then
                # "once" in the main file: a header on its own is one.
                try "$cxx" -std=c++11 -pedantic-errors -Wall -Wextra -Werror -I"$root/include" -fsyntax-only -x c++ "$header"
        else
                echo "SKIP: no C++ compiler for ${header##*/}"
                skipped=$((skipped + 1))
        fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
