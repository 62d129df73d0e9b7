/* Where memory of an executor is: no two allocations may share a byte. */
#include <search.h>
#include <stdlib.h>

#include "daemon/backend/executors.h"

struct range {
    uint64_t address, end;
};

/* Those that overlap are the same. */
static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->end <= y->address)
        return -1;
    return x->address >= y->end ? 1 : 0;
}

bool executor_note_range(struct executor *x, uint64_t address, uint64_t size)
{
    struct range *range = malloc(sizeof(*range)), **found;

    if (!range)
        return false;
    *range = (struct range){address, address + size};
    found = tsearch(range, &x->ranges, compare_ranges);
    if (found && *found == range) {
        x->memory += size;
        return true;
    }
    free(range);
    return false;
}

void executor_forget_range(struct executor *x, uint64_t address, uint64_t size)
{
    struct range key = {address, address + size}, **found = tfind(&key, &x->ranges, compare_ranges);
    struct range *range = found ? *found : NULL;

    if (!range)
        return;
    tdelete(&key, &x->ranges, compare_ranges);
    x->memory -= range->end - range->address;
    free(range);
}
