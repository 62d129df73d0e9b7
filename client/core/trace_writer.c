#include "client/core/trace_writer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/core/thread.h"
#include "client/core/npud_clock.h"

static void unmap_ring(struct trace_map *map)
{
    if (map->ring)
        munmap(map->ring, trace_ring_bytes(map->entries));
    free(map);
}

/*
 * For each trace anew: it may be of another npud, which has made another ring. Several threads may
 * ask at the same time: npud gives all of them the same one, and one mapping of it stays.
 */
static struct trace_map *fetch_ring(struct trace_writer *w, struct trace_map *before,
                                    uint32_t trace)
{
    struct trace_map *map = calloc(1, sizeof(*map));

    if (!map)
        return NULL;
    *map = (struct trace_map){.trace = trace, .before = before};
    map->ring = w->fetch(w, &map->entries);
    /* Release: a thread that finds it finds it filled, and mapped. */
    if (atomic_compare_exchange_strong_explicit(&w->last, &before, map, memory_order_acq_rel,
                                                memory_order_acquire))
        return map;
    unmap_ring(map);
    return before;
}

/* Relaxed: it is only compared. What belongs to it is asked for, and then found in w->last. */
static uint32_t trace_of(const struct trace_writer *w)
{
    return atomic_load_explicit(&w->page->trace, memory_order_relaxed);
}

static void write_events(struct trace_writer *w, struct trace_event *events, unsigned n)
{
    struct trace_map *map = atomic_load_explicit(&w->last, memory_order_acquire);
    uint32_t trace = trace_of(w);

    if (trace == 0)
        return; /* it has just ended */
    events[0].thread = thread_self()->tid;
    if (!map || map->trace != trace)
        map = fetch_ring(w, map, trace);
    if (map && map->ring)
        trace_put_shared(map->ring, map->entries, events, n);
}

#define TEXT_EVENTS (1 + (TRACE_TEXT_MAX - TRACE_TEXT_FIRST) / TRACE_TEXT_NEXT)

/* An event, at events[0], gets text, whose first part goes there. Returns how many they are. */
static unsigned fill_text(struct trace_event events[TEXT_EVENTS], char *begin, size_t first,
                          const char *text)
{
    size_t size = strnlen(text, first + (TEXT_EVENTS - 1) * TRACE_TEXT_NEXT), have;
    unsigned n = 1;

    events[0].size = (uint16_t)size;
    have = size < first ? size : first;
    memcpy(begin, text, have);
    for (; have < size; n++) {
        size_t part = size - have < TRACE_TEXT_NEXT ? size - have : TRACE_TEXT_NEXT;

        events[n] = (struct trace_event){.kind = TRACE_TEXT};
        memcpy((char *)events[n].words + TRACE_TEXT_AT, text + have, part);
        have += part;
    }
    return n;
}

/* --- calls in a row: a program that polls makes millions, each as the one before --- */

#define RUN_GAP_NS UINT64_C(20000)    /* what is further apart is told one by one, */
#define RUN_NS     UINT64_C(10000000) /* and a row after so long, with another one behind it */

/* Those that the ring does not have yet, in one event. */
static void end_run(struct trace_writer *w, struct thread *t)
{
    struct trace_event events[TEXT_EVENTS] = {
        {.kind = TRACE_CALL, .begin_ns = t->run.begin_ns, .end_ns = t->run.end_ns}};
    uint64_t times = t->run.times;
    unsigned n;

    t->run.times = 0;
    if (times == 0 || t->run.trace != trace_of(w))
        return;
    events[0].call.times = times;
    n = fill_text(events, events[0].call.name, TRACE_NAME_FIRST, t->run.function);
    write_events(w, events, n);
}

/* Whether the call is another one of the row: then it needs no event of its own. */
static bool run_goes_on(struct trace_writer *w, const char *function, uint64_t begin_ns)
{
    struct thread *t = thread_self();

    if (t->run.function != function || t->moved_way != TRACE_WAY_NONE ||
        begin_ns - t->run.end_ns > RUN_GAP_NS)
        return false;
    if (t->run.times++ == 0)
        t->run.begin_ns = begin_ns;
    t->run.end_ns = npud_clock_ns();
    if (t->run.end_ns - t->run.begin_ns > RUN_NS)
        end_run(w, t);
    return true;
}

static void put_events(struct trace_writer *w, struct trace_event *events, unsigned n)
{
    struct thread *t = thread_self();

    end_run(w, t);
    t->run.function = NULL;
    write_events(w, events, n);
}

static struct trace_event make_event(enum trace_kind kind, uint64_t begin_ns)
{
    uint64_t now = npud_clock_ns();

    return (struct trace_event){
        .kind = (uint8_t)kind, .begin_ns = begin_ns != 0 ? begin_ns : now, .end_ns = now};
}

uint64_t trace_begin_slow(void)
{
    return npud_clock_ns();
}

void trace_event(struct trace_writer *w, enum trace_kind kind, uint8_t op, uint64_t begin_ns)
{
    struct trace_event event = make_event(kind, begin_ns);

    event.op = op;
    put_events(w, &event, 1);
}

void trace_text(struct trace_writer *w, enum trace_kind kind, uint64_t begin_ns, const char *text)
{
    struct trace_event events[TEXT_EVENTS] = {make_event(kind, begin_ns)};
    unsigned n = fill_text(events, events[0].text, TRACE_TEXT_FIRST, text);

    put_events(w, events, n);
}

void trace_call(struct trace_writer *w, const char *function, uint64_t begin_ns)
{
    struct trace_event events[TEXT_EVENTS];
    struct thread *t = thread_self();
    unsigned n;

    if (run_goes_on(w, function, begin_ns))
        return;
    events[0] = make_event(TRACE_CALL, begin_ns);
    n = fill_text(events, events[0].call.name, TRACE_NAME_FIRST, function);
    events[0].op = t->moved_way;
    events[0].call.bytes = t->moved;
    put_events(w, events, n);
    if (t->moved_way == TRACE_WAY_NONE) {
        t->run.function = function;
        t->run.trace = trace_of(w);
        t->run.end_ns = events[0].end_ns;
    }
    t->moved_way = TRACE_WAY_NONE;
    t->moved = 0;
}

void trace_thread_ends(struct trace_writer *w)
{
    end_run(w, thread_self());
}

void trace_moved(enum trace_way way, uint64_t bytes)
{
    struct thread *t = thread_self();

    t->moved_way = (uint8_t)way;
    t->moved += bytes;
}

void trace_submitted(struct trace_writer *w, uint8_t op, uint32_t slot, uint64_t position)
{
    struct trace_event event = make_event(TRACE_SUBMITTED, 0);

    event.op = op;
    event.task.slot = slot;
    event.task.position = position;
    put_events(w, &event, 1);
}

void trace_handover(struct trace_writer *w, enum trace_kind kind, uint64_t begin_ns, uint64_t queue,
                    uint64_t buffer)
{
    struct trace_event event = make_event(kind, begin_ns);

    event.handover.queue = queue;
    event.handover.buffer = buffer;
    put_events(w, &event, 1);
}

void trace_unmap(struct trace_writer *w)
{
    struct trace_map *map = atomic_exchange(&w->last, NULL), *before;

    for (; map; map = before) {
        before = map->before;
        unmap_ring(map);
    }
}
