#include "client/callback/callback.h"
#include "client/capture/capture.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/core/interrupt.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "client/callback/stream_work.h"
#include "proto/shm/graph_shm.h"
#include "proto/util/futex.h"

static struct worker *worker_of(const struct stream *s)
{
    return atomic_load_explicit(&s->callbacks.worker, memory_order_relaxed);
}

static uint32_t worker_index(const struct callback_workers *r, const struct worker *w)
{
    return (uint32_t)(w - r->worker);
}

/* Of host functions, not a thread of the program. */
static bool is_host(const struct worker *w)
{
    return w->context != NULL;
}

struct callback_word *callback_worker_word(struct session *session, const struct worker *w)
{
    return &session->page->callback_word[worker_index(session->workers, w)];
}

void callback_worker_wake(struct session *session, const struct worker *w)
{
    struct callback_word *r = callback_worker_word(session, w);

    atomic_fetch_add(&r->seq, 1);
    futex_wake_all(&r->seq);
}

/* --- what is to be run --- */

/* Nothing of it is to run: it only has not left the list yet. Or functions are, ... */
static bool holds_nothing_back(const struct stream *s, const struct graph_works *g)
{
    bool runs = s->callbacks.work_runs && s->callbacks.work == &g->work;

    /* ... and the functions of a graph are dropped together with its work. */
    return graph_span_has_functions(&g->span) ||
           (!runs && graph_span_over(&g->span, s, callback_handed_over(s)));
}

void callback_acknowledge(struct stream *s, uint64_t ordinal, bool ring)
{
    struct callbacks *cb = &s->callbacks;
    const struct stream_work *w;
    uint64_t done;

    /* Work may have returned before a callback that did not block the stream. */
    if (ordinal > cb->returned)
        cb->returned = ordinal;
    /* What was dropped may have been launched behind work that is still to run. */
    done = cb->returned;
    LL_FOREACH (cb->work, w) {
        if (w->ordinal > cb->returned)
            break;
        if (w->graph && holds_nothing_back(s, w->graph))
            continue;
        done = w->ordinal - 1;
        break;
    }
    atomic_store_explicit(&s->ctrl->callbacks_done, done, memory_order_release);
    KILL_POINT(CALLBACK_DONE);
    if (ring && doorbell_raise(s->bell, s->remote))
        eventfd_write(s->doorbell, 1);
}

static void append_element(struct stream *s, struct callback *c)
{
    struct callbacks *cb = &s->callbacks;

    c->next = NULL;
    *cb->last = c;
    cb->last = &c->next;
    if (!cb->list)
        callback_list_stream(s, &worker_of(s)->pending);
}

static void append_callback(struct stream *s, struct callback *c)
{
    c->ordinal = ++s->callbacks.launched;
    append_element(s, c);
}

/* --- executions of graphs --- */

struct callback *callback_first_open(const struct stream *s, uint64_t handed)
{
    struct callback *c = s->callbacks.first;

    while (c && c->graph.calls && graph_span_over(&c->graph, s, handed))
        c = c->next;
    return c;
}

static struct callback *take_over(struct stream *s, uint64_t handed)
{
    struct callbacks *cb = &s->callbacks;
    struct callback *open = callback_first_open(s, handed), *list = cb->first, **end = &list;

    if (open == list)
        return NULL;
    while (*end != open)
        end = &(*end)->next;
    *end = NULL;
    cb->first = open;
    if (!open) {
        cb->last = &cb->first;
        callback_list_stream(s, NULL);
    }
    return list;
}

void callback_drop_over(struct stream *s, uint64_t handed)
{
    struct callback *list = take_over(s, handed), *c, *next;

    LL_FOREACH_SAFE (list, c, next) {
        graph_calls_unref(c->graph.calls);
        free(c);
    }
}

void callback_purge(struct stream *s)
{
    struct callback *list;

    callback_lock();
    list = take_over(s, callback_handed_over(s));
    callback_unlock();
    callback_dispose(list);
}

/* Take all that has not begun off the stream, which goes on. Dispose of it without the lock. */
static struct callback *take_callbacks(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    struct callback *list = cb->first;
    bool ring = false;

    if (!list)
        return NULL;
    for (struct callback *c = list; c; c = c->next)
        ring |= c->block;
    cb->first = NULL;
    cb->last = &cb->first;
    callback_list_stream(s, NULL);
    cb->dropped = cb->launched;
    KILL_POINT(CALLBACK_DROPPED);
    /* While one runs, the stream waits for it; what was dropped counts when that returns. */
    if (cb->running)
        cb->running->ring |= ring;
    else if (!session_lost(s->session))
        callback_acknowledge(s, cb->dropped, ring);
    return list;
}

struct callback *callback_join(struct callback *list, struct callback *more)
{
    struct callback **p = &list;

    while (*p)
        p = &(*p)->next;
    *p = more;
    return list;
}

struct callback *callback_worker_take(struct worker *w)
{
    struct callback *list = NULL;
    struct stream *s;

    DL_FOREACH2 (w->streams, s, callbacks.next)
        list = callback_join(take_callbacks(s), list);
    return list;
}

CALLS_PROGRAM void callback_dispose(struct callback *list)
{
    while (list) {
        struct callback *c = list;

        list = c->next;
        if (c->drop)
            c->drop(c->data);
        graph_span_drop(&c->graph);
        free(c);
    }
}

/* --- workers --- */

static void bind_stream(struct worker *w, struct stream *s)
{
    s->callbacks.batch = 0;
    DL_APPEND2(w->streams, s, callbacks.prev, callbacks.next);
    atomic_store_explicit(&s->callbacks.worker, w, memory_order_relaxed);
}

/*
 * Its callbacks are taken off before. A thread that has no stream left is no worker any more, and
 * learns that at once.
 */
static void unbind_stream(struct stream *s)
{
    struct worker *w = worker_of(s);

    assert(w && w->state != WORKER_FREE && !s->callbacks.list);
    DL_DELETE2(w->streams, s, callbacks.prev, callbacks.next);
    atomic_store_explicit(&s->callbacks.worker, NULL, memory_order_relaxed);
    if (is_host(w) || w->streams)
        return;
    w->state = WORKER_FREE;
    w->serial++;
    callback_worker_wake(s->session, w);
}

/*
 * Until the callback that runs has returned, or the call is to end; not if it is the caller's. The
 * stream may be another one by then.
 */
static void await_running(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    uint64_t runs = cb->runs;

    while (cb->running && cb->runs == runs) {
        if (pthread_equal(cb->running->thread, pthread_self()))
            return;
        if (!interrupt_cond_wait(&process->callback_idle, &process->callback_lock, UINT64_MAX))
            return;
    }
}

void callback_stream_init(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    uint64_t runs = cb->runs;

    *cb = (struct callbacks){.runs = runs};
    cb->last = &cb->first;
    cb->work_last = &cb->work;
}

/*
 * A callback ends its own stream or context, or the thread that does is interrupted: neither shall
 * wait for it, and it counts as returned.
 */
static void disown_running(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    struct callback_run *run = cb->running;
    uint64_t ordinal = run->callback->ordinal;

    run->disowned = true;
    cb->running = NULL;
    cb->runs++;
    pthread_cond_broadcast(&process->callback_idle);
    if (!session_lost(s->session))
        callback_acknowledge(s, cb->dropped > ordinal ? cb->dropped : ordinal, run->ring);
}

void callback_stream_disown(struct stream *s, bool own_only)
{
    struct callback_run *run;

    callback_lock();
    run = s->callbacks.running;
    if (run && (!own_only || pthread_equal(run->thread, pthread_self())))
        disown_running(s);
    callback_unlock();
}

void callback_stream_end(struct stream *s, bool host_too)
{
    struct callback *list = NULL;
    struct worker *w;

    callback_lock();
    w = worker_of(s);
    if (w && (host_too || !is_host(w) || pthread_equal(w->thread, pthread_self()))) {
        list = take_callbacks(s);
        unbind_stream(s);
    }
    if (!worker_of(s)) {
        await_running(s);
        if (s->callbacks.running)
            disown_running(s);
    }
    callback_unlock();
    callback_dispose(list);
    if (host_too)
        stream_work_discard(s);
}

struct callback *callback_stream_discard(struct stream *s)
{
    struct callback *list;

    callback_lock();
    list = take_callbacks(s);
    callback_unlock();
    stream_work_discard(s);
    return list;
}

static struct stream *find_subscribed(struct callback_workers *r, const struct context *c)
{
    struct stream *s;

    for (uint32_t i = 0; i < r->end; i++) {
        if (r->worker[i].state == WORKER_FREE)
            continue;
        DL_FOREACH2 (r->worker[i].streams, s, callbacks.next)
            if (s->context == c)
                return s;
    }
    return NULL;
}

void callback_context_leave(struct context *c)
{
    struct callback *list = NULL;
    struct callback_workers *r;
    struct stream *s;

    callback_lock();
    r = c->session->workers;
    while (r && (s = find_subscribed(r, c))) {
        list = callback_join(take_callbacks(s), list);
        unbind_stream(s);
        await_running(s);
    }
    callback_unlock();
    callback_dispose(list);
}

/* When no thread is inside of aclrtProcessReport any more. */
static void free_workers(struct session *session)
{
    /*
     * The lock in any case: a thread that found the session in process->session before it was taken
     * out of there looks at it under the lock.
     */
    callback_lock();
    while (session->workers && session->workers->inside > 0)
        pthread_cond_wait(&process->callback_idle, &process->callback_lock);
    callback_unlock();
    free(session->workers);
}

void callback_drop_lost(void)
{
    struct callback *list = NULL;
    struct session *session;

    callback_lock();
    session = session_peek();
    if (session && session_lost(session) && session->workers)
        for (uint32_t i = 0; i < CALLBACK_WORDS; i++)
            list = callback_join(callback_worker_take(&session->workers->worker[i]), list);
    callback_unlock();
    callback_dispose(list);
}

/* --- subscribing --- */

static struct worker *find_thread(struct callback_workers *r, uint64_t thread_id)
{
    for (uint32_t i = 0; i < r->end; i++)
        if (r->worker[i].state == WORKER_SERVES && r->worker[i].thread_id == thread_id)
            return &r->worker[i];
    return NULL;
}

static struct worker *new_thread(struct session *session, uint64_t thread_id, uint32_t device)
{
    struct callback_workers *r = session->workers;
    struct worker *w;
    uint32_t i = 0;

    while (i < CALLBACK_WORD_THREADS && r->worker[i].state != WORKER_FREE)
        i++;
    if (i == CALLBACK_WORD_THREADS)
        return NULL;
    if (i == r->end)
        r->end++;
    w = &r->worker[i];
    w->state = WORKER_SERVES;
    w->thread_id = thread_id;
    w->device = device;
    atomic_store(&callback_worker_word(session, w)->sleeping, 0);
    atomic_store(&callback_worker_word(session, w)->thread, 0);
    atomic_store(&callback_worker_word(session, w)->runs, 0);
    return w;
}

static int owned_error(const char *function, const struct worker *w)
{
    return error_set(ACL_ERROR_RT_STREAM_SUBSCRIBE, "%s: the stream %s", function,
                     is_host(w) ? "is used with aclrtLaunchHostFunc"
                                : "is subscribed to by a thread");
}

/* Under the lock. */
static int subscribe_locked(const char *function, uint64_t thread_id, struct stream *s)
{
    struct session *session = s->session;
    struct worker *w = worker_of(s);

    if (w)
        return owned_error(function, w);
    if (!session->workers)
        session->workers = calloc(1, sizeof(*session->workers));
    if (!session->workers)
        return error_no_memory(function);
    w = find_thread(session->workers, thread_id);
    if (w && w->device != s->device)
        return error_set(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                         "%s: the thread serves device %u, and the stream is on device %u",
                         function, w->device, s->device);
    if (!w)
        w = new_thread(session, thread_id, s->device);
    if (!w)
        return error_set(ACL_ERROR_RT_INTERNAL_ERROR, "%s: %u threads are subscribed already",
                         function, CALLBACK_WORD_THREADS);
    bind_stream(w, s);
    return 0;
}

static int subscribe_thread(const char *function, uint64_t thread_id, aclrtStream handle)
{
    int error;
    struct stream *s = FIND_OR_RETURN(stream_find, function, handle);
    uint32_t tag;

    tag = atomic_load_explicit(&s->slot.tag, memory_order_acquire);
    callback_lock();
    /* A thread that destroys it makes the handle invalid first, and takes the lock later. */
    if (!(tag & 1) || atomic_load_explicit(&s->slot.tag, memory_order_acquire) != tag)
        error = stream_error_unknown(function, handle);
    else
        error = subscribe_locked(function, thread_id, s);
    callback_unlock();
    return error;
}

static int unsubscribe_thread(const char *function, uint64_t thread_id, aclrtStream handle)
{
    int error = 0;
    struct stream *s = FIND_OR_RETURN(stream_find, function, handle);
    struct callback *list = NULL;
    struct worker *w;

    callback_lock();
    w = worker_of(s);
    if (!w) {
        error = error_set(ACL_ERROR_RT_STREAM_SUBSCRIBE,
                          "%s: no thread is subscribed to the stream", function);
    } else if (is_host(w)) {
        error = owned_error(function, w);
    } else if (w->thread_id != thread_id) {
        error = error_set(ACL_ERROR_RT_THREAD_SUBSCRIBE,
                          "%s: the stream is subscribed to by another thread", function);
    } else {
        list = take_callbacks(s);
        unbind_stream(s);
        await_running(s);
    }
    callback_unlock();
    callback_dispose(list);
    return error;
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    CALL_SCOPE;

    return subscribe_thread(__func__, threadId, stream);
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    CALL_SCOPE;

    return unsubscribe_thread(__func__, threadId, stream);
}

aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, exeStream);
    return subscribe_thread(__func__, hostFuncThreadId, exeStream);
}

aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, exeStream);
    return unsubscribe_thread(__func__, hostFuncThreadId, exeStream);
}

/* --- launching --- */

/* May callbacks of this kind be launched, as far as it can be seen? */
static int check_owner(const char *function, const struct worker *w, bool host)
{
    if (w ? is_host(w) == host : host)
        return 0;
    if (w)
        return owned_error(function, w);
    return error_set(ACL_ERROR_RT_STREAM_NO_CB_REG,
                     "%s: no thread is subscribed to the stream: call aclrtSubscribeReport first",
                     function);
}

/* Under the lock: the worker is there. */
static int bind_worker(const char *function, struct stream *s, bool host)
{
    struct worker *w = worker_of(s);

    RETURN_IF_ERROR(check_owner(function, w, host));
    if (w)
        return 0;
    w = callback_worker_of_context(s->context);
    if (!w)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION,
                         "%s: the thread for host functions cannot be started", function);
    bind_stream(w, s);
    return 0;
}

/* Under the lock: the worker is there, and the callback in the list. */
static int enlist_callback(const char *function, struct stream *s, struct callback *c, bool host)
{
    RETURN_IF_ERROR(bind_worker(function, s, host));
    append_callback(s, c);
    return 0;
}

int callback_enlist_graph(const char *function, struct stream *s, struct callback *c,
                          const struct graph_span *span, bool host, uint32_t *word)
{
    struct worker *w;

    if (host && span->calls->n_functions > 0)
        return error_set(ACL_ERROR_RT_STREAM_SUBSCRIBE,
                         "%s: the graph has functions of aclrtLaunchHostFunc and of "
                         "aclrtLaunchCallback, and a stream has one thread for both",
                         function);
    RETURN_IF_ERROR(bind_worker(function, s, host));
    w = worker_of(s);
    *c = (struct callback){.graph = *span, .ordinal = span->base + 1, .block = true};
    append_element(s, c);
    *word = worker_index(s->session->workers, w);
    return 0;
}

/*
 * Under the lock: submit the task, and hand the callback over if the stream has nothing else to do.
 * True: its worker sleeps, and the caller wakes it. Workers take callbacks under the same lock, so
 * a callback starts only after its task counts as submitted: a stream is never complete inside its
 * own blocking callback. The callback may have run and be freed once the lock is released.
 */
static bool submit_task(struct stream *s, const struct callback *c)
{
    struct worker *w = worker_of(s);
    struct callback_word *word = callback_worker_word(s->session, w);
    struct task task = {
        .op = TASK_CALLBACK,
        .callback.ordinal = c->ordinal,
        .callback.word = worker_index(s->session->workers, w),
        .callback.block = c->block,
    };
    bool idle = stream_idle(s);

    if (idle)
        task.flags = TASK_CALLBACK_TOLD;
    stream_submit_reserved(s, &task);
    if (!idle)
        return false;
    s->callbacks.told = c->ordinal;
    return atomic_load(&word->sleeping) != 0;
}

/*
 * Room first: while the ring is full, other threads can end the subscription. The stream is
 * locked.
 */
static int launch_locked(const char *function, struct stream *s, struct callback *c, bool host)
{
    struct worker *w = NULL;
    bool wake = false;
    int error;

    RETURN_IF_ERROR(check_owner(function, worker_of(s), host));
    RETURN_IF_ERROR(stream_reserve(s, function));
    callback_lock();
    error = enlist_callback(function, s, c, host);
    if (error == 0) {
        KILL_POINT(CALLBACK_LISTED);
        w = worker_of(s);
        wake = submit_task(s, c);
    }
    callback_unlock();
    /* Without the lock, which is what it is going to need. */
    if (wake)
        callback_worker_wake(s->session, w);
    return error;
}

/* On a stream that records: the function runs at each execution. */
static int record_call(const char *function, struct stream *s, const struct callback *what,
                       bool host)
{
    struct graph_call call = {.fn = what->fn, .data = what->data, .host = host};
    struct task task = {
        .op = TASK_CALLBACK, .callback.block = true, .callback.word = GRAPH_WORD_OF_STREAM};

    if (what->drop)
        return capture_error_kind(function, "a callback that is told when it is dropped");
    if (!host)
        RETURN_IF_ERROR(check_owner(function, worker_of(s), host));
    RETURN_IF_ERROR(stream_check(s, function));
    return capture_call(s, function, &call, &task);
}

static int launch_any(const char *function, const struct callback *what, aclrtStream handle,
                      bool host)
{
    struct callback *c;
    int error;
    struct stream *s;

    if (!what->fn)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: fn is NULL", function);
    s = stream_lock(function, handle, &error);
    if (!s)
        return error;
    if (stream_captures(s)) {
        error = record_call(function, s, what, host);
        stream_unlock(s);
        return error;
    }
    c = malloc(sizeof(*c));
    if (c) {
        *c = *what;
        error = launch_locked(function, s, c, host);
    } else {
        error = error_no_memory(function);
    }
    stream_unlock(s);
    if (error != 0)
        free(c);
    return error;
}

static int launch_callback(const char *function, struct callback *what, aclrtCallbackBlockType type,
                           aclrtStream stream)
{
    if (what->fn && type != ACL_CALLBACK_BLOCK && type != ACL_CALLBACK_NO_BLOCK)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: blockType is %d, must be ACL_CALLBACK_NO_BLOCK or ACL_CALLBACK_BLOCK",
                         function, (int)type);
    what->block = type == ACL_CALLBACK_BLOCK;
    return launch_any(function, what, stream, false);
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                             aclrtStream stream)
{
    CALL_SCOPE;
    struct callback what = {.fn = fn, .data = userData};

    return launch_callback(__func__, &what, blockType, stream);
}

aclError aclnpudLaunchCallbackWithDrop(aclrtCallback fn, aclrtCallback drop, void *userData,
                                       aclrtCallbackBlockType blockType, aclrtStream stream)
{
    CALL_SCOPE;
    struct callback what = {.fn = fn, .drop = drop, .data = userData};

    /* Under the name that users of other languages know. */
    return launch_callback("aclrtLaunchCallback", &what, blockType, stream);
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    CALL_SCOPE;
    struct callback what = {.fn = fn, .data = args, .block = true};

    return launch_any(__func__, &what, stream, true);
}

const struct part callback_part = {.session_free = free_workers};
