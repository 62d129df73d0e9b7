#!/usr/bin/env bash
# The example of Slurm, on a cluster of one node: jobs get NPUs one by one, and see no others. Then
# on two nodes, each with an npud of its own.
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

# Each rank: its node, the npud that it has met there, and its list.
tell_met() {
    /usr/bin/python3 -c 'import acl, os
count, ret = acl.rt.get_device_count()
acl.rt.set_device(0)
print(os.environ["SLURMD_NODENAME"], acl.get_soc_name(), os.environ["ASCEND_RT_VISIBLE_DEVICES"],
      count)'
}

on_two() {
    meet() { # NAME WANTED OPTION OF SRUN...
        local name=$1 wanted=$2
        shift 2
        expect "$name" "$wanted" \
            "$(srun --quiet "$@" bash "$0" "$build" met 2>&1 | sort | paste -sd,)"
    }
    meet "a rank on each node meets its npud" "node0 first 0 1,node1 second 0 1" -N 2 --gres=npu:1
    meet "two ranks on each" "node0 first 0,1 2,node0 first 0,1 2,node1 second 0,1 2,$(
    )node1 second 0,1 2" -N 2 --ntasks-per-node 2 --gres=npu:2
    mkfifo "$work/c" "$work/c.sees"
    srun --nodelist=node1 --gres=npu:1 bash "$0" "$build" hold "$work/c" &
    read -r _ <"$work/c.sees"
    meet "nodes give different NPUs to one job" "node0 first 0 1,node1 second 1 1" -N 2 \
        --gres=npu:1
    srun -N 2 --gres=npu:2 --immediate=1 true >/dev/null 2>&1
    report "$((! $?))" "no job gets what one node does not have free"
    echo >"$work/c"
    wait
    meet "a node alone" "node1 second 0,1 2" --nodelist=node1 --gres=npu:2
    exit "$failed"
}

case ${2:-} in
inside)
    work=$3
    inside
    ;;
first)
    first=$NPUD_SOCKET exec "$build/npu-run" --set=sim.soc_name=second -- \
        bash "$0" "$build" second "$3"
    ;;
second)
    exec bash "$top/examples/slurm/cluster.sh" --node "$first" --node "$NPUD_SOCKET" \
        bash "$0" "$build" on_two "$3"
    ;;
on_two)
    work=$3
    on_two
    ;;
met)
    tell_met
    exit
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
"$build/npu-run" --devices 2 -- bash "$top/examples/slurm/cluster.sh" \
    bash "$0" "$build" inside "$work"
report $? "the cluster has come and gone"

"$build/npu-run" --set=sim.soc_name=first -- bash "$0" "$build" first "$work"
report $? "the cluster of two nodes has come and gone"
exit $failed
