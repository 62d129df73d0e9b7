# Fuzzing: one program per tests/fuzz/fuzz_*.c. With libFuzzer (make fuzz), and as tests that replay
# the kept corpus (make check).

FUZZ      := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN  := $(FUZZ:%=$(BUILD)/tests/fuzz/fuzz_%)
FUZZ_MAIN := $(BUILD)/tests/fuzz/replay.o
FUZZ_SRC  := $(filter-out tests/fuzz/replay.c tests/fuzz/check_files.c tests/fuzz/fuzz_%,\
    $(wildcard tests/fuzz/*.c))
# See tests/fuzz/snapshot/snapshot.h.
FUZZ_SRC  += $(if $(FUZZ_SNAPSHOT),$(wildcard tests/fuzz/snapshot/*.c))
FUZZ_LIB  := $(FUZZ_SRC:%.c=$(BUILD)/%.o)
# The fuzzer's own, which has nothing to be found, and is no coverage.
FUZZ_BARE := $(filter-out $(patsubst %,$(BUILD)/tests/fuzz/%.o,act encode world),$(FUZZ_LIB))
$(FUZZ_BARE): override SAN :=
$(BUILD)/tests/fuzz/snapshot/heap.o: override CPPFLAGS += \
    $(if $(findstring address,$(FUZZ_LINK)),-DFUZZ_ASAN)
$(BUILD)/tests/fuzz/snapshot/heap.o: $(FLAGS_FUZZ)
# fuzz_report.c prints reports as npuctl does: all of it but its main().
$(BUILD)/tests/fuzz/fuzz_report: $(filter-out $(BUILD)/client/tools/npuctl/npuctl.o,$(NPUCTL_OBJ))
# Engines without threads, and answers of the kernel that are the same in every run.
FUZZ_ENGINE := engine.o idle.o
FUZZ_NPUD := $(filter-out $(FUZZ_ENGINE:%=$(BUILD)/daemon/engine/%),$(DAEMON_TESTABLE)) \
             $(FUZZ_ENGINE:%=$(BUILD)/tests/fuzz/hooks/%) $(PROTO_OBJ)
FUZZ_WRAP := clock_gettime getrandom getsockopt malloc calloc realloc reallocarray aligned_alloc \
             mmap memfd_create eventfd sched_getaffinity stat write waitlist_add step_meter_judge \
             step_meter_read fopen opendir recv close fcntl poll fstat fstatfs open readlink \
             socketpair sendmsg recvmsg shutdown setsockopt ioctl eventfd_write eventfd_read \
             preadv2 epoll_create1 epoll_ctl epoll_wait ftruncate fchmod munmap fallocate pread \
             mincore syscall
# See tests/fuzz/snapshot/compares.c.
FUZZ_CMP := trace_cmp1 trace_cmp2 trace_cmp4 trace_cmp8 trace_const_cmp1 trace_const_cmp2 \
            trace_const_cmp4 trace_const_cmp8 trace_switch trace_pc_indir
FUZZ_WRAP += $(if $(FUZZ_SNAPSHOT),$(FUZZ_CMP:%=__sanitizer_cov_%))
FUZZ_LINK := $(SAN)
comma     := ,
FUZZ_LDFLAGS = $(FUZZ_LINK) $(FUZZ_WRAP:%=-Wl$(comma)--wrap=%) $(NPUD_LIBS) $(NPUCTL_LIBS)

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(FUZZ_LIB) $(FUZZ_NPUD) \
    $(FLAGS_FUZZ)
	$(call link,$(FUZZ_LDFLAGS))

# npu-check but for its main(), and nothing of npud: names of both are the same.
FUZZ_CHECK := $(addprefix $(BUILD)/tests/fuzz/fuzz_,check suppress)
$(FUZZ_CHECK): $(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) \
    $(BUILD)/tests/fuzz/check_files.o $(PROTO_OBJ) \
    $(filter-out $(BUILD)/client/tools/npu-check/npu-check.o,$(NPUCHECK_OBJ)) $(FLAGS_FUZZ)
	$(call link,$(FUZZ_LINK) $(NPUCHECK_LIBS))

.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ_BIN)

# Twice: with sanitizers, and, for the targets that have an npud, without them, for speed. In both,
# npud is put back after each input; without FUZZ_SNAPSHOT, as in the tests, it is ended.
FUZZ_FAST := $(patsubst tests/fuzz/fuzz_%.c,%,$(shell grep -l target_run tests/fuzz/fuzz_*.c))
.PHONY: fuzz-programs-fast
fuzz-programs-fast: $(FUZZ_FAST:%=$(BUILD)/tests/fuzz/fuzz_%)
FUZZ_BUILD := CC=clang FUZZ_MAIN= FUZZ_SNAPSHOT=1 \
              CFLAGS='-O2 -g -fno-omit-frame-pointer -include tests/fuzz/snapshot/sections.h'

# What is found goes into build-fuzz/corpus, and reproducers into build-fuzz; the tree keeps a
# minimised choice.
fuzz: deps-fuzz
	$(Q)$(MAKE) --no-print-directory fuzz-programs BUILD=build-fuzz $(FUZZ_BUILD) \
	    SAN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' \
	    FUZZ_LINK='-fsanitize=fuzzer,address,undefined'
	$(Q)$(MAKE) --no-print-directory fuzz-programs-fast BUILD=build-fuzz/fast $(FUZZ_BUILD) \
	    SAN=-fsanitize=fuzzer-no-link FUZZ_LINK=-fsanitize=fuzzer
	$(Q)sh tests/fuzz/run.sh build-fuzz $(SECONDS) "$(FUZZ_FAST)" "$(FUZZ)"
	$(Q)$(MAKE) --no-print-directory -s fuzz-server

# The library against a server that lies, with random bits of its answers (tests/hostile/liar.h).
FUZZ_SERVER := tests/hostile/test_server_hostile
.PHONY: fuzz-server
fuzz-server: deps
	$(Q)$(MAKE) --no-print-directory -s programs build-asan/$(FUZZ_SERVER) BUILD=build-asan \
	    CFLAGS='$(SAN_CFLAGS)' SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
	$(Q)NPUD_BINDIR=build-asan CK_RUN_CASE=bits NPUD_LIAR_SECONDS=$(SECONDS) \
	    NPUD_LIAR_SEED=$(or $(SEED),1) build-asan/$(FUZZ_SERVER)
