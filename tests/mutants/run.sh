#!/usr/bin/env bash
# Breaks the tree with each patch of tests/mutants, and demands that a test notices.
#
# usage: run.sh --check [NAME...]        each patch names tests that exist, and applies
#        run.sh FOLDER [NAME...]         builds each mutant in FOLDER and runs the tests it names
#
# A patch begins with two lines, before the diff:
#     what: one sentence: what the mutation breaks
#     test: unit/test_a e2e/test_b      programs below tests/; at least one must fail.
#                                       run/test-check:NAME: a script with an argument
# FOLDER keeps a copy of the tree with a build of its own, so that a mutant compiles only the files
# that it changes. With NPUD_MUTANT_SECONDS=n a test that runs for longer than n seconds counts as
# failed (default 120).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
patches=tests/mutants
limit=${NPUD_MUTANT_SECONDS:-120}
# Options and variables of a calling make are not for the builds below: their BUILD is another one.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

header() { # FIELD PATCH
    sed -n "/^diff /q; s/^$1: *//p" "$2"
}

# The source file of a test, or nothing.
source_of() {
    for suffix in .c .sh .cpp; do
        if [ -e "tests/${1%:*}$suffix" ]; then echo "tests/${1%:*}$suffix"; fi
    done
}

# The top of FOLDER's tree is a top for git as well, whatever repository is around it.
apply() { # TREE OPTION... PATCH
    local tree=$1
    shift
    GIT_CEILING_DIRECTORIES=$(dirname "$(realpath "$tree")") git -C "$tree" apply \
        --whitespace=nowarn "$@"
}

# Complains about a patch that cannot be a mutant.
check_patch() {
    local patch=$1 ok=0 test
    if [ -z "$(header what "$patch")" ]; then
        echo "$patch: no line 'what:' before the diff"
        ok=1
    fi
    if [ -z "$(header test "$patch")" ]; then
        echo "$patch: no line 'test:' before the diff"
        ok=1
    fi
    for test in $(header test "$patch"); do
        if [ -z "$(source_of "$test")" ]; then
            echo "$patch: there is no test $test"
            ok=1
        fi
    done
    if ! apply . --check "$(realpath "$patch")"; then
        echo "$patch: DOES NOT APPLY"
        ok=1
    fi
    return $ok
}

check_all() {
    local ok=0 patch
    for patch in "$@"; do
        check_patch "$patch" || ok=1
    done
    return $ok
}

# Makes the copy equal to the tree. Only files that differ get a new time, so that make builds no
# more than it must.
copy_tree() {
    local file list
    list=$(mktemp)
    find . \( -path './build*' -o -path ./.git -o -name __pycache__ \) -prune -o -type f -print |
        sort >"$list"
    mkdir -p "$tree"
    while IFS= read -r file; do
        if ! cmp -s "$file" "$tree/$file"; then
            mkdir -p "$tree/$(dirname "$file")"
            cp "$file" "$tree/$file"
        fi
    done <"$list"
    (cd "$tree" && find . -path './build*' -prune -o -type f -print | sort) |
        comm -13 "$list" - | while IFS= read -r file; do rm -f "${tree:?}/$file"; done
    rm -f "$list"
}

# What make must build for a test.
target_of() {
    case $1 in
    kill/* | unit/test_restart_* | unit/test_kept | unit/test_kept_prefix) echo test-kill ;;
    run/*) echo programs examples ;;
    *) echo "build/tests/$1" ;;
    esac
}

program_of() {
    case $1 in
    kill/* | unit/test_restart_* | unit/test_kept | unit/test_kept_p*) echo "build/kill/tests/$1" ;;
    run/*) echo "tests/${1%:*}.sh" ;;
    *) echo "build/tests/$1" ;;
    esac
}

build() { # TEST...
    local targets=programs test
    for test in "$@"; do targets="$targets $(target_of "$test")"; done
    # shellcheck disable=SC2086 # one word per target
    make -C "$tree" -s BUILD=build $targets >"$folder/build.log" 2>&1
}

# Runs one test in the copy; its output is in $folder/test.log.
run_test() {
    local program
    program=$(program_of "$1")
    case $program in
    *.sh) case $1 in
        *:*) set -- bash "$program" build "${1##*:}" ;;
        *) set -- bash "$program" build ;;
        esac ;;
    *) set -- "$program" ;;
    esac
    (cd "$tree" && NPUD_BINDIR=build timeout -k 5 "$limit" "$@") >"$folder/test.log" 2>&1
}

# The first thing that a test complained of.
complaint() {
    if [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
        echo "hangs"
        return
    fi
    grep -aE '^[^ ]+:[0-9]+:[FE]:|^not ok' "$folder/test.log" | head -1 |
        sed -E 's/^[^ ]*:[FE]:([^:]*:[^:]*):[0-9]+: /\1: /' | cut -c1-110
}

# All the tests that are named pass on the tree as it is: otherwise a failure proves nothing.
test_originals() {
    local test ok=0
    for test in $(for patch in "$@"; do header test "$patch"; done | tr ' ' '\n' | sort -u); do
        if ! build "$test"; then
            echo "$test: does not build without a mutation"
            tail -5 "$folder/build.log"
            ok=1
        elif ! run_test "$test"; then
            echo "$test: FAILS WITHOUT A MUTATION: $(complaint 1)"
            ok=1
        fi
    done
    return $ok
}

# Prints one line. False: no test noticed the mutation.
try_mutant() {
    local patch=$1 name result status=1 test code
    name=$(basename "$patch" .patch)
    if ! apply "$tree" "$(realpath "$patch")" 2>/dev/null; then
        printf '%-40s DOES NOT APPLY\n' "$name"
        return 1
    fi
    # shellcheck disable=SC2046 # one word per test
    if ! build $(header test "$patch"); then
        result="DOES NOT BUILD: $(grep -m1 -a 'error:' "$folder/build.log")"
    else
        result="SURVIVED: $(header what "$patch")"
        for test in $(header test "$patch"); do
            run_test "$test"
            code=$?
            if [ "$code" -ne 0 ]; then
                result="KILLED by $test: $(complaint "$code")"
                status=0
                break
            fi
        done
    fi
    apply "$tree" -R "$(realpath "$patch")"
    printf '%-40s %s\n' "$name" "$result"
    return $status
}

mode=$1
shift
list=("$@")
if [ ${#list[@]} -eq 0 ]; then
    list=("$patches"/*.patch)
else
    list=("${list[@]/#/$patches/}")
    list=("${list[@]/%/.patch}")
fi

if [ "$mode" = --check ]; then
    check_all "${list[@]}"
    exit
fi

folder=$(mkdir -p "$mode" && realpath "$mode")
tree=$folder/tree
echo "== the tree without a mutation"
copy_tree
if ! build; then
    tail -20 "$folder/build.log"
    exit 1
fi
bad=0
test_originals "${list[@]}" || bad=1
originals=$bad
echo "== ${#list[@]} mutants"
for patch in "${list[@]}"; do
    try_mutant "$patch" || bad=$((bad + 1))
done
echo "mutants: $((${#list[@]} - bad + originals)) killed, $((bad - originals)) not"
[ "$bad" -eq 0 ]
