#!/usr/bin/env bash
# Boots a real systemd in a container over an overlay of /, installs npud into it, and has inside.sh
# try it out there. Nothing of the machine is changed: what the container writes goes to a tmpfs
# that ends with this script.
# usage: check-systemd.sh [BUILD_DIR]     in the top directory of a tree that is built, also its
#        packages (make deb)
# Exit status: 0 all passed, or skipped because no container can be booted here; 1 something of npud
# failed.
set -u
umask 022
build=${1:-build}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=tests/systemd/check-units.sh
. "$here/check-units.sh"

BOOT_MAX_S=360 # guards against hanging; a run takes a minute

skip() {
    echo
    echo "!!! check-systemd: SKIPPED: $*"
    echo "!!! npud under a real systemd has NOT been tested."
    exit 0
}

# --- a place of our own: mounts in a namespace that goes with the last of its processes ---

if [ -z "${NPUD_CHECK_NAMESPACE:-}" ]; then
    [ "$(id -u)" = 0 ] || skip "not root"
    command -v systemd-nspawn >/dev/null || skip "no systemd-nspawn (package systemd-container)"
    why=$(unshare --mount --propagation private true 2>&1) || skip "no mount namespaces: $why"
    NPUD_CHECK_NAMESPACE=1 exec unshare --mount --propagation private -- bash "$0" "$@"
fi

machine=npud-check-$$
tmp=$(mktemp -d) || exit 1
root=$tmp/root
share=$root/npud-check # seen inside as /npud-check
nspawn=
cgroups=() # made by us, for the container

clean_up() {
    local dir

    trap - EXIT INT TERM HUP
    if [ -n "$nspawn" ]; then
        kill -TERM "$nspawn"
        wait "$nspawn" 2>/dev/null
    fi
    for dir in ${cgroups[@]+"${cgroups[@]}"}; do
        find "$dir" -depth -type d -exec rmdir {} +
    done
    umount -R -l "$root" 2>/dev/null
    umount -R -l "$tmp" 2>/dev/null
    rmdir "$tmp"
    rmdir "/run/systemd/nspawn/propagate/$machine" 2>/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# The upper layer is on a tmpfs because / may be an overlay itself, which cannot be one.
mount_root() {
    mount -t tmpfs -o mode=755 npud-check "$tmp" && mkdir "$tmp/upper" "$tmp/work" "$root" &&
        mount -t overlay -o "lowerdir=/,upperdir=$tmp/upper,workdir=$tmp/work" npud-check "$root"
}

# --- the machine in the container: this one without what its administrator switched on or npud ---

make_neutral() {
    local f

    rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/systemd/system/npud* "$root/etc/npud"
    : >"$root/etc/fstab"
    systemd-id128 new >"$root/etc/machine-id" # a journal of its own
    mkdir -p "$root/etc/systemd/journald.conf.d"
    printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' \
        >"$root/etc/systemd/journald.conf.d/npud-check.conf"
    sed -i '/^npud:/d' "$root/etc/passwd" "$root/etc/shadow"
    sed -i '/^npud:/d; /^npu:/d; /^npu-admin:/d' "$root/etc/group" "$root/etc/gshadow"
    while IFS= read -r f; do
        rm -f "$root/$f"
    done < <(cd "$share/stage" && find . ! -type d)
}

# Without a systemd on this machine nobody gives the container control groups of its own, and two
# containers that share them end each other's services. In the hierarchies that a systemd manages:
# its own, and the unified one.
make_cgroups() {
    local controllers path mount

    while IFS=: read -r _ controllers path; do
        case $controllers in
        name=systemd) mount=$(findmnt -n -o TARGET -t cgroup -O name=systemd | head -n1) ;;
        '') mount=$(findmnt -n -o TARGET -t cgroup2 | head -n1) ;;
        *) continue ;;
        esac
        [ -n "$mount" ] && mkdir "$mount${path%/}/$machine" && cgroups+=("$mount${path%/}/$machine")
    done </proc/self/cgroup
}

add_units() {
    add_check_units "$root/etc/systemd/system" exit "$((BOOT_MAX_S - 30))" /npud-check/results
}

# For the boot with packages: npud goes, as it was installed before, and the packages come.
exchange_for_packages() {
    make_neutral
    add_units
    rm -f "$root/usr/sbin/policy-rc.d" # which would keep packages from starting anything
    cp -r "$build/deb" "$share/debs" && rm "$share"/debs/*-dbgsym_*.deb &&
        mkdir "$share/source" && cp -r debian examples "$share/source" || return 1
    [ -z "${NPUD_TEST_LONG:-}" ] || touch "$share/long"
}

install_npud() {
    mkdir "$share" && make -s install-built PREFIX=/usr DESTDIR="$share/stage" \
        BUILD="$build" >/dev/null || return 1
    cp docs/hardware.md "$build/tests/executor/npud-liar" "$share"
    cp -r examples "$here"/*inside.sh "$here"/*.c daemon/base/message_id.h "$share"
    : >"$share/results"
}

# boot STAGE: returns when the container has ended. Nothing but "stage" tells inside.sh which time
# it is.
boot() {
    echo "$1" >"$share/stage-name"
    # Should this script be killed, the kernel has the container ended.
    # shellcheck disable=SC2016 # is for the inner shell
    setpriv --pdeathsig TERM timeout -k 5 "$BOOT_MAX_S" \
        bash -c 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done
            shift; exec "$@"' \
        join ${cgroups[@]+"${cgroups[@]}"} -- \
        systemd-nspawn --quiet --boot --directory="$root" --machine="$machine" --register=no \
        ${keep_unit:+"$keep_unit"} --private-network --resolv-conf=off --timezone=off \
        --link-journal=no --console=pipe \
        systemd.unit=npud-check.target systemd.show_status=no </dev/null >"$tmp/console" 2>&1 &
    nspawn=$!
    wait "$nspawn"
    nspawn=
}

# reached MARK: inside.sh has come there.
reached() {
    grep -qx -- "-- $1" "$share/results"
}

# --- the run ---

why=$(mount_root 2>&1) || skip "no overlay of / can be mounted: $why"
install_npud || { echo "check-systemd: make install failed"; exit 1; }
[ -x "$root/usr/lib/systemd/systemd" ] ||
    skip "the file system of / holds no /usr/lib/systemd/systemd"
make_neutral
add_units
keep_unit=
if [ ! -d /run/systemd/system ]; then
    keep_unit=--keep-unit
    make_cgroups
fi

# npud is not yet in the file system of the first boot: if that does not come up, it is not npud's
# doing.
boot install
if ! reached 'booted install'; then
    cat "$tmp/console"
    skip "no container can be booted here (its console stands above)"
fi
! reached 'finished install' || boot reboot
! reached 'finished reboot' || { exchange_for_packages && boot packages; }

passed=$(grep -c '^ok ' "$share/results")
failed=$(grep -c '^FAIL ' "$share/results")
skipped=$(grep -c '^SKIPPED ' "$share/results")
grep -v '^-- ' "$share/results"
if ! reached 'finished packages'; then
    echo "FAIL  the checks came to their end"
    cat "$tmp/console"
    failed=$((failed + 1))
fi
echo
echo "check-systemd: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
