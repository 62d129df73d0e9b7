#include "daemon/base/heap.h"

#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Programs without jemalloc, such as unit tests and npud with a sanitizer, have neither. */
#pragma weak mallctl
#pragma weak mallocx

/*
 * jemalloc reads this name. One arena, also for what is large: heap_configure() sets it up.
 * Settings only: with functions of our own for its pages (extent hooks), a thread whose first call
 * of the heap is free() takes a lock of jemalloc twice (5.3.0).
 */
const char *malloc_conf = "background_thread:true,narenas:1,oversize_threshold:0,"
                          "dirty_decay_ms:1000";

/* As jemalloc asks it, before main(): there it may read nothing, or that the kernel does not. */
static bool kernel_overcommits(void)
{
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    char mode = 0;
    bool known = fd >= 0 && read(fd, &mode, 1) == 1;

    if (fd >= 0)
        close(fd);
    return known && (mode == '0' || mode == '1');
}

void heap_configure(void)
{
    size_t no_size = SIZE_MAX;
    ssize_t never = -1;

    if (!mallctl)
        return;
    /* Else what is free in one piece of 8 MiB goes back at once, within the call of free(). */
    mallctl("arena.0.oversize_threshold", NULL, NULL, &no_size, sizeof(no_size));
    /*
     * Where jemalloc does not know that the kernel overcommits memory, it gives pages back by
     * mapping them anew. Each such hole is one mapping more, and clients could make thousands of
     * them that are charged to no user. So the second step of its two is left out there: the first
     * one marks pages as free, and the kernel takes them when memory is short.
     */
    if (!kernel_overcommits())
        mallctl("arena.0.muzzy_decay_ms", NULL, NULL, &never, sizeof(never));
}

/* What is smaller than LARGE_BYTES shares its pages with others of its size. */
#define PAGE        ((size_t)4096)
#define LARGE_BYTES ((size_t)16 << 10)

void *heap_take_pages(size_t bytes)
{
    void *memory;

    bytes = bytes < LARGE_BYTES ? LARGE_BYTES : (bytes + PAGE - 1) & ~(PAGE - 1);
    /* Without the alignment jemalloc begins somewhere in the first page, and adds one behind. */
    if (mallocx)
        return mallocx(bytes, MALLOCX_ALIGN(PAGE) | MALLOCX_ZERO);
    memory = aligned_alloc(PAGE, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}
