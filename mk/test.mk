# Tests: one program per file in tests/unit and tests/e2e, linked with what it tests.

CHECK_LIBS := -lcheck -lsubunit -lm -lrt -lpthread
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
E2E_BIN  := $(patsubst tests/e2e/%.c,$(BUILD)/tests/e2e/%,$(wildcard tests/e2e/test_*.c))
E2E_LIB  := $(BUILD)/tests/e2e/harness.o $(PROTO_OBJ)

# Unit tests reach into the daemon: everything but its main().
DAEMON_TESTABLE := $(filter-out $(BUILD)/daemon/main.o,$(DAEMON_OBJ))

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(DAEMON_TESTABLE) $(PROTO_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) $^ -o $@ -levent_core -levent_pthreads -lprotobuf-c -lsystemd -linih $(CHECK_LIBS)

$(BUILD)/tests/e2e/%: $(BUILD)/tests/e2e/%.o $(E2E_LIB) $(LIB)
	$(call say,LD)
	$(Q)$(CC) $(SAN) $(CFLAGS) $(BUILD)/tests/e2e/$*.o $(E2E_LIB) -o $@ -L$(BUILD) -laclclient \
	    -Wl,-rpath,$(abspath $(BUILD)) -lprotobuf-c $(CHECK_LIBS)

.SECONDARY: $(UNIT_BIN:%=%.o) $(E2E_BIN:%=%.o)
