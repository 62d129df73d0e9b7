#!/usr/bin/env bash
# The raw programs of tests/gpu over the fake of CUDA's driver: their code, not their times.
# usage: test-gpu.sh BUILD_DIR
# shellcheck disable=SC2317 # check() calls these functions
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$build" && pwd)

measures() { # PROGRAM ARGUMENT...: prints one line of JSON
    local program=$1
    shift
    NPUD_TEST_CUDA=$here/tests/gpu/libfake_cuda.so RAW_SHORT=1 \
        "$here/tests/gpu/raw/$program" "$@" >"$work/line" && python3 -c 'import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == 1 and json.loads(lines[0])["row"]' "$work/line"
}

while read -r program arguments; do
    # shellcheck disable=SC2086 # words
    check "$program${arguments:+ $arguments}" measures "$program" $arguments
done < <(grep -v '^#' "$top/tests/gpu/raw.list")

says_no_gpu() {
    NPUD_TEST_CUDA=/nowhere/libcuda.so.1 "$here/tests/gpu/raw/raw_launch" 2>"$work/said"
    [ $? -eq 77 ] && grep -q 'no GPU' "$work/said"
}
check "where no GPU is, they say so" says_no_gpu
exit $failed
