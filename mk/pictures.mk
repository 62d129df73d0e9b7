# Pictures of what npud shows of a run of the demo, for the documents; they are kept in the tree.

PICTURES := docs/pictures

.PHONY: pictures pictures-text
pictures-text:
	$(Q)$(MAKE) --no-print-directory programs
	@mkdir -p $(PICTURES)
	$(Q)PYTHONPATH=$(abspath $(PY_BUILT)) $(BUILD)/npu-run -- /usr/bin/python3 \
	    mk/picture-waits.py $(BUILD)/npuctl $(PICTURES)
	@echo '== $(PICTURES)/top.txt $(PICTURES)/explain.txt'

pictures: deps-browser pictures-text
	$(Q)$(MAKE) --no-print-directory programs examples
	@mkdir -p $(PICTURES) $(BUILD)/pictures
	$(Q)$(BUILD)/npu-run --trace=$(BUILD)/pictures/trace.html -- \
	    sh examples/ipc_fanout/run.sh $(BUILD)/examples/ipc_fanout >/dev/null
	$(Q)chromium --headless=new --no-sandbox --disable-gpu --window-size=1400,400 \
	    --user-data-dir=$(BUILD)/pictures/browser --virtual-time-budget=5000 \
	    --screenshot=$(abspath $(PICTURES)/trace.png) \
	    file://$(abspath $(BUILD)/pictures/trace.html) 2>/dev/null
	@rm -rf $(BUILD)/pictures/browser
	@echo '== $(PICTURES)/trace.png'
