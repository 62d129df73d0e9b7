#!/usr/bin/env bash
# Runs the example, and kills npud's server ten times meanwhile. It needs a npud that comes back,
# and npuctl in PATH: npu-run --restartable --devices 2 -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAM]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
# shellcheck source=examples/common/await_all.sh
. "$(dirname "$0")/../common/await_all.sh"
bin=${1:-$(dirname "$0")}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT

# Its lines tell how far both are, and their end that it has ended.
exec 3< <("$bin/ping_pong" first "$dir")
first=$!
"$bin/ping_pong" second "$dir" &
second=$!

# False: it has ended.
hundred_round_trips() { # TIMES
    local i
    for ((i = 0; i < $1; i++)); do read -r -u 3 || return 1; done
}

killed=0
while [ $killed -lt 10 ] && hundred_round_trips 5; do
    pid=$(npuctl status | awk '/^pid:/ {print $2}')
    kill -9 "$pid" && killed=$((killed + 1))
done
hundred_round_trips 5
: >"$dir/stop.0"
grep -v '^\.$' <&3
echo "npud's server was killed $killed times"
if wait $first && await_all $second && [ $killed = 10 ]; then
    echo "restart: OK"
else
    echo "restart: FAILED"
    exit 1
fi
