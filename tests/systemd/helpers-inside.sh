# Helpers of what runs inside of a container or a virtual machine, under a systemd of its own: of
# inside.sh here, and of tests/vm/inside.sh.
# shellcheck shell=bash

GUARD_S=${GUARD_S:-30} # longer than anything takes

verdict() { # STATUS NAME [DETAIL]
    if [ "$1" = 0 ]; then
        echo "ok   $2"
    else
        echo "FAIL $2"
        [ -z "${3:-}" ] || printf '       %s\n' "${3//$'\n'/$'\n       '}"
    fi
}

# check NAME COMMAND...: the command must succeed; what it prints is shown when it does not.
check() {
    local name=$1 said status

    shift
    said=$("$@" 2>&1)
    status=$?
    verdict "$status" "$name" "$said"
    return "$status"
}

# equal NAME EXPECTED ACTUAL
equal() {
    [ "$2" = "$3" ]
    verdict $? "$1" "expected \"$2\", got \"$3\""
}

# contains NAME TEXT PATTERN...: fixed strings, all to be found.
contains() {
    local name=$1 text=$2 pattern

    shift 2
    for pattern in "$@"; do
        if [[ $text != *"$pattern"* ]]; then
            verdict 1 "$name" "no \"$pattern\" in: $text"
            return
        fi
    done
    verdict 0 "$name"
}

as() { # USER COMMAND...: with the groups of the user and no rights of root
    local user=$1

    shift
    timeout "$GUARD_S" setpriv --reuid="$user" --regid="$user" --init-groups --inh-caps=-all \
        --no-new-privs "$@"
}

show() { # PROPERTY [UNIT]
    systemctl show --value -p "$1" "${2:-npud.service}"
}

npud_lines() { # [journalctl option...]: of npud itself
    journalctl -b -q -o cat _SYSTEMD_UNIT=npud.service "$@"
}

unit_lines() { # the same, and what systemd says of npud's units
    journalctl -b -q -o cat -u npud.service -u npud.socket -u npud-admin.socket "$@"
}

# The time, for journalctl --since, when all that was said before is in the journal. Not a cursor:
# journalctl leaves out the first line that its filter lets through after one that it does not.
journal_now() {
    journalctl --sync && echo "@$EPOCHREALTIME"
}

server_pid() { # the process that serves
    npuctl --json status 2>/dev/null | grep -o '"pid":[0-9]*' | cut -d: -f2
}

keeper_pid() {
    show MainPID npud-keeper.service
}

# another COMMAND OLD: the command prints a number, and not this one
another() {
    local new

    new=$("$1")
    [ "${new:-0}" != 0 ] && [ "$new" != "$2" ]
}

sessions() { # how many npud has
    npuctl --json status | grep -o '"sessions":[0-9]*' | cut -d: -f2
}

# Repeats until it succeeds; every round is a request that npud answers.
until_true() {
    local end=$((SECONDS + GUARD_S))

    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
    done
}

# Clients can be served before systemd has read that npud is ready.
npud_is_active() {
    [ "$(systemctl is-active npud.service)" = active ]
}

no_sessions() {
    [ "$(sessions)" = 0 ]
}
