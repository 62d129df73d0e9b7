/*
 * Tasks that move or fill memory: one, or several in a row where the range goes on from one mapping
 * into the next.
 */
#pragma once

#include <stdint.h>

#include "client/memory/place.h"
#include "client/runtime/stream.h"

/**
 * Copy `count` bytes between two places that place_find() has found, both in memory that engines
 * reach: PLACE_PINNED or PLACE_DEVICE. Locked. 0, or as stream_submit() and place_walk().
 */
int submit_copy(struct stream *s, const char *function, const struct place *to,
                const struct place *from, uint64_t count);

/** The same for a fill with bytes. */
int submit_set(struct stream *s, const char *function, const struct place *at, uint8_t value,
               uint64_t count);
