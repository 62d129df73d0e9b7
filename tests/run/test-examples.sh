#!/usr/bin/env bash
# The examples, as they are, with two CPUs and with one. usage: test-examples.sh BUILD_DIR
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
npu_run=("$build/npu-run" "${npu_run_options[@]}")
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for e in ipc_event ipc_fanout shared_buffer; do
    run=("${npu_run[@]}" --devices 4 -- bash "$top/examples/$e/run.sh" "$build/examples/$e")
    check "$e" "${run[@]}"
    check "$e on one CPU" taskset -c 0 "${run[@]}"
done

run=(env PYTHONPATH="$(cd "$build" && pwd)/python3/dist-packages" "${npu_run[@]}" --devices 2 -- \
    bash "$top/examples/python/run.sh" "$build/examples/ipc_event")
check "python" "${run[@]}"
check "python on one CPU" taskset -c 0 "${run[@]}"
run=(env PYTHONPATH="$(cd "$build" && pwd)/python3/dist-packages" "${npu_run[@]}" -- \
    /usr/bin/python3 "$top/examples/asyncio/jobs.py")
check "asyncio" "${run[@]}"
check "asyncio on one CPU" taskset -c 0 "${run[@]}"
for e in event_loop ipc_cpp pipeline; do
    run=("${npu_run[@]}" --devices 2 -- "$build/examples/$e/$e")
    check "$e" "${run[@]}"
    check "$e on one CPU" taskset -c 0 "${run[@]}"
done
run=(env PATH="$(cd "$build" && pwd):$PATH" "${npu_run[@]}" --restartable --devices 2 -- \
    bash "$top/examples/restart/run.sh" "$build/examples/restart")
check "restart" "${run[@]}"
check "restart on one CPU" taskset -c 0 "${run[@]}"
exit $failed
