# Mutations that the tests must notice: tests/mutants/*.patch. MUTANTS="name name" chooses some.

.PHONY: mutants mutants-apply
mutants: deps-lint
	$(Q)bash tests/mutants/run.sh $(BUILD)/mutants $(MUTANTS)

# Every patch still applies to the tree, and names tests that exist.
mutants-apply:
	$(Q)bash tests/mutants/run.sh --check $(MUTANTS)
