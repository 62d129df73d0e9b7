#!/usr/bin/env bash
# `pip install .` into a virtual environment, without isolation and without a download: the module,
# its library and its stubs are in the wheel, and the wheel is the same when it is made again.
# usage: test-pip.sh BUILD_DIR
# Runs long: 13 s.
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

if ! /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null; then
    echo "SKIPPED test-pip.sh: needs the package python3-venv"
    exit 0
fi
# In a copy of the tree, because pip calls make: other tests run what is built. What was built is
# taken as it is, whatever the flags of this make: KEEP_FLAGS. No index is asked.
mkdir -p "$work/tree/build"
tar -C "$top" -c --exclude='./build*' --exclude=./.git . | tar -x -C "$work/tree"
for part in flags flags-python proto client python3 libaclclient.so.1 libaclclient.so; do
    cp -a "$build/$part" "$work/tree/build/"
done
export KEEP_FLAGS=yes PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
unset PYTHONPATH LD_LIBRARY_PATH BUILD MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
pip=("$work/venv/bin/pip" --quiet)
check "venv" /usr/bin/python3 -m venv "$work/venv"
cd "$work/tree" || exit 1
check "pip wheel" "${pip[@]}" wheel --no-build-isolation --no-deps -w "$work/first" .
check "pip wheel again" "${pip[@]}" wheel --no-build-isolation --no-deps -w "$work/second" .
check "both wheels are the same" cmp "$work/first/"*.whl "$work/second/"*.whl
check "pip install" "${pip[@]}" install --no-build-isolation .
cd "$work" || exit 1
check "pip check" "${pip[@]}" check
site=$(echo "$work"/venv/lib/python3*/site-packages)

cat >"$work/program.py" <<'END'
import acl, acl.rt, sys
site = sys.argv[1]
assert acl.__file__.startswith(site), acl.__file__
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libaclclient" in line}
assert libraries == {site + "/acl_npud.libs/libaclclient.so.1"}, libraries
assert acl.rt.set_device(1) == 0, acl.get_recent_err_msg()
event, ret = acl.rt.create_event()
assert ret == 0 and acl.rt.record_event(event, 0) == 0
assert acl.rt.synchronize_event(event) == 0
assert "Errors:" in acl.rt.create_event.__doc__
END
check "a program of the environment uses what the wheel brought" \
    "$build/npu-run" --devices 2 -- "$work/venv/bin/python" "$work/program.py" "$site"
for file in __init__ rt tdt util npud _structs; do
    check "stub $file" test -s "$site/acl-stubs/$file.pyi"
done
check "pip uninstall" "${pip[@]}" uninstall --yes acl-npud
check "nothing is left" test -z "$(find "$site" -name '*acl*' -not -path '*/pip/*' -print)"
exit $failed
