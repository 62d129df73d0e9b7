# Debian packages. They are built in a copy of the tree, and lie in $(BUILD)/deb afterwards.

.PHONY: deb check-deb check-deb-source check-debian check-reproducible
deb: deps-deb check-debian
	$(Q)bash mk/deb.sh $(BUILD)/deb

# The packages, and what lintian says of them, and blhc of the compiler's flags.
check-deb: deb
	$(Q)blhc $(BUILD)/deb/log
	$(Q)lintian --allow-root --fail-on error,warning $(BUILD)/deb/*.changes
	@echo 'check-deb: clean'

# The source package builds in a clean chroot of Debian 12 and of 13, which are fetched once, to lie
# below build-deb-source. Minutes; prints "SKIPPED" where that cannot be. DEB_RELEASES=trixie: one.
DEB_RELEASES ?= bookworm trixie
check-deb-source: check-debian
	$(Q)$(MAKE) --no-print-directory deps-deb-source || [ "$$(id -u)" != 0 ]
	$(Q)bash mk/deb-source.sh build-deb-source $(DEB_RELEASES)

# Two builds in two folders are the same, byte by byte.
check-reproducible: deps-deb
	$(Q)bash mk/check-reproducible.sh $(BUILD)/reproducible

# debian/ says again what is declared elsewhere: the version ("+next": after that release)
# and the packages to build with. build-essential has the compilers and libc6-dev.
check-debian:
	$(Q)v=$$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog); [ "$${v%+next}" = '$(VERSION)' ] || \
	    { echo "debian/changelog: version $$v, but the Makefile has $(VERSION)"; exit 1; }
	$(Q)for p in $(filter-out gcc g++ libc6-dev,$(DEPS_BUILD)); do \
	    sed -n '/^Build-Depends:/,/^$$/p' debian/control | grep -qw -- "$$p" || \
	    { echo "debian/control: Build-Depends lacks $$p (mk/deps.mk)"; exit 1; }; done
