#!/usr/bin/env bash
# npud --check-backend: over npud's own library as the vendor's, and over libraries that lack what
# npud could do without, or misbehave. usage: test-check-backend.sh BUILD_DIR
# Runs long: 25 s.
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH"
read -ra cc <<<"${CC:-cc}"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY NPUD_EXECUTOR XDG_RUNTIME_DIR FAKE_ACL
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
guard=600 # seconds: against hanging only

ask() { # STATUS COMMAND...: the table is in $work/table, and as JSON in $work/json
    local wanted=$1
    shift
    rm -f "$work/json"
    timeout "$guard" "$@" --json="$work/json" >"$work/table" 2>"$work/log"
    expect "exit status $wanted: ${*#"$work"/}" "$wanted" $?
}

judge() { # NAME ROW...
    local name=$1
    shift
    check "$name" python3 "$top/tests/run/check_backend.py" "$work/json" "$@"
}

"${cc[@]}" -shared -fPIC -o "$work/kernel.so" "$top/tests/vendor/host_kernel.c"
"${cc[@]}" -shared -fPIC -I"$top/include" -o "$work/fake.so" \
    "$top/tests/vendor/fake_acl.c"
"${cc[@]}" -shared -fPIC -I"$top/include" -DLAZY -o "$work/lazy.so" \
    "$top/tests/vendor/fake_acl.c"

# --- over npud's own library, whose devices are strict: no pointer of one can be read ---

own="acl:$build/libaclclient.so.1"
ask 0 npu-run --strict -- npud --check-backend="$own" --nesting --kernel="$work/kernel.so:fill"
judge "nested: what hardware has to show holds" \
    "1=yes:of [0-9]+ symbols$" 2=yes:AscendSim 3=yes:256 4=yes 5=yes "6=yes: 0 words, 0 of" 7=yes \
    "8=yes|differs:VMM" 9=yes 10=yes 11=yes "12=yes:64 wait" "13=no: 0 MiB.* 0 MiB" \
    "14=yes:507013.*did not run" 15=yes 16=yes 17=yes 18=yes "19=not known"
expect "nested: the table has a line for each row" 19 \
    "$(grep -cE '^( |1)[0-9] (yes|no|differs|not known) ' "$work/table")"

ask 0 npu-run --strict -- npud --check-backend "$own" --nesting --rows=2,3 --device=1
judge "the device that is asked for" "2=yes:number 1"
expect "only rows that are asked for" "2 3" \
    "$(python3 -c 'import json, sys
print(*(row["number"] for row in json.load(open(sys.argv[1]))["rows"]))' "$work/json")"
ask 1 npu-run --strict -- npud --check-backend "$own" --nesting --rows=1,2,3 --device=7
judge "a device that there is not" 1=yes "2=no:107001" "3=not known:row 2"

# --- refused ---

ask 1 npu-run --strict -- npud --check-backend "$own"
judge "npud's own library, without leave" "1=no:npud's own library" "3=not known:row 1"
ask 1 npud --check-backend=acl:libacl.so --rows=1
judge "no path" "1=no:the path of the library"
ask 1 npud --check-backend=acl:/nowhere/libacl.so --rows=1
judge "no file" "1=no:No such file"
for wrong in "" acl no:/x "acl:/x --rows" "acl:/x --device=16" "acl:/x --limit=0" "acl:/x y"; do
    # shellcheck disable=SC2086 # words
    npud --check-backend $wrong >"$work/log" 2>&1
    expect "wrong usage: $wrong" 2 $?
done
NPUD_EXECUTOR=/nowhere/npud-executor npud --check-backend acl:/x >/dev/null 2>"$work/log"
expect "without npud-executor" "1 1" "$? $(grep -c 'npud-executor cannot be started' "$work/log")"

# --- a library with the least that npud needs ---

fake="acl:$work/fake.so"
ask 1 npud --check-backend "$fake" --limit=60
judge "absent symbols are capabilities that are absent" \
    "1=yes:absent: .*aclrtMallocPhysical" "2=yes:absent: share, register, set" 3=yes 4=no 5=no \
    6=no 7=yes 8=no 9=no 10=no "12=no" 14=no 16=no "11=not known" 17=no 18="not known"

ask 0 npud --check-backend="acl:$work/lazy.so" --rows=1,2,3,4
judge "so are those of functions that are there, and do nothing" "1=yes:^17 of" \
    "2=yes:absent: share, register, set, reduce, word, " 3=yes 4=no

# --- libraries that misbehave ---

export FAKE_ACL=segv
ask 1 npud --check-backend "$fake" --rows=1,3,7
judge "a crash is the end of its row" 1=yes "3=no:signal 11" 7=yes
export FAKE_ACL=exit
ask 1 npud --check-backend "$fake" --rows=1,3,7
judge "so is an exit" 1=yes "3=no:status 3" 7=yes
export FAKE_ACL=hang
ask 1 npud --check-backend "$fake" --rows=1,3,7 --limit=10
judge "a call that does not return, too" 1=yes "3=no:not over after 10 s" 7=yes
export FAKE_ACL=lies
ask 1 npud --check-backend "$fake" --rows=1,3,7
judge "wrong bytes are seen" 1=yes "3=no:other bytes" 7=yes

exit "$failed"
