#!/usr/bin/env bash
# Waits for files of the tree to change, builds, and runs the tests whose programs that has made
# anew, and the scripts of tests/run that have changed. Until it is interrupted.
# usage: tests/watch.sh BUILD_DIR all|PROGRAM...     in the top directory of the tree
set -u
build=$1
shift
stamp=$(mktemp)
changed=$(mktemp)
trap 'rm -f "$stamp" "$changed"' EXIT

# Programs of tests that are newer than the stamp.
made_anew() {
    if [ "$1" = all ]; then
        find "$build/tests" "$build/kill/tests" -type f -name 'test_*' -perm -u+x -newer "$stamp" \
            2>/dev/null
        grep '^tests/run/test-.*\.sh$' "$changed"
    else
        find "$@" -newer "$stamp"
    fi
}

build_and_run() {
    local targets=("$@") tests
    [ "$1" != all ] || targets=(test-programs examples)
    touch "$stamp"
    "${MAKE:-make}" --no-print-directory -s programs "${targets[@]}" || return
    mapfile -t tests < <(made_anew "$@" | sort -u)
    if [ "${#tests[@]}" -eq 0 ]; then
        echo "== no test is touched by that"
    else
        sh tests/run-all.sh "$build" "${tests[@]}"
    fi
}

# What is there is built first; only what changes from now on is run.
"${MAKE:-make}" --no-print-directory -s programs test-programs examples
echo "== waiting for changes"
inotifywait -qmr -e close_write,moved_to,delete --format '%w%f' \
    proto daemon client include tests examples mk Makefile |
    while IFS= read -r file; do
        echo "$file" >"$changed"
        # Editors and git change several files at once.
        while IFS= read -r -t 0.3 file; do echo "$file" >>"$changed"; done
        echo "== changed: $(sort -u "$changed" | tr '\n' ' ')"
        build_and_run "$@"
        echo "== waiting for changes"
    done
