/*
 * Ranges of the program's own memory whose pages are shared with npud at the moment, and what
 * becomes of them when the process forks: a child of fork() gets private pages with the same
 * contents, because it must not see what the parent or a device writes later. fork() returns in the
 * parent when the child has them. A child of a plain clone(2) or of vfork(2) shares the pages.
 *
 * They are of the process, not of a session, as the memory is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/memory/host_pages.h"

struct shared_range {
    uintptr_t start;
    size_t size; /* whole pages */
    uint64_t id; /* of its pages */
    struct shared_range *prev, *next;
};

/** host_pages_share() for start and size, which are set. Put in the list if that went well. */
enum host_pages_fault shared_range_begin(struct shared_range *r, uintptr_t shared);

/** host_pages_keep(). It is in the list no more if that went well. */
enum host_pages_fault shared_range_end(struct shared_range *r);
