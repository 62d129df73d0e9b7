/*
 * The accesses of an execution are written down as if its tasks stood in the stream, in the order
 * of the calls that recorded them. Which tasks conditions and switches of streams pass over is
 * known to npud alone: what they may pass over is written down as what may be done.
 */
#include "client/graph/graph_tell.h"

#include <utlist.h>

#include "client/check/checked.h"
#include "client/event/event.h"
#include "client/graph/graph.h"
#include "client/graph/graph_cond.h"
#include "client/runtime/stream.h"

struct telling {
    struct stream *stream;
    uint64_t base;
    uint64_t name;  /* of the stream, for the checker */
    uint32_t calls; /* of the whole graph */
};

static __attribute__((cold)) void write_checks(const struct graph_node *node,
                                               const struct telling *t, bool maybe)
{
    struct graph_check *check;

    LL_FOREACH (node->checks, check) {
        struct check_access *r = check->record;

        r->stream = t->name;
        for (uint32_t i = 0; maybe && i < r->n; i++)
            r->use[i].how |= CHECK_MAYBE;
        checked_write(&r->r, check->size);
    }
}

static __attribute__((cold)) void write_task(const struct graph_node *node, const struct telling *t,
                                             bool maybe)
{
    struct task task = node->task;

    if (task.op == TASK_CALLBACK)
        task.callback.ordinal = t->base + 1 + node->call;
    checked_graph_task(t->name, &task, t->stream->tail, t->calls, maybe);
}

/* What it looks at. A word of a condition is zero before anything has written it. */
static __attribute__((cold)) void write_jump(const struct graph_node *node, const struct telling *t)
{
    struct task task = node->kind == NODE_COND ? cond_test(node->cond) : node->task;

    checked_graph_task(t->name, &task, t->stream->tail, t->calls, true);
}

/* Of the graph's records of this event, how many come before node i? */
static uint64_t records_before(const struct graph *g, uint32_t i)
{
    uint64_t n = 0;

    for (uint32_t k = 0; k < i; k++)
        n += g->nodes[k].kind == NODE_RECORD && g->nodes[k].has_task &&
             g->nodes[k].event == g->nodes[i].event;
    return n;
}

static __attribute__((cold)) void write_node(const struct graph *g, uint32_t i,
                                             const struct telling *t)
{
    const struct graph_node *node = &g->nodes[i];
    bool maybe = g->parent || !g->captured;

    write_checks(node, t, maybe);
    if (node->kind == NODE_COND || node->task.op == TASK_JUMP)
        write_jump(node, t);
    if (!node->has_task)
        return;
    if (node->kind == NODE_RECORD)
        event_note_by_graph(node->event, t->stream, CHECK_RECORD, records_before(g, i));
    else if (node->kind == NODE_RESET)
        event_note_by_graph(node->event, t->stream, CHECK_RESET, 0);
    else if (node->kind == NODE_WAIT)
        event_note_by_graph(node->event, t->stream, CHECK_WAIT, 0);
    else
        write_task(node, t, maybe);
}

static __attribute__((cold)) void write_graph(const struct graph *g, const struct telling *t)
{
    const struct graph *nested;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *node = &g->nodes[i];

        for (uint32_t k = 0; node->kind == NODE_COND && (nested = cond_nested(node->cond, k)); k++)
            write_graph(nested, t);
        if (!node->disabled)
            write_node(g, i, t);
    }
}

void graph_write_checks(const struct graph *g, struct stream *s)
{
    write_graph(g, &(struct telling){.stream = s,
                                     .base = s->callbacks.launched,
                                     .name = stream_checked_name(s),
                                     .calls = g->calls ? g->calls->n : 0});
}

/* --- events that are not edges: used by the execution --- */

static void tell_event(const struct graph_node *node, struct stream *s)
{
    if (node->disabled || !node->has_task)
        return;
    if (node->kind == NODE_RECORD)
        event_recorded_by_graph(node->event, s);
    else if (node->kind == NODE_RESET || node->kind == NODE_WAIT)
        event_used_by_graph(node->event, s, node->kind == NODE_WAIT);
}

static void lower_event(const struct graph_node *node, struct stream *s)
{
    if (node->kind == NODE_RECORD && node->flag != 0)
        event_lower_for_graph(node->event, s);
}

static void each_node(const struct graph *g, struct stream *s,
                      void (*act)(const struct graph_node *node, struct stream *s))
{
    const struct graph *nested;

    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *node = &g->nodes[i];

        for (uint32_t k = 0; node->kind == NODE_COND && (nested = cond_nested(node->cond, k)); k++)
            each_node(nested, s, act);
        act(node, s);
    }
}

void graph_tell_events(const struct graph *g, struct stream *s)
{
    each_node(g, s, tell_event);
}

void graph_lower_events(const struct graph *g, struct stream *s)
{
    each_node(g, s, lower_event);
}
