#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# blkup bench: what it measures cannot be tested for its value here, but for its form, and for what must be equal.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need jq

usage_error 'no name' 1 'which benchmark' "$blkup" bench
usage_error 'two names' 1 'one benchmark' "$blkup" bench rwsem blocksize
usage_error 'unknown name' 1 "'mumble'" "$blkup" bench mumble
for n in 0 -1 x 1x '' 10001; do
        usage_error "--rounds '$n'" 1 '--rounds' "$blkup" bench --rounds "$n" rwsem
done

gives 'blocksize' 0 "$blkup" bench --rounds 1 --json blocksize
is 'blocksize: rows' "$(jq -r '.rows[].name' <<<"$out" | xargs)" \
        'none slow1 slow3 expedited3 slow2 blkup same_size kernel'
is 'blocksize: each row was measured, or says why not' \
        "$(jq '[.rows[] | select((.idle_us.min > 0 and .idle_us.median >= .idle_us.min) or (.refused | length > 0))] | length' \
                <<<"$out")" 8
# Counted, not assumed: the barriers of each algorithm.
is 'blocksize: barriers a write' \
        "$(jq -c '[.rows[] | select(.refused == null and .policy != "BLKBSZSET") |
                   select(.barriers_per_write != {"none":0,"slow1":1,"slow3":3,"expedited3":3,"slow2":2,"blkup":1,"same_size":0}[.name]) |
                   .name]' <<<"$out")" '[]'

cat >peer <<'EOF'
#!/bin/sh
echo made-up
while read -r row; do
        case $row in
        read_1) echo 12.5 ;;
        *) echo - ;;
        esac
done
EOF
chmod +x peer
gives 'rwsem' 0 "$blkup" bench --rounds 1 --json --peer ./peer rwsem
is 'rwsem: rows' "$(jq -r '.rows[].name' <<<"$out" | xargs)" 'blkup blkup-barrier-each blkup-fence pthread made-up'
is 'rwsem: what the peer said' "$(jq -c '.rows[4]' <<<"$out")" \
        '{"name":"made-up","read_1_ns":{"min":12.5,"median":12.5},"read_2_ns":null,"write_idle_ns":null}'
is 'rwsem: all of the others' "$(jq '[.rows[] | select(.read_1_ns.min > 0 and .write_idle_ns.min > 0)] | length > 1' \
        <<<"$out")" true
gives 'rwsem as text' 0 "$blkup" bench --rounds 1 rwsem
has 'rwsem as text' "$out" 'read_1: pthread/blkup'

printf '#!/bin/sh\nexit 0\n' >mute
chmod +x mute
run "$blkup" bench --rounds 1 --peer ./mute rwsem
is 'a peer that says nothing: exit' "$code" 1
has 'a peer that says nothing' "$err" './mute'
run "$blkup" bench --rounds 1 --peer ./nosuch rwsem
is 'no such peer: exit' "$code" 1

gives 'probe' 0 "$blkup" bench --json probe
is 'probe: rows' "$(jq -r '.rows[] | .stick + "/" + .policy' <<<"$out" | xargs)" \
        'blank/readahead blank/buffer-68k blank/buffer-4k blank/page-cache blank/blkup fat12/readahead fat12/buffer-68k fat12/buffer-4k fat12/page-cache fat12/blkup'
is 'probe: the time is the bytes' "$(jq '[.rows[] | select((.ns * 15000 / 1e9 - .bytes | fabs) > 1)] | length' <<<"$out")" 0
is 'probe: ours moves the least' "$(jq '[.rows | group_by(.stick)[] | (map(.bytes) | min) == (map(select(.policy == "blkup"))[0].bytes)] | all' \
        <<<"$out")" true
is 'probe: the 68 KiB buffer of 2010 took 4.9 s, and takes that here' \
        "$(jq '[.rows[] | select(.policy == "buffer-68k" and .stick == "blank") | .ns / 1e9 | . > 4.5 and . < 5.5] | all' <<<"$out")" true
gives 'probe as text' 0 "$blkup" bench probe
has 'probe as text' "$out" 'FAT12 stick of 505 KiB'

finish
