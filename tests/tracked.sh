# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# tracked ROOT: the files of the tree, one a line; without git (a release archive) all but what is built.
tracked() {
        # Files that were removed but not yet committed are still listed: they are no longer ours to check.
        local listed
        # Not "| grep -q .": under pipefail that fails when grep has seen enough and git is still writing.
        listed=$(git -c safe.directory='*' -C "$1" ls-files 2>/dev/null) || listed=
        if [ -n "$listed" ]; then
                printf '%s\n' "$listed"
        else
                ( cd "$1" && find . -type f ! -path './.git/*' ! -path './build/*' ! -path './build-*' -printf '%P\n' )
        fi | sort | while IFS= read -r file; do
                [ ! -f "$1/$file" ] || printf '%s\n' "$file"
        done
}

# scripts ROOT: the tracked files that a shell runs.
scripts() {
        local -a files
        mapfile -t files < <(tracked "$1")
        (cd "$1" && LC_ALL=C awk 'FNR > 1 { nextfile }
                /^#! ?\/(usr\/)?bin\/(env )?(ba|da)?sh/ { print FILENAME }' "${files[@]}")
}
