/*
 * Task groups: kernels of a capture that are exchanged later (aclmdlRICaptureTaskGrp*,
 * aclmdlRICaptureTaskUpdate*).
 *
 * An update is work in the order of its stream: the kernels that were launched in the window take
 * the places of those that were recorded when the stream gets there.
 */
#include "client/graph/graph_group.h"

#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/graph_calls.h"
#include "client/callback/stream_work.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/graph/graph.h"
#include "client/runtime/stream.h"

struct graph_group {
    struct graph *graph;
    uint32_t number;
    bool in_update;           /* under captures.lock */
    struct graph_group *next; /* graph->groups */
};

void graph_groups_free(struct graph *g)
{
    struct graph_group *group, *next;

    LL_FOREACH_SAFE (g->groups, group, next)
        free(group);
    g->groups = NULL;
}

static int error_status(const char *function, const char *what)
{
    return error_set(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "%s: %s", function, what);
}

/* --- recording --- */

static int begin_group(struct stream *s, const char *function)
{
    struct graph *g;
    bool open = false, invalidated = false;

    if (s->update)
        return error_status(function, "the stream updates a task group");
    captures_lock(s->session);
    g = atomic_load_explicit(&s->capture, memory_order_relaxed);
    if (g) {
        open = g->open_group != 0;
        invalidated = g->invalidated;
    }
    if (g && !open && !invalidated) {
        g->open_group = ++g->n_groups;
        g->group_stream = s;
        g->group_error = 0;
    }
    captures_unlock(s->session);
    if (!g)
        return error_set(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                         "%s: the stream is not being captured: call aclmdlRICaptureBegin first",
                         function);
    if (invalidated)
        return error_set(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
                         "%s: the capture is invalidated by what was refused before", function);
    return open ? error_status(function, "a task group is open already") : 0;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = begin_group(s, __func__);
    stream_unlock(s);
    return error;
}

static int end_group(struct stream *s, const char *function, aclrtTaskGrp *handle)
{
    struct graph_group *group = calloc(1, sizeof(*group));
    struct graph *g;
    int error = 0;
    bool open;

    if (!group)
        return error_no_memory(function);
    captures_lock(s->session);
    g = atomic_load_explicit(&s->capture, memory_order_relaxed);
    open = g && g->open_group != 0 && g->group_stream == s;
    if (open) {
        error = g->invalidated ? ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED : g->group_error;
        *group = (struct graph_group){.graph = g, .number = g->open_group};
        g->open_group = 0;
        if (error == 0)
            LL_PREPEND(g->groups, group);
    }
    captures_unlock(s->session);
    if (open && error == 0) {
        *handle = group;
        return 0;
    }
    free(group);
    if (!open)
        return error_status(function, "no task group is open on the stream");
    return error_set(error, "%s: the task group is broken by what was refused before", function);
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(stream);
    REQUIRE(handle);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = end_group(s, __func__, handle);
    stream_unlock(s);
    return error;
}

/* --- updating --- */

/* The group of that address, of any graph of the session. Under the lock. */
static struct graph_group *find_group(struct session *s, const void *handle)
{
    struct graph_group *group = NULL;
    struct graph *g;

    for (uint32_t i = 0; !group && graph_at(s, i, &g); i++)
        if (g)
            LL_FOREACH (g->groups, group)
                if (group == handle)
                    break;
    return group;
}

static struct graph *root_of(struct graph *g)
{
    while (g->parent)
        g = g->parent;
    return g;
}

static uint32_t count_tasks(const struct graph_group *group)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < group->graph->n_nodes; i++)
        n += group->graph->nodes[i].group == group->number;
    return n;
}

/* Under the lock. The group is the caller's, with a reference to the root of its graph. */
static int claim_group(struct session *s, const void *handle, struct graph_group **group)
{
    *group = find_group(s, handle);
    if (!*group)
        return ACL_ERROR_RT_INVALID_HANDLE;
    if (root_of((*group)->graph)->phase != GRAPH_READY)
        return ACL_ERROR_RT_MODEL_CAPTURED;
    if ((*group)->in_update)
        return ACL_ERROR_STREAM_TASK_GROUP_STATUS;
    (*group)->in_update = true;
    root_of((*group)->graph)->refs++;
    return 0;
}

static int error_claim(const char *function, int error)
{
    return error_set(error, "%s: %s", function,
                     error == ACL_ERROR_RT_INVALID_HANDLE ? "there is no such task group"
                     : error == ACL_ERROR_RT_MODEL_CAPTURED
                         ? "the model of the task group is being captured"
                         : "the task group is being updated on another stream");
}

static void release_group(struct graph_group *group)
{
    struct graph *root = root_of(group->graph);

    captures_lock(root->session);
    group->in_update = false;
    captures_unlock(root->session);
    graph_put(root);
}

static int begin_update(struct stream *s, const char *function, aclrtTaskGrp handle)
{
    struct graph_group *group;
    struct group_update *u;
    uint32_t n;
    int error;

    RETURN_IF_ERROR(capture_refuse_stream(s, function));
    if (s->update)
        return error_status(function, "the stream updates a task group already");
    if (s->model)
        return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is bound to a model", function);
    captures_lock(s->session);
    error = claim_group(s->session, handle, &group);
    captures_unlock(s->session);
    if (error != 0)
        return error_claim(function, error);
    n = count_tasks(group);
    u = calloc(1, sizeof(*u) + n * sizeof(struct stream_work *));
    if (!u) {
        release_group(group);
        return error_no_memory(function);
    }
    u->group = group;
    u->size = n;
    s->update = u;
    s->special |= STREAM_UPDATES;
    return 0;
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(stream);
    REQUIRE(handle);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = begin_update(s, __func__, handle);
    stream_unlock(s);
    return error;
}

/** Work of the update stream. */
struct exchange {
    struct stream_work work;
    struct graph_calls *calls; /* with a reference */
    bool counted;              /* by calls->exchanges: until it is done, or goes */
    uint32_t n;
    uint32_t *indexes;
    struct stream_work *works[]; /* NULL when they are the graph's */
};

static void free_exchange(struct stream_work *w)
{
    struct exchange *x = (struct exchange *)(void *)w;

    for (uint32_t i = 0; i < x->n; i++)
        if (x->works[i])
            stream_work_free(x->works[i]);
    callback_lock();
    x->calls->exchanges -= x->counted;
    callback_unlock();
    graph_calls_put(x->calls);
    free(x->indexes);
    free(x);
}

static int run_exchange(struct stream_work *w)
{
    struct exchange *x = (struct exchange *)(void *)w;
    struct stream_work *over;

    callback_lock();
    over = graph_calls_replace(x->calls, x->indexes, x->works, x->n);
    x->calls->exchanges -= x->counted;
    x->counted = false;
    for (uint32_t i = 0; i < x->n; i++)
        x->works[i] = NULL;
    callback_unlock();
    graph_works_drop(over);
    return 0;
}

/* What the update has becomes the exchange's. NULL: no memory. */
static struct exchange *make_exchange(const struct group_update *u)
{
    struct graph *g = u->group->graph;
    struct exchange *x = calloc(1, sizeof(*x) + u->n * sizeof(struct stream_work *));
    uint32_t n = 0;

    if (x)
        x->indexes = calloc(u->n + 1, sizeof(*x->indexes));
    if (!x || !x->indexes) {
        free(x);
        return NULL;
    }
    x->work = (struct stream_work){.run = run_exchange, .free = free_exchange};
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].group == u->group->number)
            x->indexes[n++] = g->nodes[i].call;
    x->n = n;
    for (uint32_t i = 0; i < n; i++)
        x->works[i] = u->works[i];
    x->calls = root_of(g)->calls;
    callback_lock();
    x->calls->refs++;
    x->calls->exchanges++;
    x->counted = true;
    callback_unlock();
    return x;
}

/* From now on executions write down what the new kernels may do. */
static __attribute__((cold)) void exchange_checks(const struct group_update *u)
{
    struct graph *g = u->group->graph;
    uint32_t n = 0;

    pthread_mutex_lock(&g->session->captures.run_lock);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].group == u->group->number)
            graph_note_kernel(g, &g->nodes[i], u->works[n++]);
    pthread_mutex_unlock(&g->session->captures.run_lock);
}

static int submit_exchange(struct stream *s, const char *function, struct group_update *u)
{
    struct exchange *x;
    int error;

    if (u->n < u->size)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "%s: the task group has %u launches, and %u were given", function, u->size,
                         u->n);
    if (u->n == 0)
        return 0;
    x = make_exchange(u);
    if (!x)
        return error_no_memory(function);
    if (checked_runs())
        exchange_checks(u);
    error = stream_work_launch(s, function, &x->work);
    if (error == 0) {
        u->n = 0;
        return 0;
    }
    x->n = 0; /* the works are still the caller's */
    free_exchange(&x->work);
    return error;
}

/* What was launched in it, and not exchanged, goes. */
static void drop_update(struct group_update *u)
{
    for (uint32_t i = 0; i < u->n; i++)
        stream_work_free(u->works[i]);
    release_group(u->group);
    free(u);
}

static int end_update(struct stream *s, const char *function)
{
    struct group_update *u = s->update;
    int error;

    if (!u)
        return error_status(function, "the stream updates no task group");
    s->update = NULL;
    s->special &= (uint8_t)~STREAM_UPDATES;
    error = submit_exchange(s, function, u);
    drop_update(u);
    return error;
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = end_update(s, __func__);
    stream_unlock(s);
    return error;
}

void graph_group_end_stream(struct stream *s)
{
    struct group_update *u = s->update;

    s->update = NULL;
    if (u)
        drop_update(u);
}
