#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The judges of ../shared/lazyinit: its 52 geometries against the slow reference, byte for byte, and the pacing vectors.
# shellcheck source=tests/lazyinit/lib.sh
. "$(dirname "$0")/lib.sh"
if [ ! -x "$spec/kernel-oracle.sh" ]; then
        skip 'no ../shared/lazyinit here'
        finish
fi

# -- pacing: waits exactly, seconds to 0.1 % -------------------------------------------------------------------
while IFS=$'\t' read -r mode hz groups ms mult wait total; do
        case $mode in before) policy=jiffies ;; after) policy=ns ;; *) continue ;; esac
        run "$blkup" lazyinit simulate --policy "$policy" --hz "$hz" --groups "$groups" --time "$ms" \
                --wait-mult "$mult" --json
        if [ "$code" = 0 ] && jq -e --argjson w "$wait" --argjson t "$total" \
                '.wait_jiffies == $w and ((.total_s - $t) | fabs) <= $t * 0.001 + 0.0005' <<<"$out" >/dev/null; then
                pass
        else
                fail "simulate $mode $hz $groups $ms $mult: not $wait, $total" "$(shown)"
        fi
done <"$spec/vectors.tsv"

# -- geometries: some of each kind; all in a soak ----------------------------------------------------------------
cases=(b65536 uninit_bg_32bit desc128_none meta_bg_small_groups bigalloc_1k sparse_super2_1 orphan_file
        ipg_not_block_multiple partial_last inline_data single_group)
[ -z "${BLKUP_SOAK:-}" ] || cases=()
mkdir bin
ln -s "$blkup" bin/blkup
code=0
PATH=$work/bin:$PATH FINISHER='blkup lazyinit' "$spec/kernel-oracle.sh" "$work/oracle" "${cases[@]}" \
        >oracle.tsv 2>oracle.err || code=$?
while IFS=$'\t' read -r name _ _ _ _ _ verdict; do
        case $verdict in
        same) pass ;;
        verdict) ;;
        skipped:*) skip "$name: $verdict" ;;
        *) fail "$name: $verdict" "$(cat oracle/fin.log)" ;;
        esac
done <oracle.tsv
is 'the oracle is content' "$code" 0
finish
