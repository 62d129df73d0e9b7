/* Records of this process only, when nothing outlives npud. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/heap.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/kept_room.h"
#include "daemon/kept/layout.h"

static struct kept_cell nothing; /* for all records of which nobody would read anything */

#define SMALL 8192u

/*
 * What is larger has pages of its own, and these only where it is used: a session rarely uses all
 * events of a segment.
 */
static void *take_memory(size_t bytes, bool in_lines)
{
    void *memory;

    if (bytes > SMALL)
        return heap_take_pages(bytes);
    memory = in_lines ? aligned_alloc(CELL_MIN, (bytes + CELL_MIN - 1) & ~(size_t)(CELL_MIN - 1))
                      : malloc(bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

bool private_make(struct kept *kept, size_t live, size_t bytes)
{
    const size_t before = CELL_HEAD + live;

    *kept = (struct kept){.cell = &nothing};
    if (live == PLAIN)
        return true;
    /* Cells are aligned to cache lines, and so are live parts that begin with one. */
    kept->memory = take_memory(bytes - live, before % CELL_MIN == 0);
    kept->cell = kept->memory ? (struct kept_cell *)(void *)((char *)kept->memory - before) : NULL;
    return kept->memory != NULL;
}

bool private_enlarge(struct kept *kept, size_t live, size_t was, size_t bytes)
{
    struct kept larger;

    if (!private_make(&larger, live, bytes))
        return false;
    memcpy(larger.memory, kept->memory, was - live);
    private_free(kept);
    *kept = larger;
    return true;
}

void private_free(struct kept *kept)
{
    free(kept->memory);
    *kept = (struct kept){0};
}
