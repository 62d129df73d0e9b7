/*
 * Work of the library in the order of a stream: tasks that npud's engine cannot execute, because
 * the memory is the program's own (client/memory/host_task.h), and kernels (client/kernel).
 *
 * To npud it is a callback that blocks its stream, and its ordinals are those of callbacks. Here it
 * has a thread and a list of its own: threads of the program that are to run callbacks may come
 * late or never, and the work behind a callback that does not block must not wait for them.
 *
 * One thread for a session is enough; kernels have others (kernel_lane.h). Work is finite and waits
 * for no stream, so that what comes behind it, of whatever stream, gets its turn. Work that waits
 * for a word of memory looks at it and returns; it looks again after a while, which doubles each
 * time, and meanwhile the thread runs what other streams have, or sleeps.
 */
#include "client/callback/stream_work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/graph_calls.h"
#include "client/callback/kernel_lane.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define THREAD_NAME  "npud-copy"
#define ASK_AGAIN_NS UINT64_C(500000)

static struct callback_word *work_word(struct session *session)
{
    return &session->page->callback_word[CALLBACK_WORD_WORK];
}

static void wake_thread(struct session *session)
{
    struct callback_word *r;

    if (!session->page)
        return;
    r = work_word(session);
    atomic_fetch_add(&r->seq, 1);
    futex_wake_all(&r->seq);
}

/* --- the list of a stream; under process->callback_lock --- */

void stream_work_list(struct stream *s, struct stream **list)
{
    struct callbacks *cb = &s->callbacks;

    if (cb->work_list)
        DL_DELETE2(*cb->work_list, s, callbacks.work_prev, callbacks.work_next);
    cb->work_list = list;
    if (list)
        DL_APPEND2(*list, s, callbacks.work_prev, callbacks.work_next);
}

/* The first work of the stream is another one than before: behind the other streams. */
static void list_first(struct stream *s)
{
    struct stream_works *works = &s->session->works;
    const struct stream_work *w = s->callbacks.work;

    if (w && w->graph)
        stream_work_list(s, &works->graphs);
    else if (w && w->kind == STREAM_WORK_KERNEL)
        stream_work_list(s, &works->kernels.streams);
    else
        stream_work_list(s, w ? &works->streams : NULL);
}

static void append_work(struct stream *s, struct stream_work *w)
{
    struct callbacks *cb = &s->callbacks;
    bool first = !cb->work;

    w->next = NULL;
    if (w->awaits)
        atomic_fetch_add_explicit(&s->session->works.waits, 1, memory_order_relaxed);
    *cb->work_last = w;
    cb->work_last = &w->next;
    if (first)
        list_first(s);
}

static void uncount_wait(struct stream *s, const struct stream_work *w)
{
    if (w->awaits)
        atomic_fetch_sub_explicit(&s->session->works.waits, 1, memory_order_relaxed);
}

/* Take out what the pointer `after`, in the list, points to, and all that follows. */
static struct stream_work *cut_work(struct stream *s, struct stream_work **after)
{
    struct callbacks *cb = &s->callbacks;
    struct stream_work *rest = *after, *w;

    *after = NULL;
    cb->work_last = after;
    if (!cb->work)
        stream_work_list(s, NULL);
    LL_FOREACH (rest, w)
        uncount_wait(s, w);
    return rest;
}

static void remove_first(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;

    uncount_wait(s, cb->work);
    cb->work = cb->work->next;
    if (!cb->work)
        cb->work_last = &cb->work;
    list_first(s);
}

void stream_works_free(struct stream_work *list)
{
    struct stream_work *w, *next;

    LL_FOREACH_SAFE (list, w, next)
        stream_work_free(w);
}

void stream_work_free(struct stream_work *w)
{
    if (w && w->graph)
        graph_works_free(w->graph);
    else if (w && w->free)
        w->free(w);
    else
        free(w);
}

struct stream_work *stream_work_running(const struct stream *s)
{
    struct stream_work *w = s->callbacks.work;

    assert(w);
    return w->graph ? w->graph->instance : w;
}

void stream_work_end(struct stream *s, int code)
{
    struct stream_work *w = stream_work_running(s);

    if (w && w->end)
        w->end(w, code);
}

void stream_work_await_end(void)
{
    const struct timespec soon = timespec_from_ns(clock_ns() + ASK_AGAIN_NS);

    pthread_cond_clockwait(&process->callback_idle, &process->callback_lock, CLOCK_MONOTONIC,
                           &soon);
}

void stream_work_discard(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    struct stream_work *list = NULL, *begun = NULL;

    callback_lock();
    if (cb->work)
        list = cut_work(s, cb->work_runs ? &cb->work->next : &cb->work);
    while (cb->work_runs) {
        stream_work_end(s, ACL_ERROR_RT_STREAM_ABORT);
        stream_work_await_end();
    }
    if (cb->work)
        begun = cut_work(s, &cb->work);
    callback_unlock();
    stream_works_free(begun);
    stream_works_free(list);
}

void stream_work_await(struct session *s)
{
    uint64_t done;

    callback_lock();
    done = s->works.done;
    while (s->works.runs && s->works.done == done)
        pthread_cond_wait(&process->callback_idle, &process->callback_lock);
    callback_unlock();
}

uint64_t stream_work_kernel_due(const struct context *c)
{
    uint64_t now = clock_ns(), due = now + c->kernel_ns;
    const struct stream *s;

    callback_lock();
    DL_FOREACH2 (c->session->works.kernels.running, s, callbacks.work_next) {
        uint64_t since = s->callbacks.work_ns > c->ends_ns ? s->callbacks.work_ns : c->ends_ns;

        if (s->context == c && since + c->kernel_ns < due)
            due = since + c->kernel_ns;
    }
    callback_unlock();
    return due;
}

/* --- work that waits for a word --- */

#define PAUSE_FIRST_NS UINT64_C(20000)
#define PAUSE_MOST_NS  UINT64_C(10000000)
#define PAUSE_EACH_NS  UINT64_C(20000) /* the longest one is longer where many wait */

/* Not before this, the stream is looked at again. */
static void pause_first(struct stream *s)
{
    struct stream_works *works = &s->session->works;
    struct stream_work *w = s->callbacks.work;
    uint64_t most = works->waits * PAUSE_EACH_NS;

    w->pause_ns = w->pause_ns == 0 ? PAUSE_FIRST_NS : 2 * w->pause_ns;
    if (most < PAUSE_MOST_NS)
        most = PAUSE_MOST_NS;
    if (w->pause_ns > most)
        w->pause_ns = most;
    w->again_ns = clock_ns() + w->pause_ns;
    stream_work_list(s, &works->waiting);
}

/* What is due goes to the others; so does what is due soon, so that it costs no wake-up. */
static void end_pauses(struct session *session)
{
    uint64_t now = clock_ns();
    struct stream *s, *next;

    DL_FOREACH_SAFE2 (session->works.waiting, s, next, callbacks.work_next)
        if (s->callbacks.work->again_ns <= now + s->callbacks.work->pause_ns / 4)
            stream_work_list(s, &session->works.streams);
}

/* When the next one is due. */
static uint64_t pauses_end(const struct session *session)
{
    uint64_t at = WAIT_FOREVER;
    struct stream *s;

    DL_FOREACH2 (session->works.waiting, s, callbacks.work_next)
        if (s->callbacks.work->again_ns < at)
            at = s->callbacks.work->again_ns;
    return at;
}

void stream_work_written(struct session *session, const void *address, uint64_t size)
{
    struct stream *s, *next;
    bool any = false;

    callback_lock();
    session->works.written++; /* for a wait that looks at this moment */
    DL_FOREACH_SAFE2 (session->works.waiting, s, next, callbacks.work_next) {
        uintptr_t word = (uintptr_t)s->callbacks.work->awaits;

        if (word + sizeof(uint64_t) <= (uintptr_t)address || word >= (uintptr_t)address + size)
            continue;
        s->callbacks.work->pause_ns = 0;
        stream_work_list(s, &session->works.streams);
        any = true;
    }
    callback_unlock();
    if (any)
        wake_thread(session);
}

/* --- executions of graphs --- */

static struct stream_work *first_open(const struct stream *s)
{
    struct stream_work *w = s->callbacks.work;

    while (w && w->graph && graph_span_over(&w->graph->span, s, callback_handed_over(s)))
        w = w->next;
    return w;
}

/* Executions that are over leave the list; not while the first one runs. The caller frees them. */
static struct stream_work *take_over(struct stream *s)
{
    struct callbacks *cb = &s->callbacks;
    struct stream_work *open = first_open(s), *list = cb->work, **end = &list, *w;

    if (open == list || cb->work_runs)
        return NULL;
    while (*end != open)
        end = &(*end)->next;
    *end = NULL;
    LL_FOREACH (list, w)
        uncount_wait(s, w);
    cb->work = open;
    if (!open)
        cb->work_last = &cb->work;
    list_first(s);
    return list;
}

void stream_work_purge(struct stream *s)
{
    struct stream_work *list;

    callback_lock();
    list = take_over(s);
    callback_unlock();
    stream_works_free(list);
}

void stream_work_enlist_graph(struct stream *s, struct stream_work *w)
{
    append_work(s, w);
    if (w->graph->span.calls->n_kernels > 0)
        kernel_lane_watch(s->session);
}

/* Is the first work of the stream to run now, and by a thread for kernels, or by the other one? */
static bool is_ready(const struct stream *s, bool kernels)
{
    bool aborts = s->session->works.aborts_begun != s->session->works.aborts_over;
    const struct stream_work *w = first_open(s);
    uint64_t handed = callback_handed_over(s);
    const struct graph_call *call;

    if (!w || w->ordinal > handed || (aborts && w->let_go))
        return false;
    if (w->graph) {
        call = graph_span_call(&w->graph->span, w->ordinal, handed);
        w = call ? call->work : NULL;
    }
    return w && (w->kind == STREAM_WORK_KERNEL) == kernels;
}

struct stream *stream_work_find_graph(const struct session *session, bool kernels)
{
    struct stream *s;

    DL_FOREACH2 (session->works.graphs, s, callbacks.work_next)
        if (!s->callbacks.work_runs && is_ready(s, kernels))
            return s;
    return NULL;
}

bool stream_work_awaits_kernel(const struct session *session)
{
    const struct stream *s;
    const struct stream_work *w;

    DL_FOREACH2 (session->works.graphs, s, callbacks.work_next)
        LL_FOREACH (s->callbacks.work, w)
            if (w->graph ? w->graph->span.calls->n_kernels > 0 : w->kind == STREAM_WORK_KERNEL)
                return true;
    return false;
}

/* A copy of what the graph has, unless it runs again. NULL: no memory. */
static struct stream_work *begin_call(struct stream *s, struct stream_work *w)
{
    struct graph_works *g = w->graph;
    const struct graph_call *call;

    if (g->instance)
        return g->instance;
    g->ordinal = callback_handed_over(s);
    call = graph_span_call(&g->span, w->ordinal, g->ordinal);
    g->copied = g->span.calls;
    g->copied->instances++;
    g->instance = call->work->copy(call->work, s, g->span.task);
    if (!g->instance)
        return NULL; /* end_call() follows all the same */
    g->instance->model = g->span.calls->model;
    g->instance->execution = g->span.execution;
    g->instance->call = (uint32_t)(call - g->span.calls->call);
    w->awaits = g->instance->awaits;
    w->pause_ns = 0;
    if (w->awaits)
        atomic_fetch_add_explicit(&s->session->works.waits, 1, memory_order_relaxed);
    return g->instance;
}

/* The next one may be any of the graph. Returns what has run, and what it was copied from last. */
static struct stream_work *end_call(struct stream *s, struct stream_work *w)
{
    struct stream_work *instance = w->graph->instance, *over;

    uncount_wait(s, w);
    w->awaits = NULL;
    w->graph->instance = NULL;
    over = graph_calls_end_instance(w->graph);
    w->ordinal = w->graph->ordinal + 1;
    list_first(s);
    if (!instance)
        return over;
    instance->next = over;
    return instance;
}

/* --- stopping --- */

/* Or at work before it, which npud has passed: stream_work_refusal(). */
static bool is_at(const struct stream *s, uint64_t ordinal)
{
    const struct stream_work *w = first_open(s);

    if (w && w->graph)
        return graph_span_call(&w->graph->span, w->ordinal, ordinal) != NULL;
    return w && w->ordinal <= ordinal;
}

void stream_work_stop(struct stream *s, uint32_t tag, uint64_t ordinal)
{
    struct stream_work *over, *never;

    callback_lock();
    if (stream_is(s, tag) && ordinal > s->callbacks.stopped)
        s->callbacks.stopped = ordinal;
    while (stream_is(s, tag) && is_at(s, ordinal)) {
        if (s->callbacks.work_runs) {
            stream_work_end(s, ACL_ERROR_RT_STREAM_ABORT);
            stream_work_await_end();
            continue;
        }
        stream_work_begin(s, &over);
        never = stream_work_retire(s, ACL_ERROR_RT_STREAM_ABORT);
        kernel_lane_watch(s->session);
        callback_unlock();
        stream_works_free(over);
        stream_works_free(never);
        callback_lock();
    }
    callback_unlock();
}

/* --- the thread --- */

static struct stream *find_ready(const struct session *session)
{
    struct stream *s;

    DL_FOREACH2 (session->works.streams, s, callbacks.work_next)
        if (is_ready(s, false))
            return s;
    return stream_work_find_graph(session, false);
}

struct stream_work *stream_work_begin(struct stream *s, struct stream_work **over)
{
    struct stream_work *w;

    *over = take_over(s);
    w = s->callbacks.work;
    return w->graph ? begin_call(s, w) : w;
}

int stream_work_refusal(const struct stream *s, const struct stream_work *run)
{
    const struct stream_work *w = s->callbacks.work;
    uint64_t position = w->graph ? w->graph->span.position : w->position;
    int lost = (int)device_loss(s->session, s->device);

    if (!run)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    if ((w->graph ? w->graph->ordinal : w->ordinal) <= s->callbacks.stopped || stream_stopped(s))
        return ACL_ERROR_RT_STREAM_ABORT;
    if (lost != 0)
        return lost;
    /* If the device is back, npud has counted what it has passed before that. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&s->ctrl->done, memory_order_acquire) >= position
               ? ACL_ERROR_RT_LOST_HEARTBEAT
               : 0;
}

struct stream_work *stream_work_retire(struct stream *s, int error)
{
    struct stream_work *w = s->callbacks.work, *ran = w;
    uint64_t ordinal = w->graph ? w->graph->ordinal : w->ordinal;

    if (w->graph) {
        ran = end_call(s, w);
    } else {
        remove_first(s);
        ran->next = NULL; /* it is the caller's, and what follows is not */
    }
    if (session_lost(s->session))
        return ran;
    /* npud has passed it before, and handed over the next one: its thread has found this one. */
    if (is_ready(s, false))
        wake_thread(s->session);
    else if (is_ready(s, true))
        kernel_lane_wake(s->session);
    atomic_store_explicit(&s->ctrl->work_result, stream_work_result(ordinal, error),
                          memory_order_relaxed);
    callback_acknowledge(s, ordinal, true);
    return ran;
}

/* Under the lock, which is not held while it runs. It stays in the list until it has returned. */
static void run_first(struct stream *s)
{
    struct session *session = s->session;
    struct callbacks *cb = &s->callbacks;
    struct stream_work *over, *run = stream_work_begin(s, &over), *w = cb->work;
    uint64_t aborts_over = session->works.aborts_over, written = session->works.written;
    int error = stream_work_refusal(s, run);

    cb->work_runs = session->works.runs = true;
    callback_unlock();
    stream_works_free(over);
    if (error == 0)
        error = run->run(run);
    callback_lock();
    cb->work_runs = session->works.runs = false;
    session->works.done++;
    pthread_cond_broadcast(&process->callback_idle);
    /*
     * A copy on a strict device is work of another stream, which an abort has let go. This stream
     * is to be aborted and not to fail: the copy is discarded with it; or made anew, if the abort
     * did not take place or was of another device. The code alone may be that of a rule of npud's.
     */
    w->let_go =
        error == ACL_ERROR_RT_DEVICE_TASK_ABORT && session->works.aborts_begun != aborts_over;
    if (w->let_go)
        return;
    if (error == STREAM_WORK_AGAIN) {
        if (session->works.written != written)
            w->pause_ns = 0; /* it may have looked just before */
        pause_first(s);
        return;
    }
    run = stream_work_retire(s, error);
    kernel_lane_watch(session);
    callback_unlock();
    stream_works_free(run);
    callback_lock();
}

static bool sleep_is_over(void *object, uint64_t target)
{
    struct session *session = object;
    bool over;

    (void)target;
    callback_lock();
    callback_word_arm(work_word(session));
    over = side_thread_asked(&session->works.thread) || find_ready(session);
    callback_unlock();
    return over;
}

#define LOOK_NS NSEC_PER_MSEC

/* Pauses also end while there is always more to run. */
static void run_all(struct session *session)
{
    uint64_t looked = 0;
    struct stream *s;

    callback_lock();
    while (!session_lost(session)) {
        s = find_ready(session);
        if (!s || clock_ns() - looked >= LOOK_NS) {
            end_pauses(session);
            looked = clock_ns();
            s = find_ready(session);
        }
        if (!s)
            break;
        run_first(s);
    }
    callback_unlock();
}

static uint64_t sleep_deadline(const struct session *session)
{
    uint64_t at;

    callback_lock();
    at = pauses_end(session);
    callback_unlock();
    return at;
}

static void *work_main(void *arg)
{
    struct session *session = arg;
    struct callback_word *r = work_word(session);

    atomic_store_explicit(&r->thread, thread_self()->tid, memory_order_relaxed);
    while (!session_lost(session)) {
        run_all(session);
        if (side_thread_asked(&session->works.thread))
            return NULL;
        wait_callback_word(&session->waits, THREAD_NAME, CALLBACK_WORD_WORK, &r->seq, sleep_is_over,
                           session, sleep_deadline(session));
        atomic_store(&r->sleeping, 0);
    }
    side_thread_leave(&session->works.thread);
    return NULL;
}

static void end_thread(struct session *session)
{
    if (!side_thread_ask(&session->works.thread))
        return;
    wake_thread(session);
    pthread_join(session->works.thread.id, NULL);
}

void stream_work_abort_begins(struct session *session)
{
    callback_lock();
    session->works.aborts_begun++;
    callback_unlock();
}

void stream_work_abort_over(struct session *session)
{
    callback_lock();
    session->works.aborts_over++;
    callback_unlock();
    wake_thread(session);
}

const struct part stream_work_part = {.session_lost = wake_thread, .session_end = end_thread};

/* --- launching --- */

static uint32_t word_of(const struct stream_work *w)
{
    return w->kind == STREAM_WORK_KERNEL ? CALLBACK_WORD_KERNEL : CALLBACK_WORD_WORK;
}

static struct task task_of(const struct stream_work *w)
{
    return (struct task){
        .op = TASK_CALLBACK,
        .callback.ordinal = w->ordinal,
        .callback.word = word_of(w),
        .callback.block = true,
        .callback.address = (uintptr_t)w->awaits,
        .callback.value = w->value,
        .callback.work = w->kind,
        .callback.condition = w->condition,
    };
}

/* Under the lock. True: its thread sleeps, and the caller wakes it. */
static bool submit_work(struct stream *s, const struct stream_work *w)
{
    struct task task = task_of(w);
    bool idle = stream_idle(s);

    if (idle)
        task.flags = TASK_CALLBACK_TOLD;
    stream_submit_reserved(s, &task);
    if (idle)
        s->callbacks.told = w->ordinal;
    return idle && atomic_load(&s->session->page->callback_word[word_of(w)].sleeping) != 0;
}

static int start_thread(struct session *session, bool kernel)
{
    if (kernel)
        return kernel_lane_start(session);
    return side_thread_start(&session->works.thread, work_main, session, THREAD_NAME, 0);
}

static int error_no_thread(const char *function, bool kernel, int error)
{
    return error_set(kernel ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                     "%s: a thread for %s cannot be started: %s: end threads, or raise the limits "
                     "of threads and memory (ulimit -u, -v; pids.max of the cgroup)",
                     function, kernel ? "kernels" : "tasks of registered memory", strerror(error));
}

int stream_work_start(struct stream *s, const char *function, bool kernel)
{
    int r;

    callback_lock();
    r = start_thread(s->session, kernel);
    callback_unlock();
    return r == 0 ? 0 : error_no_thread(function, kernel, r);
}

/* On a stream that records: w becomes the template of what runs at each execution. */
static int record_work(struct stream *s, const char *function, struct stream_work *w)
{
    struct graph_call call = {.work = w};
    struct task task = task_of(w);

    if (!w->copy)
        return capture_error_kind(function, "this task");
    if (w->kind == STREAM_WORK_KERNEL)
        RETURN_IF_ERROR(capture_check_kernel(s, function));
    else
        RETURN_IF_ERROR(stream_check(s, function));
    return capture_call(s, function, &call, &task);
}

int stream_work_launch(struct stream *s, const char *function, struct stream_work *w)
{
    bool kernel = w->kind == STREAM_WORK_KERNEL;
    struct session *session = s->session;
    bool wake = false;
    int r;

    if (__builtin_expect(s->update != NULL, 0) && kernel)
        return capture_update(s, function, w);
    if (stream_captures(s))
        return record_work(s, function, w);
    RETURN_IF_ERROR(stream_reserve(s, function));
    callback_lock();
    /* Under the lock: a call that finds it started must not learn later that it was not. */
    r = start_thread(session, kernel);
    if (r == 0) {
        w->ordinal = ++s->callbacks.launched;
        w->position = s->tail + 1;
        append_work(s, w);
        wake = submit_work(s, w);
        if (kernel)
            kernel_lane_watch(session);
    }
    callback_unlock();
    if (r != 0)
        return error_no_thread(function, kernel, r);
    if (wake && kernel)
        kernel_lane_wake(session);
    else if (wake)
        wake_thread(session);
    return 0;
}
