/* Sealed, nameless memory files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * A memfd without bytes and seals, close-on-exec. fd or -errno. Its mode lets npud's own user alone
 * open it again, through /proc/PID/fd: what a client may do is what its descriptor allows.
 */
int memfd_new_empty(const char *name);

/** A memfd of size bytes, close-on-exec, sealed against shrinking, growing and further seals. fd or
 * -errno. */
int memfd_new(const char *name, uint64_t size);

/**
 * A memfd that npud alone writes: no other than root can open the file for writing. *fdp can, and
 * never leaves npud; it is what a later npud maps the file by. Clients get descriptors of
 * memfd_open_read_only(). The caller owns *fdp and *mapp. 0 or -errno.
 */
int memfd_read_only_new(const char *name, size_t size, int *fdp, void **mapp);

/** Another descriptor of the file, for reading only. It or -errno. */
int memfd_open_read_only(int fd);

/** memfd_new() and a shared read-write mapping of it. The caller owns both. 0 or -errno. */
int memfd_map_new(const char *name, size_t size, int *fdp, void **mapp);
