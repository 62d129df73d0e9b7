/* What administrators are told of executors. */
#include <unistd.h>
#include <utlist.h>

#include "daemon/backend/executors.h"

static const char *name_state(const struct executor *x)
{
    switch (x->state) {
    case EXECUTOR_STARTING:
        return "starting";
    case EXECUTOR_READY:
        return x->resumes ? "resuming" : "ready";
    default:
        return "ended";
    }
}

static void fill_row(const struct executor *x, struct backend_executor *row)
{
    bool ended = x->state == EXECUTOR_ENDED;

    *row = (struct backend_executor){
        .number = x->number,
        .pid = ended ? x->had_pid : x->pid,
        .uid = x->uid,
        .runs_as = x->own_uid ? x->own_uid : geteuid(),
        .session = x->session,
        .state = name_state(x),
        .why = ended ? x->why : "",
        .devices = x->usable,
        .lanes = ended ? 0 : (uint32_t)__builtin_popcountll(atomic_load(&x->leased)),
        .memory = ended ? 0 : x->memory,
        .since_ns = x->since_ns,
    };
}

/* Their order in the list is not that of their numbers after a restart. */
bool executors_next(void *state, uint32_t after, struct backend_executor *row)
{
    const struct executors *all = state;
    const struct executor *x, *next = NULL;

    DL_FOREACH (all->list, x)
        if (x->since_ns != 0 && x->number > after && (!next || x->number < next->number))
            next = x;
    if (next)
        fill_row(next, row);
    return next;
}

void executors_count(void *state, struct backend_executors *count)
{
    const struct executors *all = state;

    *count = (struct backend_executors){.started = all->started, .failed = all->failed};
}
