/*
 * Kept memory: the layout of the one file in which npud's own tables outlive its process.
 *
 *     head          what an npud must know before it reads on
 *     log           of the control thread: what the step that runs is about to change
 *     word logs     one per engine, and one of the control thread: a few words each
 *     slabs         SLAB_BYTES each, of cells of one size; or several that hold one large cell
 *
 * Writers: the control thread, and each engine its own log and the live parts of records
 * (kept.h). No client has the descriptor. Offsets only, and no addresses: the next npud maps the
 * file elsewhere.
 *
 * A SIGKILL cuts each thread at an instruction: what it has stored before is there, and nothing of
 * what comes later. So the order of the program is the order that counts, and a fence of the
 * compiler is all that it takes (kept_order()). The next npud does not look before the last thread
 * of this one is gone (base/fence.h).
 *
 * This structure never changes, but for words that are appended to the head, which are 0 in a file
 * of before: an npud that knows another KEPT_FORMAT cannot read the file. What records hold may
 * change, see kinds.h.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define KEPT_MAGIC  UINT64_C(0x7470656b6475706e) /* "npudkept" */
#define KEPT_FORMAT 1u

#define SLAB_SHIFT 16
#define SLAB_BYTES (1u << SLAB_SHIFT)
#define SLABS      65536u
#define CELL_MIN   64u

#define KEPT_LOG_BYTES  ((size_t)4 << 20)
#define KEPT_WORD_LOGS  17u /* of each engine; the last one is the control thread's */
#define KEPT_WORD_BYTES ((size_t)4 << 10)

/** A log: `committed` bytes of entries are to be carried out; 0: none. */
struct kept_log_head {
    _Atomic uint64_t committed;
    uint64_t unused[7];
};

/*
 * What the server was at when it died, so that a request or a task that ends it each time is found.
 * Stored by the control thread (last) and by each engine. 0: nothing.
 */
struct kept_in_hand {
    _Atomic uint64_t session;
    _Atomic uint64_t what; /* kind of the request, or op of the task */
};

#define KEPT_FAULT_ANY    (KEPT_WORD_LOGS + 1) /* it is not known whose */
#define KEPT_FAULT_NOBODY (KEPT_WORD_LOGS + 2) /* of a thread that has no session in hand */

struct kept_head {
    uint64_t magic;
    uint32_t format;
    uint32_t unused;
    char writer[32];         /* version of the npud that has written here last */
    uint64_t last_order;     /* see struct kept_cell */
    uint64_t last_key;       /* of a descriptor */
    _Atomic uint64_t faulty; /* 1 + the number (as of its word log) of the thread that has ended
                              * npud by a fault, or KEPT_FAULT_ANY, KEPT_FAULT_NOBODY; 0: none */
    struct kept_in_hand in_hand[KEPT_WORD_LOGS];
    struct kept_log_head log;
    struct kept_log_head word_log[KEPT_WORD_LOGS];
    /* log2 of the size of its cells, or SLAB_LARGE, SLAB_MORE; 0: it has none */
    uint8_t slab[SLABS];
    /* Appended after 0.9.0, which leaves them as they are (blame.h) */
    uint64_t deaths;         /* npuds before this one whose sessions in hand were looked at */
    _Atomic uint64_t serves; /* 1: the npud that has the sessions in hand has come to serve */
    /* 1 + the number of an engine that does not answer; 0: all do */
    _Atomic uint64_t stuck;
};
#define SLAB_LARGE 32u /* it begins a cell of several slabs */
#define SLAB_MORE  33u /* it belongs to the one before it */

#define KEPT_HEAD_ROOM ((size_t)128 << 10)
#define KEPT_LOG_AT    KEPT_HEAD_ROOM
#define KEPT_WORDS_AT  (KEPT_LOG_AT + KEPT_LOG_BYTES)
#define KEPT_SLABS_AT  ((size_t)8 << 20)
#define KEPT_BYTES     (KEPT_SLABS_AT + (size_t)SLABS * SLAB_BYTES)

static_assert(sizeof(struct kept_head) <= KEPT_HEAD_ROOM, "the log begins behind the head");
static_assert(KEPT_WORDS_AT + KEPT_WORD_LOGS * KEPT_WORD_BYTES <= KEPT_SLABS_AT, "and slabs last");

/** A record, in its cell. */
struct kept_cell {
    _Atomic uint64_t is; /* kind | version << 16 | bytes of the record << 32; 0: the cell is free */
    uint64_t order;      /* no two have the same; a later one is larger */
    unsigned char record[];
};
#define CELL_HEAD sizeof(struct kept_cell)

static inline uint64_t cell_is(uint16_t kind, uint16_t version, uint32_t bytes)
{
    return kind | (uint64_t)version << 16 | (uint64_t)bytes << 32;
}

static inline uint16_t cell_kind(const struct kept_cell *cell)
{
    return (uint16_t)atomic_load_explicit(&cell->is, memory_order_relaxed);
}

static inline uint32_t cell_bytes(const struct kept_cell *cell)
{
    return (uint32_t)(atomic_load_explicit(&cell->is, memory_order_relaxed) >> 32);
}
