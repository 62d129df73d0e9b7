#include "client/runtime/arena_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/runtime/point.h"
#include "client/runtime/session.h"

#define PAGE          4096u               /* where pages are larger, fewer are kept */
#define RINGS_KEPT    (UINT64_C(1) << 20) /* bytes of pages of rings, for new streams */
#define SEGMENTS_KEPT 2u                  /* event segments, for new events */
#define USES_FIRST    4u                  /* places of a segment; they double */

/* Without success (locked memory, a kernel that refuses) the pages stay until the session ends. */
static void punch_hole(void *at, size_t size)
{
    madvise(at, size, MADV_REMOVE);
}

/* --- rings --- */

static uint64_t bit_of(uint32_t slot)
{
    return UINT64_C(1) << (slot % 64);
}

static size_t ring_size(const struct session *s)
{
    return (size_t)s->ring_depth * sizeof(struct task);
}

/* Rings of a word that follow each other in one segment take one call. */
static void punch_word(struct session *s, uint32_t word)
{
    uint64_t bits = s->arena.rings[word].left;

    while (bits) {
        uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits), n = 0;
        void *segment = s->stream_segments[slot / ARENA_STREAMS];
        uint32_t pages = 0;

        for (; (slot + n) / ARENA_STREAMS == slot / ARENA_STREAMS && (bits & bit_of(slot + n));
             n++) {
            bits &= ~bit_of(slot + n);
            pages += s->arena.ring_pages[slot + n];
            s->arena.ring_pages[slot + n] = 0;
        }
        if (pages > 0)
            punch_hole(arena_stream_ring(segment, slot, s->ring_depth), n * ring_size(s));
        s->arena.pages_left -= pages;
    }
}

bool arena_pages_ring_lives(const struct session *s, uint32_t slot)
{
    return s->arena.rings[slot / 64].live & bit_of(slot);
}

void arena_pages_ring_taken(struct session *s, uint32_t slot)
{
    if (s->arena.rings[slot / 64].left & bit_of(slot))
        s->arena.pages_left -= s->arena.ring_pages[slot];
    s->arena.rings[slot / 64].left &= ~bit_of(slot);
    s->arena.rings[slot / 64].live |= bit_of(slot);
}

void arena_pages_ring_leaving(struct session *s, uint32_t slot, uint64_t tasks)
{
    uint64_t most = ring_size(s) / PAGE, pages = s->arena.ring_pages[slot];

    s->arena.rings[slot / 64].live &= ~bit_of(slot);
    /* The engine looks for the task behind the last one. */
    if (tasks > 0)
        pages += tasks < s->ring_depth ? tasks * sizeof(struct task) / PAGE + 1 : most;
    s->arena.ring_pages[slot] = (uint16_t)(pages < most ? pages : most);
}

void arena_pages_ring_left(struct session *s, uint32_t slot)
{
    if (s->arena.rings[slot / 64].live & bit_of(slot))
        return;
    s->arena.rings[slot / 64].left |= bit_of(slot);
    s->arena.pages_left += s->arena.ring_pages[slot];
    if (s->arena.pages_left <= RINGS_KEPT / PAGE)
        return;
    for (uint32_t w = 0; w < SESSION_STREAMS_MAX / 64; w++)
        punch_word(s, w);
}

/* --- event segments --- */

static bool all_passed(struct arena_events *e)
{
    while (e->n > 0 && point_passed(&e->uses[e->n - 1].point))
        e->n--;
    return e->n == 0;
}

static void punch_segments(struct session *s)
{
    for (uint32_t i = 0; i < SESSION_EVENTS_MAX / ARENA_EVENTS; i++) {
        struct arena_events *e = &s->arena.events[i];

        if (e->live > 0 || !e->dirty || !all_passed(e))
            continue;
        punch_hole(s->event_segments[i], arena_event_segment_size());
        e->dirty = false;
        free(e->uses);
        e->uses = NULL;
        e->size = 0;
        s->arena.segments_left--;
    }
}

/* By stream; of one stream the latest first. */
static int compare_uses(const void *a, const void *b)
{
    const struct point *x = &((const struct use *)a)->point;
    const struct point *y = &((const struct use *)b)->point;

    if (x->ctrl != y->ctrl)
        return x->ctrl < y->ctrl ? -1 : 1;
    return x->position < y->position ? 1 : x->position > y->position ? -1 : 0;
}

/* What is left is what has not passed, and of each stream the latest use: that passes last. */
static void drop_uses(struct arena_events *e)
{
    uint32_t n = 0;

    qsort(e->uses, e->n, sizeof(*e->uses), compare_uses);
    for (uint32_t i = 0; i < e->n; i++)
        if (!point_passed(&e->uses[i].point) &&
            (n == 0 || e->uses[n - 1].point.ctrl != e->uses[i].point.ctrl))
            e->uses[n++] = e->uses[i];
    e->n = n;
}

/* False: no memory. */
static bool make_room(struct arena_events *e)
{
    uint32_t size = e->size == 0 ? USES_FIRST : 2 * e->size;
    struct use *grown;

    if (e->n > 0)
        drop_uses(e);
    /* So much room that the next search for what can go is far away. */
    if (e->n < e->size / 4 * 3)
        return true;
    grown = reallocarray(e->uses, size, sizeof(*grown));
    if (!grown)
        return e->n < e->size;
    e->uses = grown;
    e->size = size;
    return true;
}

/*
 * False: no memory. Not looked for is an earlier use in the same stream: thousands of streams can
 * have one.
 */
static bool remember_use(struct arena_events *e, const struct use *use)
{
    if (e->n == e->size && !make_room(e))
        return false;
    e->uses[e->n++] = *use;
    return true;
}

void arena_pages_event_taken(struct session *s, uint32_t slot)
{
    struct arena_events *e = &s->arena.events[slot / ARENA_EVENTS];

    if (e->live++ == 0 && e->dirty)
        s->arena.segments_left--;
    e->dirty = true;
}

void arena_pages_event_left(struct session *s, uint32_t slot, const struct use *uses, uint32_t n)
{
    struct arena_events *e = &s->arena.events[slot / ARENA_EVENTS];

    for (uint32_t i = 0; i < n; i++)
        if ((uses[i].how & USE_FENCE) && !point_passed(&uses[i].point) &&
            !remember_use(e, &uses[i]))
            return; /* it counts as one with an event for good */
    assert(e->live > 0);
    if (--e->live > 0)
        return;
    if (++s->arena.segments_left > SEGMENTS_KEPT)
        punch_segments(s);
}

void arena_pages_deinit(struct session *s)
{
    for (uint32_t i = 0; i < SESSION_EVENTS_MAX / ARENA_EVENTS; i++)
        free(s->arena.events[i].uses);
}
