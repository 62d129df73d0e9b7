#!/usr/bin/env bash
# An upgrade of npud from the last release to this tree, and back, under programs that use the
# library of that release. usage: test-upgrade.sh BUILD_DIR
# NPUD_RELEASE=COMMIT: what counts as the last release. Otherwise it is that of CHANGELOG.md
# (mk/release.py), and while there is none yet, what was committed last.
# NPUD_UPGRADE_WITHOUT="ipc notify queue": what those programs do not use.
# A release is built once, below BUILD_DIR/release, and stays there. Without a git history there is
# nothing to build it from, and the test is skipped.
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra cc <<<"${CC:-cc}"

skip() { # WHY
    echo "SKIPPED an upgrade from the last release: $1"
    echo "ok skipped"
    exit 0
}

fail() { # WHAT
    echo "not ok $1"
    exit 1
}

[ -e "$top/.git" ] || skip "there is no git history to build it from"
last=$(python3 "$top/mk/release.py")
commit=${NPUD_RELEASE:-${last##* }}
commit=$(git -C "$top" rev-parse --verify --quiet "${commit:-HEAD}^{commit}") ||
    skip "its commit ${commit:-HEAD} is not in this history"
release=$build/release/$commit

# Options and variables of a calling make are not for this build.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES BUILD
if [ ! -e "$release/done" ]; then
    rm -rf "$build/release"
    mkdir -p "$release/tree"
    git -C "$top" archive "$commit" | tar -x -C "$release/tree" || fail "the release is exported"
    make -s -C "$release/tree" -j2 BUILD=build programs >"$release/log" 2>&1 || {
        tail -n 30 "$release/log"
        fail "the release is built"
    }
    touch "$release/done"
fi
old=$release/tree/build
[ -e "$old/npud-supervisor" ] || skip "$commit has no npud that comes back"
echo "ok the release is commit $(git -C "$top" log -1 --format='%h' "$commit")"

# The same program with the headers and the library of each.
mkdir "$work/old" "$work/new"
for side in "old:$old:$release/tree" "new:$build:$top"; do
    IFS=: read -r name programs tree <<<"$side"
    "${cc[@]}" -O1 -I"$tree/include" "$top/tests/run/upgrade_client.c" -lpthread \
        -o "$work/$name/upgrade_client" "$programs/libaclclient.so.1" || fail "a program is built"
done

read -ra without <<<"${NPUD_UPGRADE_WITHOUT-}"

mkdir "$work/bin" "$work/tmp"
cp "$old"/{npud,npud-supervisor,npud-keeper,npu-run} "$work/bin/"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY NPUD_SUPERVISOR XDG_RUNTIME_DIR
TMPDIR=$work/tmp timeout 1500 "$work/bin/npu-run" --restartable -- \
    python3 "$top/tests/run/upgrade.py" "$work" "$old" "$build" ${without+"${without[@]}"}
status=$?
[ -z "$(ls -A "$work/tmp")" ] || fail "npud leaves nothing behind"
echo "ok npud leaves nothing behind"
exit $status
