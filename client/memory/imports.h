/*
 * Memory that was imported by key, found by it. A key may be imported several times: the oldest
 * import is the first to be closed. Callers hold memory_lock of the session.
 */
#pragma once

#include <stdbool.h>

struct import;

/** Part of what the map finds. */
struct import_entry {
    struct import *import;            /* NULL: it is in no map */
    struct import_entry *prev, *next; /* of the same key, the oldest first */
};

/** It was imported by this key. A map is a pointer; NULL is an empty one. False: no memory. */
bool imports_add(struct import **map, const char *key, struct import_entry *entry);
void imports_remove(struct import **map, struct import_entry *entry);

/** What was imported first by this key, or NULL. */
struct import_entry *imports_find(struct import *map, const char *key);

/** Empties the map. The memory is the caller's. */
void imports_clear(struct import **map);
