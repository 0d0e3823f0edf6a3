#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# blkup modules: exit codes, usage errors, refusals, JSON.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p root/etc/modprobe.d root/proc root/lib/modules/1.0
printf 'options snd-x a=1\nblacklist y\n' >root/etc/modprobe.d/a.conf
printf 'y 4096 1 z, Live 0x0\nz 8192 0 - Live 0x0\n' >root/proc/modules

usage_error 'no action' 2 'which action' "$blkup" modules
usage_error 'a wrong action' 2 "unknown action 'fly'" "$blkup" modules fly
usage_error 'plan of nothing' 2 'which modules' "$blkup" modules plan
usage_error 'load of nothing' 2 'which modules' "$blkup" modules load
usage_error 'check of nothing' 2 'which files' "$blkup" modules check
usage_error 'remove of nothing' 2 'which modules' "$blkup" modules remove
usage_error 'coldplug never removes' 2 'never unloads' "$blkup" modules remove --coldplug
usage_error 'jobs' 2 '--jobs' "$blkup" modules load -j 0 x
usage_error 'a timeline of no known form' 2 'suffix' "$blkup" modules load --timeline x.gif x

one_line 'depmod has not run' 1 'run depmod 1.0 first' "$blkup" modules plan -d root -S 1.0 ext4
one_line 'no such kernel' 1 'there is no /lib/modules/2.0' "$blkup" modules plan -d root -S 2.0 ext4
one_line 'a path is no name' 1 "is no name of a module" "$blkup" modules plan -d root -S 1.0 ../../etc/passwd
one_line 'nor is a control character' 1 "is no name of a module" "$blkup" modules plan -d root -S 1.0 $'a\x1bb'
one_line 'nor for loading' 1 "is no name of a module" "$blkup" modules load -d root -S 1.0 /etc/passwd
one_line 'a release is no path' 1 'no kernel release' "$blkup" modules plan -d root -S ../x ext4
gives 'quiet' 1 "$blkup" modules plan -q -d root -S 1.0 ext4
is 'quiet says nothing' "$out$err" ''

run "$blkup" modules list -d root
is 'list' "$out" "$(printf 'Module                  Size  Used by\ny                       4096  1 z\nz                       8192  0 ')"
run "$blkup" modules plan -c -d root -S 1.0
is 'configuration' "$(head -n 2 out.txt)" $'blacklist y\noptions snd_x a=1'

: >empty.ko
printf 'no module at all' >text.ko
run "$blkup" modules check --json=lines empty.ko text.ko
is 'refused' "$code" 1
is 'a line each' "$(jq -r '.file + " " + .verdict + " " + .errno' out.txt)" $'empty.ko refuse EINVAL\ntext.ko refuse ENOEXEC'
run "$blkup" modules check --flags 64 empty.ko
has 'unknown flags' "$out" 'EINVAL: syscall'
run "$blkup" modules check nothere.ko
is 'a file that is not there' "$code" 1
one_line 'no Module.symvers' 2 'it is no Module.symvers' "$blkup" modules check --symvers text.ko empty.ko
one_line 'a stub of a System.map' 2 'names no exported symbol' "$blkup" modules check --system-map text.ko empty.ko

if python3 -c 'import jsonschema' 2>/dev/null; then
        "$blkup" modules check --json empty.ko >check.json || true
        "$blkup" modules plan --json -q -d root -S 1.0 x >plan.json || true
        "$blkup" modules load --json -q -d root -S 1.0 x >load.json || true
        for kind in check plan load; do
                if python3 -c 'import json, sys, jsonschema
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' $kind.json "$root/docs/schema/modules-$kind.json" \
                        2>err.txt; then
                        pass
                else
                        fail "schema of $kind" "$(cat $kind.json err.txt)"
                fi
        done
else
        skip 'no python3-jsonschema'
fi
finish
