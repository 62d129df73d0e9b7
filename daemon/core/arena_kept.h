/*
 * The record of an arena segment (kept/arena_record.h). Most sessions have a few objects of the
 * slots of a segment: their record begins with room for the first ones, and a larger one takes its
 * place when a later slot is used. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kept/kinds.h"

struct arena_file;
struct kept_cell;

/** Slots of a segment of a kind: KEPT_STREAMS or KEPT_EVENTS. */
uint32_t arena_kept_slots(enum kept_kind kind);
/** Bytes of the record of all of them. */
size_t arena_kept_size(enum kept_kind kind);

/** Make the record of a segment of a kind, for its first slots. False: no memory. */
bool arena_kept_make(struct arena_file *file, enum kept_kind kind);
/** A segment that is there again has this record. */
void arena_kept_bind(struct arena_file *file, enum kept_kind kind, struct kept_cell *cell);

/**
 * The record gets room for slot `index` of the segment. If it moves, all objects of the segment
 * have their live parts elsewhere. False: no memory. Takes the locks of all engines.
 */
bool arena_kept_reach(struct arena_file *file, uint32_t index);

/** The live part of a slot (of its table) in the segment: there is room for it in the record. */
void *arena_kept_at(const struct arena_file *file, uint32_t slot);
