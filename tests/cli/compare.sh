#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two sets of traces: what is called slower, when nothing can be said, and how that ends for a script.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need jq python3

# trace FILE PROBE_US MOUNT_US
trace() {
        jq -n --argjson probe "$2" --argjson mount "$3" '{otherData: {start_ns: 1000000}, traceEvents: [
                {ph: "X", tid: 1, ts: 0, dur: $probe, cat: "probe", name: "probe", args: {worker: 0}},
                {ph: "X", tid: 1, ts: ($probe + 100), dur: $mount, cat: "mount", name: "mount", args: {worker: 0}},
                {ph: "X", tid: 2, ts: 0, dur: (400 + $probe % 7), cat: "probe", name: "probe", args: {worker: 1}},
                {ph: "M", tid: 1, name: "thread_name", args: {lane: "/dev/sda"}},
                {ph: "M", tid: 2, name: "thread_name", args: {lane: "/dev/sdb\u001b[31m"}}]}' >"$1"
}
for i in 0 1 2 3 4 5 6 7; do
        trace a$i.json $((3000 + i * 11)) $((5000 + i * 17))
        trace b$i.json $((3000 + (i * 5 % 8) * 11 + 3)) $((7000 + i * 17))
        trace c$i.json $((3000 + (i * 3 % 8) * 11)) $((5000 + (i * 3 % 8) * 17))
done

gives 'slower' 3 "$blkup" compare a?.json -- b?.json
matches 'the whole first' "$(sed -n 2p out.txt)" ' *8\.198 +10\.207 +\+2\.003 +\+24\.4 .*slower +in all *'
matches 'then the step' "$(sed -n 3p out.txt)" ' *5\.059 +7\.059 +\+2\.000 +\+39\.5 +\+1\.9[0-9]+\.\.\+2\.0[0-9]+ +[0-9.e-]+ slower +mount +/dev/sda *'
is 'and no other' "$(grep -c /dev/ out.txt)" 1
is 'the sum' "$(tail -2 out.txt)" $'8 runs against 8: in all slower by 2.003 ms\nspans: 1 slower, 2 no difference seen'
gives 'all' 3 "$blkup" compare --all a?.json -- b?.json
is 'all: every step' "$(grep -c '/dev/' out.txt)" 3
is 'safe for a terminal' "$(grep -c $'\x1b' out.txt)" 0
gives 'faster is no fault' 0 "$blkup" compare b?.json -- a?.json
has 'faster' "$out" 'in all faster by 2.003 ms'
gives 'the same' 0 "$blkup" compare a?.json -- c?.json
has 'the same' "$out" 'in all no difference seen'
gives 'large enough to matter' 0 "$blkup" compare --at-least 50 a?.json -- b?.json
gives 'smaller than that' 3 "$blkup" compare --at-least 20 a?.json -- b?.json

# Three runs are too few at 5 %: 2 of 20 ways to deal are as far apart.
gives 'too few' 4 "$blkup" compare a[012].json -- b[012].json
has 'too few' "$out" '3 runs against 3: too few to tell a difference from chance; with 4 each'
gives 'enough at 10 %' 3 "$blkup" compare --alpha 0.1 a[012].json -- b[012].json
gives 'one run each' 4 "$blkup" compare a0.json -- b0.json
gives 'one side' 4 "$blkup" compare a?.json -- b0.json

gives 'JSON' 3 "$blkup" compare --json a?.json -- b?.json
is 'JSON' "$(jq -c '[.runs_a, .runs_b, .in_all.verdict, .exit_code, [.spans[] | [.lane, .name, .verdict, .exact]][0]]' out.txt)" \
        '[8,8,"slower",3,["/dev/sda","mount","slower",true]]'
# 2 of C(16, 8) ways.
is 'its p' "$(jq '.spans[0] | (.p * 12870 | round), .superiority' out.txt | xargs)" '2 1'
cp out.txt slower.json
"$blkup" compare --json a0.json -- b0.json >few.json || true
if python3 -c 'import jsonschema' 2>/dev/null; then
        for file in slower few; do
                is "$file: the schema" "$(python3 -c 'import json, jsonschema, sys
jsonschema.Draft202012Validator(json.load(open(sys.argv[1]))).validate(json.load(open(sys.argv[2])))' \
                        "$root/docs/schema/compare.json" $file.json 2>&1 | tail -3)" ''
        done
else
        skip 'the schema: no jsonschema here'
fi

echo '{}' >bad.json
one_line 'no trace' 2 'bad.json: byte' "$blkup" compare a0.json -- bad.json
one_line 'not there' 2 'nosuch.json' "$blkup" compare nosuch.json -- a0.json
usage_error 'no --' 1 'A.json... -- B.json...' "$blkup" compare a0.json b0.json
usage_error 'nothing behind' 1 'A.json... -- B.json...' "$blkup" compare a0.json --
usage_error 'nothing before' 1 'A.json... -- B.json...' "$blkup" compare -- a0.json
usage_error 'two of them' 1 'one --' "$blkup" compare a0.json -- b0.json -- c0.json
for alpha in 0 0.6 x 1e-3 -1 ''; do
        usage_error "alpha '$alpha'" 1 '--alpha' "$blkup" compare "--alpha=$alpha" a0.json -- b0.json
done
usage_error 'at least' 1 '--at-least' "$blkup" compare --at-least much a0.json -- b0.json

finish
