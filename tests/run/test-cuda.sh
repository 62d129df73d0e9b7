#!/usr/bin/env bash
# Suites of tests/gpu/suites.list over the fake of CUDA's driver: the first six, and all of them in
# make check-long; or one program, such as e2e/test_many_threads.
# usage: test-cuda.sh BUILD_DIR [PROGRAM]
# Runs long: 20 s.
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
# shellcheck source=tests/run/away.sh
. "$top/tests/run/away.sh"

export NPUD_TEST_BACKEND=cuda
NPUD_TEST_CUDA=$(cd "$build" && pwd)/tests/gpu/libfake_cuda.so
export NPUD_TEST_CUDA

suites=6
[ -z "${NPUD_TEST_LONG:-}" ] || suites=1000
suites_pass "CUDA's fake" "${2:-}" < <(grep -v '^#' "$top/tests/gpu/suites.list" |
    head -n "$suites")
exit $failed
