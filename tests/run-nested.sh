#!/bin/sh
# Run tests with npud in npud: its devices are those of a second npud, reached through npud's own
# library as through a vendor's (tests/common/nested.h). usage: run-nested.sh BUILD_DIR TEST...
# What cannot hold over a device that is away is in tests/nested-cannot: it is named, and left out.
# Closes as run-all.sh does: "N passed, N failed".
set -u
build=$1
shift
list=$(cd "$(dirname "$0")" && pwd)/nested-cannot
NPUD_TEST_BACKEND=acl
NPUD_TEST_CANNOT=$list
export NPUD_TEST_BACKEND NPUD_TEST_CANNOT

# Programs none of whose tests can hold are not started.
whole=$(awk '!/^#/ && $2 == "*" {print $1}' "$list")
for t in "$@"; do
    shift
    echo "$whole" | grep -qx "${t##*/}" || set -- "$@" "$t"
done

echo "What cannot hold over a device that is away:"
awk '!/^#/ {
    printf "    %s: ", $1
    n = split($2, tests, ",")
    if ($2 == "*") tests[1] = "all of it"
    for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ", " : ""), tests[i]
    $1 = $2 = ""
    sub(/^ +/, "")
    printf "\n        %s\n", $0
}' "$list"
exec sh "$(dirname "$0")/run-all.sh" "$build" "$@"
