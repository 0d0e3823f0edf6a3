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
while IFS= read -r file; do
        case $file in
        LICENSES/* | COPYING) continue ;;
        # Data has no comments; its licence is that of its folder.
        *.json | tests/golden/* | tests/fuzz/corpus/* | tests/*/data/* | *.xz | *.img | *.svg | *.tsv) continue ;;
        src/cli/*) want=GPL-2.0-or-later ;;
        src/* | include/*) want=LGPL-2.1-or-later ;;
        *) want=GPL-2.0-or-later ;;
        esac
        found=$(head -n 5 "$root/$file" | tr -d '\0' | sed -n 's/.*SPDX-License-Identifier: \([A-Za-z0-9.-]*\).*/\1/p' | head -n 1)
        # Build descriptions of a room may carry the licence of the build or of the room.
        case $file:$found in
        src/*meson.build:GPL-2.0-or-later) continue ;;
        esac
        if [ "$found" != "$want" ]; then
                echo "$file: SPDX-License-Identifier is '${found:-missing}', not $want"
                bad=1
        fi
done < <(tracked "$root")
exit $bad
