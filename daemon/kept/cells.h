/*
 * The cells of kept memory: room for records, by sizes. Which cell is free stands in the cell
 * itself; what is here beside it is rebuilt from there. Any thread, unless said otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kept/layout.h"

#define CELL_BYTES_MAX ((size_t)1 << 20) /* of a record */

/** Begin with this file, mapped at `at`: find the cells that are in use. No other thread yet. */
bool cells_begin(unsigned char *at);
void cells_end(void);

/**
 * A free cell whose record is zeroed; it is free in the file until `is` is stored. NULL: no memory.
 */
struct kept_cell *cells_take(size_t bytes);
/** The cell is free in the file already, or was never in use there. */
void cells_put(struct kept_cell *cell);

/** Bytes that fit into the record of a cell. */
size_t cells_room(const struct kept_cell *cell);

/** Call fn for each cell in use. No other thread. */
void cells_each(void (*fn)(void *arg, struct kept_cell *cell), void *arg);

#ifdef NPUD_KILL_POINTS
/** As waitlist_forget_locks(). */
void cells_forget_lock(void);
#endif
