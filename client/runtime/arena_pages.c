#include "client/runtime/arena_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/runtime/point.h"
#include "client/runtime/session.h"

#define PAGE          4096u               /* where pages are larger, fewer are kept */
#define RINGS_KEPT    (UINT64_C(1) << 20) /* bytes of pages of rings, for new streams */
#define SEGMENTS_KEPT 2u                  /* event segments, for new events */

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

/* False: no memory. */
static bool remember_use(struct arena_events *e, const struct use *use)
{
    struct use *grown;

    for (uint32_t i = 0; i < e->n; i++)
        if (e->uses[i].point.ctrl == use->point.ctrl || point_passed(&e->uses[i].point)) {
            /* Two uses in one stream: the later one passes last. */
            if (e->uses[i].point.ctrl != use->point.ctrl ||
                e->uses[i].point.position < use->point.position)
                e->uses[i] = *use;
            return true;
        }
    if (e->n == e->size) {
        grown = reallocarray(e->uses, e->size + 4, sizeof(*grown));
        if (!grown)
            return false;
        e->uses = grown;
        e->size += 4;
    }
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
