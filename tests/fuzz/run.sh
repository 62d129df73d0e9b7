#!/bin/sh
# Run the fuzzers one after the other, the time divided among them, and say how many inputs each
# has run. A fuzzer ends at its first finding; the others run all the same. Ends with 1 if there
# was one.
# usage: run.sh BUILD_DIR SECONDS NAME...
set -u
build=$1
seconds=$2
shift 2
each=$((seconds / $#))
[ "$each" -gt 0 ] || each=1
found=0
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=1:allocator_may_return_null=1"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:print_stacktrace=1"

print_finding() { # NAME LOG STATUS
    reproducer=$(sed -n 's/.*Test unit written to //p' "$2" | tail -1)
    grep -E 'ERROR:|runtime error:|does not hold:|SUMMARY:|Assertion' "$2" | head -5
    printf 'fuzz_%-8s FINDING (status %d); all it said: %s\n' "$1" "$3" "$2"
    printf 'reproducer: %s\nreplay:     %s %s\n' "$reproducer" "$build/tests/fuzz/fuzz_$1" \
        "$reproducer"
}

for name in "$@"; do
    corpus=$build/corpus/$name
    log=$build/fuzz_$name.log
    mkdir -p "$corpus"
    "$build/tests/fuzz/fuzz_$name" -max_total_time="$each" -max_len=4096 -timeout=20 \
        -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
        print_finding "$name" "$log" "$status"
        found=1
    fi
    awk -v name="$name" '
        {
            for (i = 1; i < NF; i++) {
                if ($i == "cov:") cov = $(i + 1)
                if ($i == "corp:") corp = $(i + 1)
            }
        }
        /number_of_executed_units/ {n = $2}
        /average_exec_per_sec/ {rate = $2}
        /^longest step:/ {longest = ", " $0}
        END {
            printf "fuzz_%-8s %9d executions, %6d/s, %5d edges covered, corpus %s%s\n", name, n,
                   rate, cov, corp, longest
        }' "$log"
done
exit "$found"
