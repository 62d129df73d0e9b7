# What is checked without running anything, and what editors want to know.

C_FILES := $(shell find proto daemon client include tests examples \
    -name '*.[ch]' -o -name '*.[ch]pp' 2>/dev/null)
SH_FILES := .ci/run .ci/check-as-user $(shell find tests examples mk -name '*.sh') \
            debian/tests/demo $(wildcard debian/*.postinst debian/*.prerm debian/*.postrm) \
            client/tools/npuctl/npuctl.bash-completion
TIDY_SRC := $(PROTO_SRC) $(DAEMON_SRC) $(CLIENT_SRC) $(NPU_RUN_SRC) $(NPUCHECK_SRC) $(NPUCTL_SRC) \
            $(wildcard client/tools/npu-smi/*.c client/operators/*.c)

# In a few functions with loops of atomic operations, the analyzer tries as much as it may, for
# seconds. BRIEF=1, in CI: a third of that. With a tenth it does not come to where a list is left,
# and takes what was freed for used. make check-long has all.
TIDY_ARGS := $(if $(BRIEF),$(addprefix --extra-arg=,-Xclang -analyzer-config \
    -Xclang max-nodes=75000))
TIDY := $(addprefix tidy/,$(TIDY_SRC) $(PY_SRC))
.PHONY: tidy $(TIDY)
tidy: $(TIDY)
$(TIDY): tidy/%: $(PB).h $(ERROR_NAMES) $(PY_DOCS)
	$(Q)! clang-tidy --quiet $(TIDY_ARGS) $* -- $(STD) $(INC) $(PY_INC) 2>&1 | \
	    grep -E -A9 '(warning|error):'

.PHONY: lint lint-run check-rooms check-symbols check-links check-threats check-width \
        check-catalog compile_commands.json
lint: deps-lint
	$(Q)$(MAKE) --no-print-directory lint-run

# The layout is that of one version.
CLANG_FORMAT := 14
lint-run: $(PB).h $(ERROR_NAMES)
	@v=$$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/'); \
	[ "$$v" = $(CLANG_FORMAT) ] || { echo "make lint needs clang-format $(CLANG_FORMAT)," \
	    "which Debian 12 has; this one is version $$v" >&2; exit 1; }
	@echo '== clang-format'
	$(Q)clang-format --dry-run --Werror $(C_FILES)
	@echo '== clang-tidy'
	$(Q)$(if $(TIDY),$(MAKE) --no-print-directory -k tidy,echo 'left out')
	@echo '== interface of the library'
	$(Q)$(MAKE) --no-print-directory check-abi check-calls
	@echo '== shellcheck'
	$(Q)shellcheck $(SH_FILES)
	@echo '== mandoc'
	$(Q)mandoc -T lint -W warning $(shell find daemon client -name '*.[1-8]')
	@echo '== mutants apply'
	$(Q)$(MAKE) --no-print-directory mutants-apply
	@echo '== examples of CONTRIBUTING.md apply'
	$(Q)! bash tests/run/test-contributing.sh --check | grep -v '^ok'
	@echo '== rooms'
	$(Q)$(MAKE) --no-print-directory check-rooms check-symbols
	@echo '== what documents refer to'
	$(Q)$(MAKE) --no-print-directory check-links
	@echo '== threats and their tests'
	$(Q)$(MAKE) --no-print-directory check-threats
	@echo '== message ids and their catalogue; debian/'
	$(Q)$(MAKE) --no-print-directory check-catalog check-debian
	@echo '== releases'
	$(Q)python3 mk/release.py --check
	@echo '== width'
	$(Q)$(MAKE) --no-print-directory check-width
	@echo 'lint: clean'

# Includes go along the tables of rooms in docs/architecture.md and docs/testing.md.
check-rooms:
	$(Q)python3 mk/check-rooms.py

# So do calls, and all else that an object takes from another one.
SYMBOLS_OBJ := $(DAEMON_ALL) $(PROTO_OBJ) \
               $(sort $(CLIENT_OBJ) $(NPUCTL_OBJ) $(NPU_RUN_OBJ) $(NPUCHECK_OBJ) $(PY_OBJ) \
               $(OPAPI_OBJ))
check-symbols: $(SYMBOLS_OBJ)
	$(Q)python3 mk/check-symbols.py $(BUILD) $(SYMBOLS_OBJ)

# What README.md, CONTRIBUTING.md and docs/ refer to is in the tree.
check-links:
	$(Q)python3 mk/check-links.py

# Each threat in docs/security.md has a test, which is in the tree.
check-threats:
	$(Q)python3 mk/check-threats.py

# Each message id of the log is used, and explained for `journalctl -x`.
check-catalog:
	$(Q)python3 mk/check-catalog.py

# No line is wider than 100 columns.
check-width:
	$(Q)python3 mk/check-width.py

# How each file is compiled, for clangd and other tools.
compile_commands.json:
	$(Q)$(MAKE) --no-print-directory -n -B V=1 programs test-programs examples $(BUILD)/bench | \
	python3 mk/compile-commands.py >$@
