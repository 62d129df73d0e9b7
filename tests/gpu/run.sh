#!/bin/sh
# Runs npud's tests of CUDA on a machine with a GPU. It needs glibc, the driver, a shell and what
# is in every system (tar, timeout); it installs nothing and fetches nothing. It never changes what
# is set of the GPU, and never resets one.
#
# usage: run.sh --check|--bench [--fake] [PACKAGE]
#   --check   tests: each passes or fails
#   --bench   times of CUDA alone, and under MPS where that is
#   --fake    over the fake of CUDA's driver, to try the package itself: shows nothing about GPUs
#   PACKAGE   npud-gpu.tar.gz; without it, what lies beside this script
# OUT: a folder for what is printed, by default ./npud-gpu-results. The table comes last.
set -u

mode=
fake=
package=
for a in "$@"; do
    case $a in
    --check | --bench) mode=${a#--} ;;
    --fake) fake=yes ;;
    -*) mode= ;;
    *) package=$a ;;
    esac
done
if [ -z "$mode" ]; then
    echo "usage: run.sh --check|--bench [--fake] [npud-gpu.tar.gz]" >&2
    exit 2
fi

out=${OUT:-npud-gpu-results}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
work=$(mktemp -d) || exit 1
mps=
finish() {
    [ -z "$mps" ] || echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

if [ -n "$package" ]; then
    tar -xzf "$package" -C "$work" || exit 1
    root=$work/npud-gpu
else
    root=$(cd "$(dirname "$0")" && pwd)
fi
: >"$out/table.txt"
: >"$out/raw.jsonl"

NPUD_TEST_CUDA=libcuda.so.1
[ -z "$fake" ] || NPUD_TEST_CUDA=$root/tests/gpu/libfake_cuda.so
export NPUD_TEST_CUDA
export NPUD_BINDIR="$root"
[ -z "$fake" ] || export RAW_SHORT=1

# A program of the package, for so many seconds at most. The libraries are for it alone: those of
# this machine's own programs may be newer.
run() { # SECONDS COMMAND...
    s=$1
    shift
    LD_LIBRARY_PATH="$root:$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        timeout -k 5 "$s" "$@"
}

# One row of the table; what the command prints goes to a file.
failed=0
row() { # NAME SECONDS COMMAND...
    name=$1
    shift
    file=$out/$(printf '%s' "$name" | tr -c 'A-Za-z0-9_.\n-' _).txt
    begun=$(date +%s)
    run "$@" >"$file" 2>&1
    status=$?
    result=ok
    case $status in
    0) ;;
    77) result=skipped ;;
    124 | 137) result="FAILED: no end" ;;
    *) result="FAILED: status $status" ;;
    esac
    case $result in FAILED*) failed=$((failed + 1)) ;; esac
    printf '%-34s %4d s  %s\n' "$name" $(($(date +%s) - begun)) "$result" >>"$out/table.txt"
    [ "$mode" != bench ] || sed "s/^{/{\"under\": \"$under\", /" "$file" >>"$out/raw.jsonl"
}

list() { # FILE: its lines without comments
    grep -v '^#' "$root/$1" | grep .
}

under=alone
run 60 "$root/tests/gpu/raw/raw_context" >"$out/gpu.txt" 2>&1
if [ $? -eq 77 ]; then
    echo "==========================================================="
    echo "no GPU here: nothing was tested"
    cat "$out/gpu.txt"
    echo "==========================================================="
    exit 0
fi
{
    uname -srm
    nproc
    [ -n "$fake" ] || nvidia-smi -L
    [ -n "$fake" ] || cat /proc/driver/nvidia/version
} >"$out/machine.txt" 2>/dev/null

check() {
    if [ -n "$fake" ]; then
        unset NPUD_TEST_CUDA
    fi
    export CK_TIMEOUT_MULTIPLIER=2
    row "test_cuda_table" 240 "$root/tests/unit/test_cuda_table"
    export NPUD_TEST_CUDA="${NPUD_TEST_CUDA:-$root/tests/gpu/libfake_cuda.so}"
    if [ -x "$root/npud-executor" ]; then
        row "npud-executor --check" 300 "$root/npud-executor" --check "cuda:$NPUD_TEST_CUDA" \
            --kernel="$root/touch.ptx:touch" --json="$out/check.json"
    else
        echo "npud-executor --check: this package has no npud-executor" >>"$out/table.txt"
    fi
    check_suites
}

find_driver() { # its path, as the loader finds it
    { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null |
        awk -v of="$(uname -m | tr _ -)" '$1 == "libcuda.so.1" && (/x86-64/ || of != "x86-64") {
            print $NF
            exit
        }'
}

# npud owns the GPUs. A test that needs more of them than there are is named, and left out: where it
# says SKIPPED, the row does, too.
check_suites() {
    export NPUD_TEST_BACKEND=cuda NPUD_TEST_CANNOT="$root/nested-cannot" CK_TIMEOUT_MULTIPLIER=30
    [ -n "$fake" ] || NPUD_TEST_DEVICES=$(nvidia-smi -L | grep -c '^GPU')
    [ -n "$fake" ] || export NPUD_TEST_DEVICES
    # npud takes no name, where LD_LIBRARY_PATH is set, as it has to be for these programs.
    [ -n "$fake" ] || NPUD_TEST_CUDA=$(find_driver)
    list suites.list >"$work/suites"
    while read -r suite; do
        if [ "${NPUD_TEST_DEVICES:-}" = 1 ] &&
            grep -q "^one ${suite##*/} [*] " "$root/nested-cannot"; then
            printf '%-34s         SKIPPED: it uses two devices\n' "$suite" >>"$out/table.txt"
            continue
        fi
        row "$suite" 400 "$root/$suite"
        skipped=$(grep -c '^SKIPPED' "$file")
        [ "$skipped" -eq 0 ] || echo "    $skipped SKIPPED" >>"$out/table.txt"
    done <"$work/suites"
}

measure() {
    list raw.list >"$work/raw"
    while read -r program arguments; do
        # shellcheck disable=SC2086 # words
        row "$program${arguments:+ $arguments} ($under)" 100 \
            "$root/tests/gpu/raw/$program" $arguments
    done <"$work/raw"
}

# With pipes of its own: another MPS of this machine is left alone.
start_mps() {
    [ -z "$fake" ] && command -v nvidia-cuda-mps-control >/dev/null 2>&1 || return 1
    mkdir -p "$work/mps"
    export CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps"
    nvidia-cuda-mps-control -d >"$out/mps.txt" 2>&1 || return 1
    mps=yes
}

if [ "$mode" = check ]; then
    check
else
    measure
    if start_mps; then
        under=MPS
        measure
        cp "$work"/mps/*.log "$out/" 2>/dev/null
    else
        echo "under MPS: not measured, it is not here" >>"$out/table.txt"
    fi
fi

echo "== $(tr '\n' ' ' <"$out/machine.txt")"
[ -z "$fake" ] || echo "== OVER THE FAKE: this shows nothing about a GPU"
[ "$mode" != bench ] || cat "$out/raw.jsonl"
[ ! -f "$out/npud-executor_--check.txt" ] || cat "$out/npud-executor_--check.txt"
cat "$out/table.txt"
echo "== what was printed is in $out"
if [ "$failed" -gt 0 ]; then
    echo "== $failed FAILED"
    exit 1
fi
