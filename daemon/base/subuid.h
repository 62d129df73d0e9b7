/*
 * Subordinate uids: ranges of uids that a user may use in user namespaces (subuid(5)). What such a
 * uid holds counts for its owner, or one user would have the limits of thousands.
 *
 * Names of owners are asked of name services, which may take their time: so the file is read before
 * npud serves, and on a thread of its own when the configuration is read again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct subuid_range {
    uint64_t first, end; /* from first on, before end */
    uid_t owner;
};

struct subuids {
    struct subuid_range *range; /* by first */
    size_t n;
};

/**
 * Read a file of lines OWNER:FIRST:COUNT. What is wrong with a line is logged, and the line left
 * out; so is a file that cannot be read, unless there is none. May wait.
 */
void subuids_read(struct subuids *s, const char *path);
void subuids_deinit(struct subuids *s);

/** The user that owns this uid; the uid itself if it is no subordinate one. */
uid_t subuids_owner(const struct subuids *s, uid_t uid);
