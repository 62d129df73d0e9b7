# npud: see README.md. `make demo` and `make check` are the two targets to know.

PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
SECONDS ?= 60

# All processors, unless -j says otherwise. Below the first make its jobserver does that.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

VERSION := 1.0.0
CC      ?= gcc
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla \
           -Wno-missing-field-initializers -Werror
STD     := -std=gnu11 -D_GNU_SOURCE -DNPUD_VERSION='"$(VERSION)"' -MMD -MP
INC     := -I. -Iinclude -I$(BUILD)
SAN     ?=
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)
ALL      = $(STD) $(WARN) $(INC) $(SAN) $(CFLAGS)

# Names that hide nothing: headers generated from proto/npud.proto live in $(BUILD)/proto.
PB      := $(BUILD)/proto/npud.pb-c
# Names of error codes, for proto/error_name.c: from what programs include.
ERROR_NAMES := $(BUILD)/proto/error_names.inc

PROTO_SRC  := $(wildcard proto/*.c)
DAEMON_SRC := $(filter-out daemon/npu-run.c,$(wildcard daemon/*.c))
CLIENT_SRC := $(filter-out client/npuctl%.c,$(wildcard client/*.c))

PROTO_OBJ  := $(PROTO_SRC:%.c=$(BUILD)/%.o) $(PB).o
DAEMON_OBJ := $(DAEMON_SRC:%.c=$(BUILD)/%.o)
CLIENT_OBJ := $(CLIENT_SRC:%.c=$(BUILD)/%.pic.o) $(PROTO_SRC:%.c=$(BUILD)/%.pic.o) $(PB).pic.o

# The library for tests/kill, with numbered kill points.
ifdef KILL_POINTS
STD        += -DNPUD_KILL_POINTS
CLIENT_OBJ += $(BUILD)/tests/kill/kill_point.pic.o
endif

LIB     := $(BUILD)/libaclclient.so.1
BINS    := $(BUILD)/npud $(BUILD)/npuctl $(BUILD)/npu-run

.PHONY: all deps demo check clean
all: $(BINS) $(LIB)

include mk/deps.mk
include mk/python.mk
include mk/test.mk
include mk/fuzz.mk
include mk/install.mk

$(PB).c $(PB).h &: proto/npud.proto
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=proto --c_out=$(BUILD)/proto npud.proto

ERROR_HEADERS := include/acl/acl_base_rt.h $(wildcard include/acl/error_codes/*.h)
$(ERROR_NAMES): $(ERROR_HEADERS)
	@mkdir -p $(@D)
	$(Q)sed -En 's/^(#define|static const int) (ACL_ERROR_[A-Z0-9_]+) (= )?([0-9]{6});?$$/{"\2", \4},/p' $^ >$@
$(BUILD)/proto/error_name.o $(BUILD)/proto/error_name.pic.o: $(ERROR_NAMES)

$(BUILD)/%.o: %.c | $(PB).h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL) -c $< -o $@

$(BUILD)/%.pic.o: %.c | $(PB).h
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL) -fPIC -fvisibility=hidden -DFUNC_VISIBILITY -ftls-model=initial-exec -c $< -o $@

# Callbacks of the program run in it, which may throw.
$(BUILD)/client/report_run.pic.o: override CFLAGS += -fexceptions

$(PB).o: $(PB).c
	$(call say,CC)
	$(Q)$(CC) $(STD) $(INC) $(SAN) $(CFLAGS) -c $< -o $@

$(PB).pic.o: $(PB).c
	$(call say,CC)
	$(Q)$(CC) $(STD) $(INC) $(SAN) $(CFLAGS) -fPIC -fvisibility=hidden -c $< -o $@

$(BUILD)/npud: $(DAEMON_OBJ) $(PROTO_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) $^ -o $@ -levent_core -levent_pthreads -lprotobuf-c -lsystemd -linih -lpthread

$(LIB): $(CLIENT_OBJ) client/libaclclient.map
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) -shared -Wl,-soname,libaclclient.so.1 -Wl,--version-script=client/libaclclient.map \
	    -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete $(CLIENT_OBJ) -o $@ -lprotobuf-c -lcjson -lpthread
	$(Q)ln -sf libaclclient.so.1 $(BUILD)/libaclclient.so

$(BUILD)/npuctl: $(BUILD)/client/npuctl.o $(BUILD)/client/npuctl_inject.o $(BUILD)/client/npuctl_rate.o $(BUILD)/client/access.o $(PROTO_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) $^ -o $@ -lprotobuf-c -lcjson

$(BUILD)/npu-run: $(BUILD)/daemon/npu-run.o
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) $^ -o $@

clean:
	rm -rf build build-*

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
