#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The program around the commands: help, version, unknown words, and standard streams that are not there.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

gives 'no command' 0 "$blkup"
has 'no command prints the list' "$out" ' probe  '
list=$out
for option in --help -h help; do
        gives "$option" 0 "$blkup" "$option"
        is "$option prints the list" "$out" "$list"
        is "$option says nothing else" "$err" ''
done
for option in --version -V; do
        gives "$option" 0 "$blkup" "$option"
        matches "$option" "$out" 'blkup [0-9]+\.[0-9.]+'
        gives "probe $option" 0 "$blkup" probe "$option"
        matches "probe $option" "$out" 'blkup [0-9]+\.[0-9.]+'
done

# shellcheck disable=SC2016 # for the inner shell
gives 'a small stack' 1 bash -c 'ulimit -s 200; exec "$0" probe nosuch' "$blkup"
is 'a small stack' "$err" 'blkup: the stack is limited to 200 KiB, and 256 are needed: see ulimit -s'

gives 'help probe' 0 "$blkup" help probe
help=$out
has 'help probe' "$help" '--io-stats[=json]'
for option in --help -h; do
        gives "probe $option" 0 "$blkup" probe "$option" nosuch
        is "probe $option is help probe" "$out" "$help"
done
gives 'help help' 0 "$blkup" help help
is 'help is no wider than a terminal' "$(awk 'length > 80' <<<"$help$list")" ''

usage_error 'unknown command' 1 "'mumble'" "$blkup" mumble
usage_error 'unknown command with options' 1 "'mumble'" "$blkup" mumble --help
usage_error 'unknown option' 1 "'--mumble'" "$blkup" --mumble probe
usage_error 'unknown letter' 1 "'-Q'" "$blkup" -Q
usage_error 'help of nothing known' 1 "'mumble'" "$blkup" help mumble
usage_error 'help of two' 1 'one command' "$blkup" help probe help
usage_error 'empty command' 1 "''" "$blkup" ''

# What comes from the command line goes to a terminal: no control character survives.
run "$blkup" $'mum\e[31mble\n'
has 'escapes are shown' "$err" 'mum\x1b[31mble\x0a'
is 'and end no line' "$(wc -l <err.txt)" 2

# By its other name.
ln -s "$blkup" blkup-probe
gives 'blkup-probe --help' 0 ./blkup-probe --help
is 'blkup-probe is blkup probe' "$out" "$help"
usage_error 'blkup-probe without a device' 4 'no device' ./blkup-probe

# Standard streams.
code=0
"$blkup" --help 2>err.txt >/dev/full || code=$?
is 'full disk: exit' "$code" 1
is 'full disk: one line' "$(cat err.txt)" 'blkup: standard output: No space left on device'
code=0
"$blkup" --help 2>err.txt >&- || code=$?
is 'closed stdout: exit' "$code" 1
is 'closed stdout: one line' "$(wc -l <err.txt)" 1
code=0
"$blkup" --help >&- 2>&- || code=$?
is 'closed stdout and stderr' "$code" 1
code=0
"$blkup" --help <&- >out.txt 2>&- || code=$?
is 'closed stdin and stderr' "$code" 0
is 'closed stdin and stderr: the answer' "$(cat out.txt)" "$list"

finish
