#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# tools/run-tests adds up what it should: each kind of report once, in a meson project of its own.
# usage: test-run-tests.sh RUN-TESTS
set -euo pipefail
run_tests=${1:?RUN-TESTS}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/good" "$tree/bad"
cd "$tree/good"

script() { # NAME, body on stdin
        { echo '#!/bin/sh' && cat; } >"$1.sh"
        chmod +x "$1.sh"
        echo "test('$1', find_program('$1.sh'), suite: '$2')" >>meson.build
}
echo "project('probe of the runner')" >meson.build
script plain unit <<<'exit 0'
script counts golden <<<'echo "SKIP: no moon"; echo "3 passed, 0 failed, 2 skipped"; echo noise >&2'
script tap unit <<<'echo 1..3; echo "ok 1 - a"; echo "ok 2 - b # SKIP no sun"; echo "ok 3 - c"'
script cmocka unit <<'END'
echo '[==========] Running 3 test(s).'; echo '[       OK ] a'; echo '[       OK ] b'; echo '[  SKIPPED ] c'
echo '[==========] 3 test(s) run.'; echo '[  PASSED  ] 2 test(s).'
echo '[  SKIPPED ] 1 test(s), listed below:'; echo '[  SKIPPED ] c'
END
script skip check <<<'echo "SKIP: no stars"; exit 77'
cp -- * ../bad
meson setup ../b-good >/dev/null
cd ../bad
script counted-failure golden <<<'echo "4 passed, 1 failed, 0 skipped"; exit 1'
script crash unit <<<'echo "[==========] Running 2 test(s)."; echo "[       OK ] a"; kill -SEGV $$'
script lies unit <<<'echo "5 passed, 0 failed, 0 skipped"; exit 1'
meson setup ../b-bad >/dev/null
cd ..

passed=0 failed=0
expect() { # EXIT LAST-LINE BUILD ARGS…
        local code=0 last
        "$run_tests" "${@:3}" >out 2>err || code=$?
        last=$(tail -n 1 out)
        if [ "$code" = "$1" ] && [ "$last" = "$2" ]; then
                passed=$((passed + 1))
        else
                echo "run-tests ${*:3}: exit $code '$last', not $1 '$2'"
                cat out err
                failed=$((failed + 1))
        fi
}
expect 0 '8 passed, 0 failed, 5 skipped' b-good
for reason in 'no moon' 'no sun' 'no stars'; do
        if grep -q "$reason" out; then passed=$((passed + 1)); else echo "lost: $reason"; failed=$((failed + 1)); fi
done
expect 0 '3 passed, 0 failed, 2 skipped' b-good golden
expect 0 '3 passed, 0 failed, 1 skipped' b-good plain tap
expect 0 '1 passed, 0 failed, 0 skipped' b-good plain
expect 1 '0 passed, 1 failed, 0 skipped' b-good no-such-test
expect 1 '1 passed, 1 failed, 0 skipped' --case 'build / x:FAIL' b-good plain
expect 1 '0 passed, 1 failed, 0 skipped' --case 'build / x:FAIL' nowhere
expect 1 '18 passed, 3 failed, 5 skipped' b-bad
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
