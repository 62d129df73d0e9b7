# arm64, the usual host of these devices: cross-built, and its unit tests run under an emulator of
# user programs.
#
# The libraries of arm64 are unpacked into the build folder: not all of their packages can be
# installed beside those of this machine. The C library of the cross compiler's packages is not run:
# with it, check's child processes never start.
#
# An emulator runs the programs, not the processor's memory orders. qemu 7.2 even breaks one that
# the architecture has: a load-acquire (ldar) may pass an earlier store-release (stlr) on an x86
# host, as 3,509 of 200,000 rounds of a bare litmus test show, and none with a fence between the
# two. Tests that need this order print SKIPPED there (tests/common/need.h); tests/order explores
# the orders themselves.

ARM64_BUILD := build-arm64
ARM64_ROOT  := $(ARM64_BUILD)/root
ARM64_LIB   := $(ARM64_ROOT)/usr/lib/aarch64-linux-gnu
ARM64_LIB_C := $(ARM64_ROOT)/lib/aarch64-linux-gnu
ARM64_DEBS  := libc6 libgcc-s1 libevent-dev libevent-core-2.1-7 libevent-pthreads-2.1-7 \
               libprotobuf-c-dev libprotobuf-c1 libsystemd-dev libsystemd0 libcap2 libgcrypt20 \
               libgpg-error0 liblz4-1 liblzma5 libzstd1 libinih-dev libinih1 libcjson-dev \
               libcjson1 libjemalloc-dev libjemalloc2 libstdc++6 check libsubunit-dev \
               libsubunit0 libncurses-dev libncursesw6 libtinfo6 libmicrohttpd-dev \
               libmicrohttpd12 libgnutls30 libp11-kit0 libidn2-0 libunistring2 libtasn1-6 \
               libnettle8 libhogweed6 libgmp10 libffi8 libdw-dev libdw1 libelf-dev \
               libelf1 libbz2-1.0 zlib1g libbsd-dev \
               libopenblas-pthread-dev libopenblas0-pthread libgfortran5
ARM64_INC   := -isystem $(ARM64_ROOT)/usr/include \
               -isystem $(ARM64_ROOT)/usr/include/aarch64-linux-gnu \
               -isystem $(ARM64_ROOT)/usr/include/aarch64-linux-gnu/openblas-pthread
# Where an installed OpenBLAS is, a link leads that the package makes when it is installed.
ARM64_LINK  := -L$(ARM64_LIB) -L$(ARM64_LIB_C) -L$(ARM64_LIB)/openblas-pthread \
               -Wl,-rpath-link,$(ARM64_LIB) -Wl,-rpath-link,$(ARM64_LIB_C) \
               -Wl,-rpath-link,$(ARM64_LIB)/openblas-pthread
ARM64_MAKE   = $(MAKE) --no-print-directory BUILD=$(ARM64_BUILD) CC=aarch64-linux-gnu-gcc \
               OBJCOPY=aarch64-linux-gnu-objcopy PYTHON=no CFLAGS='-O2 -g1' \
               CPPFLAGS='$(ARM64_INC)' LDFLAGS='$(ARM64_LINK)'

# An apt of its own for them, which needs no rights and leaves that of this machine as it is.
ARM64_APT   := $(ARM64_BUILD)/apt
ARM64_GET    = apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
               -o APT::Sandbox::User=root -o Dir::State=$(abspath $(ARM64_APT)) \
               -o Dir::State::status=/dev/null -o Dir::Cache=$(abspath $(ARM64_APT))

$(ARM64_ROOT)/.complete:
	@rm -rf $(ARM64_APT) $(ARM64_BUILD)/debs
	@mkdir -p $(ARM64_ROOT) $(ARM64_BUILD)/debs
	@mkdir -p $(ARM64_APT)/lists/partial $(ARM64_APT)/archives/partial
	$(Q)$(ARM64_GET) update
	$(Q)cd $(ARM64_BUILD)/debs && $(ARM64_GET) download $(ARM64_DEBS)
	$(Q)for deb in $(ARM64_BUILD)/debs/*.deb; do dpkg -x "$$deb" $(ARM64_ROOT) || exit 1; done
	@touch $@

ARM64_UNIT = $(patsubst $(BUILD)/%,$(ARM64_BUILD)/%, \
    $(filter-out $(call programs_skipped,the emulator),$(UNIT_BIN)))

# Each on one processor: the emulator breaks the order above where threads run at the same time, and
# the real processor does not.
ARM64_RUN = qemu-aarch64-static -L $(abspath $(ARM64_ROOT)) \
    -E LD_LIBRARY_PATH=$(abspath $(ARM64_LIB)):$(abspath $(ARM64_LIB_C))

.PHONY: check-arm64 fetch-arm64
fetch-arm64: $(ARM64_ROOT)/.complete
check-arm64: deps
	$(Q)$(MAKE) --no-print-directory deps-arm64
	$(Q)if $(MAKE) --no-print-directory $(ARM64_ROOT)/.complete; then \
	    $(MAKE) --no-print-directory check-arm64-run; \
	else echo 'SKIPPED check-arm64: needs the packages of arm64, see above'; fi

.PHONY: check-arm64-run
check-arm64-run:
	+$(Q)$(ARM64_MAKE) programs $(ARM64_UNIT)
	$(Q)NPUD_EMULATED=1 ONE_CPU=yes RUNNER='$(ARM64_RUN)' \
	sh tests/run-all.sh $(ARM64_BUILD) $(call longest_first,$(ARM64_UNIT))
