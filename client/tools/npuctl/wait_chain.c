#include "client/tools/npuctl/wait_chain.h"

#include <stdlib.h>
#include <string.h>

#define BEYOND UINT32_MAX

/* A wait, and how far it has been followed. */
struct node {
    const Npud__WaitRow *row;
    uint32_t end;        /* 1 + index of its end; BEYOND; 0: not known */
    uint32_t walk;       /* the last that came by */
    struct node *before; /* on that walk */
    struct node *next;   /* what blocks it; NULL: the end */
    size_t depth;        /* links from here */
};

/* What a process did when it was looked at. */
struct look {
    uint64_t session;
    enum process_state state;
};

struct graph {
    struct node *node; /* by session, streams before threads, device, id */
    size_t n;
    bool own;
    struct chains *chains;
    struct look look[CHAIN_CAUSES_MAX];
    size_t looks;
};

static bool is_thread(const Npud__WaitRow *row)
{
    return row->stream < 0;
}

/* A thread that waits for callbacks serves others: it hangs in nothing. */
static bool is_server(const Npud__WaitRow *row)
{
    return strcmp(row->kind, "report") == 0;
}

bool wait_chain_is_member(const Npud__WaitRow *row)
{
    return row->deadlock != 0 && strncmp(row->state, "behind", strlen("behind")) != 0;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_place(const void *pa, const void *pb)
{
    const Npud__WaitRow *a = ((const struct node *)pa)->row, *b = ((const struct node *)pb)->row;

    if (a->session != b->session)
        return ORDER(a->session, b->session);
    if (is_thread(a) != is_thread(b))
        return is_thread(a) ? 1 : -1;
    if (is_thread(a))
        return ORDER(a->thread, b->thread);
    return a->device != b->device ? ORDER(a->device, b->device) : ORDER(a->stream, b->stream);
}

static int compare_longest(const void *pa, const void *pb)
{
    const struct node *a = *(struct node *const *)pa, *b = *(struct node *const *)pb;

    return a->row->for_ms != b->row->for_ms ? ORDER(b->row->for_ms, a->row->for_ms) : ORDER(a, b);
}

static struct node *find_stream(const struct graph *g, const Npud__WaitRow *blocked)
{
    const Npud__WaitRow wanted = {.session = blocked->blocker_session,
                                  .device = blocked->blocker_device,
                                  .stream = blocked->blocker_stream};
    const struct node key = {.row = &wanted};

    return bsearch(&key, g->node, g->n, sizeof(key), compare_place);
}

/* The thread of the process that has waited longest; with `thread` that one alone. */
static struct node *find_thread(const struct graph *g, uint64_t session, uint32_t thread)
{
    struct node *found = NULL;
    size_t low = 0, high = g->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (g->node[middle].row->session < session)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < g->n && g->node[low].row->session == session; low++) {
        struct node *node = &g->node[low];

        if (is_thread(node->row) && !is_server(node->row) &&
            (thread == 0 || node->row->thread == thread) &&
            (!found || node->row->for_ms > found->row->for_ms))
            found = node;
    }
    return found;
}

bool wait_chain_has_peer(const Npud__WaitRow *row)
{
    return row->blocker_session != 0 && row->blocker_session != row->session;
}

/* Is there a node i, and is it a thread of the session? */
static bool is_thread_of(const struct graph *g, size_t i, uint64_t session)
{
    return i < g->n && is_thread(g->node[i].row) && g->node[i].row->session == session;
}

/*
 * The creator of a queue has all rights to it. If its only thread waits for the other side, which
 * no other process is, npud finds a deadlock; what is missing is that process.
 */
static bool lacks_peer(const struct graph *g, const struct node *node)
{
    const Npud__WaitRow *row = node->row;
    size_t i = (size_t)(node - g->node);

    /* Before the first node is SIZE_MAX, which there is not. */
    return (strcmp(row->kind, "room") == 0 || strcmp(row->kind, "message") == 0) &&
           !wait_chain_has_peer(row) && !is_thread_of(g, i - 1, row->session) &&
           !is_thread_of(g, i + 1, row->session);
}

/* Of a wait that no process is there to end. */
static enum chain_cause cause_without_process(const Npud__WaitRow *row)
{
    if (strcmp(row->kind, "room") == 0)
        return CHAIN_QUEUE_FULL;
    if (strcmp(row->kind, "message") == 0)
        return CHAIN_QUEUE_EMPTY;
    return strcmp(row->kind, "grant") == 0 ? CHAIN_NO_PROCESS : CHAIN_GONE;
}

/* NULL: too many have been looked at. */
static const struct look *look_at_process(struct graph *g, const Npud__WaitRow *row)
{
    size_t i = 0;

    while (i < g->looks && g->look[i].session != row->blocker_session)
        i++;
    if (i == CHAIN_CAUSES_MAX)
        return NULL;
    if (i == g->looks)
        g->look[g->looks++] = (struct look){row->blocker_session, process_look(row->blocker_pid)};
    return &g->look[i];
}

/*
 * The process has to do something. If it runs or is stopped, that is the cause, whatever its other
 * threads wait for.
 */
static struct node *follow_process(struct graph *g, const Npud__WaitRow *row,
                                   struct chain_end *chain)
{
    const struct look *look = look_at_process(g, row);

    chain->cause = CHAIN_BEYOND;
    if (!look)
        return NULL;
    chain->state = look->state;
    chain->cause = CHAIN_PROCESS;
    if (look->state == PROCESS_STOPPED || look->state == PROCESS_TRACED)
        return NULL;
    if (strcmp(row->kind, "room") == 0)
        chain->cause = CHAIN_QUEUE_FULL;
    /* Of another thread of it nothing is known that would end this. */
    if (row->advice[0] != '\0') {
        chain->cause = strcmp(row->kind, "value") == 0 ? CHAIN_WORD : CHAIN_CALLBACK;
        return row->blocker_thread != 0 ? find_thread(g, row->blocker_session, row->blocker_thread)
                                        : NULL;
    }
    return look->state == PROCESS_COMPUTES
               ? NULL
               : find_thread(g, row->blocker_session, row->blocker_thread);
}

/* What blocks it, or NULL and the cause. */
static struct node *follow_row(struct graph *g, const Npud__WaitRow *row, struct chain_end *chain)
{
    chain->cause = CHAIN_STALL;
    if (strcmp(row->kind, "rule") == 0)
        return NULL;
    chain->cause = cause_without_process(row);
    if (row->blocker_session == 0)
        return NULL;
    chain->cause = CHAIN_FOREIGN;
    if (g->own && row->blocker_session != row->session && !process_is_own(row->blocker_pid))
        return NULL;
    chain->cause = CHAIN_DEVICE;
    if (row->blocker_stream >= 0)
        return find_stream(g, row);
    return follow_process(g, row, chain);
}

/* Is it the same thing that both end in? */
static bool is_same_end(const struct chain_end *end, const struct chain_end *chain)
{
    const Npud__WaitRow *last = chain->last;

    if (end->cause != chain->cause)
        return false;
    switch (end->cause) {
    case CHAIN_DEADLOCK:
        return end->last->deadlock == last->deadlock;
    case CHAIN_STALL:
    case CHAIN_QUEUE_FULL:
    case CHAIN_QUEUE_EMPTY:
        return end->last->object == last->object;
    case CHAIN_DEVICE:
        return end->last->blocker_session == last->blocker_session &&
               end->last->blocker_device == last->blocker_device &&
               end->last->blocker_stream == last->blocker_stream;
    case CHAIN_CALLBACK:
    case CHAIN_WORD:
        return end->last->blocker_session == last->blocker_session &&
               strcmp(end->last->advice, last->advice) == 0;
    case CHAIN_PROCESS:
    case CHAIN_FOREIGN:
        return end->last->blocker_session == last->blocker_session;
    default:
        return end->last == last;
    }
}

static uint32_t find_end(struct chains *chains, const struct chain_end *chain)
{
    for (size_t i = 0; i < chains->n; i++)
        if (is_same_end(&chains->end[i], chain))
            return (uint32_t)i + 1;
    if (chain->cause == CHAIN_BEYOND || chains->n == CHAIN_CAUSES_MAX)
        return BEYOND;
    chains->end[chains->n] = *chain;
    return (uint32_t)++chains->n;
}

/* The next node on the walk, or NULL: *end is known. */
static struct node *step_on(struct graph *g, struct node *node, uint32_t walk,
                            struct chain_end *chain, uint32_t *end)
{
    struct node *next = NULL;

    node->walk = walk;
    chain->last = node->row;
    if (lacks_peer(g, node))
        chain->cause = cause_without_process(node->row);
    else if (wait_chain_is_member(node->row))
        chain->cause = CHAIN_DEADLOCK;
    else
        next = follow_row(g, node->row, chain);
    if (next && next->end == 0 && next->walk != walk) {
        node->next = next;
        next->before = node;
        return next;
    }
    if (next && next->end == 0)
        chain->cause = CHAIN_CIRCLE;
    else
        node->next = next;
    *end = node->next ? next->end : find_end(g->chains, chain);
    return NULL;
}

/* All that the walk leads through has the same end, and is not followed again. */
static void follow_wait(struct graph *g, struct node *start, uint32_t walk)
{
    struct chain_end chain = {.longest = start->row};
    struct node *node = start, *next = start->end == 0 ? start : NULL;
    uint32_t end = start->end;

    while (next) {
        node = next;
        next = step_on(g, node, walk, &chain, &end);
    }
    for (; node && node->end == 0; node = node->before) {
        node->end = end;
        node->depth = node->next ? node->next->depth + 1 : 1;
    }
}

static void tell_links(struct chain_end *end, const struct node *node)
{
    if (node->depth <= end->links)
        return;
    end->links = node->depth;
    for (size_t i = 0; node && i < CHAIN_LINKS_MAX; i++, node = node->next)
        end->link[i] = node->row;
}

static void tell_end(struct graph *g, const struct node *node)
{
    if (node->end == BEYOND) {
        g->chains->beyond++;
        return;
    }
    g->chains->end[node->end - 1].waits++;
    tell_links(&g->chains->end[node->end - 1], node);
}

int wait_chains_find(const Npud__Report *waits, bool own, struct chains *chains)
{
    struct graph g = {.own = own, .chains = chains};
    struct node **order;

    memset(chains, 0, sizeof(*chains));
    g.node = calloc(waits->n_waits + 1, sizeof(*g.node));
    order = calloc(waits->n_waits + 1, sizeof(struct node *));
    for (size_t i = 0; g.node && i < waits->n_waits; i++)
        g.node[g.n++].row = waits->waits[i];
    if (!g.node || !order) {
        free(g.node);
        free(order);
        return -1;
    }
    qsort(g.node, g.n, sizeof(*g.node), compare_place);
    for (size_t i = 0; i < g.n; i++)
        if (!is_server(g.node[i].row))
            order[chains->waits++] = &g.node[i];
    qsort(order, chains->waits, sizeof(struct node *), compare_longest);
    for (size_t i = 0; i < chains->waits; i++)
        follow_wait(&g, order[i], (uint32_t)i + 1);
    for (size_t i = 0; i < chains->waits; i++)
        tell_end(&g, order[i]);
    free(order);
    free(g.node);
    return 0;
}
