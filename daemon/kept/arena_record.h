/*
 * What is kept of an arena file (proto/shm/arena.h): one record of kind STREAMS or EVENTS. It
 * belongs to the slots of the file, and lives as long as the file does: what is at a slot
 * outlives the object there, because positions of a slot never go back.
 */
#pragma once

#include <assert.h>
#include <stdint.h>

#include "daemon/kept/layout.h"

/* The kept part. */
struct arena_record {
    uint64_t session; /* its id */
    uint64_t key;     /* of the file's descriptor */
    uint32_t index;   /* of the file, among those of its kind */
    uint32_t to_send; /* the client has not got its descriptor */
    uint64_t size;    /* bytes of the file */
    uint64_t unused[2];
};

/**
 * Live: one object per slot, from here on; each begins with a cache line. As many slots as the
 * record has room for, the first ones of the file: a larger record takes the place of one that
 * is full (core/arena_kept.c). Until 0.9.0 all records had room for all slots; such an npud reads a
 * smaller one as it reads every record that is shorter than its own (kinds.h).
 */
#define ARENA_RECORD_HEAD sizeof(struct arena_record)

static_assert((CELL_HEAD + ARENA_RECORD_HEAD) % 64 == 0, "cells are aligned to cache lines");
