/* What the files of this room share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kept;
struct kept_head;

/** NULL: nothing outlives npud. */
struct kept_head *kept_head(void);

/** The keeper lets go of the key when this step is committed. */
void kept_log_key(uint64_t key);

/** kept has the record of `other`, which was made in this step. */
void kept_replace(struct kept *kept, struct kept *other);

/* For a record without a live part, in place of where that begins. */
#define PLAIN SIZE_MAX

/**
 * When nothing outlives npud: a record of `bytes` whose live part, which begins at `live`, is
 * zeroed; the rest is not there, and must not be touched. False: no memory.
 */
bool private_make(struct kept *kept, size_t live, size_t bytes);
/** kept_enlarge(). */
bool private_enlarge(struct kept *kept, size_t live, size_t was, size_t bytes);
/** Safe without a record. */
void private_free(struct kept *kept);
