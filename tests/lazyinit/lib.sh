# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the scripts here share: images with unfinished tables, and loop devices that are gone at the end.
# Sourced with the blkup binary as $1.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
need mke2fs e2fsck debugfs

# Where the spec folder is, when it is there: beside the project.
# shellcheck disable=SC2034 # read by the scripts that source this
spec=$root/../shared/lazyinit

loops=() mounted=() pids=()
clean_up() {
        local x
        for x in "${pids[@]}"; do kill "$x" 2>/dev/null || true; done
        for x in "${mounted[@]}"; do mountpoint -q "$x" && umount "$x"; done
        for x in "${loops[@]}"; do losetup -d "$x" 2>/dev/null || true; done
        rm -rf "$work"
}
trap clean_up EXIT

# make_lazy FILE SIZE [MKE2FS ARGUMENT...]: over old data, so that what is not zeroed shows.
make_lazy() {
        local file=$1 size=$2 bytes
        shift 2
        rm -f "$file"
        truncate -s "$size" "$file"
        bytes=$(stat -c %s "$file")
        head -c "$bytes" /dev/zero | tr '\0' '\245' >"$file"
        mke2fs -F -q -t ext4 -E nodiscard,lazy_itable_init=1 "$@" "$file" >mke2fs.log 2>&1
}

# make_sparse FILE SIZE [MKE2FS ARGUMENT...]
make_sparse() {
        local file=$1 size=$2
        shift 2
        rm -f "$file"
        truncate -s "$size" "$file"
        mke2fs -F -q -t ext4 -E nodiscard,lazy_itable_init=1 "$@" "$file" >mke2fs.log 2>&1
}

# The checksum of a file.
sum_of() {
        sha256sum <"$1" | cut -d' ' -f1
}

# field NAME: of the first device in the JSON that run left.
field() {
        jq -r ".devices[0].$1" <<<"$out"
}

# attach FILE [LOSETUP ARGUMENT...]: leaves $loop; false without root or loop devices.
attach() {
        loop=$(losetup -f --show "${@:2}" "$1" 2>/dev/null) || return 1
        loops+=("$loop")
}

detach() {
        losetup -d "$1"
}

# longer COMMAND...: as run, for what may take its time.
longer() {
        code=0
        timeout 120 "$@" >out.txt 2>err.txt || code=$?
        out=$(tr -d '\0' <out.txt)
        err=$(tr -d '\0' <err.txt)
}

# left FILE: groups that are not finished, by dumpe2fs, which is not ours.
left() {
        dumpe2fs "$1" 2>/dev/null | grep '^Group [0-9]' | grep -vc ITABLE_ZEROED || true
}

# refused NAME WHY COMMAND...: exit 2, one line with (WHY), nothing on stdout.
refused() {
        local name=$1 why=$2
        shift 2
        longer "$@"
        if [ "$code" = 2 ] && [ -z "$out" ] && [ "$(wc -l <err.txt)" = 1 ] && [[ $err == *"refused ($why): "*"; "* ]]; then
                pass
        else
                fail "$name" "$(shown)"
        fi
}
