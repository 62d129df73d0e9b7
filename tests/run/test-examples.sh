#!/usr/bin/env bash
# The examples, as they are, with two CPUs, with one, and checked. usage: test-examples.sh BUILD_DIR
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$build" && pwd)
export PATH="$here:$PATH" PYTHONPATH="$here/python3/dist-packages"

run_example() { # NAME OPTION-OF-NPU-RUN... -- COMMAND...
    local name=$1
    shift
    check "$name" npu-run "${npu_run_options[@]}" "$@"
    check "$name on one CPU" taskset -c 0 npu-run "${npu_run_options[@]}" "$@"
    check "$name is checked, and nothing is found" npu-run "${npu_run_options[@]}" --check "$@"
}

for e in ipc_event ipc_fanout shared_buffer vector_add; do
    run_example "$e" --devices 4 -- bash "$top/examples/$e/run.sh" "$build/examples/$e"
done
run_example python --devices 2 -- bash "$top/examples/python/run.sh" "$build/examples/ipc_event"
run_example asyncio -- /usr/bin/python3 "$top/examples/asyncio/jobs.py"
for e in event_loop ipc_cpp pipeline; do
    run_example "$e" --devices 2 -- "$build/examples/$e/$e"
done
run_example restart --restartable --devices 2 -- bash "$top/examples/restart/run.sh" \
    "$build/examples/restart"
exit $failed
