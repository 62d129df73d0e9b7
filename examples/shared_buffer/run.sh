#!/usr/bin/env bash
# Runs both programs of the example, shows what npuctl says while a buffer is on its way, and checks
# that nothing is left of them. They need an npud: npu-run -- ./run.sh
# usage: run.sh [DIRECTORY OF THE PROGRAMS]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
# shellcheck source=examples/common/await_all.sh
. "$(dirname "$0")/../common/await_all.sh"
bin=${1:-$(dirname "$0")}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT
PATH=$bin/../..:$PATH # npuctl, where it is not installed

failed() {
    echo "shared_buffer: FAILED${1:+: $1}"
    exit 1
}

look() { # when the primary has a buffer in a queue
    read -r -n 1 <"$dir/look.0"
    for what in pools queues; do
        echo "--- npuctl $what"
        npuctl "$what" || return
    done
    echo "---"
    printf '!' >"$dir/looked.0"
}

mkfifo "$dir/look.0" "$dir/looked.0"
"$bin/primary" "$dir" &
primary=$!
"$bin/secondary" "$dir" &
secondary=$!
look &
# If one fails, the trap ends the others.
await_all $primary $secondary $! || failed
# npud hears from the kernel that a process has ended, perhaps a moment later: npuctl asks until
# npud knows.
for what in pools queues grants; do
    timeout 60 npuctl --watch=0.02 --json "$what" | grep -q -m 1 -x -F "{\"$what\":[]}" ||
        failed "$what left"
done
echo "npuctl: no pools, queues and grants left"
echo "shared_buffer: OK"
