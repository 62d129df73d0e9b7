# riscv64, whose memory order is weak as arm64's, and is another one. All of npud is compiled for
# it; what can be linked is run under an emulator of user programs. Debian 12 has a cross compiler
# and the C library for riscv64, and no other library: so these are the tests of proto/, with
# tests/riscv64/check.h in place of libcheck. Headers of the other libraries are those of this
# machine, which are the same for all processors with 64 bits.
#
# An emulator runs the programs, not the processor's memory orders. Here it keeps those that the
# program asks for, because they are fences of their own; with those of arm64 it does not.
#
# Atomic operations on a byte are in libatomic: gcc 12 has none of its own for riscv64. They are
# without locks, as what is shared by processes must be: a compare-and-swap of the word around it.

RISCV64_BUILD := build-riscv64
RISCV64_INC   := $(RISCV64_BUILD)/include
RISCV64_HEADERS := protobuf-c event2 systemd cjson ini.h microhttpd.h uthash.h utlist.h \
                   curses.h ncurses.h ncurses_dll.h unctrl.h elfutils dwarf.h libelf.h gelf.h bsd
RISCV64_MAKE   = $(MAKE) --no-print-directory BUILD=$(RISCV64_BUILD) CC=riscv64-linux-gnu-gcc \
                 OBJCOPY=riscv64-linux-gnu-objcopy PYTHON=no CFLAGS='-O2 -g1' \
                 CHECK_LIBS='-lm -lpthread -latomic' \
                 CPPFLAGS='-isystem tests/riscv64 -isystem $(RISCV64_INC)'

# Tests of proto/, which need nothing of npud but what is named here.
PROTO_TESTS := doorbell event_shm ipc_handle ipc_page ipc_race queue_model queue_shm slots \
               stream_shm
PROTO_BIN   := $(PROTO_TESTS:%=$(BUILD)/tests/proto/test_%)
$(PROTO_BIN): $(BUILD)/tests/proto/%: $(BUILD)/tests/unit/%.o $(BUILD)/tests/common/child.o \
    $(BUILD)/proto/util/slots.o
	@mkdir -p $(@D)
	$(call link,$(CHECK_LIBS))

RISCV64_RUN := $(patsubst $(BUILD)/%,$(RISCV64_BUILD)/%,$(PROTO_BIN) $(ORDER_BIN))
RISCV64_OBJ := $(patsubst $(BUILD)/%,$(RISCV64_BUILD)/%,\
    $(PROTO_OBJ) $(DAEMON_ALL) $(CLIENT_OBJ) $(NPUCTL_OBJ) $(NPU_RUN_OBJ) $(NPUCHECK_OBJ) \
    $(NPU_SMI_OBJ) $(OPAPI_OBJ))

# OpenBLAS has its headers below the name of the processor.
$(RISCV64_INC):
	@mkdir -p $@
	$(Q)ln -sfn $(RISCV64_HEADERS:%=/usr/include/%) \
	    $(wildcard /usr/include/*/cblas.h /usr/include/*/openblas_config.h) $@

.PHONY: check-riscv64
check-riscv64: deps
	$(Q)$(MAKE) --no-print-directory deps-riscv64 $(RISCV64_INC)
	+$(Q)$(RISCV64_MAKE) $(RISCV64_OBJ) $(RISCV64_RUN)
	$(Q)RUNNER='qemu-riscv64-static -L /usr/riscv64-linux-gnu' \
	sh tests/run-all.sh $(RISCV64_BUILD) $(RISCV64_RUN)
