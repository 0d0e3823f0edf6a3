#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A room includes only itself and lower floors; rooms on one floor do not know each other.
# usage: check-includes.sh ROOT | --self-test
set -euo pipefail

check() {
        ( cd "$1" && find src include -name '*.[ch]' -exec grep -Hn '^[[:space:]]*#[[:space:]]*include' {} + ) |
        awk -F: '
        BEGIN {
                split("base:0 sync:1 trace:1 host:2 block:2 probe:3 modules:3 mount:3 lazyinit:3 " \
                      "bringup:4 boot:5 cli:6", list, " ")
                for (i in list) { split(list[i], pair, ":"); floor[pair[1]] = pair[2] }
        }
        function refuse(why) { print $1 ":" $2 ": " why; bad = 1 }
        {
                split($1, path, "/")
                room = path[1] == "include" ? "include" : path[2]
                line = $0
                sub(/^[^:]*:[^:]*:/, "", line)
                if (match(line, /"[^"]+"/)) {
                        target = substr(line, RSTART + 1, RLENGTH - 2)
                        split(target, part, "/")
                        if (room == "include")
                                refuse("a public header includes " target ", which is not installed")
                        else if (!(part[1] in floor) || target ~ /\.\./)
                                refuse(target " is not written from src/")
                } else if (match(line, /<blkup\/[a-z_]+/)) {
                        part[1] = substr(line, RSTART + 7, RLENGTH - 7)
                        target = "<blkup/" part[1] ".h>"
                        if (!(part[1] in floor)) next
                } else
                        next
                if (room == "include" || !(part[1] in floor) || part[1] == room) next
                if (!(room in floor))
                        refuse("src/" room " is no room of the house")
                else if (floor[part[1]] >= floor[room])
                        refuse(room " (floor " floor[room] ") includes " target " (floor " floor[part[1]] ")")
        }
        END { exit bad }'
}

# Each rule is broken once, in a tree of its own; a check that lets one pass is worthless.
self_test() {
        local passed=0 failed=0 tree
        tree=$(mktemp -d)
        # shellcheck disable=SC2064 # the folder of now is meant
        trap "rm -rf '$tree'" EXIT
        expect() { # VERDICT FILE LINE
                rm -rf "$tree/src" "$tree/include"
                mkdir -p "$tree/src/base" "$tree/include/blkup" "$tree/$(dirname "$2")"
                printf '#include <stdio.h>\n%s\n' "$3" >"$tree/$2"
                local verdict=good
                check "$tree" >/dev/null || verdict=bad
                if [ $verdict = "$1" ]; then
                        passed=$((passed + 1))
                else
                        echo "expected $1, was $verdict: $2: $3"
                        failed=$((failed + 1))
                fi
        }
        expect bad src/base/x.c '#include "block/block.h"'
        expect bad src/base/x.h '  # include "sync/rwsem.h"'
        expect bad src/sync/x.c '#include "trace/trace.h"'
        expect bad src/probe/formats/x.c '#include "mount/fstab.h"'
        expect bad src/block/x.c '#include <blkup/probe.h>'
        expect bad src/block/x.c '#include "block.h"'
        expect bad src/block/x.c '#include "../base/bytes.h"'
        expect bad src/attic/x.c '#include "base/bytes.h"'
        expect bad include/blkup/x.h '#include "base/bytes.h"'
        expect good src/base/x.c '#include "base/bytes.h"'
        expect good src/probe/formats/x.c '#include "block/block.h"'
        expect good src/cli/x.c '#include "boot/init.h"'
        expect good src/cli/x.c '#include <blkup/probe.h>'
        expect good include/blkup/x.h '#include <blkup/probe.h>'
        echo "$passed passed, $failed failed, 0 skipped"
        [ $failed = 0 ]
}

case ${1:?ROOT or --self-test} in
--self-test) self_test ;;
*) check "$1" ;;
esac
