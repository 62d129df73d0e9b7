#!/usr/bin/env bash
# npud, of its packages, in a virtual machine with control groups of version 2: a Slurm whose jobs
# have them, podman without root, and Kubernetes' device plugin beside both. The machine has a
# kernel of Debian, a real systemd, and the files of this one, read-only; what it writes is in a
# disk of its own, which ends with this script. The processor is emulated, also where there is KVM,
# which is not every machine's to use: a run takes minutes.
# usage: check-vm.sh [BUILD_DIR]     in the top directory of a tree, after make deb, as root
# Exit status: 0 all passed, or skipped because no machine can be started here; 1 something failed.
set -u
umask 022
PATH=$PATH:/usr/sbin:/sbin
build=${1:-build}
here=$(cd "$(dirname "$0")" && pwd)

# shellcheck source=tests/systemd/check-units.sh
. "$here/../systemd/check-units.sh"

RUN_MAX_S=3600 # guards against hanging
PROGRAMS="qemu-system-x86_64 modprobe mke2fs cpio podman newuidmap slirp4netns munged slurmctld
    slurmd srun ip"
MODULES="virtio_pci virtio_blk crc32c_generic ext4 9pnet_virtio 9p overlay"

skip() {
    echo
    echo "!!! check-vm: SKIPPED: $*"
    echo "!!! Slurm's control groups, podman without root and Kubernetes have NOT been tested."
    exit 0
}

[ "$(id -u)" = 0 ] || skip "not root"
[ "$(uname -m)" = x86_64 ] || skip "not an x86-64 machine"
for program in $PROGRAMS; do
    command -v "$program" >/dev/null || skip "no $program (make deps-vm)"
done
/usr/bin/python3 -c 'import google.protobuf, grpc' 2>/dev/null || skip "no python3-grpcio"
[ -x /bin/busybox ] || skip "no /bin/busybox (package busybox-static)"
# Not those for clouds and for real time, which are built otherwise.
kernel=$(find /boot -name 'vmlinuz-*[0-9]-amd64' | sort -V | tail -n 1)
[ -n "$kernel" ] || skip "no kernel of Debian in /boot (package linux-image-amd64)"

tmp=$(mktemp -d --tmpdir=/var/tmp) || exit 1
qemu=
clean_up() {
    trap - EXIT INT TERM HUP
    [ -z "$qemu" ] || { kill "$qemu"; wait "$qemu"; } 2>/dev/null
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

make_initrd() {
    local module modules version=${kernel#/boot/vmlinuz-}

    mkdir -p "$tmp/initrd/bin" "$tmp/initrd/modules" || return 1
    cp /bin/busybox "$tmp/initrd/bin" && install "$here/init.sh" "$tmp/initrd/init" || return 1
    # Each with those that it needs, in their order.
    modules=$(for module in $MODULES; do
        modprobe --set-version "$version" --show-depends "$module" || echo missing
    done | awk '$1 == "missing" {exit 1} $1 == "insmod" && !had[$2]++ {print $2}') || return 1
    for module in $modules; do
        cp "$module" "$tmp/initrd/modules" && echo "${module##*/}"
    done >"$tmp/initrd/modules/order"
    (cd "$tmp/initrd" && find . | cpio -o -H newc --quiet) >"$tmp/initrd.cpio"
}

# The upper layer of the root directory, and what must not lie on an overlay.
make_disk() {
    local etc=$tmp/disk/upper/etc check=$tmp/disk/npud-check

    mkdir -p "$etc/systemd/system" "$tmp/disk/work" "$tmp/disk/home" \
        "$tmp/disk/var/lib/containers" "$check/results" || return 1
    cp -r "$build/deb" "$check/debs" && rm -f "$check/debs/"*-dbgsym_*.deb || return 1
    cp -r examples "$here/"*inside.sh tests/systemd/helpers-inside.sh "$here/client.c" \
        "$here/kubelet_orders.py" tests/run/kubelet.py "$check" || return 1
    : >"$etc/fstab"
    echo npud-vm >"$etc/hostname"
    echo "127.0.0.1 localhost npud-vm" >"$etc/hosts"
    systemd-id128 new >"$etc/machine-id"
    add_check_units "$etc/systemd/system" poweroff-force "$RUN_MAX_S" \
        /npud-check/results/lines
    mke2fs -q -t ext4 -d "$tmp/disk" "$tmp/disk.img" 6G >/dev/null && rm -rf "$tmp/disk"
}

run_machine() {
    # Should this script be killed, the kernel has the machine ended.
    setpriv --pdeathsig TERM timeout -k 5 "$RUN_MAX_S" \
        qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 \
        -nodefaults -nic none -display none -no-reboot -serial "file:$tmp/console" \
        -kernel "$kernel" -initrd "$tmp/initrd.cpio" -append "console=ttyS0 quiet panic=-1 \
systemd.unit=npud-check.target systemd.show_status=no" \
        -drive "file=$tmp/disk.img,format=raw,if=virtio,cache=unsafe" \
        -virtfs local,path=/,mount_tag=host,security_model=passthrough,readonly=on,multidevs=remap \
        -virtfs "local,path=$tmp/results,mount_tag=results,security_model=passthrough" \
        </dev/null >"$tmp/qemu" 2>&1 &
    qemu=$!
    wait "$qemu"
    qemu=
}

mkdir "$tmp/results" && : >"$tmp/results/lines"
make_initrd || { echo "check-vm: no initramfs could be made"; exit 1; }
make_disk || { echo "check-vm: no disk could be made"; exit 1; }
run_machine
if ! grep -qx -- '-- booted' "$tmp/results/lines"; then
    cat "$tmp/qemu" "$tmp/console"
    skip "no virtual machine can be booted here (its console stands above)"
fi
cat "$tmp/results/lines"
passed=$(grep -c '^ok ' "$tmp/results/lines")
failed=$(grep -c '^FAIL ' "$tmp/results/lines")
if ! grep -qx -- '-- finished' "$tmp/results/lines"; then
    echo "FAIL it did not come to its end"
    failed=$((failed + 1))
fi
echo "check-vm: $passed passed, $failed failed"
[ "$failed" = 0 ]
