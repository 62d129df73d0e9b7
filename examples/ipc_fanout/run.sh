#!/usr/bin/env bash
# Runs one producer and several consumers. They need a npud: npu-run --devices 4 -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAMS [CONSUMERS]]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
bin=${1:-$(dirname "$0")}
consumers=${2:-3}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

"$bin/producer" "$dir" "$consumers" &
for i in $(seq "$consumers"); do
    "$bin/consumer" "$dir" "$i" &
done
# One after the other as they end. If one fails, others may wait for it for good: then the trap ends
# them.
for _ in $(seq 0 "$consumers"); do
    if ! wait -n; then
        echo "ipc_fanout: FAILED"
        exit 1
    fi
done
echo "ipc_fanout: OK"
