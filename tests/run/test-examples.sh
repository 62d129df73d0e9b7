#!/usr/bin/env bash
# The examples, as they are, with two CPUs and with one. usage: test-examples.sh BUILD_DIR
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
npu_run=("$build/npu-run" "${npu_run_options[@]}")
failed=0

example() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$out" 2>&1; then
        echo "ok $name"
    else
        echo "not ok $name"
        cat "$out"
        failed=1
    fi
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

for e in ipc_event ipc_fanout shared_buffer; do
    run=("${npu_run[@]}" --devices 4 -- bash "$top/examples/$e/run.sh" "$build/examples/$e")
    example "$e" "${run[@]}"
    example "$e on one CPU" taskset -c 0 "${run[@]}"
done

run=(env PYTHONPATH="$(cd "$build" && pwd)/python3/dist-packages" "${npu_run[@]}" --devices 2 -- \
    bash "$top/examples/python/run.sh" "$build/examples/ipc_event")
example "python" "${run[@]}"
example "python on one CPU" taskset -c 0 "${run[@]}"
run=(env PYTHONPATH="$(cd "$build" && pwd)/python3/dist-packages" "${npu_run[@]}" -- \
    /usr/bin/python3 "$top/examples/asyncio/jobs.py")
example "asyncio" "${run[@]}"
example "asyncio on one CPU" taskset -c 0 "${run[@]}"
for e in event_loop ipc_cpp pipeline; do
    run=("${npu_run[@]}" --devices 2 -- "$build/examples/$e/$e")
    example "$e" "${run[@]}"
    example "$e on one CPU" taskset -c 0 "${run[@]}"
done
run=(env PATH="$(cd "$build" && pwd):$PATH" "${npu_run[@]}" --restartable --devices 2 -- \
    bash "$top/examples/restart/run.sh" "$build/examples/restart")
example "restart" "${run[@]}"
example "restart on one CPU" taskset -c 0 "${run[@]}"
exit $failed
