#!/usr/bin/env bash
# Each function of tests/abi/abi.tsv is declared in its header and exported, and docs/coverage.md
# says "not supported" of it exactly if client/abi/unsupported.inc has a row of it.
# usage: test-coverage.sh BUILD_DIR
# shellcheck disable=SC2016 # backticks of Markdown
set -u
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

report() { # NAME: of what $work/faults holds, which is nothing if all is well
    if [ -s "$work/faults" ]; then
        echo "not ok $1"
        cat "$work/faults"
        failed=1
    else
        echo "ok $1"
    fi
}

missing_in() { # FILE: the functions of the table that are not lines of FILE
    comm -23 "$work/functions" <(sort -u "$1") >"$work/faults"
}

awk -F '\t' '$1 == "function" { print $2 }' tests/abi/abi.tsv | sort >"$work/functions"
sort "$work/functions" | uniq -d >"$work/faults"
[ "$(wc -l <"$work/functions")" -gt 500 ] || echo "abi.tsv has hardly a function" >"$work/faults"
report "the table of the interface names each function once"

nm -D --defined-only "$build/libaclclient.so.1" | sed 's/.* //; s/@.*//' >"$work/exported"
missing_in "$work/exported"
report "each function is exported"

awk -F '\t' '$1 == "function" { print $4, $2 }' tests/abi/abi.tsv |
    while read -r header function; do
        grep -q "\\<$function(" "include/acl/$header" || echo "$function is not in $header"
    done >"$work/faults"
report "each function is declared in its header"

sed -n 's/^| [^|]* | `\(acl[A-Za-z0-9]*\)` | [a-z].*/\1/p' docs/coverage.md >"$work/documented"
missing_in "$work/documented"
sort "$work/documented" | uniq -d >>"$work/faults"
report "each function has one row in docs/coverage.md"

sed -n 's/^| [^|]* | `\(acl[A-Za-z0-9]*\)` | not supported |$/\1/p' docs/coverage.md |
    sort >"$work/said"
tr '\n' ' ' <client/abi/unsupported.inc | grep -oE '(STATUS|DESTRUCTOR|VALUE)\([^()]*\)?' |
    sed -E 's/^VALUE\([^,]*,[^,]*, *//; s/^[A-Z]+\(//; s/,.*//' | grep '^acl' |
    sort >"$work/unsupported"
diff "$work/said" "$work/unsupported" >"$work/faults"
report "what has no code, and nothing else, is said to be not supported"

python3 tests/abi/coverage.py 2>&1 | diff docs/coverage.md - >"$work/faults" ||
    echo "Say it in tests/abi/subjects.tsv, and run: make coverage" >>"$work/faults"
report "docs/coverage.md is what make coverage writes"
exit $failed
