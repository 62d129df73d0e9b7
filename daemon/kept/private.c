/* Cells of this process only, when nothing outlives npud. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/heap.h"
#include "daemon/kept/kept_room.h"
#include "daemon/kept/layout.h"

static struct kept_cell nothing; /* for all records that no npud would read */

#define SMALL 8192u

/*
 * What is larger has pages of its own, and these only where it is used: a session rarely uses all
 * events of a segment.
 */
struct kept_cell *private_take(bool plain, size_t bytes)
{
    size_t size = (CELL_HEAD + bytes + CELL_MIN - 1) & ~(size_t)(CELL_MIN - 1);
    struct kept_cell *cell;

    if (plain)
        return &nothing;
    if (size > SMALL)
        return heap_take_pages(size);
    cell = aligned_alloc(CELL_MIN, size);
    if (cell)
        memset(cell, 0, size);
    return cell;
}

void private_free(struct kept_cell *cell)
{
    if (cell != &nothing)
        free(cell);
}
