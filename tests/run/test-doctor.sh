#!/usr/bin/env bash
# `npuctl doctor`, on hosts that lack something. usage: test-doctor.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY ASCEND_HOME_PATH LD_LIBRARY_PATH
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

# NAME STATUS CHECK VERDICT PATTERN COMMAND...: what the doctor that is run by the command says of
# the check, the line below it included.
says() {
    local name=$1 status=$2 row=$3 verdict=$4 pattern=$5 got
    shift 5
    "$@" >"$work/out" 2>"$work/log"
    got=$?
    cat "$work/out" >>"$work/log"
    [ "$status" = any ] || expect "$name: exit status" "$status" "$got"
    awk -v row="$row" '$2 == row {on = 1; print; next} on {if (/^ /) print; exit}' "$work/out" \
        >"$work/row"
    [ "$(awk 'NR == 1 {print $1}' "$work/row")" = "$verdict" ] && grep -qE "$pattern" "$work/row"
    report $? "$name"
}

# --- a host on which all is well, for programs ---

says "an npud of the user's own" 0 programs-socket ok "2 devices \(sim\), protocol [0-9]+" \
    npu-run -- npuctl doctor
expect "nothing fails there" 0 "$(grep -c '^fail' "$work/out")"
expect "it counts no death, and leaves no session" "deaths: 0 sessions: 0" \
    "$(npu-run -- sh -c 'npuctl doctor >/dev/null; npuctl status' |
        sed -n 's/^\(deaths\|sessions\): /\1: /p' | sort | tr '\n' ' ' | sed 's/ $//')"
npu-run -- npuctl --json doctor >"$work/json" 2>"$work/log"
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    /usr/bin/python3 -W ignore -m jsonschema -i "$work/json" "$top/tests/run/doctor.schema.json" \
        >"$work/log" 2>&1
    report $? "--json: the schema"
else
    echo "SKIPPED schema: needs the package python3-jsonschema"
fi
expect "--json tells of the same checks" "$(grep -Ec '^(ok|skip|warn|fail)' "$work/out")" \
    "$(grep -o '"check"' "$work/json" | wc -l)"

# --- what npud says ---

# shellcheck disable=SC2016 # for the shell that npu-run starts
says "a lost device" 1 devices fail "device 1 is lost|npuctl inject clear" \
    npu-run -- sh -c 'npuctl inject lose-device --device=1 >&2; npuctl doctor'
says "a limit that is used up" 0 limits warn "has 1 of 1 in limits.admins" \
    npu-run --set limits.admins=1 -- npuctl doctor
mkdir "$work/bin"
cp "$build/npuctl" "$work/bin/npuctl"
printf '#!/bin/sh\necho "npud 0.0.1"\n' >"$work/bin/npud"
chmod +x "$work/bin/npud"
says "an npud older than what is installed" 0 versions warn "0.0.1 is installed" \
    npu-run -- "$work/bin/npuctl" doctor
grep -q 'to do: npuctl upgrade' "$work/row"
report $? "... and what to do"

# --- sockets ---

says "no npud" 1 programs-socket fail "$work/no.sock: No such file" \
    env NPUD_SOCKET="$work/no.sock" NPUD_ADMIN_SOCKET="$work/no.sock" npuctl doctor
grep -q 'to do: ' "$work/row"
report $? "... and what to do"
/usr/bin/python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' "$work/old.sock"
says "a socket that nobody serves" 1 admin-socket fail "Connection refused" \
    env NPUD_SOCKET="$work/old.sock" NPUD_ADMIN_SOCKET="$work/old.sock" npuctl doctor
# One that hangs up, again and again, for as long as this test runs.
coproc hangs_up { exec /usr/bin/python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
print("up", flush=True)
while True:
    s.accept()[0].close()' "$work/hangs.sock"; }
# shellcheck disable=SC2154 # coproc sets it
read -r -u "${hangs_up[0]}" _
says "a server that hangs up" 1 programs-socket fail "npud does not answer" \
    env NPUD_SOCKET="$work/hangs.sock" NPUD_ADMIN_SOCKET="$work/hangs.sock" npuctl doctor
# shellcheck disable=SC2154
kill "$hangs_up_PID"
# shellcheck disable=SC2016
says "npuctl's socket given to programs" 1 programs-socket fail "this is npud's admin socket" \
    npu-run -- sh -c 'NPUD_SOCKET=$NPUD_ADMIN_SOCKET npuctl doctor'
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups "$build/npuctl" -V >/dev/null 2>&1
then
    says "a user who may not" 1 programs-socket fail "Permission denied|only root and the user" \
        npu-run -- setpriv --reuid=65534 --regid=65534 --clear-groups npuctl doctor
    expect "... and need not be an administrator" 1 "$(grep -c '^skip  admin-socket' "$work/out")"
else
    echo "SKIPPED a second user: needs root, and a build that others can execute"
fi

# --- limits, files ---

# shellcheck disable=SC2016
says "few descriptors" 0 descriptors warn "200 files|ulimit -n" \
    npu-run -- sh -c 'ulimit -n 200; npuctl doctor'
printf '#!/bin/sh\nexec "%s/npud" --config="%s/bad.conf" "$@"\n' "$build" "$work" \
    >"$work/with_config"
chmod +x "$work/with_config"
printf '[sim]\ndevices = many\n' >"$work/bad.conf"
says "a configuration that is wrong" 1 configuration fail "devices = many.*bad.conf" \
    env NPUD_BINARY="$work/with_config" npuctl doctor
printf '[npud]\naccess_group =\nadmin_group =\n' >"$work/bad.conf"
says "one that is not" any configuration ok "nothing is wrong" \
    env NPUD_BINARY="$work/with_config" npuctl doctor
make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" >"$work/log" 2>&1
report $? "make install"
tree=$work/root/usr/lib/npud/ascend-toolkit
says "the tree beside npuctl" 0 toolkit ok "$tree: . $tree/set_env.sh" \
    npu-run -- "$work/root/usr/bin/npuctl" doctor
says "a tree that was chosen" 0 toolkit ok "is npud's" \
    npu-run -- env ASCEND_HOME_PATH="$tree" npuctl doctor
mkdir -p "$work/vendor/lib64"
touch "$work/vendor/lib64/libascendcl.so"
says "another vendor's" 0 toolkit warn "programs get that one's library|set_env.sh" \
    npu-run -- env ASCEND_HOME_PATH="$work/vendor" "$work/root/usr/bin/npuctl" doctor
says "one that is not there" 1 toolkit fail "No such file" \
    npu-run -- env ASCEND_HOME_PATH="$work/none" npuctl doctor
says "no library" 0 library warn "libaclclient.so.1|ldconfig" \
    npu-run -- "$work/bin/npuctl" doctor
says "the library" 0 library ok "programs get $work/root/usr/lib/libaclclient.so.1" \
    npu-run -- env LD_LIBRARY_PATH="$work/root/usr/lib" npuctl doctor

# --- a host of this test's own ---

# With this shell command run first, in mounts of its own.
on_host() { # COMMAND
    # shellcheck disable=SC2016,SC2317 # for the shell that unshare starts; called by says
    unshare -m --propagation private bash -c 'eval "$1" && exec npuctl doctor' - "$1"
}
mkdir "$work/fake"
# shellcheck disable=SC2016 # for that script
printf '#!/bin/sh\necho "$STATE"\n[ "$STATE" = active ]\n' >"$work/fake/systemctl"
chmod +x "$work/fake/systemctl"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    systemd='mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system'
    systemd="$systemd && export PATH=$work/fake:\$PATH"
    says "units that run" 1 units ok "npud-admin.socket are active" \
        on_host "$systemd STATE=active"
    says "units that do not" 1 units fail "npud.socket is inactive|enable --now npud.socket" \
        on_host "$systemd STATE=inactive"
    says "units that have failed" 1 units fail "is failed|systemctl status npud.socket" \
        on_host "$systemd STATE=failed"
    cdi='mount -t tmpfs tmpfs /etc && mkdir /etc/cdi && cat >/etc/cdi/npud.json'
    says "a file for containers" 1 cdi ok "all that it gives" \
        on_host "$cdi <<<'{\"containerEdits\": {\"mounts\": [{\"hostPath\": \"/usr\"}]}}'"
    says "one that names what has gone" 1 cdi fail "names /none: No such file|npuctl cdi" \
        on_host "$cdi <<<'{\"containerEdits\": {\"mounts\": [{\"hostPath\": \"/none\"}]}}'"
    says "one that is broken" 1 cdi fail "is not what npuctl cdi writes" on_host "$cdi <<<'{'"
else
    echo "SKIPPED units and cdi: needs root, and mounts of its own"
fi

# --- wrong use ---

for wrong in "doctor all" "--watch doctor" "--once doctor"; do
    # shellcheck disable=SC2086 # words
    npuctl $wrong >"$work/out" 2>"$work/log"
    expect "npuctl $wrong: exit status" 2 $?
done
npu-run -- sh -c 'npuctl doctor >/dev/full' 2>"$work/log"
expect "output that cannot be written" 1 $?
exit $failed
