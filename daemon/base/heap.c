#include "daemon/base/heap.h"

#include <jemalloc/jemalloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Programs without jemalloc, such as unit tests and npud with a sanitizer, have neither. */
#pragma weak mallctl
#pragma weak mallocx

/* jemalloc reads this name. One arena, also for what is large: heap_configure() sets it up. */
const char *malloc_conf = "background_thread:true,narenas:1,oversize_threshold:0,"
                          "dirty_decay_ms:1000";

static bool refuse_decommit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                            size_t length, unsigned arena)
{
    (void)hooks;
    (void)addr;
    (void)size;
    (void)offset;
    (void)length;
    (void)arena;
    return true;
}

void heap_configure(void)
{
    static extent_hooks_t hooks;
    void *was, *now = &hooks;
    size_t size = sizeof(was), never = SIZE_MAX;

    if (!mallctl)
        return;
    /* Else what is free in one piece of 8 MiB goes back at once, within the call of free(). */
    mallctl("arena.0.oversize_threshold", NULL, NULL, &never, sizeof(never));
    /*
     * In the sandbox of npud.service jemalloc cannot read whether the kernel overcommits memory.
     * Then it gives pages back by mapping them anew. Each such hole is one mapping more, and
     * clients could make thousands of them that are charged to no user. When this is refused,
     * jemalloc empties the pages by madvise().
     */
    if (mallctl("arena.0.extent_hooks", &was, &size, NULL, 0) != 0)
        return;
    hooks = *(extent_hooks_t *)was;
    hooks.decommit = refuse_decommit;
    mallctl("arena.0.extent_hooks", NULL, NULL, &now, sizeof(now));
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
