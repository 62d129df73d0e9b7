#!/usr/bin/env bash
# A cluster on this host, for trying: munge, slurmctld and a slurmd per node, with all their files
# in a folder of their own, and with the configuration beside this script. Runs a command in which
# srun and sinfo work, and ends with its status. As root, as slurmd must be.
# usage: npu-run --devices 2 -- cluster.sh [--node SOCKET]... COMMAND...
# --node: a node, by the socket of its npud, which has two NPUs. Without: one, with the npud around.
set -u
sockets=()
while [ "${1:-}" = --node ]; do
    sockets+=("$(realpath -e "$2")") || exit
    shift 2
done
[ ${#sockets[@]} -gt 0 ] || sockets=("${NPUD_SOCKET:-/run/npud/npud.sock}")
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
pids=()
# shellcheck disable=SC2317 # called by the trap
end_all() {
    # The nodes first: they tell the controller, and the jobs that they still have end.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" && wait "${pids[i]}"
    done 2>/dev/null
    rm -rf "$dir"
}
trap end_all EXIT

port=$((20000 + $$ % 20000))
mkdir "$dir/etc" "$dir/state"
touch "$dir/etc/npu0" "$dir/etc/npu1"
sed "s|/etc/slurm|$dir/etc|" "$here/gres.conf" >"$dir/etc/gres.conf"
# No control groups are used, but slurmd begins with a plugin for them. That of version 1 asks for
# nothing.
printf "CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\n" "$dir/cgroup" >"$dir/etc/cgroup.conf"
# The nodes share a host, and so the path at which each has its npud elsewhere.
install "$here/npu-task-prolog.sh" "$dir/etc/"
echo "echo \"export NPUD_SOCKET=$dir/\$SLURMD_NODENAME.sock\"" >>"$dir/etc/npu-task-prolog.sh"
nodes=
for i in "${!sockets[@]}"; do
    ln -s "${sockets[i]}" "$dir/node$i.sock"
    nodes+="NodeName=node$i NodeAddr=127.0.0.1 Port=$((port + 1 + i)) CPUs=4 RealMemory=100"
    nodes+=$' Gres=npu:2\n'
done
sed "s|/etc/slurm|$dir/etc|" "$here/slurm.conf" - >"$dir/etc/slurm.conf" <<END
ClusterName=one
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
${nodes}PartitionName=all Nodes=ALL Default=YES
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
            echo "cluster.sh: no answer to: $*" >&2
            tail -n 20 "$dir"/*.out "$dir"/*.log >&2
            exit 1
        fi
    done
}

nodes_are_idle() { [ "$(sinfo --noheader --format '%t %D')" = "idle ${#sockets[@]}" ]; }

dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 status=none
chmod 600 "$dir/munge.key"
start munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munge.pid" --log-file="$dir/munge.log" --seed-file="$dir/munge.seed"
await munge --no-input --socket "$dir/munge.socket"
start slurmctld -D
await scontrol ping
for i in "${!sockets[@]}"; do
    start slurmd -D -N "node$i"
done
await nodes_are_idle
"$@"
