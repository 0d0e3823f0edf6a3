#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every `blkup …` example of the README runs, with images in the place of its devices, and answers something.
# usage: check-readme.sh ROOT BLKUP
set -euo pipefail
root=$(cd "${1:?ROOT}" && pwd)
blkup=$(realpath "${2:?BLKUP}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$scratch/bin:$PATH:/usr/sbin:/sbin
cd "$scratch"
mkdir bin
ln -s "$blkup" bin/blkup
"$root/tools/make-images" . ext4 gpt || exit $?
cp ext4.img root.img
truncate -s 1M new.img

passed=0 failed=0
while IFS= read -r line; do
        command=${line//\/dev\/vda1/ext4.img}
        command=${command//\/dev\/vda/gpt.img}
        if bash -c "$command" >out 2>err && [ -s out ]; then
                passed=$((passed + 1))
        else
                echo "README: $line"
                cat out err
                failed=$((failed + 1))
        fi
done < <(sed -n 's/^    \(blkup .*\)/\1/p' "$root/README.md")
if [ $passed$failed = 00 ]; then
        echo "README has no example"
        exit 1
fi
# The one example that changes something: what was empty was formatted, and is named.
if [ "$(blkup probe -o value -s TYPE new.img)" = ext4 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
