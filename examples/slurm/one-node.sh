#!/usr/bin/env bash
# A cluster of one node, for trying: munge, slurmctld and slurmd with all their files in a folder of
# their own, with the configuration beside this script. Runs a command in which srun and sinfo work,
# and ends with its status. As root, as slurmd must be.
# usage: npu-run --devices 2 -- one-node.sh COMMAND...
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
pids=()
# shellcheck disable=SC2317 # called by the trap
end_all() {
    # The node first: it tells the controller, and the jobs that it still has end.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" && wait "${pids[i]}"
    done 2>/dev/null
    rm -rf "$dir"
}
trap end_all EXIT

port=$((20000 + $$ % 20000))
node=$(hostname -s)
mkdir "$dir/etc" "$dir/state" "$dir/spool"
touch "$dir/etc/npu0" "$dir/etc/npu1"
sed "s|/etc/slurm|$dir/etc|" "$here/gres.conf" >"$dir/etc/gres.conf"
# No control groups are used, but slurmd begins with a plugin for them. That of version 1 asks for
# nothing.
printf "CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\n" "$dir/cgroup" >"$dir/etc/cgroup.conf"
install "$here/npu-task-prolog.sh" "$dir/etc/"
sed "s|/etc/slurm|$dir/etc|" "$here/slurm.conf" - >"$dir/etc/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=4 RealMemory=100 Gres=npu:2
PartitionName=all Nodes=ALL Default=YES
END
export SLURM_CONF=$dir/etc/slurm.conf

start() { # PROGRAM...: in the foreground, so that this shell has its process
    "$@" >"$dir/${1##*/}.out" 2>&1 &
    pids+=($!)
}

# Asks again until it is true, or the program that was started last has ended.
await() {
    until "$@" >/dev/null 2>&1; do
        if ! kill -0 "${pids[-1]}" 2>/dev/null || [ $SECONDS -gt 30 ]; then
            echo "one-node.sh: no answer to: $*" >&2
            tail -n 20 "$dir"/*.out "$dir"/*.log >&2
            exit 1
        fi
    done
}

node_is_idle() { sinfo --noheader --format %t | grep -qx idle; }

dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 status=none
chmod 600 "$dir/munge.key"
start munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munge.pid" --log-file="$dir/munge.log" --seed-file="$dir/munge.seed"
await munge --no-input --socket "$dir/munge.socket"
start slurmctld -D
await scontrol ping
start slurmd -D -N "$node"
await node_is_idle
"$@"
