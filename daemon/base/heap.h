/*
 * The heap of npud is jemalloc's: free() gives no page back to the system, which takes milliseconds
 * if there are many. A thread of jemalloc does, within a second, and sleeps when there are none. If
 * /proc/sys/vm/overcommit_memory is 2 or cannot be read, it only marks these pages as free: they
 * stay in the resident size of npud until the kernel needs them.
 */
#pragma once

#include <stddef.h>

/** When npud starts, before its threads. */
void heap_configure(void);

/**
 * Zeroed memory for free(), which begins with a page and shares none: pages that are not used are
 * not there. Of at least 16 KiB. NULL: no memory. Any thread.
 */
void *heap_take_pages(size_t bytes);
