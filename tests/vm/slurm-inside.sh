# Slurm with control groups. A part of inside.sh, which has the helpers.
# shellcheck shell=bash

JOBS='/system.slice/*slurmstepd.scope/job_*' # as docs/clusters.md says

# As docs/clusters.md says, and what a cluster of one node needs.
set_up_slurm() {
    install -m 644 examples/slurm/gres.conf /etc/slurm/ &&
        install examples/slurm/npu-task-prolog.sh /etc/slurm/ &&
        touch /etc/slurm/npu0 /etc/slurm/npu1 &&
        mkdir -p /var/spool/slurmctld /var/spool/slurmd || return 1
    echo ConstrainRAMSpace=yes >/etc/slurm/cgroup.conf
    cat examples/slurm/slurm.conf - >/etc/slurm/slurm.conf <<-END
	ClusterName=one
	SlurmctldHost=npud-vm(127.0.0.1)
	SlurmUser=root
	StateSaveLocation=/var/spool/slurmctld
	SlurmdSpoolDir=/var/spool/slurmd
	ProctrackType=proctrack/cgroup
	TaskPlugin=task/cgroup
	SelectTypeParameters=CR_Core_Memory
	MpiDefault=none
	SwitchType=switch/none
	SlurmdParameters=config_overrides
	NodeName=npud-vm NodeAddr=127.0.0.1 CPUs=4 RealMemory=1500 Gres=npu:2
	PartitionName=all Nodes=ALL Default=YES
	END
    # Slurm looks up no address where the machine has none but that of itself.
    ip address add 192.0.2.1/32 dev lo && systemctl start munge slurmctld slurmd
}

node_is_idle() {
    sinfo --noheader --format %t | grep -qx idle
}

no_job_runs() {
    [ -z "$(squeue --noheader)" ] && ! compgen -G "/sys/fs/cgroup$JOBS" >/dev/null
}

start_job() { # NAME USER KIND OPTION OF SRUN...
    local name=$1 user=$2 kind=$3

    shift 3
    start_client "$name" as "$user" srun --quiet --unbuffered --job-name="$name" "$@" \
        ./client grab "$kind"
    ask "$name"
}

job_id() { # NAME
    squeue --noheader --name="$1" --format=%i
}

# refused NAME FROM TO FUNCTION: by $line, a client that has as many MiB
refused() {
    [ "${line%% *}" -ge "$2" ] && [ "${line%% *}" -le "$3" ] &&
        [[ $line == *" 207001 "*"$4"*"this batch job would have more memory"* ]]
    verdict $? "$1" "$line"
}

check_two_jobs() {
    local path server

    start_job a npu-alice device --mem=96M --gres=npu:1
    refused "a job with 96 MiB gets that of device memory, and no more" 94 96 aclrtMalloc
    path=/system.slice/npud-vm_slurmstepd.scope/job_$(job_id a)
    contains "npuctl limits shows it" "$(npuctl limits | grep job_memory)" "96MiB  $path"
    contains "... and sessions" "$(npuctl sessions)" "$path"
    contains "... and who" "$(npuctl who device 0)" "$path"
    contains "... and metrics" "$(npuctl metrics)" \
        "npud_job_memory_limit_bytes{uid=\"$(id -u npu-alice)\",job=\"$path\"} 100663296"
    line=$(as npu-alice srun --quiet --overlap --jobid="$(job_id a)" ./client grab pinned \
        </dev/null)
    refused "another step of the job gets nothing" 0 1 aclrtMallocHost
    start_job b npu-bob buffers --mem=64M --gres=npu:1
    refused "a job with 64 MiB beside it gets that of shared buffers" 56 64 aclrtAllocBuf

    server=$(server_pid)
    kill -KILL "$server"
    check "the server of npud is killed" until_true another server_pid "$server"
    still_limited "... and the limits hold"
    check "the supervisor is killed" systemctl kill --kill-who=main --signal=KILL npud.service
    check "... and npud is back" until_true npud_is_active
    still_limited "... and the limits hold"
    check "npuctl upgrade" npuctl upgrade
    still_limited "... and the limits hold"

    equal "the first job ends" "" "$(end_client a)"
    check "the second one is cancelled" scancel "$(job_id b)"
    check "... and is gone" until_true no_job_runs
    end_client b >/dev/null
    check "npud has no session" until_true no_sessions
    has_nothing
}

still_limited() { # NAME
    ask a more
    refused "$1" 94 96 aclrtMalloc
    ask b more
    refused "... of the other job, too" 56 64 aclrtAllocBuf
    ask a less
    ask a more
    contains "... and what was given back can be had again" "$line" " 0 given"
}

check_touched() {
    local server

    server=$(server_pid)
    equal "a job fills 80 of 96 MiB" filled \
        "$(as npu-alice srun --quiet --mem=96M --gres=npu:1 ./client fill 80 2>&1)"
    contains "the kernel ends one that fills all, as it has other memory as well" \
        "$(as npu-alice srun --mem=96M --gres=npu:1 ./client fill 95 2>&1)" "Out Of Memory"
    equal "npud is the same process" "$server" "$(server_pid)"
    check "... and has no session" until_true no_sessions
    has_nothing
}

# Pages of strict devices are npud's: the kernel would not stop the job.
check_strict() {
    sed -i 's/^#strict = .*/strict = yes/' /etc/npud/npud.conf
    check "npud is restarted with strict devices" systemctl restart npud.service
    contains "a job that fills 120 of 96 MiB is refused" \
        "$(as npu-alice srun --quiet --mem=96M --gres=npu:1 ./client fill 120 2>&1)" \
        "207001 " "this batch job would have more memory"
    sed -i 's/^strict = .*/#&/' /etc/npud/npud.conf
    check "npud is restarted without" systemctl restart npud.service
}

check_slurm() {
    check "Slurm starts, with control groups" set_up_slurm
    check "... and has the node" until_true node_is_idle || return
    check_two_jobs
    check_touched
    check_strict
}
