#!/usr/bin/env bash
# Runs one producer and several consumers. They need a npud: npu-run --devices 4 -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAMS [CONSUMERS]]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
# shellcheck source=examples/common/await_all.sh
. "$(dirname "$0")/../common/await_all.sh"
bin=${1:-$(dirname "$0")}
consumers=${2:-3}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

"$bin/producer" "$dir" "$consumers" &
pids=$!
for i in $(seq "$consumers"); do
    "$bin/consumer" "$dir" "$i" &
    pids="$pids $!"
done
# If one fails, the trap ends the others.
# shellcheck disable=SC2086 # words
if await_all $pids; then
    echo "ipc_fanout: OK"
else
    echo "ipc_fanout: FAILED"
    exit 1
fi
