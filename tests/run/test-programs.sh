#!/usr/bin/env bash
# The programs of tests/programs, built by CMake against an installed toolkit tree as their users
# would, and each run under npu-run. usage: test-programs.sh BUILD_DIR [PROGRAM...]
# Runs long: 80 s.
set -u
build=$1
shift
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY ASCEND_RT_VISIBLE_DEVICES ASCEND_HOME_PATH
unset ASCEND_GLOBAL_LOG_LEVEL ASCEND_SLOG_PRINT_TO_STDOUT
TMPDIR=$work
export TMPDIR
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
guard=300 # seconds: against hanging only

# How each program is run: a name, and options of npu-run besides those of mode.sh. PROGRAMS_ONCE:
# what strict devices and the checker have to do with a machine, others test.
modes=("strict --strict")
[ -n "${NPUD_STRICT+set}" ] || modes=("ordinary" "${modes[@]}" "checked --check")
[ -z "${PROGRAMS_ONCE:-}" ] || modes=("ordinary")

# What is wrong on purpose in some programs, which npu-run --check tells. The others run silent.
declare -A wrong=(
    [channel_errors]="ends its session with a channel"
    [event_wait]="a wait for an event that was never recorded"
    [ipc_memory]="reads more than what the other process has written"
    [ipc_memory_exporter_exits]="likewise"
    [malloc_variants]="flushes memory that was freed"
    [memory_bounds]="copies beyond the end, and after the free"
    [memory_forms]="frees twice"
    [memory_pipeline]="synchronises an event that was never recorded"
    [memory_set]="fills memory that was freed"
    [vmm_errors]="fills what is not mapped"
    [vmm_expandable]="copies beyond what is mapped"
)

make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" \
    >"$work/log" 2>&1
report $? "make install"
# shellcheck disable=SC1091
. "$work/root/usr/lib/npud/ascend-toolkit/set_env.sh"

# Options and jobs of a calling make are not for this build.
unset MAKEFLAGS MFLAGS MAKELEVEL
targets=(all)
[ $# -eq 0 ] || targets=("$@")
{
    cmake -S "$top/tests/programs" -B "$work/programs" &&
        cmake --build "$work/programs" --parallel "$(nproc)" \
            --target "${targets[@]}" -- -k
} >"$work/log" 2>&1
report $? "the programs are built"

names=("$@")
[ $# -gt 0 ] || for source in "$top"/tests/programs/*.c "$top"/tests/programs/*.cpp; do
    name=${source##*/}
    names+=("${name%.*}")
done
for mode in "${modes[@]}"; do
    read -ra words <<<"$mode"
    for name in "${names[@]}"; do
        status=0
        [ "${words[0]}" != checked ] || [ -z "${wrong[$name]:-}" ] || status=86
        timeout "$guard" "$work/root/usr/bin/npu-run" "${npu_run_options[@]}" "${words[@]:1}" -- \
            "$work/programs/$name" >"$work/log" 2>&1 </dev/null
        [ $? -eq $status ]
        report $? "$name (${words[0]})"
    done
done
exit $failed
