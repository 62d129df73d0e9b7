#!/usr/bin/env bash
# npu-run and npuctl as a user meets them. usage: test-npu-run.sh BUILD_DIR
# Nothing sleeps and nothing polls: processes meet at FIFOs, and ends are awaited through pidfds.
# Times are guards only.
# What is in single quotes here is for the shell that npu-run starts:
# shellcheck disable=SC2016
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$work"' EXIT
export PATH="$build:$PATH" TMPDIR="$work/tmp"
read -ra cc <<<"${CC:-cc}"
PROTOCOL=$(printf '#include "proto/wire/packet.h"\nPROTOCOL\n' |
    "${cc[@]}" -E -P -I"$top" -I"$build" -xc - | tail -n 1)
export PROTOCOL=${PROTOCOL%u}
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR
mkdir "$TMPDIR"
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
guard=300 # seconds: against hanging only

status_of() { # WANTED COMMAND...
    local wanted=$1
    shift
    timeout "$guard" "$@" >"$work/out" 2>"$work/err"
    expect "exit status $wanted: ${*#"$work"/}" "$wanted" $?
}

# --- helpers that the commands under test run ---

cat >"$work/npud_pid" <<'S'
#!/bin/sh
npuctl status | awk '/^pid:/ {print $2}'
S

# A client that says Hello and no more. usage: client NAME COMMAND...
cat >"$work/client" <<'S'
#!/usr/bin/env python3
import os, socket, subprocess, sys
name = os.fsencode(sys.argv[1])
hello = bytes([8, int(os.environ["PROTOCOL"]), 0x12, len(name)]) + name
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(os.environ["NPUD_SOCKET"])
s.send(b"\x08\x01\x12" + bytes([len(hello)]) + hello)
s.recv(65536)
sys.exit(subprocess.call(sys.argv[2:]))
S

# usage: wait_end PID
cat >"$work/wait_end" <<'S'
#!/usr/bin/env python3
import os, select, sys
try:
    fd = os.pidfd_open(int(sys.argv[1]))
except ProcessLookupError:
    sys.exit(0)
sys.exit(0 if select.select([fd], [], [], 20)[0] else 1)
S

# Runs a command on a terminal of its own, types ^C when it has said "ready", and returns its
# status.
cat >"$work/on_terminal" <<'S'
#!/usr/bin/env python3
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
typed, seen = False, b""
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    if not typed and b"ready" in seen:
        os.write(fd, b"\x03")
        typed = True
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
S

# Exit status: how often ^C arrived. SIGTERM, sent through npu-run, arrives after all that npu-run
# might have passed on.
cat >"$work/count_interrupts" <<'S'
#!/usr/bin/env python3
import os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGINT])
os.kill(os.getppid(), signal.SIGTERM)
signal.sigwait([signal.SIGTERM])
if subprocess.call(["npuctl", "status"], stdout=subprocess.DEVNULL) != 0:
    sys.exit(100)
sys.exit(1 + (signal.SIGINT in signal.sigpending()))
S
chmod +x "$work"/*

# --- exit statuses ---

status_of 0 npu-run -- true
status_of 1 npu-run -- false
status_of 7 npu-run sh -c 'exit 7'
status_of 137 npu-run -- sh -c 'kill -9 $$'
status_of 127 npu-run -- "$work/missing"
echo >"$work/plain"
status_of 126 npu-run -- "$work/plain"
status_of 125 npu-run
status_of 125 npu-run --no-such-option true
status_of 125 npu-run --devices 0 true
status_of 125 npu-run --config "$work/missing" true
status_of 125 env NPUD_BINARY="$work/missing" npu-run true
status_of 0 npu-run --version
expect "npu-run has a version" 0 "$(grep -c unknown "$work/out")"
status_of 0 npu-run --help
status_of 0 npuctl --help
status_of 0 npuctl --version
expect "npuctl has a version" 0 "$(grep -c unknown "$work/out")"
status_of 2 npuctl
status_of 2 npuctl nonsense
status_of 2 npuctl status more
status_of 2 npuctl --no-such-option
status_of 3 env NPUD_ADMIN_SOCKET="$work/no.sock" npuctl status
grep -q "$work/no.sock" "$work/err"
report $? "npuctl names the socket that it tried"
status_of 3 npuctl --socket "$work/no.sock" status
status_of 1 npu-run -- sh -c 'npuctl status >/dev/full'

# --- npud by hand ---

status_of 1 env -u NOTIFY_SOCKET npud --config /dev/null \
    --set npud.socket="$work/no/where/npud.sock"
grep -q 'npu-run -- COMMAND, or npud --runtime-dir=DIR' "$work/err"
report $? "npud without a directory says how it runs with one"
status_of 1 npud --config /dev/null --runtime-dir "$work"
grep -q 'a directory that npud makes' "$work/err"
report $? "a directory that exists is none to make"

# --- what the command gets ---

expect "arguments stay as they are" "a|b c||-v|" "$(npu-run printf '%s|' a 'b c' '' -v)"
expect "input and output pass through" "text" "$(echo text | npu-run -- cat)"
# ls has one descriptor more, for the directory.
expect "no descriptor of npu-run" "$(ls /proc/self/fd)" "$(npu-run -- ls /proc/self/fd)"
npu-run -- "$work/client" a true
report $? "a client can connect"

devices() { npu-run "$@" -- npuctl --json devices | grep -o '"device":' | wc -l; }
printf '[sim]\ndevices = 3\n' >"$work/conf"
expect "two devices by default" 2 "$(devices)"
expect "--devices" 5 "$(devices --devices 5)"
expect "--set" 4 "$(devices --set sim.devices=4)"
expect "--config" 3 "$(devices --config "$work/conf")"
expect "--devices over --config" 1 "$(devices --devices 1 --config "$work/conf")"

# --- npud is shut off from the caller ---

NOTIFY_SOCKET=/nowhere npu-run -- sh -c 'tr "\0" "\n" <"/proc/$('"$work"'/npud_pid)/environ"' \
    >"$work/out"
expect "npud does not talk to our service manager" 0 "$(grep -c NOTIFY_SOCKET "$work/out")"
npu-run -- sh -c 'ls -l "/proc/$('"$work"'/npud_pid)/fd"' >"$work/out" 9>"$work/inherited"
expect "npud inherits no descriptor" 0 "$(grep -c "$work/inherited" "$work/out")"

# --- npuctl ---

for topic in status devices sessions streams events memory limits; do
    npu-run -- npuctl --json $topic | python3 -m json.tool >"$work/out" &&
        grep -q "\"$topic\": [[{]" "$work/out"
    report $? "npuctl --json $topic"
    npu-run -- npuctl $topic >"$work/out" && [ -s "$work/out" ]
    report $? "npuctl $topic"
done
expect "no sessions at first" '{"sessions":[]}' "$(npu-run -- npuctl --json sessions)"
expect "no sessions at the end" '{"sessions":[]}' \
    "$(npu-run -- sh -c '"$0" a true && npuctl --json sessions' "$work/client")"
npu-run -- "$work/client" $'a\e[31m\x9b\n' npuctl sessions >"$work/out"
grep -qF 'a\x1b[31m\x9b\x0a' "$work/out"
report $? "control bytes are shown, not sent"
npu-run -- "$work/client" $'a\e[31m\x9b\n' npuctl --json sessions |
    python3 -m json.tool >"$work/out"
grep -qF '"a\u001b[31m\ufffd\n"' "$work/out"
report $? "and do not harm JSON"

# --- side by side ---

mkfifo "$work/here1" "$work/here2"
# Each tells the other that it is connected, and looks when it knows that the other is.
for i in 1 2; do
    meet="echo >$work/here1; read -r _ <$work/here2"
    [ $i = 1 ] || meet="read -r _ <$work/here1; echo >$work/here2"
    timeout "$guard" npu-run -- "$work/client" "number$i" \
        sh -c "$meet; npuctl --json sessions; $meet" >"$work/side$i" &
done
wait
for i in 1 2; do
    expect "npu-run $i sees its own session only" "\"program\":\"number$i\"" \
        "$(grep -o '"program":"[^"]*"' "$work/side$i")"
done

# --- ends ---

# One npu-run in the background, whose command has written down npud's pid and the directory, and
# goes on as told. The FIFOs are new each time: a process that opens one twice may meet the other
# side's first opening again.
background() { # COMMAND after it [OPTION of npu-run]
    rm -f "$work/ready" "$work/armed" "$work/go"
    mkfifo "$work/ready" "$work/armed" "$work/go"
    NPUD_PID="$work/npud_pid" WORK="$work" npu-run ${2:+"$2"} -- \
        sh -c '"$NPUD_PID" >"$WORK/pid"; dirname "$NPUD_SOCKET" >"$WORK/dir"; echo >"$WORK/ready"
            '"$1" 2>"$work/err" &
    job=$!
    read -r _ <"$work/ready"
    read -r pid <"$work/pid"
    read -r dir <"$work/dir"
}
pause='read -r _ <"$WORK/go"; '

gone() { # NAME
    "$work/wait_end" "$pid"
    report $? "$1: no npud is left"
    [ ! -e "$dir" ]
    report $? "$1: no directory is left"
}

background "$pause"
[ -S "$dir/npud.sock" ] && [ "$(stat -c %a "$dir")" = 700 ]
report $? "the directory is private"
echo >"$work/go"
wait $job
gone "ordinary end"

background "$pause"
disown $job # or bash would announce its end
kill -KILL $job
gone "npu-run killed"
echo >"$work/go" # lets the orphan go

background "$pause"' exit 9'
kill -KILL "$pid"
"$work/wait_end" "$pid"
echo >"$work/go"
wait $job
expect "npud killed: the command goes on" 9 $?
grep -q 'npud ended while the command ran (signal 9)' "$work/err"
report $? "npud killed: npu-run says so"
gone "npud killed"

# --- checking ---

# npu-run beside an npu-check that writes down how it is called, and exits as told; of its first
# call, before the command, as FIRST says.
mkdir "$work/check"
cp "$build/npu-run" "$work/check/npu-run"
cat >"$work/check/npu-check" <<'S'
#!/bin/sh
for last; do :; done
n=$(cat "$WORK/calls" | wc -l)
echo "$*" | sed "s|$last\$|DIRECTORY|" >>"$WORK/calls"
ls "$last" | sed "s/^/$n /" >>"$WORK/files"
echo "told $n"
[ "$n" = 0 ] && exit "${FIRST:-0}"
exit "${JUDGED:-0}"
S
chmod +x "$work/check/npu-check"
check_run() { # WANTED ARGUMENT of npu-run...
    : >"$work/calls"
    : >"$work/files"
    status_of "$1" env WORK="$work" NPUD_BINARY="$build/npud" "$work/check/npu-run" "${@:2}"
}
calls() { # NAME LINE of options, of the second call
    expect "$1" "$2" "$(sed -n 2p "$work/calls")"
}

check_run 0 --check -- sh -c 'echo >"$NPUD_CHECK/file"; echo "$NPUD_CHECK" >"$WORK/dir"; echo out
    stat -c %a "$NPUD_CHECK" >"$WORK/mode"'
read -r dir <"$work/dir"
expect "--check: npu-check is called for the directory" "-- DIRECTORY" "$(sed -n 2p "$work/calls")"
expect "--check: the options are tried first" "-- DIRECTORY" "$(sed -n 1p "$work/calls")"
expect "--check: it sees what the command has written, and only then" "1 file" \
    "$(cat "$work/files")"
expect "--check: the directory is private" 700 "$(cat "$work/mode")"
[ "$(dirname "$dir")" = "$TMPDIR" ] && [ ! -e "$dir" ]
report $? "--check: the directory is in TMPDIR, and removed"
expect "--check: the command's output is its own" out "$(cat "$work/out")"
expect "--check: what is told goes to stderr, once" "told 1" "$(cat "$work/err")"

check_run 0 true
expect "without --check nothing is checked" "" "$(cat "$work/calls")"
check_run 0 env NPUD_CHECK=/x "$work/check/npu-run" -- sh -c 'exit ${NPUD_CHECK:+1}'

JUDGED=86 check_run 86 --check true
JUDGED=86 check_run 3 --check -- sh -c 'exit 3'
JUDGED=86 check_run 7 --check-exitcode=7 true
JUDGED=86 check_run 0 --check-exitcode=0 true
JUDGED=0 check_run 3 --check-exitcode=7 -- sh -c 'exit 3'
JUDGED=1 check_run 125 --check true
grep -q 'npu-check failed (status 1)' "$work/err"
report $? "--check: npu-run says that npu-check failed"
JUDGED=1 check_run 3 --check -- sh -c 'exit 3'
FIRST=125 check_run 125 --check -- sh -c 'echo >"$WORK/ran"'
[ ! -e "$work/ran" ]
report $? "--check: the command does not run if npu-check refuses the options"
check_run 125 --check-exitcode=256 true
check_run 125 --check-exitcode=x true
check_run 125 --check-report="$work/missing/file" true
check_run 125 --check-keep="$work/missing/directory" true
check_run 125 --check-keep="$work" true
check_run 127 --check -- "$work/missing"

check_run 0 --check=race,leak --check-host=seen --check-report="$work/r" --check-suppressions=a \
    --check-suppressions=b --check-write-suppressions="$work/w" --check-keep="$work/kept" -v -- \
    sh -c 'echo >"$NPUD_CHECK/file"'
calls "--check: options of npu-check" "--kinds race,leak --host seen --report $work/r \
--write-suppressions $work/w --suppressions a --suppressions b --verbose -- DIRECTORY"
expect "--check: no file is written when options are tried" "--kinds race,leak --host seen \
--suppressions a --suppressions b --verbose -- DIRECTORY" "$(sed -n 1p "$work/calls")"
[ -e "$work/kept/file" ]
report $? "--check-keep: the files stay"

# With the real one.
status_of 0 npu-run --check-report="$work/report.json" --check-write-suppressions="$work/supp" -- \
    true
grep -q '^npud check: no findings' "$work/err"
report $? "npu-check has the last word"
if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
    /usr/bin/python3 -W ignore -m jsonschema -i "$work/report.json" \
        "$top/tests/run/check.schema.json" >"$work/log" 2>&1
    report $? "the report has the form of check.schema.json"
else
    echo "SKIPPED schema: needs the package python3-jsonschema"
fi
status_of 125 npu-run --check=nonsense -- true
status_of 0 npu-run --check=use-after-free,init -- true
status_of 125 npu-run --check-host=nonsense -- true
echo '{' >"$work/supp"
status_of 125 npu-run --check-suppressions="$work/supp" -- true
status_of 125 npu-check
status_of 125 npu-check "$work/no/where"
status_of 0 npu-check --version
status_of 0 npu-check --help
status_of 125 sh -c "npu-check '$work/kept' >/dev/full"

# --- one that comes back ---

expect "--restartable: status of the command" 7 \
    "$(npu-run --restartable sh -c 'exit 7'; echo $?)"
NOTIFY_SOCKET=/nowhere npu-run --restartable -- \
    sh -c 'ls -l "/proc/$('"$work"'/npud_pid)/fd"' >"$work/out" 9>"$work/inherited"
expect "--restartable: npud inherits no descriptor" 0 "$(grep -c "$work/inherited" "$work/out")"

background "$pause"' "$NPUD_PID" >"$WORK/pid"' --restartable
kill -KILL "$pid"
"$work/wait_end" "$pid"
echo >"$work/go"
wait $job
expect "--restartable: the server killed, the next one answers" 0 $?
[ "$(cat "$work/pid")" != "$pid" ]
report $? "--restartable: it is another"
gone "--restartable, ordinary end"

background "$pause" --restartable
disown $job
kill -KILL $job
gone "--restartable: npu-run killed"
echo >"$work/go"

# "armed" when the signals are; exec leaves no shell between.
for sig in TERM HUP INT USR1; do
    background 'exec python3 -c "import signal, sys
signals = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1]
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
open(\"$WORK/armed\", \"w\").close()
sys.exit(signal.sigwait(signals))"'
    read -r _ <"$work/armed"
    kill -$sig $job
    wait $job
    status=$?
    expect "SIG$sig reaches the command" "$(kill -l $sig)" $status
    gone "SIG$sig"
done

background "exec cat"' <"$WORK/go"'
kill -TERM $job
wait $job
expect "the command ends by a forwarded SIGTERM" 143 $?
gone "SIGTERM"

# A npud that waits to be told to start, and npu-run with signals that its caller ignores.
cat >"$work/slow_npud" <<'S'
#!/bin/sh
echo >"$WORK/ready"
read -r _ <"$WORK/go"
exec "$REAL" "$@"
S
chmod +x "$work/slow_npud"
starting() { # COMMAND of npu-run
    rm -f "$work/ready" "$work/go"
    mkfifo "$work/ready" "$work/go"
    (trap "" HUP INT USR1
        WORK="$work" REAL="$build/npud" NPUD_BINARY="$work/slow_npud" exec npu-run -- "$@") &
    job=$!
    read -r _ <"$work/ready"
}
starting sh -c 'exit 6'
for sig in HUP INT USR1; do
    kill -$sig $job
done
echo >"$work/go"
wait $job
expect "signals that the caller ignores do not end npu-run while npud starts" 6 $?
starting true
kill -HUP $job
kill -TERM $job
wait $job
expect "another one does" 143 $?

timeout "$guard" "$work/on_terminal" npu-run -- "$work/count_interrupts" >"$work/out"
expect "^C arrives once, and npud stays" 1 $?

# --- the same once more, and in other orders ---

"${cc[@]}" -I"$top/include" -o "$work/shuffled" "$top/tests/run/shuffle_program.c" -L"$build" \
    -laclclient || exit 1
export LD_LIBRARY_PATH="$build"
status_of 0 npu-run --repeat=3 -- sh -c 'echo ran >>"$TMPDIR/ran"; echo out; echo err >&2'
expect "--repeat: it runs so often" 3 "$(wc -l <"$TMPDIR/ran")"
rm -f "$TMPDIR/ran"
expect "--repeat: what the first run prints is passed on" "out err" \
    "$(tr '\n' ' ' <"$work/out"; tr -d '\n' <"$work/err")"
status_of 5 npu-run --repeat 3 -- sh -c 'exit 5'
cat >"$work/third" <<'S'
#!/bin/sh
echo x >>"$TMPDIR/runs"
[ "$(wc -l <"$TMPDIR/runs")" -lt 3 ] || { echo third; exit $1; }
S
chmod +x "$work/third"
status_of 9 npu-run --repeat=10 -- "$work/third" 9
expect "--repeat: the run that differs is the last" 3 "$(wc -l <"$TMPDIR/runs")"
expect "--repeat: it is said how" "npu-run: run 3 differs: exit status 9 in place of 0" \
    "$(cat "$work/err")"
rm -f "$TMPDIR/runs"
status_of 1 npu-run --repeat=10 -- "$work/third" 0
rm -f "$TMPDIR/runs"
expect "--repeat: ... and its output" third "$(cat "$work/out")"
for option in --repeat=0 --repeat=x --repeat=1000001 --shuffle=0 --shuffle=-1 --shuffle=1x \
    --shuffle=9223372036854775808; do
    status_of 125 npu-run $option -- true
done

status_of 0 npu-run --shuffle -- true
grep -qE '^npu-run: --shuffle=[1-9][0-9]*$' "$work/err"
report $? "--shuffle: the seed is said"
status_of 0 npu-run --shuffle=7 -- npuctl status
expect "--shuffle=7: nothing more is said" "" "$(cat "$work/err")"
status_of 0 npu-run --repeat=50 --shuffle -- "$work/shuffled" waits
status_of 1 npu-run --repeat=300 --shuffle -- "$work/shuffled"
grep -qE '^npu-run: --shuffle=[0-9]+ does it again$' "$work/err"
report $? "--repeat --shuffle: a missing wait is found, and the seed that shows it"
status_of 125 npu-run --repeat=3 -- sh -c 'echo ran >>"$TMPDIR/ran125"; exit 125'
expect "--repeat: a run that could not be is no difference" 1 "$(wc -l <"$TMPDIR/ran125")"
rm "$TMPDIR/ran125"

[ -z "$(ls "$TMPDIR")" ]
report $? "nothing is left in TMPDIR"
exit $failed
