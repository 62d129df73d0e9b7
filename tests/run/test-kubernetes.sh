#!/usr/bin/env bash
# The example of Kubernetes: the device plugin beside a real npud and a kubelet that the test plays
# over the real API; what a host gets from the image; and the manifests.
# usage: test-kubernetes.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
# Debian's packages belong to Debian's Python.
python=/usr/bin/python3

if ! "$python" -c 'import google.protobuf, grpc' 2>/dev/null; then
    echo "SKIPPED test-kubernetes.sh: needs the packages python3-grpcio and python3-protobuf" \
        "(make deps-cluster)"
    echo "ok nothing to run here"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR
check "make install" make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build"
check "install-on-host.sh" "$top/examples/kubernetes/install-on-host.sh" "$work/host" "$work/root"
"$python" "$top/tests/run/device_plugin.py" "$build" "$work" || failed=1

if "$python" -c 'import kubernetes, yaml' 2>/dev/null; then
    for manifest in "$top"/examples/kubernetes/*.yaml; do
        check "${manifest##*/}" "$python" -W ignore "$top/tests/run/manifest.py" "$manifest"
        # It notices what no Kubernetes has.
        sed 's/^\( *\)containers:/\1container:/' "$manifest" >"$work/wrong.yaml"
        ! "$python" -W ignore "$top/tests/run/manifest.py" "$work/wrong.yaml" >"$work/log" 2>&1 &&
            grep -q 'has no field' "$work/log"
        report $? "... and a wrong name in it is found"
    done
else
    echo "SKIPPED manifests: needs the package python3-kubernetes (make deps-cluster)"
fi
exit "$failed"
