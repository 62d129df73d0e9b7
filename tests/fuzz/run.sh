#!/bin/sh
# Run the fuzzers one after the other, the time divided among them, and say how many inputs each
# has run. Those that are built for speed come first; their new inputs are then run with sanitizers.
# A fuzzer ends at its first finding; the others run all the same. Ends with 1 if there was one.
# usage: run.sh BUILD_DIR SECONDS "NAME..." "NAME..."
#        the names of those that have a program for speed, in BUILD_DIR/fast, and of all
set -u
build=$1
seconds=$2
fast=$3
all=$4
each=$((seconds / $(echo "$fast $all" | wc -w)))
[ "$each" -gt 0 ] || each=1
found=0
ASAN_OPTIONS_GIVEN=${ASAN_OPTIONS:-}
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:print_stacktrace=1"

print_finding() { # PROGRAM LOG STATUS
    reproducer=$(sed -n 's/.*Test unit written to //p' "$2" | tail -1)
    grep -E 'ERROR:|runtime error:|does not hold:|SUMMARY:|Assertion' "$2" | head -5
    printf '%s: FINDING (status %d); all it said: %s\n' "${1##*/}" "$3" "$2"
    printf 'reproducer: %s\nreplay:     %s %s\n' "$reproducer" "$1" "$reproducer"
}

run_fuzzer() { # DIR NAME HOW
    # An npud that is put back has left what it held, and its heap is counted by the target.
    # Nor has that heap stacks: those of libFuzzer's own blocks help nobody, and take time.
    case " $fast " in *" $2 "*) leaks=0 frames=0 ;; *) leaks=1 frames=30 ;; esac
    # Longer ones of those that have an npud are the same, more often.
    case " $fast " in *" $2 "*) length=256 ;; *) length=4096 ;; esac
    corpus=$build/corpus/$2
    log=$1/fuzz_$2.log
    program=$1/tests/fuzz/fuzz_$2
    mkdir -p "$corpus"
    options=detect_leaks=$leaks:allocator_may_return_null=1:malloc_context_size=$frames
    export ASAN_OPTIONS="${ASAN_OPTIONS_GIVEN}:$options"
    "$program" -max_total_time="$each" -max_len="$length" -timeout=20 -entropic=0 \
        -reload=0 -print_funcs=0 \
        -print_final_stats=1 -detect_leaks=$leaks \
        -artifact_prefix="$1/$2-" "$corpus" "tests/fuzz/corpus/$2" >"$log" 2>&1
    status=$?
    if [ "$status" -ne 0 ]; then
        print_finding "$program" "$log" "$status"
        found=1
    fi
    awk -v name="$2" -v how="$3" '
        {
            for (i = 1; i < NF; i++) {
                if ($i == "cov:") cov = $(i + 1)
                if ($i == "corp:") corp = $(i + 1)
            }
        }
        /number_of_executed_units/ {n = $2}
        /average_exec_per_sec/ {rate = $2 "/s"}
        /^executions:/ {rate = $(NF - 2) "/s of CPU time"}
        /^longest step:/ {longest = ", " $0}
        END {
            printf "fuzz_%-8s %s%9d executions, %s, %d edges covered, corpus %s%s\n", name, how, n,
                   rate, cov, corp, longest
        }' "$log"
}

for name in $fast; do
    run_fuzzer "$build/fast" "$name" "for speed  "
done
for name in $all; do
    run_fuzzer "$build" "$name" "sanitizers "
done
exit "$found"
