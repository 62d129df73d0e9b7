# The packages: installed, upgraded under load, removed, purged. A part of inside.sh, which has the
# helpers.
# shellcheck shell=bash

PACKAGES="npud libaclclient1 libaclclient-dev npud-ascend-toolkit python3-acl-npud npud-doc"

install_debs() { # FILE...
    dpkg --force-unsafe-io -i "$@"
}

# repack SUFFIX [PROGRAM]: all packages again in ./SUFFIX, as a later version; with PROGRAM as npud
repack() {
    local deb

    mkdir "$1"
    for deb in debs/*.deb; do
        rm -rf unpacked
        dpkg-deb -R "$deb" unpacked || return 1
        # Of the package, and of the packages of this build that it depends on.
        sed -i -e "s/^Version: .*/&$1/" -e "s/(= \([^)]*\))/(= \1$1)/g" unpacked/DEBIAN/control
        [ -z "${2:-}" ] || [ ! -e unpacked/usr/sbin/npud ] || cp "$2" unpacked/usr/sbin/npud
        dpkg-deb -Zgzip -z1 --root-owner-group -b unpacked "$1/${deb##*/}" >/dev/null || return 1
    done
}

# Everything that a package could leave: files, users, groups, units.
everything() {
    find /etc /usr /opt /srv /var/lib/systemd /run/npud ! -name '*-' 2>/dev/null
    find /var/lib/dpkg/info
    getent passwd | sed 's/^/user /'
    getent group | sed 's/^/group /'
    systemctl list-units --all --plain --no-legend 'npud*' | sed 's/^/unit /'
}

left_over() {
    comm -13 before <(everything | sort)
}

# As Debian tests the packages, in this container. That takes long: else the test runs by itself.
check_demo() {
    local said

    if [ ! -e long ]; then
        said=$(cd source && bash debian/tests/demo 2>&1)
        verdict $? "the demo runs (debian/tests/demo)" "$said"
    elif command -v autopkgtest >/dev/null; then
        said=$(PYTHONDONTWRITEBYTECODE=1 autopkgtest --ignore-restrictions=isolation-container \
            debs/*.deb source/ -- null 2>&1)
        verdict $? "autopkgtest runs debian/tests" "$said"
        contains "... the demo" "$said" "demo                 PASS"
        rmdir --ignore-fail-on-non-empty /var/lib/systemd/linger # it is autopkgtest's
    else
        echo "SKIPPED autopkgtest: needs the package autopkgtest"
    fi
}

check_packages_install() {
    local said

    journalctl --update-catalog && ldconfig && everything | sort >before
    check "dpkg -i of all packages" install_debs debs/*.deb || exit 1
    check "user npud is there" getent passwd npud
    check_sockets
    check "systemd-analyze verify has nothing to say of the packages' units" \
        silent systemd-analyze verify --man=no npud.service npud.socket npud-admin.socket \
        npud-keeper.service npud-keeper.socket npud-metrics.service
    check "npu-alice joins npu, npu-bob npu-admin" \
        eval 'usermod -aG npu npu-alice && usermod -aG npu-admin npu-bob'
    check "programs build against libaclclient-dev" build_programs
    check_activation
    check_demo
    # shellcheck disable=SC2016 # perl's
    check "needrestart is told to leave npud's services alone, and no others" \
        perl -e 'our %nrconf; do "/etc/needrestart/conf.d/npud.conf"; die $@ if $@;
            my ($rule) = keys %{$nrconf{override_rc}};
            "npud.service" =~ $rule && "npud-keeper.service" =~ $rule or die "misses npud";
            "npud-metrics.service" =~ $rule and die "hits others"; $nrconf{override_rc}{$rule} == 0
                or die "restarts"'
}

services_since() { # when systemd started supervisor and keeper, and which processes they are
    echo "$(show MainPID) $(keeper_pid) $(show ExecMainStartTimestampMonotonic)" \
        "$(show ExecMainStartTimestampMonotonic npud-keeper.service) $(show NRestarts)"
}

runs_installed() { # PID
    [[ $(readlink "/proc/$1/exe") != *" (deleted)" ]]
}

check_packages_upgrade() {
    local ids keeper old services said since

    start_load
    ids=$(session_ids)
    services=$(services_since)
    old=$(server_pid)
    echo '# of the administrator' >>/etc/npud/npud.conf
    check "a package whose npud is none" repack .bad /bin/false
    said=$(install_debs .bad/*.deb 2>&1)
    equal "... is installed all the same" 0 $?
    contains "... and says that the version from before serves on" "$said" \
        "not upgraded" "the version from before serves on"
    equal "... which it does" "$old $services" "$(server_pid) $(services_since)"
    check "packages of a higher version" repack .good
    since=$(journal_now)
    check "... are installed while clients work" install_debs .good/*.deb
    check "another server serves, of the installed program" runs_installed "$(server_pid)"
    check "... as another process" another server_pid "$old"
    equal "neither supervisor nor keeper was restarted" "$services" "$(services_since)"
    check "the supervisor is of the installed program" \
        until_true runs_installed "$(show MainPID)"
    equal "no session has ended" "$ids" "$(session_ids)"
    equal "npud says nothing of errors" "" "$(journal_of_npud "$since" -p err)"
    keeper=$(keeper_pid)
    check "the keeper is replaced as README.Debian says" \
        systemctl kill --signal=KILL npud-keeper.service
    check "... by another, which has everything" until_true keeper_has_all "$keeper"
    check "... of the installed program" runs_installed "$(keeper_pid)"
    check "all clients still work" load_goes_on
    end_load
    expect_whole "an upgrade of the packages"
    equal "the administrator's npud.conf is still there" "# of the administrator" \
        "$(tail -n1 /etc/npud/npud.conf)"
}

no_npud_runs() {
    ! pgrep -f '/npud(-supervisor|-keeper)?( |$)' >/dev/null
}

check_packages_removal() {
    # shellcheck disable=SC2086 # words
    check "dpkg -r, while npud runs" dpkg --force-unsafe-io -r $PACKAGES
    check "no process of npud is left" until_true no_npud_runs
    equal "configuration, user and groups are left, and nothing else" \
        "group npu group npu-admin group npud user npud" \
        "$(left_over | sed -n 's/^\(user\|group\) \([^:]*\):.*/\1 \2/p' | sort | xargs)"
    # The package of a removed service keeps its links, as its configuration.
    equal "... of files" "/etc/needrestart /etc/needrestart/conf.d \
/etc/needrestart/conf.d/npud.conf /etc/npud /etc/npud/npud.conf" \
        "$(left_over | grep '^/' | grep -v '^/var/lib/\|sockets.target.wants' | xargs)"
    check "dpkg -i once more" install_debs .good/*.deb
    equal "clients are served with the configuration of before" "worked # of the administrator" \
        "$(as npu-alice ./client use) $(tail -n1 /etc/npud/npud.conf)"
    # shellcheck disable=SC2086 # words
    check "dpkg -P" dpkg --force-unsafe-io -P $PACKAGES
    check "no process of npud is left" until_true no_npud_runs
    equal "nothing is left over" "" "$(left_over)"
}

check_packages() {
    check_packages_install
    check_packages_upgrade
    check_packages_removal
}
