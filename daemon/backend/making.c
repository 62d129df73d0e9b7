#include "daemon/backend/making.h"

#include <stdlib.h>
#include <unistd.h>

void making_free(struct making *making)
{
    if (making->memory)
        away_memory_free(NULL, making->memory, NULL);
    if (making->origin)
        away_memory_free(NULL, making->origin, NULL);
    if (making->fd >= 0)
        close(making->fd);
    free(making);
}

static void disown_memory(struct backend_memory *m)
{
    struct executor *x = executor_use(m->executor);

    executor_free_named(x, m->handle);
    executor_leave(m->executor);
    free(m);
    executor_leave(x);
}

/*
 * Nobody wants it, and its executor may never answer: its memory is given back now. What it makes
 * still, it frees behind that. The making is gone with the executor, or when it answers.
 */
static void disown_making(struct making *making)
{
    struct backend_memory *m = making->memory, *origin = making->origin;

    making->memory = making->origin = NULL;
    if (m)
        disown_memory(m);
    if (origin)
        away_memory_free(NULL, origin, NULL);
}

void making_forget(struct backend_space *space)
{
    struct making *making = space->making;

    space->making = NULL;
    if (!making)
        return;
    making->space = NULL;
    if (making->over)
        making_free(making);
    else
        disown_making(making);
}

void making_end(struct making *making, int result)
{
    making->result = result;
    making->over = true;
    if (making->space)
        backend_told(making->space->owner);
    else
        making_free(making);
}

/* What the session has asked for before, if that is what it asks for now. */
int making_take(struct backend_space *space, struct backend_memory **memory)
{
    struct making *making = space->making;
    int r = making->result;

    if (!making->over)
        return -EINPROGRESS;
    space->making = NULL;
    if (r == 0 && making->memory) {
        *memory = making->memory;
        making->memory->origin = making->origin;
        making->memory = making->origin = NULL;
    }
    making_free(making);
    return r;
}

/*
 * What was asked for last, and its request was refused for want of memory, is not wanted any more
 * if something else is asked for now.
 */
void making_forget_other(struct backend_space *space, uint32_t op)
{
    if (space->making && space->making->asked.op != op)
        making_forget(space);
}

/* New memory has no handle that the executor may have for memory of an npud before. */
bool making_wait_for_list(struct backend_space *space)
{
    space->waits = space->executor->resumes;
    return space->waits;
}

struct making *making_begin(struct backend_space *space, uint32_t device, uint64_t size)
{
    struct making *making = calloc(1, sizeof(*making));
    struct backend_memory *m = making ? away_memory_make(device, size) : NULL;

    if (!m) {
        free(making);
        return NULL;
    }
    m->handle = executor_name(space->executor);
    if (m->handle == 0) {
        free(m);
        free(making);
        return NULL;
    }
    m->executor = executor_use(space->executor);
    executor_named(m->executor, m->handle)->memory = m;
    making->memory = m;
    making->space = space;
    making->fd = -1;
    return making;
}

int making_ask(struct backend_space *space, struct executor_request *request, asked_fn *over,
               const int *fds, unsigned n)
{
    struct making *making;
    int r;

    if (!away_has_executor(space))
        return -EOWNERDEAD;
    if (making_wait_for_list(space))
        return -EINPROGRESS;
    making = making_begin(space, request->device, request->size);
    if (!making)
        return -ENOMEM;
    request->handle = making->handle = making->memory->handle;
    r = executor_ask(space->executor, &making->asked, over, request, fds, n);
    if (r < 0) {
        making_free(making);
        return r;
    }
    space->making = making;
    return -EINPROGRESS;
}
