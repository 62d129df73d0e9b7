# npud on Debian 13, with its gcc 14 and Python 3.13: in a root of that, npud is built, and the
# tests run under ASan and UBSan, so that CI runs them once on each Debian: plain here, and
# sanitized there. The root lies below build-debian13, with what was built: a second run fetches
# nothing, and builds only what has changed. Prints "SKIPPED" where that cannot be.

DEBIAN13_BUILD := build-debian13
# What has to do with Python and the toolchain. The others take longer, and meet nothing of the
# machine that these do not.
DEBIAN13_RUN := $(patsubst %,tests/run/test-%.sh,python programs)

.PHONY: check-debian13 check-debian13-run fetch-debian13
# What it needs of the network, nothing else.
fetch-debian13:
	$(Q)bash mk/debian13.sh $(DEBIAN13_BUILD) make deps

check-debian13:
	$(Q)[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory deps-debian13 || true
	$(Q)bash mk/debian13.sh $(DEBIAN13_BUILD) \
	    sh -c 'make WERROR=$(WERROR) demo && make WERROR=$(WERROR) check-debian13-run'

# In there. Without what takes minutes, and is a part of check-long.
check-debian13-run: deps
	$(Q)$(MAKE) --no-print-directory $(BUILD)/tests/abi/ok
	$(Q)PROGRAMS_ONCE=yes \
	    $(MAKE) --no-print-directory check-run TEST_BIN= RUN_TESTS='$(DEBIAN13_RUN)'
	$(Q)$(MAKE) --no-print-directory check-asan KILL_BIN= BRIEF=1
