#!/usr/bin/env bash
# The tests of the module acl, each file in a process and under an npud of its own.
# usage: test-python.sh BUILD_DIR [FILE [TEST...]]
# Runs long: 35 s.
set -u
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/../python" && pwd)
shift
# shellcheck source=tests/run/mode.sh
. "$here/../run/mode.sh"
export NPUD_BINDIR=$build
export PYTHONPATH=$build/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
failed=0
guard=900 # seconds: against hanging only, above that of tests/python/support.py

files=("$here"/test_*.py)
if [ $# -gt 0 ]; then
    files=("$here/$1")
    shift
fi
for f in "${files[@]}"; do
    echo "# ${f##*/}"
    "$build/npu-run" "${npu_run_options[@]}" --devices 2 -- \
        timeout "$guard" /usr/bin/python3 -X dev -W error "$f" "$@" || failed=1
done
exit $failed
