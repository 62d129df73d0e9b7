# Examples, demonstrations and benchmarks.

# Not that of MPI, whose compiler not every machine has: tests/run/test-mpi.sh builds it.
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(filter-out examples/mpi/%,$(wildcard examples/*/*.c))) \
            $(patsubst %.cpp,$(BUILD)/%,$(wildcard examples/*/*.cpp))
KERNEL_EXAMPLES := $(patsubst %.asc,$(BUILD)/%,$(wildcard examples/*/*.asc))
EXAMPLE_LIBS_event_loop := -levent_core
EXAMPLE_WARN := -Wall -Wextra -Werror -MMD -MP

$(BUILD)/examples/%.o: examples/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -std=gnu11 $(EXAMPLE_WARN) $(SAN) $(CFLAGS) -Iinclude -Iexamples -c $< -o $@

$(BUILD)/examples/%.o: examples/%.cpp $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -std=c++17 $(EXAMPLE_WARN) $(SAN) $(CFLAGS) -Iinclude -c $< -o $@

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(LIB)
	$(call link,$(USE_LIB) $(EXAMPLE_LIBS_$(@F)) $(if $(wildcard examples/$*.cpp),-lstdc++))

# Kernels, and the program around them.
BISHENG := NPUD_HOST_CXX='$(CXX)' $(BUILD)/bisheng
$(KERNEL_EXAMPLES): $(BUILD)/%: %.asc examples/common/example.h $(wildcard client/toolkit/*/*) \
    $(LIB) | $(BUILD)/bisheng
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(BISHENG) -std=c++17 -Wall -Wextra -Werror $(SAN) $(CFLAGS) $< -o $@ $(USE_LIB)

.SECONDARY: $(EXAMPLES:%=%.o)

.PHONY: examples demo-python bench bench-compare bench-keep bench-peers bench-smoke bench-ab \
    bench-count bench-restartable bench-scale
examples: $(EXAMPLES) $(KERNEL_EXAMPLES)

RUN_EXAMPLE := $(BUILD)/npu-run --devices 2 --
demo: deps-build
	$(Q)$(MAKE) --no-print-directory programs examples
	@echo '== private npud with two simulated NPUs; the IPC event example between two processes'
	$(Q)$(RUN_EXAMPLE) sh examples/ipc_event/run.sh $(BUILD)/examples/ipc_event
	@echo '== one event, and three processes that wait for it'
	$(Q)$(RUN_EXAMPLE) sh examples/ipc_fanout/run.sh $(BUILD)/examples/ipc_fanout
	@echo '== NPU events in the loop of libevent'
	$(Q)$(RUN_EXAMPLE) $(BUILD)/examples/event_loop/event_loop
	@echo '== the same between two processes in C++'
	$(Q)$(RUN_EXAMPLE) $(BUILD)/examples/ipc_cpp/ipc_cpp
	@echo '== a buffer that two processes share, and the queues that it travels through'
	$(Q)$(RUN_EXAMPLE) sh examples/shared_buffer/run.sh $(BUILD)/examples/shared_buffer
	@echo '== kernels on two devices: two processes share memory and events, and replay graphs'
	$(Q)$(RUN_EXAMPLE) sh examples/vector_add/run.sh $(BUILD)/examples/vector_add
	@echo '== the same two processes, while the server of npud is killed ten times'
	$(Q)PATH="$(abspath $(BUILD)):$$PATH" $(BUILD)/npu-run --restartable --devices 2 -- \
	    bash examples/restart/run.sh $(BUILD)/examples/restart
	@echo '== demo: OK'

demo-python: deps-build
	$(Q)$(MAKE) --no-print-directory programs examples
	@echo '== private npud with two simulated NPUs; the IPC event example in Python,' \
	    'and with one of the two in C'
	$(Q)PYTHONPATH=$(abspath $(PY_BUILT)) $(RUN_EXAMPLE) \
	    bash examples/python/run.sh $(BUILD)/examples/ipc_event
	@echo '== coroutines that wait for events'
	$(Q)PYTHONPATH=$(abspath $(PY_BUILT)) $(RUN_EXAMPLE) \
	    /usr/bin/python3 examples/asyncio/jobs.py
	@echo '== demo-python: OK'

# With what tests share, which needs libcheck: `deps`, not `deps-build`.
$(BUILD)/bench: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/*.c)) $(TEST_LIB) $(LIB)
	$(call link,$(USE_LIB) -lm -lpthread)
$(BUILD)/bench: | $(FAKE_VENDOR)

bench: deps
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(BUILD) $(if $(ROWS),--rows $(ROWS))
	$(Q)$(MAKE) --no-print-directory bench-compare

# The last run beside the one that is kept in the tree: for the notes of a release. What a release
# was measured at is kept by bench-keep, and the picture of bench-scale beside it.
BENCH_KEPT := docs/bench.json
bench-compare:
	@if [ -f $(BENCH_KEPT) ]; then echo '== beside $(BENCH_KEPT)'; \
	python3 mk/bench-compare.py $(BENCH_KEPT) $(BUILD)/bench.json; \
	else echo '== nothing is kept to compare with: make bench-keep'; fi
bench-keep:
	$(Q)cp $(BUILD)/bench.json $(BENCH_KEPT)
	$(Q)[ ! -f $(BUILD)/scale.svg ] || cp $(BUILD)/scale.svg docs/scale.svg

# What hot calls cost in instructions, locked operations and system calls, beside the kept table.
# KEEP=1 keeps the new counts: the commit says why.
$(BUILD)/count: $(BUILD)/tests/bench/count/count.o $(LIB)
	$(call link,$(USE_LIB))
bench-count: deps-count
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/count
	$(Q)CC='$(CC)' python3 mk/bench-count.py $(BUILD) docs/counts.json $(if $(KEEP),--keep)

bench-smoke: deps
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench $(BUILD)/scale
	$(Q)$(BUILD)/bench --bindir $(BUILD) --smoke
	$(Q)$(SCALE) --smoke
	$(Q)$(DRAW_SCALE)

# 1 to as many processes as there are CPUs, which all do the same: a table, and a picture.
# ROWS=copies,requests: only these.
SCALE := $(BUILD)/npu-run --devices 1 -- $(BUILD)/scale $(BUILD)/scale.json
DRAW_SCALE := python3 mk/draw-scale.py $(BUILD)/scale.json > $(BUILD)/scale.svg
$(BUILD)/scale: $(BUILD)/tests/bench/scale/scale.o $(TEST_LIB) $(LIB)
	$(call link,$(USE_LIB) -lpthread)
bench-scale: deps
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/scale
	$(Q)$(SCALE) $(subst $(comma), ,$(ROWS))
	$(Q)$(DRAW_SCALE)
	@echo '== drawn: $(BUILD)/scale.svg'

# This build beside that of another tree, round by round: OLD is the tree or its build folder.
# ROWS: only these, 1,2,6 for example.
OLD_BUILD = $(abspath $(if $(wildcard $(OLD)/npud),$(OLD),$(OLD)/build))
bench-ab: deps
	@[ -x '$(OLD_BUILD)/npud' ] || \
	{ echo 'make bench-ab OLD=folder: a tree that was built, or its build folder' >&2; exit 1; }
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(abspath $(BUILD)) --against '$(OLD_BUILD)' \
	    $(if $(ROWS),--rows $(ROWS))

# Queues beside what Debian has for the same, as far as it is installed (DEPS_PEERS): nothing of it
# is needed to build npud. PEERS_KEEP=1 draws the table of docs/performance.md anew.
PEERS := peers plain npud $(if $(wildcard /usr/include/zmq.h),zmq) \
    $(if $(wildcard /usr/include/nanomsg/nn.h),nanomsg) \
    $(if $(wildcard /usr/include/boost/interprocess/ipc/message_queue.hpp),boost) \
    $(if $(wildcard /usr/include/dpdk/rte_mbuf.h),dpdk)
DPDK_CFLAGS = $(shell pkg-config --cflags libdpdk 2>/dev/null)
DPDK_LIBS = $(shell pkg-config --libs libdpdk 2>/dev/null)
PEERS_DIR := $(BUILD)/tests/bench/peers
PEERS_WARN := -Wall -Wextra -MMD -MP -I. -Iinclude

$(PEERS_DIR)/%.o: tests/bench/peers/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -std=gnu11 $(PEERS_WARN) $(CFLAGS) -O2 $(if $(findstring dpdk,$*),$(DPDK_CFLAGS)) \
	    -c $< -o $@
$(PEERS_DIR)/%.o: tests/bench/peers/%.cpp $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CXX)
	$(Q)$(CXX) -std=c++17 $(PEERS_WARN) $(CFLAGS) -O2 -c $< -o $@
$(BUILD)/peers: $(PEERS:%=$(PEERS_DIR)/%.o) $(LIB)
	$(call say,LD)
	$(Q)$(CC) $(filter %.o,$^) $(USE_LIB) $(if $(findstring zmq,$(PEERS)),-lzmq) \
	    $(if $(findstring nanomsg,$(PEERS)),-lnanomsg) \
	    $(if $(findstring dpdk,$(PEERS)),$(DPDK_LIBS)) -lstdc++ -lrt -lpthread -o $@

bench-peers: deps-build
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/peers
	$(Q)$(BUILD)/npu-run --devices 1 -- $(BUILD)/peers $(BUILD)/peers.json
	$(Q)python3 mk/draw-peers.py $(BUILD)/peers.json > $(BUILD)/peers.svg
	$(if $(PEERS_KEEP),$(Q)cp $(BUILD)/peers.svg docs/peers.svg)

# This build with npud that comes back, beside itself with one that does not.
bench-restartable: deps
	$(Q)$(MAKE) --no-print-directory programs $(BUILD)/bench
	$(Q)$(BUILD)/bench --bindir $(abspath $(BUILD)) --against $(abspath $(BUILD)) --restartable \
	    --rows $(if $(ROWS),$(ROWS),2$(comma)3$(comma)10)
