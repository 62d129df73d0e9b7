#!/usr/bin/env bash
# What npuctl --json monitor and --json inspect print against their schemas, with a program that
# has something of each kind. usage: test-monitor.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH" PYTHONPATH=$build/python3/dist-packages WORK=$work
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

if ! /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    echo "SKIPPED schemas: needs the package python3-jsonschema"
    exit 0
fi

cat >"$work/program.py" <<'P'
import os
import subprocess
import acl

work = os.environ["WORK"]
monitor = subprocess.Popen(["npuctl", "--json", "monitor"], stdout=subprocess.PIPE, text=True)
lines = [monitor.stdout.readline()]  # connected: the rest is told
acl.init()
assert acl.rt.set_device(0) == 0
acl.rt.malloc(1 << 20, 0)
stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]
acl.rt.create_notify(0)
acl.tdt.create_queue(0)
with open(f"{work}/inspect", "w") as out:
    subprocess.run(["npuctl", "--json", "inspect", "1"], stdout=out, check=True)
subprocess.run(["npuctl", "inject", "lose-device", "--device=1"], stdout=subprocess.DEVNULL,
               check=True)
subprocess.run(["npuctl", "inject", "clear"], check=True)
while "rule 1 cleared" not in lines[-1]:
    lines.append(monitor.stdout.readline())
    assert lines[-1], "the monitor has ended"
monitor.kill()
monitor.wait()
with open(f"{work}/monitor", "w") as out:
    out.writelines(lines)
P
check "a program, a monitor and inspect" npu-run -- /usr/bin/python3 "$work/program.py"
expect "session-begin, device-lost, rule, device-back, rule" \
    "connected session-begin device-lost rule device-back rule" \
    "$(sed 's/.*"kind":"\([^"]*\)".*/\1/' "$work/monitor" | tr '\n' ' ' | sed 's/ $//')"
check "what they print is as the schemas say" \
    /usr/bin/python3 -W ignore - "$top/tests/run" "$work" <<'P'
import json
import sys
import jsonschema

schemas, work = sys.argv[1:]
for name in "monitor", "inspect":
    with open(f"{schemas}/{name}.schema.json", encoding="utf-8") as file:
        schema = json.load(file)
    with open(f"{work}/{name}", encoding="utf-8") as file:
        for line in file:
            jsonschema.validate(json.loads(line), schema)
P
exit $failed
