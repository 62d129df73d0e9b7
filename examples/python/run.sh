#!/usr/bin/env bash
# An IPC event between two processes: both in Python, and one in Python with one in C (of
# ../ipc_event). They need an npud, and acl must be importable: PYTHONPATH.
# usage: npu-run -- run.sh [DIRECTORY OF THE C PROGRAMS]
[ -n "${BASH_VERSION:-}" ] || exec bash "$0" "$@" # started with sh, which has no wait -n
set -u
here=$(dirname "$0")
# shellcheck source=examples/common/await_all.sh
. "$here/../common/await_all.sh"
c=${1:-$here/../ipc_event}
dir=$(mktemp -d)
trap 'kill $(jobs -pr) 2>/dev/null; rm -rf "$dir"' EXIT
export PYTHONDONTWRITEBYTECODE=1
failed=0

# shellcheck disable=SC2317 # called by their names
python() { exec /usr/bin/python3 "$here/$1.py" "$2"; }
# shellcheck disable=SC2317
native() { exec "$c/$1" "$2"; }

pair() { # LANGUAGE OF THE PRODUCER, OF THE CONSUMER
    mkdir "$dir/$1-$2"
    local first

    "$1" producer "$dir/$1-$2" &
    first=$!
    "$2" consumer "$dir/$1-$2" &
    if await_all $first $!; then
        echo "producer: $1, consumer: $2: OK"
    else
        echo "producer: $1, consumer: $2: FAILED"
        kill "$(jobs -pr)" 2>/dev/null
        wait
        failed=1
    fi
}

pair python python
pair native python
pair python native
exit $failed
