#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>

static int analyse_graph(struct wait_graph *g)
{
    size_t own = g->n_blocked + g->n_processes + 1;

    while (g->n_nodes < own)
        if (wait_graph_add_node(g) != g->n_nodes - 1)
            return -ENOMEM;
    if (blockers_find(g) < 0)
        return -ENOMEM;
    g->todo = calloc(g->n_nodes, sizeof(*g->todo));
    if (!g->todo || deadlocks_find(g, true) < 0)
        return -ENOMEM;
    return deadlocks_find(g, false);
}

int waits_init(struct wait_graph *g, struct server *server)
{
    int r;

    *g = (struct wait_graph){.server = server, .budget = QUEUED_ENTRIES_MAX};
    r = wait_graph_collect(g);
    return r < 0 ? r : analyse_graph(g);
}

static void groups_free(struct wait_graph *g)
{
    struct wait_group *group = g->latest, *next;

    HASH_CLEAR(hh, g->groups);
    for (; group; group = next) {
        next = group->next;
        free(group);
    }
}

void waits_deinit(struct wait_graph *g)
{
    for (size_t i = 0; i < g->n_processes; i++)
        queued_deinit(&g->process[i].queued);
    for (size_t i = 0; i < g->n_deadlocks; i++)
        free(g->deadlock[i].member);
    groups_free(g);
    free(g->process);
    free(g->edge);
    free(g->node);
    free(g->todo);
    free(g->deadlock);
    free(g->blocked);
}
