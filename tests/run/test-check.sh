#!/usr/bin/env bash
# The pairs of tests/check: what npu-run --check says of programs that are wrong in one thing, and
# of those that are right. usage: test-check.sh BUILD_DIR [PAIR...]
# Runs long: 35 s.
set -u
build=$(cd "$1" && pwd)
shift
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/mode.sh
. "$top/tests/run/mode.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work" PYTHONDONTWRITEBYTECODE=1
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR ASCEND_RT_VISIBLE_DEVICES
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
plain=()

check "reports are judged as they must be" /usr/bin/python3 "$top/tests/check/test_judge.py"
if ! "$build/npu-run" --help | grep -q -- '--check'; then
    echo "SKIPPED what npu-run --check says: it has no --check. The programs run without it"
    plain=(--plain)
fi
/usr/bin/python3 "$top/tests/check/run.py" "${plain[@]}" "$build" "$@" -- \
    "${npu_run_options[@]}" || failed=1
[ $# -eq 0 ] || exit $failed

# As packages have it: the library says which of its functions was called, without its symbols.
if [ ${#plain[@]} -eq 0 ]; then
    mkdir "$work/stripped"
    cp -a "$build"/{npu-run,npu-check,npud,npud-keeper,npud-supervisor,libaclclient.so*} \
        "$work/stripped"
    strip "$work/stripped/libaclclient.so"
    check "calls have their names in a library without symbols" /usr/bin/python3 \
        "$top/tests/check/run.py" "$work/stripped" leak_buffer leak_unsent empty_reset vmm_unmap \
        vmm_unmapped uninitialised_again

    # Calls come from a file that has no name in UTF-8.
    printf 'import acl\nacl.rt.set_device(0)\nassert acl.rt.get_device() == (0, 0)\n' \
        >"$work/"$'\xff.py'
    check "a script may have any name" env PYTHONPATH="$build/python3/dist-packages" \
        "$build/npu-run" --check -- /usr/bin/python3 "$work/"$'\xff.py'

    # A file that only says that it is the library: its symbols are nothing for a terminal.
    read -ra cc <<<"${CC:-cc}"
    "${cc[@]}" -std=gnu11 -g -DWRONG=1 -I"$top" -I"$top/include" -o "$work/leak" \
        "$top/tests/check/leak_memory.c" -L"$build" -laclclient -pthread || exit 1
    LD_LIBRARY_PATH="$work/stripped" "$work/stripped/npu-run" --check --check-keep="$work/kept" \
        -- "$work/leak" >"$work/log" 2>&1
    "$build/npu-check" "$work/kept" >"$work/named" 2>&1
    check "an allocation has its call" grep -q "made by *aclrtMalloc, " "$work/named"
    LC_ALL=C sed -i 's/\x00aclrtMalloc\x00/\x00aclrtM\x1bloc\x00/g' \
        "$work/stripped/libaclclient.so.1"
    "$build/npu-check" "$work/kept" >"$work/named" 2>&1
    check "a symbol that is no name is no call" grep -q "made by *a call, " "$work/named"
fi

# What was not looked at must not look clean.
mkdir "$work/short"
: >"$work/short/4711.0"
"$build/npu-check" "$work/short" >"$work/log" 2>"$work/short.text"
check "a file without a word is told" grep -q "4711.0: .*process was not checked" "$work/short.text"
exit "$failed"
