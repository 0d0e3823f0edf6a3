#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The one entry for people and machines: `./do help` prints what it can do.
set -euo pipefail
cd "$(dirname "$0")"
# mkfs, sgdisk and their kin live where a user's PATH often does not look.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# -- what the machine must have (Debian 12 names): PACKAGE WHEN WHY -----------------------------------
# WHEN is the first command that needs it: build < run < test < soak < bench; each also gets those before it.
DEPENDENCIES=(
        'gcc              build  the compiler of the dev and release builds'
        'libc6-dev        build  headers; gcc only recommends it'
        'meson            build  the build description'
        'ninja-build      build  what meson writes for'
        'pkg-config       build  finds the libraries below, and in tests our own'
        'libsmartcols-dev build  tables with the column habits of lsblk'
        'libext2fs-dev    build  headers: lazyinit asks the library before it writes'
        'scdoc            build  manual pages'
        'liblzma-dev      build  lzma.h: packed modules; the library itself is loaded when needed'
        'libzstd-dev      build  zstd.h: the same'
        'zlib1g-dev       build  zlib.h: the same'
        'python3          build  meson, and the test summary'
        'util-linux       run    mkswap, losetup, blkid (an oracle)'
        'fdisk            run    sfdisk: dos tables'
        'gdisk            run    sgdisk: gpt tables'
        'e2fsprogs        run    ext2, ext3, ext4 and journal images'
        'dosfstools       run    FAT12, FAT16, FAT32 images'
        'mtools           run    fills FAT images without mounting'
        'xfsprogs         run    xfs images'
        'btrfs-progs      run    btrfs images'
        'f2fs-tools       run    f2fs images'
        'erofs-utils      run    erofs images'
        'squashfs-tools   run    squashfs images'
        'exfatprogs       run    exfat images'
        'ntfs-3g          run    ntfs images'
        'udftools         run    udf images'
        'genisoimage      run    iso9660 images'
        'cryptsetup-bin   run    LUKS images'
        'lvm2             run    LVM members'
        'mdadm            run    RAID members'
        'clang            test   the second compiler, and libFuzzer'
        'libclang-rt-14-dev test the sanitizer and fuzzer run-time of clang'
        'libcmocka-dev    test   unit tests'
        'libblkid-dev     test   an oracle: linked by programs under tests/ and bench/ only'
        'libmount-dev     test   an oracle for fstab: linked by a program under tests/ only'
        'valgrind         test   memory checks of the release build'
        'strace           test   which system calls a command makes'
        'spin             test   models of the reader-writer semaphore'
        'jq               test   JSON answers piped as users pipe them'
        'python3-jsonschema test the schemas in docs/schema'
        'jfsutils         test   jfs images'
        'reiserfsprogs    test   reiserfs images'
        'reiser4progs     test   reiser4 images'
        'nilfs-tools      test   nilfs2 images'
        'gfs2-utils       test   gfs2 images'
        'ocfs2-tools      test   ocfs2 images'
        'hfsutils         test   hfs images'
        'genromfs         test   romfs images'
        'mtd-utils        test   ubifs images'
        'makefs           test   ufs images'
        'xz-utils         test   compressed test images'
        'shellcheck       test   scripts'
        'codespell        test   words in comments and documents'
        'git              test   the list of tracked files'
        'kmod             test   an oracle: modprobe, depmod'
        'musl-tools       test   the small static build'
        'nbdkit           soak   devices that answer slowly'
        'libnbd-bin       soak   nbdfuse: such a device as a file'
        'fuse3            soak   for nbdfuse'
        'qemu-system-x86  soak   virtual machines that load modules and have many disks'
        'qemu-utils       soak   their disks'
        'cpio             soak   their initramfs'
        'busybox-static   soak   their xargs'
        'liburcu-dev      bench  a peer of the reader-writer semaphore'
)

# Run by `./do run`: file systems that the machine's tools make, and some things that are none.
RUN_IMAGES=(ext2 ext3 ext4 ext4-1k ext4-lazy ext4-bigalloc xfs btrfs btrfs-mixed squashfs squashfs-xz
            erofs erofs-lz4 iso9660 udf fat12 fat16 fat32 exfat ntfs f2fs gpt swap luks2)

say() { printf '%s\n' "$*" >&2; }
die() { say "do: $*"; exit 1; }

# -- deps ------------------------------------------------------------------------------------------------
# Packages needed for LEVEL that are not installed, one a line.
missing_packages() {
        local level=$1 line package when
        local -a wanted=()
        local -A levels=([build]=' build ' [run]=' build run ' [test]=' build run test ' \
                         [soak]=' build run test soak ' [bench]=' build run test soak bench ')
        for line in "${DEPENDENCIES[@]}"; do
                read -r package when _ <<<"$line"
                [[ ${levels[$level]} != *" $when "* ]] || wanted+=("$package")
        done
        # dpkg-query answers for the packages it knows and complains about the others: both are answers.
        { dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true; } |
                sed -n 's/^installed //p' | sort -u | comm -13 - <(printf '%s\n' "${wanted[@]}" | sort -u)
}

install_packages() {
        local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
        if [ "$(id -u)" != 0 ]; then
                command -v sudo >/dev/null || return 1
                # Without a terminal sudo cannot ask: fail at once instead of hanging.
                if [ -t 0 ]; then apt=(sudo "${apt[@]}"); else apt=(sudo -n "${apt[@]}"); fi
        fi
        "${apt[@]}" update >&2 && "${apt[@]}" install --no-install-recommends "$@" >&2
}

do_deps() {
        local level=${1:-bench} missing
        case $level in
        build | run | test | soak | bench) ;;
        *) die "deps: build, run, test, soak or bench, not '$level'" ;;
        esac
        command -v dpkg-query >/dev/null || {
                say "do: deps: no dpkg on this machine: install by hand what ./do lists under DEPENDENCIES"
                return 1
        }
        missing=$(missing_packages "$level")
        [ -n "$missing" ] || return 0
        mapfile -t missing <<<"$missing"
        say "do: deps: installing ${missing[*]}"
        install_packages "${missing[@]}" || {
                say "do: deps: cannot install; as root: apt-get install --no-install-recommends ${missing[*]}"
                return 1
        }
}

# For run, test, soak, bench: what cannot be installed may not be needed after all, so only the builders are a must.
want_deps() {
        do_deps "$1" || {
                local tool
                for tool in cc meson ninja; do
                        command -v $tool >/dev/null || die "no $tool, nothing can be built"
                done
                say "do: going on with what is here"
        }
}

# -- build -----------------------------------------------------------------------------------------------
# setup DIR NATIVE…: a build directory of that kind; made anew when the tree moved or the kind changed.
setup() {
        local dir=$1 stamp file
        shift
        local -a args=()
        stamp=$(pwd; cat meson_options.txt)
        for file; do
                args+=(--native-file "$file")
                stamp+=$(cat "$file")
        done
        if [ ! -f "$dir/build.ninja" ] || [ "$stamp" != "$(cat "$dir/do-stamp" 2>/dev/null)" ]; then
                rm -rf "$dir"
                meson setup "$dir" "${args[@]}" >"$dir.log" 2>&1 || {
                        cat "$dir.log" >&2
                        return 1
                }
                mv "$dir.log" "$dir/do-setup.log"
                printf '%s\n' "$stamp" >"$dir/do-stamp"
        fi
}

build_release() {
        setup build native/release.ini || die "the build could not be set up"
        ninja -C build >build/do-build.log 2>&1 || {
                cat build/do-build.log >&2
                die "the build failed"
        }
        [ -x build/src/cli/blkup ] || die "the build left no src/cli/blkup"
        ln -sf src/cli/blkup build/blkup
}

do_build() {
        local tool
        for tool in cc meson ninja; do
                command -v $tool >/dev/null || die "no $tool here: ./do deps installs what is missing"
        done
        build_release
        say "do: build/blkup is ready"
}

# -- run -------------------------------------------------------------------------------------------------
do_run() {
        want_deps run
        build_release
        exec tools/run-images build/blkup "${RUN_IMAGES[@]}"
}

# -- test ------------------------------------------------------------------------------------------------
# Compiles one kind; its outcome is a case of its own, appended to the list that tools/run-tests adds up.
compile() {
        local name=$1 dir=$2
        shift 2
        say "do: compiling: $name"
        if setup "$dir" "$@" && ninja -C "$dir" >"$dir/do-build.log" 2>&1; then
                extra+=(--case "build / $name:OK")
        else
                [ ! -f "$dir/do-build.log" ] || tail -n 60 "$dir/do-build.log" >&2
                extra+=(--case "build / $name:FAIL")
                return 1
        fi
}

do_test() {
        local -a extra=()
        local coverage=
        if [ "${1:-}" = --coverage ]; then
                coverage=yes
                shift
        fi
        case ${1:-} in -*) die "test: unknown option '$1' (there is --coverage)" ;; esac
        want_deps test
        if [ -n "$coverage" ]; then
                compile 'gcc, coverage' build-cov native/cov.ini || true
                find build-cov -name '*.gcda' -delete
                local code=0
                tools/run-tests "${extra[@]}" build-cov "$@" >build-cov/do-tests.log || code=$?
                tools/coverage build-cov src/probe/formats src/probe/tables src
                # The count stays the last line, here too.
                cat build-cov/do-tests.log
                return $code
        fi
        compile 'gcc, ASan and UBSan' build-dev native/dev.ini || true
        # A developer who names tests wants those, now; a whole run also compiles with clang.
        [ $# -gt 0 ] || compile 'clang' build-clang native/clang.ini || true
        tools/run-tests "${extra[@]}" build-dev "$@"
}

# Everything with threads once under ThreadSanitizer. A race is a failure also where a script does not look at the exit
# code, so each goes to a file. Not coldplug-devices: it holds the command to a memory that the sanitizer exceeds;
# nor mount-hibernation, which stops every mount of the machine.
TSAN_TESTS=(unit cli-probe-many cli-modules cli-bench cli-commands cli-probe-timeline coldplug-images coldplug-trouble
            coldplug-stays mount-order mount-command mount-causes mount-tags mount-inject mount-tags-unit lazyinit-modes
            lazyinit-stop)
soak_tsan() {
        local -a extra=()
        local code=0 report
        compile 'gcc, TSan' build-tsan native/tsan.ini || return
        report=$PWD/build-tsan/do-race
        rm -f "$report".*
        TSAN_OPTIONS="history_size=7 exitcode=66 log_path=$report" \
                tools/run-tests "${extra[@]}" --setup tsan build-tsan "${TSAN_TESTS[@]}" || code=$?
        if compgen -G "$report.*" >/dev/null; then
                cat "$report".* >&2
                say "do: ThreadSanitizer reported races: see above"
                code=1
        fi
        return $code
}

# The kernel of the virtual machines. Where it cannot be had their tests say so and are left out.
want_kernel() {
        local kernel
        mkdir -p build/boot
        kernel=$(bench/kernel "$PWD/build/boot") || { say 'do: no kernel for virtual machines'; return 0; }
        export BLKUP_BENCH_KERNEL=$kernel
}

# -- soak, bench -----------------------------------------------------------------------------------------
# Tests of the suite `soak` read BLKUP_SOAK and then take their long counts (see tests/meson.build).
do_soak() {
        local -a extra=()
        local code=0
        want_deps soak
        if [ $# = 0 ] || [ "$1" = tsan ]; then
                soak_tsan || code=$?
                [ $# = 0 ] || return $code
        fi
        # Without names also the fuzz targets of libFuzzer, BLKUP_FUZZ_SECONDS each.
        if [ $# = 0 ]; then
                compile 'clang, libFuzzer' build-fuzz native/fuzz.ini || true
                tools/run-tests "${extra[@]}" --setup soak build-fuzz fuzzers || code=$?
                extra=()
        fi
        compile 'gcc, ASan and UBSan' build-dev native/dev.ini || true
        case " ${*:-soak} " in *' soak '* | *' coldplug'*) want_kernel ;; esac
        tools/run-tests "${extra[@]}" --setup soak build-dev "${@:-soak}" || code=$?
        return $code
}

# bench/NAME/run makes its images and peers below the directory it is given, and calls `$BLKUP bench NAME`.
do_bench() {
        local name=${1:-} scratch code=0
        if [ -z "$name" ] || [ ! -x "bench/$name/run" ]; then
                local known
                known=$(find bench -mindepth 2 -maxdepth 2 -name run -printf '%P\n' 2>/dev/null | cut -d/ -f1 | sort | xargs)
                [ -z "$name" ] || say "do: bench: there is no bench/$name/run"
                say "do: bench: ${known:-this tree has no benchmark}"
                return 1
        fi
        shift
        want_deps bench
        build_release
        scratch=$(mktemp -d "${TMPDIR:-/tmp}/blkup-bench.XXXXXX")
        BLKUP=$PWD/build/blkup "bench/$name/run" "$scratch" "$@" || code=$?
        rm -rf "$scratch"
        return $code
}

do_clean() {
        rm -rf build build-*
}

do_help() {
        cat <<'END'
usage: ./do COMMAND

  run                  install what is missing, build, make file-system images, bring them up
  test [NAME…]         install what is missing, build, run every test (or the named tests and suites)
  test --coverage      the same under gcov; lines and branches of the formats and tables
  bench NAME           install what is missing, build, measure against the named peers
  soak [NAME…]         the long counts of the tests that have them; tsan: what has threads, under ThreadSanitizer
  build                release build; leaves build/blkup
  deps [WHEN]          install what is missing for build, run, test, soak or bench (all, unless named)
  clean                remove build and build-*
  help                 this table
END
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
run | test | bench | soak | build | deps | clean | help) "do_$command" "$@" ;;
-h | --help) do_help ;;
*)
        say "do: no command '$command'; try ./do help"
        exit 2
        ;;
esac
