#!/usr/bin/env bash
# Runs both programs of the example. They need a npud: npu-run -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAMS]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
# shellcheck source=examples/common/await_all.sh
. "$(dirname "$0")/../common/await_all.sh"
bin=${1:-$(dirname "$0")}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

"$bin/producer" "$dir" &
producer=$!
"$bin/consumer" "$dir" &
# If one fails, the trap ends the other.
if await_all $producer $!; then
    echo "ipc_event: OK"
else
    echo "ipc_event: FAILED"
    exit 1
fi
