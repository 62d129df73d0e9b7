#include "proto/util/slots.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_BYTES 32768u /* at least */
/* Chunks from this size on are mapped, so that they have pages when touched. */
#define CHUNK_MAP BLOCK_BYTES

/*
 * There when the program runs under LeakSanitizer, whose search for leaks does not look into mapped
 * memory: what only an object in a mapped chunk points to would be told to the program's author as
 * lost.
 */
void __lsan_register_root_region(const void *p, size_t size) __attribute__((weak));
void __lsan_unregister_root_region(const void *p, size_t size) __attribute__((weak));

void slots_init(struct slots *t, size_t object_size, uint32_t max, uint32_t seed)
{
    unsigned shift = SLOTS_SHIFT;

    while (object_size << shift < BLOCK_BYTES)
        shift++;
    *t = (struct slots){
        .object_size = object_size,
        .max = max,
        .seed = seed & 0x7fffffff,
        .latest = (seed - 1) & 0x7fffffff,
        .block_shift = shift,
    };
}

static size_t chunk_size(const struct slots *t, size_t k)
{
    return (((size_t)SLOTS_FIRST << k) * t->object_size + 63) & ~(size_t)63;
}

static void chunk_free(unsigned char *chunk, size_t size)
{
    if (!chunk || size < CHUNK_MAP) {
        free(chunk);
        return;
    }
    if (__lsan_unregister_root_region)
        __lsan_unregister_root_region(chunk, size);
    munmap(chunk, size);
}

void slots_deinit(struct slots *t)
{
    for (size_t k = 0; k < SLOTS_CHUNKS; k++) {
        unsigned char *chunk = atomic_load_explicit(&t->chunk[k], memory_order_relaxed);

        chunk_free(chunk, chunk_size(t, k));
    }
    free(t->block);
    *t = (struct slots){.max = 0}; /* clang 14 takes no {0} before an atomic pointer */
}

/* Objects hold cache-line sized parts that threads share: align chunks, and calloc cannot. */
static unsigned char *chunk_new(size_t size)
{
    void *chunk;

    if (size >= CHUNK_MAP) {
        chunk = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        if (__lsan_register_root_region)
            __lsan_register_root_region(chunk, size);
        return chunk;
    }
    chunk = aligned_alloc(64, size);
    if (chunk)
        __builtin_memset(chunk, 0, size);
    return chunk;
}

/* Of slot q - SLOTS_FIRST. */
static unsigned chunk_of(uint32_t q)
{
    return 31u - (unsigned)__builtin_clz(q) - SLOTS_SHIFT;
}

/* Make sure that there is memory for slot q - SLOTS_FIRST. */
static bool reach_slot(struct slots *t, uint32_t q)
{
    unsigned k = chunk_of(q);
    unsigned char *chunk;

    if (k >= SLOTS_CHUNKS)
        return false;
    if (atomic_load_explicit(&t->chunk[k], memory_order_relaxed))
        return true;
    chunk = chunk_new(chunk_size(t, k));
    if (!chunk)
        return false;
    atomic_store_explicit(&t->chunk[k], chunk, memory_order_release);
    return true;
}

/* --- blocks --- */

/* Numbers + SLOTS_FIRST, in which blocks and chunks begin at powers of two. */
static uint32_t block_begin(const struct slots *t, uint32_t b)
{
    return b == 0 ? SLOTS_FIRST : b << t->block_shift;
}

static uint32_t block_slots(const struct slots *t, uint32_t b)
{
    return ((b + 1) << t->block_shift) - block_begin(t, b);
}

static struct slots_block *block_of(const struct slots *t, uint32_t number)
{
    return &t->block[(number + SLOTS_FIRST) >> t->block_shift];
}

/* Only the first one lies in several chunks: it stays. */
static bool can_go(const struct slots *t, const struct slots_block *block)
{
    return block != t->block && block->live == 0 && block->used > 0;
}

static bool add_block(struct slots *t)
{
    uint32_t size = t->blocks == 0 ? 1 : t->blocks * 2;
    struct slots_block *grown;

    /* It has grown when the number of blocks was a power of two. */
    if ((t->blocks & (t->blocks - 1)) == 0) {
        grown = reallocarray(t->block, size, sizeof(*grown));
        if (!grown)
            return false;
        t->block = grown;
    }
    t->block[t->blocks++] =
        (struct slots_block){.free_list = SLOTS_NONE, .first = t->seed, .last = t->seed};
    return true;
}

static bool has_room(const struct slots *t, uint32_t b)
{
    return t->block[b].free_list != SLOTS_NONE || t->block[b].used < block_slots(t, b);
}

/* --- take and put --- */

/* A slot that has no object yet, or none any more. NULL: it cannot have one. */
static struct slot *use_next(struct slots *t, uint32_t b)
{
    struct slots_block *block = &t->block[b];
    uint32_t q = block_begin(t, b) + block->used, number = q - SLOTS_FIRST;
    struct slot *s;

    if (number >= t->max || !reach_slot(t, q))
        return NULL;
    s = slots_at(t, number);
    s->number = number;
    /* It may hold the tag that it had before a release: no reader takes that for live. */
    atomic_store_explicit(&s->tag, block->first << 1, memory_order_relaxed);
    block->used++;
    if (number >= t->end)
        t->end = number + 1;
    return s;
}

static void find_lowest(struct slots *t)
{
    while (t->lowest < t->blocks && !has_room(t, t->lowest))
        t->lowest++;
}

size_t slots_growth(struct slots *t, bool *mapped)
{
    uint32_t q;
    size_t size = 0;

    find_lowest(t);
    if (t->lowest == t->blocks)
        q = block_begin(t, t->lowest);
    else if (t->block[t->lowest].free_list == SLOTS_NONE)
        q = block_begin(t, t->lowest) + t->block[t->lowest].used;
    else
        q = 0; /* a slot that was put: it has memory, or had it */
    if (q != 0 && q - SLOTS_FIRST < t->max && !slots_at(t, q - SLOTS_FIRST))
        size = chunk_size(t, chunk_of(q));
    *mapped = size >= CHUNK_MAP;
    return size;
}

size_t slots_memory(const struct slots *t, unsigned *mapped)
{
    size_t size = 0;

    *mapped = 0;
    for (size_t k = 0; k < SLOTS_CHUNKS; k++) {
        if (!atomic_load_explicit(&t->chunk[k], memory_order_relaxed))
            continue;
        size += chunk_size(t, k);
        *mapped += chunk_size(t, k) >= CHUNK_MAP;
    }
    return size;
}

/* Generations have 31 bits and wrap; those of one block are never far from each other. */
static bool is_later(uint32_t generation, uint32_t than)
{
    return ((generation - than) & 0x7fffffff) - 1 < 0x3fffffff;
}

void *slots_take(struct slots *t)
{
    struct slots_block *block;
    struct slot *s;

    find_lowest(t);
    if (t->lowest == t->blocks && !add_block(t))
        return NULL;
    block = &t->block[t->lowest];
    if (can_go(t, block))
        t->idle--;
    if (block->free_list != SLOTS_NONE) {
        s = slots_at(t, block->free_list);
        block->free_list = s->next_free;
    } else {
        s = use_next(t, t->lowest);
        if (!s)
            return NULL;
    }
    block->condemned = false;
    block->live++;
    t->live++;
    if (is_later(slot_generation(s), t->latest))
        t->latest = slot_generation(s);
    return s;
}

void slots_put(struct slots *t, void *object)
{
    struct slot *s = object;
    struct slots_block *block = block_of(t, s->number);
    uint32_t generation = (slot_generation(s) + 1) & 0x7fffffff;

    atomic_store_explicit(&s->tag, generation << 1, memory_order_release);
    /*
     * Before anything that the next owner stores. A release store holds back what comes before it,
     * not what comes after: on a weakly ordered CPU the next owner's first stores could be seen
     * while the old, live tag still is. With this fence, a reader that has got one of them (with a
     * relaxed load, followed by an acquire fence) finds on looking again that the tag has changed;
     * that is how one without a lock validates what it has read. The owner may be another thread
     * than this one: it comes after us by the owner's lock, so the fence is before its stores too.
     */
    atomic_thread_fence(memory_order_release);
    if (is_later(generation, block->last))
        block->last = generation;
    s->next_free = block->free_list;
    block->free_list = s->number;
    block->live--;
    t->live--;
    if (can_go(t, block))
        t->idle++;
    if (block < &t->block[t->lowest])
        t->lowest = (uint32_t)(block - t->block);
}

/* --- restore --- */

void *slots_restore_memory(struct slots *t, uint32_t number)
{
    uint32_t q = number + SLOTS_FIRST, b = q >> t->block_shift;

    if (number >= t->max)
        return NULL;
    while (t->blocks <= b)
        if (!add_block(t))
            return NULL;
    for (uint32_t i = 0; i <= b; i++)
        while (t->block[i].used < block_slots(t, i) && block_begin(t, i) + t->block[i].used <= q)
            if (!use_next(t, i))
                return NULL;
    return slots_at(t, number);
}

void *slots_restore(struct slots *t, uint32_t number, uint32_t generation)
{
    uint32_t b = (number + SLOTS_FIRST) >> t->block_shift;
    struct slot *s = slots_restore_memory(t, number);

    if (!s)
        return NULL;
    atomic_store_explicit(&s->tag, generation << 1 | 1, memory_order_relaxed);
    t->block[b].live++;
    t->live++;
    if (is_later(generation, t->block[b].last))
        t->block[b].last = generation;
    return s;
}

void slots_restored(struct slots *t)
{
    for (uint32_t b = 0; b < t->blocks; b++) {
        struct slots_block *block = &t->block[b];

        for (uint32_t i = block->used; i-- > 0;) {
            struct slot *s = slots_at(t, block_begin(t, b) - SLOTS_FIRST + i);

            if (slot_live(s))
                continue;
            s->next_free = block->free_list;
            block->free_list = s->number;
        }
        if (can_go(t, block))
            t->idle++;
    }
}

/* --- release --- */

/* Has the block, of the same chunk as another one, nothing that must stay? */
static bool is_empty(const struct slots *t, uint32_t b)
{
    return b >= t->blocks || t->block[b].used == 0;
}

/*
 * Neighbours share a page. The later one of the two that is released gives it back: when the other
 * is empty already, or begins behind all objects.
 */
static void give_pages(const struct slots *t, uint32_t b)
{
    uint32_t q = block_begin(t, b), n = block_slots(t, b);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char *first = slots_at(t, q - SLOTS_FIRST);
    uintptr_t from = (uintptr_t)first, to = from + n * t->object_size;
    bool begins = (q & (q - 1)) == 0, ends = ((q + n) & (q + n - 1)) == 0; /* its chunk */

    from = !begins && is_empty(t, b - 1) ? from & ~(uintptr_t)(page - 1)
                                         : (from + page - 1) & ~(uintptr_t)(page - 1);
    to = !ends && is_empty(t, b + 1) ? (to + page - 1) & ~(uintptr_t)(page - 1)
                                     : to & ~(uintptr_t)(page - 1);
    /* Refused (locked memory): the content stays, and is as good as zeros. */
    if (to > from)
        madvise(first + (from - (uintptr_t)first), to - from, MADV_DONTNEED);
}

static void release_block(struct slots *t, uint32_t b, slots_forget_fn *forget)
{
    struct slots_block *block = &t->block[b];
    uint32_t number = block_begin(t, b) - SLOTS_FIRST;

    for (uint32_t i = 0; forget && i < block->used; i++)
        forget(slots_at(t, number + i));
    *block = (struct slots_block){
        .free_list = SLOTS_NONE,
        .first = block->last,
        .last = block->last,
    };
    t->idle--;
    give_pages(t, b);
}

static void shorten_table(struct slots *t)
{
    for (uint32_t b = t->blocks; b-- > 0;)
        if (t->block[b].used > 0) {
            t->end = block_begin(t, b) - SLOTS_FIRST + t->block[b].used;
            return;
        }
}

/* The last block before b that can go; there is one. */
static uint32_t idle_before(const struct slots *t, uint32_t b)
{
    do {
        b--;
    } while (!can_go(t, &t->block[b]));
    return b;
}

void slots_release(struct slots *t, uint32_t kept, slots_forget_fn *forget)
{
    if (t->idle <= kept)
        return;
    for (uint32_t b = t->blocks; t->idle > kept;) {
        b = idle_before(t, b);
        release_block(t, b, forget);
    }
    shorten_table(t);
}

bool slots_condemn(struct slots *t, uint32_t kept)
{
    uint32_t b = t->blocks;

    for (uint32_t remaining = t->idle; remaining > kept; remaining--) {
        b = idle_before(t, b);
        t->block[b].condemned = true;
    }
    return t->idle > kept;
}

void slots_release_condemned(struct slots *t, slots_forget_fn *forget)
{
    uint32_t b = t->blocks;

    for (uint32_t remaining = t->idle; remaining > 0; remaining--) {
        b = idle_before(t, b);
        if (t->block[b].condemned)
            release_block(t, b, forget);
    }
    shorten_table(t);
}
