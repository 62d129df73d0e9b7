/*
 * A table of numbered objects whose memory is type-stable: an object keeps its address, and stays
 * an object of its type, from its first use until slots_deinit(). So a reader may follow a slot
 * number of unknown age without a lock and without fear of freed memory; the tag tells it whether
 * the object that it meant is still there.
 *
 * Chunk k holds 2 << k objects, so 18 pointers cover half a million, and an empty table costs
 * nothing: most sessions have a few objects of each kind.
 *
 * After a peak, slots_release() gives pages back to the system, by blocks of objects that follow
 * each other. The addresses stay: a reader finds zeros there, which are not live. The generations
 * go with the objects, so each block has one from which all its slots go on; a number and
 * generation of before never match again. slots_take() prefers low numbers, so that high blocks
 * become empty.
 *
 * Threads: slots_take(), slots_put() and slots_release() are for one thread at a time (the owner's
 * lock); slots_at() and slots_get() are for any.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS_SHIFT  1
#define SLOTS_FIRST  (1u << SLOTS_SHIFT)
#define SLOTS_CHUNKS 18
#define SLOTS_NONE   UINT32_MAX

/** First member of every object in a table. */
struct slot {
    _Atomic uint32_t tag; /* generation << 1 | live */
    uint32_t number;      /* its slot number, fixed */
    uint32_t next_free;   /* in its block */
};

/** Of the objects that are released together. */
struct slots_block {
    uint32_t used;      /* its slots below this one hold an object, taken or not */
    uint32_t live;      /* taken */
    uint32_t free_list; /* of the used; SLOTS_NONE: empty */
    uint32_t first; /* generation of a slot that is used for the first time, or since a release */
    uint32_t last;  /* no slot has had a later generation */
    bool condemned; /* by slots_condemn(), and none of its slots was taken since */
};

struct slots {
    _Atomic(unsigned char *) chunk[SLOTS_CHUNKS];
    struct slots_block *block;
    size_t object_size;
    uint32_t max;         /* most objects ever */
    uint32_t end;         /* behind the last slot that holds an object */
    uint32_t live;        /* taken */
    uint32_t seed;        /* first generation of a slot */
    uint32_t latest;      /* no slot was taken with a later generation */
    uint32_t blocks;      /* that there are */
    uint32_t lowest;      /* blocks below this one have no free slot */
    uint32_t idle;        /* blocks that may be released: used, and nothing taken */
    unsigned block_shift; /* a block has 1 << block_shift slots; the first one SLOTS_FIRST less */
};

/** How many idle blocks owners keep: 32 to 64 KiB each, or SLOTS_FIRST objects. */
#define SLOTS_IDLE_KEPT 2u

/** object_size: of the struct that begins with a struct slot. Generations start at seed. */
void slots_init(struct slots *t, size_t object_size, uint32_t max, uint32_t seed);

/** Release all memory. Objects must not hold anything any more. Safe on a zeroed table. */
void slots_deinit(struct slots *t);

/**
 * Take a slot: zeroed memory the first time, afterwards the content that its last owner left, or
 * zeros if it was released since. Not live until slots_publish(). NULL when the table is full or
 * memory is short.
 */
void *slots_take(struct slots *t);

/**
 * For a table that is set up again as it was in another process, with a seed behind the `latest` of
 * it, and from which nothing was taken so far: the object in slot `number`, live, of this
 * generation, and zeroed. NULL: no memory. When all are there, slots_restored() makes the others
 * free.
 */
void *slots_restore(struct slots *t, uint32_t number, uint32_t generation);
void slots_restored(struct slots *t);
/** While it is set up: the object in slot `number`, which is live or is not. NULL: no memory. */
void *slots_restore_memory(struct slots *t, uint32_t number);

/**
 * Bytes that the next slots_take() gets from the system for its object and those behind it, mostly
 * 0. *mapped: as a mapping of their own.
 */
size_t slots_growth(struct slots *t, bool *mapped);

/** Bytes that the table has got so, and in how many mappings. */
size_t slots_memory(const struct slots *t, unsigned *mapped);

/** Give the slot back: it is not live any more, and its next owner has another generation. */
void slots_put(struct slots *t, void *object);

/** Called for an object before its memory goes, or for one whose memory stays after all. */
typedef void slots_forget_fn(void *object);

/**
 * Give back the memory of all idle blocks but the lowest `kept`, once there are more. Only for
 * tables whose owners expect zeros, and when no thread still uses an object that it has found
 * before it was put. forget (or NULL) frees what an object holds, and leaves it so that its next
 * owner finds nothing. Costs a comparison when there is nothing to do; put after put it costs a
 * system call for each block.
 */
void slots_release(struct slots *t, uint32_t kept, slots_forget_fn *forget);

/**
 * For owners with readers that keep objects for a while: condemn what slots_release() would
 * release. When every reader has let go of what it had found by then, slots_release_condemned()
 * releases those blocks of which no slot was taken meanwhile. condemn: true if there are any.
 */
bool slots_condemn(struct slots *t, uint32_t kept);
void slots_release_condemned(struct slots *t, slots_forget_fn *forget);

/** Make a taken and initialised object visible to slots_get(). */
static inline void slots_publish(void *object)
{
    struct slot *s = object;

    atomic_store_explicit(&s->tag, atomic_load_explicit(&s->tag, memory_order_relaxed) | 1,
                          memory_order_release);
}

/** From now on slots_get() does not find the object; the slot is still taken. */
static inline void slots_unpublish(void *object)
{
    struct slot *s = object;

    atomic_store_explicit(&s->tag, atomic_load_explicit(&s->tag, memory_order_relaxed) & ~1u,
                          memory_order_release);
}

/** After slots_take() has returned NULL: is the table full, or was memory short? */
static inline bool slots_full(const struct slots *t)
{
    return t->live >= t->max;
}

static inline bool slot_live(const void *object)
{
    const struct slot *s = object;

    return atomic_load_explicit(&s->tag, memory_order_acquire) & 1;
}

static inline uint32_t slot_generation(const void *object)
{
    const struct slot *s = object;

    return atomic_load_explicit(&s->tag, memory_order_relaxed) >> 1;
}

/**
 * The object in slot number, live or not. NULL when there is no memory for it: number is not below
 * max, or nothing near it was ever taken. A slot that was never taken, but whose neighbours were,
 * is zeroed memory: not live, of generation 0.
 */
static inline void *slots_at(const struct slots *t, uint32_t number)
{
    uint32_t q = number + SLOTS_FIRST;
    unsigned k;
    unsigned char *chunk;

    if (number >= t->max)
        return NULL;
    k = 31u - (unsigned)__builtin_clz(q) - SLOTS_SHIFT;
    chunk = atomic_load_explicit(&t->chunk[k], memory_order_acquire);
    return chunk ? chunk + (size_t)(q - (SLOTS_FIRST << k)) * t->object_size : NULL;
}

/*
 * The place of a slot: chunk << SLOTS_PLACE | index in the chunk. 24 bits, and found without
 * counting bits.
 */
#define SLOTS_PLACE 19

_Static_assert((SLOTS_FIRST << (SLOTS_CHUNKS - 1)) <= 1u << SLOTS_PLACE, "an index has its bits");
_Static_assert(SLOTS_CHUNKS <= 1u << (24 - SLOTS_PLACE), "and a chunk");

static inline uint32_t slots_place(uint32_t number)
{
    uint32_t q = number + SLOTS_FIRST;
    unsigned k = 31u - (unsigned)__builtin_clz(q) - SLOTS_SHIFT;

    return k << SLOTS_PLACE | (q - (SLOTS_FIRST << k));
}

/** SLOTS_NONE: no slot has this place. */
static inline uint32_t slots_number(uint32_t place)
{
    unsigned k = place >> SLOTS_PLACE;
    uint32_t index = place & ((1u << SLOTS_PLACE) - 1);

    if (k >= SLOTS_CHUNKS || index >> k >= SLOTS_FIRST)
        return SLOTS_NONE;
    return (SLOTS_FIRST << k) + index - SLOTS_FIRST;
}

/** The same as slots_at(), but that there may be memory behind the last slot: zeroed, too. */
static inline void *slots_at_place(const struct slots *t, uint32_t place)
{
    unsigned k = place >> SLOTS_PLACE;
    uint32_t index = place & ((1u << SLOTS_PLACE) - 1);
    unsigned char *chunk;

    if (k >= SLOTS_CHUNKS || index >> k >= SLOTS_FIRST)
        return NULL;
    chunk = atomic_load_explicit(&t->chunk[k], memory_order_acquire);
    return chunk ? chunk + (size_t)index * t->object_size : NULL;
}

/** The live object in slot number, or NULL. */
static inline void *slots_get(const struct slots *t, uint32_t number)
{
    void *object = slots_at(t, number);

    return object && slot_live(object) ? object : NULL;
}

/** The same, if it is of this generation. */
static inline void *slots_get_generation(const struct slots *t, uint32_t number,
                                         uint32_t generation)
{
    struct slot *s = slots_at(t, number);

    return s && atomic_load_explicit(&s->tag, memory_order_acquire) == (generation << 1 | 1u)
               ? s
               : NULL;
}

/** Next live object after *cursor (start with 0), or NULL. Owner's lock. */
static inline void *slots_next(const struct slots *t, uint32_t *cursor)
{
    while (*cursor < t->end) {
        void *object = slots_at(t, (*cursor)++);

        if (slot_live(object))
            return object;
    }
    return NULL;
}

#define slots_foreach(t, cursor, object)                                                           \
    for (uint32_t cursor = 0; ((object) = slots_next((t), &cursor));)
