# To be sourced: what the scripts of this folder say of each thing that they check, one line each.
# The script ends with `exit $failed`. What $work/log holds is shown where something failed.
# shellcheck shell=bash disable=SC2034
failed=0

report() { # STATUS NAME
    if [ "$1" -eq 0 ]; then
        echo "ok $2"
    else
        echo "not ok $2"
        [ ! -s "${work:-}/log" ] || tail -n 40 "$work/log" | sed 's/^/    /'
        failed=1
    fi
}

check() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >"$work/log" 2>&1
    report $? "$name"
}

expect() { # NAME WANTED GOT
    [ "$2" = "$3" ] || echo "    wanted \"$2\", got \"$3\""
    [ "$2" = "$3" ]
    report $? "$1"
}
