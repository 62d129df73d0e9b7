#!/usr/bin/env bash
# npud in a control group of 512 MiB, beside a client that fills 1 GiB of device memory: what a
# client allocates is charged to the client's control group. And a client in such a group, as the
# job of a scheduler is: only this client is ended. usage: test-memory-limit.sh BUILD_DIR
# Needs root and a control group that can be made: of version 1, or of version 2 with the
# controller for memory.
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
group=
guard=300 # seconds: against hanging only
read -ra cc <<<"${CC:-cc}"
export NPUD_SOCKET="$work/npud/npud.sock" NPUD_ADMIN_SOCKET="$work/npud/admin.sock"

clean_up() {
    jobs -pr | xargs -r kill
    wait
    [ -z "$group" ] || rmdir "$group"
    rm -rf "$work"
}
trap clean_up EXIT

# DIRECTORY FILE: a group below the directory that may have 512 MiB, by this file.
make_group() {
    mkdir "$1/npud-test.$$" 2>/dev/null || return 1
    if echo 536870912 2>/dev/null >"$1/npud-test.$$/$2"; then
        group="$1/npud-test.$$"
        return 0
    fi
    rmdir "$1/npud-test.$$"
    return 1
}

if ! make_group /sys/fs/cgroup/memory memory.limit_in_bytes &&
    ! make_group /sys/fs/cgroup memory.max; then
    echo "ok SKIPPED an npud that may have 512 MiB: needs a control group for memory"
    exit 0
fi

cat >"$work/fill.c" <<'EOF'
#include <stdio.h>

#include "acl/acl.h"

#define PARTS 16
#define PART  ((size_t)64 << 20)

int main(void)
{
    unsigned char byte;
    void *part[PARTS];
    aclrtStream s;
    int failed = aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&s);

    for (int i = 0; i < PARTS && !failed; i++)
        failed = aclrtMalloc(&part[i], PART, ACL_MEM_MALLOC_HUGE_FIRST) ||
                 aclrtMemsetAsync(part[i], PART, i + 1, PART, s);
    failed = failed || aclrtSynchronizeStream(s);
    for (int i = 0; i < PARTS && !failed; i++)
        failed = aclrtMemcpy(&byte, 1, (char *)part[i] + PART - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST) ||
                 byte != i + 1;
    puts(failed ? aclGetRecentErrMsg() : "filled");
    return failed;
}
EOF
"${cc[@]}" -I"$top/include" "$work/fill.c" -o "$work/fill" "$build/libaclclient.so.1" \
    -Wl,-rpath,"$build" || exit 1

mkfifo "$work/ready"
# The group is that of the shell that becomes npud.
sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2" --config=/dev/null --quiet --runtime-dir "$3" \
    --ready-fd=3 3>"$4"' sh "$group" "$build/npud" "$work/npud" "$work/ready" &
npud=$!
read -rN 1 _ <"$work/ready"
said=$(timeout "$guard" "$work/fill")
[ "$said" = filled ] && echo "ok a client fills 1 GiB beside an npud that may have 512 MiB" ||
    echo "not ok a client fills 1 GiB beside an npud that may have 512 MiB: $said"
kill "$npud" && wait "$npud" && echo "ok npud lives, and ends in order" ||
    echo "not ok npud lives, and ends in order"

# The other way round.
"$build/npud" --config=/dev/null --quiet --runtime-dir "$work/npud" --ready-fd=3 3>"$work/ready" &
npud=$!
read -rN 1 _ <"$work/ready"
sh -c 'echo $$ >"$1/cgroup.procs" && exec timeout "$3" "$2"' sh "$group" "$work/fill" "$guard" \
    >"$work/said"
status=$?
[ "$status" != 0 ] && [ "$status" != 124 ] && [ ! -s "$work/said" ] &&
    echo "ok a client that may have 512 MiB cannot fill 1 GiB" ||
    echo "not ok a client that may have 512 MiB cannot fill 1 GiB: $status, $(cat "$work/said")"
said=$(timeout "$guard" "$work/fill")
[ "$said" = filled ] && echo "ok another client goes on" || echo "not ok another client: $said"
timeout "$guard" "$build/npuctl" --watch=0.02 --json memory | grep -qxF -m 1 '{"memory":[]}' &&
    echo "ok npud has nothing of them" || echo "not ok npud has memory of them"
kill "$npud" && wait "$npud" && echo "ok npud lives on" || echo "not ok npud lives on"
