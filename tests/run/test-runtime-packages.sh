#!/usr/bin/env bash
# docs/administration.md names the packages of each library that npud's programs are linked with.
#
# usage: test-runtime-packages.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$1
page=docs/administration.md
failed=0

if ! command -v objdump >/dev/null || ! command -v dpkg >/dev/null; then
    echo "SKIPPED runtime packages: needs dpkg and objdump"
    exit 0
fi

# Merged /usr: dpkg may know the file without it.
package_of() { # LIBRARY
    local path
    path=$(/sbin/ldconfig -p | awk -v l="$1" '$1 == l { print $NF; exit }')
    path=$(readlink -f "$path")
    dpkg -S "$path" "${path#/usr}" 2>/dev/null | cut -d: -f1 | head -n 1
}

# A row of the table: its first words say for what.
expect() { # ROW PROGRAM...
    local row=$1 program library package
    shift
    for program in "$@"; do
        for library in $(objdump -p "$build/$program" | awk '/NEEDED/ { print $2 }'); do
            package=$(package_of "$library")
            case $library:$package in
            libaclclient.so.* | libc.so.* | ld-linux* | libm.so.* | libgcc_s*) continue ;;
            libasan* | libubsan* | libtsan*) continue ;;
            esac
            if [ -z "$package" ] || ! grep "^| $row" $page | grep -qF "\`${package%t64}\`"; then
                echo "$page: \"$row\" lacks \"$package\", which $program needs for $library"
                failed=1
            fi
        done
    done
}

expect "npud and its" npud npud-executor npud-keeper npud-supervisor
expect "npuctl" npuctl
expect "programs" libaclclient.so.1
expect "operators" toolkit/libopapi.so
[ $failed = 0 ] && echo "ok the packages of all libraries are named"
exit $failed
