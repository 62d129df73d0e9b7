/* Streams come and go: created, destroyed, and counted while their tasks run. */
#include <assert.h>
#include <errno.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/interrupt.h"
#include "client/runtime/abort.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "client/core/upcall.h"
#include "proto/util/clock.h"

#define FLAGS_KNOWN                                                                                \
    (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |     \
     ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

/*
 * Under session->lock: on to the next phase, and from the last one to the first. Readers without
 * the lock pair with the release: see stream_is().
 */
static void set_phase(struct stream *s, enum stream_phase phase)
{
    enum stream_phase before = atomic_load_explicit(&s->phase, memory_order_relaxed);

    assert(phase == (before + 1) % (STREAM_ENDING + 1));
    atomic_store_explicit(&s->phase, phase, memory_order_release);
}

static enum stream_phase phase_of(const struct stream *s)
{
    return atomic_load_explicit(&s->phase, memory_order_acquire);
}

static bool has_tasks(const struct stream *s)
{
    enum stream_phase phase = phase_of(s);

    return phase == STREAM_USABLE || phase == STREAM_LEAVING;
}

struct stream *stream_next(struct session *session, uint32_t *cursor)
{
    while (*cursor < session->streams.end) {
        struct stream *s = slots_at(&session->streams, (*cursor)++);

        if (s && has_tasks(s)) /* all below `end` are there, which a compiler cannot see */
            return s;
    }
    return NULL;
}

/*
 * A caller that has read the control block asks afterwards: the stream became ENDING before npud
 * could give the control block to another one, so a value of that one comes with the phase, or with
 * the next generation.
 */
bool stream_is(const struct stream *s, uint32_t tag)
{
    return atomic_load_explicit(&s->slot.tag, memory_order_acquire) >> 1 == tag >> 1 &&
           has_tasks(s);
}

static void name_stream(struct stream *s)
{
    static _Atomic uint64_t streams;

    atomic_store_explicit(&s->ctrl->stream_name,
                          atomic_fetch_add_explicit(&streams, 1, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&s->ctrl->context_name,
                          (uint64_t)s->session->serial << 32 | s->context->number,
                          memory_order_relaxed);
}

static void fill_stream(struct stream *s, struct context *c, const Npud__CreateStreamReply *reply,
                        void *map)
{
    struct session *session = c->session;

    s->session = session;
    s->context = c;
    s->device = c->device;
    s->remote = reply->slot;
    s->id = reply->stream_id;
    s->ctrl = arena_stream_ctrl(map, reply->slot);
    s->ring = arena_stream_ring(map, reply->slot, session->ring_depth);
    s->depth = s->room = session->ring_depth;
    s->bell = &session->page->doorbell[c->device];
    s->doorbell = session->devices[c->device].doorbell;
    s->tail = s->first = s->done_seen = reply->position;
    name_stream(s);
    arena_pages_ring_taken(session, s->remote);
    upcalls->callback_stream_init(s);
    s->implicit = 0;
    s->implicit_run = 0;
    atomic_store(&s->aborting, 0);
}

/*
 * Is the control block that of a stream that was made just now? At another place, or with another
 * beginning, no task would ever be done.
 */
static bool is_fresh(void *map, const Npud__CreateStreamReply *reply)
{
    struct stream_ctrl *ctrl = arena_stream_ctrl(map, reply->slot);

    return atomic_load_explicit(&ctrl->number, memory_order_relaxed) == reply->slot &&
           atomic_load_explicit(&ctrl->done, memory_order_acquire) == reply->position;
}

static int create_remote(struct stream *s, struct context *c, const char *function)
{
    struct session *session = c->session;
    REQUEST(create_stream, CREATE_STREAM, .device = c->device, .priority = s->priority,
            .flags = s->flags, .context = c->number);
    Npud__Reply *reply = NULL;
    void **map;
    int error, fd = -1;

    RETURN_IF_ERROR(session_request(session, function, &request, &reply, &fd));
    map = &session->stream_files[reply->create_stream->slot / ARENA_STREAMS];
    error =
        session_map_file(session, function, fd, arena_stream_file_size(session->ring_depth), map);
    if (error == 0 && !is_fresh(*map, reply->create_stream))
        error = session_answer_damaged(session, function, &request,
                                       "it does not agree with the stream's control block");
    if (error == 0)
        fill_stream(s, c, reply->create_stream, *map);
    session_reply_free(reply);
    return error;
}

/* What the slot's last stream has left. */
static void set_defaults(struct stream *s)
{
    s->overflow_check = s->custom_tag = s->cache_op_info = 0;
    s->launch_blocking = s->nonblocking = 0;
    for (unsigned i = 0; i < RES_LIMITS; i++)
        atomic_store_explicit(&s->res_limit[i], 0, memory_order_relaxed);
}

static __attribute__((cold)) void note_created(const struct stream *s)
{
    struct check_stream record = {
        .r.kind = CHECK_STREAM,
        .stream = stream_checked_name(s),
        .id = s->id,
        .device = s->device,
        .slot = s->remote,
        .is_default = s->is_default,
    };

    if (record.stream != CHECK_NO_STREAM)
        checked_write(&record.r, sizeof(record));
}

/* Its tasks are over, and its control block is still its own. */
static __attribute__((cold)) void note_ended(const struct stream *s, bool discarded)
{
    struct check_stream_gone record = {
        .r.kind = CHECK_STREAM_GONE,
        .stream = stream_checked_name(s),
        .code = stream_error_code(atomic_load_explicit(&s->ctrl->error, memory_order_relaxed)),
        .discarded = discarded,
    };

    if (record.stream != CHECK_NO_STREAM)
        checked_write(&record.r, sizeof(record));
}

/* A process that ends has streams whose failures no call has reported. */
static __attribute__((destructor)) void note_ignored(void)
{
    struct session *session = checked_runs() ? session_peek() : NULL;
    struct stream *s;
    int32_t code;

    if (!session)
        return;
    pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; (s = stream_next(session, &i));) {
        code = stream_error_code(atomic_load_explicit(&s->ctrl->error, memory_order_relaxed));
        if (code != 0)
            checked_failure(CHECK_IGNORED, stream_checked_name(s), code);
    }
    pthread_mutex_unlock(&session->lock);
}

int stream_new(struct context *c, const char *function, uint32_t priority, uint32_t flags,
               bool is_default, struct stream **sp)
{
    struct stream *s = slots_take(&c->session->streams);
    int error;

    if (!s)
        return error_set(ACL_ERROR_RT_NO_STREAM_RESOURCE, "%s: a process can have %u streams",
                         function, SESSION_STREAMS_MAX);
    lock_order_know(&s->lock, LOCK_STREAM);
    s->priority = priority > STREAM_PRIORITY_LEAST ? STREAM_PRIORITY_LEAST : priority;
    s->flags = flags & FLAGS_KNOWN;
    s->is_default = is_default;
    s->special =
        (is_default ? STREAM_DEFAULT : 0) | (checked_runs() && !c->hidden ? STREAM_CHECKED : 0);
    set_defaults(s);
    atomic_store_explicit(&s->capture, NULL, memory_order_relaxed);
    s->model = NULL;
    s->update = NULL;
    error = create_remote(s, c, function);
    if (error != 0) {
        slots_put(&c->session->streams, s);
        return error;
    }
    s->profile = NULL;
    upcalls->profile_stream_made(s);
    set_phase(s, STREAM_USABLE);
    slots_publish(s);
    if (checked_runs())
        note_created(s);
    *sp = s;
    return 0;
}

/* The end of streams by one call. */
struct leaving {
    bool limited; /* c->kernel_ns holds */
    bool force;   /* what is queued is discarded; also once the caller was interrupted, or: */
    bool overrun; /* a kernel ran for longer than that */
};

/* May the call wait for work of the context, and until when before it asks again? */
static bool may_wait(struct context *c, struct leaving *l, uint64_t *until)
{
    *until = WAIT_FOREVER;
    if (!l->limited)
        return true;
    *until = upcalls->stream_work_kernel_due(c);
    if (*until > clock_ns())
        return true;
    l->overrun = true;
    return false;
}

/* False: the call is to end before. */
static bool lock_leaving(struct stream *s, struct leaving *l)
{
    struct timespec end;
    uint64_t until;

    while (may_wait(s->context, l, &until)) {
        if (until == WAIT_FOREVER)
            return interrupt_take(&s->lock);
        end = timespec_from_ns(interrupt_possible() ? interrupt_slice(until) : until);
        if (biased_lock_take_until(&s->lock, &end))
            return true;
        if (interrupt_possible() && interrupt_asked(false))
            return false;
    }
    return false;
}

/* Everything that was submitted is done, whatever came of it. False: the call is to end before. */
static bool await_work(struct stream *s, const char *function, struct leaving *l)
{
    uint64_t tail, until;
    int r = -ETIMEDOUT;

    /* The lock lets submitters out; an abort may need it during the wait. */
    if (!lock_leaving(s, l))
        return false;
    tail = s->tail;
    biased_lock_give(&s->lock);
    while (r == -ETIMEDOUT && may_wait(s->context, l, &until))
        r = wait_position(&s->session->waits, function, s->ctrl, tail, until, NULL);
    return r != -EINTR && r != -ETIMEDOUT;
}

/*
 * The handle is dead already. Submitters that were in time are let out, then npud forgets the
 * stream: not before, because its slot may be another stream's from then on. Callbacks that have
 * not begun are dropped, but for host functions of a stream that is to come to its end: those
 * always do.
 */
static int stream_end(struct stream *s, const char *function, struct leaving *l)
{
    struct session *session = s->session;
    REQUEST(destroy_stream, DESTROY_STREAM, .slot = s->remote);
    int error;

    if (l->force)
        abort_discard(s, function);
    upcalls->callback_stream_end(s, l->force);
    if (!l->force && !await_work(s, function, l)) {
        /* Not half: what is left of it goes, and of the caller's other streams too. */
        l->force = true;
        abort_discard(s, function);
    }
    /* No thread submits any more: one that had the lock when the handle died has let go of it. */
    upcalls->callback_stream_end(s, true);
    upcalls->graph_group_end_stream(s);
    upcalls->profile_stream_ends(s);
    if (checked_runs())
        note_ended(s, l->force);
    pthread_mutex_lock(&session->lock);
    set_phase(s, STREAM_ENDING);
    arena_pages_ring_leaving(session, s->remote, s->tail - s->first);
    pthread_mutex_unlock(&session->lock);
    abort_lock_ending(s);
    error = session_command(session, function, &request);
    abort_unlock(s);
    pthread_mutex_lock(&session->lock);
    if (error == 0)
        arena_pages_ring_left(session, s->remote);
    set_phase(s, STREAM_ABSENT);
    slots_put(&session->streams, s);
    pthread_cond_broadcast(&session->stream_gone);
    pthread_mutex_unlock(&session->lock);
    return error;
}

/* Under session->lock: from now on the calling thread destroys it. */
static void begin_to_leave(struct stream *s)
{
    s->leaver = pthread_self();
    set_phase(s, STREAM_LEAVING);
}

/* The last that the program sees of it; the calling thread has begun to leave. */
static int stream_leave(struct stream *s, const char *function, struct leaving *l)
{
    struct session *session = s->session;

    if (!s->context->hidden)
        upcalls->state_callback_stream(s, ACL_RT_STREAM_STATE_DESTROY_PRE);
    pthread_mutex_lock(&session->lock);
    slots_unpublish(s);
    pthread_mutex_unlock(&session->lock);
    return stream_end(s, function, l);
}

/* Under session->lock: the first stream of the context that another thread destroys, or NULL. */
static struct stream *find_leaving(const struct context *c)
{
    struct session *session = c->session;

    for (uint32_t i = 0; i < session->streams.end; i++) {
        struct stream *s = slots_at(&session->streams, i);

        if (phase_of(s) >= STREAM_LEAVING && s->context == c &&
            !pthread_equal(s->leaver, pthread_self()))
            return s;
    }
    return NULL;
}

/*
 * Under session->lock: wait for streams of the context that other threads are destroying. One whose
 * callback the caller runs goes on without that callback, as if the caller destroyed it itself. A
 * stream whose state callback is what calls here ends later. By force, what is queued in each is
 * discarded.
 */
static void await_leaving(struct context *c, const char *function, struct leaving *l)
{
    struct session *session = c->session;
    struct stream *s, *discarded = NULL;
    uint64_t until;
    uint32_t tag;

    while ((s = find_leaving(c))) {
        upcalls->callback_stream_disown(s, true);
        tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
        if ((!l->force || s == discarded) && may_wait(c, l, &until) &&
            interrupt_cond_wait(&session->stream_gone, &session->lock, until))
            continue;
        l->force = true;
        discarded = s;
        pthread_mutex_unlock(&session->lock);
        abort_discard_leaving(s, tag, function);
        pthread_mutex_lock(&session->lock);
    }
}

int stream_destroy_all_of(struct context *c, const char *function)
{
    struct session *session = c->session;
    struct leaving l = {.limited = c->kernel_ns != 0};
    struct stream *s;
    int error, first = 0;

    pthread_mutex_lock(&session->lock);
    for (uint32_t cursor = 0; (s = stream_next(session, &cursor));) {
        if (s->context != c || phase_of(s) != STREAM_USABLE)
            continue;
        begin_to_leave(s);
        pthread_mutex_unlock(&session->lock);
        error = stream_leave(s, function, &l);
        if (first == 0)
            first = error;
        pthread_mutex_lock(&session->lock);
    }
    await_leaving(c, function, &l);
    pthread_mutex_unlock(&session->lock);
    return first == 0 && l.overrun ? ACL_ERROR_RT_AICORE_TIMEOUT : first;
}

int stream_create(const char *function, uint32_t priority, uint32_t flags, aclrtStream *handle)
{
    int error;
    struct session *session;
    struct stream *s = NULL;
    struct context *c = FIND_OR_RETURN(context_get, function);

    if ((flags & ACL_STREAM_DEVICE_USE_ONLY) && flags != ACL_STREAM_DEVICE_USE_ONLY)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: ACL_STREAM_DEVICE_USE_ONLY cannot be combined with another flag",
                         function);
    session = c->session;
    pthread_mutex_lock(&session->lock);
    /* A context dies under this lock, and its end destroys the streams that it has then. */
    if (!context_is_current(c))
        error = context_error_gone(function);
    else
        error = stream_new(c, function, priority, flags, false, &s);
    if (s)
        *handle = handle_of(HANDLE_STREAM, s);
    pthread_mutex_unlock(&session->lock);
    if (s)
        upcalls->state_callback_stream(s, ACL_RT_STREAM_STATE_CREATE_POST);
    return error;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return stream_create(__func__, priority, flag, stream);
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return stream_create(__func__, 0, STREAM_FLAGS_DEFAULT, stream);
}

static int destroy_by_handle(const char *function, aclrtStream handle, bool force)
{
    int error = 0;
    struct context *c = FIND_OR_RETURN(context_get, function);
    struct leaving l = {.force = force};
    struct stream *s;

    pthread_mutex_lock(&c->session->lock);
    s = handle_get(&c->session->streams, HANDLE_STREAM, handle);
    if (!s || phase_of(s) != STREAM_USABLE)
        error = stream_error_unknown(function, handle);
    else if (s->is_default)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID,
                          "%s: a default stream cannot be destroyed: it goes with its context",
                          function);
    else if (s->context != c)
        error = stream_error_foreign(s, c, function);
    else if ((error = upcalls->capture_refuse_stream(s, function)) == 0)
        begin_to_leave(s);
    pthread_mutex_unlock(&c->session->lock);
    return error != 0 ? error : stream_leave(s, function, &l);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return destroy_by_handle(__func__, stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return destroy_by_handle(__func__, stream, true);
}

static void init(struct session *s, uint32_t seed)
{
    slots_init(&s->streams, sizeof(struct stream), SESSION_STREAMS_MAX, seed);
}

const struct part stream_part = {.session_init = init};
