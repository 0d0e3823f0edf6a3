#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What `meson install` leaves is enough for a program of somebody else: built with what pkg-config says and
# nothing of this tree, in C and in C++, linked with the shared library and with the static one, and run. The
# shared library exports what the installed headers declare, no more and no less.
# usage: check-install.sh ROOT CC
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd)
cc=${2:?CC}
for tool in pkg-config nm readelf gcc; do
        command -v $tool >/dev/null || { echo "SKIP: no $tool"; exit 77; }
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
dest=$scratch/dest
if ! { CC=$cc meson setup "$scratch/build" "$root" --native-file "$root/native/release.ini" --prefix /usr &&
        ninja -C "$scratch/build" &&
        DESTDIR=$dest meson install -C "$scratch/build" --no-rebuild; } >"$scratch/log" 2>&1; then
        cat "$scratch/log"
        exit 1
fi
include=$dest/usr/include/blkup
pc=$(find "$dest" -name libblkup.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_LIBDIR=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
unset PKG_CONFIG_PATH
cd "$scratch"

passed=0 failed=0 skipped=0
check() { # NAME COMMAND…
        local name=$1
        shift
        if "$@" >out 2>&1; then
                passed=$((passed + 1))
        else
                echo "failed: $name"
                cat out
                failed=$((failed + 1))
        fi
}
skip() { echo "SKIP: $1"; skipped=$((skipped + 1)); }
# same WHAT A B: two lists are the same.
same() { diff -u "$1" "$2"; }

# -- what is there -------------------------------------------------------------------------------------------
(cd "$root/include/blkup" && printf '%s\n' *.h) >headers.tree
(cd "$include" && printf '%s\n' *.h) >headers.installed
check 'every public header is installed' same headers.tree headers.installed
for file in "$libdir/libblkup.a" "$libdir/libblkup.so" "$libdir/libblkup.so.0" "$dest/usr/sbin/blkup" \
        "$dest/usr/share/doc/blkup/COPYING" "$dest/usr/share/doc/blkup/LGPL-2.1-or-later.txt"; do
        check "${file#"$dest"} is installed" test -e "$file"
done
if command -v scdoc >/dev/null; then
        for page in man8/blkup.8 man3/libblkup.3 man3/blkup_rwsem.3; do
                check "$page is installed" test -s "$dest/usr/share/man/$page"
        done
else
        skip 'no scdoc: no pages'
fi
check 'the pkg-config file is valid' pkg-config --validate libblkup
check 'its version is the one of the build' \
        [ "$(pkg-config --modversion libblkup)" = "$(sed -nE "s/^ *version: '([^']*)'.*/\1/p;" "$root/meson.build" | head -n 1)" ]
check 'it names no path of the build' bash -c "! grep -F '$scratch' '$pc'"

# -- what is exported -----------------------------------------------------------------------------------------
# Functions as the compiler saw them declared, out of the installed headers; variables by their `extern`.
sed 's|.*|#include <blkup/&>|' headers.installed >all.c
gcc -I"$dest/usr/include" -fsyntax-only -aux-info all.aux all.c
{
        sed -nE "s|^/\* $include/[^*]*\*/ extern [^(]*[ *](blkup_[a-z0-9_]+) \(.*|\1|p" all.aux
        sed -nE 's/^extern [^"(]*[ *](blkup_[a-z0-9_]+)[ ;].*/\1/p' "$include"/*.h
} | sort -u >declared
check 'the headers declare something' [ "$(wc -l <declared)" -gt 100 ]
nm -D --defined-only "$libdir/libblkup.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >exported
check 'the shared library exports what the headers declare' same declared exported
check 'each export has a version' bash -c "! nm -D --defined-only '$libdir/libblkup.so' | awk '\$2 != \"A\"' | grep -v '@@BLKUP_'"
nm --defined-only -g "$libdir/libblkup.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | grep -v '^blkup_' >foreign || true
check 'the static library defines no name but ours' test ! -s foreign
check 'the soname has the number of the interface' bash -c "readelf -d '$libdir/libblkup.so' | grep -qF 'soname: [libblkup.so.0]'"
check 'the shared library needs libc alone' \
        bash -c "! readelf -d '$libdir/libblkup.so' | grep NEEDED | grep -vE '\[(libc\.|ld-)'"
check 'its stack is not executable, and nothing of it is written after it was linked' \
        bash -c "readelf -lW '$libdir/libblkup.so' | grep -q 'GNU_STACK.* RW ' && readelf -d '$libdir/libblkup.so' | grep -q NOW"

# -- programs --------------------------------------------------------------------------------------------------
# Every declared name by its address: a definition that one of the libraries lacks is a link error.
{
        cat all.c
        echo '#include <stdio.h>'
        echo 'static void *const volatile all[] = {'
        grep -vx blkup_rwsem_self declared | sed 's|.*|        (void *) &,|'
        echo '};'
        echo 'int main(void) { for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) if (!all[i]) return 1;'
        echo 'blkup_rwsem_self += 0; return 0; }'
} >names.c
cp "$root"/tests/unit/api-program.c "$root"/tests/unit/api-program.cpp .
# The example of the page.
# shellcheck disable=SC2016 # the backquotes are scdoc's
sed -n '/^# EXAMPLE/,/^# /p' "$root/docs/man/libblkup.3.scd" | sed -n '/^```$/,/^```$/p' | grep -v '^```' |
        sed -n '/#include/,$p' >example.c
read -ra cflags <<<"$(pkg-config --cflags libblkup)"
read -ra libs <<<"$(pkg-config --libs libblkup)"
read -ra static_libs <<<"$(pkg-config --static --libs libblkup)"
cxx=
for candidate in g++ clang++; do
        if [ -z "$cxx" ] && echo 'int main() { return 0; }' | $candidate -x c++ -o nothing - 2>/dev/null; then cxx=$candidate; fi
done
# program COMPILER SOURCE ARGS…: both links of one program, run on a file.
program() {
        local compiler=$1 source=$2
        shift 2
        check "$source, shared" "$compiler" "$@" -Wall -Wextra -Werror "${cflags[@]}" "$source" -o "$source.shared" "${libs[@]}"
        check "$source, shared, runs" env LD_LIBRARY_PATH="$libdir" "./$source.shared" all.c
        check "$source, shared, is" bash -c "readelf -d './$source.shared' | grep -qF 'libblkup.so.0'"
        # glibc warns of dlopen() in a static program: what it would load is done without.
        check "$source, static" "$compiler" "$@" "${cflags[@]}" "$source" -o "$source.static" -static "${static_libs[@]}"
        check "$source, static, runs" "./$source.static" all.c
}
program "$cc" api-program.c -std=c99
program "$cc" names.c -std=gnu99
program "$cc" example.c -std=c99
if [ -n "$cxx" ]; then program "$cxx" api-program.cpp -std=c++11; else skip 'no C++ compiler'; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
