# Installation: the tree of DESIGN section 10.

SYSTEMD_UNITS := $(PREFIX)/lib/systemd/system
TOOLKIT       := $(PREFIX)/lib/npud/ascend-toolkit
# A package (PREFIX=/usr) keeps its configuration in /etc; so does everybody else, since that is where npud looks. Who may not write there,
# with a PREFIX below his home, does without.
SYSCONF       := /etc/npud

UNITS := npud.service npud.socket npud-admin.socket
HEADERS := $(shell cd include && find acl -name '*.h' -o -name '*.hpp')
TOOLKIT_LIBS := libascendcl.so libacl_rt.so libacl_tdt_queue.so libacl_tdt_channel.so libaclclient.so libaclclient.so.1

MAN         := daemon/npud.8 daemon/npud.conf.5 daemon/npu-run.1 client/npuctl.1 client/libaclclient.7
man_path     = $(PREFIX)/share/man/man$(subst .,,$(suffix $(1)))/$(notdir $(1))
# One file completes all three; bash looks for it by the name of the program.
COMPLETIONS := $(PREFIX)/share/bash-completion/completions

FILL := sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@TOOLKIT@|$(TOOLKIT)|g'
put   = install -D -m $(1) $(2) '$(DESTDIR)$(3)'
fill  = install -d '$(DESTDIR)$(dir $(2))' && $(FILL) $(1) >'$(DESTDIR)$(2)' && chmod 644 '$(DESTDIR)$(2)'

INSTALLED := $(PREFIX)/sbin/npud $(PREFIX)/bin/npuctl $(PREFIX)/bin/npu-run $(PREFIX)/lib/libaclclient.so.1 \
    $(PREFIX)/lib/libaclclient.so $(PY_INSTALL)/$(notdir $(PY_MODULE)) $(PREFIX)/lib/pkgconfig/aclclient.pc $(HEADERS:%=$(PREFIX)/include/%) \
    $(UNITS:%=$(SYSTEMD_UNITS)/%) $(PREFIX)/lib/sysusers.d/npud.conf $(PREFIX)/lib/tmpfiles.d/npud.conf \
    $(foreach m,$(MAN),$(call man_path,$(m))) $(addprefix $(COMPLETIONS)/,npuctl npu-run npud)

.PHONY: install uninstall
install: all
	$(Q)$(call put,755,$(BUILD)/npud,$(PREFIX)/sbin/npud)
	$(Q)$(call put,755,$(BUILD)/npuctl,$(PREFIX)/bin/npuctl)
	$(Q)$(call put,755,$(BUILD)/npu-run,$(PREFIX)/bin/npu-run)
	$(Q)$(call put,755,$(LIB),$(PREFIX)/lib/libaclclient.so.1)
	$(Q)ln -sf libaclclient.so.1 '$(DESTDIR)$(PREFIX)/lib/libaclclient.so'
	$(Q)$(call put,644,$(PY_MODULE),$(PY_INSTALL)/$(notdir $(PY_MODULE)))
	$(Q)$(call fill,client/aclclient.pc.in,$(PREFIX)/lib/pkgconfig/aclclient.pc)
	$(Q)for h in $(HEADERS); do $(call put,644,include/$$h,$(PREFIX)/include/)$$h || exit 1; done
	$(Q)$(call fill,systemd/npud.service.in,$(SYSTEMD_UNITS)/npud.service)
	$(Q)$(call put,644,systemd/npud.socket,$(SYSTEMD_UNITS)/npud.socket)
	$(Q)$(call put,644,systemd/npud-admin.socket,$(SYSTEMD_UNITS)/npud-admin.socket)
	$(Q)$(call put,644,systemd/sysusers.conf,$(PREFIX)/lib/sysusers.d/npud.conf)
	$(Q)$(call put,644,systemd/tmpfiles.conf,$(PREFIX)/lib/tmpfiles.d/npud.conf)
	$(Q)$(foreach m,$(MAN),$(call put,644,$(m),$(call man_path,$(m))) &&) true
	$(Q)$(call put,644,client/npuctl.bash-completion,$(COMPLETIONS)/npuctl)
	$(Q)ln -sf npuctl '$(DESTDIR)$(COMPLETIONS)/npu-run'
	$(Q)ln -sf npuctl '$(DESTDIR)$(COMPLETIONS)/npud'
	$(Q)[ -e '$(DESTDIR)$(SYSCONF)/npud.conf' ] || \
	    { install -d '$(DESTDIR)$(SYSCONF)' && $(BUILD)/npud --print-config >'$(DESTDIR)$(SYSCONF)/npud.conf'; } || \
	    { [ -z '$(DESTDIR)' ] && echo '$(SYSCONF)/npud.conf is not there: npud has its defaults, or reads what --config tells it'; }
	$(Q)$(MAKE) --no-print-directory install-toolkit
	@echo "npud $(VERSION) installed under $(DESTDIR)$(PREFIX)"
	@[ -n '$(DESTDIR)' ] || ldconfig 2>/dev/null || true

# A tree that programs take for a CANN installation. Links are relative: the whole PREFIX may be moved.
.PHONY: install-toolkit
install-toolkit:
	$(Q)install -d '$(DESTDIR)$(TOOLKIT)/include' '$(DESTDIR)$(TOOLKIT)/lib64' '$(DESTDIR)$(TOOLKIT)/bin'
	$(Q)ln -sfn ../../../../include/acl '$(DESTDIR)$(TOOLKIT)/include/acl'
	$(Q)for l in $(TOOLKIT_LIBS); do \
	    ln -sf ../../../libaclclient.so.1 '$(DESTDIR)$(TOOLKIT)/lib64/'$$l; done
	$(Q)install -d '$(DESTDIR)$(TOOLKIT)/python/site-packages'
	$(Q)ln -sf ../../../../$(PY_INSTALL:$(PREFIX)/lib/%=%)/$(notdir $(PY_MODULE)) '$(DESTDIR)$(TOOLKIT)/python/site-packages/'
	$(Q)$(call put,644,client/toolkit/setenv.bash,$(TOOLKIT)/bin/setenv.bash)
	$(Q)$(call fill,client/toolkit/set_env.sh.in,$(TOOLKIT)/set_env.sh)

# The configuration stays: it may have been edited.
uninstall:
	$(Q)rm -f $(INSTALLED:%='$(DESTDIR)%')
	$(Q)rm -rf '$(DESTDIR)$(PREFIX)/lib/npud'
	$(Q)rmdir '$(DESTDIR)$(PREFIX)/include/acl/error_codes' '$(DESTDIR)$(PREFIX)/include/acl' 2>/dev/null || true
	@echo "npud removed from $(DESTDIR)$(PREFIX) ($(SYSCONF) kept)"
