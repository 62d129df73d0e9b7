#include "client/runtime/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/abort.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/interrupt.h"
#include "client/runtime/op_timeout.h"
#include "client/runtime/upcall.h"
#include "client/core/wait.h"
#include "proto/wire/error_name.h"

#define FLAGS_KNOWN                                                                                \
    (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | ACL_STREAM_HUGE |     \
     ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)
/* Streams that hosts neither submit to nor wait for. */
#define FLAGS_NO_WAIT (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

/* --- finding --- */

static int bad_stream(const char *function)
{
    return error_set(ACL_ERROR_RT_INVALID_HANDLE,
                     "%s: this is no stream of this process, or it was destroyed", function);
}

int stream_error_aborted(const char *function, int32_t code)
{
    return error_set(code, "%s: the tasks of the %s were discarded by another call", function,
                     code == ACL_ERROR_RT_DEVICE_TASK_ABORT ? "device" : "stream");
}

struct stream *stream_find(const char *function, void *handle, int *error)
{
    struct context *c = context_get(function, error);
    struct stream *s;

    if (!c)
        return NULL;
    s = handle ? handle_get(&c->session->streams, HANDLE_STREAM, handle) : c->default_stream;
    if (!s)
        *error = bad_stream(function);
    return s;
}

struct stream *stream_find_anywhere(const char *function, void *handle, int *error)
{
    struct session *session = session_peek();
    struct stream *s;

    if (!handle)
        return stream_find(function, NULL, error);
    *error = process_enter();
    if (*error != 0)
        return NULL;
    s = session ? handle_get(&session->streams, HANDLE_STREAM, handle) : NULL;
    if (!s)
        *error = bad_stream(function);
    return s;
}

static struct stream *default_stream(struct context *c, uint32_t *tag)
{
    struct stream *s = c->default_stream;

    if (s)
        *tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
    return s;
}

struct stream *stream_lock(const char *function, void *handle, int *error)
{
    struct context *c = context_get(function, error);
    struct stream *s;
    uint32_t tag = 0;

    if (__builtin_expect(!c, 0))
        return NULL;
    s = handle ? handle_get_tag(&c->session->streams, HANDLE_STREAM, handle, &tag)
               : default_stream(c, &tag);
    if (__builtin_expect(!s, 0)) {
        *error = bad_stream(function);
        return NULL;
    }
    if (__builtin_expect(s->context != c, 0)) {
        *error = error_set(ACL_ERROR_RT_STREAM_CONTEXT,
                           "%s: the stream belongs to another context (device %u) than the current "
                           "one (device %u)",
                           function, s->device, c->device);
        return NULL;
    }
    if (__builtin_expect(!interrupt_lock(&s->lock), 0)) {
        *error = ACLNPUD_ERROR_INTERRUPTED;
        return NULL;
    }
    /* Destroyed while we waited for the lock? */
    if (__builtin_expect(
            !(tag & 1) || atomic_load_explicit(&s->slot.tag, memory_order_relaxed) != tag, 0)) {
        pthread_mutex_unlock(&s->lock);
        *error = bad_stream(function);
        return NULL;
    }
    return s;
}

/* --- submitting --- */

/* What may not be submitted now, and why. Locked. */
static int refuse(struct stream *s, const char *function)
{
    int code = atomic_load(&s->aborting);

    if (!slot_live(s))
        return bad_stream(function); /* aclrtDestroyStreamForce is waiting for us */
    if (code != 0)
        return stream_error_aborted(function, code);
    return stream_error_stopped(s->ctrl, function);
}

int stream_waited(struct stream *s, const char *function, int r)
{
    /* An abort asks to leave first, and may then have made what was waited for. */
    if (r == -ECANCELED || (r == 0 && atomic_load(&s->aborting) != 0))
        return refuse(s, function);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    return r == 0 ? 0 : session_error_lost(function);
}

static int wait_for_room(struct stream *s, const char *function)
{
    return stream_waited(s, function,
                         wait_position_or(&s->session->waits, function, s->ctrl,
                                          s->tail - s->depth + 1, &s->aborting));
}

bool device_is_lost(const struct session *s, uint32_t device)
{
    return atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed) >
           DOORBELL_STRICT;
}

int device_check_lost(struct session *s, const char *function, uint32_t device)
{
    uint32_t mode = atomic_load_explicit(&s->page->doorbell[device].mode, memory_order_relaxed);

    if (mode <= DOORBELL_STRICT)
        return 0;
    return error_set((int)mode, "%s: device %u is lost", function, device);
}

int stream_check(struct stream *s, const char *function)
{
    if (__builtin_expect(session_lost(s->session), 0))
        return session_error_lost(function);
    if (__builtin_expect(stream_mode(s) > DOORBELL_STRICT, 0))
        return device_check_lost(s->session, function, s->device);
    if (stream_stopped(s) || __builtin_expect(atomic_load(&s->aborting) != 0, 0))
        return refuse(s, function);
    return 0;
}

int stream_reserve(struct stream *s, const char *function)
{
    int error = stream_check(s, function);

    if (__builtin_expect(error != 0, 0))
        return error;
    if (__builtin_expect(s->tail - s->done_seen < s->depth, 1))
        return 0;
    s->done_seen = atomic_load_explicit(&s->ctrl->done, memory_order_acquire);
    return s->tail - s->done_seen < s->depth ? 0 : wait_for_room(s, function);
}

void stream_submit_reserved(struct stream *s, struct task *task)
{
    struct thread *t = thread_self();
    struct task *entry;

    KILL_POINT(SUBMIT_BEGIN);
    task->thread = t->tid;
    task->taskless = (uint16_t)s->taskless;
    s->taskless_run = 0;
    if (!s->is_default)
        t->last_task = (uint32_t)s->tail + s->taskless;
    entry = &s->ring[s->tail & (s->depth - 1)];
    memcpy((char *)entry + sizeof(entry->sequence), (char *)task + sizeof(task->sequence),
           sizeof(*task) - sizeof(task->sequence));
    KILL_POINT(SUBMIT_WRITTEN);
    s->tail++;
    if (stream_publish_entry(s->ctrl, entry, s->tail) && doorbell_raise(s->bell, s->remote)) {
        eventfd_write(s->doorbell, 1);
        KILL_POINT(BELL_RUNG);
    }
}

int stream_submit(struct stream *s, const char *function, struct task *task)
{
    int error = stream_reserve(s, function);

    if (__builtin_expect(error == 0, 1))
        stream_submit_reserved(s, task);
    return error;
}

/* --- errors --- */

static const char *error_cause(int code)
{
    switch (code) {
    case ACL_ERROR_RT_TASK_TIMEOUT:
        return "it waited longer than its time limit";
    case ACL_ERROR_RT_SYS_DMA:
        return "it used memory that is freed, of another process, or too short";
    case ACL_ERROR_RT_INVALID_HANDLE:
        return "what it waited for was destroyed";
    case ACL_ERROR_RT_PARAM_INVALID:
        return "npud did not understand it";
    case ACL_ERROR_RT_LOST_HEARTBEAT:
        return "its device, or that of a stream it waited for, was lost";
    default:
        return error_name(code) ? error_name(code) : "it ended with this error";
    }
}

/* Codes that say how a stream finished, and are not kept in the last-error record. */
static bool finished_with_remark(int code)
{
    switch (code) {
    case ACL_ERROR_RT_END_OF_SEQUENCE:
    case ACL_ERROR_RT_MODEL_ABORT_NORMAL:
    case ACL_ERROR_RT_AICORE_OVER_FLOW:
    case ACL_ERROR_RT_AIVEC_OVER_FLOW:
    case ACL_ERROR_RT_OVER_FLOW:
    case ACL_ERROR_RT_SOCKET_CLOSE:
        return true;
    default:
        return false;
    }
}

static int report(int32_t id, const char *function, int code, int pid)
{
    if (code == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR)
        return error_set(code,
                         "%s: stream %d waited for a record of an IPC event or notify by process "
                         "%d, which ended or dropped its stream before the record was executed, or "
                         "the record failed",
                         function, id, pid);
    if (finished_with_remark(code))
        return error_soft(code, "%s: stream %d finished with a remark", function, id);
    return error_set(code, "%s: a task of stream %d failed: %s", function, id, error_cause(code));
}

static int error_stopped(uint64_t error, const char *function)
{
    int code = stream_error_code(error);

    return error_set(code,
                     "%s: a task of this context failed (%s), and its streams stop on failure: "
                     "destroy the context or reset the device",
                     function, error_cause(code));
}

int stream_error_stopped(struct stream_ctrl *ctrl, const char *function)
{
    return error_stopped(atomic_load_explicit(&ctrl->stopped, memory_order_acquire), function);
}

/* --- life --- */

/* Under session->lock. Readers without it pair with the release: see stream_is(). */
static void set_phase(struct stream *s, enum stream_phase phase)
{
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

struct stream *streams_next(struct session *session, uint32_t *cursor)
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

static void fill(struct stream *s, struct context *c, const Npud__CreateStreamReply *reply,
                 void *segment)
{
    struct session *session = c->session;

    s->session = session;
    s->context = c;
    s->device = c->device;
    s->remote = reply->slot;
    s->id = reply->stream_id;
    s->ctrl = arena_stream_ctrl(segment, reply->slot);
    s->ring = arena_stream_ring(segment, reply->slot, session->ring_depth);
    s->depth = session->ring_depth;
    s->bell = &session->page->doorbell[c->device];
    s->doorbell = session->devices[c->device].doorbell;
    s->tail = s->first = s->done_seen = reply->position;
    arena_ring_taken(session, s->remote);
    callback_stream_init(s);
    s->taskless = 0;
    s->taskless_run = 0;
    atomic_store(&s->aborting, 0);
}

static int create_remote(struct stream *s, struct context *c, const char *function)
{
    struct session *session = c->session;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateStream create = NPUD__CREATE_STREAM__INIT;
    Npud__Reply *reply = NULL;
    void **segment;
    int error, fd = -1;

    create.device = c->device;
    create.priority = s->priority;
    create.flags = s->flags;
    create.context = c->number;
    request.create_stream = &create;
    request.body_case = NPUD__REQUEST__BODY_CREATE_STREAM;
    error = session_request(session, function, &request, &reply, &fd);
    if (error != 0)
        return error;
    segment = &session->stream_segments[reply->create_stream->slot / ARENA_STREAMS];
    if (fd >= 0)
        error = session_map_segment(session, function, fd,
                                    arena_stream_segment_size(session->ring_depth), segment);
    if (error == 0 && !*segment) /* it came while this process had no descriptor left for it */
        error = error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s: the arena could not be mapped",
                          function);
    if (error == 0)
        fill(s, c, reply->create_stream, *segment);
    session_reply_free(reply);
    return error;
}

/* What the slot's last stream has left. */
static void set_defaults(struct stream *s)
{
    s->overflow_check = s->custom_tag = s->cache_op_info = 0;
    for (unsigned i = 0; i < RES_LIMITS; i++)
        atomic_store_explicit(&s->res_limit[i], 0, memory_order_relaxed);
}

int stream_new(struct context *c, const char *function, uint32_t priority, uint32_t flags,
               bool is_default, struct stream **sp)
{
    struct stream *s = slots_take(&c->session->streams);
    int error;

    if (!s)
        return error_set(ACL_ERROR_RT_NO_STREAM_RESOURCE, "%s: a process can have %u streams",
                         function, SESSION_STREAMS_MAX);
    s->priority = priority > STREAM_PRIORITY_LEAST ? STREAM_PRIORITY_LEAST : priority;
    s->flags = flags & FLAGS_KNOWN;
    s->is_default = is_default;
    set_defaults(s);
    error = create_remote(s, c, function);
    if (error != 0) {
        slots_put(&c->session->streams, s);
        return error;
    }
    set_phase(s, STREAM_USABLE);
    slots_publish(s);
    *sp = s;
    return 0;
}

static int destroy_remote(struct stream *s, const char *function)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__DestroyStream destroy = NPUD__DESTROY_STREAM__INIT;

    destroy.slot = s->remote;
    request.destroy_stream = &destroy;
    request.body_case = NPUD__REQUEST__BODY_DESTROY_STREAM;
    return session_command(s->session, function, &request);
}

/* Everything that was submitted is done, whatever came of it. False: the call is to end before. */
static bool await_work(struct stream *s, const char *function)
{
    uint64_t tail;

    /* The lock lets submitters out; an abort may need it while we wait. */
    if (!interrupt_lock(&s->lock))
        return false;
    tail = s->tail;
    pthread_mutex_unlock(&s->lock);
    return wait_position(&s->session->waits, function, s->ctrl, tail, WAIT_FOREVER, NULL) != -EINTR;
}

/*
 * The handle is dead already. Submitters that were in time are let out, then npud forgets the
 * stream: not before, because its slot may be another stream's from then on. Callbacks that have
 * not begun are dropped, but for host functions of a stream that is to come to its end: those
 * always do. *force: what is queued is discarded; becomes true when the caller was interrupted.
 */
static int stream_end(struct stream *s, const char *function, bool *force)
{
    struct session *session = s->session;
    int error;

    if (*force)
        abort_discard(s, function);
    callback_stream_end(s, *force);
    if (!*force && !await_work(s, function)) {
        /* Not half: what is left of it goes, and of the caller's other streams too. */
        *force = true;
        abort_discard(s, function);
    }
    /* Nobody submits any more: who had the lock when the handle died has let go of it. */
    callback_stream_end(s, true);
    pthread_mutex_lock(&session->lock);
    set_phase(s, STREAM_ENDING);
    arena_ring_leaving(session, s->remote, s->tail - s->first);
    pthread_mutex_unlock(&session->lock);
    abort_lock_ending(s);
    error = destroy_remote(s, function);
    abort_unlock(s);
    pthread_mutex_lock(&session->lock);
    if (error == 0)
        arena_ring_left(session, s->remote);
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
static int stream_leave(struct stream *s, const char *function, bool *force)
{
    struct session *session = s->session;

    state_callback_stream(s, ACL_RT_STREAM_STATE_DESTROY_PRE);
    pthread_mutex_lock(&session->lock);
    slots_unpublish(s);
    pthread_mutex_unlock(&session->lock);
    return stream_end(s, function, force);
}

/*
 * Under session->lock: wait for streams of the context that other threads are destroying. One whose
 * callback the caller runs goes on without that callback, as if the caller destroyed it itself. A
 * stream whose state callback is what calls here ends later. If the caller is interrupted, they end
 * by force.
 */
static void await_leaving(struct context *c, const char *function)
{
    struct session *session = c->session;
    struct stream *s;
    uint32_t tag;
    bool found;

    do {
        found = false;
        for (uint32_t i = 0; i < session->streams.end && !found; i++) {
            s = slots_at(&session->streams, i);
            found = phase_of(s) >= STREAM_LEAVING && s->context == c &&
                    !pthread_equal(s->leaver, pthread_self());
        }
        if (found) {
            callback_stream_go_on(s);
            tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
            if (interrupt_cond_wait(&session->stream_gone, &session->lock))
                continue;
            pthread_mutex_unlock(&session->lock);
            abort_discard_leaving(s, tag, function);
            pthread_mutex_lock(&session->lock);
        }
    } while (found);
}

int streams_destroy_of(struct context *c, const char *function)
{
    struct session *session = c->session;
    struct stream *s;
    bool force = false;
    int error, first = 0;

    pthread_mutex_lock(&session->lock);
    for (uint32_t cursor = 0; (s = streams_next(session, &cursor));) {
        if (s->context != c || phase_of(s) != STREAM_USABLE)
            continue;
        begin_to_leave(s);
        pthread_mutex_unlock(&session->lock);
        error = stream_leave(s, function, &force);
        if (first == 0)
            first = error;
        pthread_mutex_lock(&session->lock);
    }
    await_leaving(c, function);
    pthread_mutex_unlock(&session->lock);
    return first;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    CALL_SCOPE;
    int error;
    struct context *c;
    struct session *session;
    struct stream *s = NULL;

    REQUIRE(stream);
    c = context_get(__func__, &error);
    if (!c)
        return error;
    if ((flag & ACL_STREAM_DEVICE_USE_ONLY) && flag != ACL_STREAM_DEVICE_USE_ONLY)
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "aclrtCreateStreamWithConfig: ACL_STREAM_DEVICE_USE_ONLY goes with no other flag");
    session = c->session;
    pthread_mutex_lock(&session->lock);
    /* A context dies under this lock, and its end destroys the streams that it has then. */
    if (context_peek(thread_self()) != c)
        error = context_error_gone(__func__);
    else
        error = stream_new(c, __func__, priority, flag, false, &s);
    if (s)
        *stream = handle_of(HANDLE_STREAM, s);
    pthread_mutex_unlock(&session->lock);
    if (s)
        state_callback_stream(s, ACL_RT_STREAM_STATE_CREATE_POST);
    return error;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    CALL_SCOPE;

    return aclrtCreateStreamWithConfig(stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
}

static int destroy(const char *function, aclrtStream handle, bool force)
{
    int error;
    struct context *c = context_get(function, &error);
    struct stream *s;

    if (!c)
        return error;
    pthread_mutex_lock(&c->session->lock);
    s = handle_get(&c->session->streams, HANDLE_STREAM, handle);
    if (!s || phase_of(s) != STREAM_USABLE)
        error = bad_stream(function);
    else if (s->is_default)
        error = error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: a default stream cannot be destroyed",
                          function);
    else if (s->context != c)
        error = error_set(ACL_ERROR_RT_STREAM_CONTEXT, "%s: the stream belongs to another context",
                          function);
    else
        begin_to_leave(s);
    pthread_mutex_unlock(&c->session->lock);
    return error != 0 ? error : stream_leave(s, function, &force);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return destroy(__func__, stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(stream);
    return destroy(__func__, stream, true);
}

/* --- waiting --- */

static int sync_timeout_error(const char *function)
{
    return error_set(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                     "%s: not finished within the time limit; nothing was cancelled", function);
}

/*
 * A stream and what it had been given when the synchronise call began. The control block is
 * remembered beside the object, which may stand for another stream of npud's by the time it is
 * waited for; positions of a control block never go back.
 */
struct target {
    struct stream *stream;
    struct stream_ctrl *ctrl;
    uint32_t tag;
    uint32_t device;
    int32_t id;
    uint64_t position;
};

static struct target target_of(struct stream *s)
{
    /* The tag first: what is read behind it may be of a later stream, and the caller looks. */
    uint32_t tag = atomic_load_explicit(&s->slot.tag, memory_order_acquire);

    return (struct target){
        .stream = s,
        .ctrl = s->ctrl,
        .tag = tag,
        .device = s->device,
        .id = s->id,
        .position = atomic_load_explicit(&s->ctrl->tail, memory_order_acquire),
    };
}

static int wait_until(struct session *session, const struct target *t, const char *function,
                      uint64_t deadline)
{
    struct stream_ctrl *ctrl = t->ctrl;
    int32_t discarded;
    int r = wait_position(&session->waits, function, ctrl, t->position, deadline, &discarded);
    uint64_t stopped = atomic_load_explicit(&ctrl->stopped, memory_order_acquire);

    if (r == -ETIMEDOUT)
        return sync_timeout_error(function);
    if (r == -EPIPE)
        return session_error_lost(function);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    if (stopped != 0 && stream_is(t->stream, t->tag))
        return error_stopped(stopped, function);
    return discarded == 0 ? 0 : stream_error_aborted(function, discarded);
}

/*
 * The failure that no synchronising call has reported yet, or 0. Reports it: the next call gets 0
 * unless another task fails. Continue-on-failure mode.
 *
 * Under session->lock no stream ends: what is taken is a failure of the stream that was meant, and
 * not of the next one with its control block.
 */
static int take_error(struct session *session, const struct target *t, const char *function)
{
    uint64_t error = atomic_load_explicit(&t->ctrl->error, memory_order_relaxed);

    if (error != 0) {
        pthread_mutex_lock(&session->lock);
        /* Of two threads that synchronise, one reports. */
        error = stream_is(t->stream, t->tag)
                    ? atomic_exchange_explicit(&t->ctrl->error, 0, memory_order_acquire)
                    : 0;
        pthread_mutex_unlock(&session->lock);
    }
    /* Until it is back, whatever its streams had to report. */
    if (device_is_lost(session, t->device))
        return device_check_lost(session, function, t->device);
    return error == 0 ? 0
                      : report(t->id, function, stream_error_code(error), stream_error_pid(error));
}

int stream_drain(struct stream *s, const char *function)
{
    int error = stream_check(s, function);

    if (error == 0)
        error = stream_waited(
            s, function,
            wait_position_or(&s->session->waits, function, s->ctrl, s->tail, &s->aborting));
    /* What it waited for may have been the end of its device or context. */
    return error != 0 ? error : stream_check(s, function);
}

static int check_timeout(const char *function, int32_t timeout)
{
    if (timeout > 0 || timeout == -1)
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: timeout is %d ms, must be positive or -1",
                     function, timeout);
}

/* Is t the stream that handle names in the calling thread, still? */
static bool is_target(const struct target *t, struct session *session, void *handle)
{
    struct context *c;

    if (handle)
        return handle_get(&session->streams, HANDLE_STREAM, handle) == t->stream;
    c = context_peek(thread_self());
    return c && c->default_stream == t->stream;
}

static int synchronize(const char *function, aclrtStream handle, int32_t timeout)
{
    uint64_t deadline = wait_deadline(timeout);
    int error;
    struct stream *s = stream_find(function, handle, &error);
    struct session *session;
    struct target t;
    uint32_t flags;

    if (!s)
        return error;
    session = s->session;
    error = atomic_load_explicit(&s->aborting, memory_order_acquire);
    flags = s->flags;
    t = target_of(s);
    /* A slot changes its generation before its next stream: this one is what the handle named. */
    if (!is_target(&t, session, handle))
        return bad_stream(function);
    if (flags & FLAGS_NO_WAIT)
        return 0;
    if (error != 0)
        return stream_error_aborted(function, error);
    error = wait_until(session, &t, function, deadline);
    if (error == 0)
        error = take_error(session, &t, function);
    if (error != 0 && error != ACLNPUD_ERROR_INTERRUPTED)
        exception_drain(session);
    return error;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    CALL_SCOPE;

    return synchronize(__func__, stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    CALL_SCOPE;
    int error = check_timeout(__func__, timeout);

    return error != 0 ? error : synchronize(__func__, stream, timeout);
}

/* All streams of this process on the device, as the API documentation has it: also those that
 * another thread is destroying. */
static size_t snapshot(struct context *c, struct target **targets)
{
    struct session *session = c->session;
    struct stream *s;
    size_t n = 0;

    pthread_mutex_lock(&session->lock);
    *targets = calloc(session->streams.live + 1, sizeof(**targets));
    if (*targets)
        for (uint32_t i = 0; (s = streams_next(session, &i));)
            if (s->device == c->device && !(s->flags & FLAGS_NO_WAIT))
                (*targets)[n++] = target_of(s);
    pthread_mutex_unlock(&session->lock);
    return n;
}

static int synchronize_device(const char *function, int32_t timeout)
{
    uint64_t deadline = wait_deadline(timeout);
    struct target *targets;
    int error, first = 0;
    struct context *c = context_get(function, &error);
    size_t n;

    if (!c)
        return error;
    n = snapshot(c, &targets);
    if (!targets)
        return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", function);
    for (size_t i = 0; i < n; i++) {
        error = wait_until(c->session, &targets[i], function, deadline);
        if (error == 0)
            error = take_error(c->session, &targets[i], function);
        if (first == 0 || error == ACLNPUD_ERROR_INTERRUPTED)
            first = error;
        if (error == ACL_ERROR_RT_SOCKET_CLOSE || error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT ||
            error == ACLNPUD_ERROR_INTERRUPTED)
            break;
    }
    free(targets);
    if (first != 0 && first != ACLNPUD_ERROR_INTERRUPTED)
        exception_drain(c->session);
    return first;
}

aclError aclrtSynchronizeDevice(void)
{
    CALL_SCOPE;

    return synchronize_device(__func__, -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    CALL_SCOPE;
    int error = check_timeout(__func__, timeout);

    return error != 0 ? error : synchronize_device(__func__, timeout);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    CALL_SCOPE;
    int error;
    struct stream *s;
    bool done;

    REQUIRE(status);
    s = stream_find(__func__, stream, &error);
    if (!s)
        return error;
    if (session_lost(s->session))
        return session_error_lost(__func__);
    if (stream_stopped(s))
        return stream_error_stopped(s->ctrl, __func__);
    done = (s->flags & FLAGS_NO_WAIT) ||
           atomic_load_explicit(&s->ctrl->done, memory_order_acquire) >=
               atomic_load_explicit(&s->ctrl->tail, memory_order_acquire);
    /* All is done soon when the device is lost: who polls need not look at that each time. */
    if (done && stream_mode(s) > DOORBELL_STRICT)
        return device_check_lost(s->session, __func__, s->device);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return 0;
}

/* --- properties --- */

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    CALL_SCOPE;
    int error;
    struct stream *s;

    REQUIRE(streamId);
    s = stream_find_anywhere(__func__, stream, &error);
    if (!s)
        return error;
    *streamId = s->id;
    return 0;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    CALL_SCOPE;
    int error;
    struct stream *s;

    REQUIRE(priority);
    s = stream_find(__func__, stream, &error);
    if (!s)
        return error;
    *priority = s->priority;
    return 0;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    CALL_SCOPE;
    int error;
    struct stream *s;

    REQUIRE(flags);
    s = stream_find(__func__, stream, &error);
    if (!s)
        return error;
    *flags = s->flags;
    return 0;
}

/* --- npud's own --- */

#define DELAY_MAX_US UINT64_C(3600000000)

aclError aclnpudLaunchDelay(uint64_t microseconds, aclError result, aclrtStream stream)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_DELAY};
    int error;
    struct stream *s;

    if (microseconds > DELAY_MAX_US)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclnpudLaunchDelay: microseconds is %llu, must be at most %llu, an hour",
                         (unsigned long long)microseconds, (unsigned long long)DELAY_MAX_US);
    if (result != 0 && (result < 100000 || result > 599999))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclnpudLaunchDelay: result is %d, must be 0 or from 100000 to 599999",
                         result);
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    task.delay.ns = microseconds * 1000;
    task.delay.result = result;
    op_timeout_apply(&task);
    error = stream_submit(s, __func__, &task);
    stream_unlock(s);
    return error;
}
