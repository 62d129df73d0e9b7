# shellcheck shell=bash
# await_all PID...: until all these processes have ended, or one has failed; then false, and others
# may still run.
#
# A process may wait for good for one that has failed, so they are awaited as they end. bash before
# 5.3 may pass over one of several that end together: "wait -n" ends with 127 then, as if it had
# failed. So each is asked by its number when none is left.
await_all() {
    local pid status

    while wait -n; do :; done
    [ -z "$(jobs -pr)" ] || return 1
    for pid; do
        wait "$pid"
        status=$?
        [ $status = 0 ] || echo "process $pid: status $status"
        [ $status = 0 ] || return 1
    done
}
