# Fuzzing: one program per tests/fuzz/fuzz_*.c. With libFuzzer (make fuzz), and as tests that replay
# the kept corpus (make check).

FUZZ      := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_BIN  := $(FUZZ:%=$(BUILD)/tests/fuzz/fuzz_%)
FUZZ_MAIN := $(BUILD)/tests/fuzz/replay.o
FUZZ_SRC  := $(filter-out tests/fuzz/replay.c tests/fuzz/fuzz_%,$(wildcard tests/fuzz/*.c))
FUZZ_LIB  := $(FUZZ_SRC:%.c=$(BUILD)/%.o)
# fuzz_report.c prints reports as npuctl does: all of it but its main().
$(BUILD)/tests/fuzz/fuzz_report: $(filter-out $(BUILD)/client/tools/npuctl/npuctl.o,$(NPUCTL_OBJ))
# Engines without threads, and answers of the kernel that are the same in every run.
FUZZ_ENGINE := engine.o idle.o
FUZZ_NPUD := $(filter-out $(FUZZ_ENGINE:%=$(BUILD)/daemon/engine/%),$(DAEMON_TESTABLE)) \
             $(FUZZ_ENGINE:%=$(BUILD)/tests/fuzz/hooks/%) $(PROTO_OBJ)
FUZZ_WRAP := clock_gettime getrandom getsockopt malloc calloc realloc reallocarray aligned_alloc \
             mmap memfd_create eventfd sched_getaffinity stat write waitlist_add step_meter_judge \
             step_meter_read close fcntl poll fstat fstatfs open readlink socketpair sendmsg \
             recvmsg shutdown setsockopt ioctl eventfd_write eventfd_read preadv2 epoll_create1 \
             epoll_ctl epoll_wait ftruncate fchmod munmap fallocate pread mincore syscall
FUZZ_LINK := $(SAN)
comma     := ,
FUZZ_LDFLAGS = $(FUZZ_LINK) $(FUZZ_WRAP:%=-Wl$(comma)--wrap=%) $(NPUD_LIBS) -lcjson

$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_MAIN) $(FUZZ_LIB) $(FUZZ_NPUD)
	$(call link,$(FUZZ_LDFLAGS))

.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ_BIN)

# What is found goes into build-fuzz/corpus, and reproducers into build-fuzz; the tree keeps a
# minimised choice.
fuzz: deps-fuzz
	$(Q)$(MAKE) --no-print-directory fuzz-programs BUILD=build-fuzz CC=clang FUZZ_MAIN= \
	    CFLAGS='-O1 -g -fno-omit-frame-pointer' \
	    SAN='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' \
	    FUZZ_LINK='-fsanitize=fuzzer,address,undefined'
	$(Q)sh tests/fuzz/run.sh build-fuzz $(SECONDS) $(FUZZ)
	$(Q)$(MAKE) --no-print-directory -s fuzz-server

# The library against a server that lies, with random bits of its answers (tests/hostile/liar.h).
FUZZ_SERVER := tests/hostile/test_server_hostile
.PHONY: fuzz-server
fuzz-server: deps
	$(Q)$(MAKE) --no-print-directory -s programs build-asan/$(FUZZ_SERVER) BUILD=build-asan \
	    CFLAGS='$(SAN_CFLAGS)' SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined'
	$(Q)NPUD_BINDIR=build-asan CK_RUN_CASE=bits NPUD_LIAR_SECONDS=$(SECONDS) \
	    NPUD_LIAR_SEED=$(or $(SEED),1) build-asan/$(FUZZ_SERVER)
