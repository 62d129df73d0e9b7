#!/bin/sh
# Run test programs and scripts, several at a time, and close with one line: "N passed, N failed".
# usage: run-all.sh BUILD_DIR TEST...
# A program is a libcheck suite ("Checks: N, Failures: N, Errors: N"); a script prints "ok ..." and
# "not ok ..." lines.
# TEST_JOBS: how many at a time. Otherwise two more than there are processors, because many only
# wait. They begin in the order given. SKIPPED_LIST: a file that gets the names of the programs of
# which a test was skipped. ONE_CPU: each program has one processor.
set -u

# A processor that may be used, for the place among those that run at a time: from 0.
choose_cpu() { # PLACE
    awk -v place="$1" '/^Cpus_allowed_list/ {
        n = split($2, ranges, ",")
        for (i = 1; i <= n; i++) {
            last = split(ranges[i], ends, "-")
            for (c = ends[1]; c <= ends[last]; c++) cpus[count++] = c
        }
        print cpus[place % count]
    }' /proc/self/status
}

# One program, in a process of its own: run-all.sh --one DIR TEST. Its output and its line go to
# DIR/NAME.out and .sum.
run_one() {
    dir=$1
    t=$2
    base=$dir/$(printf '%s' "$t" | tr / _)
    out=$base.out
    begun=$(date +%s)
    # shellcheck disable=SC2086 # RUNNER is words: an emulator with its options, or nothing
    case $t in
    *.sh) timeout "$limit" bash "$t" "$NPUD_BINDIR" >"$out" 2>&1 ;;
    *) CK_LOG_FILE_NAME=$base.log timeout "$limit" \
        ${ONE_CPU:+taskset -c "$(choose_cpu "$TEST_PLACE")"} ${RUNNER:-} "$t" >"$out" 2>&1 ;;
    esac
    status=$?
    # Ended by the guard: libcheck says nothing, but its log has each test that came to an end.
    [ "$status" -ne 124 ] || [ ! -e "$base.log" ] ||
        { grep -v :P: "$base.log"; echo "the last to end:"; tail -n 1 "$base.log"; } >>"$out"
    # What libcheck sums up, and single lines of scripts.
    p=$(awk '/^[0-9]+%: Checks:/ {gsub(",", ""); n += $3 - $5 - $7}
        /^ok / {n++} END {print n + 0}' "$out")
    f=$(awk '/^[0-9]+%: Checks:/ {gsub(",", ""); n += $5 + $7}
        /^not ok / {n++} END {print n + 0}' "$out")
    # Died, or lied: no count, or a bad status without a failure.
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    took=$(($(date +%s) - begun))
    echo "$p $f $took $t" >"$base.sum"
    {
        printf '%-40s %4d passed in %3d s' "${t##*/}" "$p" "$took"
        [ "$f" -eq 0 ] || printf ', %d FAILED (status %d)' "$f" "$status"
        printf '\n'
        [ "$f" -eq 0 ] || sed 's/^/    /' "$out"
        sed -n 's/^cells:/    &/p' "$out" # how many cells of the event reference were asked for
    } >"$base.line"
    # In one piece, whoever else has something to say.
    flock "$dir/lock" cat "$base.line"
}

# Guards against hanging, for one program and for one case of it: not limits of time, which a busy
# machine would break.
limit=1800
CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-30}
export CK_TIMEOUT_MULTIPLIER
if [ -n "${NPUD_TEST_LONG:-}" ]; then limit=3600; fi

if [ "$1" = --one ]; then
    run_one "$2" "$3"
    exit 0
fi

NPUD_BINDIR=$1
export NPUD_BINDIR
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
touch "$dir/begun"
jobs=${TEST_JOBS:-$(($(nproc) + 2))}

printf '%s\n' "$@" |
    xargs -P "$jobs" --process-slot-var=TEST_PLACE -I '{}' sh "$0" --one "$dir" '{}'

# What did not come to its end has no sum.
passed=0
failed=0
named= # programs that failed
for t in "$@"; do
    base=$dir/$(printf '%s' "$t" | tr / _)
    p=0 f=1
    [ ! -e "$base.sum" ] || read -r p f _ _ <"$base.sum"
    passed=$((passed + p))
    failed=$((failed + f))
    [ "$f" -eq 0 ] || named="$named ${t##*/}"
done

# They run side by side what is built: none of them builds there. A release has a tree of its own.
written=$(find "$NPUD_BINDIR" -path "$NPUD_BINDIR/release" -prune -o ! -type d \
    -newer "$dir/begun" -print)
if [ -n "$written" ]; then
    failed=$((failed + 1))
    named="$named written-while-tests-ran"
    printf 'Written below %s while its tests ran:\n%s\n' "$NPUD_BINDIR" "$written" |
        tee "$dir/_written-while-tests-ran.line"
fi

skipped=$(for t in "$@"; do
    sed -n "s|^SKIPPED |    ${t##*/}: |p" "$dir/$(printf '%s' "$t" | tr / _).out"
done)
[ -z "${SKIPPED_LIST:-}" ] || for t in "$@"; do
    if grep -q '^SKIPPED ' "$dir/$(printf '%s' "$t" | tr / _).out"; then echo "$t"; fi
done >"$SKIPPED_LIST"

echo
[ $# -lt 10 ] || cat "$dir"/*.sum | sort -k3 -rn | head -n 5 |
    awk '{ sub(".*/", "", $4); printf "%s %s %d s", (NR > 1 ? "," : "longest:"), $4, $3 }
        END { print "" }'
[ -z "$skipped" ] || printf 'SKIPPED here:\n%s\n' "$skipped"
# Why, once more: of a long log often only the end is kept.
for name in $named; do
    sed '/:P:/d' "$dir"/*_"$name".line | tail -n 60
done
[ -z "$named" ] || echo "FAILED:$named"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
