/*
 * Segments of shared buffers (proto/shm/mbuf_shm.h) as this process has them mapped: those of its
 * own pool, and those of others that buffers came from. Any thread.
 *
 * A segment that npud takes back (news->dead) is out of the table, and its data is unmapped, at
 * once: nothing in it is in use. Its heads stay mapped until all threads have left the calls in
 * which they can have found them (client/core/api_call.h); everything in them reads as FREE. The
 * thread of client/buffers/retire.h sees to that.
 */
#pragma once

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/core/range_map.h"
#include "client/runtime/session_parts.h"
#include "proto/shm/mbuf_shm.h"

struct session;

#define SEGMENT_CLASSES  32 /* of buffers whose segments may be so small that threads keep slots */
#define SEGMENT_NO_CLASS SEGMENT_CLASSES
#define SEGMENT_SMALL_MAX                                                                          \
    ((uint64_t)256 << 10) /* bytes of data of a segment whose slots threads may keep */

/* What allocating and freeing read is the first cache line, which they never write. */
struct segment {
    /* The table's; first. view.cached: SEGMENT_NO_CLASS unless own */
    alignas(64) struct segment_view view;
    bool own;
    struct segment *prev, *next;
    struct segment *class_prev, *class_next; /* of the pool, in its class: pool.c */
    unsigned char *map;
    size_t size;                /* of the memfd */
    struct address_range range; /* of the mapping: less when its data is gone */
    /*
     * retired: of client/core/api_call.h, the first one in which no call can find it; 0: none yet
     */
    uint64_t left_epoch;
    int32_t pid;             /* of the process with the pool, as npud's host has it; for messages */
    _Atomic uint32_t cursor; /* where to look for a free slot for a reference first */
    _Atomic uint32_t free_from; /* the same for slots with data: segment_note_free() */
    _Atomic uint32_t in_use;    /* a hint word that was not full when it was looked at last */
};

/** Of the process: that is, of its session. */
extern struct segment_table segment_table;

/**
 * The view of ref's segment, also when it is retired: then everything in it is FREE, and nothing
 * has to look twice to see that.
 */
static inline struct segment_view *segment_known(uint32_t ref)
{
    return atomic_load_explicit(&segment_table.view[ref >> 16], memory_order_acquire);
}

/** The segment of a view that came out of the table. */
static inline struct segment *segment_of(struct segment_view *view)
{
    return (struct segment *)(void *)view;
}

/**
 * The segment of ref is mapped from here on, unless npud takes it back. 0; or with the sentence
 * stored 107000 (npud has none with this id), 207006 (it may not be mapped here), others when it
 * could not be done.
 */
int segment_need(const char *function, struct session *s, uint32_t ref);

/** A new one for the own pool; found in the table, in no class yet. 0; 207001, 207005, 507010. */
int segment_create(const char *function, struct session *s, uint64_t stride, uint32_t count,
                   struct segment **segment);

/**
 * After a slot was freed and mbuf_drop() or mbuf_release() said so: tell npud if the whole segment
 * is free, or when it waits for a slot.
 */
void segment_freed(struct session *s, struct segment_view *view);

/**
 * Have npud look in a moment what of the pool of this segment it can take back. A hint: errors go
 * nowhere.
 */
void segment_trim(struct session *s, uint32_t id);

/** Has npud taken it back, of a session that goes on? */
bool segment_gone(struct session *s, const struct segment *segment);

/**
 * This process frees a slot with data: allocation finds it first, unless a lower one is free. A
 * hint. Slots that other processes free have none, and are found when those from the hint on are in
 * use.
 */
static inline void segment_note_free(struct segment_view *view, uint32_t slot)
{
    struct segment *g = segment_of(view);

    if (slot < atomic_load_explicit(&g->free_from, memory_order_relaxed))
        atomic_store_explicit(&g->free_from, slot, memory_order_relaxed);
}

/** One of the own pool's is gone, and out of its class. */
void segment_retire(struct session *s, struct segment *segment);

/**
 * Unmap the segments that are gone: of others' all, of the own pool's those that were retired.
 * False: a thread may still use one; try again in a moment.
 */
bool segment_let_go_all(struct session *s);

/** Too large for its slots to be kept by threads. */
static inline bool segment_large(const struct segment *segment)
{
    return segment->view.n_data * segment->view.stride > SEGMENT_SMALL_MAX;
}

/** Whether new buffers may be taken from it. */
static inline bool segment_usable(const struct segment_view *view)
{
    return atomic_load_explicit(&view->news->draining, memory_order_relaxed) == 0;
}

/** A place in the data of a segment. */
struct segment_place {
    struct segment_view *view;
    uint32_t block;  /* slot whose data it is in */
    uint64_t offset; /* there */
};

/** Where address is, or false: in none. */
bool segment_locate(struct session *s, const void *address, struct segment_place *place);
