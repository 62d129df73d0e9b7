/*
 * Running callbacks: aclrtProcessReport, and the library's threads for host functions. Compiled
 * with -fexceptions: a callback that throws, or ends its thread, has returned for its stream, and
 * no thread waits for it for ever.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/check/checked.h"
#include "client/core/error.h"
#include "client/core/interrupt.h"
#include "client/callback/callback.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "client/core/thread.h"
#include "client/core/wait.h"

void callback_list_stream(struct stream *s, struct stream **list)
{
    struct callbacks *cb = &s->callbacks;

    if (cb->list)
        DL_DELETE2(*cb->list, s, callbacks.list_prev, callbacks.list_next);
    cb->list = list;
    if (list)
        DL_APPEND2(*list, s, callbacks.list_prev, callbacks.list_next);
}

/* --- one callback --- */

/* For npud's reports: this thread runs one. Under the lock. */
static void tell_begin(struct session *session, const struct worker *w)
{
    atomic_store_explicit(&callback_worker_word(session, w)->runs, thread_self()->tid,
                          memory_order_relaxed);
}

/* The word may be that of another thread by now. */
static void tell_end(struct session *session, const struct worker *w)
{
    uint32_t me = thread_self()->tid;

    atomic_compare_exchange_strong(&callback_worker_word(session, w)->runs, &me, 0);
}

/*
 * Also when the function threw, or ended the thread. A child that was forked in it has none of
 * this.
 */
static void run_end(struct callback_run *run)
{
    struct callbacks *cb = &run->stream->callbacks;
    uint64_t ordinal = run->callback->ordinal;
    struct worker *w;

    thread_self()->in_callback = false;
    if (process_id() != run->process)
        return;
    if (run->begun_ns != 0)
        trace_event(&run->session->trace, TRACE_CALLBACK, 0, run->begun_ns);
    KILL_POINT(CALLBACK_RUN);
    if (checked_runs())
        checked_callback(CHECK_CALLBACK_END, run->check_stream, ordinal);
    callback_lock();
    tell_end(run->session, run->worker);
    if (!run->disowned) {
        cb->running = NULL;
        if (!session_lost(run->session))
            callback_acknowledge(run->stream, cb->dropped > ordinal ? cb->dropped : ordinal,
                                 run->ring);
        /* The stream has another worker by now, which found it running. */
        w = atomic_load_explicit(&cb->worker, memory_order_relaxed);
        if (w && w != run->worker)
            callback_worker_wake(run->session, w);
        cb->runs++;
    }
    pthread_cond_broadcast(&process->callback_idle);
    callback_unlock();
    if (run->callback != &run->instance)
        free(run->callback);
}

static void take_callback(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;

    cb->first = cb->first->next;
    if (cb->first)
        return;
    cb->last = &cb->first;
    callback_list_stream(s, NULL);
}

/* The call of a graph that was handed over: its execution stays in the list. */
static void take_call(struct stream *s, struct callback_run *run)
{
    struct callback *c = s->callbacks.first;
    uint64_t handed = s->callbacks.batch;
    const struct graph_call *call = graph_span_call(&c->graph, c->ordinal, handed);

    run->instance =
        (struct callback){.fn = call->fn, .data = call->data, .ordinal = handed, .block = true};
    run->callback = &run->instance;
    c->ordinal = handed + 1;
}

/*
 * Under the lock, which is not held while the function runs. False: this is a child that was forked
 * in it, and no lock is held. *enough becomes true when the caller is to run no other one.
 */
static CALLS_PROGRAM bool run_first(struct worker *w, struct stream *s, bool *enough)
{
    struct callbacks *cb = &s->callbacks;
    pid_t me = process_id();

    callback_drop_over(s, cb->batch);
    {
        struct callback_run run __attribute__((cleanup(run_end))) = {
            .session = s->session,
            .stream = s,
            .worker = w,
            .callback = cb->first,
            .thread = pthread_self(),
            .process = me,
            .ring = cb->first->block,
            .check_stream = checked_runs() ? stream_checked_name(s) : CHECK_NO_STREAM,
            .begun_ns = trace_begin(&s->session->trace),
        };

        if (cb->first->graph.calls)
            take_call(s, &run);
        else
            take_callback(s);
        cb->running = &run;
        tell_begin(run.session, w);
        callback_unlock();
        KILL_POINT(CALLBACK_TAKEN);
        if (checked_runs())
            checked_callback(CHECK_CALLBACK_BEGIN, run.check_stream, run.callback->ordinal);
        thread_self()->in_callback = true;
        run.callback->fn(run.callback->data);
    }
    if (process_id() != me)
        return false;
    *enough = interrupt_after_callback();
    callback_lock();
    return true;
}

/* --- all that are ready --- */

static bool is_ready(const struct stream *s, uint64_t batch)
{
    const struct callback *c = s->callbacks.running ? NULL : callback_first_open(s, batch);
    const struct graph_call *call;

    if (!c || c->ordinal > batch)
        return false;
    if (!c->graph.calls)
        return true;
    call = graph_span_call(&c->graph, c->ordinal, batch);
    return call && call->fn;
}

uint64_t callback_handed_over(const struct stream *s)
{
    uint64_t by_npud = atomic_load_explicit(&s->ctrl->callbacks, memory_order_acquire);

    return by_npud > s->callbacks.told ? by_npud : s->callbacks.told;
}

/* What may run now becomes the turn of w: it is in w->ready. */
static void begin_turn(struct worker *w)
{
    struct stream *s, *next;

    DL_FOREACH_SAFE2 (w->pending, s, next, callbacks.list_next) {
        s->callbacks.batch = callback_handed_over(s);
        if (is_ready(s, s->callbacks.batch))
            callback_list_stream(s, &w->ready);
    }
}

/* The next stream of the turn, or NULL. One that has had its turn waits for the next one. */
static struct stream *next_ready(struct worker *w)
{
    while (w->ready && !is_ready(w->ready, w->ready->callbacks.batch))
        callback_list_stream(w->ready, &w->pending);
    return w->ready;
}

/*
 * Run what is ready now, and not what becomes ready meanwhile. Under the lock. Returns how many
 * there were; -1: this is a child that was forked in one, and no lock is held. If it ends early,
 * the rest of the turn comes first in the next one.
 */
static int run_ready(struct worker *w)
{
    uint64_t serial = w->serial;
    bool enough = false;
    struct stream *s;
    int n = 0;

    begin_turn(w);
    while ((s = next_ready(w))) {
        if (!run_first(w, s, &enough))
            return -1;
        n++;
        if (w->serial != serial || enough)
            break; /* its last stream has gone, or the call is to end */
    }
    return n;
}

/* --- sleeping --- */

struct sleeper {
    struct session *session;
    struct worker *worker;
    uint64_t serial;
};

/* Something to run, or the worker is not what it was. */
static bool sleep_is_over(void *object, uint64_t target)
{
    struct sleeper *sl = object;
    struct worker *w = sl->worker;
    bool over;
    struct stream *s;

    (void)target;
    callback_lock();
    over = w->serial != sl->serial || w->state == WORKER_ENDS;
    if (!over) {
        callback_word_arm(callback_worker_word(sl->session, w));
        DL_FOREACH2 (w->pending, s, callbacks.list_next)
            over |= is_ready(s, callback_handed_over(s));
    }
    callback_unlock();
    return over;
}

/* Until there is something to look at. 0, -ETIMEDOUT, -EINTR, -EPIPE. The lock is not held. */
static int worker_sleep(struct sleeper *sl, const char *function, uint64_t deadline)
{
    struct callback_word *word = callback_worker_word(sl->session, sl->worker);
    int r = wait_callback_word(&sl->session->waits, function,
                               (uint32_t)(word - sl->session->page->callback_word), &word->seq,
                               sleep_is_over, sl, deadline);

    callback_lock();
    /* Another thread may be asleep on the word by now. */
    if (sl->worker->serial == sl->serial)
        atomic_store(&word->sleeping, 0);
    callback_unlock();
    return r;
}

/* --- a visit: the calling thread runs callbacks, and no thread frees what it looks at --- */

struct visit {
    struct session *session; /* NULL: none, or no thread ever subscribed in it */
    bool lost;               /* npud is gone */
    pid_t process;
};

static void visit_end(struct visit *v)
{
    if (!v->session || process_id() != v->process)
        return;
    callback_lock();
    v->session->workers->inside--;
    pthread_cond_broadcast(&process->callback_idle);
    callback_unlock();
}

static void visit_begin(struct visit *v)
{
    struct session *s;

    v->process = process_id();
    callback_lock();
    s = session_peek();
    v->lost = s && session_npud_gone(s);
    if (s && s->workers) {
        s->workers->inside++;
        v->session = s;
    }
    callback_unlock();
}

enum served {
    SERVED,
    NOBODY, /* not a worker (any more) */
    LATE,
    LOST,
    FORKED,
    INTERRUPTED,
};

static struct worker *worker_of_thread(struct callback_workers *r, struct thread *t)
{
    uint64_t me = (uint64_t)pthread_self();
    struct worker *w = &r->worker[t->worker];

    if (w->state == WORKER_SERVES && w->thread_id == me)
        return w;
    for (uint32_t i = 0; i < r->end; i++)
        if (r->worker[i].state == WORKER_SERVES && r->worker[i].thread_id == me) {
            t->worker = i;
            return &r->worker[i];
        }
    return NULL;
}

/* Run callbacks of w (NULL: of whatever the calling thread is) once there are any. */
static enum served serve_worker(struct session *session, struct worker *fixed, const char *function,
                                uint64_t deadline)
{
    struct thread *t = thread_self();
    struct callback *dropped = NULL;
    int r = 0, n = 0;

    for (;;) {
        struct sleeper sl = {.session = session};
        struct worker *w;

        callback_lock();
        w = fixed ? fixed : worker_of_thread(session->workers, t);
        if (!w || (w->state == WORKER_ENDS && !w->streams)) {
            callback_unlock();
            return NOBODY;
        }
        atomic_store_explicit(&callback_worker_word(session, w)->thread, t->tid,
                              memory_order_relaxed);
        if (session_lost(session))
            dropped = callback_worker_take(w);
        else
            n = run_ready(w);
        if (n < 0)
            return FORKED;
        sl.worker = w;
        sl.serial = w->serial;
        callback_unlock();
        if (n > 0)
            return SERVED;
        if (session_lost(session)) {
            callback_dispose(dropped);
            return LOST;
        }
        if (r == -ETIMEDOUT)
            return LATE;
        if (r == -EINTR)
            return INTERRUPTED;
        r = worker_sleep(&sl, function, deadline);
    }
}

/* --- threads of the program --- */

static int not_subscribed(const char *function)
{
    return error_set(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                     "%s: this thread is not subscribed to a stream: call aclrtSubscribeReport "
                     "with its pthread_self() first",
                     function);
}

/* aclFinalize closes a session only after the last subscription has gone with its device. */
static int lost_or_closed(const char *function, struct session *session)
{
    return session_npud_gone(session) ? session_error_lost(function) : not_subscribed(function);
}

static int process_report(const char *function, int32_t timeout)
{
    struct visit visit __attribute__((cleanup(visit_end))) = {NULL};
    int error;

    if (timeout == 0 || timeout < -1)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: timeout is %d ms, must be positive or -1",
                         function, timeout);
    RETURN_IF_ERROR(process_enter());
    if (thread_self()->in_callback)
        return error_set(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                         "%s: called in a callback, where callbacks cannot run", function);
    visit_begin(&visit);
    if (!visit.session)
        return visit.lost ? session_error_lost(function) : not_subscribed(function);
    switch (serve_worker(visit.session, NULL, function, wait_deadline(timeout))) {
    case SERVED:
        return 0;
    case LATE:
        return error_set(ACL_ERROR_RT_REPORT_TIMEOUT, "%s: no callback within %d ms", function,
                         timeout);
    case LOST:
        return lost_or_closed(function, visit.session);
    case FORKED:
        error = process_enter();
        return error != 0 ? error : not_subscribed(function);
    case INTERRUPTED:
        return ACLNPUD_ERROR_INTERRUPTED;
    case NOBODY:
        break;
    }
    return lost_or_closed(function, visit.session);
}

aclError aclrtProcessReport(int32_t timeout)
{
    CALL_SCOPE;

    return process_report(__func__, timeout);
}

aclError aclrtProcessHostFunc(int32_t timeout)
{
    CALL_SCOPE;

    return process_report(__func__, timeout);
}

/* --- the library's threads for host functions --- */

static void *host_main(void *arg)
{
    struct worker *w = arg;
    struct context *c = w->context;
    struct session *session = c->session;
    enum served served;

    do {
        served = serve_worker(session, w, "aclrtLaunchHostFunc", WAIT_FOREVER);
        if (served == FORKED)
            return NULL;
    } while (served == SERVED);
    callback_lock();
    if (w->state != WORKER_ENDS) {
        /* npud is gone, and no thread is going to join this one. */
        pthread_detach(pthread_self());
        c->host = NULL;
    }
    if (!w->streams)
        w->state = WORKER_FREE;
    w->serial++;
    session->workers->inside--;
    pthread_cond_broadcast(&process->callback_idle);
    callback_unlock();
    return NULL;
}

struct worker *callback_worker_of_context(struct context *c)
{
    struct session *session = c->session;
    struct worker *w = NULL;

    if (c->host)
        return c->host;
    if (!session->workers)
        session->workers = calloc(1, sizeof(*session->workers));
    if (!session->workers)
        return NULL;
    for (uint32_t i = CALLBACK_WORD_THREADS; i < CALLBACK_WORD_KERNEL && !w; i++)
        if (session->workers->worker[i].state == WORKER_FREE)
            w = &session->workers->worker[i];
    if (!w)
        return NULL;
    w->context = c;
    w->device = c->device;
    if (thread_start(&w->thread, host_main, w, "npud-host", 0) != 0)
        return NULL;
    w->state = WORKER_SERVES;
    session->workers->inside++;
    c->host = w;
    return w;
}

void callback_context_end(struct context *c)
{
    struct worker *w;
    pthread_t thread;

    callback_lock();
    w = c->host;
    c->host = NULL;
    if (!w) {
        callback_unlock();
        return;
    }
    thread = w->thread;
    w->state = WORKER_ENDS;
    callback_worker_wake(c->session, w);
    callback_unlock();
    /* A host function may end its own context. */
    if (pthread_equal(thread, pthread_self()))
        pthread_detach(thread);
    else
        pthread_join(thread, NULL);
}
