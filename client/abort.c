#include "client/abort.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/error.h"
#include "client/event.h"
#include "client/report.h"
#include "client/stream.h"
#include "client/wait.h"
#include "proto/clock.h"

static int request_abort(struct stream *s, const char *function, int32_t told)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__AbortStream abort = NPUD__ABORT_STREAM__INIT;

    abort.slot = s->remote;
    abort.told = told;
    request.abort_stream = &abort;
    request.body_case = NPUD__REQUEST__BODY_ABORT_STREAM;
    return session_command(s->session, function, &request);
}

/* --- one stream --- */

static void ask_to_leave(struct stream *s, int32_t code)
{
    atomic_store(&s->aborting, code);
    wait_leave(s->ctrl);
}

bool abort_lock(struct stream *s, const char *function, uint32_t tag, int32_t code, int32_t told)
{
    pthread_mutex_lock(&s->session->abort_lock);
    /* A stream whose end is on its way waits for us before npud gives its slot to another one. */
    if (atomic_load_explicit(&s->slot.tag, memory_order_relaxed) != tag) {
        pthread_mutex_unlock(&s->session->abort_lock);
        return false;
    }
    ask_to_leave(s, code);
    if (pthread_mutex_trylock(&s->lock) != 0) {
        /* Who has it may wait for what only this ends: for a record in this very stream. */
        request_abort(s, function, told);
        pthread_mutex_lock(&s->lock);
    }
    KILL_POINT(ABORT_LOCKED);
    return true;
}

void abort_unlock(struct stream *s)
{
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&s->session->abort_lock);
}

/* False: it has not this tag. Callbacks that have not begun never run. */
static bool discard(struct stream *s, const char *function, uint32_t tag, int32_t code,
                    int32_t told, int *error)
{
    struct callback *callbacks;

    if (!abort_lock(s, function, tag, code, told))
        return false;
    *error = request_abort(s, function, told);
    callbacks = report_stream_discard(s);
    atomic_store(&s->aborting, 0);
    abort_unlock(s);
    callbacks_dispose(callbacks);
    return true;
}

void abort_discard(struct stream *s, const char *function, int32_t told)
{
    int error;

    discard(s, function, atomic_load_explicit(&s->slot.tag, memory_order_relaxed),
            ACL_ERROR_RT_STREAM_ABORT, told, &error);
}

int abort_stream(struct stream *s, const char *function, int32_t code)
{
    uint32_t tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
    int error = 0;

    if (stream_stopped(s))
        return stream_error_stopped(s->ctrl, function);
    if (!(tag & 1) || !discard(s, function, tag, code, code, &error))
        return error_set(ACL_ERROR_RT_INVALID_HANDLE, "%s: the stream was destroyed", function);
    return error;
}

/* --- a device --- */

struct aborted {
    struct stream *stream;
    uint32_t tag;
    struct stream_ctrl *ctrl;
    uint64_t done; /* before */
};

struct device_abort {
    struct session *session;
    size_t n;
    struct aborted streams[];
};

static bool is_there(const struct aborted *t)
{
    return atomic_load_explicit(&t->stream->slot.tag, memory_order_relaxed) == t->tag;
}

struct device_abort *device_abort_begin(struct session *session, uint32_t device)
{
    struct device_abort *a;
    struct stream *s;

    pthread_mutex_lock(&session->lock);
    a = calloc(1, sizeof(*a) + session->streams.live * sizeof(a->streams[0]));
    if (a) {
        a->session = session;
        slots_foreach (&session->streams, i, s)
            if (s->device == device)
                a->streams[a->n++] = (struct aborted){
                    .stream = s,
                    .tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed),
                    .ctrl = s->ctrl,
                };
    }
    for (size_t i = 0; a && i < a->n; i++)
        ask_to_leave(a->streams[i].stream, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    pthread_mutex_unlock(&session->lock);
    return a;
}

static int abort_one(struct aborted *t, const char *function)
{
    struct stream *s = t->stream;
    int error = 0;

    if (stream_stopped(s))
        return 0; /* it does nothing any more */
    t->done = atomic_load_explicit(&t->ctrl->done, memory_order_acquire);
    discard(s, function, t->tag, ACL_ERROR_RT_DEVICE_TASK_ABORT, ACL_ERROR_RT_DEVICE_TASK_ABORT,
            &error);
    /* Until device_abort_end(). */
    if (is_there(t))
        ask_to_leave(s, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    return error;
}

/* What was recorded behind the last task that was done is not recorded any more. */
static void forget_records(const struct device_abort *a)
{
    struct event *e;

    pthread_mutex_lock(&a->session->lock);
    slots_foreach (&a->session->events, i, e)
        for (size_t k = 0; k < a->n; k++)
            event_forget_record(e, a->streams[k].ctrl, a->streams[k].done);
    pthread_mutex_unlock(&a->session->lock);
}

int device_abort_run(struct device_abort *a, const char *function, uint64_t deadline)
{
    int error = 0;

    for (size_t i = 0; i < a->n; i++)
        a->streams[i].done = UINT64_MAX;
    for (size_t i = 0; i < a->n && error == 0; i++) {
        error = abort_one(&a->streams[i], function);
        if (error == 0 && clock_ns() > deadline)
            error = error_set(ACL_ERROR_RT_WAIT_TIMEOUT, "%s: not over within the time limit",
                              function);
    }
    forget_records(a);
    return error;
}

void device_abort_end(struct device_abort *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (is_there(&a->streams[i]))
            atomic_store(&a->streams[i].stream->aborting, 0);
    free(a);
}
