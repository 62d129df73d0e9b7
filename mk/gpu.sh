#!/bin/sh
# Packs what `make check-gpu` runs, with the libraries that it needs besides those of glibc.
# usage: gpu.sh BUILD PACKAGE FILE...      FILE: below BUILD
set -eu
build=$1
package=$2
shift 2

root=$(dirname "$package")/npud-gpu
rm -rf "$root" "$package"
mkdir -p "$root/lib"

# Those of glibc go with the loader of the machine on which it runs.
glibc='/(ld-linux[^/]*|lib(c|m|rt|dl|pthread|util|resolv|nss_[a-z]+))\.so'

add() { # FILE: with its folder, without what debuggers need
    mkdir -p "$root/$(dirname "${1#"$build"/}")"
    strip -g -o "$root/${1#"$build"/}" "$1"
}

programs=
for p in npud npud-keeper npud-supervisor npud-executor npuctl npu-run libaclclient.so.1; do
    [ ! -f "$build/$p" ] || programs="$programs $build/$p" # not every tree has an executor
done
for f in $programs "$@"; do
    add "$f"
done
# shellcheck disable=SC2086 # names without blanks
LD_LIBRARY_PATH=$build ldd $programs "$@" 2>/dev/null | awk '/=> \// {print $3}' | sort -u |
    grep -vE "$glibc" | grep -v "/libaclclient.so" | while read -r library; do
    cp -L "$library" "$root/lib/"
    chmod u+w "$root/lib/$(basename "$library")"
done
cp tests/gpu/run.sh "$root/"
cp tests/gpu/*.list tests/gpu/*.ptx tests/nested-cannot "$root/"
tar -C "$(dirname "$package")" --sort=name --owner=0 --group=0 -czf "$package" npud-gpu
rm -rf "$root"
echo "$package: $(($(wc -c <"$package") / 1024)) KiB"
