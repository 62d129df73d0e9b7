#!/usr/bin/env bash
# The lists of places in CONTRIBUTING.md are complete: one of each kind is added to a copy of the
# tree by a patch that touches these places and no other (tests/run/contributing/*.patch, one on the
# other), and what was added is built and used.
# usage: test-contributing.sh BUILD_DIR
#        test-contributing.sh --check           the lists name the places, and all patches apply
#        test-contributing.sh --tree FOLDER     makes the copy there, with a commit for each patch;
#                                               what of a patch does not apply is a file *.rej
#        test-contributing.sh --remake FOLDER   makes the patches anew, from these commits
set -u
mode=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
cd "$top" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

if [ "$mode" = --remake ]; then
    for patch in tests/run/contributing/*.patch; do
        head -n 2 "$patch" >"$work/patch"
        commit=$(git -C "$2" log --format=%h --grep "^${patch##*/}$")
        git -C "$2" show --format= --no-color "$commit" | grep -v '^index ' >>"$work/patch"
        cp "$work/patch" "$patch"
    done
fi
python3 tests/run/contributing.py tests/run/contributing/*.patch || failed=1

tree=$work/tree
if [ "$mode" = --tree ]; then tree=$2; fi
mkdir -p "$tree"
tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$tree"
cd "$tree" || exit 1
commit() { # SUBJECT
    git add -A . ':!*.rej'
    git -c user.name=npud -c user.email=npud@localhost commit -q --allow-empty -m "$1" || exit 1
}

apply=(env GIT_CEILING_DIRECTORIES="$(dirname "$(pwd -P)")" git apply -C1 --whitespace=nowarn)
if [ "$mode" = --tree ]; then
    apply+=(--reject)
    git init -q . && commit tree
fi
for patch in "$top"/tests/run/contributing/*.patch; do
    check "${patch##*/} applies" "${apply[@]}" "$patch"
    if [ "$mode" = --tree ]; then commit "${patch##*/}"; fi
done
case $mode in --*) exit $failed ;; esac

# Without optimization: the tree is built from its beginning in a few seconds.
unset BUILD MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES SAN CPPFLAGS LDFLAGS
export NPUD_BINDIR=build
tests=(e2e/test_example e2e/test_example_task e2e/test_example_request unit/test_example_request
    e2e/test_keepsake unit/test_restart_keepsake hostile/test_server_hostile e2e/test_npuctl)
check "make coverage" make -s coverage
check "rooms and links" make -s check-rooms check-links
check "it is built" make -s CFLAGS=-O0 programs "${tests[@]/#/build/tests/}" \
    build/tests/unit/test_restart_streams.o build/tests/fuzz/act.o
[ -e build/npud ] || exit 1
for t in "${tests[@]}"; do
    case $t in
    hostile/*) CK_RUN_CASE=honest check "$t" "build/tests/$t" ;;
    e2e/test_npuctl) CK_RUN_CASE=keepsakes check "$t" "build/tests/$t" ;;
    *) check "$t" "build/tests/$t" ;;
    esac
done
for t in example arguments; do
    check "python/test_$t" bash tests/run/test-python.sh build "test_$t.py"
done
check "seeds of fuzzers" python3 tests/fuzz/seeds.py "$work/seeds"
for t in coverage man; do
    check "run/test-$t" bash "tests/run/test-$t.sh" build
done
exit $failed
