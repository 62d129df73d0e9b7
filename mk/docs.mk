# docs/picture.svg, from docs/picture.dot.

.PHONY: docs
docs: deps-docs
	$(Q)dot -Tsvg docs/picture.dot -o docs/picture.svg
