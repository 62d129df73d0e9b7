# podman without root. A part of inside.sh, which has the helpers.
# shellcheck shell=bash

# with_manager COMMAND...: of npu-alice, as from a login. It may get more rights: newuidmap does.
with_manager() {
    local id

    id=$(id -u npu-alice)
    timeout "$GUARD_S" setpriv --reuid=npu-alice --regid=npu-alice --init-groups --inh-caps=-all \
        env -C /home/npu-alice HOME=/home/npu-alice "XDG_RUNTIME_DIR=/run/user/$id" \
        "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$id/bus" "$@"
}

container() { # OPTION OF PODMAN RUN... IMAGE COMMAND...
    with_manager podman run --rm -i --group-add keep-groups "$@"
}

# An image without anything of npud: programs, a shell, the C library and that of gcc.
make_image() {
    local root=/home/npu-alice/root file

    mkdir -p "$root/bin" "$root/tmp" && cp /bin/busybox "$root/bin" || return 1
    for file in sh ls id; do
        ln -s busybox "$root/bin/$file"
    done
    cp client examples/ipc_event/producer examples/ipc_event/consumer "$root/bin" || return 1
    for file in $(ldd client | grep -Eo '/[^ ]+' | grep -E '/(lib(c|m|gcc_s)\.so|ld-linux)'); do
        install -D "$file" "$root$file" || return 1
    done
    tar -C "$root" -cf /home/npu-alice/image.tar . && rm -r "$root" &&
        with_manager podman import --quiet image.tar program
}

user_manager_is_there() {
    with_manager systemctl --user is-system-running 2>&1 | grep -qE 'running|degraded'
}

check_containers() {
    equal "podman run --device npud/npu=0" "1 devices" \
        "$(container --device npud/npu=0 program client count 2>&1)"
    equal "podman run --device npud/npu=all" "2 devices" \
        "$(container --device npud/npu=all program client count 2>&1)"
    equal "... with some of all" "1 devices" "$(container --device npud/npu=all \
        -e ASCEND_RT_VISIBLE_DEVICES=1 program client count 2>&1)"
    contains "... without the groups of the user it is refused, and told how to keep them" \
        "$(with_manager podman run --rm --device npud/npu=0 program client count 2>&1)" \
        "207004 " "--group-add keep-groups"
    equal "of npud's folder a container has the socket for programs" npud.sock \
        "$(container --device npud/npu=0 program ls /run/npud 2>&1)"
    # shellcheck disable=SC2016 # for the shell in the container
    contains "... and the toolkit tree is read-only" "$(container --device npud/npu=0 program \
        sh -c 'echo >"$ASCEND_HOME_PATH/lib64/x"' 2>&1)" "Read-only file system"
}

counts_for_alice() {
    npuctl --json limits |
        grep -q "\"uid\":$(id -u npu-alice),\"resource\":\"sessions\",\"used\":1,"
}

check_subordinate() {
    start_client c container --user 1000 --ulimit nofile=256:256 --device npud/npu=0 program \
        client hold
    ask c
    equal "another user of the container has a session" holding "$line"
    check "... which counts for the user" counts_for_alice
    check "... by a uid that is not the user's" \
        fails_to_find "$(id -u npu-alice)" "$(npuctl --json sessions)"
    end_client c
    check "... and is gone" until_true no_sessions
}

fails_to_find() { # UID TEXT
    ! grep -q "\"uid\":$1," <<<"$2"
}

check_between() {
    local said

    mkdir /home/npu-alice/shared && chown npu-alice: /home/npu-alice/shared
    container -v /home/npu-alice/shared:/shared --device npud/npu=0 program producer /shared \
        >produced 2>&1 &
    said=$(container -v /home/npu-alice/shared:/shared --device npud/npu=0 program \
        consumer /shared 2>&1)
    wait $!
    contains "two containers hand an event to each other" "$(cat produced) $said" \
        "producer: cleaned up" "consumer: cleaned up"
}

check_restarts() {
    # shellcheck disable=SC2016 # for the shell in the container
    start_client d container --device npud/npu=0 program sh -c \
        'while read -r word && [ "$word" != end ]; do client count; done'
    ask d count
    equal "a container goes on" "1 devices" "$line"
    check "npud.service is restarted" systemctl restart npud.service
    ask d count
    equal "... and is served" "1 devices" "$line"
    check "npud.socket is restarted" systemctl restart npud.socket
    check "... and npud is active" until_true npud_is_active
    ask d count
    contains "... and is refused: its socket file is the one before" "$line" \
        "start the container again"
    end_client d
    equal "... and served when it is started again" "1 devices" \
        "$(container --device npud/npu=0 program client count 2>&1)"
}

check_container_in_job() {
    line=$(with_manager srun --quiet --mem=96M --gres=npu:1 podman run --rm --cgroups=disabled \
        --group-add keep-groups --device npud/npu=all -e ASCEND_RT_VISIBLE_DEVICES program \
        client grab device </dev/null 2>&1)
    refused "a container without control groups of its own is in the job that starts it" 94 96 \
        aclrtMalloc
}

check_podman() {
    check "npuctl cdi" npuctl cdi
    check "npu-alice has a user manager" loginctl enable-linger npu-alice
    check "... which runs" until_true user_manager_is_there
    check "podman import, as npu-alice" make_image || return
    check_containers
    check_subordinate
    check_between
    check_restarts
    check_container_in_job
    check "npud has no session" until_true no_sessions
    has_nothing
}
