#include "daemon/engine/graph.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/base/kill_here.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/notify.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/engine/work.h"
#include "daemon/memory/allocation.h"
#include "proto/shm/graph_shm.h"

#define TASK_WORDS (sizeof(struct task) / sizeof(uint64_t))

/* --- reading --- */

static uint64_t list_bytes(uint32_t count)
{
    return count * sizeof(struct task);
}

static bool is_list(const struct task *t)
{
    return t->op == TASK_GRAPH && t->graph.count > 0 && t->graph.count <= GRAPH_TASKS_MAX &&
           t->graph.offset % sizeof(struct task) == 0 && t->graph.last >= t->graph.base &&
           t->graph.last < UINT64_C(1) << 63;
}

/* Where the list is; no memory: nowhere. */
static struct work_place place_of(struct mem *m, const struct task *t)
{
    return allocation_place(m, t->graph.offset, list_bytes(t->graph.count));
}

/* The copy is npud's own. `sequence` is the caller's. */
static void read_entry(const struct stream *s, struct work_place list, uint32_t index,
                       struct task *task)
{
    struct work_place at = {list.memory, list.offset + list_bytes(index)};

    /* Memory that npud cannot read holds no list. */
    if (!s->attach->device->backend->words_read(at, (uint64_t *)(void *)task, TASK_WORDS))
        *task = (struct task){.op = TASK_OPS};
}

/* What no list has becomes an op that there is not: it fails like any bad entry. */
static void fit_entry(const struct stream *s, struct task *t)
{
    const struct graph_run *g = s->graph;

    t->implicit = (uint16_t)s->live->implicit;
    t->thread = g->thread;
    if (t->op == TASK_NOP)
        t->flags = 0; /* no entry of the ring is its own */
    if (t->op == TASK_GRAPH)
        t->op = TASK_OPS;
    if (t->op != TASK_CALLBACK)
        return;
    if (t->callback.ordinal >= g->calls) {
        t->op = TASK_OPS;
        return;
    }
    t->flags = 0;
    t->callback.block = 1;
    if (t->callback.word == GRAPH_WORD_OF_STREAM)
        t->callback.word = g->word;
    t->callback.ordinal =
        graph_call_ordinal(g->base, g->calls, (uint32_t)t->callback.ordinal, s->live->callbacks);
    if (t->callback.ordinal > g->last)
        t->op = TASK_OPS;
}

void graph_fetch(struct stream *s)
{
    struct stream_kept *k = s->live;
    struct graph_run *g = s->graph;
    struct task task;

    read_entry(s, g->list, graph_at_index(k->graph_at), &task);
    fit_entry(s, &task);
    memcpy((char *)&k->task + sizeof(uint64_t), (char *)&task + sizeof(uint64_t),
           sizeof(task) - sizeof(uint64_t));
    kept_order();
    atomic_store_explicit(&k->task.sequence, k->graph_at, memory_order_relaxed);
    g->next = UINT32_MAX;
    KILL_HERE(GRAPH_TASK_READ);
}

/* --- beginning and ending --- */

/* What TASK_GRAPH names becomes what the stream has. False: there is no memory. */
static bool prepare(struct stream *s, const struct task *t, struct mem *m, bool passes)
{
    struct graph_run *g = malloc(sizeof(*g));

    assert(!s->graph);
    if (!g)
        return false;
    *g = (struct graph_run){.memory = m,
                            .list = place_of(m, t),
                            .base = t->graph.base,
                            .last = t->graph.last,
                            .count = t->graph.count,
                            .calls = t->graph.calls,
                            .thread = t->thread,
                            .word = t->graph.word,
                            .next = UINT32_MAX,
                            .passes = passes};
    s->graph = g;
    return true;
}

static void forget_graph(struct stream *s)
{
    free(s->graph);
    s->graph = NULL;
}

static struct mem *memory_of(struct stream *s, const struct task *t)
{
    return is_list(t) ? allocation_get(s->session, t->object, t->generation) : NULL;
}

enum run_result graph_run(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    struct mem *m = memory_of(s, t);

    (void)now;
    if (!is_list(t))
        return run_bad_entry(s, "no such list");
    if (!place_of(m, t).memory)
        return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
    if (!allocation_filled(m) || !prepare(s, t, m, false))
        return run_fail(s, ACL_ERROR_RT_MEMORY_ALLOCATION, 0);
    return RUN_RETIRED;
}

void graph_fail(struct stream *s)
{
    const struct task *t = &s->live->task;
    struct mem *m = memory_of(s, t);

    /* Only notifies have to be told; without memory they are not, as when the list is lost. */
    if ((t->flags & TASK_GRAPH_NOTIFIES) && place_of(m, t).memory && allocation_filled(m))
        (void)prepare(s, t, m, true);
}

static void enter(struct stream *s)
{
    struct stream_kept *k = s->live;

    allocation_begin_work(s->graph->memory);
    k->graph_at = graph_at_make(graph_at_step(k->graph_at) + 1, 0, s->graph->passes);
    kept_order();
    KILL_HERE(GRAPH_BEGINS);
    k->graph_for = k->position + 1;
    KILL_HERE(GRAPH_BEGUN);
}

void engine_leave_graph(struct stream *s)
{
    struct mem *m = s->graph ? s->graph->memory : NULL;
    bool under_way = stream_kept_in_graph(s->live);

    forget_graph(s);
    if (!m || !under_way)
        return;
    allocation_filled(m);
    allocation_end_work(m);
}

static void retire_graph(struct stream *s)
{
    struct mem *m = s->graph->memory;

    forget_graph(s);
    s->live->position++;
    kept_order();
    KILL_HERE(GRAPH_OVER);
    allocation_filled(m);
    allocation_end_work(m);
}

void graph_advance(struct stream *s)
{
    struct stream_kept *k = s->live;
    struct graph_run *g = s->graph;
    uint32_t next;

    if (!stream_kept_in_graph(k)) {
        enter(s);
        return;
    }
    g->passes |= stream_has_failed(s);
    next = g->passes || g->next == UINT32_MAX ? graph_at_index(k->graph_at) + 1 : g->next;
    if (next >= g->count) {
        retire_graph(s);
        return;
    }
    k->graph_at = graph_at_make(graph_at_step(k->graph_at) + 1, next, g->passes);
    KILL_HERE(GRAPH_STEP);
}

/* --- jumps --- */

/* RUN_RETIRED: it is read, or the task has failed. m: NULL if a device is at it. */
static enum run_result read_word(struct stream *s, uint64_t now, struct mem *m, uint64_t offset,
                                 bool wide, int64_t *value)
{
    const struct backend *backend = s->attach->device->backend;
    enum run_result r = RUN_RETIRED;
    uint64_t word = 0, start = offset & ~UINT64_C(7);

    if (!s->away) {
        struct work_place at = allocation_place(m, start, sizeof(uint64_t));

        if (!at.memory || offset % (wide ? 8 : 4) != 0 || !allocation_filled(m))
            return run_fail(s, ACL_ERROR_RT_SYS_DMA, 0);
        if (!backend->word_read(at, &word))
            r = work_read_word(s, now, m, start, &word);
        allocation_filled(m);
    } else {
        r = work_read_word(s, now, NULL, start, &word);
    }
    *value = wide ? (int64_t)word : (int32_t)(uint32_t)(word >> (offset % 8 * 8));
    return r;
}

/* Both sides of the comparison; *right is there, unless it is in memory. As read_word(). */
static enum run_result read_sides(struct stream *s, uint64_t now, int64_t *left, int64_t *right)
{
    const struct task *t = &s->live->task;
    struct graph_run *g = s->graph;
    enum run_result r;

    if (!g->has_left) {
        r = read_word(s, now, allocation_get(s->session, t->object, t->generation), t->jump.offset,
                      t->jump.wide, &g->left);
        if (r != RUN_RETIRED || stream_has_failed(s))
            return r;
        g->has_left = t->jump.memory; /* while the other one is read */
    }
    *left = g->left;
    if (!t->jump.memory)
        return RUN_RETIRED;
    r = read_word(s, now,
                  allocation_get(s->session, t->jump.right_object, t->jump.right_generation),
                  t->jump.right, t->jump.wide, right);
    if (r == RUN_RETIRED)
        g->has_left = false;
    return r;
}

static bool holds(unsigned condition, int64_t left, int64_t right)
{
    switch (condition) {
    case JUMP_EQUAL:
        return left == right;
    case JUMP_NOT_EQUAL:
        return left != right;
    case JUMP_GREATER:
        return left > right;
    case JUMP_GREATER_EQUAL:
        return left >= right;
    case JUMP_LESS:
        return left < right;
    case JUMP_LESS_EQUAL:
        return left <= right;
    default:
        return true;
    }
}

enum run_result graph_run_jump(struct stream *s, uint64_t now)
{
    const struct task *t = &s->live->task;
    int64_t left = 0, right = t->jump.wide ? (int64_t)t->jump.right : (int32_t)t->jump.right;

    if (!stream_kept_in_graph(s->live) || t->flags >= JUMP_CONDITIONS ||
        t->jump.target > s->graph->count)
        return run_bad_entry(s, "no such place or condition");
    if (t->flags != JUMP_ALWAYS) {
        enum run_result r = read_sides(s, now, &left, &right);

        if (r != RUN_RETIRED || stream_has_failed(s))
            return r;
    }
    if (holds(t->flags, left, right))
        s->graph->next = t->jump.target;
    return RUN_RETIRED;
}

/* --- not executed --- */

unsigned engine_drop_graph(struct stream *s, const struct task *t, uint32_t from, unsigned max)
{
    struct mem *m = memory_of(s, t);
    struct work_place list = place_of(m, t);
    struct task task;
    uint32_t i = from;

    if (!(t->flags & TASK_GRAPH_NOTIFIES) || !list.memory || !allocation_filled(m))
        return 0;
    for (; i < t->graph.count && i - from < max; i++) {
        read_entry(s, list, i, &task);
        notify_drop_task(s, NOTIFY_IN_GRAPH, &task, KEPT_CONTROL);
    }
    allocation_filled(m);
    return i - from;
}

/* --- recovery --- */

/* A graph that was to fail, and was not entered yet. */
void graph_restore(struct stream *s)
{
    if (stream_has_failed(s))
        graph_fail(s);
}

/*
 * What it executes stands in the ring still, because `done` has not passed it. A client that has
 * changed it meanwhile has another list from here on.
 */
void graph_restore_under_way(struct stream *s)
{
    struct stream_kept *k = s->live;
    struct task t = {0};
    struct mem *m = NULL;

    if (!stream_kept_in_graph(k))
        return;
    if (stream_read_entry(s, k->position, &t) && is_list(&t))
        m = allocation_get_begun(s->session, t.object, t.generation);
    if (!place_of(m, &t).memory || graph_at_index(k->graph_at) >= t.graph.count ||
        !prepare(s, &t, m, (k->graph_at & GRAPH_AT_PASSES) != 0)) {
        /* It is over, as nothing is left of it. */
        k->position++;
        stream_forget_task(s);
        return;
    }
    allocation_begin_work(m);
}
