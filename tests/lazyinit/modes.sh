#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Options: what they do to the image, to its space, and to the answer.
# shellcheck source=tests/lazyinit/lib.sh
. "$(dirname "$0")/lib.sh"
need jq dumpe2fs

# -- check, dry-run, finish, again --------------------------------------------------------------------------------
make_lazy a.img 24M -b 1024 -g 2048
cp a.img orig.img
before=$(sum_of a.img)
gives 'check: work left' 1 "$blkup" lazyinit --check a.img
has 'check says how much' "$out" 'a.img: 12 of 12 groups left, '
gives 'dry-run' 0 "$blkup" lazyinit --dry-run a.img
is 'check and dry-run change nothing' "$(sum_of a.img)" "$before"
gives 'finish' 0 "$blkup" lazyinit a.img
has 'finish says so' "$out" 'a.img: 12 of 12 groups finished'
is 'and it is' "$(left a.img)" 0
gives 'e2fsck is content' 0 e2fsck -fn a.img
after=$(sum_of a.img)
gives 'again' 0 "$blkup" lazyinit a.img
has 'again: nothing to do' "$out" 'a.img: nothing to do'
is 'again: unchanged' "$(sum_of a.img)" "$after"
gives 'check: done' 0 "$blkup" lazyinit --check a.img

# -- each strategy, the same bytes ----------------------------------------------------------------------------------
for way in '--strategy=auto' '--strategy=zero-range' '--strategy=punch' '--strategy=write' --thin --thick --verify \
        '--background --wait-mult 0' '-j 2'; do
        cp orig.img b.img
        # shellcheck disable=SC2086 # several words
        gives "$way" 0 "$blkup" lazyinit $way b.img
        is "$way: the same bytes" "$(sum_of b.img)" "$after"
done

# -- space ----------------------------------------------------------------------------------------------------------
allocated() {
        stat -c %b "$1"
}
make_sparse s.img 512M
n=$(allocated s.img)
run "$blkup" lazyinit --json s.img
is 'keep: a sparse image stays so' "$(allocated s.img)" "$n"
is 'keep: nothing was written' "$(field bytes_written)$(field bytes_offloaded)" 00
is 'keep: as it says' "$(field allocated_change_bytes)" 0
make_lazy d.img 24M -b 1024 -g 2048
n=$(allocated d.img)
gives 'keep, full' 0 "$blkup" lazyinit --keep --strategy zero-range d.img
# The file system's own maps of the file may take a block or two.
is 'keep: a full image stays so' "$(($(allocated d.img) - n <= 64 && n - $(allocated d.img) <= 64))" 1
cp --sparse=never orig.img d.img
n=$(allocated d.img)
gives 'thin' 0 "$blkup" lazyinit --thin d.img
if [ "$(allocated d.img)" -lt "$n" ]; then pass; else skip 'the file system here cannot punch holes'; fi
make_sparse s.img 512M
n=$(allocated s.img)
gives 'thick' 0 "$blkup" lazyinit --thick s.img
if [ "$(allocated s.img)" -gt "$n" ]; then pass; else fail 'thick allocates' "$(allocated s.img) $n"; fi

# -- verify -----------------------------------------------------------------------------------------------------------
cp a.img v.img
table=$(dumpe2fs v.img 2>/dev/null | sed -n '/^Group 7:/,/^Group 8:/s/.*Inode table at \([0-9]*\)-.*/\1/p')
printf 'old' | dd of=v.img bs=1 seek=$((table * 1024 + 700)) conv=notrunc status=none
gives 'stale, unseen without verify' 0 "$blkup" lazyinit --check v.img
run "$blkup" lazyinit --check --verify --json v.img
is 'verify finds it' "$code $(field groups_stale)" '1 1'
gives 'verify heals it' 0 "$blkup" lazyinit --verify v.img
is 'verify: the same bytes' "$(sum_of v.img)" "$after"

# -- journal ------------------------------------------------------------------------------------------------------------
make_lazy j.img 24M -b 1024 -g 2048 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1
run "$blkup" lazyinit --journal --json j.img
is 'journal' "$code" 0
if [ "$(field bytes_journal)" -gt 1000000 ]; then pass; else fail 'journal: its body is zeroed' "$(shown)"; fi
debugfs -R 'dump <8> journal.out' j.img 2>/dev/null
is 'journal: nothing but its superblock is left' "$(tail -c +1025 journal.out | tr -d '\0' | wc -c)" 0
gives 'journal: e2fsck is content' 0 e2fsck -fn j.img

# -- several, and wrong uses ----------------------------------------------------------------------------------------------
cp orig.img m1.img
cp orig.img m2.img
run "$blkup" lazyinit m1.img nothing.img m2.img
is 'several: the highest exit code' "$code" 4
is 'several: the good ones are done' "$(left m1.img)$(left m2.img)" 00
usage_error 'no device' 4 'no device given' "$blkup" lazyinit
usage_error 'punch and keep' 4 'goes with --thin only' "$blkup" lazyinit --strategy punch --keep a.img
usage_error 'two allocations' 4 'exclude each other' "$blkup" lazyinit --thin --thick a.img
usage_error 'wait-mult alone' 4 'goes with --background' "$blkup" lazyinit --wait-mult 3 a.img
usage_error 'a wrong number' 4 "'x' is no number" "$blkup" lazyinit -j x a.img
usage_error 'options of simulate' 4 'go with simulate' "$blkup" lazyinit --hz 100 a.img
usage_error 'simulate without all' 4 'simulate needs' "$blkup" lazyinit simulate --hz 100
usage_error 'simulate without groups' 4 'start at 1' "$blkup" lazyinit simulate --policy ns --hz 0 --groups 1 --time 1

# -- JSON, progress, timeline -----------------------------------------------------------------------------------------------
if python3 -c 'import jsonschema' 2>/dev/null; then
        cat >validate.py <<'PY'
import json, sys
import jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(json.load(sys.stdin))
PY
        cp orig.img k.img
        head -c 1M /dev/zero >zero.img
        for args in '--check k.img' '--dry-run k.img zero.img none.img' '--background --wait-mult 0 k.img' 'k.img'; do
                # shellcheck disable=SC2086 # several words
                run "$blkup" lazyinit --json $args
                if python3 validate.py "$root/docs/schema/lazyinit.json" <out.txt 2>why.txt; then
                        pass
                else
                        fail "schema: $args" "$(tail -n 3 why.txt)" "$(shown)"
                fi
        done
else
        skip 'the schema: no python3-jsonschema here'
fi
cp orig.img p.img
run "$blkup" lazyinit --progress=json --progress-fd 5 --timeline t.json p.img 5>progress.txt
is 'progress: the last line is the end' "$(tail -n 1 progress.txt | jq -c '[.groups_done, .groups_todo, .bytes_done == .bytes_todo, .eta_s]')" '[12,12,true,0]'
is 'timeline' "$(jq '[.traceEvents[] | select(.ph == "X") | .name] | contains(["plan", "zero", "flush", "descriptors"])' t.json)" true
cp orig.img p.img
if have script; then
        # A terminal: a line that is rewritten, and is gone at the end.
        script -qec "'$blkup' lazyinit p.img" /dev/null >tty.txt 2>&1 </dev/null || true
        has 'progress on a terminal' "$(tr -d '\r' <tty.txt)" '12 of 12 groups, '
fi
run "$blkup" lazyinit simulate --table --json
is 'simulate: the eight figures of 2021 within 8.5 %' \
        "$(jq 'length == 8 and all(.off_percent | fabs <= 8.5)' <<<"$out")" true
run "$blkup" lazyinit simulate --lottery --json
is 'simulate: ours is no lottery, theirs is' \
        "$(jq 'map(.spread_percent) | .[2] <= 5 and .[0] > 50 and .[1] > 50' <<<"$out")" true

# -- status of what is not mounted ------------------------------------------------------------------------------------------
cp orig.img u.img
gives 'status: left' 1 "$blkup" lazyinit status u.img
has 'status: what can be done' "$out" 'u.img: 12 of 12 groups left'
gives 'status: done' 0 "$blkup" lazyinit status a.img
is 'status' "$out" 'a.img: done, 12 groups'
finish
