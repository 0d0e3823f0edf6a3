# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# shellcheck disable=SC2034 # variables are read by the scripts that source this
# What the scripts here share. Sourced with the blkup binary as $1; changes into a temporary folder.
set -euo pipefail
export LC_ALL=C.UTF-8
unset NO_COLOR BLKUP_DEBUG

blkup=$(realpath -- "${1:?BLKUP}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# mkfs, sfdisk and blkid are there on Debian, where an ordinary user's PATH does not lead.
PATH=$PATH:/usr/sbin:/sbin

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

passed=0 failed=0 skipped=0 out='' err='' code=0

pass() {
        passed=$((passed + 1))
}

fail() {
        failed=$((failed + 1))
        printf 'FAIL: %s\n' "$1"
        [ $# -lt 2 ] || printf '%s\n' "${@:2}" | sed 's/^/    /'
}

skip() {
        skipped=$((skipped + 1))
        printf 'SKIP: %s\n' "$1"
}

# finish: the last line, and the exit code that the harness reads.
finish() {
        printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
        [ "$failed" = 0 ] || exit 1
        [ "$passed" != 0 ] || exit 77
        exit 0
}

have() {
        command -v "$1" >/dev/null
}

# run COMMAND...: leaves $out, $err and $code. Ten seconds: nothing here may wait for anything.
run() {
        code=0
        timeout "${patience:-10}" "$@" >out.txt 2>err.txt || code=$?
        out=$(tr -d '\0' <out.txt)
        err=$(tr -d '\0' <err.txt)
}

shown() {
        printf 'exit %s\nstdout: %s\nstderr: %s\n' "$code" "$out" "$err"
}

# gives NAME CODE COMMAND...: the exit code is CODE.
gives() {
        local name=$1 want=$2
        shift 2
        run "$@"
        if [ "$code" = "$want" ]; then pass; else fail "$name: exit $code, not $want" "$(shown)"; fi
}

# is NAME GOT WANT
is() {
        if [ "$2" = "$3" ]; then pass; else fail "$1" "got:  $2" "want: $3"; fi
}

# has NAME TEXT PART: PART is in TEXT.
has() {
        if [[ $2 == *"$3"* ]]; then pass; else fail "$1: no '$3' in it" "$2"; fi
}

# matches NAME TEXT REGEX: all of TEXT (perhaps several lines) is what the extended regular expression says.
matches() {
        if [[ $2 =~ ^($3)$ ]]; then pass; else fail "$1: not '$3'" "$2"; fi
}

# is_over PID...: each has ended, within ten seconds: what was killed needs a CPU to end on, and an orphan stays a
# zombie until process 1 looks for it, which in some containers it never does.
is_over() {
        local pid state i
        for pid; do
                for ((i = 0; i < 200; i++)); do
                        state=$(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null) || true
                        [[ $state == [^ZX] ]] || continue 2
                        sleep 0.05
                done
                return 1
        done
}

# usage_error NAME CODE PART COMMAND...: nothing on stdout, on stderr one line with PART and then "Try ...".
usage_error() {
        local name=$1 want=$2 part=$3
        shift 3
        run "$@"
        if [ "$code" = "$want" ] && [ -z "$out" ] && [ "$(wc -l <err.txt)" = 2 ] && [[ $err == *"$part"* ]] &&
                [[ $err == *$'\n'"Try 'blkup"*" --help' for more information." ]]; then
                pass
        else
                fail "$name" "$(shown)"
        fi
}

# one_line NAME CODE PART COMMAND...: nothing on stdout, one line with PART on stderr.
one_line() {
        local name=$1 want=$2 part=$3
        shift 3
        run "$@"
        if [ "$code" = "$want" ] && [ -z "$out" ] && [ "$(wc -l <err.txt)" = 1 ] && [[ $err == *"$part"* ]]; then
                pass
        else
                fail "$name" "$(shown)"
        fi
}

# Images, made with this machine's tools; each has fixed identifiers.
make_ext4() { # FILE SIZE LABEL
        truncate -s "$2" "$1"
        mkfs.ext4 -q -F -L "$3" -U 3e6be9de-8139-4a1c-9106-a43f08d823a6 "$1" 2>/dev/null
}

make_vfat() { # FILE SIZE LABEL
        truncate -s "$2" "$1"
        mkfs.vfat -n "$3" -i 1a2b3c4d "$1" >/dev/null
}

make_dos() { # FILE
        truncate -s 16M "$1"
        sfdisk -q "$1" <<'TABLE'
label: dos
label-id: 0xdeadbeef
1: size=4M, type=83, bootable
2: size=8M, type=5
5: size=2M, type=82
6: size=2M, type=83
TABLE
}

make_gpt() { # FILE
        truncate -s 16M "$1"
        sfdisk -q "$1" <<'TABLE'
label: gpt
label-id: 6D1A9C1E-0C57-4D4B-9B0C-2F6E4C0A1B2C
size=4M, name="system boot", uuid=0F0E0D0C-0B0A-0908-0706-050403020100, type=U
size=4M, name="Daten", uuid=1F0E0D0C-0B0A-0908-0706-050403020100, attrs="GUID:63"
TABLE
}

# A FAT boot sector before an ext4 file system, which leaves the first KiB alone: both are there.
make_ambivalent() { # FILE
        make_ext4 "$1" 16M both
        make_vfat "$1.fat" 16M BOTH
        dd if="$1.fat" of="$1" bs=512 count=1 conv=notrunc status=none
        rm "$1.fat"
}

need() {
        local tool
        for tool; do
                if ! have "$tool"; then
                        skip "no $tool here"
                        finish
                fi
        done
}
