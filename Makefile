# npud: see README.md. `make demo` and `make check` are the two targets to know.

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
SYSCONFDIR ?= /etc
DESTDIR    ?=
BUILD   ?= build
# no: programs find the library only where the system looks, as in a package.
RPATH   ?= yes
SECONDS ?= 60

# All processors, unless -j says otherwise. Below the first make its jobserver does that.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

VERSION := 0.9.0
# CC, CFLAGS, CPPFLAGS, LDFLAGS: as usual, from the environment or the command line.
# WERROR=1: warnings are errors, as in CI.
ifeq ($(origin CC),default)
CC      := gcc
endif
ifeq ($(origin CXX),default)
CXX     := g++
endif
CFLAGS  ?= -O2 -g
# After them, for tests but not for what is measured (tests/bench), and for the build of tests/kill,
# unless the caller has flags of their own: these are most of what make check compiles, and a third
# of its time was optimizing what runs for seconds. -g1 has lines, for stack traces.
TEST_CFLAGS ?= $(if $(filter file,$(origin CFLAGS)),-O1 -g1)
WERROR  ?=
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla \
           -Wno-missing-field-initializers -Wno-gnu-variable-sized-type-not-at-end \
           $(if $(WERROR),-Werror)
STD     := -std=gnu11 -D_GNU_SOURCE -DNPUD_VERSION='"$(VERSION)"' \
           -DNPUD_SYSCONFDIR='"$(SYSCONFDIR)"' -MMD -MP
INC     := -I. -Iinclude -I$(BUILD)
SAN     ?=

# Hardening, on by default: HARDEN=no leaves it out. The sanitizers make checks of their own.
# _FORTIFY_SOURCE needs a compiler that optimizes, and gives way to a level that the caller has
# chosen; -fcf-protection is for processors that have it.
HARDEN  ?= $(if $(SAN),no,yes)
ifeq ($(HARDEN),yes)
HARDEN_CFLAGS  := -fstack-protector-strong -fstack-clash-protection -Wformat -Wformat-security
NO_FORTIFY     := $(filter -O0,$(CFLAGS))$(if $(filter -O%,$(CFLAGS)),,-O0)
NO_FORTIFY     += $(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS))
HARDEN_CFLAGS  += $(if $(strip $(NO_FORTIFY)),,-D_FORTIFY_SOURCE=2)
HARDEN_CFLAGS  += $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),-fcf-protection)
HARDEN_LDFLAGS := -Wl,-z,relro -Wl,-z,now
endif
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)
# Not for tests: some of them run the code as coroutines, and _FORTIFY_SOURCE forbids longjmp()
# between stacks.
BASE     = $(STD) $(INC) $(SAN) $(if $(filter tests/%,$<),,$(HARDEN_CFLAGS)) $(CPPFLAGS) $(CFLAGS) \
           $(if $(KILL_POINTS)$(filter-out tests/bench/% tests/common/%,$(filter tests/%,$<)),\
           $(TEST_CFLAGS))
ALL      = $(WARN) $(BASE) $(LOCK_CHECK)
LINK     = $(CC) $(SAN) $(HARDEN_CFLAGS) $(CFLAGS) $(HARDEN_LDFLAGS) $(LDFLAGS)
# Programs are position independent; a library has its own flag.
PIE     := -fPIE

# The one way to link: $(call link,FLAGS AND LIBRARIES), with the objects and archives among the
# prerequisites of the target.
define link
$(call say,LD)
$(Q)$(LINK) $(filter %.o,$^) $(filter %.a,$^) -o $@ $(1)
endef
NPUCTL_LIBS := -lprotobuf-c -lcjson -lmicrohttpd -lncursesw -ltinfo
NPUCHECK_LIBS := -lcjson -ldw -lprotobuf-c
NPUD_LIBS := -levent_core -levent_pthreads -lprotobuf-c -lsystemd -linih -lpthread
# For programs that are run where they are built, or in a copy of that folder (mk/gpu.mk).
FROM_ORIGIN := -Wl,-rpath,'$$ORIGIN/../..' -Wl,-rpath,'$$ORIGIN/../../lib'
USE_LIB   := -L$(BUILD) -laclclient -Wl,-rpath,$(abspath $(BUILD)) $(FROM_ORIGIN)

# Hold the compiler and its flags, and what is for the module of Python and for fuzzers only. Their
# times change when they do, and what is made with them depends on them.
FLAGS      := $(BUILD)/flags
FLAGS_PY   := $(FLAGS)-python
FLAGS_FUZZ := $(FLAGS)-fuzz

# Names that hide nothing: headers generated from proto/wire/npud.proto live in $(BUILD)/proto/wire.
PB      := $(BUILD)/proto/wire/npud.pb-c
# Names of error codes, for proto/wire/error_name.c.
ERROR_NAMES := $(BUILD)/proto/wire/error_codes.inc

PROTO_SRC  := $(wildcard proto/*/*.c)
DAEMON_SRC := $(wildcard daemon/*.c daemon/*/*.c)
CLIENT_SRC := $(filter-out client/python/% client/toolkit/% client/operators/%,\
              $(wildcard client/*.c client/*/*.c))
NPUCTL_SRC := $(wildcard client/tools/npuctl/*.c)
NPU_RUN_SRC := $(wildcard client/tools/npu-run/*.c)
NPUCHECK_SRC := $(wildcard client/tools/npu-check/*.c)

PROTO_OBJ  := $(PROTO_SRC:%.c=$(BUILD)/%.o) $(PB).o
# npud's helpers, programs of their own: their room, and what they use of base.
KEEPER_SRC := $(wildcard daemon/keeper/*.c) proto/util/fd_message.c \
              $(addprefix daemon/base/,client_socket.c hash.c log.c outbox.c own_fds.c worker.c)
SUPERVISOR_SRC := $(wildcard daemon/supervisor/*.c) proto/util/fd_message.c \
                  $(addprefix daemon/base/,config.c log.c options.c outbox.c own_fds.c \
                  own_program.c pidfd.c service_manager.c supervisor_message.c worker.c)
EXECUTOR_SRC := $(wildcard daemon/executor/*.c) proto/util/fd_message.c \
                $(addprefix daemon/base/,client_socket.c log.c memfd.c outbox.c own_fds.c \
                pidfd.c worker.c) \
                $(addprefix proto/util/,copy_large.c reduce_apply.c)
DAEMON_ALL := $(DAEMON_SRC:%.c=$(BUILD)/%.o)
DAEMON_OBJ := $(filter-out $(addprefix $(BUILD)/daemon/,keeper/% supervisor/% executor/%),\
              $(DAEMON_ALL))
KEEPER_OBJ := $(KEEPER_SRC:%.c=$(BUILD)/%.o)
EXECUTOR_OBJ := $(EXECUTOR_SRC:%.c=$(BUILD)/%.o)
SUPERVISOR_OBJ := $(SUPERVISOR_SRC:%.c=$(BUILD)/%.o)
# Without main(): for unit tests and fuzzers.
DAEMON_TESTABLE := $(filter-out %/main.o,$(DAEMON_OBJ))
CLIENT_OBJ := $(CLIENT_SRC:%.c=$(BUILD)/%.pic.o) $(PROTO_SRC:%.c=$(BUILD)/%.pic.o) $(PB).pic.o
NPUCTL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(NPUCTL_SRC) client/core/access.c)
NPU_RUN_OBJ := $(NPU_RUN_SRC:%.c=$(BUILD)/%.o)
NPUCHECK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(NPUCHECK_SRC) client/tools/npuctl/text.c)

# Where locks of the library are taken in another order than client/core/lock_order.h says, builds
# with sanitizers or kill points abort. LOCK_ORDER=: they do not.
LOCK_ORDER ?= $(SAN)$(KILL_POINTS)
ifneq ($(LOCK_ORDER),)
CLIENT_OBJ += $(BUILD)/tests/common/lock_order.pic.o
LOCK_CHECK  = $(if $(filter $(CLIENT_SRC),$<),$(if $(filter %.pic.o,$@),\
              -include tests/common/lock_order.h))
endif

# The library and npud for tests/kill, with numbered kill points and places.
ifdef KILL_POINTS
STD        += -DNPUD_KILL_POINTS
CLIENT_OBJ += $(BUILD)/tests/kill/kill_point.pic.o
KILL_HERE  := $(BUILD)/tests/kill/server/kill_here.o
endif

LIB     := $(BUILD)/libaclclient.so.1
BINS    := $(addprefix $(BUILD)/,npud npud-keeper npud-supervisor npud-executor npuctl npu-run \
           npu-check)

# `make` installs what is missing first; `programs` is for the targets that have done so.
.PHONY: all programs deps demo check clean
all: deps-build
	$(Q)$(MAKE) --no-print-directory programs
programs: $(BINS) $(LIB)
	@:

include mk/deps.mk
include mk/pictures.mk
include mk/python.mk
include mk/fuzz.mk
include mk/test.mk
include mk/bench.mk
include mk/gpu.mk
include mk/lint.mk
include mk/abi.mk
include mk/mutants.mk
include mk/install.mk
include mk/arm64.mk
include mk/riscv64.mk
include mk/docs.mk
include mk/deb.mk
include mk/debian13.mk

# $(call flags_file,FILE,VARIABLE): the file has the value of the variable. With KEEP_FLAGS what was
# built is taken, whatever the flags of this make.
define flags_file
ifneq ($$(strip $$(file <$(1))),$$(strip $$($(2))))
$(1): $$(if $$(KEEP_FLAGS),,FORCE)
endif
$(1):
	@mkdir -p $$(@D)
	@printf '%s\n' '$$(subst ','\'',$$($(2)))' >$$@
endef
FLAGS_NOW := $(CC) $(CXX) $(WARN) $(BASE) $(TEST_CFLAGS) $(HARDEN_CFLAGS) $(HARDEN_LDFLAGS) \
             $(LDFLAGS)
$(eval $(call flags_file,$(FLAGS),FLAGS_NOW))
$(eval $(call flags_file,$(FLAGS_PY),PY_INC))
$(eval $(call flags_file,$(FLAGS_FUZZ),FUZZ_LINK))
.PHONY: FORCE
FORCE:

$(PB).c $(PB).h &: proto/wire/npud.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=proto/wire --c_out=$(BUILD)/proto/wire npud.proto

# All names of error codes in the headers, in their order: words only. The compiler has the codes.
ERROR_HEADERS := include/acl/acl_base_rt.h $(wildcard include/acl/error_codes/*.h)
$(ERROR_NAMES): $(ERROR_HEADERS)
	@mkdir -p $(@D)
	$(Q)cat $^ | $(CC) -E -P -dD -Iinclude/acl -xc - | grep -oE '\<ACL_ERROR_[A-Z0-9_]+\>' \
	    | awk '!/_H$$/ && !seen[$$0]++ { print "NAME(" $$0 ")" }' >$@
$(BUILD)/proto/wire/error_name.o $(BUILD)/proto/wire/error_name.pic.o: $(ERROR_NAMES)

$(BUILD)/%.o: %.c $(FLAGS) | $(PB).h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL) $(PIE) -c $< -o $@

# gcc moves what is rare into parts of functions (f.cold), which no symbol of a stripped library
# covers: npu-check could not say which function was called. clang makes none, and has no such flag.
WHOLE := $(shell $(CC) -fno-reorder-blocks-and-partition -S -x c /dev/null -o /dev/null \
                 2>/dev/null && echo -fno-reorder-blocks-and-partition)

$(BUILD)/%.pic.o: %.c $(FLAGS) | $(PB).h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL) -fPIC -fvisibility=hidden -DFUNC_VISIBILITY -ftls-model=initial-exec \
	    $(WHOLE) -c $< -o $@

# Callbacks of the program run in it, which may throw.
$(BUILD)/client/callback/callback_run.pic.o $(BUILD)/client/callback/kernel_lane.pic.o \
$(BUILD)/client/kernel/kernel_run.pic.o $(BUILD)/client/kernel/kernel_call.pic.o \
$(BUILD)/client/kernel/kernel_task.pic.o $(BUILD)/client/kernel/block_pool.pic.o: \
    override CFLAGS += -fexceptions

$(PB).o: $(PB).c $(FLAGS)
	$(call say,CC)
	$(Q)$(CC) $(BASE) $(PIE) -c $< -o $@

$(PB).pic.o: $(PB).c $(FLAGS)
	$(call say,CC)
	$(Q)$(CC) $(BASE) -fPIC -fvisibility=hidden -c $< -o $@

# The sanitizers have allocators of their own.
NPUD_MALLOC := $(if $(SAN),,-ljemalloc)
$(BUILD)/npud: $(DAEMON_OBJ) $(PROTO_OBJ) $(KILL_HERE)
	$(call link,$(PIE) -pie $(NPUD_MALLOC) $(NPUD_LIBS))

$(BUILD)/npud-keeper: $(KEEPER_OBJ)
	$(call link,$(PIE) -pie -lsystemd -lpthread)
$(BUILD)/npud-supervisor: $(SUPERVISOR_OBJ)
	$(call link,$(PIE) -pie -lsystemd -linih -lpthread)
$(BUILD)/npud-executor: $(EXECUTOR_OBJ)
	$(call link,$(PIE) -pie -lsystemd -ldl -lpthread)

LIB_LDFLAGS := -shared -Wl,-soname,libaclclient.so.1 \
               -Wl,--version-script=client/abi/libaclclient.map \
               $(if $(KILL_POINTS),-Wl$(comma)--version-script=tests/kill/libaclclient.map) \
               -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete
$(LIB): $(CLIENT_OBJ) client/abi/libaclclient.map
	$(call link,$(LIB_LDFLAGS) -lprotobuf-c -lcjson -lm -lpthread)
	$(Q)ln -sf libaclclient.so.1 $(BUILD)/libaclclient.so

$(BUILD)/client/tools/npuctl/trace_dump.o: $(wildcard client/tools/npuctl/*.html)
$(BUILD)/npuctl: $(NPUCTL_OBJ) $(PROTO_OBJ)
	$(call link,$(PIE) -pie $(NPUCTL_LIBS))

$(BUILD)/npu-run: $(NPU_RUN_OBJ)
	$(call link,$(PIE) -pie)

$(BUILD)/npu-check: $(NPUCHECK_OBJ) $(PROTO_OBJ)
	$(call link,$(PIE) -pie $(NPUCHECK_LIBS))

clean:
	rm -rf build build-*

# What each object was made from, as the compiler has noted. Of the sources of this tree only: below
# $(BUILD) there are other trees, whose files name their targets as this one does.
SOURCES := $(foreach d,proto/* daemon daemon/* client client/* client/*/* tests/* tests/*/* \
    examples/*,$(wildcard $(d)/*.c $(d)/*.cpp)) $(wildcard tests/*/hooks/*.h)
-include $(wildcard $(foreach s,$(basename $(SOURCES)) proto/wire/npud.pb-c,\
    $(BUILD)/$(s).d $(BUILD)/$(s).pic.d))
