#!/bin/sh
# Run test programs and scripts one after the other, and close with one line: "N passed, N failed".
# usage: run-all.sh BUILD_DIR TEST...
# A program is a libcheck suite ("Checks: N, Failures: N, Errors: N"); a script prints "ok ..." and "not ok ..." lines.
set -u
NPUD_BINDIR=$1
export NPUD_BINDIR
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
passed=0
failed=0
named= # programs that failed
skipped=
# A guard against hanging, for one program.
limit=300
if [ -n "${NPUD_TEST_LONG:-}" ]; then limit=3600; fi

for t in "$@"; do
    begun=$(date +%s)
    # shellcheck disable=SC2086 # RUNNER is words: an emulator with its options, or nothing
    case $t in
    *.sh) timeout "$limit" bash "$t" "$NPUD_BINDIR" >"$out" 2>&1 ;;
    *) timeout "$limit" ${RUNNER:-} "$t" >"$out" 2>&1 ;;
    esac
    status=$?
    # What libcheck sums up, and single lines of scripts.
    p=$(awk '/^[0-9]+%: Checks:/ {gsub(",", ""); n += $3 - $5 - $7} /^ok / {n++} END {print n + 0}' "$out")
    f=$(awk '/^[0-9]+%: Checks:/ {gsub(",", ""); n += $5 + $7} /^not ok / {n++} END {print n + 0}' "$out")
    # Died, or lied: no count, or a bad status without a failure.
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ "$p" -eq 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    passed=$((passed + p))
    failed=$((failed + f))
    printf '%-40s %4d passed in %3d s' "${t##*/}" "$p" $(($(date +%s) - begun))
    skipped="$skipped$(sed -n 's/^SKIPPED /    /p' "$out" | sed 's/$/\\n/' | tr -d '\n')"
    if [ "$f" -ne 0 ]; then
        named="$named ${t##*/}"
        printf ', %d FAILED (status %d)\n' "$f" "$status"
        sed 's/^/    /' "$out"
    else
        printf '\n'
    fi
    sed -n 's/^cells:/    &/p' "$out" # how many cells of the event reference were asked for
done

echo
[ -z "$skipped" ] || printf 'SKIPPED here:\n%b' "$skipped"
[ -z "$named" ] || echo "FAILED:$named"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
