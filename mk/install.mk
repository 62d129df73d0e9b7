# Installation: mk/install.sh has the list of what goes where.

include mk/stubs.mk
STUBS := $(STUB_NAMES:%=$(BUILD)/toolkit/lib%.so)
$(STUBS): $(FLAGS)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) -shared -nostdlib -s $(HARDEN_LDFLAGS) $(LDFLAGS) -Wl,-soname,$(@F) \
	    -xc /dev/null -o $@

# Small libraries of the toolkit tree that need nothing of npud's.
TOOLKIT_LIBS := $(addprefix $(BUILD)/toolkit/lib,profapi.so ms_tools_ext.so c_sec.so)
$(TOOLKIT_LIBS): $(BUILD)/toolkit/lib%.so: $(BUILD)/client/toolkit/%.pic.o
	@mkdir -p $(@D)
	$(call link,-shared -s -Wl$(comma)-soname$(comma)$(@F) -Wl$(comma)-z$(comma)defs)

# A tool for programs that use mstx.
$(BUILD)/toolkit/libnpud_mstx.so: $(BUILD)/client/toolkit/npud_mstx.pic.o $(LIB)
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)-soname$(comma)$(@F) -L$(BUILD) -laclclient \
	    $(if $(RPATH:no=),-Wl$(comma)-rpath$(comma)'$$ORIGIN/..:$$ORIGIN'))
TOOLKIT_LIBS += $(BUILD)/toolkit/libnpud_mstx.so

# Operators: above the library, by its public interface.
OPAPI_OBJ := $(patsubst %.c,$(BUILD)/%.pic.o,$(wildcard client/operators/*.c))
OPAPI_LDFLAGS := -shared -Wl,-soname,libopapi.so \
                 -Wl,--version-script=client/operators/libopapi.map \
                 -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete -L$(BUILD) -laclclient \
                 $(if $(RPATH:no=),-Wl$(comma)-rpath$(comma)'$$ORIGIN/..:$$ORIGIN')
$(BUILD)/toolkit/libopapi.so: $(OPAPI_OBJ) $(LIB) client/operators/libopapi.map
	@mkdir -p $(@D)
	$(call link,$(OPAPI_LDFLAGS) -lopenblas -lm)
TOOLKIT_LIBS += $(BUILD)/toolkit/libopapi.so

# What programs that were written for the vendor's toolkit call to look for devices. It finds the
# library beside itself where it is built, and in the toolkit tree.
NPU_SMI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard client/tools/npu-smi/*.c) \
                 $(addprefix client/tools/npuctl/,helper.c text.c))
NPU_SMI_RPATH := -Wl,-rpath,'$$ORIGIN/..:$$ORIGIN/../lib64'
NPU_SMI_LDFLAGS := $(PIE) -pie -L$(BUILD) -laclclient -lcjson \
                   $(if $(RPATH:no=),$(NPU_SMI_RPATH))
$(BUILD)/toolkit/npu-smi: $(NPU_SMI_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(call link,$(NPU_SMI_LDFLAGS))

# Compiles kernels against what is built here.
$(BUILD)/bisheng:
	@mkdir -p $(@D)
	$(Q)ln -sfn '$(CURDIR)/client/toolkit/kernels/driver.py' $@

programs: $(STUBS) $(TOOLKIT_LIBS) $(BUILD)/toolkit/npu-smi $(BUILD)/bisheng

# What make does not have as a path, because it may have blanks: all of it goes to the script by its
# environment.
INSTALL_ENV = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' SYSCONFDIR='$(SYSCONFDIR)' \
              DESTDIR='$(DESTDIR)' BUILD='$(BUILD)' VERSION='$(VERSION)' \
              ARCH='$(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))' \
              STUBS='$(STUB_NAMES)' PYTHON_MODULE='$(PY_MODULE)' PYTHON_DIR='$(PY_INSTALL)'

.PHONY: install install-built uninstall
# Installs what was built, whatever the flags of this make: root seldom has those of the builder.
install: export KEEP_FLAGS := yes
install: all
	$(Q)$(MAKE) --no-print-directory install-built

# Builds nothing: for tests, beside which others run what is built.
install-built:
	$(Q)$(INSTALL_ENV) sh mk/install.sh install

# The configuration stays: it may have been edited.
uninstall:
	$(Q)$(INSTALL_ENV) sh mk/install.sh uninstall
