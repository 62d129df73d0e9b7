# Installation: mk/install.sh has the list of what goes where.

# What make does not have as a path, because it may have blanks: all of it goes to the script by its
# environment.
INSTALL_ENV = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' SYSCONFDIR='$(SYSCONFDIR)' \
              DESTDIR='$(DESTDIR)' BUILD='$(BUILD)' VERSION='$(VERSION)' \
              ARCH='$(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))' \
              PYTHON_MODULE='$(PY_MODULE)' PYTHON_DIR='$(PY_INSTALL)'

.PHONY: install uninstall
# Installs what was built, whatever the flags of this make: root seldom has those of the builder.
install: export KEEP_FLAGS := yes
install: all
	$(Q)$(INSTALL_ENV) sh mk/install.sh install

# The configuration stays: it may have been edited.
uninstall:
	$(Q)$(INSTALL_ENV) sh mk/install.sh uninstall
