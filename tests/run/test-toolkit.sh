#!/usr/bin/env bash
# Install into an empty folder, and build and run programs against it as a user would: with
# pkg-config, as a program written for CANN with make and with CMake, in C and in C++.
# usage: test-toolkit.sh BUILD_DIR
# Runs long: 20 s.
set -u
build=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

make -s -C "$top" install-built PREFIX="$work/usr" DESTDIR= SYSCONFDIR="$work/etc" \
    BUILD="$build" >"$work/log" 2>&1
report $? "make install"
cat "$work/log"
# Where no npud.conf can be written, root or not: the file stands where a folder should.
make -s -C "$top" install-built PREFIX="$work/home" DESTDIR= SYSCONFDIR="$work/log/etc" \
    BUILD="$build" >"$work/log2" 2>&1 &&
    grep -q "npud.conf is not there" "$work/log2" &&
    [ -e "$work/home/lib/npud/ascend-toolkit/set_env.sh" ]
report $? "make install where npud.conf cannot be written"

cat >"$work/prog.c" <<'C'
#include "acl/acl.h"
#include <stdio.h>
int main(void)
{
    aclrtStream stream;
    aclrtEvent event;
    aclrtEventRecordedStatus status;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream) ||
        aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC) || aclrtRecordEvent(event, stream) ||
        aclrtSynchronizeEvent(event) || aclrtQueryEventStatus(event, &status) || status != 1)
        return 1;
    puts("works");
    return aclrtResetDevice(0) || aclFinalize();
}
C
cp "$work/prog.c" "$work/prog.cpp"

run() { "$work/usr/bin/npu-run" -- "$@"; }

(
    export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig"
    # shellcheck disable=SC2046
    cc -Wall -Werror "$work/prog.c" -o "$work/p1" $(pkg-config --cflags --libs aclclient) &&
        LD_LIBRARY_PATH="$work/usr/lib" run "$work/p1"
)
report $? "pkg-config"

cat >"$work/prog.py" <<'P'
import acl, acl.rt
assert acl.init() == 0 and acl.rt.set_device(0) == 0
event, ret = acl.rt.create_event_ex_with_flag(0x40)
assert ret == 0 and acl.rt.record_event(event, 0) == 0 and acl.rt.synchronize_event(event) == 0
assert acl.rt.query_event_status(event) == (1, 0)
assert open("/proc/self/maps").read().count("libaclclient.so") > 0
print(acl.__file__)
P

# The place is what README tells; the library is found without LD_LIBRARY_PATH.
dist=$(echo "$work"/usr/lib/python3*/dist-packages)
[ "$(PYTHONPATH=$dist run /usr/bin/python3 "$work/prog.py")" = "$(echo "$dist"/acl.*.so)" ]
report $? "import acl"

# shellcheck disable=SC1091
. "$work/usr/lib/npud/ascend-toolkit/bin/setenv.bash"
[ "$ASCEND_INSTALL_PATH" = "$work/usr/lib/npud/ascend-toolkit" ]
report $? "setenv.bash names its own tree"
grep -q '^Version=[0-9]*[.][0-9]*[.][0-9]*$' "$ASCEND_HOME_PATH/share/info/runtime/version.info"
report $? "the tree has the version of a runtime"

cc "$work/prog.c" -o "$work/p2" -I"$ASCEND_INSTALL_PATH/include" -L"$ASCEND_INSTALL_PATH/lib64" \
    -lascendcl && run "$work/p2"
report $? "C with -lascendcl"

c++ "$work/prog.cpp" -o "$work/p3" -I"$ASCEND_INSTALL_PATH/include" -L"$ASCEND_INSTALL_PATH/lib64" \
    -lascendcl && run "$work/p3"
report $? "C++ with -lascendcl"

cat >"$work/ipc.cpp" <<'C'
#include <acl/npud_event_ipc.hpp>
#include <iostream>
namespace ipc = npud::event::ipc;
int main()
{
    aclInit(nullptr);
    npud::throw_if_error(aclrtSetDevice(0), "aclrtSetDevice");
    try {
        ipc::import(0, ipc::handle_t());
        return 1;
    } catch (const npud::error &e) {
        std::cout << e.code() << ' ' << e.what() << '\n';
    }
    npud::event_t event = ipc::create(), same = ipc::import(0, ipc::export_(event));
    event.record();
    same.synchronize();
    return same.query() ? 0 : 1;
}
C
c++ -std=c++17 -Wall -Wextra -Werror "$work/ipc.cpp" -o "$work/p4" \
    -I"$ASCEND_INSTALL_PATH/include" \
    -L"$ASCEND_INSTALL_PATH/lib64" -lascendcl && run "$work/p4"
report $? "C++17 with acl/npud_event_ipc.hpp"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.5)
project(sample CXX)
set(INC_PATH $ENV{ASCEND_INSTALL_PATH}/include)
set(LIB_PATH $ENV{ASCEND_INSTALL_PATH}/lib64)
include_directories(${INC_PATH})
link_directories(${LIB_PATH})
add_executable(main ../prog.cpp)
target_link_libraries(main ascendcl)
C
cmake -S "$work/cmake" -B "$work/cmake/out" >"$work/log" 2>&1 &&
    cmake --build "$work/cmake/out" >>"$work/log" 2>&1 &&
    run "$work/cmake/out/main"
report $? "CMake"

# As programs with kernels do that look for the place of the vendor's file.
mkdir "$work/kernels"
arch=$(cc -dumpmachine)
arch=${arch%%-*}-linux
kernels() { # FOLDER
    cat >"$work/kernels/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.5)
project(sample CXX)
include(\$ENV{ASCEND_INSTALL_PATH}/$1/ascendc.cmake)
add_executable(main ../prog.cpp)
target_include_directories(main PRIVATE \$ENV{ASCEND_INSTALL_PATH}/$arch/include)
target_link_directories(main PRIVATE \$ENV{ASCEND_INSTALL_PATH}/$arch/lib64)
target_link_libraries(main PRIVATE ascendcl)
C
    rm -rf "$work/kernels/out"
    cmake -S "$work/kernels" -B "$work/kernels/out" >"$work/log" 2>&1
}
for folder in tools/tikcpp/ascendc_kernel_cmake compiler/tikcpp/ascendc_kernel_cmake \
    tikcpp/ascendc_kernel_cmake x86_64-linux/tikcpp/ascendc_kernel_cmake \
    aarch64-linux/tikcpp/ascendc_kernel_cmake "$arch/tikcpp/ascendc_kernel_cmake" \
    ascendc_devkit/tikcpp/samples/cmake; do
    kernels "$folder" && cmake --build "$work/kernels/out" >>"$work/log" 2>&1 &&
        run "$work/kernels/out/main"
    report $? "CMake with $folder/ascendc.cmake"
done
echo 'extern "C" __global__ __aicore__ void k(float x) { (void)x; }' >"$work/kernels/kernel.cpp"
echo 'ascendc_library(kernels STATIC kernel.cpp)' >>"$work/kernels/CMakeLists.txt"
cmake -S "$work/kernels" -B "$work/kernels/out" >"$work/log" 2>&1 &&
    cmake --build "$work/kernels/out" >>"$work/log" 2>&1 &&
    nm "$work/kernels/out/libkernels.a" | grep -q ' T aclrtlaunch_k'
report $? "a kernel is compiled (test-kernels.sh has more)"

# find_package as programs call it, with one kernel command or language more each time.
mkdir -p "$work/package/kernels"
cp "$work/kernels/kernel.cpp" "$work/package/kernels/kernel.asc"
package() { # LINE...
    printf '%s\n' 'cmake_minimum_required(VERSION 3.5)' 'project(sample C)' "$@" \
        'add_executable(main ../prog.c)' >"$work/package/CMakeLists.txt"
    rm -rf "$work/package/out"
    cmake -S "$work/package" -B "$work/package/out" >"$work/log" 2>&1 &&
        cmake --build "$work/package/out" >>"$work/log" 2>&1
}
package 'find_package(AscendCL REQUIRED)' 'link_libraries(AscendCL::ascendcl)' &&
    run "$work/package/out/main"
report $? "find_package(AscendCL) and its target"
# shellcheck disable=SC2016 # for CMake
package 'find_package(AscendCL REQUIRED)' 'include_directories(${AscendCL_INCLUDE_DIRS})' \
    'link_libraries(${AscendCL_LIBRARIES})' && run "$work/package/out/main"
report $? "find_package(AscendCL) and its variables"
# shellcheck disable=SC2016
hints='HINTS $ENV{ASCEND_HOME_PATH}/compiler/tikcpp/ascendc_kernel_cmake'
for asc in 'find_package(ASC REQUIRED)' \
    "find_package(ASC REQUIRED $hints NO_DEFAULT_PATH)"; do
    package "$asc" 'find_package(AscendCL REQUIRED)' 'link_libraries(AscendCL::ascendcl)' &&
        run "$work/package/out/main"
    report $? "$asc"
    ! package "$asc" 'npu_op_kernel_library(k)' && tr -s '\n ' ' ' <"$work/log" |
        grep -q 'npu_op_kernel_library(k): npud.s toolkit tree builds no packages'
    report $? "$asc: npu_op_kernel_library(k) is refused with a sentence"
    package "$asc" 'enable_language(ASC)' 'find_package(AscendCL REQUIRED)' \
        'link_libraries(AscendCL::ascendcl)' 'add_library(k SHARED kernels/kernel.asc)'
    report $? "$asc: the language ASC"
done
(
    unset CMAKE_PREFIX_PATH
    folder=$ASCEND_HOME_PATH/tikcpp/ascendc_kernel_cmake/asc_modules
    package "list(APPEND CMAKE_MODULE_PATH $folder)" \
        'find_package(ASC REQUIRED)' 'link_libraries(host_intf_pub)'
)
report $? "find_package(ASC) by the folder asc_modules"

# All names at once, as makefiles of programs have them.
empty=(ascendc_runtime runtime register error_manager ge_common_base ascendalog
    mmpa tiling_api platform unified_dlog graph_base)
names=(ascendcl acl_rt acl_rt_impl acl_tdt_queue acl_tdt_channel ascend_dump msprofiler profapi
    ms_tools_ext c_sec nnopbase opapi opapi_math opapi_nn "${empty[@]}")
cc "$work/prog.c" -o "$work/p5" -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/$arch/lib64" \
    -Wl,--no-as-needed "${names[@]/#/-l}" && run "$work/p5"
report $? "all names of libraries"
for l in "${empty[@]}"; do
    file=$ASCEND_HOME_PATH/lib64/lib$l.so
    [ "$(objdump -p "$file" | awk '/SONAME/ {print $2}')" = "lib$l.so" ] &&
        ! nm -D --defined-only "$file" 2>&1 | grep -q ' T '
    report $? "lib$l.so is empty, and has its name"
done
for l in profapi ms_tools_ext c_sec; do
    [ "$(objdump -p "$ASCEND_HOME_PATH/lib64/lib$l.so" | awk '/SONAME/ {print $2}')" = "lib$l.so" ]
    report $? "lib$l.so has its name"
done

# mstx in all forms, with a tool of its own: tests/run/mstx.
bash "$top/tests/run/mstx/run.sh" "$work"
report $? "mstx, without a tool and with one"
cat >"$work/prof.c" <<'C'
#include <string.h>
#include "profiling/aprof_pub.h"
int main(void)
{
    struct MsprofApi api = {MSPROF_REPORT_DATA_MAGIC_NUM, MSPROF_REPORT_ACL_LEVEL, 1, 2, 0,
                            MsprofSysCycleTime(), 0, MsprofGetHashId("name", 4)};
    api.endTime = MsprofSysCycleTime();
    return MsprofReportApi(1, &api) || MsprofRegTypeInfo(1, 2, "type") ||
           api.endTime < api.beginTime || api.itemId != MsprofStr2Id("name", 4) ||
           api.itemId == MsprofGetHashId("other", 5) || MsprofGetHashId(NULL, 1) != 0 ||
           MsprofSetDeviceIdByGeModelIdx(7, 0) || MsprofUnsetDeviceIdByGeModelIdx(7, 0);
}
C
cc -Wall -Wextra -Werror "$work/prof.c" -o "$work/prof" -I"$ASCEND_HOME_PATH/include" \
    -L"$ASCEND_HOME_PATH/lib64" -lprofapi && "$work/prof"
report $? "libprofapi.so takes what libraries report"
# libc_sec.so: each function, at its bounds.
cc -Wall -Wextra -Werror -O2 "$top/tests/run/toolkit/securec.c" -o "$work/securec" \
    -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/lib64" -lc_sec && "$work/securec"
report $? "libc_sec.so and securec.h"
for l in opapi nnopbase opapi_math opapi_nn; do
    nm -D --defined-only "$ASCEND_HOME_PATH/lib64/lib$l.so" | grep -q ' T aclCreateTensor$'
    report $? "lib$l.so has the functions of tensors"
done
! nm -D --defined-only "$ASCEND_HOME_PATH/lib64/libopapi.so" | grep -v ' T acl'
report $? "libopapi.so exports nothing but acl*"

[ "$(command -v npu-smi)" = "$ASCEND_HOME_PATH/bin/npu-smi" ] &&
    [ "$(LD_LIBRARY_PATH='' run npu-smi info -l | awk -F: '/Total/ {print $2 + 0}')" = 2 ]
report $? "npu-smi is in the PATH, and finds its library"
[ ! -e "$work/usr/bin/npu-smi" ]
report $? "but not beside npud's own programs"

(
    unset LD_LIBRARY_PATH
    mv "$work/usr" "$work/moved"
    # shellcheck disable=SC1091
    . "$work/moved/lib/npud/ascend-toolkit/bin/setenv.bash"
    LD_LIBRARY_PATH="" "$work/moved/bin/npu-run" -- /usr/bin/python3 "$work/prog.py" |
        grep -q site-packages
)
report $? "import acl from the toolkit's tree, moved elsewhere"
mv "$work/moved" "$work/usr"

for l in libascendcl libacl_rt libacl_tdt_queue libacl_tdt_channel libascend_dump; do
    [ -e "$ASCEND_INSTALL_PATH/lib64/$l.so" ]
    report $? "$l.so"
done

nm -D --defined-only "$ASCEND_INSTALL_PATH/lib64/libascend_dump.so" |
    grep -q ' T acldumpRegCallback@@ACLCLIENT_2'
report $? "libascend_dump.so has the functions of dump"

if nm -D --defined-only "$work/usr/lib/libaclclient.so.1" | grep -v ' acl' |
    grep -v 'ACLCLIENT_[0-9]' | grep .; then
    report 1 "nothing but acl* is exported"
else
    report 0 "nothing but acl* is exported"
fi

if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify --man=no "$work"/usr/lib/systemd/system/npud*.{service,socket} \
        >"$work/log" 2>&1
    status=$?
    grep -v "is not executable" "$work/log"
    report "$status" "systemd-analyze verify"
fi

make -s -C "$top" uninstall PREFIX="$work/usr" DESTDIR= BUILD="$build" >/dev/null
left=$(find "$work/usr" -type f -o -type l | wc -l)
report "$left" "make uninstall leaves nothing"
exit $failed
