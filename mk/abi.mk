# The binary interface of the library, compared with the dump of it that is in the tree. Types come
# from debug information, so the library is built as usual (-g). The dump is of an amd64 library.

ABI_DUMP  := tests/abi/libaclclient.abi
ABI_ABIDW := abidw --exported-interfaces-only --drop-private-types --no-elf-needed \
             --no-parameter-names --no-comp-dir-path --no-show-locs --no-corpus-path \
             --type-id-style hash
ABI_IS_OF_DUMP := $(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null))

ABI_DIFF := abidiff --headers-dir1 include/acl --headers-dir2 include/acl

.PHONY: check-abi check-calls abi-dump coverage
check-abi: $(LIB)
	$(Q)[ -n '$(ABI_IS_OF_DUMP)' ] || { echo 'not compared: the dump is of amd64'; exit 0; }; \
	$(ABI_DIFF) $(ABI_DUMP) $(LIB) || { \
	echo 'The interface is not that of $(ABI_DUMP). What a release has stays as it is; what is'; \
	echo 'new is noted by: make abi-dump'; exit 1; } >&2

# No function of the library calls an exported one by its name: a program that puts one of its own
# in front (LD_PRELOAD) would see calls that it never made, and sentences would name them.
check-calls: $(LIB)
	$(Q)! readelf -rW $(LIB) | grep -E '\<acl[a-zA-Z0-9]*(@|$$| )' || \
	{ echo 'The library calls these by the names that programs call: give what they share a name' \
	  'of its own, which takes the name of the calling function.' >&2; exit 1; }

# Only what is added.
abi-dump: $(LIB)
	$(Q)[ ! -e $(ABI_DUMP) ] || $(ABI_DIFF) --no-added-syms $(ABI_DUMP) $(LIB) || \
	{ echo 'That would change what a release has.' >&2; exit 1; }
	$(Q)$(ABI_ABIDW) --headers-dir include/acl --out-file $(ABI_DUMP) $(LIB)

# What of the interface works: tests/run/test-coverage.sh compares the page with the library.
coverage:
	$(Q)mkdir -p $(BUILD) && python3 tests/abi/coverage.py >$(BUILD)/coverage.md
	$(Q)mv $(BUILD)/coverage.md docs/coverage.md
