#!/usr/bin/env bash
# Building kernels: the translator alone, programs of tests/programs/kernels by CMake, the driver by
# hand, and sources that are refused. usage: test-kernels.sh BUILD_DIR
# Runs long: 30 s.
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY ASCEND_RT_VISIBLE_DEVICES ASCEND_HOME_PATH
unset NPUD_HOST_CXX NPUD_KERNEL_FAULTS
TMPDIR=$work
export TMPDIR PYTHONDONTWRITEBYTECODE=1
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
guard=300 # seconds: against hanging only
sources=$top/tests/programs/kernels

rounds=3000
[ -z "${NPUD_TEST_LONG:-}" ] || rounds=200000
check "the translator" python3 "$top/tests/run/kernels/test_translate.py" \
    "$top/client/toolkit/kernels" "$rounds"

make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" \
    >"$work/log" 2>&1
report $? "make install"
# shellcheck disable=SC1091
. "$work/root/usr/lib/npud/ascend-toolkit/set_env.sh"
export ASCENDC_CMAKE_DIR=$ASCEND_HOME_PATH/tools/tikcpp/ascendc_kernel_cmake
unset MAKEFLAGS MFLAGS MAKELEVEL

npu_run() { # OPTION... -- PROGRAM...
    timeout "$guard" "$work/root/usr/bin/npu-run" "${npu_run_options[@]}" "$@" </dev/null
}

# --- CMake ---

{
    cmake -S "$sources" -B "$work/build" -DCMAKE_INSTALL_PREFIX="$work/out" &&
        cmake --build "$work/build" --parallel "$(nproc)" -- -k &&
        cmake --install "$work/build"
} >"$work/log" 2>&1
report $? "the programs are built"
[ "$(cd "$work/out" && find . -type f | sort | tr '\n' ' ')" = "./fatbin/binary_kernels/\
binary_kernels.o ./include/kernels_shared/aclrtlaunch_mix_all.h ./include/kernels_shared/\
aclrtlaunch_nothing.h ./include/kernels_shared/aclrtlaunch_saxpy.h ./include/kernels_static/\
aclrtlaunch_mix_all.h ./include/kernels_static/aclrtlaunch_nothing.h ./include/kernels_static/\
aclrtlaunch_saxpy.h ./lib/libkernels_shared.so ./lib/libkernels_static.a " ]
report $? "libraries, headers and binaries are installed where the vendor's functions put them"

modes=("strict --strict")
[ -n "${NPUD_STRICT+set}" ] || modes=("ordinary" "${modes[@]}")
for mode in "${modes[@]}"; do
    read -ra words <<<"$mode"
    for name in plain_static plain_shared launch_header_static launch_header_shared symbols \
        templates vector_add vector_ops matrix print sync trap binary; do
        npu_run "${words[@]:1}" -- "$work/build/$name" >"$work/log" 2>&1 && [ ! -s "$work/log" ]
        report $? "$name (${words[0]})"
    done
done
check "RUN_MODE cpu, without npud" timeout "$guard" "$work/build/cpu"

# What is built again.
cp -r "$sources" "$work/kernels"
cp "$top/tests/programs/expect.h" "$work/kernels"
mkdir -p "$work/small"
cp "$sources"/plain_kernels.* "$work/small"
cat >"$work/small/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.16)
project(small CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
include($ENV{ASCENDC_CMAKE_DIR}/ascendc.cmake)
set(ASC_NPU_ARCH dav-3510)
ascendc_library(small STATIC plain_kernels.cpp)
C
for generator in "Unix Makefiles" Ninja; do
    [ "$generator" != Ninja ] || command -v ninja >/dev/null || continue
    rm -rf "$work/again"
    touch -d '-1 hour' "$work"/small/*
    cmake -G "$generator" -S "$work/small" -B "$work/again" >"$work/log" 2>&1 &&
        cmake --build "$work/again" >>"$work/log" 2>&1 &&
        cmake --build "$work/again" >"$work/log" 2>&1 && ! grep -q Building "$work/log" &&
        touch "$work/small/plain_kernels.h" &&
        cmake --build "$work/again" >"$work/log" 2>&1 && grep -q Building "$work/log"
    report $? "$generator: a kernel is built again when its header has changed, and only then"
    touch -d '-1 hour' "$work/again/include/small/aclrtlaunch_saxpy.h"
    touch "$work/before"
    echo 'extern "C" __global__ __aicore__ void added() {}' >>"$work/small/plain_kernels.cpp"
    cmake --build "$work/again" >"$work/log" 2>&1 &&
        [ -e "$work/again/include/small/aclrtlaunch_added.h" ] &&
        nm "$work/again/libsmall.a" | grep -q ' T aclrtlaunch_added'
    report $? "$generator: a new kernel has its header"
    [ "$work/before" -nt "$work/again/include/small/aclrtlaunch_saxpy.h" ]
    report $? "$generator: the headers of other kernels stay as they are"
    cp "$sources"/plain_kernels.cpp "$work/small"
done

# --- by hand ---

by_hand() { # EXPECTED COMMAND...
    local expected=$1
    shift
    rm -f "$work/prog"
    (cd "$work/kernels" && "$@") >"$work/log" 2>&1 && [ ! -s "$work/log" ] &&
        [ "$(npu_run -- "$work/prog" 2>&1)" = "$expected" ]
}
cat >"$work/kernels/hello.asc" <<'C'
#include <cstdint>
#include "acl/acl.h"
#include "kernel_operator.h"

__global__ __aicore__ void hello(int number)
{
    if (number == __NPU_ARCH__)
        AscendC::printf("Hello %d\n", number);
}

int32_t main()
{
    aclrtStream stream = nullptr;
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
    hello<<<1, nullptr, stream>>>(2201);
    int32_t code = aclrtSynchronizeStream(stream);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return code;
}
C
by_hand "Hello 2201" bisheng --npu-arch=dav-2201 -o "$work/prog" hello.asc
report $? "bisheng -o prog hello.asc"
# shellcheck disable=SC2317 # by_hand calls it
two_steps() {
    bisheng -O2 -g -std=c++14 -MD -c hello.asc && grep -q 'hello.o: hello.asc' hello.d &&
        bisheng hello.o -o "$work/prog"
}
by_hand "Hello 2201" two_steps
report $? "bisheng -c, and the object is linked"
by_hand "Hello 2201" env NPUD_HOST_CXX="c++ -O3" bisheng -Wall -Wextra -Werror hello.asc \
    -o "$work/prog" -L"$ASCEND_HOME_PATH/lib64" -lruntime -lregister
report $? "NPUD_HOST_CXX names the host's compiler"
if command -v clang++ >/dev/null; then
    by_hand "Hello 2201" env NPUD_HOST_CXX=clang++ bisheng -Wall -Wextra -Werror hello.asc \
        -o "$work/prog"
    report $? "which may be clang++"
fi
# shellcheck disable=SC2317 # so it does
shared() {
    cp plain_kernels.cpp plain_kernels.txt &&
        bisheng --npu-arch=dav-3510 -fPIC -shared -o "$work/libk.so" -x asc plain_kernels.txt &&
        bisheng plain.cpp -o "$work/prog" "$work/libk.so" "-Wl,-rpath,$work"
}
by_hand "" shared
report $? "bisheng -shared, and a program with it"
(cd "$work/kernels" && bisheng -g -c hello.asc -o "$work/debug.o") &&
    [ "$(addr2line -C -f -j .text -e "$work/debug.o" \
        "0x$(nm -C "$work/debug.o" | awk '/ T hello/ {print $1}')" | tr '\n' ' ' |
        sed 's|/[^ ]*/||')" = "hello(int) hello.asc:6 " ]
report $? "debuggers see the lines of the source"
(cd "$work/kernels" && bisheng -E hello.asc >"$work/log" 2>&1) &&
    grep -q '::npud::launch("hello", hello, 1, nullptr, stream)(2201)' "$work/log"
report $? "bisheng -E shows what the translator made"
mkdir "$work/lines"
cp "$work/kernels/hello.asc" "$work/lines/prog.asc"
cp "$sources/binary_kernels.cpp" "$work/lines/k.cpp"
sed -n 's/^    \(bisheng [^#]*\).*/\1/p' "$top/docs/kernels.md" >"$work/lines/run.sh"
(cd "$work/lines" && sh -e run.sh >"$work/log" 2>&1 && [ -x prog ] && nm -D k.o) | grep -q ' T fill'
report $? "the lines of docs/kernels.md"
mkdir "$work/doc"
cp "$work/lines/prog.asc" "$work/doc/prog.asc"
cat >"$work/doc/add.cpp" <<'C'
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, uint32_t n)
{
    AscendC::TPipe pipe;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, n * sizeof(half));
}
C
cat >"$work/doc/main.cpp" <<'C'
#include "aclrtlaunch_add.h"
int main(int n, char **words) { return n > 1 ? aclrtlaunch_add(1, nullptr, words, words, 1) : 0; }
C
for number in 1 2; do
    awk -v n=$number '/^```/ {if (inside) inside = 0; else if (/cmake/) inside = ++k == n; next}
        inside' "$top/docs/kernels.md" >"$work/doc/CMakeLists.txt"
    rm -rf "$work/doc/out"
    grep -q add_executable "$work/doc/CMakeLists.txt" &&
        cmake -S "$work/doc" -B "$work/doc/out" >"$work/log" 2>&1 &&
        cmake --build "$work/doc/out" >>"$work/log" 2>&1 &&
        npu_run -- "$work/doc/out/prog" >>"$work/log" 2>&1
    report $? "project $number of docs/kernels.md"
done

# --- what is refused ---

refused() { # PLACE WORDS: the source is the input
    cat >"$work/refused.asc"
    ! (cd "$work" && bisheng -c refused.asc) >"$work/log" 2>&1 &&
        tr -s '\n ' ' ' <"$work/log" | grep -q "$1.*$2"
    report $? "refused: $2"
}
refused refused.asc:3 "write those of the kernel k" <<'C'
#include "kernel_operator.h"
template <typename T, int = 2> __global__ __aicore__ void k(T *x) {}
void f(void *s) { k<<<1, nullptr, s>>>((int *)s); }
C
refused refused.asc:3 "couldn.t \(deduce\|infer\) template \(parameter\|argument\) .T" <<'C'
#include "kernel_operator.h"
template <typename T> __global__ __aicore__ void k(GM_ADDR x) {}
void f(GM_ADDR x, void *s) { k<<<1, nullptr, s>>>(x); }
C
refused refused.asc:4 "with all three values" <<'C'
#include "kernel_operator.h"
__global__ __aicore__ void k() {}
#define LAUNCH(s) k<<<1, s>>>()
void f(void *s) { LAUNCH(s); }
C
refused refused.asc:3 "each type must be trivially copyable" <<'C'
#include "kernel_operator.h"
#include <string>
__global__ __aicore__ void k(std::string text) {}
C
refused refused.asc:3 "conversion from .void\*. to .int\*." <<'C'
#include "kernel_operator.h"
__global__ __aicore__ void k(int *x, float y) {}
void f(void *s) { k<<<1, nullptr, s>>>(s, 1); }
C
refused refused.asc:4 "npud's AscendC has no Mmad" <<'C'
#include "kernel_operator.h"
__global__ __aicore__ void k() {
    AscendC::LocalTensor<half> x;
    AscendC::Mmad(x, x, x, 1);
}
C
refused matmul_intf.h "npud.s AscendC has no matrices" <<'C'
#include "lib/matmul_intf.h"
C

project() { # LINE...: configures
    mkdir -p "$work/project"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(p CXX)' \
        "include($ASCENDC_CMAKE_DIR/ascendc.cmake)" "$@" >"$work/project/CMakeLists.txt"
    rm -rf "$work/project/out"
    cmake -S "$work/project" -B "$work/project/out" >"$work/log" 2>&1
}
by_name() { # TARGET LINE...: a program finds the libraries of the tree by their names
    local target=$1
    shift
    project "$@" 'add_executable(prog ../prog.cpp)' \
        "target_link_libraries(prog $target ascendcl c_sec)" &&
        cmake --build "$work/project/out" >"$work/log" 2>&1
    report $? "$target, and ascendcl by name"
}
echo 'int main() { return 0; }' >"$work/prog.cpp"
by_name host_intf_pub
by_name tikicpulib::cpu 'find_package(tikicpulib REQUIRED)'
stopped() { # WORDS LINE...
    local sentence=$1
    shift
    ! project "$@" && tr -s '\n ' ' ' <"$work/log" | grep -q "$sentence"
    report $? "CMake stops: $sentence"
}
echo '__global__ int x;' >"$work/project.cpp"
stopped "write STATIC or SHARED" 'ascendc_library(k ../project.cpp)'
stopped "k has no sources" 'ascendc_library(k STATIC)'
stopped "there is no file .*/none.cpp" 'ascendc_fatbin_library(k none.cpp)'
stopped "project.cpp:1: error: no function follows" 'ascendc_library(k SHARED ../project.cpp)'
exit $failed
