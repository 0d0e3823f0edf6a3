#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The EXAMPLES of the manual pages do what the pages say: each "$ command" is run with the images that the page names;
# lines below it are what it prints. A command without such lines has to print something and to end well.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
need mkfs.ext4 mkfs.vfat jq

mkdir bin
ln -s "$blkup" bin/blkup
# Behind SIGTERM timeout sends SIGCONT, which takes the stop away that LeakSanitizer waits for at the end of the program:
# both hang then. With --foreground it does not.
printf '#!/bin/sh\nexec %s --foreground "$@"\n' "$(command -v timeout)" >bin/timeout
chmod +x bin/timeout
PATH=$work/bin:$PATH

# check COMMAND WANT
check() {
        local got status=0
        got=$(bash -c "$1" 2>&1) || status=$?
        if [ "$status" != 0 ]; then
                fail "$page: $1: exit $status" "$got"
        elif [ -z "$2" ] && [ -z "$got" ]; then
                fail "$page: $1: prints nothing"
        elif [ -n "$2" ] && [ "$got" != "$2" ]; then
                fail "$page: $1" "prints: $got" "page:   $2"
        else
                pass
        fi
}

for path in "$root"/docs/man/*.8.scd; do
        page=${path##*/}
        rm -rf run
        mkdir run
        cd run
        make_ext4 root.img 16M root
        make_vfat boot.img 8M BOOT
        command='' want='' n=0 inside='' literal=''
        while IFS= read -r line; do
                case $line in
                '# EXAMPLES') inside=1 ;;
                '# '*) inside='' ;;
                esac
                [ -n "$inside" ] || continue
                if [ "$line" = '```' ]; then
                        [ -z "$literal" ] || [ -z "$command" ] || check "$command" "$want"
                        command='' want=''
                        if [ -z "$literal" ]; then literal=1; else literal=''; fi
                elif [ -n "$literal" ] && [[ $line == '$ '* ]]; then
                        [ -z "$command" ] || check "$command" "$want"
                        command=${line#'$ '} want='' n=$((n + 1))
                elif [ -n "$literal" ]; then
                        want+=${want:+$'\n'}$line
                fi
        done <"$path"
        cd ..
        if [ "$n" = 0 ]; then fail "$page has no example"; else pass; fi
        # Every page says how it ends.
        has "$page" "$(cat "$path")" $'\n# EXIT STATUS\n'
done

finish
