# The module acl for Debian's Python. Not the python3 of the PATH, which may be another one.
# PYTHON=no leaves it out: where there is no Python for the machine that is built for.

PYTHON     ?= yes
ifeq ($(PYTHON),yes)
PY_CONFIG  := /usr/bin/python3-config
PY_SRC     := $(wildcard client/python/*.c)
PY_INCLUDE := $(patsubst -I%,%,$(sort $(shell $(PY_CONFIG) --includes 2>/dev/null)))
PY_INC     := $(PY_INCLUDE:%=-isystem %)
PY_SUFFIX  := $(shell $(PY_CONFIG) --extension-suffix 2>/dev/null)
# As deep as the place where it is installed: so it finds its library in both by one relative path.
# That of a wheel is in a folder beside it.
PY_BUILT   := $(BUILD)/python3/dist-packages
PY_MODULE  := $(PY_BUILT)/acl$(PY_SUFFIX)
PY_OBJ     := $(PY_SRC:%.c=$(BUILD)/%.pic.o)

# Where Debian's Python looks: /usr/local has the version in its name, /usr has not.
PY_NAME    := $(if $(filter /usr,$(firstword $(PREFIX))),python3,$(notdir $(PY_INCLUDE)))
PY_INSTALL := $(PREFIX)/lib/$(PY_NAME)/dist-packages

# Docstrings and stubs, from the tables and the headers: client/python/describe.py.
PY_DOCS    := $(BUILD)/client/python/function_docs.h
PY_STUBS   := $(PY_BUILT)/acl-stubs
PY_STUB    := $(PY_STUBS)/__init__.pyi
PY_TABLES  := $(wildcard client/python/*.inc) client/python/dict_layout.c \
              client/abi/unsupported.inc $(wildcard include/acl/*.h)
$(PY_DOCS) $(PY_STUB) &: client/python/describe.py $(PY_TABLES)
	$(call say,PY)
	$(Q)/usr/bin/python3 $< $(PY_DOCS) $(PY_STUBS)
$(BUILD)/client/python/module.pic.o: $(PY_DOCS)

# What a wheel holds, with the library: client/python/npud_wheel.py.
.PHONY: python
python: $(PY_MODULE) $(PY_STUB)
programs: python

$(PY_OBJ): INC += $(PY_INC)
$(PY_OBJ): $(FLAGS_PY)

PY_RPATH   := -Wl,-rpath,'$$ORIGIN/acl_npud.libs:$$ORIGIN/../..:$$ORIGIN/../../lib64'
PY_LDFLAGS := -shared -L$(BUILD) -laclclient -Wl,-z,now $(if $(RPATH:no=),$(PY_RPATH)) -lpthread
$(PY_MODULE): $(PY_OBJ) $(LIB)
	@mkdir -p $(@D)
	$(call link,$(PY_LDFLAGS))
endif
