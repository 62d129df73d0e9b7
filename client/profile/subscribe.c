/*
 * Subscriptions: a program gives the descriptor of a pipe for a model, and each operator of the
 * model that runs comes out of it as a record (operator_record.h). A model is a graph, by its id
 * (aclmdlRIGetId); an operator is a kernel, which the thread that has run it tells of.
 *
 * A thread of the subscription writes the records, because a pipe may be full for as long as the
 * program likes, and a stream must not wait for that. It writes to a copy of the descriptor, so
 * that the program may close its own at any time.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "client/capture/capture.h"
#include "client/core/error.h"
#include "client/core/lifecycle.h"
#include "client/core/lock_order.h"
#include "client/core/npud_clock.h"
#include "client/core/process.h"
#include "client/core/thread.h"
#include "client/profile/operator_record.h"
#include "client/profile/profile.h"
#include "proto/util/lift_fd.h"

#define QUEUED_MAX  65536 /* records of a subscription that wait for room in its pipe */
#define PATIENCE_MS 1000  /* at the end, for the reader to make room */

struct aclprofSubscribeConfig {
    bool times;
    aclprofAicoreMetrics metrics;
    const int *fd;
    struct aclprofSubscribeConfig *prev, *next;
};

struct queued {
    struct queued *prev, *next;
    struct operator_record record;
};

struct subscription {
    uint32_t model, device;
    bool times;
    aclprofAicoreMetrics metrics;
    int given;     /* the descriptor as the program has named it */
    int fd;        /* a copy of it */
    int end;       /* an eventfd: written when the subscription ends */
    int error;     /* its thread's: errno of what could not be written */
    uint64_t lost; /* records that were not written */
    pthread_t thread;
    /* Under subscriptions.lock */
    pthread_cond_t come;
    bool ends;
    struct queued *queue; /* oldest first */
    uint32_t n;
    struct subscription *prev, *next;
};

static struct {
    pthread_mutex_t lock;
    struct aclprofSubscribeConfig *configs; /* those that are not destroyed */
    struct subscription *all;
} subscriptions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __attribute__((constructor)) void know_lock(void)
{
    lock_order_know(&subscriptions.lock, LOCK_STAMPS);
}

/* --- configurations --- */

/* Locked. */
static bool is_config(const aclprofSubscribeConfig *config)
{
    const struct aclprofSubscribeConfig *known;

    DL_FOREACH (subscriptions.configs, known)
        if (known == config)
            return true;
    return false;
}

static int error_config(const char *function)
{
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: this is no configuration of aclprofCreateSubscribeConfig, or it was "
                     "destroyed",
                     function);
}

aclprofSubscribeConfig *aclprofCreateSubscribeConfig(int8_t timeInfoSwitch,
                                                     aclprofAicoreMetrics aicoreMetrics, void *fd)
{
    CALL_SCOPE;
    struct aclprofSubscribeConfig *c;

    if (process_enter() != 0)
        return NULL;
    c = malloc(sizeof(*c));
    if (!c) {
        error_no_memory(__func__);
        return NULL;
    }
    *c = (struct aclprofSubscribeConfig){
        .times = timeInfoSwitch != 0, .metrics = aicoreMetrics, .fd = fd};
    pthread_mutex_lock(&subscriptions.lock);
    DL_APPEND(subscriptions.configs, c);
    pthread_mutex_unlock(&subscriptions.lock);
    return c;
}

aclError aclprofDestroySubscribeConfig(const aclprofSubscribeConfig *profSubscribeConfig)
{
    CALL_SCOPE;
    aclprofSubscribeConfig *c = (aclprofSubscribeConfig *)(uintptr_t)profSubscribeConfig;
    bool known;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profSubscribeConfig);
    pthread_mutex_lock(&subscriptions.lock);
    known = is_config(c);
    if (known)
        DL_DELETE(subscriptions.configs, c);
    pthread_mutex_unlock(&subscriptions.lock);
    if (!known)
        return error_config(__func__);
    free(c);
    return 0;
}

static int read_config(const char *function, const aclprofSubscribeConfig *config,
                       struct subscription *s)
{
    struct aclprofSubscribeConfig c = {0};
    bool known;

    pthread_mutex_lock(&subscriptions.lock);
    known = is_config(config);
    if (known)
        c = *config;
    pthread_mutex_unlock(&subscriptions.lock);
    if (!known)
        return error_config(function);
    if (!c.fd)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the configuration has no descriptor of a pipe", function);
    if (!c.times && c.metrics == ACL_AICORE_NONE)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: the configuration asks for nothing: neither times nor metrics",
                         function);
    s->times = c.times;
    s->metrics = c.metrics;
    s->given = *c.fd;
    return 0;
}

/* --- writing --- */

/* False: the subscription ends, and the reader has made no room for a while. */
static bool await_room(const struct subscription *s)
{
    struct pollfd fds[] = {{.fd = s->fd, .events = POLLOUT}, {.fd = s->end, .events = POLLIN}};

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    return fds[0].revents != 0 || poll(fds, 1, PATIENCE_MS) > 0;
}

/* 0, or an errno. Signals are blocked here: a reader that is gone is EPIPE. */
static int write_record(const struct subscription *s, const struct operator_record *record)
{
    const char *from = (const char *)record;
    size_t left = sizeof(*record);

    while (left > 0) {
        ssize_t n;

        if (!await_room(s))
            return ETIMEDOUT;
        n = write(s->fd, from, left);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return errno;
        if (n > 0) {
            from += n;
            left -= (size_t)n;
        }
    }
    return 0;
}

/* The oldest one, once there is one. NULL: the subscription ends. */
static struct queued *take_record(struct subscription *s)
{
    struct queued *q;

    pthread_mutex_lock(&subscriptions.lock);
    while (!s->queue && !s->ends)
        pthread_cond_wait(&s->come, &subscriptions.lock);
    q = s->queue;
    if (q) {
        DL_DELETE(s->queue, q);
        s->n--;
    }
    pthread_mutex_unlock(&subscriptions.lock);
    return q;
}

/* What follows a record that was not written is not, either. */
static void *write_records(void *arg)
{
    struct subscription *s = arg;
    struct queued *q;
    uint64_t lost = 0;

    while ((q = take_record(s))) {
        if (s->error == 0)
            s->error = write_record(s, &q->record);
        lost += s->error != 0;
        free(q);
    }
    pthread_mutex_lock(&subscriptions.lock);
    s->lost += lost;
    pthread_mutex_unlock(&subscriptions.lock);
    return NULL;
}

/* --- operators --- */

/* Locked. */
static struct subscription *find_subscription(uint32_t model)
{
    struct subscription *s;

    DL_SEARCH_SCALAR(subscriptions.all, s, model, model);
    return s;
}

/* Locked. */
static void queue_record(struct subscription *s, const struct operator_record *record)
{
    struct queued *q = s->n < QUEUED_MAX ? malloc(sizeof(*q)) : NULL;

    if (!q) {
        s->lost++;
        return;
    }
    q->record = *record;
    if (!s->times)
        q->record.begin_us = q->record.end_us = 0;
    DL_APPEND(s->queue, q);
    s->n++;
    pthread_cond_signal(&s->come);
}

static void tell_subscriber(const struct profile_operator *o, uint64_t end_ns)
{
    struct operator_record r = {.magic = OPERATOR_RECORD_MAGIC,
                                .begin_us = o->begin_ns / 1000,
                                .end_us = end_ns / 1000,
                                .model = (uint32_t)o->model};
    struct subscription *s;

    snprintf(r.thread, sizeof(r.thread), "%u", thread_self()->tid);
    snprintf(r.type, sizeof(r.type), "%s", o->name);
    snprintf(r.name, sizeof(r.name), "%.*s_%u", (int)sizeof(r.name) - 12, o->name, o->call);
    pthread_mutex_lock(&subscriptions.lock);
    s = find_subscription(r.model);
    if (s)
        queue_record(s, &r);
    pthread_mutex_unlock(&subscriptions.lock);
}

/* Both never are: where a model is subscribed to, there is no session of a profile. */
void profile_operator_ran(const struct profile_operator *o)
{
    uint64_t end_ns = npud_clock_ns();

    if (profile_has_subscriptions())
        tell_subscriber(o, end_ns);
    else
        profile_put_operator(o, end_ns);
}

bool profile_has_subscriptions(void)
{
    return atomic_load_explicit(&collecting.models, memory_order_relaxed) != 0;
}

/* --- beginning --- */

static int error_model(const char *function, uint32_t model)
{
    return error_set(ACL_ERROR_INVALID_MODEL_ID,
                     "%s: no model that can be executed has the id %u: aclmdlRIGetId tells the id "
                     "of a model; nested ones have none of their own here",
                     function, model);
}

/* A graph that is complete, and no part of another one. */
static int find_model(const char *function, uint32_t model, uint32_t *device)
{
    struct session *s = session_peek();
    bool found = false;
    struct graph *g;

    if (!s)
        return error_model(function, model);
    captures_lock(s);
    for (uint32_t i = 0; !found && graph_at(s, i, &g); i++)
        if (g && (uint32_t)g->id == model && g->phase == GRAPH_READY && !g->parent) {
            *device = g->device;
            found = true;
        }
    captures_unlock(s);
    return found ? 0 : error_model(function, model);
}

static bool is_same(const struct subscription *a, const struct subscription *b)
{
    return a->times == b->times && a->metrics == b->metrics && a->given == b->given;
}

/* Locked. */
static int check_others(const char *function, const struct subscription *s)
{
    const struct subscription *other;

    DL_FOREACH (subscriptions.all, other) {
        if (other->model == s->model)
            return error_set(ACL_ERROR_PROF_REPEAT_SUBSCRIBE,
                             "%s: model %u is subscribed to already: aclprofModelUnSubscribe ends "
                             "that",
                             function, s->model);
        if (other->device == s->device && !is_same(other, s))
            return error_set(ACL_ERROR_INVALID_PROFILING_CONFIG,
                             "%s: model %u of the same device is subscribed to with another "
                             "configuration",
                             function, other->model);
    }
    return 0;
}

/* Locked, but for a thread that has ended and a subscription of which no other thread knows. */
static void free_subscription(struct subscription *s)
{
    struct queued *q, *next;

    DL_FOREACH_SAFE (s->queue, q, next)
        free(q);
    if (s->fd >= 0)
        close(s->fd);
    if (s->end >= 0)
        close(s->end);
    free(s);
}

/* The pipe, and the thread that writes to it. */
static int start_writing(const char *function, struct subscription *s)
{
    int flags = fcntl(s->given, F_GETFL), r;

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: descriptor %d cannot be written to: %s",
                         function, s->given, flags < 0 ? strerror(errno) : "it is open to read");
    s->fd = fcntl(s->given, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    s->end = lift_fd(eventfd(0, EFD_CLOEXEC));
    if (s->fd < 0 || s->end < 0)
        return error_set(ACL_ERROR_PROFILING_FAILURE, "%s: no descriptor is left: %m", function);
    pthread_cond_init(&s->come, NULL);
    r = thread_start(&s->thread, write_records, s, "npud-profile", 0);
    return r == 0 ? 0
                  : error_set(ACL_ERROR_PROFILING_FAILURE, "%s: cannot start a thread: %s",
                              function, strerror(r));
}

/* No session of aclprofInit is there, and none begins. */
static int subscribe(const char *function, struct subscription *s)
{
    int error;

    RETURN_IF_ERROR(find_model(function, s->model, &s->device));
    pthread_mutex_lock(&subscriptions.lock);
    error = check_others(function, s);
    if (error == 0)
        error = start_writing(function, s);
    if (error == 0) {
        DL_APPEND(subscriptions.all, s);
        atomic_fetch_add_explicit(&collecting.models, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&subscriptions.lock);
    return error;
}

aclError aclprofModelSubscribe(uint32_t modelId, const aclprofSubscribeConfig *profSubscribeConfig)
{
    CALL_SCOPE;
    struct subscription *s, made = {.model = modelId, .fd = -1, .end = -1};
    int error;

    RETURN_IF_ERROR(process_enter());
    REQUIRE(profSubscribeConfig);
    RETURN_IF_ERROR(read_config(__func__, profSubscribeConfig, &made));
    s = malloc(sizeof(*s));
    if (!s)
        return error_no_memory(__func__);
    *s = made;
    error = profile_lock_without_session(__func__);
    if (error == 0) {
        error = subscribe(__func__, s);
        profile_unlock();
    }
    if (error != 0)
        free_subscription(s);
    return error;
}

/* --- ending --- */

/* No record comes any more: those that are there are written. */
static int end_subscription(const char *function, struct subscription *s)
{
    uint64_t lost;
    int error;

    if (eventfd_write(s->end, 1) != 0)
        abort(); /* it has room for 2^64 - 2 */
    pthread_join(s->thread, NULL);
    lost = s->lost;
    error = s->error;
    free_subscription(s);
    /* A reader that has left wants none. */
    if (lost == 0 || error == EPIPE)
        return 0;
    return error_set(ACL_ERROR_PROFILING_FAILURE, "%s: %llu records were lost: %s", function,
                     (unsigned long long)lost,
                     error != 0 && error != ETIMEDOUT ? strerror(error)
                                                      : "the pipe was read too slowly");
}

/* Locked. It is in the list no more, and the caller's. */
static void take_out(struct subscription *s)
{
    DL_DELETE(subscriptions.all, s);
    atomic_fetch_sub_explicit(&collecting.models, 1, memory_order_relaxed);
    s->ends = true;
    pthread_cond_signal(&s->come);
}

aclError aclprofModelUnSubscribe(uint32_t modelId)
{
    CALL_SCOPE;
    struct subscription *s;

    RETURN_IF_ERROR(process_enter());
    pthread_mutex_lock(&subscriptions.lock);
    s = find_subscription(modelId);
    if (s)
        take_out(s);
    pthread_mutex_unlock(&subscriptions.lock);
    if (s)
        return end_subscription(__func__, s);
    return error_set(ACL_ERROR_INVALID_MODEL_ID, "%s: model %u is not subscribed to", __func__,
                     modelId);
}

/* --- life --- */

/* aclFinalize: ids of its models may come again in the next session. */
static void end_all(struct session *session)
{
    struct error_saved ignored;
    struct subscription *s;

    (void)session;
    error_save(&ignored);
    do {
        pthread_mutex_lock(&subscriptions.lock);
        s = subscriptions.all;
        if (s)
            take_out(s);
        pthread_mutex_unlock(&subscriptions.lock);
        if (s)
            end_subscription("aclFinalize", s);
    } while (s);
    error_save_end(&ignored);
}

/* The threads are the parent's, and the pipes are to end when it closes them. */
static void forget_all(void)
{
    struct aclprofSubscribeConfig *c, *next;
    struct subscription *s, *following;

    DL_FOREACH_SAFE (subscriptions.configs, c, next)
        free(c);
    DL_FOREACH_SAFE (subscriptions.all, s, following)
        free_subscription(s);
    memset(&subscriptions, 0, sizeof(subscriptions));
    lock_init(&subscriptions.lock, LOCK_STAMPS);
}

const struct part profile_subscribe_part = {.fork_child = forget_all, .session_end = end_all};
