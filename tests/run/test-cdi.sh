#!/usr/bin/env bash
# `npuctl cdi`, and a program in a container that has nothing of npud but what the file brings.
# Where podman cannot run a container, the configuration that it made for the runtime is carried out
# by hand. usage: test-cdi.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
here=$top/tests/run
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

# --- with an npud ---

# The output of the program, which podman runs with these options; what is left of the container
# stays in $work/podman.
in_podman() { # OPTION...
    rm -rf "$work/podman"
    # A /run of its own has the file of this test only, and nothing of other containers.
    # shellcheck disable=SC2016 # for the shell that unshare starts
    unshare -m --propagation private bash -c '
        work=$1
        shift
        mount -t tmpfs tmpfs /run && mkdir /run/cdi && cp "$work/npud.json" /run/cdi/ || exit
        # crun runs nothing where both versions of control groups are mounted.
        ! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
        cd /
        exec podman --root "$work/podman" --runroot /run/podman --storage-driver vfs \
            --cgroup-manager cgroupfs --events-backend none run --cgroups=disabled \
            --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
            "$@" --rootfs "$work/rootfs" /program' - "$work" "$@" 2>"$work/log"
}

# The same by hand, from the configuration that podman has left.
by_hand() {
    local config
    config=$(find "$work/podman" -name config.json -path '*userdata*' | head -n 1)
    [ -n "$config" ] || return 1
    unshare -m --propagation private /usr/bin/python3 - "$config" "$work" 2>>"$work/log" <<'END'
import json, os, subprocess, sys
config, work = sys.argv[1:]
with open(config) as f:
    container = json.load(f)
with open(f"{work}/npud.json") as f:
    wanted = {m["hostPath"] for m in json.load(f)["containerEdits"]["mounts"]}
mounts = [m for m in container["mounts"] if m["source"] in wanted]
assert {m["source"] for m in mounts} == wanted and all("ro" in m["options"] for m in mounts)
for mount in mounts:
    to = f"{work}/rootfs{mount['destination']}"
    if os.path.isdir(mount["source"]):
        os.makedirs(to, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        open(to, "a").close()
    subprocess.run(["mount", "--bind", "-o", "ro", mount["source"], to], check=True)
os.chroot(f"{work}/rootfs")
os.chdir("/")
os.execve("/program", ["/program"], dict(v.split("=", 1) for v in container["process"]["env"]))
END
}

container() { # NAME WANTED_COUNT OPTION...
    local name=$1 wanted=$2 got
    shift 2
    # podman says of its own errors that they are; others are the program's.
    if got=$(in_podman "$@") || ! grep -q '^Error:' "$work/log"; then
        report "$([ "$got" = "$wanted devices" ]; echo $?)" "podman run: $name"
    else
        head -n 1 "$work/log" | sed 's/^/# podman cannot run a container here: /'
        got=$(by_hand)
        report "$([ "$got" = "$wanted devices" ]; echo $?)" "$name, by hand"
        unlike=1
    fi
}

inside() {
    failed=0 unlike=0
    "$work/root/usr/bin/npuctl" cdi --output="$work/npud.json" >"$work/log" 2>&1
    report $? "npuctl cdi"
    grep -qx "npuctl: wrote $work/npud.json" "$work/log"
    report $? "... says which file"
    "$work/root/usr/bin/npuctl" cdi --output=- | cmp -s - "$work/npud.json"
    report $? "npuctl cdi --output=-"
    [ "$(stat -c %a "$work/npud.json")" = 644 ] &&
        [ "$(find "$work" -name 'npud.json*' | wc -l)" = 1 ]
    report $? "the file can be read by all, and no other is left"
    /usr/bin/python3 - "$work" >"$work/log" 2>&1 <<'END'
import json, os, sys
work = sys.argv[1]
with open(f"{work}/npud.json") as f:
    cdi = json.load(f)
assert cdi["kind"] == "npud/npu"
edits = {d["name"]: d["containerEdits"]["env"] for d in cdi["devices"]}
socket = f"NPUD_SOCKET={os.environ['NPUD_SOCKET']}"
assert edits == {"0": [socket, "ASCEND_RT_VISIBLE_DEVICES=0"],
                 "1": [socket, "ASCEND_RT_VISIBLE_DEVICES=1"], "all": [socket]}, edits
for mount in cdi["containerEdits"]["mounts"]:
    assert os.path.exists(mount["hostPath"]), mount
    assert os.environ["NPUD_ADMIN_SOCKET"] != mount["hostPath"]
END
    report $? "each NPU, and all; what is mounted is there"
    if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
        /usr/bin/python3 -W ignore -m jsonschema -i "$work/npud.json" "$here/cdi.schema.json" \
            >"$work/log" 2>&1
        report $? "the schema of CDI"
    else
        echo "SKIPPED schema: needs the package python3-jsonschema"
    fi
    : >"$work/log"
    if [ "$(id -u)" != 0 ] || ! command -v podman >/dev/null; then
        echo "SKIPPED podman: needs root and the package podman"
    else
        container "npud/npu=0" 1 --device npud/npu=0
        container "npud/npu=all" 2 --device npud/npu=all
        container "some of all" 1 --device npud/npu=all -e ASCEND_RT_VISIBLE_DEVICES=1
        [ "$unlike" = 0 ] || echo "SKIPPED podman run: needs a kernel on which podman can run" \
            "containers: the configuration that it made was carried out by hand"
    fi
    exit "$failed"
}

if [ "${2:-}" = inside ]; then
    work=$3
    inside
fi

# --- before ---

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" \
    >"$work/log" 2>&1
report $? "make install"
toolkit=$work/root/usr/lib/npud/ascend-toolkit
cat >"$work/program.c" <<'END'
#include <acl/acl.h>
#include <stdio.h>
int main(void)
{
    uint32_t count = 0;
    aclrtEvent event;

    if (aclInit(NULL) || aclrtGetDeviceCount(&count) || aclrtSetDevice(0) ||
        aclrtCreateEvent(&event) || aclrtRecordEvent(event, NULL) || aclrtSynchronizeEvent(event)) {
        puts(aclGetRecentErrMsg());
        return 1;
    }
    printf("%u devices\n", count);
    return aclFinalize();
}
END
# The files of a container: the program, the C library and that of gcc, nothing of npud.
mkdir "$work/rootfs"
cc "$work/program.c" -o "$work/rootfs/program" -I"$toolkit/include" -L"$toolkit/lib64" -lascendcl \
    >"$work/log" 2>&1
report $? "a program that is linked with the toolkit tree"
for file in $(LD_LIBRARY_PATH=$toolkit/lib64 ldd "$work/rootfs/program" | grep -Eo '/[^ ]+' |
    grep -E '/(lib(c|m|gcc_s)\.so|ld-linux)'); do
    install -D "$file" "$work/rootfs$file"
done
"$build/npu-run" --devices 2 -- bash "$0" "$build" inside "$work" || failed=1

# Without an installation, and with what does not go together.
"$build/npu-run" -- "$build/npuctl" cdi --output="$work/none" 2>&1 |
    grep -q 'no toolkit tree of npud beside this npuctl' && [ ! -e "$work/none" ]
report $? "no installation"
"$build/npu-run" -- env NPUD_SOCKET=/none "$work/root/usr/bin/npuctl" cdi --output="$work/none" \
    2>&1 | grep -q '^npuctl: /none: No such file.*start npud'
report $? "no socket for programs"
"$build/npu-run" -- "$work/root/usr/bin/npuctl" cdi --output=/none/none/npud.json 2>&1 |
    grep -q '^npuctl: /none/none/npud.json: No such file'
report $? "no folder"
"$build/npuctl" --output=x status 2>&1 | grep -q 'goes with cdi'
report $? "--output with another command"
exit $failed
