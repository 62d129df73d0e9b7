#include "client/callback/graph_calls.h"

#include <stdlib.h>
#include <utlist.h>

#include "client/core/process.h"
#include "client/runtime/stream.h"
#include "proto/shm/graph_shm.h"

/* --- spans --- */

bool graph_span_over(const struct graph_span *span, const struct stream *s, uint64_t handed)
{
    return handed > span->last ||
           atomic_load_explicit(&s->ctrl->done, memory_order_acquire) >= span->position;
}

const struct graph_call *graph_span_call(const struct graph_span *span, uint64_t from,
                                         uint64_t handed)
{
    if (handed < from || handed <= span->base || handed > span->last)
        return NULL;
    return &span->calls->call[graph_call_index(span->base, span->calls->n, handed)];
}

bool graph_span_has_functions(const struct graph_span *span)
{
    return span->calls->n_functions + span->calls->n_host > 0;
}

/* --- references --- */

/* Of a graph, or a copy of it. NULL: nothing. */
static void free_work(struct stream_work *w)
{
    if (w && w->free)
        w->free(w);
    else
        free(w);
}

void graph_works_drop(struct stream_work *list)
{
    struct stream_work *w, *next;

    LL_FOREACH_SAFE (list, w, next)
        free_work(w);
}

/* Nothing runs that was copied from them. */
static struct stream_work *take_retired(struct graph_calls *calls)
{
    struct stream_work *over = NULL;

    if (calls->instances == 0) {
        over = calls->retired;
        calls->retired = NULL;
    }
    return over;
}

struct stream_work *graph_calls_end_instance(struct graph_works *works)
{
    struct graph_calls *calls = works->copied;

    works->copied = NULL;
    if (!calls)
        return NULL;
    calls->instances--;
    return take_retired(calls);
}

struct stream_work *graph_calls_replace(struct graph_calls *calls, const uint32_t *indexes,
                                        struct stream_work *const *works, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        LL_PREPEND(calls->retired, calls->call[indexes[i]].work);
        calls->call[indexes[i]].work = works[i];
    }
    return take_retired(calls);
}

static void free_calls(struct graph_calls *calls)
{
    for (uint32_t i = 0; i < calls->n; i++)
        free_work(calls->call[i].work);
    graph_works_drop(calls->retired);
    free(calls->call);
    free(calls);
}

void graph_calls_unref(struct graph_calls *calls)
{
    if (--calls->refs == 0)
        free_calls(calls);
}

void graph_calls_put(struct graph_calls *calls)
{
    bool last;

    if (!calls)
        return;
    pthread_mutex_lock(&process->callback_lock);
    last = --calls->refs == 0;
    pthread_mutex_unlock(&process->callback_lock);
    if (last)
        free_calls(calls);
}

void graph_span_drop(struct graph_span *span)
{
    graph_calls_put(span->calls);
    span->calls = NULL;
}

void graph_works_free(struct graph_works *works)
{
    struct stream_work *over;

    if (!works)
        return;
    free_work(works->instance);
    pthread_mutex_lock(&process->callback_lock);
    over = graph_calls_end_instance(works);
    pthread_mutex_unlock(&process->callback_lock);
    graph_works_drop(over);
    graph_span_drop(&works->span);
    free(works);
}
