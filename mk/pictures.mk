# Pictures of what npud shows of a run of the demo, for the documents: made by hand, kept in the tree.

PICTURES := docs/pictures

.PHONY: pictures
pictures: deps-browser
	$(Q)$(MAKE) --no-print-directory programs examples
	@mkdir -p $(PICTURES) $(BUILD)/pictures
	$(Q)$(BUILD)/npu-run --trace=$(BUILD)/pictures/trace.html -- \
	    sh examples/shared_buffer/run.sh $(BUILD)/examples/shared_buffer >/dev/null
	$(Q)chromium --headless=new --no-sandbox --disable-gpu --window-size=1400,520 \
	    --user-data-dir=$(BUILD)/pictures/browser --virtual-time-budget=5000 \
	    --screenshot=$(abspath $(PICTURES)/trace.png) \
	    file://$(abspath $(BUILD)/pictures/trace.html) 2>/dev/null
	@rm -rf $(BUILD)/pictures/browser
	@echo '== $(PICTURES)/trace.png'
