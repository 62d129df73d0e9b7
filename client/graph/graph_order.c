/*
 * Streams of a model that is built by hand run side by side on a device, and are one list here: so
 * it is played how they would run. Of the streams that can go on, the one with the earliest call
 * does, and one that waits for a sync or EXTERNAL event or a notify that another one has still to
 * record does not. Where none can, something outside lets them go on, and the earliest is next.
 */
#include <stdlib.h>
#include <string.h>

#include "client/graph/graph.h"
#include "client/graph/graph_compile.h"
#include "client/graph/graph_order.h"
#include "proto/shm/graph_shm.h"

/* An event or a notify that the model uses. */
struct signal {
    bool up;
    uint32_t records; /* that are not in the list yet */
};

struct order {
    struct graph *graph;
    struct signal *signals;
    struct signal **signal;   /* of each node; NULL: it has none */
    struct graph_node **uses; /* nodes that have one */
    uint32_t *next;           /* of each branch: its first node that is not in the list */
    bool *begins;             /* the branch */
    struct graph_node *nodes; /* in the order of the list, those first that are in it */
    uint32_t n_nodes;
};

static bool is_notify(const struct task *t)
{
    return t->op == TASK_NOTIFY_RECORD || t->op == TASK_NOTIFY_WAIT;
}

static bool is_record(const struct task *t)
{
    return t->op == TASK_RECORD || t->op == TASK_NOTIFY_RECORD;
}

static bool is_wait(const struct task *t)
{
    return t->op == TASK_WAIT_LEVEL || t->op == TASK_NOTIFY_WAIT;
}

static bool uses_signal(const struct graph_node *node)
{
    return node->has_task &&
           (is_record(&node->task) || is_wait(&node->task) || node->task.op == TASK_RESET);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Uses of one event or notify come together. */
static int compare_uses(const void *a, const void *b)
{
    const struct task *s = &(*(struct graph_node *const *)a)->task;
    const struct task *t = &(*(struct graph_node *const *)b)->task;
    int order = compare(s->object, t->object);

    if (order == 0)
        order = compare(s->generation, t->generation);
    return order != 0 ? order : compare(is_notify(s), is_notify(t));
}

static void find_signals(struct order *o)
{
    struct graph *g = o->graph;
    struct signal *signal = o->signals;
    size_t n = 0;

    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (uses_signal(&g->nodes[i]))
            o->uses[n++] = &g->nodes[i];
    qsort(o->uses, n, sizeof(struct graph_node *), compare_uses);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && compare_uses(&o->uses[i - 1], &o->uses[i]) != 0)
            signal++;
        o->signal[o->uses[i] - g->nodes] = signal;
        signal->records += is_record(&o->uses[i]->task);
    }
}

/* Does each stream begin once, or never? */
static bool begins_once(const struct graph *g, bool *started)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct graph_node *node = &g->nodes[i];

        if (node->kind == NODE_SWITCH_LABEL)
            return false;
        if (node->kind != NODE_START)
            continue;
        if (node->task.flags != JUMP_ALWAYS || !g->branches[node->other].waits ||
            started[node->other])
            return false;
        started[node->other] = true;
    }
    return true;
}

static void find_next(struct order *o, uint32_t branch, uint32_t from)
{
    const struct graph *g = o->graph;

    while (from < g->n_nodes && g->nodes[from].branch != branch)
        from++;
    o->next[branch] = from;
}

static void prepare(struct order *o)
{
    const struct graph *g = o->graph;

    find_signals(o);
    for (uint32_t i = 0; i < g->n_branches; i++) {
        o->begins[i] = !g->branches[i].waits;
        find_next(o, i, 0);
    }
}

static bool can_go_on(const struct order *o, uint32_t node)
{
    const struct signal *signal = o->signal[node];

    return !signal || !is_wait(&o->graph->nodes[node].task) || signal->up || signal->records == 0;
}

static uint32_t earliest(const struct order *o, bool in_any_case)
{
    const struct graph *g = o->graph;
    uint32_t found = g->n_nodes;

    for (uint32_t i = 0; i < g->n_branches; i++)
        if (o->begins[i] && o->next[i] < found && (in_any_case || can_go_on(o, o->next[i])))
            found = o->next[i];
    return found;
}

static void emit_next(struct order *o, struct emit *e, uint32_t i)
{
    struct graph_node *node = &o->graph->nodes[i];
    struct signal *signal = o->signal[i];

    if (node->kind == NODE_START)
        o->begins[node->other] = true;
    else
        emit_node(e, node, 0);
    if (signal && is_record(&node->task)) {
        signal->up = true;
        signal->records--;
    } else if (signal && node->task.op != TASK_WAIT_LEVEL) {
        signal->up = false;
    }
    find_next(o, node->branch, i + 1);
    o->nodes[o->n_nodes++] = *node;
}

static void emit_all(struct order *o, struct emit *e)
{
    for (uint32_t i; !e->failed;) {
        i = earliest(o, false);
        if (i == o->graph->n_nodes)
            i = earliest(o, true);
        if (i == o->graph->n_nodes)
            return;
        emit_next(o, e, i);
    }
}

/* What is told of the graph, and by its tasks, is in the order of the list, too. */
static void take_order(struct order *o)
{
    struct graph *g = o->graph;

    for (uint32_t i = 0; i < g->n_branches; i++)
        for (; o->next[i] < g->n_nodes; find_next(o, i, o->next[i] + 1))
            o->nodes[o->n_nodes++] = g->nodes[o->next[i]];
    memcpy(g->nodes, o->nodes, g->n_nodes * sizeof(*g->nodes));
}

bool graph_emit_ordered(struct emit *e, struct graph *g)
{
    struct order o = {
        .graph = g,
        .signals = calloc(g->n_nodes + 1, sizeof(*o.signals)),
        .signal = calloc(g->n_nodes + 1, sizeof(struct signal *)),
        .uses = calloc(g->n_nodes + 1, sizeof(struct graph_node *)),
        .next = calloc(g->n_branches + 1, sizeof(*o.next)),
        .begins = calloc(g->n_branches + 1, sizeof(*o.begins)),
        .nodes = calloc(g->n_nodes + 1, sizeof(*o.nodes)),
    };
    bool ordered = true;

    if (!o.signals || !o.signal || !o.uses || !o.next || !o.begins || !o.nodes) {
        e->failed = true;
    } else if ((ordered = begins_once(g, o.begins))) {
        prepare(&o);
        emit_all(&o, e);
        if (!e->failed)
            take_order(&o);
    }
    free(o.signals);
    free(o.signal);
    free(o.uses);
    free(o.next);
    free(o.begins);
    free(o.nodes);
    return ordered;
}
