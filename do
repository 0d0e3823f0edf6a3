#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
set -eu
cd "$(dirname "$0")"
case "${1:-build}" in
build)
        [ -f build/build.ninja ] || meson setup build --native-file native/release.ini
        ninja -C build
        [ ! -x build/src/cli/blkup ] || ln -sf src/cli/blkup build/blkup
        ;;
test)
        [ -f build-dev/build.ninja ] || meson setup build-dev --native-file native/dev.ini
        meson test -C build-dev
        ;;
clean) rm -rf build build-* ;;
esac
