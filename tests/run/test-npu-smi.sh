#!/usr/bin/env bash
# npu-smi, as programs call it that look for devices. usage: test-npu-smi.sh BUILD_DIR
# What is in single quotes here is for the shell that npu-run starts:
# shellcheck disable=SC2016
set -u
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH" NPU_SMI="$build/toolkit/npu-smi"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR ASCEND_RT_VISIBLE_DEVICES
# shellcheck source=tests/run/check.sh
. "$(dirname "$0")/check.sh"

smi() { # ARGUMENT...: with three NPUs
    npu-run --devices 3 -- "$NPU_SMI" "$@" 2>"$work/err"
}

# --- the ways in which programs count devices and ask for their name ---

chip=$(npu-run -- npuctl --json devices | sed -n 's/.*"soc_name": *"\([^"]*\)".*/\1/p' | head -n 1)
chip=${chip#Ascend}
[ -n "$chip" ] || chip="no name from npuctl"
smi info >"$work/info"
expect "info: a line for each NPU" "0 1 2" \
    "$(awk -v chip="$chip" '$3 == chip && $5 == "OK" {printf s $2; s = " "}' "$work/info")"
expect "info: all lines of the table are as wide" 98 \
    "$(grep '^[|+]' "$work/info" | awk '{print length}' | sort -u)"
expect "info: used and total memory" 3 "$(grep -cE '[0-9]+ / [1-9][0-9]*' "$work/info")"
expect "info: bus ids" "fffe:01:00.0 fffe:02:00.0 fffe:03:00.0" \
    "$(awk '$4 ~ /^fffe:/ {printf s $4; s = " "}' "$work/info")"
smi info -l >"$work/list"
expect "info -l: Total Count" 3 "$(awk -F: '/Total Count/ {print $2 + 0}' "$work/list")"
expect "info -l: NPU ID" "0 1 2" \
    "$(awk -F: '/NPU ID/ {printf s $2 + 0; s = " "}' "$work/list")"
expect "info -l: Chip Count" 3 "$(grep -c 'Chip Count  *: 1$' "$work/list")"
smi info -m >"$work/map"
expect "info -m: NPU, chip and logic id" "0 0 0 1 0 1 2 0 2" \
    "$(awk 'NR > 1 {printf s $1 " " $2 " " $3; s = " "}' "$work/map")"
expect "info -m: name" 3 "$(grep -cF " $chip" "$work/map")"
expect "info -t board -i 1: name" "$chip" \
    "$(smi info -t board -i 1 -c 0 | sed -n 's/.*Chip Name *: //p')"
expect "info -t health" 3 "$(smi info -t health | grep -c 'Health Status *: OK')"
expect "-i chooses" 1 "$(smi info -t memory -i 2 | grep -c 'NPU ID *: 2$')"

# --- what it tells is so ---

npu-run --set sim.memory=64M --devices 1 -- sh -c '"$NPU_SMI" info -t usages -i 0' >"$work/usages"
expect "memory of the NPU" 64 "$(awk -F: '/HBM Capacity/ {print $2 + 0}' "$work/usages")"
cat >"$work/hold.py" <<'P'
import os, subprocess, sys, acl
acl.init()
assert acl.rt.set_device(0) == 0
assert acl.rt.malloc(16 << 20, 0)[1] == 0
assert acl.npud.launch_delay(500000, 0, 0) == 0 and acl.rt.synchronize_stream(0) == 0
sys.exit(subprocess.call([os.environ["NPU_SMI"], "info", "-t", "usages", "-i", "0"]))
P
PYTHONPATH=$build/python3/dist-packages npu-run --set sim.memory=64M --devices 1 -- \
    /usr/bin/python3 "$work/hold.py" >"$work/usages"
expect "memory in use, 16 of 64 MiB" 25 "$(awk -F: '/HBM Usage/ {print $2 + 0}' "$work/usages")"
expect "half of the last second was work" yes \
    "$(awk -F: '/Aicore/ {print ($2 > 10 && $2 <= 100) ? "yes" : $2}' "$work/usages")"
expect "a lost NPU is shown as such" "OK Critical" "$(npu-run -- sh -c 'npuctl inject lose-device \
    --device=1 >&2; "$NPU_SMI" info -t health' 2>"$work/err" |
    awk '/Health/ {printf s $4; s = " "}')"
expect "it has no memory to tell of" 1 "$(npu-run -- sh -c 'npuctl inject lose-device \
    --device=1 >&2; "$NPU_SMI" info -t memory -i 1' 2>"$work/err" | grep -c 'HBM Capacity.*: NA')"
expect "NPUs of the host, not those of a program" 3 \
    "$(ASCEND_RT_VISIBLE_DEVICES=1 smi info -l | awk -F: '/Total Count/ {print $2 + 0}')"
expect "it leaves no session" '{"sessions":[]}' \
    "$(npu-run -- sh -c '"$NPU_SMI" info >&2; npuctl --json sessions' 2>"$work/err")"

# --- processes ---

expect "no processes" "0 1 2" \
    "$(awk '/No running processes found in NPU/ {printf s $8; s = " "}' "$work/info")"
cat >"$work/user.py" <<'P'
import ctypes, os, subprocess, sys, acl
name = ctypes.c_char_p(b"bad | name\n|\xff")
ctypes.c_char_p.in_dll(ctypes.CDLL(None), "program_invocation_short_name").value = name.value
acl.init()
assert acl.rt.set_device(1) == 0 and acl.rt.malloc(48 << 20, 0)[1] == 0
sys.exit(subprocess.call(sys.argv[1:]))
P
# shellcheck disable=SC2317 # called by the shell that npu-run starts
user() { # COMMAND...: run by a process that has 48 MiB of NPU 1, and an odd name
    PYTHONPATH=$build/python3/dist-packages /usr/bin/python3 "$work/user.py" "$@"
}
export -f user
export build work
npu-run -- bash -c 'user "$NPU_SMI" info' >"$work/busy" 2>"$work/log"
row='^\| 1       0 +\| [0-9]+ +\| bad:\?:name\\x0a\?[^|]+ \| 48 +\|$'
expect "a process, its name escaped, and its memory" 1 "$(grep -cE "$row" "$work/busy")"
expect "no line is longer for that" 98 \
    "$(grep '^[|+]' "$work/busy" | awk '{print length}' | sort -u)"
expect "and npu-smi itself is none" 1 \
    "$(grep -c 'No running processes found in NPU 0' "$work/busy")"
expect "-i chooses" "0 1" "$(npu-run -- bash -c 'user "$NPU_SMI" info -i 1' 2>"$work/log" |
    awk '/found in NPU/ {n++} /bad/ {b++} END {print n + 0, b + 0}')"
others='npud does not tell which processes run'
# npuctl would ask the outer one, of which these processes are not.
npu-run -- bash -c 'admin=$NPUD_ADMIN_SOCKET
    npu-run -- env NPUD_ADMIN_SOCKET="$admin" bash -c "user \"\$NPU_SMI\" info"' \
    >"$work/other" 2>"$work/log"
expect "npuctl asks another npud: not believed" "2 0" \
    "$(awk -v others="$others" 'index($0, others) {n++} /bad/ {b++} END {print n, b + 0}' \
        "$work/other")"
expect "npuctl is not there" 2 "$(npu-run -- env NPUD_ADMIN_SOCKET="$work/no.sock" "$NPU_SMI" info \
    2>"$work/log" | grep -c "$others")"

# --- what it refuses ---

status_of() { # WANTED ARGUMENT...
    local wanted=$1
    shift
    npu-run -- "$NPU_SMI" "$@" >"$work/out" 2>"$work/err"
    expect "exit status $wanted: npu-smi $*" "$wanted" $?
}
status_of 0
status_of 0 -h
status_of 0 -v
expect "-v" 1 "$(grep -c '^npu-smi version: [0-9]' "$work/out")"
status_of 0 info -h
status_of 1 nonsense
status_of 1 info nonsense
status_of 1 info -x
status_of 1 info -t
status_of 1 info -t nonsense
status_of 1 info -t memory -i 2
status_of 1 info -t memory -i -1
status_of 1 info -t memory -i 1x
status_of 1 info -t memory -i 0 -c 1
npu-run -- sh -c '"$NPU_SMI" info -l >/dev/full' 2>"$work/err"
expect "output that cannot be written" 1 $?
expect "... is said" 1 "$(grep -c 'npu-smi: cannot write: No space left' "$work/err")"
NPUD_SOCKET=$work/no.sock "$NPU_SMI" info >"$work/out" 2>"$work/err"
expect "no npud: exit status" 1 $?
expect "no npud: nothing is printed" 0 "$(wc -c <"$work/out")"
expect "no npud: the sentence names the socket" 1 \
    "$(grep -c "cannot reach npud at $work/no.sock" "$work/err")"
exit $failed
