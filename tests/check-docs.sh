#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the documents say is there, is there:
#   1. each path in backquotes in README, CONTRIBUTING, SECURITY, NEWS and docs/*.md exists, and each room
#      of src/ is named in CONTRIBUTING;
#   2. each page is built; each command that `blkup --help` names has a page, each page of section 8 is a command;
#   3. each long option of `blkup NAME --help` is in docs/man/blkup-NAME.8.scd, and the other way round.
# usage: check-docs.sh ROOT [BLKUP]
# shellcheck disable=SC2016 # the backquotes in single quotes are Markdown's
set -euo pipefail
root=${1:?ROOT}
blkup=${2:+$(realpath "$2")}
cd "$root"

bad=0
refuse() {
        echo "$1"
        bad=1
}

# -- paths -------------------------------------------------------------------------------------------------
shopt -s nullglob
for file in README.md CONTRIBUTING.md SECURITY.md NEWS.md docs/*.md docs/decisions/*.md; do
        [ -f "$file" ] || continue
        while IFS= read -r path; do
                # `src/probe/formats/NAME.c`: what is before the placeholder must exist.
                case $path in
                *[\<\*…\{\$]* | *NAME* | *ROOM* | *DIR*)
                        path=${path%%[<\*…\{\$]*}
                        path=${path%%NAME*}
                        path=${path%%ROOM*}
                        path=${path%%DIR*}
                        path=${path%/*}
                        ;;
                esac
                [ -e "$path" ] || refuse "$file names $path, which is not there"
        done < <(grep -oE '`[^` ]+`' "$file" | tr -d '`' |
                grep -E '^(\./)?(src|include|tests|docs|bench|tools|native|packaging|compat|LICENSES|\.ci)/' | sort -u)
done
for room in src/*/meson.build; do
        room=${room%/meson.build}
        grep -qF '`'"$room"'/`' CONTRIBUTING.md || refuse "CONTRIBUTING.md does not name $room/"
done

# -- pages ----------------------------------------------------------------------------------------------------
for page in docs/man/*.scd; do
        page=${page#docs/man/}
        grep -qF "'${page%.scd}'" docs/meson.build || refuse "docs/meson.build does not build docs/man/$page"
done

# -- commands and options -------------------------------------------------------------------------------------
# long_options: the long options that a text defines, one a line (the lines that begin with an option).
long_options() {
        sed 's/^[[:space:]]*//; s/[[:space:]][[:space:]].*//' | grep -E '^\*?(-[A-Za-z0-9]|--[a-z])' |
                grep -oE -- '--[a-z][a-z0-9-]+' | sort -u
}

if [ -n "$blkup" ] && [ -d docs/man ]; then
        commands=$("$blkup" --help | sed -nE '/^Commands:/,/^$/s/^ +([a-z][a-z0-9-]*) .*/\1/p' | grep -vx help)
        [ -n "$commands" ] || refuse "blkup --help names no command"
        for name in $commands; do
                page=docs/man/blkup-$name.8.scd
                if [ ! -f "$page" ]; then
                        refuse "blkup $name has no $page"
                        continue
                fi
                help=$("$blkup" "$name" --help | long_options) ||
                        refuse "blkup $name --help names no long option"
                man=$(tr -d '\134' <"$page" | long_options) || refuse "$page names no long option"
                while IFS= read -r option; do
                        refuse "blkup $name: $option is in --help, not in $page"
                done < <(comm -23 <(echo "$help") <(echo "$man") | grep .)
                while IFS= read -r option; do
                        refuse "blkup $name: $option is in $page, not in --help"
                done < <(comm -13 <(echo "$help") <(echo "$man") | grep .)
        done
        for page in docs/man/blkup-*.8.scd; do
                name=${page#docs/man/blkup-}
                grep -qx -- "${name%.8.scd}" <<<"$commands" || refuse "$page: blkup --help does not name the command"
        done
fi
exit $bad
