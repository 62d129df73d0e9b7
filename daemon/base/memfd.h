/* Sealed, nameless memory files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * A memfd without bytes and seals, close-on-exec. fd or -errno. Its mode lets npud's own user alone
 * open it again, through /proc/PID/fd: what a client may do is what its descriptor allows.
 */
int memfd_new_empty(const char *name);

/**
 * A memfd of size bytes, close-on-exec, sealed against shrinking, growing and further seals, in
 * which nobody can make holes, npud neither, where npud may tell the kernel so
 * (CAP_LINUX_IMMUTABLE, Linux 6.0). For clients: see docs/security.md, "Locks of files". fd or
 * -errno.
 */
int memfd_new(const char *name, uint64_t size);

/** The same with holes: for files that never leave npud. fd or -errno. */
int memfd_new_own(const char *name, uint64_t size);

/**
 * memfd_new() and a shared read-write mapping of it, which no other than root can open again for
 * writing. Those that get *fdp can write, those that get memfd_open_read_only() cannot: of a file
 * that npud alone writes, *fdp never leaves npud; it is what a later npud maps the file by. The
 * caller owns *fdp and *mapp. 0 or -errno.
 */
int memfd_read_only_new(const char *name, size_t size, int *fdp, void **mapp);

/** Another descriptor of the file, for reading only. It or -errno. */
int memfd_open_read_only(int fd);

/** memfd_new() and a shared read-write mapping of it. The caller owns both. 0 or -errno. */
int memfd_map_new(const char *name, size_t size, int *fdp, void **mapp);
