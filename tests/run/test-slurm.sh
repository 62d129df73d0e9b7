#!/usr/bin/env bash
# The example of Slurm, on a cluster of one node: jobs get NPUs one by one, and see no others.
# usage: test-slurm.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

# --- inside of the cluster ---

# What a job sees: its list, and the number of devices, or the code of the error.
tell_seen() {
    /usr/bin/python3 -c 'import acl, os
count, ret = acl.rt.get_device_count()
print(os.environ.get("ASCEND_RT_VISIBLE_DEVICES"), count, ret)'
}

sees() { # NAME WANTED OPTION OF SRUN...
    local name=$1 wanted=$2 got
    shift 2
    got=$(srun --quiet "$@" bash "$0" "$build" job 2>&1)
    [ "$got" = "$wanted" ]
    report $? "$name"
    [ "$got" = "$wanted" ] || echo "    '$got' where '$wanted' was expected"
}

# A job that tells what it sees and then has its NPU until the test closes the FIFO.
hold() { # NAME
    srun --gres=npu:1 bash "$0" "$build" hold "$work/$1" &
}

inside() {
    sees "a job with one NPU" "0 1 0" --gres=npu:1
    sees "a job with two" "0,1 2 0" --gres=npu:2
    sees "two tasks of a job see both" "0,1 2 0
0,1 2 0" --gres=npu:2 --ntasks=2
    sees "a job without" "-1 0 207004" --cpus-per-task=1
    srun --gres=npu:3 true >/dev/null 2>&1
    report "$((! $?))" "a job with three is refused"

    mkfifo "$work/a" "$work/b" "$work/a.sees" "$work/b.sees"
    hold a
    hold b
    read -r first <"$work/a.sees"
    read -r second <"$work/b.sees"
    [ "$(printf '%s\n' "$first" "$second" | sort)" = "0 1 0
1 1 0" ]
    report $? "two jobs at once have different NPUs"
    srun --gres=npu:1 --immediate=1 true >/dev/null 2>&1
    report "$((! $?))" "a third one gets none meanwhile"
    echo >"$work/a"
    echo >"$work/b"
    wait
    sees "NPUs are free again" "0,1 2 0" --gres=npu:2
    exit "$failed"
}

case ${2:-} in
inside)
    work=$3
    inside
    ;;
job)
    tell_seen
    exit
    ;;
hold)
    tell_seen >"$3.sees"
    read -r _ <"$3"
    exit
    ;;
esac

# --- before ---

for program in munged slurmctld slurmd srun; do
    if ! PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || [ "$(id -u)" != 0 ]; then
        echo "SKIPPED test-slurm.sh: needs root and the packages munge, slurmctld and slurmd" \
            "(make deps-cluster)"
        echo "ok nothing to run here"
        exit 0
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$PATH:/usr/sbin PYTHONPATH=$build/python3/dist-packages
"$build/npu-run" --devices 2 -- bash "$top/examples/slurm/one-node.sh" \
    bash "$0" "$build" inside "$work"
report $? "the cluster has come and gone"
exit $failed
