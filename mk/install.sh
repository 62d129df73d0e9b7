#!/bin/sh
# Installs npud, or removes what it installs: one list serves both. Called by `make install` and
# `make uninstall`, which set PREFIX, LIBDIR, SYSCONFDIR, DESTDIR, BUILD, VERSION and ARCH (of the
# machine that programs are for), STUBS (names of empty libraries), and PYTHON_MODULE and PYTHON_DIR
# (empty: no Python module). Runs no program that was built, because that may be for another
# machine. Names may have blanks.
# usage: mk/install.sh install | uninstall
set -eu
action=$1
toolkit=$PREFIX/lib/npud/ascend-toolkit
share=$PREFIX/share
units=$PREFIX/lib/systemd/system
# Programs look for CMake files below these names, whatever the machine.
machines=$(printf '%s\n' x86_64-linux aarch64-linux "$ARCH-linux" | sort -u)

# --- one entry each: file MODE SOURCE TARGET, link TEXT TARGET, fill SOURCE TARGET ---

file() {
    if [ "$action" = install ]; then
        install -D -m "$1" "$2" "$DESTDIR$3"
    else
        rm -f "$DESTDIR$3"
    fi
}

# install(1) gives the folders that it makes mode 755, whatever the umask; so must those of links
# and filled files be.
parent() {
    dir=$(dirname "$DESTDIR$1")
    [ -d "$dir" ] || install -d "$dir"
}

link() {
    if [ "$action" = install ]; then
        parent "$2"
        ln -sfn "$1" "$DESTDIR$2"
    else
        rm -f "$DESTDIR$2"
    fi
}

escaped() { # for the right side of sed's s|||
    printf '%s' "$1" | sed 's/[&|\\]/\\&/g'
}

fill() {
    if [ "$action" = install ]; then
        parent "$2"
        sed -e "s|@PREFIX@|$(escaped "$PREFIX")|g" -e "s|@LIBDIR@|$(escaped "$LIBDIR")|g" \
            -e "s|@VERSION@|$(escaped "$VERSION")|g" -e "s|@TOOLKIT@|$(escaped "$toolkit")|g" "$1" \
            >"$DESTDIR$2"
        chmod 644 "$DESTDIR$2"
    else
        rm -f "$DESTDIR$2"
    fi
}

# --- the list ---

programs() {
    file 755 "$BUILD/npud" "$PREFIX/sbin/npud"
    # Nobody calls these by hand: npud finds them from its own place.
    file 755 "$BUILD/npud-supervisor" "$PREFIX/lib/npud/npud-supervisor"
    file 755 "$BUILD/npud-keeper" "$PREFIX/lib/npud/npud-keeper"
    file 755 "$BUILD/npud-executor" "$PREFIX/lib/npud/npud-executor"
    file 755 "$BUILD/npuctl" "$PREFIX/bin/npuctl"
    file 755 "$BUILD/npu-run" "$PREFIX/bin/npu-run"
    file 755 "$BUILD/npu-check" "$PREFIX/bin/npu-check"
}

library() {
    file 755 "$BUILD/libaclclient.so.1" "$LIBDIR/libaclclient.so.1"
    link libaclclient.so.1 "$LIBDIR/libaclclient.so"
    fill client/abi/aclclient.pc.in "$LIBDIR/pkgconfig/aclclient.pc"
    find include/acl -name '*.h' -o -name '*.hpp' | while IFS= read -r header; do
        file 644 "$header" "$PREFIX/$header"
    done
}

python_stubs='__init__.pyi rt.pyi tdt.pyi util.pyi npud.pyi _structs.pyi py.typed'
python() {
    [ -n "$PYTHON_MODULE" ] || return 0
    file 644 "$PYTHON_MODULE" "$PYTHON_DIR/${PYTHON_MODULE##*/}"
    for stub in $python_stubs; do
        file 644 "${PYTHON_MODULE%/*}/acl-stubs/$stub" "$PYTHON_DIR/acl-stubs/$stub"
    done
}

service() {
    fill systemd/npud.service.in "$units/npud.service"
    fill systemd/npud-keeper.service.in "$units/npud-keeper.service"
    fill systemd/npud-metrics.service.in "$units/npud-metrics.service"
    file 644 systemd/npud-keeper.socket "$units/npud-keeper.socket"
    file 644 systemd/npud.socket "$units/npud.socket"
    file 644 systemd/npud-admin.socket "$units/npud-admin.socket"
    file 644 systemd/sysusers.conf "$PREFIX/lib/sysusers.d/npud.conf"
    file 644 systemd/tmpfiles.conf "$PREFIX/lib/tmpfiles.d/npud.conf"
    file 644 systemd/npud.catalog "$PREFIX/lib/systemd/catalog/npud.catalog"
}

manuals() {
    for page in daemon/npud.8 daemon/npud.conf.5 client/tools/npu-run/npu-run.1 \
        client/tools/npu-check/npu-check.1 client/tools/npuctl/npuctl.1 \
        client/abi/libaclclient.7; do
        file 644 "$page" "$share/man/man${page##*.}/${page##*/}"
    done
    file 644 client/tools/npuctl/npuctl.bash-completion "$share/bash-completion/completions/npuctl"
    link npuctl "$share/bash-completion/completions/npu-run"
    link npuctl "$share/bash-completion/completions/npu-check"
    link npuctl "$share/bash-completion/completions/npud"
}

# FOLDER BACK: FOLDER by way of BACK, which leads to PREFIX, or as it is when it is not below PREFIX
below_prefix() {
    case $1 in
    "$PREFIX"/*) printf '%s' "$2${1#"$PREFIX"}" ;;
    *) printf '%s' "$1" ;;
    esac
}

# What builds kernels, at each place where programs look for it.
kernels() {
    cmake=$toolkit/tools/tikcpp/ascendc_kernel_cmake
    for name in ascendc.cmake ASCConfig.cmake CMakeDetermineASCCompiler.cmake \
        CMakeASCCompiler.cmake.in CMakeASCInformation.cmake CMakeTestASCCompiler.cmake; do
        file 644 "client/toolkit/$name" "$cmake/$name"
    done
    file 644 client/toolkit/FindASC.cmake "$cmake/asc_modules/FindASC.cmake"
    (cd client/toolkit/tikcfw && find . -name '*.h') | while IFS= read -r header; do
        file 644 "client/toolkit/tikcfw/$header" "$toolkit/tools/tikcpp/tikcfw/$header"
    done
    file 755 client/toolkit/kernels/driver.py "$toolkit/tools/npud/driver.py"
    file 644 client/toolkit/kernels/translate.py "$toolkit/tools/npud/translate.py"
    link ../tools/npud/driver.py "$toolkit/bin/bisheng"
    for name in ascendc_kernel_cmake tikcfw; do
        link "../../tools/tikcpp/$name" "$toolkit/compiler/tikcpp/$name"
        link "../tools/tikcpp/$name" "$toolkit/tikcpp/$name"
        for machine in $machines; do
            link "../../tools/tikcpp/$name" "$toolkit/$machine/tikcpp/$name"
        done
    done
    link ../../../../tools/tikcpp/ascendc_kernel_cmake/ascendc.cmake \
        "$toolkit/ascendc_devkit/tikcpp/samples/cmake/ascendc.cmake"
    link ../../../tools/tikcpp/ascendc_kernel_cmake/ASCConfig.cmake \
        "$toolkit/lib64/cmake/ASC/ASCConfig.cmake"
    file 644 client/toolkit/tikicpulib-config.cmake \
        "$toolkit/tools/tikicpulib/lib/cmake/tikicpulib/tikicpulib-config.cmake"
    link ../../../tools/tikicpulib/lib/cmake/tikicpulib/tikicpulib-config.cmake \
        "$toolkit/lib64/cmake/tikicpulib/tikicpulib-config.cmake"
    file 644 client/toolkit/AscendCLConfig.cmake \
        "$toolkit/lib64/cmake/AscendCL/AscendCLConfig.cmake"
}

# A tree that programs take for a CANN installation. Its links are relative, so all of PREFIX may be
# moved.
toolkit() {
    link ../../../../include/acl "$toolkit/include/acl"
    for name in libascendcl.so libacl_rt.so libacl_rt_impl.so libacl_tdt_queue.so \
        libacl_tdt_channel.so libascend_dump.so libmsprofiler.so libaclclient.so \
        libaclclient.so.1; do
        link "$(below_prefix "$LIBDIR" ../../../..)/libaclclient.so.1" "$toolkit/lib64/$name"
    done
    # Empty: npud has none of their functions.
    for name in $STUBS; do
        file 755 "$BUILD/toolkit/lib$name.so" "$toolkit/lib64/lib$name.so"
    done
    for name in libnnopbase.so libopapi_math.so libopapi_nn.so; do
        link libopapi.so "$toolkit/lib64/$name"
    done
    for header in include/aclnn/*.h include/aclnnop/*.h; do
        file 644 "$header" "$toolkit/$header"
    done
    for name in libprofapi.so libms_tools_ext.so libnpud_mstx.so libopapi.so libc_sec.so; do
        file 755 "$BUILD/toolkit/$name" "$toolkit/lib64/$name"
    done
    link ../../../lib64/libms_tools_ext.so "$toolkit/tools/mstx/lib64/libms_tools_ext.so"
    for name in mstx/ms_tools_ext.h mstx/ms_tools_ext_mem.h mstx/mstx_impl.h \
        profiling/aprof_pub.h securec.h; do
        file 644 "include/$name" "$toolkit/include/$name"
    done
    [ -z "$PYTHON_MODULE" ] ||
        link "$(below_prefix "$PYTHON_DIR" ../../../../..)/${PYTHON_MODULE##*/}" \
            "$toolkit/python/site-packages/${PYTHON_MODULE##*/}"
    # Where programs look that were written for the vendor's tree.
    for name in include lib64; do
        link "../$name" "$toolkit/$ARCH-linux/$name"
    done
    kernels
    file 755 "$BUILD/toolkit/npu-smi" "$toolkit/bin/npu-smi"
    file 644 client/toolkit/setenv.bash "$toolkit/bin/setenv.bash"
    fill client/toolkit/set_env.sh.in "$toolkit/set_env.sh"
    # By which programs look whether there is a runtime, and of which release.
    file 644 client/toolkit/version.info "$toolkit/share/info/runtime/version.info"
}

# An administrator may have changed it: never replaced, never removed. A user who installs below his
# home may not write there.
configuration() {
    [ "$action" = install ] || return 0
    [ ! -e "$DESTDIR$SYSCONFDIR/npud/npud.conf" ] || return 0
    install -D -m 644 systemd/npud.conf "$DESTDIR$SYSCONFDIR/npud/npud.conf" || [ -z "$DESTDIR" ] ||
        return 1
    [ -e "$DESTDIR$SYSCONFDIR/npud/npud.conf" ] ||
        echo "$SYSCONFDIR/npud/npud.conf is not there: npud has its defaults," \
            "or reads what --config tells it"
}

# What runs of this very installation is stopped before its files go.
stop_services() {
    [ -z "$DESTDIR" ] && command -v systemctl >/dev/null || return 0
    [ "$(systemctl show --value -p FragmentPath npud.service 2>/dev/null)" = \
        "$units/npud.service" ] || return 0
    systemctl disable --now npud.socket npud-admin.socket npud.service npud-keeper.socket \
        npud-keeper.service >/dev/null 2>&1 || true
}

remove_folders() {
    [ -z "$PYTHON_MODULE" ] || rmdir "$DESTDIR$PYTHON_DIR/acl-stubs" 2>/dev/null || true
    if [ -d "$DESTDIR$toolkit" ]; then
        find "$DESTDIR$toolkit" -depth -type d -exec rmdir {} + 2>/dev/null || true
    fi
    for dir in "$PREFIX/lib/npud" "$PREFIX/include/acl/error_codes" "$PREFIX/include/acl"; do
        rmdir "$DESTDIR$dir" 2>/dev/null || true
    done
}

[ "$action" = install ] || stop_services
programs
library
python
service
manuals
toolkit
configuration
if [ "$action" = install ]; then
    echo "npud $VERSION installed under $DESTDIR$PREFIX"
    [ -n "$DESTDIR" ] || ldconfig 2>/dev/null || true
else
    remove_folders
    [ -n "$DESTDIR" ] || systemctl daemon-reload 2>/dev/null || true
    echo "npud removed from $DESTDIR$PREFIX ($SYSCONFDIR/npud kept)"
fi
