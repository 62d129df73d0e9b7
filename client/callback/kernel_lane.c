/*
 * Compiled with -fexceptions: a kernel that ends its thread has ended, and its stream goes on.
 */
#include "client/callback/kernel_lane.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "acl/acl.h"
#include "client/callback/callback.h"
#include "client/callback/stream_work.h"
#include "client/core/thread.h"
#include "client/core/wait.h"
#include "client/runtime/session.h"
#include "client/runtime/stream.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define IDLE_KEPT 8u /* idle threads beyond these end */

static struct callback_word *lane_word(struct session *session)
{
    return &session->page->callback_word[CALLBACK_WORD_KERNEL];
}

void kernel_lane_wake(struct session *session)
{
    struct callback_word *r;

    if (!session->page)
        return;
    r = lane_word(session);
    atomic_fetch_add(&r->seq, 1);
    futex_wake_all(&r->seq);
}

/* --- one kernel --- */

struct lane_run {
    struct stream *stream;
    pid_t process;
    bool returned; /* else the kernel has ended its thread */
    int code;      /* what run() has returned */
};

/* Also when the kernel has ended its thread. A child that was forked in it has none of this. */
static void run_end(struct lane_run *run)
{
    struct stream *s = run->stream;
    struct stream_work *w;

    if (process_id() != run->process)
        return;
    callback_lock();
    s->callbacks.work_runs = false;
    /* If it has not returned, there was one. */
    w = stream_work_retire(s, run->returned ? run->code : stream_work_running(s)->code);
    pthread_cond_broadcast(&process->callback_idle);
    callback_unlock();
    stream_works_free(w);
}

/* Under the lock, which is not held while it runs. False: this is a child that was forked in it. */
static bool run_kernel(struct stream *s)
{
    struct session *session = s->session;
    pid_t me = process_id();
    struct stream_work *over, *w = stream_work_begin(s, &over);
    int refusal = stream_work_refusal(s, w);

    s->callbacks.work_runs = true;
    s->callbacks.work_ns = clock_ns();
    stream_work_list(s, &session->works.kernels.running);
    kernel_lane_watch(session);
    callback_unlock();
    stream_works_free(over);
    {
        struct lane_run run
            __attribute__((cleanup(run_end))) = {.stream = s, .process = me, .code = refusal};

        if (refusal == 0)
            run.code = w->run(w);
        run.returned = true;
    }
    if (process_id() != me)
        return false;
    callback_lock();
    return true;
}

/* --- threads --- */

static struct stream *find_ready(const struct session *session)
{
    struct stream *s;

    DL_FOREACH2 (session->works.kernels.streams, s, callbacks.work_next)
        if (s->callbacks.work->ordinal <= callback_handed_over(s))
            return s;
    return stream_work_find_graph(session, true);
}

static bool lane_is_over(const struct session *session)
{
    return session->works.kernels.ending || session_lost(session);
}

static bool sleep_is_over(void *object, uint64_t target)
{
    struct session *session = object;
    bool over;

    (void)target;
    callback_lock();
    callback_word_arm(lane_word(session));
    over = lane_is_over(session) || find_ready(session);
    callback_unlock();
    return over;
}

/* Under the lock, which is not held meanwhile. */
static void watch_streams(struct session *session)
{
    struct callback_word *r = lane_word(session);

    atomic_store_explicit(&r->thread, thread_self()->tid, memory_order_relaxed);
    callback_unlock();
    wait_callback_word(&session->waits, "kernel", CALLBACK_WORD_KERNEL, &r->seq, sleep_is_over,
                       session, WAIT_FOREVER);
    callback_lock();
    atomic_store(&r->sleeping, 0);
}

/* Until another thread has made this one the watcher. False: it is one too many. */
static bool await_turn(struct kernel_lane *lane)
{
    if (lane->idle >= IDLE_KEPT)
        return false;
    lane->idle++;
    pthread_cond_wait(&lane->turns, &process->callback_lock);
    lane->idle--;
    return true;
}

struct lane_thread {
    struct session *session;
    pid_t process;
};

/* Also of a thread that a kernel has ended. The session may be freed when the lock is. */
static void thread_leave(struct lane_thread *t)
{
    struct kernel_lane *lane = &t->session->works.kernels;

    if (process_id() != t->process)
        return;
    callback_lock();
    lane->threads--;
    kernel_lane_watch(t->session);
    pthread_cond_broadcast(&process->callback_idle);
    callback_unlock();
}

/* Under the lock. False: this is a child that was forked in a kernel, and no lock is held. */
static bool serve_lane(struct session *session)
{
    struct kernel_lane *lane = &session->works.kernels;
    struct stream *s;

    while (!lane_is_over(session)) {
        if (lane->watched) {
            if (!await_turn(lane))
                return true;
            continue;
        }
        lane->watched = true;
        s = find_ready(session);
        if (!s) {
            watch_streams(session);
            s = lane_is_over(session) ? NULL : find_ready(session);
        }
        lane->watched = false;
        if (s && !run_kernel(s))
            return false;
    }
    return true;
}

static void *lane_main(void *arg)
{
    struct session *session = arg;
    struct lane_thread t
        __attribute__((cleanup(thread_leave))) = {.session = session, .process = process_id()};

    (void)t;
    callback_lock();
    if (serve_lane(session))
        callback_unlock();
    return NULL;
}

static int add_thread(struct session *session)
{
    pthread_t id;
    int r = thread_start(&id, lane_main, session, "npud-kernel", 0);

    if (r != 0)
        return r;
    pthread_detach(id);
    session->works.kernels.threads++;
    return 0;
}

int kernel_lane_start(struct session *session)
{
    struct kernel_lane *lane = &session->works.kernels;

    if (lane->ending)
        return ECANCELED;
    return lane->threads > 0 ? 0 : add_thread(session);
}

void kernel_lane_watch(struct session *session)
{
    struct kernel_lane *lane = &session->works.kernels;

    if (lane->watched || lane_is_over(session) ||
        (!lane->streams && !stream_work_awaits_kernel(session)))
        return;
    /* Without a thread, those that run kernels look here when they have ended. */
    if (lane->idle > 0)
        pthread_cond_signal(&lane->turns);
    else
        add_thread(session);
}

/* --- the life of a session --- */

static void lane_init(struct session *session, uint32_t seed)
{
    (void)seed;
    pthread_cond_init(&session->works.kernels.turns, NULL);
}

/* aclFinalize: no stream is left. npud is gone: kernels that run shall end. */
static void end_threads(struct session *session)
{
    struct kernel_lane *lane = &session->works.kernels;
    struct stream *s;

    callback_lock();
    lane->ending = true;
    pthread_cond_broadcast(&lane->turns);
    callback_unlock();
    kernel_lane_wake(session);
    callback_lock();
    while (lane->threads > 0) {
        DL_FOREACH2 (lane->running, s, callbacks.work_next)
            stream_work_end(s, ACL_ERROR_RT_SOCKET_CLOSE);
        stream_work_await_end();
    }
    callback_unlock();
}

const struct part kernel_lane_part = {
    .session_init = lane_init,
    .session_lost = kernel_lane_wake,
    .session_end = end_threads,
    .session_free = end_threads,
};
