#!/usr/bin/env bash
# Suites of tests/gpu/suites.list over the fake of CUDA's driver: the first six, and all of them in
# make check-long; or one program, such as e2e/test_many_threads.
# usage: test-cuda.sh BUILD_DIR [PROGRAM]
# shellcheck disable=SC2317 # check() calls these functions
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export NPUD_TEST_BACKEND=cuda NPUD_TEST_CANNOT=$top/tests/nested-cannot
NPUD_TEST_CUDA=$(cd "$build" && pwd)/tests/gpu/libfake_cuda.so
export NPUD_TEST_CUDA

passes() { # PROGRAM
    "$build/$1" >"$work/out" 2>&1 && grep -q '^100%: Checks: [1-9]' "$work/out" && return
    tail -n 30 "$work/out"
    return 1
}

if [ -n "${2:-}" ]; then
    check "$2 over CUDA's fake" passes "tests/$2"
    exit $failed
fi
suites=6
[ -z "${NPUD_TEST_LONG:-}" ] || suites=1000
while read -r suite; do
    check "$suite over CUDA's fake" passes "$suite"
done < <(grep -v '^#' "$top/tests/gpu/suites.list" | head -n "$suites")
exit $failed
