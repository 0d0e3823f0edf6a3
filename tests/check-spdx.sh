#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Each tracked file that can hold a comment names its licence in its first five lines, and the right one:
# LGPL for the library (include/, src/ but src/cli), GPL for everything else.
# usage: check-spdx.sh ROOT
set -euo pipefail
root=${1:?ROOT}
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"

bad=0
cd "$root"
declare -A wants=()
while IFS= read -r file; do
        case $file in
        LICENSES/* | COPYING) continue ;;
        # Data has no comments; its licence is that of its folder.
        *.json | tests/golden/* | tests/fuzz/corpus/* | tests/fuzz/samples/* | tests/*/data/* | *.xz | *.img | *.svg | *.png | *.tsv) continue ;;
        src/cli/*) wants[$file]=GPL-2.0-or-later ;;
        src/* | include/*) wants[$file]=LGPL-2.1-or-later ;;
        *) wants[$file]=GPL-2.0-or-later ;;
        esac
done < <(tracked .)
# One look at the first five lines of all of them: FILE and what it says.
declare -A says=()
while IFS=$'\t' read -r file found; do
        says[$file]=$found
done < <(LC_ALL=C awk 'FNR > 5 { nextfile }
        match($0, /SPDX-License-Identifier: [A-Za-z0-9.-]+/) {
                print FILENAME "\t" substr($0, RSTART + 25, RLENGTH - 25)
                nextfile
        }' "${!wants[@]}")
for file in "${!wants[@]}"; do
        found=${says[$file]:-} want=${wants[$file]}
        # Build descriptions of a room may carry the licence of the build or of the room.
        case $file:$found in
        src/*meson.build:GPL-2.0-or-later) continue ;;
        esac
        if [ "$found" != "$want" ]; then
                echo "$file: SPDX-License-Identifier is '${found:-missing}', not $want"
                bad=1
        fi
done
exit $bad
