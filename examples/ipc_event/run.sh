#!/usr/bin/env bash
# Runs both programs of the example. They need a npud: npu-run -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAMS]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
bin=${1:-$(dirname "$0")}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

"$bin/producer" "$dir" &
"$bin/consumer" "$dir" &
# One after the other as they end. If one fails, the other may wait for it for good: then the trap
# ends it.
if wait -n && wait -n; then
    echo "ipc_event: OK"
else
    echo "ipc_event: FAILED"
    exit 1
fi
