#!/usr/bin/env bash
# The manual pages and the completion against the programs: every option, command, heading and key
# is described with its default, nothing is described that is not there, and the example works.
# usage: test-man.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd)
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH="$build:$PATH"
unset NPUD_SOCKET NPUD_ADMIN_SOCKET NPUD_BINARY
# shellcheck source=tests/run/check.sh
. "$top/tests/run/check.sh"

same() { # NAME WANTED_FILE GOT_FILE: lines, in any order
    diff <(sort -u "$2") <(sort -u "$3") >"$work/diff"
    report $? "$1"
    sed -n 's/^</    missing:/p; s/^>/    not there:/p' "$work/diff"
}

# --- what the programs take ---

options_of() { # PROGRAM
    "$1" --help | grep -Eo '^ {2,6}(-[A-Za-z], )?--[a-z-]+' | grep -Eo -- '--?[A-Za-z][a-z-]*'
}

commands_of() {
    npuctl --help | sed -En 's/^  ([a-z]+) .*/\1/p'
}

# The same by section and default: "section.key = default".
keys_of() {
    npud --print-config |
        sed -En 's/^\[(.*)\]$/\1/; T key; h; b
            :key s/^#([a-z_]+ =.*)/\1/; T; G; s/(.*)\n(.*)/\2.\1/; p'
}

npud --print-config | cmp -s - "$top/systemd/npud.conf"
report $? "systemd/npud.conf is what npud --print-config prints"

# --- what the pages say ---

page_of() { # NAME.SECTION
    find "$top/daemon" "$top/client" -name "$1"
}

page_options() { # PAGE: from the tags of its list of options
    sed -En '/^\.It Fl/{s/ Ns .*//; s/ Op .*//; s/^\.It //; s/ , /\n/g; p}' "$1" | sed 's/^Fl /-/'
}

page_keys() {
    sed -En 's/^\.Ss \[([a-z]+)\].*/\1/; T key; h; b
        :key s/^\.It Ic ([a-z_]+) No = .*Pq default: (.*)$/\1 = \2/; T
            s/ = empty$/ = /; G; s/(.*)\n(.*)/\2.\1/; p' \
        "$(page_of npud.conf.5)"
}

for p in npud.8 npuctl.1 npu-run.1 npu-check.1; do
    program=${p%.*}
    options_of "$program" >"$work/wanted"
    [ "$(wc -l <"$work/wanted")" -ge 6 ] # or the test sees nothing
    report $? "$program --help can be read"
    page_options "$(page_of "$p")" >"$work/got"
    same "$p describes the options of $program" "$work/wanted" "$work/got"
done

keys_of >"$work/wanted"
[ "$(wc -l <"$work/wanted")" -ge 19 ]
report $? "npud --print-config can be read"
page_keys >"$work/got"
same "npud.conf.5 describes every key with its default" "$work/wanted" "$work/got"

# The ranges of the page: both ends are taken, what is beyond is not. A socket that cannot be made
# ends npud afterwards.
accepts() { # KEY=VALUE
    ! npud --config=/dev/null --set=npud.socket=/dev/null/x --set="$1" 2>&1 | grep -qF "${1%%=*} ="
}
for k in sim.devices:1:16:0:17 sim.memory:1M:64T:1023K:65T engine.spin_us:0:1000000:-1:1000001 \
    stream.depth:64:65536:63:65537 stream.depth:128:256:100:32 ipc.linger_max:0:1048576:x:1048577 \
    ipc.submit_ms:0:3600000:-1:3600001 ipc.scope:uid:any:all: limits.fds:0:1T:-1:k; do
    IFS=: read -r key low high below above <<<"$k"
    accepts "$key=$low" && accepts "$key=$high" && ! accepts "$key=$below" &&
        ! accepts "$key=$above"
    report $? "npud.conf.5: range of $key"
done

commands_of >"$work/wanted"
known='status|devices|sessions|streams|events|memory|limits|notifies|pools|queues|grants|waits'
[ "$(grep -cxE "$known|kill|inject" "$work/wanted")" -eq 14 ]
report $? "npuctl --help can be read"
sed -En 's/^\.It Cm ([a-z]+).*/\1/p' "$(page_of npuctl.1)" >"$work/got"
same "npuctl.1 describes every command" "$work/wanted" "$work/got"
others='kill|inject|cdi|trace|upgrade|explain|who|metrics|top|doctor|monitor|inspect|graph'
mapfile -t reports < <(grep -vxE "$others" "$work/wanted")
reports+=("inject list")

# Kinds of tasks, as npud names them when it is asked for one that it does not have.
npu-run -- npuctl inject fail --kind=x 2>&1 | sed -n 's/.*; there are \(.*\) (error.*/\1/p' |
    sed 's/, /\n/g' >"$work/wanted"
sed -n '/^The rule is for tasks of this kind:/,/^\.Xr/s/^\.Li //p' "$(page_of npuctl.1)" |
    tr -d ' .' | tr ',' '\n' |
    sed '/^$/d' >"$work/got"
same "npuctl.1 describes every kind of task" "$work/wanted" "$work/got"

# Headings of tables, and the names in the lines of status, as the page has them below the command.
# shellcheck disable=SC2016 # for the shell that npu-run starts
npu-run -- sh -c 'for c; do npuctl $c >"$0/report.$c"; done' "$work" "${reports[@]}"
for c in "${reports[@]}"; do
    sed -n "/^\.It Cm $c\$/,/^\.It Cm/p" "$(page_of npuctl.1)" | tr -s ' ,' '\n' >"$work/page"
    if [ "$c" = status ]; then
        grep -o '^[a-z-]*:' "$work/report.$c" | tr -d : >"$work/words"
    else
        head -n 1 "$work/report.$c" | grep -Eo '\b[A-Z][A-Z-]+\b' >"$work/words"
    fi
    missing=$(grep -vxFf "$work/page" "$work/words")
    [ -z "$missing" ]
    report $? "npuctl.1 describes the columns of $c"
    [ -n "$missing" ] && echo "    missing: $missing"
done

# --- pages as such ---

for p in npud.8 npud.conf.5 npu-run.1 npu-check.1 npuctl.1 libaclclient.7; do
    mandoc -T lint -W warning "$(page_of "$p")" >"$work/lint" 2>&1
    report $? "mandoc has no warning about $p"
    cat "$work/lint"
    mandoc -T ascii "$(page_of "$p")" | sed 's/.\x08//g' >"$work/text"
    grep -q '^SEE ALSO' "$work/text"
    report $? "$p can be read"
    # Macros that were mistyped as text come out as text.
    grep -nE '(^|[ (])\.?(Fl|Ar|Xr|Ns|Ic|Cm|Ev|Pa|Dv|Fn|Li|Ql|Op) [a-z]' "$work/text"
    [ $? -eq 1 ]
    report $? "$p shows no macro"
    sed -En 's/^\.Xr ((npu|libacl)[a-z.-]*) ([0-9]).*/\1.\3/p' "$(page_of "$p")" |
        sort -u >"$work/references"
    while read -r x; do
        [ -n "$(page_of "$x")" ] || report 1 "$p refers to $x"
    done <"$work/references"
done

# Errors that the page names have these numbers in the headers.
awk '/^\.It [0-9]+$/ {n = $2; next} n && /^\.Dv/ {print $2, n} {n = ""}' \
    "$(page_of libaclclient.7)" >"$work/numbers"
[ "$(wc -l <"$work/numbers")" -ge 14 ]
report $? "libaclclient.7: numbers of errors can be read"
{
    echo '#include <acl/acl.h>'
    sed -E 's/(.*) (.*)/static_assert(\1 == \2, "");/' "$work/numbers"
} | c++ -x c++ -std=c++11 -I"$top/include" -fsyntax-only -
report $? "libaclclient.7: numbers of errors"

# --- installation, and the example with what was installed ---

make -s -C "$top" install-built PREFIX=/usr DESTDIR="$work/root" BUILD="$build" \
    >"$work/log" 2>&1
report $? "make install DESTDIR="
man=$work/root/usr/share/man
for p in npud.8 npud.conf.5 npu-run.1 npu-check.1 npuctl.1 libaclclient.7; do
    cmp -s "$man/man${p##*.}/$p" "$(page_of "$p")"
    report $? "installed: man${p##*.}/$p"
done

# The text of the example: between the comment that marks it and the end of the display.
awk '/^\.\\" example.c/ {on = 1} on && /^\.Ed/ {exit} on && !/^\./' "$(page_of libaclclient.7)" |
    sed 's/\\e/\\/g; s/\\&//g' >"$work/prog.c"
cc -Wall -Wextra -Werror "$work/prog.c" -o "$work/prog" -I"$work/root/usr/include" \
    -L"$work/root/usr/lib" -laclclient &&
    [ "$(LD_LIBRARY_PATH="$work/root/usr/lib" npu-run -- "$work/prog")" = \
    "the work of the producer is done" ]
report $? "the example of libaclclient.7"

# --- completion ---

completions=$work/root/usr/share/bash-completion/completions
for p in npuctl npu-run npu-check npud; do
    # shellcheck disable=SC1090
    [ "$(bash --norc -c '. "$1" && complete -p "$2"' - "$completions/$p" "$p")" = \
        "complete -F _npud_complete $p" ]
    report $? "completion for $p is where bash looks for it"
done
# shellcheck disable=SC1091
. "$completions/npuctl"

offered() { # WORD...: what is offered for the last one; "=" is a word of its own, as in bash
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _npud_complete "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}"
}

offers() { # NAME WANTED WORD...
    local name=$1
    printf '%s\n' "$2" >"$work/offers"
    shift 2
    offered "$@" >"$work/got"
    same "$name" "$work/offers" "$work/got"
}

commands_of >"$work/wanted"
offered npuctl "" >"$work/got"
same "completion offers every command of npuctl" "$work/wanted" "$work/got"
for program in npud npuctl npu-run npu-check; do
    options_of "$program" | grep '^--' >"$work/wanted"
    offered "$program" -- | tr -d = >"$work/got"
    same "completion offers every option of $program" "$work/wanted" "$work/got"
done
keys_of | sed 's/ =.*/=/' >"$work/wanted"
offered npud --set = "" >"$work/got"
same "completion offers every key after npud --set=" "$work/wanted" "$work/got"
offered npu-run -s "" >"$work/got"
same "completion offers every key after npu-run -s" "$work/wanted" "$work/got"
offers "completion of what is checked" "race,leak" npu-run --check = race,le
offers "completion of a command behind --check" "$build/npu-run" npu-run --check "$build/npu-ru"
offers "completion of how hosts are seen" seen npu-check --host = s
offers "completion of a command" status npuctl --json stat
offers "completion of a verb" list npuctl inject li
offers "completion of what who is asked about" queue npuctl who qu
offers "completion after a socket of npuctl" devices npuctl --socket = /x dev
offers "completion of a key" limits.streams= npud --set = limits.str
offers "completion of a value" any npud --set = ipc.scope = a
offers "completion of npu-run's command" "$build/npu-run" npu-run -d 4 -s sim.devices = 3 -- \
    "$build/npu-ru"
# shellcheck disable=SC2016
npu-run --devices 3 -- bash -c '. "$1"
    COMP_WORDS=(npuctl inject fail --kind = ipc); COMP_CWORD=5; _npud_complete npuctl ipc =
    printf "%s\n" "${COMPREPLY[@]}"
    COMP_WORDS=(npuctl inject fail --device = ""); _npud_complete npuctl "" =
    printf "%s\n" "${COMPREPLY[@]}"
    npuctl inject list | wc -l' - "$completions/npuctl" >"$work/got"
printf '%s\n' ipc-record ipc-wait 0 1 2 1 >"$work/offers"
cmp -s "$work/offers" "$work/got"
report $? "completion of kinds and devices, and no rule is set by that"
offers "completion gives npu-run's options to npu-run only" "" npu-run "$build/npuctl" --devi

exit $failed
