#!/usr/bin/env bash
# A trace as users get it: as JSON, and as a page in a browser. usage: test-trace.sh BUILD_DIR
# Checks are run by name, and some by sh:
# shellcheck disable=SC2016,SC2317
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH" TMPDIR="$work" LD_LIBRARY_PATH="$build"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR
read -ra cc <<<"${CC:-cc}"
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
export guard=300 # seconds: against hanging only

status_of() { # WANTED COMMAND...
    local wanted=$1
    shift
    "$@"
    [ $? -eq "$wanted" ]
}

# npud is killed when the program is over, and some events have been written.
ends_without_npud() {
    timeout "$guard" npu-run --trace=dead.json -- sh -c './trace_program && sleep 0.2 &&
        kill -9 $(npuctl status --json | sed "s/.*\"pid\":\([0-9]*\).*/\1/")' 2>dead.log
    grep -q "the trace is not whole" dead.log
}

"${cc[@]}" -I"$top/include" -o "$work/trace_program" "$top/tests/run/trace_program.c" \
    -L"$build" -laclclient || exit 1
cd "$work" || exit 1

check "npu-run --trace" timeout "$guard" npu-run --trace=trace.json -- ./trace_program
check "the trace has its form" /usr/bin/python3 "$top/tests/run/trace.py" schema \
    "$top/tests/run/trace.schema.json" trace.json
check "arrows between processes" /usr/bin/python3 "$top/tests/run/trace.py" arrows trace.json
check "names, ranges, marks and times" /usr/bin/python3 "$top/tests/run/trace.py" text trace.json
check "calls, arrows to their tasks, counters" /usr/bin/python3 "$top/tests/run/trace.py" calls \
    trace.json
check "Perfetto drops nothing of it, and turns no arrow round" /usr/bin/python3 \
    "$top/tests/run/trace.py" perfetto trace.json
check "npud is killed before the trace ends: that is said" ends_without_npud
check "... and what there was is there" /usr/bin/python3 "$top/tests/run/trace.py" arrows dead.json
check "--trace-size" timeout "$guard" npu-run --trace=size.json --trace-size=1M -- ./trace_program
check "... that is none" status_of 125 timeout "$guard" npu-run --trace=size.json \
    --trace-size=few -- touch ran
says_own_size() {
    npu-run --trace=size.json --trace-size=5G -- touch ran 2>&1 |
        grep -qxF 'npu-run: --trace-size wants bytes, as 64M, of up to 4G, not "5G"'
}
check "... that is too large" says_own_size
check "... without --trace" status_of 125 timeout "$guard" npu-run --trace-size=1M -- touch ran
check "... and the command has not run" test ! -e ran
check "--trace without a file" status_of 125 timeout "$guard" npu-run --trace -- touch ran
check "... and the command has not run" test ! -e ran
check "... and none has the name --" test ! -e ./--
check "npuctl trace stats of what cannot be read" sh -c \
    'npuctl trace stats . 2>&1 | grep -q "^npuctl: .: Is a directory"'
check "npuctl trace stats" sh -c \
    'npuctl trace stats trace.json >stats && npuctl trace stats --json trace.json >stats.json'
check "... has a row for each call" grep -Eq '^call +3 .* aclrtRecordEvent$' stats
check "... as JSON, too" /usr/bin/python3 "$top/tests/run/trace.py" schema \
    "$top/tests/run/trace-stats.schema.json" stats.json
check "... and counts right" /usr/bin/python3 "$top/tests/run/trace.py" stats trace.json stats.json
check "the status is that of the command" status_of 7 timeout "$guard" npu-run --trace=7.json -- \
    sh -c 'exit 7'
check "... and the trace is there" /usr/bin/python3 "$top/tests/run/trace.py" schema \
    "$top/tests/run/trace.schema.json" 7.json
check "without a standard input and output, too" sh -c \
    'timeout "$guard" npu-run --trace=closed.json -- true <&- >&-; test -s closed.json'
check "a trace that the command itself has stopped" sh -c \
    'timeout "$guard" npu-run --trace=stopped.json -- npuctl trace stop && test -s stopped.json'
check "a file that cannot be written ends the run before it begins" status_of 125 \
    timeout "$guard" npu-run --trace=/nowhere/trace.json -- touch ran
check "... and the command has not run" test ! -e ran

check "npu-run --trace=FILE.html" timeout "$guard" npu-run --trace=trace.html -- ./trace_program
check "npuctl trace stats of a page" sh -c \
    'npuctl trace stats trace.html | grep -Eq "^call +3 .* aclrtRecordEvent$"'
check "the page asks for nothing" sh -c "! grep -Eo '(src|href)=\"?[a-z]+:' trace.html"

# A wait that is missing, drawn.
check "a program without a wait is built" "${cc[@]}" -g -DWRONG=1 -I"$top" -I"$top/include" \
    -o missing_wait "$top/tests/check/event_missing.c" -L"$build" -laclclient
check "npu-run --check --trace" status_of 86 timeout "$guard" npu-run --check \
    --trace=found.json -- ./missing_wait
check "... has its form" /usr/bin/python3 "$top/tests/run/trace.py" schema \
    "$top/tests/run/trace.schema.json" found.json
check "... and an arrow where the wait is missing" /usr/bin/python3 "$top/tests/run/trace.py" \
    findings found.json
printf x > unreadable.json
printf '{"findings": {}}' > other.json
refuses_findings() { # FILE WHY
    timeout "$guard" npu-run -- sh -c "npuctl trace start >log && npuctl trace stop >log &&
        npuctl trace dump --findings=$1" > out 2> err
    [ $? -eq 1 ] && [ ! -s out ] && grep -qxF "npuctl: $1: $2" err
}
check "findings that are not there" refuses_findings none.json "No such file or directory"
check "... that are no JSON" refuses_findings unreadable.json "this is no JSON"
check "... that are no report" refuses_findings other.json \
    "this is no report of npu-check"

# The page in a browser: what it finds, and what it draws an arrow to.
show_page() { # WORDS
    chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$work/browser" --virtual-time-budget=10000 --window-size=1200,300 \
        --dump-dom "file://$work/trace.html#search=$1" 2>/dev/null
}
look_up() { # WORDS
    show_page "$1" | sed -n '/id="found"/,/<\/ol>/p'
}
finds_arrow() {
    local where='\(trace_program \(pid [0-9]+, session [0-9]+\), stream [0-9]+ on device 0\)'

    look_up "IPC%20record" | grep -qE "release: IPC record $where → IPC wait $where"
}
finds_times() {
    look_up "aclrtRecordEvent" |
        grep -qE '>[0-9.]+ (ms|µs), lasts [0-9.]+ (ms|µs): aclrtRecordEvent'
}
has_legend() {
    [ "$(show_page "" | grep -o '<span><i class="[a-z]*" style="[^"]*"></i>[a-z, ]*</span>' |
        grep -cE '>(call|task|range|release|submit)<')" -eq 5 ]
}
finds_nothing() {
    [ "$(look_up "no%20such%20thing" | grep -c '<li>')" -eq 0 ]
}
# As high as the view: browsers draw nothing on a canvas that has room for thousands of tracks.
fits_window() {
    local height

    height=$(show_page "" | sed -n 's/.*<canvas id="canvas"[^>]* height: \([0-9]*\)px.*/\1/p')
    [ "$height" -gt 0 ] && [ "$height" -lt 200 ]
}
if command -v chromium >/dev/null; then
    check "the browser finds the arrow from the record to the wait" finds_arrow
    check "... and nothing that is not there" finds_nothing
    check "what is found has its time" finds_times
    check "there is a legend of what there is" has_legend
    check "the picture fits the window, however many tracks there are" fits_window
else
    echo "SKIPPED the page in a browser: needs chromium (make deps-browser)"
fi
exit "$failed"
