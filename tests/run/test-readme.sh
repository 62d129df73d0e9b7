#!/usr/bin/env bash
# The first program of README.md does what README.md says. usage: test-readme.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```$/ { code = 0 } code { print } /^```cpp$/ { code = 1 }' "$top/README.md" \
    >"$work/first.asc"
NPUD_HOST_CXX=${CXX:-c++} "$build/bisheng" "$work/first.asc" -o "$work/first" 2>"$work/warnings"
LD_LIBRARY_PATH="$build" "$build/npu-run" -- "$work/first" >"$work/got" 2>&1
same_but_pid() {
    tr '\n' ' ' | sed -E 's/ +/ /g; s/process [0-9]+/process N/; s/^ //; s/ $//'
}
awk '/^It prints/ { said = 1 } /^[^ I]/ { said = 0 } said && /^    /' "$top/README.md" |
    same_but_pid >"$work/wanted"
if [ -s "$work/first.asc" ] && same_but_pid <"$work/got" | cmp -s - "$work/wanted"; then
    echo "ok the first program of README.md"
else
    echo "not ok the first program of README.md"
    cat "$work/warnings" "$work/got"
    exit 1
fi
