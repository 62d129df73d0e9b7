/* Ranges of addresses, none of which overlap, found by any address inside. Callers lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Part of what the map finds; not changed while it is in the map. */
struct address_range {
    uintptr_t start;
    size_t size; /* 1 at least */
};

/** What the range is a part of, as its member. */
#define RANGE_OWNER(range, type, member) ((type *)(void *)((char *)(range)-offsetof(type, member)))

/** The range with address in it, or NULL. A map is a pointer; NULL is an empty one. */
struct address_range *range_map_find(void *const *map, const void *address);

/** A range that has any of these bytes, of which there is one at least; or NULL. */
struct address_range *range_map_overlap(void *const *map, uintptr_t start, size_t size);

/** False: out of memory. */
bool range_map_add(void **map, struct address_range *range);
void range_map_remove(void **map, const struct address_range *range);

/** Empties the map. The ranges are the caller's. */
void range_map_clear(void **map);
/** The same, and free_range() gets each: a struct address_range. */
void range_map_clear_with(void **map, void (*free_range)(void *range));
