/* Captures begin and end: aclmdlRICapture*. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/thread.h"
#include "client/graph/graph.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

#define FLAGS_NOT_CAPTURED                                                                         \
    (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

/* --- beginning --- */

static int check_stream(const struct stream *s, const char *function)
{
    if (s->is_default)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: a default stream cannot be captured: create a stream", function);
    if (s->model)
        return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is bound to a model", function);
    RETURN_IF_ERROR(capture_refuse_stream(s, function));
    if (s->update)
        return error_set(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                         "%s: the stream updates a task group: end that first", function);
    if (s->flags & FLAGS_NOT_CAPTURED)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR,
                         "%s: the stream was created with flag 0x%x, with which it cannot be "
                         "captured",
                         function, s->flags & FLAGS_NOT_CAPTURED);
    return 0;
}

static int error_no_model(const char *function)
{
    return error_set(ACL_ERROR_RT_NO_MODEL_RESOURCE,
                     "%s: this process has as many models as it may have, or no memory: destroy "
                     "some",
                     function);
}

/* The graph is there already if it is nested. Locked. */
static int begin_locked(struct stream *s, const char *function, struct graph *g,
                        aclmdlRICaptureMode mode)
{
    bool begun;

    captures_lock(s->session);
    begun = capture_begin(g, s);
    g->mode = (uint8_t)mode;
    captures_unlock(s->session);
    return begun ? 0 : error_no_memory(function);
}

static int begin_new(struct stream *s, const char *function, aclmdlRICaptureMode mode)
{
    struct graph *g;
    int error;

    RETURN_IF_ERROR(check_stream(s, function));
    g = graph_new(s->context);
    if (!g)
        return error_no_model(function);
    error = begin_locked(s, function, g, mode);
    if (error == 0)
        return 0;
    captures_lock(s->session);
    graph_unpublish(g);
    captures_unlock(s->session);
    graph_put(g);
    return error;
}

static int check_mode(const char *function, unsigned mode)
{
    if (mode <= ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: mode is %u, must be 0 to 2", function, mode);
}

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    CALL_SCOPE;
    int error;
    struct stream *s;

    REQUIRE(stream);
    RETURN_IF_ERROR(check_mode(__func__, mode));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = begin_new(s, __func__, mode);
    stream_unlock(s);
    return error;
}

/* Locked. */
static int begin_nested(struct stream *s, const char *function, struct graph *g,
                        aclmdlRICaptureMode mode)
{
    enum graph_phase phase, of_parent = GRAPH_BROKEN;

    RETURN_IF_ERROR(check_stream(s, function));
    captures_lock(s->session);
    phase = g->phase;
    if (g->parent)
        of_parent = g->parent->phase;
    captures_unlock(s->session);
    if (!g->parent || of_parent != GRAPH_CAPTURES)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: modelRI is no nested model of one that is being captured", function);
    if (phase != GRAPH_BUILDS)
        return error_set(ACL_ERROR_RT_MODEL_CAPTURED, "%s: the nested model was captured before",
                         function);
    if (g->context != s->context)
        return error_set(ACL_ERROR_RT_MODEL_CONTEXT, "%s: the model is of another context",
                         function);
    return begin_locked(s, function, g, mode);
}

aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI,
                                       aclmdlRICaptureMode mode)
{
    CALL_SCOPE;
    int error;
    struct graph *g;
    struct stream *s;

    REQUIRE(stream);
    REQUIRE(modelRI);
    RETURN_IF_ERROR(check_mode(__func__, mode));
    g = FIND_OR_RETURN(graph_find, __func__, modelRI);
    s = stream_lock(__func__, stream, &error);
    if (s) {
        error = begin_nested(s, __func__, g, mode);
        stream_unlock(s);
    }
    graph_put(g);
    return error;
}

/* --- asking --- */

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status,
                                aclmdlRI *modelRI)
{
    CALL_SCOPE;
    struct stream *s;
    struct graph *g;

    REQUIRE(stream);
    if (!status && !modelRI)
        return error_null(__func__, "status and modelRI");
    s = FIND_OR_RETURN(stream_find_anywhere, __func__, stream);
    captures_lock(s->session);
    g = atomic_load_explicit(&s->capture, memory_order_relaxed);
    if (status)
        *status = !g               ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
                  : g->invalidated ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                                   : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    if (modelRI)
        *modelRI = g ? g->handle : NULL;
    captures_unlock(s->session);
    return 0;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    CALL_SCOPE;
    struct thread *t = thread_self();
    uint8_t before = t->capture_mode;

    REQUIRE(mode);
    RETURN_IF_ERROR(check_mode(__func__, *mode));
    FIND_OR_RETURN(context_get, __func__);
    t->capture_mode = (uint8_t)*mode;
    *mode = before;
    return 0;
}

/* --- ending --- */

static bool all_joined(const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (g->branches[i].stream != g->origin &&
            (g->branches[i].last_record == 0 || !g->branches[i].joined))
            return false;
    return true;
}

/* Why the capture cannot become a graph; 0: it can. Under captures.lock. */
static int judge_capture(const struct graph *g, const char **why)
{
    if (g->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && g->owner != (pid_t)thread_self()->tid) {
        *why = "another thread has begun the capture, and not in RELAXED mode";
        return ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (g->invalidated) {
        *why = "it was invalidated by what was refused before";
        return ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED;
    }
    if (graph_has_open_nested(g)) {
        *why = "a nested graph is still being captured";
        return ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING;
    }
    if (g->open_group != 0) {
        *why = "a task group is open";
        return ACL_ERROR_STREAM_TASK_GROUP_STATUS;
    }
    if (!all_joined(g)) {
        *why = "a stream that was forked did not join again: the last that it is given must be a "
               "record of an event for which the origin stream waits";
        return ACL_ERROR_RT_STREAM_UNJOINED;
    }
    return 0;
}

/* Where the capture of s ends, or why not. Locked. */
static int find_capture(struct stream *s, const char *function, const aclmdlRI *model,
                        struct graph **graph)
{
    struct graph *g;
    int error = 0;

    if (s->model)
        return error_set(ACL_ERROR_RT_STREAM_MODEL, "%s: the stream is bound to a model", function);
    if (s->is_default)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: a default stream cannot be captured", function);
    captures_lock(s->session);
    g = atomic_load_explicit(&s->capture, memory_order_relaxed);
    if (!g)
        error = ACL_ERROR_RT_STREAM_NOT_CAPTURED;
    else if (!model && !g->parent)
        error = ACL_ERROR_RT_PARAM_INVALID;
    else if (g->origin != s)
        error = ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED;
    else
        g->refs++;
    captures_unlock(s->session);
    *graph = g;
    if (error == ACL_ERROR_RT_STREAM_NOT_CAPTURED)
        return error_set(error,
                         "%s: the stream is not being captured: call aclmdlRICaptureBegin first",
                         function);
    if (error == ACL_ERROR_RT_PARAM_INVALID)
        return error_set(error, "%s: modelRI is NULL", function);
    return error == 0 ? 0
                      : error_set(error,
                                  "%s: the stream has joined the capture of another stream: end "
                                  "it there",
                                  function);
}

/* Nobody finds the graph any more. */
static void discard(struct graph *g)
{
    bool had_handle;

    captures_lock(g->session);
    g->phase = GRAPH_BROKEN;
    if (g->parent)
        g->parent->invalidated = true; /* without it, that is not what was recorded */
    had_handle = g->handle && !g->parent;
    if (had_handle)
        graph_unpublish(g);
    captures_unlock(g->session);
    if (had_handle)
        graph_put(g);
}

/* Locked, and stays so. */
static int end_capture(struct stream *s, const char *function, struct graph *g)
{
    const char *why = NULL;
    int error;

    captures_lock(s->session);
    /* Another thread may have ended it. */
    error = atomic_load_explicit(&s->capture, memory_order_relaxed) == g
                ? judge_capture(g, &why)
                : ACL_ERROR_RT_STREAM_NOT_CAPTURED;
    if (error != ACL_ERROR_RT_STREAM_NOT_CAPTURED)
        capture_leave(g);
    captures_unlock(s->session);
    if (error == ACL_ERROR_RT_STREAM_NOT_CAPTURED)
        return error_set(error,
                         "%s: the stream is not being captured: call aclmdlRICaptureBegin first",
                         function);
    if (error != 0)
        error = error_set(error, "%s: the capture is discarded: %s", function, why);
    else
        error = graph_finish(g, function);
    if (error != 0)
        discard(g);
    return error;
}

static int end_on(struct stream *s, const char *function, aclmdlRI *model)
{
    struct graph *g;
    int error = find_capture(s, function, model, &g);

    if (error != 0)
        return error;
    error = end_capture(s, function, g);
    if (error == 0 && model)
        *model = g->handle;
    graph_put(g);
    return error;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI)
{
    CALL_SCOPE;
    int error;
    struct stream *s;

    REQUIRE(stream);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    if (modelRI)
        *modelRI = NULL;
    error = end_on(s, __func__, modelRI);
    stream_unlock(s);
    return error;
}
