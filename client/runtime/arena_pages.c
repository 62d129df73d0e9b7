#include "client/runtime/arena_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/runtime/point.h"
#include "client/runtime/session.h"

#define PAGE         4096u               /* where pages are larger, fewer are kept */
#define RINGS_KEPT   (UINT64_C(1) << 20) /* bytes of pages of rings, for new streams */
#define FILES_SPARED 2u                  /* event files, for new events */
#define USES_FIRST   4u                  /* places of a file; they double */

/* In the place of a mapping. Without success the old one stays, until the next object comes. */
static void detach_mapping(void *at, size_t size, size_t kept)
{
    void *own = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (own == MAP_FAILED)
        return;
    madvise(own, size, MADV_NOHUGEPAGE);
    madvise(own, size, MADV_DONTFORK);
    memcpy(own, at, kept);
    if (mremap(own, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        munmap(own, size);
}

/* False: npud says that something is still there, or it lacks memory. */
static bool renew_file(struct session *s, bool events, uint32_t file)
{
    REQUEST(renew_arena, RENEW_ARENA, .events = events, .segment = file);

    if (session_command_unheard(s, &request) != 0)
        return false;
    if (events)
        detach_mapping(s->event_files[file], arena_event_file_size(), 0);
    else
        detach_mapping(s->stream_files[file], arena_stream_file_size(s->ring_depth),
                       ARENA_STREAMS * sizeof(struct stream_ctrl));
    return true;
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

/* If it has no stream and none that leaves, its pages go. */
static void renew_rings(struct session *s, uint32_t file)
{
    uint32_t first = file * ARENA_STREAMS, pages = 0;

    for (uint32_t slot = first; slot < first + ARENA_STREAMS; slot++) {
        uint16_t more = s->arena.ring_pages[slot];

        if (arena_pages_ring_lives(s, slot) ||
            (more > 0 && !(s->arena.rings[slot / 64].left & bit_of(slot))))
            return;
        pages += more;
    }
    if (pages == 0)
        return;
    /* Once: what npud does not renew now stays until the slots are used again. */
    s->arena.renewed_rings[file] = renew_file(s, false, file);
    for (uint32_t slot = first; slot < first + ARENA_STREAMS; slot++)
        s->arena.ring_pages[slot] = 0;
    s->arena.pages_left -= pages;
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
    s->arena.renewed_rings[slot / ARENA_STREAMS] = false;
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
    for (uint32_t i = 0; i < SESSION_STREAMS_MAX / ARENA_STREAMS; i++)
        renew_rings(s, i);
}

/* --- event files --- */

static bool all_passed(struct arena_events *e)
{
    while (e->n > 0 && point_passed(&e->uses[e->n - 1].point))
        e->n--;
    return e->n == 0;
}

static void renew_events(struct session *s)
{
    for (uint32_t i = 0; i < SESSION_EVENTS_MAX / ARENA_EVENTS; i++) {
        struct arena_events *e = &s->arena.events[i];

        if (e->live > 0 || !e->dirty || !all_passed(e) || !renew_file(s, true, i))
            continue;
        e->renewed = true;
        e->dirty = false;
        free(e->uses);
        e->uses = NULL;
        e->size = 0;
        s->arena.empty_files--;
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
        s->arena.empty_files--;
    e->dirty = true;
    e->renewed = false;
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
    if (++s->arena.empty_files > FILES_SPARED)
        renew_events(s);
}

void arena_pages_deinit(struct session *s)
{
    for (uint32_t i = 0; i < SESSION_EVENTS_MAX / ARENA_EVENTS; i++)
        free(s->arena.events[i].uses);
}
