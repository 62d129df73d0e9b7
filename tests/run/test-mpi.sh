#!/usr/bin/env bash
# The example of MPI: ranks of Open MPI that hand device memory to each other. Fewer processors than
# ranks are no error. usage: test-mpi.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    echo "SKIPPED test-mpi.sh: needs the packages openmpi-bin and libopenmpi-dev" \
        "(make deps-cluster)"
    echo "ok nothing to run here"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
export guard=300 # seconds: against hanging only

# Its folder for sessions is in TMPDIR; ranks are not bound to processors, of which there are few.
export TMPDIR=$work
mpi=(mpirun --oversubscribe --bind-to none --mca btl "self,vader" --mca plm isolated)
if [ "$(id -u)" = 0 ]; then mpi+=(--allow-run-as-root); fi

# Against the tree as it is installed, and as its Makefile builds it.
make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" \
    >"$work/log" 2>&1
report $? "make install"
# Options of a calling make are not for the example, which has its own compiler.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
cp -r "$top/examples/mpi" "$top/examples/common" "$work/"
export PKG_CONFIG_SYSROOT_DIR=$work/root LD_LIBRARY_PATH=$work/root/usr/lib
PKG_CONFIG_PATH=$work/root/usr/lib/pkgconfig make -s -C "$work/mpi" >"$work/log" 2>&1
report $? "the example can be built"

for n in 1 2 4 7; do
    "$build/npu-run" --devices 2 -- "${mpi[@]}" -n "$n" "$work/mpi/ring" 20 >"$work/log" 2>&1 &&
        [ "$(grep -c 'has its own bytes again' "$work/log")" = "$n" ]
    report $? "$n ranks"
done
# npu-check looks at all ranks together. What one makes for another is an order, and so is MPI.
"$build/npu-run" --check --devices 2 -- "${mpi[@]}" -n 3 "$work/mpi/ring" 20 >"$work/log" 2>&1 &&
    grep -qxF "npud check: no findings in 3 processes" "$work/log"
report $? "3 ranks, checked"
# Nothing is left of ranks that have ended. npud may hear of their end a moment later.
# shellcheck disable=SC2016 # for the shell that npu-run starts
"$build/npu-run" --devices 2 -- sh -c '
    npuctl=$1
    shift
    "$@" || exit
    for what in memory events sessions; do
        timeout "$guard" "$npuctl" --watch=0.02 --json "$what" |
            grep -qxF -m 1 "{\"$what\":[]}" || exit
    done' - "$build/npuctl" "${mpi[@]}" -n 3 "$work/mpi/ring" 1 >"$work/log" 2>&1
report $? "npud has nothing of them afterwards"
exit $failed
