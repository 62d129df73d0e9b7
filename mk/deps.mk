# The one list of Debian packages. `make deps` installs what is missing; the other targets call it.

DEPS_BUILD := gcc g++ libc6-dev libevent-dev libprotobuf-c-dev protobuf-c-compiler libsystemd-dev \
              libinih-dev libjemalloc-dev uthash-dev libcjson-dev python3-dev
# The server of `npuctl metrics --listen`.
DEPS_BUILD += libmicrohttpd-dev
# Ordered trees (bsd/sys/tree.h), of which only the header is used.
DEPS_BUILD += libbsd-dev
# npu-check: functions and lines of programs, from DWARF.
DEPS_BUILD += libdw-dev
# aclnnMatmul of libopapi, and nothing else: products of matrices that are fast on any processor.
DEPS_BUILD += libopenblas-dev
# The screen of `npuctl top`: what terminals can do, keys, and a new size.
DEPS_BUILD += libncurses-dev
# mypy: the stubs of acl (tests/python/test_stubs.py); python3-venv: its wheel (test-pip.sh);
# python3-jsonschema: what npuctl writes (test-cdi.sh, test-trace.sh).
DEPS_TEST  := check cmake pkg-config python3 python3-numpy python3-venv mypy \
              python3-jsonschema procps mandoc
# Applies patches, also where the tree is no repository (test-contributing.sh).
DEPS_TEST  += git
# What opens the page of a trace, as its readers do. Large: the test says so where it is not there.
DEPS_BROWSER := chromium
DEPS_SYSTEMD := systemd systemd-container
# Runs debian/tests as Debian does: in the longer tests.
DEPS_SYSTEMD += $(if $(NPUD_TEST_LONG),autopkgtest)
# For tests that are skipped without them, because not everybody wants these on a machine: CI does.
DEPS_CLUSTER := podman crun munge slurmctld slurmd openmpi-bin libopenmpi-dev
# The device plugin for Kubernetes, and models of its API for the manifests (test-kubernetes.sh).
DEPS_CLUSTER += python3-grpcio python3-protobuf python3-kubernetes python3-yaml
# promtool: what Prometheus says of the names of `npuctl metrics`.
DEPS_CLUSTER += prometheus
# `make check-vm`: Slurm and podman; a kernel, an emulator, and for the initramfs a shell without
# libraries. dbus-user-session: a systemd for the user of podman; uidmap: more uids; slirp4netns: a
# network. iproute2: an address, without which Slurm looks up no names.
DEPS_VM    := podman crun munge slurmctld slurmd linux-image-amd64 qemu-system-x86 busybox-static \
              cpio kmod e2fsprogs systemd dbus-user-session uidmap slirp4netns iproute2 \
              python3-grpcio python3-protobuf
# What `make deb` needs beside DEPS_BUILD, with which debian/control is compared (check-debian).
DEPS_DEB   := build-essential debhelper dh-python lintian blhc
# `make check-deb-source`: source packages, and chroots to build them in.
DEPS_DEB_SOURCE := dpkg-dev xz-utils pbuilder debootstrap
DEPS_LINT  := clang-format clang-tidy shellcheck git abigail-tools
DEPS_ARM64 := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
DEPS_RISCV64 := gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user-static
DEPS_FUZZ  := clang libclang-rt-dev
# python3-prometheus-client: its parser of OpenMetrics holds `npuctl metrics`.
DEPS_TEST  += python3-prometheus-client
# callgrind, and objdump: `make bench-count`.
DEPS_COUNT := valgrind binutils
# What tells of files that change, for `make watch`.
DEPS_WATCH := inotify-tools
# A folder with Debian 13, for `make check-debian13`.
DEPS_DEBIAN13 := debootstrap
# dot, for `make docs`: the picture is drawn from text, and the result is in the tree.
DEPS_DOCS  := graphviz

# What `make bench-peers` compares with; each may be missing, and nothing else needs them.
DEPS_PEERS := libzmq3-dev libnanomsg-dev libboost-dev libdpdk-dev

# Ask dpkg once per package that is not there; nothing is printed and nothing is run when all are.
missing = $(shell for p in $(1); do \
    dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null | grep -q '^installed' || \
    echo $$p; done)

# One at a time: with `make demo check` two targets ask for packages.
define install_packages
@m="$(call missing,$(1))"; [ -z "$$m" ] && exit 0; \
echo "== packages needed: $$m"; \
if [ "$$(id -u)" = 0 ]; then sudo=; \
elif ! command -v sudo >/dev/null; then \
    echo "This is not root, and there is no sudo. Run as root: apt-get install $$m" >&2; exit 1; \
elif sudo -n true 2>/dev/null; then sudo=sudo; \
elif [ -t 0 ] && [ -t 2 ]; then sudo=sudo; echo "== sudo may ask for your password"; \
else echo "sudo asks for a password, and there is no terminal to ask on." \
"Run: sudo apt-get install $$m" >&2; exit 1; fi; \
mkdir -p $(BUILD) && exec 9>$(BUILD)/deps.lock && flock 9; \
$$sudo apt-get update -qq && \
$$sudo env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $$m >/dev/null && echo "== installed: $$m"
endef

.PHONY: deps deps-build deps-lint deps-systemd deps-fuzz deps-arm64 deps-riscv64 deps-docs \
        deps-browser deps-ci deps-cluster deps-count deps-deb deps-deb-source deps-debian13 \
        deps-peers deps-vm deps-watch
deps-build:
	$(call install_packages,$(DEPS_BUILD))
deps:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_TEST))
deps-browser:
	$(call install_packages,$(DEPS_BROWSER))
# At once, for .ci/run.
deps-ci:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_TEST) $(DEPS_LINT) $(DEPS_COUNT) $(DEPS_ARM64) \
	    $(DEPS_SYSTEMD) $(DEPS_DEB) $(DEPS_DEBIAN13) $(DEPS_CLUSTER) $(DEPS_BROWSER))
deps-systemd:
	$(call install_packages,$(DEPS_SYSTEMD))
deps-lint:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_TEST) $(DEPS_LINT))
deps-arm64:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_ARM64))
deps-riscv64:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_RISCV64))
deps-cluster:
	$(call install_packages,$(DEPS_CLUSTER))
deps-count:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_COUNT))
deps-vm:
	$(call install_packages,$(DEPS_VM))
deps-fuzz:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_FUZZ))
deps-docs:
	$(call install_packages,$(DEPS_DOCS))
deps-peers:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_PEERS))
deps-watch:
	$(call install_packages,$(DEPS_WATCH))
deps-debian13:
	$(call install_packages,$(DEPS_DEBIAN13))
deps-deb-source:
	$(call install_packages,$(DEPS_DEB_SOURCE))
deps-deb:
	$(call install_packages,$(DEPS_BUILD) $(DEPS_DEB))
