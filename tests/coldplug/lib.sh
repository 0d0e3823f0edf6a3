# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What the scripts here share: all of tests/mount/lib.sh, and a few words more.
# shellcheck source=tests/mount/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
need jq mkfs.ext4
# Another program of this machine may have a hibernation image attached at the moment.
blkup=$real_blkup
have_schema=''
! python3 -c 'import jsonschema' 2>/dev/null || have_schema=1

# coldplug ARGUMENT...: leaves $code and the JSON in out.json, which is held against its schema.
coldplug() {
        code=0
        # What others of this machine have attached is not to be assembled, and no module to be loaded here.
        timeout 60 "$blkup" coldplug --json --modules=never --assemble="${assemble:-never}" "$@" >out.json 2>err.txt || code=$?
        err=$(tr -d '\0' <err.txt)
        [ -n "$have_schema" ] || return 0
        if python3 - "$root/docs/schema/coldplug.json" out.json <<'END'
import json, sys
import jsonschema
jsonschema.Draft202012Validator(json.load(open(sys.argv[1]))).validate(json.load(open(sys.argv[2])))
END
        then pass; else fail "schema: $*" "$(head -c 2000 out.json)" "$err"; fi
}

# entry SOURCE FILTER: of the entry with that source.
entry() {
        jq -r --arg s "$1" '.entries[] | select(.source == $s) | '"$2" out.json
}

shown_json() {
        printf 'exit %s\n%s\n%s\n' "$code" "$(head -c 6000 out.json)" "$err"
}

exits() { # NAME CODE
        if [ "$code" = "$2" ]; then pass; else fail "$1: exit $code, not $2" "$(shown_json)"; fi
}

# told FILTER: waits until `watch --json >told.txt` has told such an event.
told() {
        local i
        for ((i = 0; i < 200; i++)); do
                jq -c "select($1)" told.txt 2>/dev/null | grep -q . && return 0
                sleep 0.05
        done
        return 1
}
tells() { # NAME FILTER
        if told "$2"; then pass; else fail "$1: not told" "$(cat told.txt err.txt)"; fi
}
