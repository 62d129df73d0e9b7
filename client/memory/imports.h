/*
 * Memory that was imported by key, found by it. A key may be imported several times: the oldest
 * import is the first to be closed. Callers hold memory_lock of the session.
 */
#pragma once

#include <stdbool.h>

struct import;
struct memory;

/** m was imported by this key. A map is a pointer; NULL is an empty one. False: no memory. */
bool imports_add(struct import **map, const char *key, struct memory *m);
void imports_remove(struct import **map, struct memory *m);

/** What was imported first by this key, or NULL. */
struct memory *imports_find(struct import *map, const char *key);

/** Empties the map. The memory is the caller's. */
void imports_clear(struct import **map);
