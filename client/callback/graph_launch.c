#include "client/callback/graph_launch.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/graph_calls.h"
#include "client/callback/stream_work.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"

/* Ordinals of an execution whose calls may run again and again. */
#define LOOP_ORDINALS (UINT64_C(1) << 32)

struct launch {
    struct stream *stream;
    const char *function;
    struct graph_calls *calls;
    struct graph_span span;
    struct callback *functions;
    struct graph_works *works;
};

/* NULL where there is nothing of the kind. False: no memory. */
static bool make_elements(struct launch *l)
{
    bool functions = graph_span_has_functions(&l->span);

    if (functions)
        l->functions = calloc(1, sizeof(*l->functions));
    if (l->calls->n_works > 0)
        l->works = calloc(1, sizeof(*l->works));
    return (!functions || l->functions) && (l->calls->n_works == 0 || l->works);
}

/* Under the lock. What was made becomes the stream's. */
static int enlist(struct launch *l, struct task *task)
{
    struct callbacks *cb = &l->stream->callbacks;
    uint64_t ordinals = l->calls->loops ? LOOP_ORDINALS : l->calls->n;

    l->span.base = cb->launched;
    l->span.last = cb->launched + ordinals;
    l->span.position = l->stream->tail + 1;
    l->span.task = (uint32_t)l->stream->tail + l->stream->implicit;
    l->span.execution = l->calls->executions;
    if (l->functions)
        RETURN_IF_ERROR(callback_enlist_graph(l->function, l->stream, l->functions, &l->span,
                                              l->calls->n_host > 0, &task->graph.word));
    if (l->works) {
        l->works->span = l->span;
        l->works->work.graph = l->works;
        l->works->work.ordinal = l->span.base + 1;
        stream_work_enlist_graph(l->stream, &l->works->work);
    }
    l->calls->refs += (l->functions != NULL) + (l->works != NULL);
    l->calls->executions++;
    cb->launched = l->span.last;
    task->graph.base = l->span.base;
    task->graph.last = l->span.last;
    task->graph.calls = l->calls->n;
    l->functions = NULL;
    l->works = NULL;
    return 0;
}

static int submit(struct launch *l, struct task *task)
{
    int error;

    callback_lock();
    error = enlist(l, task);
    if (error == 0)
        stream_submit_reserved(l->stream, task);
    callback_unlock();
    return error;
}

int graph_calls_prepare(struct stream *s, const char *function, const struct graph_calls *calls)
{
    if (!calls)
        return 0;
    callback_purge(s);
    stream_work_purge(s);
    if (calls->n_works > calls->n_kernels)
        RETURN_IF_ERROR(stream_work_start(s, function, false));
    return calls->n_kernels > 0 ? stream_work_start(s, function, true) : 0;
}

int graph_calls_launch(struct stream *s, const char *function, struct graph_calls *calls,
                       struct task *task)
{
    struct launch l = {.stream = s, .function = function, .calls = calls, .span = {.calls = calls}};
    int error;

    task->graph.word = CALLBACK_WORD_WORK;
    if (!calls) {
        stream_submit_reserved(s, task);
        return 0;
    }
    error = make_elements(&l) ? submit(&l, task) : error_no_memory(function);
    free(l.functions);
    free(l.works);
    return error;
}
