#!/usr/bin/env bash
# What processes are called in tables, traces and reports. usage: test-names.sh BUILD_DIR
# What is in single quotes is for the shell that a program starts:
# shellcheck disable=SC2016
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH" TMPDIR="$work" LD_LIBRARY_PATH="$build" PYTHONDONTWRITEBYTECODE=1
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY XDG_RUNTIME_DIR NAME ASK
read -ra cc <<<"${CC:-cc}"
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"
guard=300 # seconds: against hanging only

"${cc[@]}" -I"$top/include" -o "$work/name_program" "$top/tests/run/name_program.c" \
    -L"$build" -laclclient || exit 1
mkdir "$work/dir"
cat >"$work/train.py" <<'S'
import ctypes, os, sys
if "NAME" in os.environ:
    ctypes.CDLL(None).prctl(15, os.environb[b"NAME"], 0, 0, 0)
if ctypes.CDLL("libaclclient.so").aclrtSetDevice(0) != 0:
    sys.exit(1)
sys.exit(os.system(os.environ["ASK"]) != 0)
S
printf '#!/usr/bin/python3\n' | cat - "$work/train.py" >"$work/script_with_a_longer_name"
printf '#!/usr/bin/env python3\n' | cat - "$work/train.py" >"$work/by_env"
chmod +x "$work/script_with_a_longer_name" "$work/by_env"
ln -s name_program "$work/linked"
cp "$work/train.py" "$work/-odd.py"
cd "$work" || exit 1

json='npuctl --json sessions | sed "s/.*\"program\":\"\([^\"]*\)\".*/\1/"'

named() { # WANTED COMMAND...: in the report of a fresh npud
    local wanted=$1 words
    shift
    words="${NAME:+NAME=$NAME }$*"
    expect "${words:0:80}" "$wanted" \
        "$(ASK=${ASK:-$json} timeout "$guard" npu-run -- "$@" 2>&1)"
}

as() { # WANTED ARGV0 WORDS...: the program is called so
    local wanted=$1
    shift
    named "$wanted" bash -c 'exec -a "$0" ./name_program "$@"' "$@"
}

# --- programs ---

named name_program ./name_program train.py
named linked ./linked
named train bash -c 'exec -a train ./name_program'
NAME=worker named worker ./name_program
NAME="nginx: master" named "nginx: master" ./name_program
NAME=name_program named name_program ./name_program
NAME="" named name_program ./name_program

# --- interpreters ---

named "python3 train.py" /usr/bin/python3 train.py
named "python3 train.py" /usr/bin/python3 -u -X dev -Werror -W error "$work/train.py" --epochs 3
named "python3 train" /usr/bin/python3 -um train
named "python3 train.py" /usr/bin/python3 -- train.py
named "python3 -odd.py" /usr/bin/python3 -- -odd.py
named "python3" /usr/bin/python3 -c "$(cat train.py)"
named "python3" sh -c '/usr/bin/python3 - <train.py'
named "python3 script_with_a_longer_name" ./script_with_a_longer_name
PATH=$build:/usr/bin:/bin named "python3 by_env" ./by_env
NAME=worker named worker /usr/bin/python3 train.py

as "python3.13t train.py" python3.13t train.py
as "python3 module.of.it" python3 -m module.of.it train.py
as "python3" python3 -m
as "python3" python3
as "python3" python3 -W
as "python3" python3 --
as "pythonista" pythonista train.py
as "perl5.36 train.pl" /usr/bin/perl5.36 -w -I lib -Mstrict -i.bak -0777 lib/train.pl
as "perl" perl -we 1 train.pl
as "bash train.sh" bash -eu -o pipefail --norc train.sh
as "sh" sh -c 'train.sh'
as "bash" bash -s train.sh
as "node train.js" node --inspect -r hook train.js
as "node" node --inspect -pe 1 train.js
as "ruby train.rb" ruby -W2 -rset -I lib train.rb
as "lua5.4 train.lua" lua5.4 -i -l lib train.lua
as "python3 dir.with space" python3 "/tmp/dir.with space"
long=$(printf 'x%.0s' {1..100})
as "python3 ${long:0:55}" python3 "$long"
many=$(printf -- '-u %.0s' {1..2000})
# shellcheck disable=SC2086
as "python3" python3 $many train.py

# --- tables: one column, in every locale ---

column='npuctl sessions | awk "\$1 ~ /^[0-9]/ {print \$4}"'
for locale in C C.UTF-8; do
    LC_ALL=$locale ASK=$column named "python3:train.py" /usr/bin/python3 train.py
    LC_ALL=$locale NAME='a  b ' ASK=$column named 'a\x20\x20b\x20' ./name_program
done
ASK='npuctl top --once | grep -o python3.*' named "python3:train.py" /usr/bin/python3 train.py
ASK='npuctl who device 0 | awk "\$1 ~ /^[0-9]/ {print \$4}"' named "python3:train.py" \
    /usr/bin/python3 train.py

# --- traces, checks ---

ASK=true timeout "$guard" npu-run --trace=t.json -- /usr/bin/python3 train.py
check "a trace has it" grep -q '"python3 train.py (pid [0-9]*, session [0-9]*)"' t.json
check "a program that creates and leaves a stream is built" "${cc[@]}" -g -DWRONG=1 -I"$top" \
    -I"$top/include" -o missing_wait "$top/tests/check/event_missing.c" -L"$build" -laclclient
timeout "$guard" npu-run --check -- bash -c 'exec -a python3 ./missing_wait train.py' >found 2>&1
check "npu-check has it" grep -q 'process [0-9]* (python3 train.py)' found

exit $failed
