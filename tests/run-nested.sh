#!/bin/sh
# Run tests over devices that are away, which a library of theirs does the work of
# (tests/common/nested.h): npud in npud, or the fake of CUDA, as NPUD_TEST_BACKEND says (acl, cuda).
# usage: run-nested.sh BUILD_DIR TEST...
# What cannot hold over such a device is in tests/nested-cannot: it is named, and left out.
# Closes as run-all.sh does: "N passed, N failed".
set -u
build=$1
shift
list=$(cd "$(dirname "$0")" && pwd)/nested-cannot
NPUD_TEST_BACKEND=${NPUD_TEST_BACKEND:-acl}
NPUD_TEST_CANNOT=$list
export NPUD_TEST_BACKEND NPUD_TEST_CANNOT
if [ "$NPUD_TEST_BACKEND" = cuda ] && [ -z "${NPUD_TEST_CUDA:-}" ]; then
    NPUD_TEST_CUDA=$(cd "$build" && pwd)/tests/gpu/libfake_cuda.so
    export NPUD_TEST_CUDA
fi

# Its lines for these devices, without that word.
cannot() {
    awk -v is="$NPUD_TEST_BACKEND" -v one="${NPUD_TEST_DEVICES:-}" '!/^#/ {
        n = split($1, devices, ",")
        for (i = 1; i <= n; i++)
            if (devices[i] == is || (one == "1" && devices[i] == "one")) {
                sub(/^[^ ]+ +/, "")
                print
                next
            }
    }' "$list"
}

# Programs none of whose tests can hold are not started.
whole=$(cannot | awk '$2 == "*" {print $1}')
for t in "$@"; do
    shift
    echo "$whole" | grep -qx "${t##*/}" || set -- "$@" "$t"
done

echo "What cannot hold over a device that is away ($NPUD_TEST_BACKEND):"
cannot | awk '{
    printf "    %s: ", $1
    n = split($2, tests, ",")
    if ($2 == "*") tests[1] = "all of it"
    for (i = 1; i <= n; i++) printf "%s%s", (i > 1 ? ", " : ""), tests[i]
    $1 = $2 = ""
    sub(/^ +/, "")
    printf "\n        %s\n", $0
}'
exec sh "$(dirname "$0")/run-all.sh" "$build" "$@"
