#!/usr/bin/env bash
# Runs both sides of the example. They need a npud with two devices: npu-run --devices 2 -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAM]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
# shellcheck source=examples/common/await_all.sh
. "$(dirname "$0")/../common/await_all.sh"
bin=${1:-$(dirname "$0")}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

"$bin/vector_add" adder "$dir" &
adder=$!
"$bin/vector_add" checker "$dir" &
# If one fails, the trap ends the other.
if await_all $adder $!; then
    echo "vector_add: OK"
else
    echo "vector_add: FAILED"
    exit 1
fi
