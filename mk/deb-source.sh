#!/usr/bin/env bash
# Builds the source package in FOLDER, and from it the packages in a clean chroot of each Debian:
# pbuilder installs there what debian/control asks for and nothing else, and builds without a
# network. FOLDER/RELEASE has the packages afterwards. The chroots are kept, as FOLDER/RELEASE.tgz.
# Prints "SKIPPED" and why where that cannot be done.
# usage: mk/deb-source.sh FOLDER RELEASE...     in the top directory of a tree
set -eu
folder=$1
shift
failed=0

skip() { # WHAT WHY
    echo "SKIPPED $1: needs $2"
}

make_source() {
    rm -rf "$folder/npud" "$folder"/npud_*
    mkdir -p "$folder/npud"
    tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$folder/npud"
    (cd "$folder" && dpkg-source -b npud >source.log 2>&1) || {
        tail -n 20 "$folder/source.log"
        exit 1
    }
    rm -rf "$folder/npud"
    ls "$folder"/npud_*
}

# The mirror that apt has here, if it is one of Debian.
mirror() {
    # shellcheck disable=SC2016 # for apt
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' \
        2>/dev/null | head -n 1
}

# Its mounts go with the namespace, however it ends.
in_chroot() { # create|build RELEASE OPTION...
    local verb=$1 release=$2 from
    shift 2
    from=$(mirror)
    mkdir -p "$folder/place"
    unshare --mount --propagation private pbuilder "$verb" --distribution "$release" \
        --mirror "${from:-http://deb.debian.org/debian}" --basetgz "$folder/$release.tgz" \
        --buildplace "$folder/place" --aptcache '' "$@" </dev/null >"$folder/$release.log" 2>&1
}

build_on() { # RELEASE
    [ -s "$folder/$1.tgz" ] || in_chroot create "$1" || {
        rm -f "$folder/$1.tgz"
        tail -n 5 "$folder/$1.log"
        skip "Debian $1" "a mirror that has it, and a machine in which a chroot can be made"
        return
    }
    rm -rf "${folder:?}/$1"
    mkdir "$folder/$1"
    if in_chroot build "$1" --buildresult "$folder/$1" --debbuildopts "-j$(nproc)" \
        "$folder"/npud_*.dsc; then
        (cd "$folder" && ls "$1"/*.deb)
        echo "ok packages of Debian $1 from the source package"
    else
        tail -n 40 "$folder/$1.log"
        echo "not ok packages of Debian $1 from the source package: $folder/$1.log says more"
        failed=1
    fi
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# The settings of the make that runs this script are not those of the packages.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES BUILD CC CXX CFLAGS CPPFLAGS LDFLAGS SAN WERROR
make_source
if [ "$(id -u)" != 0 ] || ! command -v pbuilder >/dev/null; then
    skip "clean chroots" "root and the package pbuilder"
else
    for release; do
        build_on "$release"
    done
fi
exit "$failed"
