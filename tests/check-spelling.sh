#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# codespell over what people wrote: comments, documents, messages. Words it must learn: tests/spelling.txt.
# usage: check-spelling.sh ROOT
set -euo pipefail
# shellcheck source=tests/tracked.sh
. "$(dirname "$0")/tracked.sh"
cd "${1:?ROOT}"

command -v codespell >/dev/null || {
        echo "SKIP: no codespell"
        exit 77
}
mapfile -t files < <(tracked . | grep -vE '^(LICENSES/|tests/golden/|tests/fuzz/corpus/|tests/spelling.txt)')
codespell --ignore-words-list "$(grep -v '^#' tests/spelling.txt | paste -sd ,)" "${files[@]}"
