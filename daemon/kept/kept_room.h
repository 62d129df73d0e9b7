/* What the files of this room share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kept;
struct kept_cell;
struct kept_head;

/** NULL: nothing outlives npud. */
struct kept_head *kept_head(void);

/** The keeper lets go of the key when this step is committed. */
void kept_log_key(uint64_t key);

/** kept has the record of `other`, which was made in this step. */
void kept_replace(struct kept *kept, struct kept *other);

/**
 * A zeroed cell, when nothing outlives npud. plain: its record has no live part, and takes no
 * memory. NULL: no memory.
 */
struct kept_cell *private_take(bool plain, size_t bytes);
void private_free(struct kept_cell *cell);
