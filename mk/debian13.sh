#!/usr/bin/env bash
# Runs a command as root in a copy of this tree within Debian 13: FOLDER/root, which is fetched from
# the mirror of this machine if it is not there yet. The copy is /src in there, and what was built
# in it stays. Prints "SKIPPED" and why where that cannot be done.
# usage: mk/debian13.sh FOLDER COMMAND...     in the top directory of a tree
set -eu
folder=$1
shift
root=$(pwd)/$folder/root

skip() { # WHY
    echo "SKIPPED Debian 13: $1"
    exit 0
}

# The mirror that apt has here, if it is one of Debian.
mirror() {
    # shellcheck disable=SC2016 # for apt
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' \
        2>/dev/null | head -n 1
}

# apt has a way of its own to be told of proxies; debootstrap knows that of the environment only.
proxy() { # http|https
    apt-config shell p "Acquire::$1::Proxy" 2>/dev/null | sed "s/^p='\(.*\)'$/\1/"
}

fetch() {
    local from
    from=$(mirror)
    from=${from:-http://deb.debian.org/debian}
    echo "== fetching Debian 13 from $from"
    rm -rf "$root.new"
    debootstrap --variant=minbase --include=make,ca-certificates trixie "$root.new" "$from" \
        >"$folder/log" 2>&1 || {
        tail -n 5 "$folder/log"
        return 1
    }
    rm -rf "$root"
    mv "$root.new" "$root"
}

# How names are looked up here, and whom to trust: the root knows neither.
share_network() {
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" || true
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] ||
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
}

# Files keep their times, so that make builds no more than it must.
copy_tree() {
    mkdir -p "$root/src"
    find "$root/src" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
    tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$root/src"
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs the package debootstrap (make deps-debian13)"
unshare --mount --pid --fork true 2>/dev/null || skip "needs mount and pid namespaces"
[ -n "${http_proxy:-}" ] || http_proxy=$(proxy http)
[ -n "${https_proxy:-}" ] || https_proxy=$(proxy https)
export http_proxy https_proxy
mkdir -p "$folder"
[ -d "$root" ] || fetch || skip "cannot be fetched, see above"
share_network
copy_tree

# Mounts and processes go with the namespaces, however this ends. The settings of a calling make are
# not for what runs there. / is a mount point, as it is on a machine.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES BUILD
# shellcheck disable=SC2016 # for the shell that unshare starts
exec unshare --mount --pid --fork --kill-child --propagation private sh -euc '
    root=$1
    shift
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        TERM="${TERM:-dumb}" http_proxy="$http_proxy" https_proxy="$https_proxy" \
        no_proxy="${no_proxy:-}" sh -c "cd /src && exec \"\$@\"" sh "$@"' sh "$root" "$@"
