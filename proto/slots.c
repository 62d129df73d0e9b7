#include "proto/slots.h"

#include <assert.h>

#include <stdlib.h>

static_assert(SLOTS_FIRST == 16, "slots_at() derives the chunk from the highest bit");

void slots_init(struct slots *t, size_t object_size, uint32_t max, uint32_t seed)
{
    *t = (struct slots){
        .object_size = object_size,
        .max = max,
        .free_list = SLOTS_NONE,
        .seed = seed & 0x7fffffff,
    };
}

void slots_deinit(struct slots *t)
{
    for (size_t i = 0; i < SLOTS_CHUNKS; i++)
        free(atomic_load_explicit(&t->chunk[i], memory_order_relaxed));
    *t = (struct slots){.max = 0}; /* clang 14 takes no {0} before an atomic pointer */
}

/* Objects hold cache-line sized parts that threads share: align chunks, and calloc cannot. */
static bool add_chunk(struct slots *t, unsigned k)
{
    size_t size = ((size_t)SLOTS_FIRST << k) * t->object_size;
    unsigned char *chunk = aligned_alloc(64, (size + 63) & ~(size_t)63);

    if (!chunk)
        return false;
    __builtin_memset(chunk, 0, size);
    atomic_store_explicit(&t->chunk[k], chunk, memory_order_release);
    return true;
}

void *slots_take(struct slots *t)
{
    struct slot *s;

    if (t->free_list != SLOTS_NONE) {
        s = slots_at(t, t->free_list);
        t->free_list = s->next_free;
    } else {
        uint32_t q = t->end + SLOTS_FIRST;
        unsigned k = 31u - (unsigned)__builtin_clz(q) - 4u;

        if (t->end >= t->max || k >= SLOTS_CHUNKS)
            return NULL;
        if (!atomic_load_explicit(&t->chunk[k], memory_order_relaxed) && !add_chunk(t, k))
            return NULL;
        s = slots_at(t, t->end);
        s->number = t->end++;
        atomic_store_explicit(&s->tag, t->seed << 1, memory_order_relaxed);
    }
    t->live++;
    return s;
}

void slots_put(struct slots *t, void *object)
{
    struct slot *s = object;
    uint32_t generation = slot_generation(s);

    atomic_store_explicit(&s->tag, (generation + 1) << 1, memory_order_release);
    /*
     * Before anything that the next owner stores. A release store holds back what comes before it, not what comes after: on a
     * weakly ordered CPU the next owner's first stores could be seen while the old, live tag still is. With this fence, a reader that
     * has got one of them (with a relaxed load, followed by an acquire fence) finds on looking again that the tag has changed; that
     * is how one without a lock validates what it has read. The owner may be another thread than this one: it comes after us
     * by the owner's lock, so the fence is before its stores too.
     */
    atomic_thread_fence(memory_order_release);
    s->next_free = t->free_list;
    t->free_list = s->number;
    t->live--;
}
