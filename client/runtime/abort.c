#include "client/runtime/abort.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"
#include "client/core/upcall.h"
#include "client/core/wait.h"
#include "proto/util/clock.h"

/* The positions after from, up to `to`, are discarded. */
struct range {
    uint64_t from, to;
};

/* What is queued is dropped. It does not count as done before request_abort(). */
static int request_hold(struct stream *s, const char *function, struct range *range)
{
    REQUEST(abort_stream, ABORT_STREAM, .slot = s->remote, .hold = true);
    Npud__Reply *reply = NULL;
    int error = session_request(s->session, function, &request, &reply, NULL);
    if (error != 0)
        return error;
    range->from = reply->abort_stream->from;
    range->to = reply->abort_stream->to;
    session_reply_free(reply);
    return 0;
}

static int request_abort(struct stream *s, const char *function, int32_t told)
{
    REQUEST(abort_stream, ABORT_STREAM, .slot = s->remote, .told = told);
    uint64_t since = checked_since();

    RETURN_IF_ERROR(session_command(s->session, function, &request));
    if (checked_runs()) /* what is discarded is over, too */
        checked_sync(stream_checked_name(s), since);
    return 0;
}

/* --- one stream --- */

/* Under abort_lock, as all stores to aborting. */
static void ask_to_leave(struct stream *s, int32_t code)
{
    atomic_store(&s->aborting, code);
    wait_leave(&s->session->waits, &s->aborting);
}

/* Every submitter that waits with the stream locked leaves: for room, for the stream's work, for a
 * number of a record. */
static void lock_stream(struct stream *s, int32_t code)
{
    ask_to_leave(s, code);
    biased_lock_take(&s->lock);
    KILL_POINT(ABORT_LOCKED);
}

void abort_lock_ending(struct stream *s)
{
    pthread_mutex_lock(&s->session->abort_lock);
    lock_stream(s, ACL_ERROR_RT_STREAM_ABORT);
}

void abort_unlock(struct stream *s)
{
    biased_lock_give(&s->lock);
    pthread_mutex_unlock(&s->session->abort_lock);
}

/* Under abort_lock, which it gives back. */
static void discard_all(struct stream *s, const char *function)
{
    struct callback *callbacks;

    lock_stream(s, ACL_ERROR_RT_STREAM_ABORT);
    request_abort(s, function, 0);
    callbacks = upcalls->callback_stream_discard(s);
    abort_unlock(s);
    upcalls->callback_dispose(callbacks);
}

void abort_discard(struct stream *s, const char *function)
{
    pthread_mutex_lock(&s->session->abort_lock);
    discard_all(s, function);
}

void abort_discard_leaving(struct stream *s, uint32_t tag, const char *function)
{
    pthread_mutex_lock(&s->session->abort_lock);
    /* While it is there, its thread cannot end it without this lock. */
    if (!stream_is(s, tag)) {
        pthread_mutex_unlock(&s->session->abort_lock);
        return;
    }
    upcalls->callback_stream_disown(s, false);
    discard_all(s, function);
}

/* Locked. Threads that sleep for a discarded position get the code, and then go on. */
static int discard_tasks(struct stream *s, const char *function, int32_t code)
{
    struct range range = {0};
    int error;

    RETURN_IF_ERROR(request_hold(s, function, &range));
    KILL_POINT(ABORT_HELD);
    wait_discarded(&s->session->waits, s->ctrl, range.from, range.to, code);
    KILL_POINT(ABORT_TOLD);
    error = request_abort(s, function, code);
    KILL_POINT(ABORT_OVER);
    return error;
}

int abort_stream(struct stream *s, uint32_t tag, const char *function, int32_t code)
{
    struct callback *callbacks = NULL;
    int32_t before;
    int error;

    if (stream_stopped(s))
        return 0; /* none of it will be done, and those that wait have been told */
    pthread_mutex_lock(&s->session->abort_lock);
    if (!(tag & 1) || !stream_is(s, tag)) {
        pthread_mutex_unlock(&s->session->abort_lock);
        return error_set(ACL_ERROR_RT_INVALID_HANDLE, "%s: the stream was destroyed", function);
    }
    before = atomic_load(&s->aborting); /* its device may be being aborted, too */
    lock_stream(s, code);
    error = discard_tasks(s, function, code);
    callbacks = upcalls->callback_stream_discard(s);
    atomic_store(&s->aborting, before);
    abort_unlock(s);
    upcalls->callback_dispose(callbacks);
    return error;
}

/* --- a device --- */

struct aborted {
    struct stream *stream;
    uint32_t tag;
    bool held;
    struct range range;
};

struct device_abort {
    struct session *session;
    size_t n;
    struct aborted streams[];
};

static bool is_there(const struct aborted *t)
{
    return stream_is(t->stream, t->tag);
}

static struct device_abort *list_streams(struct session *session, uint32_t device)
{
    struct device_abort *a;
    struct stream *s;

    pthread_mutex_lock(&session->lock);
    a = calloc(1, sizeof(*a) + session->streams.live * sizeof(a->streams[0]));
    if (a) {
        a->session = session;
        for (uint32_t i = 0; (s = stream_next(session, &i));)
            if (s->device == device)
                a->streams[a->n++] = (struct aborted){
                    .stream = s,
                    .tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed),
                };
    }
    pthread_mutex_unlock(&session->lock);
    return a;
}

struct device_abort *abort_device_begin(struct session *session, uint32_t device)
{
    struct device_abort *a = list_streams(session, device);

    if (!a)
        return NULL;
    upcalls->stream_work_abort_begins(session);
    pthread_mutex_lock(&session->abort_lock);
    for (size_t i = 0; i < a->n; i++)
        if (is_there(&a->streams[i]))
            ask_to_leave(a->streams[i].stream, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    pthread_mutex_unlock(&session->abort_lock);
    return a;
}

/* Under abort_lock, which keeps npud from giving the control block to another stream. */
static int hold_one(struct aborted *t, const char *function)
{
    struct stream *s = t->stream;
    int error;

    if (!is_there(t) || stream_stopped(s)) /* a stopped one does nothing any more */
        return 0;
    lock_stream(s, ACL_ERROR_RT_DEVICE_TASK_ABORT);
    error = request_hold(s, function, &t->range);
    t->held = error == 0;
    KILL_POINT(ABORT_HELD);
    biased_lock_give(&s->lock);
    return error;
}

/* A discarded record is not recorded, and says so before any thread can take it for done. */
static void tell_discarded(const struct device_abort *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct aborted *t = &a->streams[i];

        if (!t->held || t->range.from == t->range.to)
            continue;
        wait_discarded(&a->session->waits, t->stream->ctrl, t->range.from, t->range.to,
                       ACL_ERROR_RT_DEVICE_TASK_ABORT);
        upcalls->event_forget_records(a->session, t->stream->ctrl, t->range.from, t->range.to);
    }
}

/* The callbacks that will never run, in front of list. */
static struct callback *let_go(struct aborted *t, const char *function, struct callback *list,
                               int *error)
{
    struct callback *callbacks = upcalls->callback_stream_discard(t->stream);
    int r = request_abort(t->stream, function, ACL_ERROR_RT_DEVICE_TASK_ABORT);

    KILL_POINT(ABORT_OVER);
    if (*error == 0)
        *error = r;
    return upcalls->callback_join(callbacks, list);
}

/*
 * All streams are held before one goes on: a stream that waits for another one's discarded work
 * must not execute what comes behind the wait.
 */
int abort_device_run(struct device_abort *a, const char *function, uint64_t deadline)
{
    struct callback *callbacks = NULL;
    int error = 0;

    pthread_mutex_lock(&a->session->abort_lock);
    for (size_t i = 0; i < a->n && error == 0; i++) {
        error = hold_one(&a->streams[i], function);
        if (error == 0 && clock_ns() > deadline)
            error = error_set(ACL_ERROR_RT_WAIT_TIMEOUT,
                              "%s: the abort was not over within the time limit", function);
    }
    tell_discarded(a);
    KILL_POINT(ABORT_TOLD);
    for (size_t i = 0; i < a->n; i++)
        if (a->streams[i].held)
            callbacks = let_go(&a->streams[i], function, callbacks, &error);
    pthread_mutex_unlock(&a->session->abort_lock);
    upcalls->callback_dispose(callbacks);
    return error;
}

void abort_device_end(struct device_abort *a)
{
    pthread_mutex_lock(&a->session->abort_lock);
    for (size_t i = 0; i < a->n; i++)
        if (is_there(&a->streams[i]))
            atomic_store(&a->streams[i].stream->aborting, 0);
    pthread_mutex_unlock(&a->session->abort_lock);
    upcalls->stream_work_abort_over(a->session);
    free(a);
}
