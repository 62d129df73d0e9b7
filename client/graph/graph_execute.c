/* Graphs are executed, and end: aclmdlRIExecuteAsync, aclmdlRIExecute, aclmdlRIDestroy. */
#include <errno.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/callback/graph_calls.h"
#include "client/callback/graph_launch.h"
#include "client/callback/stream_work.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/wait.h"
#include "client/event/event.h"
#include "client/event/failure.h"
#include "client/graph/farewell.h"
#include "client/graph/graph.h"
#include "client/graph/graph_cond.h"
#include "client/graph/graph_group.h"
#include "client/graph/graph_tell.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "proto/shm/graph_shm.h"

#define DESTROY_WAIT_MS 10000

static int error_nested(const char *function)
{
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "%s: the model is part of another one, and goes with that", function);
}

/* --- may it? --- */

static int check_phase(struct graph *g, const char *function)
{
    enum graph_phase phase;

    if (g->parent)
        return error_nested(function);
    captures_lock(g->session);
    phase = g->phase;
    captures_unlock(g->session);
    switch (phase) {
    case GRAPH_READY:
        return 0;
    case GRAPH_CAPTURES:
        return error_set(ACL_ERROR_RT_MODEL_CAPTURED,
                         "%s: the model is being captured: end the capture first", function);
    default:
        return error_set(ACL_ERROR_RT_MODEL_EXECUTE, "%s: the model is not built, or is broken",
                         function);
    }
}

static int check_stream(struct stream *s, const struct graph *g, const char *function)
{
    if (g->context != s->context)
        return error_set(ACL_ERROR_RT_MODEL_CONTEXT, "%s: the model is of another context",
                         function);
    if (s->model || (s->flags & ACL_STREAM_PERSISTENT))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: the stream is bound to a model, or was created with "
                         "ACL_STREAM_PERSISTENT",
                         function);
    return stream_captures(s) ? capture_refuse_stream(s, function) : 0;
}

/* --- executing --- */

/*
 * npud's order of executions is an edge, also where the one before has passed already. Written as
 * an event that each waits for and records; no event has the handle of a graph.
 */
static __attribute__((cold)) void check_order(struct graph *g, struct stream *s,
                                              enum check_kind kind, uint64_t number)
{
    if (number != 0)
        checked_event_use(kind, stream_checked_name(s), (uintptr_t)g->handle, number);
}

/* Before it is submitted: nobody learns of what it does before that is written down. */
static __attribute__((cold)) void write_checks(struct graph *g, struct stream *s)
{
    check_order(g, s, CHECK_WAIT, g->executions);
    graph_write_checks(g, s);
    check_order(g, s, CHECK_RECORD, ++g->executions);
}

/* Two executions of a graph do not overlap: this one waits for the latest on another stream. */
static void submit_order(struct stream *s, const struct graph *g)
{
    struct task wait = {.op = TASK_WAIT_POS,
                        .flags = TASK_WAIT_ORDER,
                        .object = g->last_remote,
                        .wait.target = g->last.position};

    if (g->last.ctrl != s->ctrl && !point_passed(&g->last))
        stream_submit_reserved(s, &wait);
}

/* Room for two tasks is there, and the lock of executions is held. */
static int submit_graph(struct stream *s, struct graph *g, const char *function)
{
    struct task task = {.op = TASK_GRAPH, .flags = g->notifies ? TASK_GRAPH_NOTIFIES : 0};
    int error;

    submit_order(s, g);
    if (g->externals)
        graph_lower_events(g, s);
    if (checked_runs())
        write_checks(g, s);
    graph_list_name(g->list, &task);
    error = graph_calls_launch(s, function, g->calls, &task);
    if (error != 0)
        return error;
    g->last = (struct point){.ctrl = s->ctrl, .position = s->tail};
    g->last_remote = s->remote;
    g->last_stream = handle_of(HANDLE_STREAM, s);
    if (g->externals)
        graph_tell_events(g, s);
    return 0;
}

static int execute_on(struct stream *s, struct graph *g, const char *function)
{
    int error;

    RETURN_IF_ERROR(check_stream(s, g, function));
    RETURN_IF_ERROR(stream_reserve_tasks(s, function, 2));
    if (!g->list)
        return 0; /* nothing is in it */
    RETURN_IF_ERROR(graph_calls_prepare(s, function, g->calls));
    pthread_mutex_lock(&s->session->captures.run_lock);
    error = submit_graph(s, g, function);
    pthread_mutex_unlock(&s->session->captures.run_lock);
    return error;
}

int graph_execute(struct graph *g, const char *function, aclrtStream stream)
{
    struct stream *s;
    int error;

    RETURN_IF_ERROR(check_phase(g, function));
    s = FIND_OR_RETURN(stream_lock, function, stream);
    error = execute_on(s, g, function);
    stream_unlock(s);
    return error;
}

aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = graph_execute(g, __func__, stream);
    graph_put(g);
    return error != 0 ? error : stream_end_launch(__func__, stream);
}

/* --- and waiting for it; by hand only --- */

aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE(modelRI);
    if (timeout == 0 || timeout < -1)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclmdlRIExecute: timeout is %d ms, must be positive or -1", timeout);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    if (g->captured && !g->parent)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "aclmdlRIExecute: the model was captured: use aclmdlRIExecuteAsync");
    else
        error = graph_execute(g, __func__, NULL);
    graph_put(g);
    /* On the default stream of the context: what fails, or takes too long, is told by that. */
    return error != 0 ? error : stream_synchronize(__func__, NULL, timeout);
}

static int abort_graph(struct graph *g, const char *function)
{
    struct point last;
    void *stream;

    if (g->parent)
        return error_nested(function);
    if (g->captured)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the model was captured: abort its stream", function);
    pthread_mutex_lock(&g->session->captures.run_lock);
    last = g->last;
    stream = g->last_stream;
    pthread_mutex_unlock(&g->session->captures.run_lock);
    return point_passed(&last) ? 0 : failure_stop_stream(function, stream, last.position);
}

aclError aclmdlRIAbort(aclmdlRI modelRI)
{
    CALL_SCOPE;
    struct graph *g;
    int error;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, modelRI);
    FIND_OR_RETURN(context_get, __func__);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    error = abort_graph(g, __func__);
    graph_put(g);
    return error;
}

/* --- the end --- */

/* 0; or 107037: it runs still. */
static int await_end(struct graph *g, const char *function)
{
    struct point last;
    uint64_t number;
    int r = 0;

    pthread_mutex_lock(&g->session->captures.run_lock);
    last = g->last;
    number = g->executions;
    pthread_mutex_unlock(&g->session->captures.run_lock);
    if (!point_passed(&last))
        r = wait_position(&g->session->waits, function, last.ctrl, last.position,
                          wait_deadline(DESTROY_WAIT_MS), NULL);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    if (r != -ETIMEDOUT) {
        /* What the thread does next comes behind all executions: see check_order(). */
        if (number != 0)
            checked_event_use(CHECK_SYNC_EVENT, CHECK_NO_STREAM, (uintptr_t)g->handle, number);
        return 0;
    }
    return error_set(ACL_ERROR_RT_MODEL_RUNNING,
                     "%s: the model has not finished within %d s, and stays: synchronise its "
                     "stream first",
                     function, DESTROY_WAIT_MS / 1000);
}

static int check_destroyable(struct graph *g, const char *function)
{
    int error;

    if (g->parent)
        return error_nested(function);
    captures_lock(g->session);
    error = g->phase == GRAPH_CAPTURES ? ACL_ERROR_RT_MODEL_CAPTURED : 0;
    captures_unlock(g->session);
    if (error != 0)
        return error_set(error, "%s: the model is being captured: end the capture first", function);
    return await_end(g, function);
}

/* The caller has a reference, and lets go of it. */
static int destroy(struct graph *g, const char *function)
{
    struct farewell *farewells = NULL;
    bool mine = false;
    int error = check_destroyable(g, function);

    if (error == 0) {
        captures_lock(g->session);
        mine = g->handle != NULL; /* else another thread has been faster */
        if (mine) {
            graph_unpublish(g);
            farewells = farewells_take(g);
        }
        captures_unlock(g->session);
    }
    if (mine) {
        graph_release_streams(g);
        graph_put(g);
    }
    graph_put(g);
    farewells_call(farewells);
    return error;
}

aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    CALL_SCOPE;
    struct graph *g;

    REQUIRE(modelRI);
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    return destroy(g, __func__);
}

void graph_end_context(struct context *c)
{
    struct graph *g;

    while ((g = graph_take_of(c)))
        graph_put(g);
}

void graph_free_rest(struct graph *g)
{
    conds_free(g);
    graph_calls_put(g->calls);
    graph_list_free(g->list);
    farewells_free(g);
    graph_groups_free(g);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        stream_work_free(g->nodes[i].changed_work);
}
