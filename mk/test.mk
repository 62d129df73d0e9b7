# Tests: one program per file in tests/unit and tests/e2e, linked with what it tests.

CHECK_LIBS := -lcheck -lsubunit -lm -lrt -lpthread
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
E2E_BIN  := $(patsubst tests/e2e/%.c,$(BUILD)/tests/e2e/%,$(wildcard tests/e2e/test_*.c))
# What tests and benchmarks share.
COMMON_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/common/*.c))
E2E_LIB  := $(patsubst tests/e2e/%.c,$(BUILD)/tests/e2e/%.o,$(filter-out tests/e2e/test_%,$(wildcard tests/e2e/*.c))) $(COMMON_OBJ) $(PROTO_OBJ)

# Unit tests reach into the daemon: everything but its main().
DAEMON_TESTABLE := $(filter-out $(BUILD)/daemon/main.o,$(DAEMON_OBJ))

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(DAEMON_TESTABLE) $(PROTO_OBJ)
	$(call say,LD)
	$(Q)$(LINK) $^ -o $@ -levent_core -levent_pthreads -lprotobuf-c -lsystemd -linih $(CHECK_LIBS)

# It has daemon/core/ipc_event.c in it, with each atomic operation as a step and with few slots.
$(BUILD)/tests/unit/test_ipc_model: $(BUILD)/tests/unit/test_ipc_model.o $(filter-out $(BUILD)/daemon/core/ipc_event.o,$(DAEMON_TESTABLE)) $(PROTO_OBJ)
	$(call say,LD)
	$(Q)$(LINK) $^ -o $@ -levent_core -levent_pthreads -lprotobuf-c -lsystemd -linih $(CHECK_LIBS)

# What one of them alone needs: clients without the library, which kill points could not be built into.
E2E_MORE_test_hostile := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/hostile/*.c))
$(BUILD)/tests/e2e/test_hostile: $(E2E_MORE_test_hostile)
E2E_MORE_test_share_hostile := $(BUILD)/tests/hostile/raw.o $(BUILD)/tests/hostile/raw_share.o
$(BUILD)/tests/e2e/test_share_hostile: $(E2E_MORE_test_share_hostile)
E2E_MORE_test_abort_steps := $(BUILD)/tests/hostile/raw.o
$(BUILD)/tests/e2e/test_abort_steps: $(E2E_MORE_test_abort_steps)

$(BUILD)/tests/e2e/%: $(BUILD)/tests/e2e/%.o $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(BUILD)/tests/e2e/$*.o $(E2E_MORE_$*) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# Random programs against a model of the reference. MODEL_SEED and MODEL_COUNT choose them.
MODEL_BIN := $(BUILD)/tests/model/test_model
MODEL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/model/*.c))
$(MODEL_BIN): $(MODEL_OBJ) $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(MODEL_OBJ) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# Oracles for every hand-over between processes: messages, records of events, notifies, copies. HANDOVER_SEED, HANDOVER_SECONDS.
HANDOVER_BIN := $(patsubst tests/handover/%.c,$(BUILD)/tests/handover/%,$(wildcard tests/handover/test_*.c))
HANDOVER_LIB := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/handover/test_%,$(wildcard tests/handover/*.c)))
$(BUILD)/tests/handover/%: $(BUILD)/tests/handover/%.o $(HANDOVER_LIB) $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(BUILD)/tests/handover/$*.o $(HANDOVER_LIB) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# The protocols of proto/ under C11's memory orders (tests/order/explore.h). It is its own machine: sanitizers have nothing to see in it.
ORDER_BIN := $(BUILD)/tests/order/test_order
ORDER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/order/*.c))
$(ORDER_BIN): $(ORDER_OBJ)
	$(call say,LD)
	$(Q)$(LINK) $^ -o $@ $(CHECK_LIBS)

# Everything at once, for as long as one likes: SOAK_SEED, SOAK_SECONDS, SOAK_ROUNDS.
SOAK_BIN := $(BUILD)/tests/soak/test_soak
SOAK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/soak/*.c))
$(SOAK_BIN): $(SOAK_OBJ) $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(SOAK_OBJ) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# SECONDS and SEED as asked for. Long programs: what is found after many rounds is found again from the seed.
.PHONY: soak
soak: deps
	$(Q)$(MAKE) --no-print-directory -s programs $(SOAK_BIN)
	$(Q)NPUD_BINDIR=$(BUILD) $(SOAK_BIN) --seconds $(SECONDS) --seed $(or $(SEED),1) --rounds 500 --verbose

# Built once more, with kill points in the library; npud and the rest are those of $(BUILD).
KILL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/kill_point.c,$(wildcard tests/kill/*.c)))
$(BUILD)/tests/kill/test_kill: $(KILL_OBJ) $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(KILL_OBJ) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# The same for shared buffers and queues.
KILL_SHARE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/kill/share/*.c))
$(BUILD)/tests/kill/share/test_kill_share: $(KILL_SHARE_OBJ) $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(KILL_SHARE_OBJ) $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

KILL_BIN := $(BUILD)/kill/tests/kill/test_kill $(BUILD)/kill/tests/kill/share/test_kill_share
.PHONY: test-kill
test-kill:
	$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/kill KILL_POINTS=1 $(KILL_BIN)

.SECONDARY: $(UNIT_BIN:%=%.o) $(E2E_BIN:%=%.o) $(HANDOVER_BIN:%=%.o) $(HANDOVER_LIB) $(E2E_LIB)

# The C++ headers, as users compile them.
CXX_WARN := -std=c++17 -Wall -Wextra -Werror
CXX_BIN  := $(patsubst tests/cxx/%.cpp,$(BUILD)/tests/cxx/%,$(wildcard tests/cxx/test_*.cpp))
$(BUILD)/tests/cxx/%: tests/cxx/%.cpp $(E2E_LIB) $(LIB) $(wildcard include/acl/*.h include/acl/*.hpp) tests/e2e/harness.h
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CXX) $(CXX_WARN) $(SAN) $(CFLAGS) -I. -Iinclude $< $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

# The headers against the reference table, in C and in C++.
$(BUILD)/tests/abi/abi_test.c: tests/abi/gen-abi-test.sh tests/abi/abi.tsv
	@mkdir -p $(@D)
	$(Q)sh tests/abi/gen-abi-test.sh tests/abi/abi.tsv >$@

$(BUILD)/tests/abi/ok: $(BUILD)/tests/abi/abi_test.c $(wildcard include/acl/*.h include/acl/*/*.h)
	$(call say,ABI)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -Werror -Iinclude -fsyntax-only $<
	$(Q)$(CXX) -x c++ -std=c++11 -Wall -Wextra -Werror -Iinclude -fsyntax-only $<
	@touch $@

.PHONY: test-programs check-run check-long check-asan check-tsan check-valgrind
test-programs: programs $(UNIT_BIN) $(ORDER_BIN) $(E2E_BIN) $(CXX_BIN) $(MODEL_BIN) $(SOAK_BIN) $(HANDOVER_BIN) $(if $(KILL_BIN),test-kill)

# What needs the ordinary build: installing it and linking against it.
RUN_TESTS ?= $(wildcard tests/run/test-*.sh)

# Several run at a time: the longest begin first, so that the end waits for none of them.
LONGEST := test_kill_share test_hostile test_scale test_interplay test_mbuf test_share_hostile test_ipc_order test_ipc_cells \
           test_model test_kill test_queue_model test_soak test_event_states test_memory test_pool
longest_first = $(foreach t,$(LONGEST),$(filter %/$(t),$(1))) $(filter-out $(addprefix %/,$(LONGEST)),$(1))

check-run: test-programs examples
	$(Q)sh tests/run-all.sh $(BUILD) $(call longest_first,$(UNIT_BIN) $(ORDER_BIN) $(E2E_BIN) $(CXX_BIN) $(MODEL_BIN) $(SOAK_BIN) $(HANDOVER_BIN) $(KILL_BIN) $(FUZZ_BIN) $(RUN_TESTS))

check: deps
	$(Q)$(MAKE) --no-print-directory $(BUILD)/tests/abi/ok check-run

# The same tests for longer: tests/common/effort.h.
check-long: deps
	$(Q)NPUD_TEST_LONG=1 CK_DEFAULT_TIMEOUT=$${CK_DEFAULT_TIMEOUT:-1800} \
	$(MAKE) --no-print-directory $(BUILD)/tests/abi/ok check-run

# -O1 keeps stack traces readable. What an allocation that the sanitizer itself refuses would end is an error for us: null.
check-asan: deps
	$(Q)MODEL_COUNT=$${MODEL_COUNT:-600} \
	ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(MAKE) --no-print-directory check-run BUILD=build-asan RUN_TESTS= ORDER_BIN= CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined'

# Not the kill points: what dies there is one thread after the other. Nor what asks one question after the other, or ends one process after the
# other, for minutes, or only costs memory: the threads of npud and of the library meet in the same ways in test_ipc_order, test_queue,
# test_queue_ends, the model and the soak. Nor what hostile sessions write into shared memory: no thread of npud but the one that reads it. Nor what
# has one thread, on many stacks. ASan looks at all of them.
TSAN_SKIP := test_contexts test_ipc_cells test_hostile test_share_hostile test_ipc_life test_queue_peers test_scale test_memory test_interplay
TSAN_SKIP_UNIT := test_mbuf_steps test_queue_model test_ipc_model
# setarch -R: gcc 12's runtime cannot live with the address randomisation of newer kernels.
check-tsan: deps
	$(Q)MODEL_COUNT=$${MODEL_COUNT:-300} \
	TSAN_OPTIONS=suppressions=$(CURDIR)/tests/tsan.supp:halt_on_error=1:second_deadlock_stack=1:die_after_fork=0 setarch -R \
	$(MAKE) --no-print-directory check-run BUILD=build-tsan RUN_TESTS= ORDER_BIN= HANDOVER_BIN= KILL_BIN= E2E_BIN='$(filter-out $(addprefix build-tsan/tests/e2e/,$(TSAN_SKIP)),$(patsubst $(BUILD)/%,build-tsan/%,$(E2E_BIN)))' \
	    UNIT_BIN='$(filter-out $(addprefix build-tsan/tests/unit/,$(TSAN_SKIP_UNIT)),$(patsubst $(BUILD)/%,build-tsan/%,$(UNIT_BIN)))' CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	    SAN=-fsanitize=thread WARN='$(WARN) -Wno-tsan'

# npud under a real systemd, in a container of the machine's own files. Says "SKIPPED" where none can be booted: without root, for one.
.PHONY: check-systemd
check-systemd: deps
	$(Q)[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory deps-systemd || true
	$(Q)$(MAKE) --no-print-directory -s programs
	$(Q)bash tests/systemd/check-systemd.sh $(BUILD)

# --- demo, bench, lint ---

EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*/*.c)) \
            $(patsubst examples/%.cpp,$(BUILD)/examples/%,$(wildcard examples/*/*.cpp))
EXAMPLE_LIBS_event_loop := -levent_core

$(BUILD)/examples/%: examples/%.c $(wildcard examples/*/*.h) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) -std=gnu11 -Wall -Wextra -Werror $(SAN) $(CFLAGS) -Iinclude -Iexamples $< -o $@ \
	    -L$(BUILD) -laclclient -Wl,-rpath,$(abspath $(BUILD)) $(EXAMPLE_LIBS_$(@F))

$(BUILD)/examples/%: examples/%.cpp $(wildcard include/acl/*.hpp) $(LIB)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CXX) $(CXX_WARN) $(SAN) $(CFLAGS) -Iinclude $< -o $@ -L$(BUILD) -laclclient -Wl,-rpath,$(abspath $(BUILD))

.PHONY: examples demo-python bench bench-smoke bench-ab lint lint-run
examples: $(EXAMPLES)

demo: deps-build
	$(Q)$(MAKE) --no-print-directory programs examples
	@echo '== private npud with two simulated NPUs; the IPC event example between two processes'
	$(Q)$(BUILD)/npu-run --devices 2 -- sh examples/ipc_event/run.sh $(BUILD)/examples/ipc_event
	@echo '== NPU events in the loop of libevent'
	$(Q)$(BUILD)/npu-run --devices 2 -- $(BUILD)/examples/event_loop/event_loop
	@echo '== the same between two processes in C++'
	$(Q)$(BUILD)/npu-run --devices 2 -- $(BUILD)/examples/ipc_cpp/ipc_cpp
	@echo '== a buffer that two processes share, and the queues that it travels through'
	$(Q)$(BUILD)/npu-run --devices 2 -- sh examples/shared_buffer/run.sh $(BUILD)/examples/shared_buffer
	@echo '== demo: OK'

demo-python: deps-build
	$(Q)$(MAKE) --no-print-directory programs examples
	@echo '== private npud with two simulated NPUs; the IPC event example in Python, and with one of the two in C'
	$(Q)PYTHONPATH=$(abspath $(PY_BUILT)) $(BUILD)/npu-run --devices 2 -- bash examples/python/run.sh $(BUILD)/examples/ipc_event
	@echo '== demo-python: OK'

BENCH_SRC := $(wildcard tests/bench/*.c)
$(BUILD)/bench: $(BENCH_SRC:%.c=$(BUILD)/%.o) $(COMMON_OBJ) $(LIB)
	$(call say,LD)
	$(Q)$(LINK) $(BENCH_SRC:%.c=$(BUILD)/%.o) $(COMMON_OBJ) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lm -lpthread

bench: deps-build
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(BUILD)

bench-smoke: deps-build
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(BUILD) --smoke

# This build beside that of another tree, round by round: OLD is the tree or its build folder. ROWS: only these, 1,2,6 for example.
OLD_BUILD = $(abspath $(if $(wildcard $(OLD)/npud),$(OLD),$(OLD)/build))
bench-ab: deps-build
	@[ -x '$(OLD_BUILD)/npud' ] || { echo 'make bench-ab OLD=folder: a tree that was built, or its build folder' >&2; exit 1; }
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(abspath $(BUILD)) --against '$(OLD_BUILD)' $(if $(ROWS),--rows $(ROWS))

C_FILES := $(shell find proto daemon client include tests examples -name '*.[ch]' -o -name '*.[ch]pp' 2>/dev/null)
SH_FILES := .ci/run .ci/check-as-user $(shell find tests examples mk -name '*.sh') client/tools/npuctl/npuctl.bash-completion
TIDY_SRC := $(PROTO_SRC) $(DAEMON_SRC) $(CLIENT_SRC) $(NPU_RUN_SRC) $(NPUCTL_SRC)

TIDY := $(addprefix tidy/,$(TIDY_SRC) $(PY_SRC))
.PHONY: $(TIDY)
$(TIDY): tidy/%: $(PB).h $(ERROR_NAMES) $(PY_NAMES)
	$(Q)! clang-tidy --quiet $* -- $(STD) $(INC) $(PY_INC) 2>&1 | grep -E -A9 '(warning|error):'

lint: deps-lint
	$(Q)$(MAKE) --no-print-directory lint-run

lint-run: $(PB).h $(ERROR_NAMES) $(PY_NAMES)
	@echo '== clang-format'
	$(Q)clang-format --dry-run --Werror $(C_FILES)
	@echo '== clang-tidy'
	$(Q)$(MAKE) --no-print-directory -k $(TIDY)
	@echo '== shellcheck'
	$(Q)shellcheck $(SH_FILES)
	@echo '== mandoc'
	$(Q)mandoc -T lint -W warning $(shell find daemon client -name '*.[1-8]')
	@echo '== mutants apply'
	$(Q)$(MAKE) --no-print-directory mutants-apply
	@echo 'lint: clean'
