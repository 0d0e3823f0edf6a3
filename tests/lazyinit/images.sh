#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The images of ../shared/lazyinit: each manifest's action, what is refused byte-identical, e2fsck -fn no worse.
# shellcheck source=tests/lazyinit/lib.sh
. "$(dirname "$0")/lib.sh"
if [ ! -f "$spec/images/manifest.tsv" ]; then
        skip 'no ../shared/lazyinit/images here'
        finish
fi

while IFS=$'\t' read -r file _ _ _ action _ fsck sum _; do
        case $file in '#'* | '') continue ;; esac
        gzip -dc "$spec/images/$file" >i.img
        before=$(sum_of i.img)
        longer "$blkup" lazyinit i.img
        after=$(sum_of i.img)
        problem=
        case $action in
        zero:*)
                [ "$code" = 0 ] || problem="exit $code"
                [ "$after" = "$sum" ] || problem+=", other bytes than the manifest's"
                ;;
        none*)
                [ "$code" = 0 ] || problem="exit $code"
                [ "$after" = "$before" ] || problem+=', changed'
                ;;
        refuse:*)
                [ "$code" = 2 ] || problem="exit $code"
                [ "$after" = "$before" ] || problem+=', changed'
                [[ $err == *"(${action#refuse:})"* ]] || problem+=', another reason'
                [ "$(wc -l <err.txt)" = 1 ] || problem+=', not one line'
                ;;
        nowrite:*) [ "$after" = "$before" ] || problem='changed' ;;
        *) problem='an action that this test does not know' ;;
        esac
        # An exit code of 124 in the manifest is a time-out: nothing to compare with.
        if [ -z "$problem" ] && [ "$fsck" != 124 ] && [ "$after" != "$before" ]; then
                now=0
                timeout 60 e2fsck -fn i.img >fsck.log 2>&1 || now=$?
                [ "$now" -le "$fsck" ] || problem="e2fsck -fn: $now, was $fsck"
        fi
        if [ -z "$problem" ]; then pass; else fail "$file ($action): $problem" "$(shown)"; fi
done <"$spec/images/manifest.tsv"
finish
