# Suites over devices that are away: for test-cuda.sh and test-nested.sh, which have read check.sh.
# shellcheck shell=bash disable=SC2154 # build and top are the script's
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export NPUD_TEST_CANNOT=$top/tests/nested-cannot

# shellcheck disable=SC2317 # check() calls it
passes() { # PROGRAM
    "$build/$1" >"$work/out" 2>&1 && grep -q '^100%: Checks: [1-9]' "$work/out" && return
    tail -n 30 "$work/out"
    return 1
}

# Each program that is read, below the build folder, or the one that was asked for alone.
suites_pass() { # OVER [PROGRAM]
    if [ -n "${2:-}" ]; then
        check "$2 over $1" passes "tests/$2"
        return
    fi
    while read -r suite; do
        check "$suite over $1" passes "$suite"
    done
}
