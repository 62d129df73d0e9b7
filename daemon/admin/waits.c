#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int analyse_graph(struct wait_graph *g)
{
    size_t n = wait_graph_nodes(g);
    bool *leaves;
    int r = -ENOMEM;

    g->live = calloc(2 * n + 1, sizeof(*g->live));
    g->next = calloc(n + 1, sizeof(*g->next));
    g->mark = calloc(n + 1, sizeof(*g->mark));
    if (!g->live || !g->next || !g->mark || blockers_find(g) < 0)
        return r;
    leaves = g->live + n;
    memcpy(leaves, g->live, n * sizeof(*leaves));
    r = deadlocks_find(g, true);
    memcpy(g->live, leaves, n * sizeof(*leaves));
    return r < 0 ? r : deadlocks_find(g, false);
}

int waits_init(struct wait_graph *g, struct server *server)
{
    int r;

    *g = (struct wait_graph){.server = server, .budget = QUEUED_ENTRIES_MAX};
    r = wait_graph_collect(g);
    return r < 0 ? r : analyse_graph(g);
}

void waits_deinit(struct wait_graph *g)
{
    for (size_t i = 0; i < g->n_processes; i++)
        queued_deinit(&g->process[i].queued);
    for (size_t i = 0; i < g->n_deadlocks; i++)
        free(g->deadlock[i].member);
    free(g->process);
    free(g->edge);
    free(g->live);
    free(g->next);
    free(g->mark);
    free(g->deadlock);
    free(g->blocked);
}
