#!/usr/bin/env bash
# Builds and runs program.c in all forms, against the toolkit tree of ASCEND_HOME_PATH. Called by
# tests/run/test-toolkit.sh. usage: run.sh WORK_DIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1/mstx
mkdir -p "$work"
unset MSTX_INJECTION_PATH MSTX_TEST_FAIL
flags=(-Wall -Wextra -Werror -pthread "-I$ASCEND_HOME_PATH/include")
lib=$ASCEND_HOME_PATH/lib64

cc "${flags[@]}" "$here/program.c" -o "$work/c"
cp "$here/program.c" "$work/program.cpp"
c++ -std=c++11 "${flags[@]}" "$work/program.cpp" -o "$work/cpp"
echo '#include <mstx/ms_tools_ext.h>' >"$work/second.c"
cc "${flags[@]}" -O2 "$here/program.c" "$work/second.c" -o "$work/two"
cc "${flags[@]}" -DMSTX_NO_IMPL "$here/program.c" -o "$work/loaded" "-L$lib" -lms_tools_ext
cc "${flags[@]}" -DMSTX_NO_IMPL -c "$here/program.c" -o "$work/first.o"
cc "${flags[@]}" "$work/first.o" "$work/second.c" -o "$work/declared"
cc "${flags[@]}" -shared -fPIC "$here/tool.c" -o "$work/tool.so"
[ -e "$ASCEND_HOME_PATH/tools/mstx/lib64/libms_tools_ext.so" ]

is() { # WANTED COMMAND...
    wanted=$1
    shift
    got=$("$@" 2>&1) || { echo "$*: $got"; exit 1; }
    [ "$got" = "$wanted" ] || { echo "$*: $got, and not: $wanted"; exit 1; }
}

counts='marks 41 ranges 3 ends 3 domains 102 domain marks 1 heaps 101 regions 101'
nothing='marks 0 ranges 0 ends 0 domains 0 domain marks 0 heaps 0 regions 0'
for form in c cpp two loaded declared; do
    is '' "$work/$form" none
    is '' env MSTX_INJECTION_PATH=/nowhere.so "$work/$form" none
    is '' env MSTX_INJECTION_PATH="$lib/libms_tools_ext.so" "$work/$form" none
    is "$counts" env MSTX_INJECTION_PATH="$work/tool.so" "$work/$form" tool
    is "$counts" env LD_PRELOAD="$work/tool.so" "$work/$form" tool
    is "$counts" env LD_PRELOAD="$work/tool.so" MSTX_INJECTION_PATH=/nowhere.so "$work/$form" tool
    is "$nothing" env MSTX_TEST_FAIL=1 MSTX_INJECTION_PATH="$work/tool.so" "$work/$form" none
done
