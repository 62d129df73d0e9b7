#!/bin/sh
# TaskProlog of Slurm: a task sees the NPUs that its job has on this node, and no others. Slurm adds
# to the environment of the task what this prints as "export NAME=value". Which NPUs these are, only
# slurmctld tells, for resources that Slurm has no plugin for, in words like "Nodes=n[1-2]" and
# "GRES=npu:2(IDX:0-1)" for each group of nodes on which the job has the same.
#
# A job without NPUs sees none, by a number that no NPU has: no list would mean all.
indices=$(scontrol --details --oneliner show job "$SLURM_JOB_ID" | tr ' ' '\n' |
    awk -v node="$SLURMD_NODENAME" '
        /^Nodes=/ {
            here = 0
            command = "scontrol show hostnames " substr($0, length("Nodes=") + 1)
            while ((command | getline name) > 0) if (name == node) here = 1
            close(command)
        }
        here && match($0, /(^GRES=|,)npu:[^(,]*\(IDX:[0-9,-]+\)/) {
            ranges = substr($0, RSTART, RLENGTH - 1)
            sub(/.*IDX:/, "", ranges)
            n = split(ranges, range, ",")
            for (i = 1; i <= n; i++) {
                ends = split(range[i], end, "-")
                for (k = end[1]; k <= end[ends]; k++) {
                    printf "%s%d", comma, k
                    comma = ","
                }
            }
            exit
        }')
echo "export ASCEND_RT_VISIBLE_DEVICES=${indices:--1}"
