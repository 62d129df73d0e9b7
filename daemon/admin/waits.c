#include "daemon/admin/wait_graph.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/util/clock.h"

#define LOOKS_PER_TIME 32 /* small pieces of work before the clock is looked at */

/*
 * What seems stuck without certainty is looked at once more, in one go for both kinds of deadlocks:
 * what is certainly stuck is among it.
 */
static const struct {
    wait_phase_fn *run;
    bool certain;
} phases[] = {
    {wait_graph_collect_streams, false},
    {wait_graph_collect_threads, false},
    {wait_graph_make_nodes, false},
    {blockers_resolve, false},
    {blockers_resolve_processes, false},
    {groups_fill, false},
    {groups_tell, false},

    {deadlocks_begin, false},
    {deadlocks_begin_nodes, false},
    {deadlocks_spread_life, false},
    {deadlocks_confirm, false},

    {deadlocks_begin, true},
    {deadlocks_begin_nodes, true},
    {deadlocks_spread_life, true},
    {deadlocks_find_next, true},
    {deadlocks_find_circles, true},
    {deadlocks_find_next, true},
    {deadlocks_follow, true},

    {deadlocks_begin, false},
    {deadlocks_begin_nodes, false},
    {deadlocks_spread_life, false},
    {deadlocks_find_next, false},
    {deadlocks_find_circles, false},
    {deadlocks_find_next, false},
    {deadlocks_follow, false},
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

bool waits_slice_over(struct wait_graph *g)
{
    return ++g->looks % LOOKS_PER_TIME == 0 && clock_ns() >= g->until;
}

struct wait_graph *waits_new(struct server *server)
{
    struct wait_graph *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->server = server;
    g->budget = QUEUED_ENTRIES_MAX;
    if (wait_graph_begin(g) < 0) {
        waits_free(g);
        return NULL;
    }
    return g;
}

int waits_step(struct wait_graph *g, uint64_t until)
{
    g->until = until;
    wait_graph_find_gone(g);
    while (g->phase < PHASES) {
        int r = phases[g->phase].run(g, phases[g->phase].certain);

        if (r != 0)
            return r;
        g->phase++;
        g->at = 0;
        if (clock_ns() >= until)
            return 1;
    }
    return 0;
}

void waits_free(struct wait_graph *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_processes; i++)
        queued_deinit(&g->process[i].queued);
    for (size_t i = 0; i < g->n_deadlocks; i++)
        free(g->deadlock[i].member);
    free(g->making.d.member);
    free(g->process);
    free(g->edge);
    free(g->node);
    free(g->group);
    free(g->group_bucket);
    free(g->todo);
    free(g->deadlock);
    free(g->blocked);
    free(g);
}
