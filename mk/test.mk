# Tests: one program per file tests/*/test_*.c, linked with what it tests. docs/testing.md describes
# them.

CHECK_LIBS := -Wl,--wrap=_mark_point -Wl,--wrap=_tcase_add_test -lcheck -lsubunit -lm -lrt -lpthread

# What tests and benchmarks share: an archive, of which a program takes what it uses. Reports are
# read as npuctl does.
TEST_LIB_SRC := $(wildcard tests/common/*.c) client/tools/npuctl/trace_rows.c
TEST_LIB := $(BUILD)/tests/test.a
$(TEST_LIB): $(TEST_LIB_SRC:%.c=$(BUILD)/%.o) $(PROTO_OBJ)
	$(call say,AR)
	$(Q)rm -f $@ && ar rcs $@ $^

# Unit tests reach into the daemon: everything but its main().
RESTART_SRC := $(wildcard tests/unit/test_restart_*.c) \
    tests/unit/test_kept.c tests/unit/test_kept_prefix.c
UNIT_BIN := $(patsubst %.c,$(BUILD)/%,\
    $(filter-out $(RESTART_SRC),$(wildcard tests/unit/test_*.c)))
UNIT_LDFLAGS := $(NPUD_LIBS) $(CHECK_LIBS)
$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(DAEMON_TESTABLE) $(PROTO_OBJ) $(TEST_LIB)
	$(call link,$(UNIT_LDFLAGS))

# The keeper and the supervisor are programs of their own.
$(BUILD)/tests/unit/test_keeper: \
    $(filter-out %/main.o,$(filter $(BUILD)/daemon/keeper/%,$(KEEPER_OBJ)))
$(BUILD)/tests/unit/test_supervisor: \
    $(filter-out %/main.o,$(filter $(BUILD)/daemon/supervisor/%,$(SUPERVISOR_OBJ)))
# START may come when its server is dead already.
$(BUILD)/tests/unit/test_supervisor: UNIT_LDFLAGS += \
    $(foreach f,supervisor_message_send service_manager_tell fork,-Wl,--wrap=$(f))

# Tests of restarts are their own keeper, and have kill places: tests/unit/restart.h. They are built
# with the programs of tests/kill.
RESTART_BIN := $(RESTART_SRC:%.c=$(BUILD)/%)
$(RESTART_BIN): UNIT_LDFLAGS += $(foreach f,put drop fetch,-Wl,--wrap=keeper_$(f)) \
    -Wl,--wrap=kept_make
$(BUILD)/tests/unit/test_kept: UNIT_LDFLAGS += -Wl,--wrap=reallocarray
# It records what is stored into kept memory, and given back.
$(BUILD)/tests/unit/test_kept_prefix: UNIT_LDFLAGS += \
    $(foreach f,mmap madvise memset memcpy,-Wl,--wrap=$(f))

# An executor is run as npud runs it, with a library that plays the vendor's.
FAKE_VENDOR := $(BUILD)/tests/vendor/libfake_vendor.so
$(FAKE_VENDOR): $(BUILD)/tests/vendor/fake_vendor.pic.o
	$(call link,-shared -Wl$(comma)-z$(comma)defs -Wl$(comma)-soname$(comma)$(@F) -lpthread)
$(BUILD)/tests/unit/test_executor: | $(BUILD)/npud-executor $(FAKE_VENDOR) \
    $(addprefix $(BUILD)/tests/gpu/,libfake_cuda.so libnvidia-ml.so.1)

# A product file that a test compiles for itself, because each of its atomic operations is to be a
# step: $(call hooked,ROOM,FILE,STATIC) compiles FILE.c with tests/ROOM/hooks/NAME.h included before
# it. The test can call the functions STATIC, which are static otherwise.
define hooked
$(BUILD)/tests/$(1)/hooks/$(notdir $(2)).o: $(2).c tests/$(1)/hooks/$(notdir $(2)).h \
    $(FLAGS) | $(PB).h
	@mkdir -p $$(@D)
	$$(call say,CC)
	$$(Q)$$(CC) $$(ALL) $$(PIE) $(if $(3),-fno-inline -fno-lto -fkeep-static-functions) \
	    -include tests/$(1)/hooks/$(notdir $(2)).h -c $$< -o $$@
	$(if $(3),$$(Q)$$(OBJCOPY) $(addprefix --globalize-symbol=,$(3)) $$@)
endef
OBJCOPY ?= objcopy
$(eval $(call hooked,unit,daemon/core/ipc_event,open_new left_free))
$(eval $(call hooked,unit,daemon/core/ipc_failures))
$(eval $(call hooked,unit,daemon/core/ipc_record,fail_if_opener_gone))
$(eval $(call hooked,unit,daemon/base/waitlist))
$(eval $(call hooked,unit,daemon/buffers/chain))
$(eval $(call hooked,unit,daemon/buffers/segment_use))
$(eval $(call hooked,unit,daemon/buffers/sweep))
$(eval $(call hooked,fuzz,daemon/engine/engine))
$(eval $(call hooked,fuzz,daemon/engine/idle))
$(eval $(call hooked,order,daemon/base/waitlist))
$(eval $(call hooked,order,client/core/ring_guard))
$(eval $(call hooked,order,client/core/biased_lock))

# Their calloc() and malloc() may fail.
$(BUILD)/tests/unit/test_queue: UNIT_LDFLAGS += -Wl,--wrap=calloc
$(BUILD)/tests/unit/test_envelope: UNIT_LDFLAGS += -Wl,--wrap=malloc
# With the allocator of npud.
$(BUILD)/tests/unit/test_heap: UNIT_LDFLAGS += $(NPUD_MALLOC)

MBUF_STEPS := chain.o segment_use.o sweep.o
$(BUILD)/tests/unit/test_mbuf_steps: $(MBUF_STEPS:%=$(BUILD)/tests/unit/hooks/%)
$(BUILD)/tests/unit/test_api_call: \
    $(addprefix $(BUILD)/client/core/,api_call.o npud_clock.o thread_mark.o)
$(BUILD)/tests/unit/test_callback_table: $(BUILD)/client/callback/callback_table.o
$(BUILD)/tests/unit/test_wait: \
    $(addprefix $(BUILD)/client/core/,wait.o api_call.o biased_lock.o thread_mark.o \
        trace_writer.o npud_clock.o)
$(BUILD)/tests/unit/test_access: $(BUILD)/client/core/access.o
$(BUILD)/tests/unit/test_text: $(BUILD)/client/tools/npuctl/text.o
$(BUILD)/tests/unit/test_biased_lock: $(BUILD)/client/core/biased_lock.o
$(BUILD)/tests/unit/test_place: $(addprefix $(BUILD)/client/memory/,place.o submit.o)
$(BUILD)/tests/unit/test_channel_message: $(BUILD)/client/channel/message.o
$(BUILD)/tests/unit/test_memory_lock: $(BUILD)/client/memory/memory_lock.o
$(BUILD)/tests/unit/test_pool_index: $(BUILD)/client/memory/pool_index.o
# In place of npud's own.
IPC_MODEL := ipc_event.o ipc_failures.o ipc_record.o
$(BUILD)/tests/unit/test_ipc_model: $(BUILD)/tests/unit/test_ipc_model.o \
    $(filter-out $(IPC_MODEL:%=$(BUILD)/daemon/core/%),$(DAEMON_TESTABLE)) \
    $(IPC_MODEL:%=$(BUILD)/tests/unit/hooks/%) $(PROTO_OBJ) $(TEST_LIB)
	$(call link,$(UNIT_LDFLAGS))

# Engines without threads: a turn is a call.
ENGINE_STEPS := engine.o idle.o
STEPS_BIN := $(addprefix $(BUILD)/tests/unit/test_,engine_steps trace_note \
    restart_graph restart_memory restart_notify restart_release restart_streams restart_work)
STEPS_OBJ := $(filter-out $(ENGINE_STEPS:%=$(BUILD)/daemon/engine/%),$(DAEMON_TESTABLE)) \
    $(ENGINE_STEPS:%=$(BUILD)/tests/fuzz/hooks/%) $(PROTO_OBJ)
$(STEPS_BIN): %: %.o $(TEST_LIB) $(STEPS_OBJ)
	$(call link,$(UNIT_LDFLAGS))
# The locks of lists are steps, too.
$(BUILD)/tests/unit/test_value_order: $(BUILD)/tests/unit/test_value_order.o $(TEST_LIB) \
    $(filter-out %/base/waitlist.o,$(STEPS_OBJ)) $(BUILD)/tests/unit/hooks/waitlist.o
	$(call link,$(UNIT_LDFLAGS))

# npu-check without its main and its reports; nothing of the daemon.
CHECK_MODEL_OBJ := $(addprefix $(BUILD)/client/tools/npu-check/,acts.o checker.o clock.o event.o \
    find.o find_free.o find_ignored.o find_init.o find_leak.o find_race.o find_unfinished.o \
    find_wait.o finding.o memory.o model.o read.o records.o session.o shadow.o signal.o stream.o \
    task.o)
CHECK_MODEL_BIN := $(addprefix $(BUILD)/tests/unit/test_check_,model random read)
$(BUILD)/tests/unit/test_check_random: $(BUILD)/tests/unit/check_program.o
$(CHECK_MODEL_BIN): %: %.o $(BUILD)/tests/unit/check_script.o \
    $(CHECK_MODEL_OBJ) $(TEST_LIB)
	$(call link,$(filter-out -Wl%,$(CHECK_LIBS)))

# Its reports. The public functions of the library are looked up in the library.
CHECK_REPORT_OBJ := $(addprefix $(BUILD)/client/tools/npu-check/,finding.o json.o report_json.o \
    report_sarif.o report_text.o report_title.o suppress.o symbol.o words.o) \
    $(BUILD)/client/tools/npuctl/text.o
$(BUILD)/tests/unit/test_check_report: $(BUILD)/tests/unit/test_check_report.o \
    $(CHECK_REPORT_OBJ) $(PROTO_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(NPUCHECK_LIBS) $(filter-out -Wl%,$(CHECK_LIBS)))

# The real npud, and processes that use the library.
E2E_SRC := $(wildcard tests/e2e/*.c)
E2E_BIN := $(patsubst %.c,$(BUILD)/%,$(filter tests/e2e/test_%,$(E2E_SRC)))
E2E_LIB := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/e2e/test_%,$(E2E_SRC)))
E2E_LDFLAGS := $(USE_LIB) -lprotobuf-c $(CHECK_LIBS)
$(BUILD)/tests/e2e/%: $(BUILD)/tests/e2e/%.o $(E2E_LIB) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# The same, and they call functions of the library that programs cannot: they have its objects. Some
# locks are taken by the library and given back by the test.
INSIDE_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/inside/test_*.c))
$(INSIDE_BIN): %: %.o $(CLIENT_OBJ) $(TEST_LIB)
	$(call link,$(INSIDE_LDFLAGS) -lprotobuf-c -lcjson $(CHECK_LIBS))
$(BUILD)/tests/inside/test_stream_window: INSIDE_LDFLAGS := -Wl,--wrap=abort_stream
$(INSIDE_BIN:%=%.o): override CPPFLAGS += $(if $(LOCK_ORDER),-include tests/common/lock_order.h)

# What checked processes write, as npu-check reads it.
$(BUILD)/tests/e2e/test_checked_random: $(BUILD)/tests/e2e/test_checked_random.o \
    $(BUILD)/tests/unit/check_program.o $(CHECK_MODEL_OBJ) $(E2E_LIB) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# What an executor uses of the vendor's library, over npud's own.
VENDOR_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/vendor/test_*.c))
ACL_TABLE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard daemon/executor/acl*.c)) \
    $(BUILD)/daemon/executor/vendor_text.o $(BUILD)/daemon/base/memfd.o
$(VENDOR_BIN): %: %.o $(ACL_TABLE_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# An executor that lies (tests/executor/liar.c).
LIAR := $(BUILD)/tests/executor/npud-liar
$(LIAR): $(addprefix $(BUILD)/,tests/executor/liar.o proto/util/fd_message.o \
    daemon/executor/rights.o daemon/base/pidfd.o)
	$(call link,-lpthread)
$(BUILD)/tests/e2e/test_executors $(BUILD)/tests/e2e/test_executor_rights: | $(LIAR)

# Kernels that a program loads from a file, and a driver of CUDA that runs others.
DEVICE_KERNELS := $(BUILD)/tests/executor/kernels.so
$(DEVICE_KERNELS): $(BUILD)/tests/executor/kernels.pic.o
	$(call link,-shared)
$(BUILD)/tests/e2e/test_away_sums: | $(DEVICE_KERNELS)
$(BUILD)/tests/e2e/test_device_kernels: | $(DEVICE_KERNELS) \
    $(BUILD)/tests/gpu/libfake_cuda.so

# Clients that misbehave, beside well-behaved ones.
HOSTILE_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/hostile/test_*.c))
HOSTILE_LIB := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/hostile/test_%,\
    $(wildcard tests/hostile/*.c)))
$(HOSTILE_BIN): %: %.o $(HOSTILE_LIB) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# Random programs against a model of the reference. MODEL_SEED and MODEL_COUNT choose them.
MODEL_BIN := $(BUILD)/tests/model/test_model
$(MODEL_BIN): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/model/*.c)) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# Oracles for every hand-over between processes: messages, records of events, notifies, copies.
# HANDOVER_SEED, HANDOVER_SECONDS.
HANDOVER_SRC := $(wildcard tests/handover/*.c)
HANDOVER_BIN := $(patsubst %.c,$(BUILD)/%,$(filter tests/handover/test_%,$(HANDOVER_SRC)))
HANDOVER_LIB := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/handover/test_%,$(HANDOVER_SRC)))
$(BUILD)/tests/handover/%: $(BUILD)/tests/handover/%.o $(HANDOVER_LIB) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# The protocols of proto/ under C11's memory orders (tests/order/explore.h).
ORDER_BIN := $(BUILD)/tests/order/test_order
$(ORDER_BIN): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/order/*.c)) \
    $(addprefix $(BUILD)/tests/order/hooks/,waitlist.o ring_guard.o biased_lock.o) \
    $(BUILD)/client/core/thread_mark.o
	$(call link,$(filter-out -Wl%,$(CHECK_LIBS)))

# Everything at once, for as long as one likes: SOAK_SEED, SOAK_SECONDS, SOAK_ROUNDS.
SOAK_BIN := $(BUILD)/tests/soak/test_soak
$(SOAK_BIN): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/soak/*.c)) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# SECONDS and SEED as asked for. Long programs: what is found after many rounds is found again from
# the seed.
.PHONY: soak
soak: deps
	$(Q)$(MAKE) --no-print-directory -s programs $(SOAK_BIN)
	$(Q)NPUD_BINDIR=$(BUILD) $(SOAK_BIN) --seconds $(SECONDS) --seed $(or $(SEED),1) \
	    --rounds 500 --verbose

# Built once more, with kill points in the library; npud and the rest are those of $(BUILD).
KILL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/kill_point.c,$(wildcard tests/kill/*.c)))
$(BUILD)/tests/kill/test_kill: $(KILL_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# The same for shared buffers and queues.
KILL_SHARE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/kill/share/*.c))
$(BUILD)/tests/kill/share/test_kill_share: $(KILL_SHARE_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# And of a checked process, while it writes.
KILL_CHECK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/kill/check/*.c))
$(BUILD)/tests/kill/check/test_kill_check: $(KILL_CHECK_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

# The deaths of npud itself, which is built with kill places (daemon/base/kill_here.h).
KILL_SERVER_OBJ := $(patsubst %.c,$(BUILD)/%.o,\
    $(filter-out %/kill_here.c,$(wildcard tests/kill/server/*.c)))
$(BUILD)/tests/kill/server/test_kill_server: $(KILL_SERVER_OBJ) $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS))

KILL_BIN := $(addprefix $(BUILD)/kill/tests/kill/,\
    test_kill share/test_kill_share check/test_kill_check server/test_kill_server) \
    $(RESTART_SRC:%.c=$(BUILD)/kill/%)
# Have no kill places. Not symbolic links: each looks for the others where it is.
KILL_SAME := $(addprefix $(BUILD)/kill/,npuctl npud-executor npud-keeper npud-supervisor)
$(KILL_SAME): $(BUILD)/kill/%: $(BUILD)/%
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
.PHONY: test-kill
test-kill: $(KILL_SAME)
	$(Q)$(MAKE) --no-print-directory $(if $(V),,-s) BUILD=$(BUILD)/kill KILL_POINTS=1 $(KILL_BIN) \
	    $(BUILD)/kill/npud

# The C++ headers, as users compile them.
CXX_WARN := -std=c++17 -Wall -Wextra -Werror
CXX_BIN  := $(patsubst %.cpp,$(BUILD)/%,$(wildcard tests/cxx/test_*.cpp))
$(BUILD)/tests/cxx/%.o: tests/cxx/%.cpp $(FLAGS) | $(PB).h
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) $(CXX_WARN) $(SAN) $(CFLAGS) -MMD -MP $(INC) -c $< -o $@
$(BUILD)/tests/cxx/%: $(BUILD)/tests/cxx/%.o $(TEST_LIB) $(LIB)
	$(call link,$(E2E_LDFLAGS) -lstdc++)

# The headers against the reference table, in C and in C++.
$(BUILD)/tests/abi/abi_test.c: tests/abi/gen-abi-test.sh tests/abi/abi.tsv
	@mkdir -p $(@D)
	$(Q)sh tests/abi/gen-abi-test.sh tests/abi/abi.tsv >$@

ABI_CHECK := -Wall -Wextra -Werror -Iinclude -fsyntax-only
$(BUILD)/tests/abi/ok: $(BUILD)/tests/abi/abi_test.c $(wildcard include/acl/*.h include/acl/*/*.h)
	$(call say,ABI)
	$(Q)$(CC) -std=gnu11 $(ABI_CHECK) $<
	$(Q)$(CXX) -x c++ -std=c++11 $(ABI_CHECK) $<
	@touch $@

# What needs the ordinary build: installing it and linking against it.
# It builds npud several times; lint has looked whether the patches apply.
LONG_RUN := tests/run/test-contributing.sh
RUN_TESTS ?= $(if $(NPUD_CHAOS),,\
    $(filter-out $(if $(NPUD_TEST_LONG),,$(LONG_RUN)),$(wildcard tests/run/test-*.sh)))

# A test program that cannot run under a sanitizer or the emulator of arm64 says so in its head
# comment, with the reason: " * Skipped under TSan: ..." or " * Skipped under ASan and TSan: ...".
SKIPPED_UNDER := $(if $(findstring thread,$(SAN)),TSan,$(if $(findstring address,$(SAN)),ASan))
TEST_SRC := $(wildcard tests/*/test_*.c tests/*/*/test_*.c)
sources_skipped = $(shell grep -lE '^ \* Skipped under ([A-Za-z]+ and )?$(1)[: ]' $(TEST_SRC))
programs_skipped = $(foreach t,$(patsubst tests/%.c,%,$(sources_skipped)), \
    $(BUILD)/tests/$(t) $(BUILD)/kill/tests/$(t))
SKIPPED_BIN := $(foreach u,$(SKIPPED_UNDER) $(if $(NPUD_CHAOS),chaos),$(call programs_skipped,$(u)))
# BRIEF=1: in CI, not those that take long under a sanitizer and of which other programs have the
# same code; and fewer rounds (choose_rounds in tests/common/effort.h). make check-long has all.
ASAN_LATER := $(addprefix e2e/test_,kernels ipc_order ipc_cells peaks event_table host_tasks \
    late_threads restart executors strict away_sums) \
    $(addprefix hostile/test_,hostile server_hostile) unit/test_supervisor
TSAN_LATER := $(addprefix e2e/test_,restart metrics shuffle inject regressions daemon channel \
    trace_stream copy_plans away_sums endings value_ends event_states)
SKIPPED_BIN += $(if $(BRIEF),$(addprefix $(BUILD)/tests/,$(if $(filter TSan,$(SKIPPED_UNDER)),\
    $(TSAN_LATER),$(ASAN_LATER))))
# With NPUD_CHAOS those that start the real npud by tests/common/harness.h, which has a killer then.
CHAOS_BIN := $(E2E_BIN) $(CXX_BIN) $(MODEL_BIN) $(SOAK_BIN) $(HANDOVER_BIN) \
    $(addprefix $(BUILD)/kill/tests/kill/,test_kill share/test_kill_share check/test_kill_check)
TEST_BIN := $(filter-out $(SKIPPED_BIN),$(if $(NPUD_CHAOS),$(CHAOS_BIN),$(UNIT_BIN) $(ORDER_BIN) \
    $(E2E_BIN) $(INSIDE_BIN) $(VENDOR_BIN) $(HOSTILE_BIN) $(CXX_BIN) $(MODEL_BIN) $(SOAK_BIN) \
    $(HANDOVER_BIN) $(KILL_BIN) $(FUZZ_BIN)))

.PHONY: test-programs test-suites check-run check-long check-asan check-tsan
test-programs: programs test-suites
# Without what only the scripts of tests/run use: examples, the toolkit tree, the module of Python.
test-suites: $(BINS) $(LIB) $(BUILD)/toolkit/npu-smi $(filter-out $(KILL_BIN),$(TEST_BIN)) \
    $(if $(filter $(KILL_BIN),$(TEST_BIN)),test-kill)

# Several run at a time: the longest begin first, so that the end waits for none of them. Their head
# comments say " * Runs long: N s", as measured on two processors.
LONGEST = $(patsubst %.c,%,$(notdir $(shell grep -oE '^( \*|\#) Runs long: [0-9]*' $(TEST_SRC) \
    tests/run/test-*.sh | sort -t: -k3 -rn | cut -d: -f1)))
longest_first = $(foreach t,$(LONGEST),$(filter %/$(t),$(1))) \
    $(filter-out $(addprefix %/,$(LONGEST)),$(1))

# With NPUD_TEST_BACKEND over devices that are away: what cannot hold there is left out.
check-run: $(if $(RUN_TESTS),test-programs examples,test-suites)
	$(Q)sh tests/$(if $(NPUD_TEST_BACKEND),run-nested,run-all).sh $(BUILD) \
	    $(call longest_first,$(TEST_BIN) $(RUN_TESTS))

# One program, or one script of tests/run or file of tests/python, with what npud says:
# make t T=e2e/test_queue CASE=name (a case of libcheck, or a test of the file of Python).
T_RUN = $(if $(filter run/%,$(T)),bash $(T:%=tests/%.sh) $(BUILD),$(if $(filter python/%,$(T)),\
    bash tests/run/test-python.sh $(BUILD) $(T:python/%=%.py) $(CASE),$(T_BIN)))
T_BIN = $(or $(filter $(BUILD)/kill/tests/$(T),$(KILL_BIN)),$(BUILD)/tests/$(T))
T_NEEDS = $(if $(filter run/% python/%,$(T)),examples,$(if $(filter $(T_BIN),$(KILL_BIN)),\
    test-kill,$(T_BIN)))
.PHONY: t watch check-again
t: deps
	@[ -n '$(T)' ] || { echo 'make t T=e2e/test_queue [CASE=name], T=run/test-man,' \
	    'T=python/test_events [CASE=Events.test_reset]' >&2; exit 1; }
	$(Q)$(MAKE) --no-print-directory -s programs $(T_NEEDS)
	$(Q)NPUD_BINDIR=$(BUILD) NPUD_TEST_VERBOSE=1 CK_VERBOSITY=verbose CK_TIMEOUT_MULTIPLIER=30 \
	    $(if $(CASE),CK_RUN_CASE='$(CASE)') $(T_RUN)

# Builds and runs what a change touches, until it is interrupted. WATCH="e2e/test_x": only these.
watch: deps
	$(Q)$(MAKE) --no-print-directory deps-watch
	$(Q)MAKE='$(MAKE)' bash tests/watch.sh $(BUILD) $(if $(WATCH),$(WATCH:%=$(BUILD)/tests/%),all)

# After make check, in the same tree: there is nothing to build, and what installs, builds and runs
# programs finds what it found before. Without what takes long, and builds nothing that others here
# do not build, too.
BUILDS = ' -o |ar rcs|protoc-c|-fsyntax-only|describe.py'
ONCE := $(patsubst %,tests/run/test-%.sh,check check-backend contributing cuda gpu kernels nested \
    npu-run programs python)
check-again:
	$(Q)left=$$($(MAKE) --no-print-directory -n V=1 $(BUILD)/tests/abi/ok test-programs examples) \
	    || exit 1; ! echo "$$left" | grep -E -- $(BUILDS) || \
	    { echo 'not ok: a second make builds that again' >&2; exit 1; }
	$(Q)sh tests/run-all.sh $(BUILD) $(filter-out $(ONCE),$(RUN_TESTS))

check: deps
	$(Q)$(MAKE) --no-print-directory $(BUILD)/tests/abi/ok check-run

# The server is killed every 50 ms while these tests run (tests/common/chaos.h): a minute. With two
# that take as long again in check-long. All of them: NPUD_CHAOS=ms make check.
CHAOS_LONG := ipc_order interplay
CHAOS_SHORT = $(addprefix e2e/test_,memory events event_states contexts callbacks exceptions \
    failures ipc_life ipc_memory notify notify_ipc queue_peers route session_end virtual \
    $(CHAOS_MORE)) \
    soak/test_soak handover/test_handover_events handover/test_handover_queues
.PHONY: check-chaos chaos-excepted
check-chaos: deps
	$(Q)NPUD_CHAOS=$${NPUD_CHAOS:-50} MODEL_COUNT=$${MODEL_COUNT:-600} \
	    $(MAKE) --no-print-directory check-run RUN_TESTS= \
	    TEST_BIN='$(CHAOS_SHORT:%=$(BUILD)/tests/%) $(MODEL_BIN)'

# With strict devices, whose memory no process can reach, and with work that takes time: the
# programs that move data, in less than a minute. All: NPUD_STRICT=1 NPUD_LATENCY_US=100 make check.
STRICT_SHORT := $(addprefix e2e/test_,strict memory memory_pool copies managed registration value \
    stream_tasks mbuf inject data_path restart) handover/test_handover_copies
.PHONY: check-strict
check-strict: deps
	$(Q)NPUD_STRICT=1 NPUD_LATENCY_US=$${NPUD_LATENCY_US:-100} \
	    $(MAKE) --no-print-directory check-run RUN_TESTS= \
	    TEST_BIN='$(STRICT_SHORT:%=$(BUILD)/tests/%)'

# npud in npud (tests/run-nested.sh): all programs in which the backend plays a part, in six minutes
# on two processors; tests/run/test-nested.sh, in make check, has a third of them. Not: what never
# asks a device, and what brings devices of its own. NESTED="e2e/test_x": these.
# NPUD_TEST_BACKEND=cuda: over the fake of CUDA instead.
NESTED_NOT := $(addprefix e2e/test_,app_log queue% route call_names time_namespace privileged \
    peaks mbuf checked_random top executors executor_rights bad_days endings)
NESTED_ALL := $(filter-out $(NESTED_NOT),$(patsubst $(BUILD)/tests/%,%,$(E2E_BIN) $(HOSTILE_BIN) \
    $(MODEL_BIN) $(SOAK_BIN)))
NESTED_NAMES = $(or $(NESTED),$(NESTED_ALL))
NESTED_BIN = $(foreach t,$(NESTED_NAMES),$(BUILD)/$(if $(filter kill/%,$(t)),kill/)tests/$(t))
.PHONY: check-nested
check-nested: deps
	$(Q)$(MAKE) --no-print-directory -s programs $(filter-out $(BUILD)/kill/%,$(NESTED_BIN)) \
	    $(FAKE_CUDA) $(FAKE_NVML) \
	    $(if $(filter $(BUILD)/kill/%,$(NESTED_BIN)),test-kill)
	$(Q)MODEL_COUNT=$${MODEL_COUNT:-600} sh tests/run-nested.sh $(BUILD) \
	    $(call longest_first,$(NESTED_BIN))

# npud in npud, whose outer server is killed every 100 ms: a short form of
# NPUD_TEST_BACKEND=acl make check-chaos.
CHAOS_NESTED := e2e/test_ipc_memory handover/test_handover_copies soak/test_soak
.PHONY: check-nested-chaos
check-nested-chaos: deps
	$(Q)NPUD_CHAOS=$${NPUD_CHAOS:-100} NPUD_TEST_BACKEND=acl \
	    $(MAKE) --no-print-directory check-run RUN_TESTS= \
	    TEST_BIN='$(CHAOS_NESTED:%=$(BUILD)/tests/%)'

# What chaos does not run, and why.
chaos-excepted:
	@grep -H '^ \* Skipped under chaos: ' $(TEST_SRC) | sed 's/: \* Skipped under chaos//'
	@awk '/^START_TEST/ {gsub(/START_TEST\(|\)/, ""); test = $$0} \
	    /need_one_server\(__func__/ {split($$0, w, "\""); print FILENAME ": " test ": " w[2]}' \
	    $(TEST_SRC)

# The same tests for longer (tests/common/effort.h), and what CI has no time for.
check-long: deps
	$(Q)NPUD_TEST_LONG=1 CK_DEFAULT_TIMEOUT=$${CK_DEFAULT_TIMEOUT:-1800} \
	$(MAKE) --no-print-directory $(BUILD)/tests/abi/ok check-run
	$(Q)$(MAKE) --no-print-directory deps-lint
	$(Q)$(MAKE) --no-print-directory -k tidy
	$(Q)NPUD_TEST_LONG=1 $(MAKE) --no-print-directory check-systemd
	$(Q)$(MAKE) --no-print-directory check-deb-source
	$(Q)$(MAKE) --no-print-directory check-asan
	$(Q)$(MAKE) --no-print-directory check-tsan
	$(Q)$(MAKE) --no-print-directory check-strict
	$(Q)$(MAKE) --no-print-directory check-chaos CHAOS_MORE='$(CHAOS_LONG)'
	$(Q)$(MAKE) --no-print-directory check-nested
	$(Q)$(MAKE) --no-print-directory check-nested-chaos
	$(Q)$(MAKE) --no-print-directory check-riscv64

# -O1 keeps stack traces readable; -g1 has what they need, and compiles in a fifth less time. An
# allocation that the sanitizer refuses returns null, as it does without a sanitizer.
SAN_CFLAGS := -O1 -g1 -fno-omit-frame-pointer
SAN_BRIEF  := $(if $(BRIEF),NPUD_TEST_BRIEF=1)
check-asan: deps
	$(Q)$(SAN_BRIEF) MODEL_COUNT=$${MODEL_COUNT:-600} \
	ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(MAKE) --no-print-directory check-run BUILD=build-asan RUN_TESTS= CFLAGS='$(SAN_CFLAGS)' \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined'

# setarch -R: the runtime of gcc 12 fails with the address randomisation of newer kernels. A process
# that ends while it has other threads waits for races with them: by default for a second, which was
# most of the time of tests with many processes.
TSAN_OPTIONS_HERE := suppressions=$(CURDIR)/tests/tsan.supp:halt_on_error=1$\
    :second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=100
check-tsan: deps
	$(Q)$(SAN_BRIEF) MODEL_COUNT=$${MODEL_COUNT:-300} TSAN_OPTIONS=$(TSAN_OPTIONS_HERE) setarch -R \
	$(MAKE) --no-print-directory check-run BUILD=build-tsan RUN_TESTS= CFLAGS='$(SAN_CFLAGS)' \
	    SAN=-fsanitize=thread WARN='$(WARN) -Wno-tsan'

# npud under a real systemd, in a container of the machine's own files. Prints "SKIPPED" where no
# container can be booted: without root, for one.
.PHONY: check-systemd
check-systemd: deps
	$(Q)[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory deps-systemd || true
	$(Q)$(MAKE) --no-print-directory -s programs $(LIAR)
	$(Q)[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory check-deb
	$(Q)bash tests/systemd/check-systemd.sh $(BUILD)

# The packages, Slurm with control groups, podman without root, and Kubernetes' device plugin, in a
# virtual machine. Not in CI.
.PHONY: check-vm
check-vm: deps
	$(Q)[ "$$(id -u)" != 0 ] || $(MAKE) --no-print-directory deps-vm || true
	$(Q)$(MAKE) --no-print-directory -s deb
	$(Q)bash tests/vm/check-vm.sh $(BUILD)

# Objects that only pattern rules name are kept.
.SECONDARY: $(TEST_SRC:%.c=$(BUILD)/%.o) $(TEST_LIB_SRC:%.c=$(BUILD)/%.o) $(TEST_LIB) \
    $(E2E_LIB) $(HANDOVER_LIB) $(CXX_BIN:%=%.o) $(FUZZ_BIN:%=%.o) $(FUZZ_LIB) $(FUZZ_MAIN)
