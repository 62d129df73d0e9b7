/*
 * From what was recorded to the list that npud reads: the tasks in the order of the calls, with
 * nested graphs in their places and jumps around them (proto/shm/graph_shm.h).
 */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/callback/graph_calls.h"
#include "client/core/error.h"
#include "client/graph/graph.h"
#include "client/graph/graph_cond.h"
#include "client/graph/graph_compile.h"
#include "client/graph/graph_label.h"
#include "proto/shm/callback_shm.h"
#include "proto/shm/graph_shm.h"

uint32_t emit_task(struct emit *e, const struct task *task)
{
    struct task *more;

    if (e->n == e->size) {
        e->size = e->size ? 2 * e->size : 64;
        more = reallocarray(e->tasks, e->size, sizeof(*more));
        if (!more) {
            e->failed = true;
            e->size = e->n;
            return 0;
        }
        e->tasks = more;
    }
    e->tasks[e->n] = *task;
    e->notifies |= task->op == TASK_NOTIFY_RECORD || task->op == TASK_COUNT_RECORD;
    return e->n++;
}

uint32_t emit_jump(struct emit *e, const struct task *jump, uint32_t target)
{
    struct task task = *jump;

    task.op = TASK_JUMP;
    task.jump.target = target;
    return emit_task(e, &task);
}

void emit_land(struct emit *e, uint32_t jump)
{
    if (!e->failed)
        e->tasks[jump].jump.target = e->n;
}

/* The calls of a nested graph become those of the whole one. Returns the index of its first. */
static uint32_t take_calls(struct emit *e, struct graph *g)
{
    struct graph_calls *from = g->calls, *to = e->calls;
    uint32_t first = to ? to->n : 0;
    struct graph_call *more;

    if (!from || from == to)
        return 0;
    if (!to) {
        e->calls = from;
        g->calls = NULL;
        return 0;
    }
    more = reallocarray(to->call, to->n + from->n, sizeof(*more));
    if (!more) {
        e->failed = true;
        return 0;
    }
    to->call = more;
    memcpy(&more[to->n], from->call, from->n * sizeof(*more));
    to->n = to->size = to->n + from->n;
    to->n_functions += from->n_functions;
    to->n_host += from->n_host;
    to->n_works += from->n_works;
    to->n_kernels += from->n_kernels;
    from->n = 0;
    graph_calls_put(from);
    g->calls = NULL;
    return first;
}

void emit_node(struct emit *e, struct graph_node *node, uint32_t first_call)
{
    struct task task = node->task;

    if (node->kind == NODE_COND) {
        cond_emit(e, node->cond);
        return;
    }
    if (node->kind == NODE_SWITCH_LABEL) {
        label_emit_switch(e, node);
        return;
    }
    node->at = e->n;
    if (!node->has_task)
        return;
    if (task.op == TASK_CALLBACK) {
        task.callback.ordinal += first_call;
        node->call = (uint32_t)task.callback.ordinal;
        /* Back to a call of a graph that this one is nested in: more ordinals than calls. */
        e->loops |= node->call < e->next_call;
        e->next_call = node->call + 1;
    }
    e->externals |=
        node->kind == NODE_RECORD || node->kind == NODE_RESET || node->kind == NODE_WAIT;
    emit_task(e, &task);
}

void emit_graph(struct emit *e, struct graph *g)
{
    uint32_t first = take_calls(e, g);

    for (uint32_t i = 0; i < g->n_nodes && !e->failed; i++)
        emit_node(e, &g->nodes[i], first);
}

/* --- the whole --- */

static int place_list(struct graph *g, const char *function, const struct emit *e)
{
    int error = 0;

    if (e->n == 0)
        return 0;
    if (e->n > GRAPH_TASKS_MAX)
        return error_set(ACL_ERROR_RT_NO_MODEL_RESOURCE,
                         "%s: the model has %u tasks, and may have %u", function, e->n,
                         GRAPH_TASKS_MAX);
    g->list = graph_list_new(g->context, function, e->n, &error);
    if (g->list)
        memcpy(graph_list_tasks(g->list), e->tasks, e->n * sizeof(*e->tasks));
    return error;
}

int graph_place(struct graph *g, const char *function, struct emit *e)
{
    int error = e->failed ? error_no_memory(function) : place_list(g, function, e);

    g->calls = e->calls;
    if (error == 0) {
        if (g->calls) {
            g->calls->loops = e->loops;
            g->calls->model = g->id;
        }
        g->n_tasks = e->n;
        g->notifies = e->notifies;
        g->externals = e->externals;
        captures_lock(g->session);
        g->phase = GRAPH_READY;
        captures_unlock(g->session);
    }
    free(e->tasks);
    return error;
}

int graph_finish(struct graph *g, const char *function)
{
    struct emit e = {.calls = g->calls};

    if (g->parent) { /* it becomes a part of that */
        captures_lock(g->session);
        g->phase = GRAPH_READY;
        captures_unlock(g->session);
        return 0;
    }
    conds_emit_defaults(&e, g);
    emit_graph(&e, g);
    return graph_place(g, function, &e);
}
