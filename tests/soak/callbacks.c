/*
 * Callbacks of a process of the soak test. Those of a stream must run in the order in which they
 * were launched, one at a time, each once or, when its stream ends before, be dropped once; in the
 * thread that is subscribed.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "acl/acl_npud.h"
#include "tests/soak/worker.h"

#define REPORTERS  4
#define NO_THREAD  REPORTERS
#define GATE_OWNER 7 /* the only stream of its thread, so that it holds no other stream */

struct call {
    const struct op *op;
    unsigned number; /* of its stream */
};

struct stream_calls {
    unsigned launched, launched_blocking;
    unsigned ran, ran_blocking, dropped;
    unsigned latest; /* number of the one that ran last */
};

struct reporter {
    pthread_t thread;
    unsigned subscriptions; /* counts them */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct reporter reporter[REPORTERS];
    bool stop;
    bool gate_open;
    struct stream_calls of[OWN];
    struct call call[OPS_MAX]; /* of this round, by operation */
    pthread_t host;            /* of host functions */
    bool has_host;
} calls = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Two streams of device 0 share a thread, those of device 1 have one each. */
static unsigned reporter_of(unsigned stream)
{
    static const uint8_t of[OWN] = {0, 0, 1, 2, NO_THREAD, NO_THREAD, NO_THREAD, 3};

    return of[stream];
}

static bool is_host_func(unsigned stream)
{
    return device_of(stream) == 2;
}

/* --- running --- */

/* Called with the lock held. False: it has taken too long. */
static bool wait_changed(const struct timespec *until)
{
    return pthread_cond_timedwait(&calls.changed, &calls.lock, until) == 0;
}

static struct timespec get_deadline(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GUARD_MS / 1000;
    return until;
}

static void check_thread(const struct op *op)
{
    unsigned r = reporter_of(op->stream);

    if (r == NO_THREAD && !calls.has_host) {
        calls.host = pthread_self();
        calls.has_host = true;
    }
    if (!pthread_equal(pthread_self(), r == NO_THREAD ? calls.host : calls.reporter[r].thread))
        trouble(op, "its callback runs in another thread than it should");
}

/* Stand still until the main thread opens the gate. */
static void stand_still(const struct op *op)
{
    struct timespec until = get_deadline();

    while (!calls.gate_open)
        if (!wait_changed(&until))
            trouble(op, "its callback waited too long for its gate");
}

static void run_call(void *data)
{
    const struct call *call = data;
    const struct op *op = call->op;
    struct stream_calls *s = &calls.of[op->stream];

    if (op->action == CALL_CHECK)
        cell_check(op);
    else if (op->action == CALL_FILL)
        cell_fill(op);
    pthread_mutex_lock(&calls.lock);
    check_thread(op);
    if (call->number <= s->latest)
        trouble(op, "callback %u of s%u runs after callback %u", call->number, op->stream,
                s->latest);
    s->latest = call->number;
    if (op->action == CALL_STAND)
        stand_still(op);
    s->ran++;
    s->ran_blocking += op->block;
    pthread_cond_broadcast(&calls.changed);
    pthread_mutex_unlock(&calls.lock);
}

static void drop_call(void *data)
{
    const struct call *call = data;

    pthread_mutex_lock(&calls.lock);
    calls.of[call->op->stream].dropped++;
    pthread_cond_broadcast(&calls.changed);
    pthread_mutex_unlock(&calls.lock);
}

/* Its streams may end and others take their place. */
static void await_subscription(struct reporter *r, unsigned seen)
{
    pthread_mutex_lock(&calls.lock);
    while (!calls.stop && r->subscriptions == seen)
        pthread_cond_wait(&calls.changed, &calls.lock);
    pthread_mutex_unlock(&calls.lock);
}

static void *process_reports(void *arg)
{
    struct reporter *r = arg;

    for (unsigned seen = 0;;) {
        int code;
        bool stop;

        await_subscription(r, seen);
        pthread_mutex_lock(&calls.lock);
        seen = r->subscriptions;
        stop = calls.stop;
        pthread_mutex_unlock(&calls.lock);
        if (stop)
            return NULL;
        while ((code = aclrtProcessReport(seen % 2 ? -1 : 1000)) == 0 ||
               code == ACL_ERROR_RT_REPORT_TIMEOUT)
            ;
        if (code != ACL_ERROR_RT_THREAD_SUBSCRIBE)
            trouble(NULL, "aclrtProcessReport returned %d: %s", code, aclGetRecentErrMsg());
    }
}

/* --- launching --- */

static struct call *new_call(const struct op *op)
{
    struct stream_calls *s = &calls.of[op->stream];
    struct call *call = &calls.call[op - me.round->op];

    pthread_mutex_lock(&calls.lock);
    call->op = op;
    call->number = ++s->launched;
    s->launched_blocking += op->block;
    if (op->action == CALL_STAND)
        calls.gate_open = false;
    pthread_mutex_unlock(&calls.lock);
    return call;
}

void callbacks_launch(const struct op *op)
{
    aclrtStream stream = me.stream[op->stream];
    aclrtCallbackBlockType type = op->block ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK;
    struct call *call;

    enter(device_of(op->stream));
    if (op->action == CALL_REFUSED) {
        if (is_host_func(op->stream) || op->stream == WILD_STREAM)
            EXPECT(aclrtLaunchCallback(run_call, NULL, type, stream));
        else
            EXPECT(aclrtLaunchHostFunc(stream, run_call, NULL));
        return;
    }
    call = new_call(op);
    if (is_host_func(op->stream))
        EXPECT(aclrtLaunchHostFunc(stream, run_call, call));
    else if (op->block)
        EXPECT(aclrtLaunchCallback(run_call, call, type, stream));
    else
        EXPECT(aclnpudLaunchCallbackWithDrop(run_call, drop_call, call, type, stream));
}

void callbacks_open_gate(void)
{
    pthread_mutex_lock(&calls.lock);
    calls.gate_open = true;
    pthread_cond_broadcast(&calls.changed);
    pthread_mutex_unlock(&calls.lock);
}

void callbacks_check_blocking(const struct op *op, unsigned stream)
{
    const struct stream_calls *s = &calls.of[stream];

    pthread_mutex_lock(&calls.lock);
    if (s->ran_blocking != s->launched_blocking)
        trouble(op, "%u of %u blocking callbacks of s%u have returned", s->ran_blocking,
                s->launched_blocking, stream);
    pthread_mutex_unlock(&calls.lock);
}

void callbacks_await(const struct op *op)
{
    struct timespec until = get_deadline();

    pthread_mutex_lock(&calls.lock);
    for (unsigned s = 0; s < OWN; s++)
        while (calls.of[s].ran + calls.of[s].dropped != calls.of[s].launched)
            if (!wait_changed(&until))
                trouble(op, "of %u callbacks of s%u %u have run, and %u were dropped",
                        calls.of[s].launched, s, calls.of[s].ran, calls.of[s].dropped);
    pthread_mutex_unlock(&calls.lock);
}

/* --- life --- */

static uint64_t id_of(const struct reporter *r)
{
    return (uint64_t)r->thread;
}

static void subscribe_stream(unsigned stream)
{
    struct reporter *r = &calls.reporter[reporter_of(stream)];

    if (reporter_of(stream) == NO_THREAD)
        return;
    enter(device_of(stream));
    MUST(aclrtSubscribeReport(id_of(r), me.stream[stream]));
    pthread_mutex_lock(&calls.lock);
    r->subscriptions++;
    pthread_cond_broadcast(&calls.changed);
    pthread_mutex_unlock(&calls.lock);
}

void callbacks_renew(unsigned stream)
{
    subscribe_stream(stream);
}

void callbacks_start(void)
{
    for (unsigned i = 0; i < REPORTERS; i++)
        if (pthread_create(&calls.reporter[i].thread, NULL, process_reports, &calls.reporter[i]) !=
            0)
            trouble(NULL, "no thread for reports");
    for (unsigned s = 0; s < OWN; s++)
        subscribe_stream(s);
}

void callbacks_stop(void)
{
    for (unsigned s = 0; s < OWN; s++)
        if (reporter_of(s) != NO_THREAD) {
            enter(device_of(s));
            MUST(aclrtUnSubscribeReport(id_of(&calls.reporter[reporter_of(s)]), me.stream[s]));
        }
    pthread_mutex_lock(&calls.lock);
    calls.stop = true;
    pthread_cond_broadcast(&calls.changed);
    pthread_mutex_unlock(&calls.lock);
    for (unsigned i = 0; i < REPORTERS; i++)
        pthread_join(calls.reporter[i].thread, NULL);
}
