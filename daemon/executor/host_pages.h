/*
 * Pages of the host that are mapped here. The library is made to know them when a device first
 * needs them: that takes milliseconds, and a device that is in use.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct host_pages {
    unsigned char *map;
    uint64_t size;
    _Atomic uint32_t known;         /* enum host_pages_known */
    uint32_t device;                /* in use when the library got to know them */
    struct host_pages *prev, *next; /* those that it knows */
};

enum host_pages_known {
    HOST_PAGES_NEW,
    HOST_PAGES_KNOWN,
    HOST_PAGES_REFUSED, /* by the library: it copies as from any memory */
};

/** Map size bytes of the file, which stays the caller's. 0 or an ACL error. Any thread. */
int32_t host_pages_map(struct host_pages *pages, int fd, uint64_t size);
/** The library forgets them, and they are unmapped. */
void host_pages_unmap(struct host_pages *pages);

/**
 * The device is about to use them: the library knows them from now on, if it can. Any thread, after
 * library_enter(device).
 */
void host_pages_tell(struct host_pages *pages, uint32_t device);
/** The device is about to end: what the library knows by it, it forgets. Control thread. */
void host_pages_forget(uint32_t device);
