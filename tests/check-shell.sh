#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every shell script of the tree, through shellcheck.
# usage: check-shell.sh ROOT
set -euo pipefail
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"
cd "${1:?ROOT}"

command -v shellcheck >/dev/null || {
        echo "SKIP: no shellcheck"
        exit 77
}
mapfile -t files < <(scripts .)
# Hundreds of recipes: some at a time, on all processors.
printf '%s\0' "${files[@]}" | xargs -0 -n 64 -P "$(nproc)" shellcheck -x
