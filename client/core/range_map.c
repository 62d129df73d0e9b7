#include "client/core/range_map.h"

#include <search.h>

/* The order of a tsearch(3) tree in which overlapping is being equal. */
static int compare_ranges(const void *a, const void *b)
{
    const struct address_range *x = a, *y = b;

    if (x->start + x->size <= y->start)
        return -1;
    return x->start >= y->start + y->size;
}

struct address_range *range_map_overlap(void *const *map, uintptr_t start, size_t size)
{
    struct address_range key = {.start = start, .size = size};
    struct address_range **node = tfind(&key, map, compare_ranges);

    return node ? *node : NULL;
}

struct address_range *range_map_find(void *const *map, const void *address)
{
    return range_map_overlap(map, (uintptr_t)address, 1);
}

bool range_map_add(void **map, struct address_range *range)
{
    return tsearch(range, map, compare_ranges) != NULL;
}

void range_map_remove(void **map, const struct address_range *range)
{
    tdelete(range, map, compare_ranges);
}

static void keep_range(void *range)
{
    (void)range;
}

void range_map_clear_with(void **map, void (*free_range)(void *range))
{
    tdestroy(*map, free_range);
    *map = NULL;
}

void range_map_clear(void **map)
{
    range_map_clear_with(map, keep_range);
}
