# The units of a container or a virtual machine that tries npud out, for check-systemd.sh and
# check-vm.sh.
# shellcheck shell=bash

# What it is to run: systemd up to basic.target, then /npud-check/inside.sh, then the end.
add_check_units() { # FOLDER ACTION_AT_THE_END LIMIT_S FILE_OF_RESULTS
    cat >"$1/npud-check.target" <<-END
	[Unit]
	Requires=basic.target npud-check.service
	After=basic.target
	AllowIsolate=yes
	END
    cat >"$1/npud-check.service" <<-END
	[Unit]
	After=basic.target
	SuccessAction=$2
	FailureAction=$2
	[Service]
	Type=oneshot
	ExecStart=/bin/bash /npud-check/inside.sh
	StandardOutput=append:$4
	StandardError=append:$4
	TimeoutStartSec=$3
	END
}
