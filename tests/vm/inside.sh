#!/usr/bin/env bash
# Runs inside the virtual machine of check-vm.sh, as a service of its systemd. Prints "ok   ..." and
# "FAIL ..." lines, and "-- ..." lines for check-vm.sh.
set -u
cd /npud-check || exit 1
echo "-- booted"

GUARD_S=600 # longer than anything takes here
# shellcheck source=tests/systemd/helpers-inside.sh
. ./helpers-inside.sh
# shellcheck source=tests/vm/slurm-inside.sh
. ./slurm-inside.sh
# shellcheck source=tests/vm/podman-inside.sh
. ./podman-inside.sh
# shellcheck source=tests/vm/kubernetes-inside.sh
. ./kubernetes-inside.sh

# A client that goes on, with pipes for its orders and its lines.
declare -A orders lines
start_client() { # NAME COMMAND...
    local name=$1 to from

    shift
    mkfifo "$name.orders" "$name.lines"
    "$@" <"$name.orders" >"$name.lines" 2>"$name.log" &
    # Opened by both ends at the same time.
    exec {to}>"$name.orders" {from}<"$name.lines"
    rm "$name.orders" "$name.lines"
    orders[$name]=$to lines[$name]=$from
}

# ask NAME [ORDER]: the client's next line, in $line
ask() {
    [ -z "${2:-}" ] || echo "$2" >&"${orders[$1]}"
    read -r -t "$GUARD_S" line <&"${lines[$1]}" || line="nothing: $(cat "$1.log")"
}

# end_client NAME: it ends, if it has not yet; what it still says is printed. Told by a word: the
# pipe has no end, because clients that were started later have it open, too.
end_client() {
    local fd=${orders[$1]}

    # In a shell of its own, which a broken pipe ends.
    (echo end >&"$fd") 2>/dev/null
    exec {fd}>&-
    fd=${lines[$1]}
    cat <&"$fd"
    exec {fd}<&-
}

# As the manual says. All that the packages depend on is there. On an emulated processor, the lists
# of other packages and the index of all manual pages would take many minutes. A container, as this
# machine's files may be of one, starts no units of packages.
install_packages() {
    rm -f /var/lib/man-db/auto-update /usr/sbin/policy-rc.d
    DEBIAN_FRONTEND=noninteractive apt-get -o Dir::State::lists=/npud-check/no-lists install -y \
        ./debs/*.deb
}

set_up_npud() {
    sed -i "s|^#cgroups = .*|cgroups = $JOBS|" /etc/npud/npud.conf &&
        useradd --create-home npu-alice && useradd --create-home npu-bob &&
        usermod -aG npu npu-alice && usermod -aG npu npu-bob
}

build_client() {
    # shellcheck disable=SC2046 # words
    cc -O2 -Wall client.c -o client $(pkg-config --cflags --libs aclclient) &&
        make -s -C examples/ipc_event
}

has_nothing() {
    contains "npud has nothing left" "$(npuctl --json status)" '"sessions":0' '"streams":0' \
        '"memory_bytes":0' '"buffer_bytes":0'
    equal "... and no job" 0 "$(npuctl limits | grep -c job_memory)"
}

check "the packages are installed" install_packages || exit 1
equal "... and npud's sockets wait for clients" "active active" \
    "$(systemctl is-active npud.socket npud-admin.socket | xargs)"
check "npud has users and knows of jobs" set_up_npud || exit 1
check "programs build against it" build_client
check_slurm
check_podman
check_kubernetes
equal "npud says nothing of errors" "" "$(npud_lines -p err)"
echo "-- finished"
