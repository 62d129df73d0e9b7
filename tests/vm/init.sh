#!/bin/busybox sh
# shellcheck shell=dash
# The first process of the virtual machine of check-vm.sh, in its initramfs: mounts the files of the
# host, read-only, below those of the machine itself, and leaves the rest to systemd.
b=/bin/busybox
stop() {
    echo "init: $*: failed"
    $b poweroff -f
}
for module in $($b cat /modules/order); do
    $b insmod "/modules/$module" || stop "insmod $module"
done
$b mkdir -p /dev /disk /host /root
$b mount -t devtmpfs none /dev || stop /dev
$b mount -t ext4 /dev/vda /disk || stop "the disk"
options=trans=virtio,version=9p2000.L,msize=262144
$b mount -t 9p -o "$options,ro,cache=loose" host /host || stop "the files of the host"
$b mount -t overlay -o lowerdir=/host,upperdir=/disk/upper,workdir=/disk/work none /root ||
    stop "the overlay"
# An overlay can hold no layers of another one, as those of containers.
for dir in /home /var/lib/containers /npud-check; do
    $b mkdir -p "/root$dir"
    $b mount --bind "/disk$dir" "/root$dir" || stop "$dir"
done
$b mount -t 9p -o "$options,cache=none" results /root/npud-check/results || stop "the results"
$b mount -t tmpfs -o mode=1777 none /root/tmp || stop /tmp
# By which systemd would take the machine for a container.
$b rm -f /root/.dockerenv
exec $b switch_root /root /lib/systemd/systemd
