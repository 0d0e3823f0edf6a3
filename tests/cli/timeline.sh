#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The picture of where the time went: from each command, from a trace made before, and what it is made of.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 jq python3

structure() { python3 "$here/timeline/structure.py" "$1"; }

# -- from a trace ------------------------------------------------------------------------------------------------
gives 'a picture' 0 "$blkup" timeline "$here/data/boot.json"
cp out.txt boot.svg
is 'nothing on stderr' "$err" ''
# After a change that is meant: tests/cli/timeline/structure.py boot.svg >tests/cli/data/boot.structure
is 'its structure' "$(structure boot.svg | diff - "$here/data/boot.structure" | head -20)" ''
is 'the trace is what its script writes' "$(python3 "$here/timeline/make-boot.py" && cmp boot.json "$here/data/boot.json" && echo same)" same
gives 'from standard input' 0 "$blkup" timeline - <"$here/data/boot.json"
is 'the same' "$(cmp out.txt boot.svg && echo same)" same
gives '--output' 0 "$blkup" timeline -o o.svg boot.json
is 'the same there' "$out$(cmp o.svg boot.svg && echo same)" same
gives 'a trace again' 0 "$blkup" timeline --output again.json boot.json
is 'the same path' "$(jq -c '[.otherData.critical_path[] | [.lane, .name, .us]]' again.json)" \
        '[["all devices","start",2000],["crypto","load",10000],["ext4","load",18000],["/dev/sda","finish",20000],["/dev/sda","mount",10000],["/dev/sdb","mount",12000]]'
is 'arrows along it' "$(jq '[.traceEvents[] | select(.ph == "s")] | length' again.json)" 5
gives 'from the trace again' 0 "$blkup" timeline again.json
is 'the same picture' "$(cmp out.txt boot.svg && echo same)" same
gives '--table' 0 "$blkup" timeline --table boot.json
has '--table' "$out" '/dev/sda'
if have xmllint; then
        is 'another parser' "$(xmllint --noout boot.svg 2>&1)" ''
fi

# -- what is no trace ----------------------------------------------------------------------------------------------
echo '{"traceEvents":[{"ph":"X","ts":-1}]}' >bad.json
{ printf '{"a":'; printf '[%.0s' {1..100}; } >deep.json
: >empty.json
one_line 'no trace' 2 'bad.json: byte' "$blkup" timeline bad.json
one_line 'too deep' 2 'too deep' "$blkup" timeline deep.json
one_line 'empty' 2 'empty.json: byte 0' "$blkup" timeline empty.json
one_line 'not there' 2 'nosuch.json' "$blkup" timeline nosuch.json
one_line 'a folder' 2 'directory' "$blkup" timeline .
usage_error 'none' 1 'one trace' "$blkup" timeline
usage_error 'two' 1 'one trace' "$blkup" timeline boot.json boot.json
usage_error 'suffix' 1 'known: .json .svg' "$blkup" timeline -o x.png boot.json
usage_error 'both' 1 '--table' "$blkup" timeline -t -o x.svg boot.json
if [ -c /dev/full ]; then
        code=0
        "$blkup" timeline boot.json >/dev/full 2>err.txt || code=$?
        is 'a full disk' "$code $(wc -l <err.txt)" '2 1'
fi

# -- from a command --------------------------------------------------------------------------------------------------
make_ext4 a.img 16M 'a label'
cp a.img $'b"<x>&\x01\xff.img'
gives 'probe' 0 "$blkup" probe --timeline p.svg -o device a.img $'b"<x>&\x01\xff.img'
is 'probe: its title' "$(structure p.svg | sed -n 3p)" '  text title blkup probe'
is 'probe: both are lanes' "$(structure p.svg | grep -c '^    text label')" 2
gives 'probe: a trace' 0 "$blkup" probe --timeline p.json -o device a.img
gives 'probe: drawn' 0 "$blkup" timeline p.json
gives 'coldplug' 0 "$blkup" coldplug --timeline c.svg --image a.img
is 'coldplug: its title' "$(structure c.svg | sed -n 3p)" '  text title blkup coldplug'
has 'coldplug: has a path' "$(structure c.svg)" 'pathtext b Critical path: '
# Not looking for a hibernation image: another program of this machine may have a device that never answers.
gives 'lazyinit' 0 "$blkup" lazyinit --ignore-hibernation --timeline l.svg a.img
has 'lazyinit: its steps' "$(structure l.svg)" '| plan |'

# The line, the JSON and the trace say the same.
gives 'coldplug: JSON' 0 "$blkup" coldplug --json --timeline c.json --image a.img
is 'one path' "$(jq -c '[.critical_path[] | [.object, .stage, .us]]' out.txt)" \
        "$(jq -c '[.otherData.critical_path[] | [.lane, .name, .us]]' c.json)"

finish
