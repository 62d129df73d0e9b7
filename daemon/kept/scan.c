/* Restoring: the records there are, by kind and age. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/array.h"
#include "daemon/kept/cells.h"
#include "daemon/kept/kept.h"
#include "daemon/kept/kept_room.h"

static struct kept_cell **found;
static size_t n_found, size_found;
static bool short_of_memory;

static void note_cell(void *arg, struct kept_cell *cell)
{
    struct kept_cell **grown =
        array_grow(found, &size_found, n_found + 1, sizeof(struct kept_cell *));

    (void)arg;
    if (!grown) {
        short_of_memory = true;
        return;
    }
    found = grown;
    found[n_found++] = cell;
}

static int compare_cells(const void *a, const void *b)
{
    const struct kept_cell *x = *(struct kept_cell *const *)a, *y = *(struct kept_cell *const *)b;

    if (cell_kind(x) != cell_kind(y))
        return cell_kind(x) < cell_kind(y) ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

int kept_scan(void)
{
    short_of_memory = false;
    cells_each(note_cell, NULL);
    if (short_of_memory) {
        kept_scan_end();
        return -ENOMEM;
    }
    if (n_found > 0)
        qsort(found, n_found, sizeof(struct kept_cell *), compare_cells);
    return 0;
}

size_t kept_scanned(void)
{
    return n_found;
}

static int compare_kind(const void *item, const void *key)
{
    return (int)cell_kind(*(struct kept_cell *const *)item) - (int)*(const enum kept_kind *)key;
}

bool kept_each(enum kept_kind kind, bool (*restore)(void *arg, struct kept_cell *cell), void *arg)
{
    size_t i = array_lower_bound(found, n_found, sizeof(struct kept_cell *), &kind, compare_kind);

    /* A record that an earlier one has discarded is free in the end only: see kept_discard(). */
    for (; i < n_found && cell_kind(found[i]) == kind; i++)
        if (!restore(arg, found[i]))
            return false;
    return true;
}

void kept_scan_end(void)
{
    free(found);
    found = NULL;
    n_found = size_found = 0;
}

/* The larger record is there when the smaller one goes: they are of one commit. */
static bool move_to_larger(struct kept *kept, size_t bytes)
{
    struct kept_cell *old = kept->cell;
    struct kept larger;

    if (!kept_make(&larger, (enum kept_kind)cell_kind(old), bytes, kept->write))
        return false;
    memcpy(larger.cell->record, old->record, cell_bytes(old));
    larger.cell->order = old->order;
    kept_discard(old);
    kept_replace(kept, &larger);
    return true;
}

bool kept_bind(struct kept *kept, struct kept_cell *cell, size_t bytes, kept_write_fn *write)
{
    *kept = (struct kept){.cell = cell, .write = write};
    return cell_bytes(cell) >= bytes || move_to_larger(kept, bytes);
}
