#include "client/runtime/stream.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"
#include "client/core/error.h"
#include "client/core/handle.h"
#include "client/core/interrupt.h"
#include "client/core/upcall.h"
#include "client/core/wait.h"
#include "proto/util/prefetch.h"

/* --- finding --- */

static struct stream *default_stream(struct context *c, uint32_t *tag)
{
    struct stream *s = c->default_stream;

    if (s)
        *tag = atomic_load_explicit(&s->slot.tag, memory_order_relaxed);
    return s;
}

/* Inlined: a query that asks for no tag pays nothing for it. */
static inline __attribute__((always_inline)) struct stream *find_tag(const char *function,
                                                                     void *handle, uint32_t *tag,
                                                                     int *error)
{
    struct context *c = context_get(function, error);
    struct stream *s;

    if (!c)
        return NULL;
    s = handle ? handle_get_tag(&c->session->streams, HANDLE_STREAM, handle, tag)
               : default_stream(c, tag);
    if (!s)
        *error = stream_error_unknown(function, handle);
    return s;
}

struct stream *stream_find_tag(const char *function, void *handle, uint32_t *tag, int *error)
{
    return find_tag(function, handle, tag, error);
}

struct stream *stream_find(const char *function, void *handle, int *error)
{
    uint32_t tag;

    return find_tag(function, handle, &tag, error);
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
        *error = stream_error_unknown(function, handle);
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
        *error = stream_error_unknown(function, handle);
        return NULL;
    }
    if (__builtin_expect(s->context != c, 0)) {
        *error = stream_error_foreign(s, c, function);
        return NULL;
    }
    if (__builtin_expect(!interrupt_take(&s->lock), 0)) {
        *error = ACLNPUD_ERROR_INTERRUPTED;
        return NULL;
    }
    /* Destroyed while this thread waited for the lock? */
    if (__builtin_expect(
            !(tag & 1) || atomic_load_explicit(&s->slot.tag, memory_order_relaxed) != tag, 0)) {
        biased_lock_give(&s->lock);
        *error = stream_error_unknown(function, handle_of(HANDLE_STREAM, s));
        return NULL;
    }
    return s;
}

/* --- submitting --- */

/*
 * The engine has read an entry a lap ago, and has its line. It takes a while to get the line back,
 * and the locked instructions of a submission wait for it: it is asked for so many tasks ahead.
 */
#define ENTRIES_AHEAD 16

/*
 * Nothing may be submitted now, and why: for `code`, which the caller has read of `aborting`, or if
 * that is 0 because the stream has stopped. It is read once: an abort ends at any time. Locked.
 */
static int refuse_task(struct stream *s, const char *function, int code)
{
    if (!slot_live(s))
        return stream_error_unknown(
            function,
            handle_of(HANDLE_STREAM, s)); /* aclrtDestroyStreamForce waits for this thread */
    if (code != 0)
        return stream_error_aborted(function, code);
    return stream_error_stopped(s->ctrl, function);
}

int stream_waited(struct stream *s, const char *function, int r)
{
    int code = atomic_load(&s->aborting);

    /* The abort of the device is over, as a callback refused it: what was waited for is not. */
    if (r == -ECANCELED && code == 0 && !stream_stopped(s))
        code = ACL_ERROR_RT_DEVICE_TASK_ABORT;
    /* An abort asks to leave first, and may then have made what was waited for. */
    if (r == -ECANCELED || (r == 0 && code != 0))
        return refuse_task(s, function, code);
    if (r == -EINTR)
        return ACLNPUD_ERROR_INTERRUPTED;
    return r == 0 ? 0 : session_error_lost(function);
}

/* With the stamps that come with it. */
static uint32_t tasks_of_one(const struct stream *s)
{
    return 1 + s->depth - s->room;
}

static int wait_for_room(struct stream *s, const char *function, uint32_t n)
{
    return stream_waited(s, function,
                         wait_position_or(&s->session->waits, function, s->ctrl,
                                          s->tail - s->depth + n * tasks_of_one(s), &s->aborting));
}

static inline __attribute__((always_inline)) int check_stream(struct stream *s,
                                                              const char *function)
{
    int code;

    if (__builtin_expect(session_lost(s->session), 0))
        return session_error_lost(function);
    if (__builtin_expect(s->special & (STREAM_CAPTURES | STREAM_UPDATES), 0) &&
        (s->update || upcalls->capture_has(s)))
        return upcalls->capture_check(s, function);
    if (__builtin_expect(stream_mode(s) > DOORBELL_STRICT, 0))
        return device_check_lost(s->session, function, s->device);
    code = atomic_load(&s->aborting);
    if (stream_stopped(s) || __builtin_expect(code != 0, 0))
        return refuse_task(s, function, code);
    return 0;
}

int stream_check(struct stream *s, const char *function)
{
    return check_stream(s, function);
}

int stream_reserve(struct stream *s, const char *function)
{
    int error = check_stream(s, function);

    if (__builtin_expect(error != 0, 0))
        return error;
    prefetch_to_write(&s->ring[(s->tail + ENTRIES_AHEAD) & (s->depth - 1)]);
    if (__builtin_expect(s->tail - s->done_seen < s->room, 1))
        return 0;
    s->done_seen = atomic_load_explicit(&s->ctrl->done, memory_order_acquire);
    return s->tail - s->done_seen < s->room ? 0 : wait_for_room(s, function, 1);
}

int stream_reserve_tasks(struct stream *s, const char *function, uint32_t n)
{
    RETURN_IF_ERROR(stream_check(s, function));
    s->done_seen = atomic_load_explicit(&s->ctrl->done, memory_order_acquire);
    return s->tail - s->done_seen + n * tasks_of_one(s) <= s->depth ? 0
                                                                    : wait_for_room(s, function, n);
}

/*
 * All but the sequence. Field by field, and volatile, so that the compiler reads no two fields at
 * once: the caller has just stored them one by one, and a processor hands several stores to one
 * load only through the cache. The entry would be late, and its publication waits for it.
 */
static inline void write_entry(struct task *entry, const volatile struct task *task)
{
    static_assert(offsetof(struct task, words) == 24, "each field is copied");

    entry->op = task->op;
    entry->flags = task->flags;
    entry->implicit = task->implicit;
    entry->object = task->object;
    entry->generation = task->generation;
    entry->thread = task->thread;
    for (size_t i = 0; i < sizeof(entry->words) / sizeof(entry->words[0]); i++)
        entry->words[i] = task->words[i];
}

uint64_t stream_checked_name(const struct stream *s)
{
    return s->context->hidden ? CHECK_NO_STREAM : (uint64_t)(uintptr_t)handle_of(HANDLE_STREAM, s);
}

static inline __attribute__((always_inline)) void put_task(struct stream *s, struct task *task)
{
    struct task *entry;

    task->implicit = (uint16_t)s->implicit;
    s->implicit_run = 0;
    entry = &s->ring[s->tail & (s->depth - 1)];
    write_entry(entry, task);
    KILL_POINT(SUBMIT_WRITTEN);
    s->tail++;
    if (stream_publish_entry(s->ctrl, entry, s->tail) && doorbell_raise(s->bell, s->remote)) {
        eventfd_write(s->doorbell, 1);
        KILL_POINT(BELL_RUNG);
    }
    /* Last, also the look at the clock: meanwhile the engine is at work. */
    if (__builtin_expect(stream_mode(s) == DOORBELL_STRICT, 0) && trace_runs(&s->session->trace))
        trace_submitted(&s->session->trace, task->op, s->remote, s->tail - 1);
}

static inline __attribute__((always_inline)) void put_own_task(struct stream *s, struct task *task)
{
    struct thread *t = thread_self();

    task->thread = t->tid;
    if (!(s->special & STREAM_DEFAULT))
        t->last_task = (uint32_t)s->tail + s->implicit;
    put_task(s, task);
}

void stream_put_stamp(struct stream *s)
{
    struct task task = {.op = TASK_NOP, .flags = TASK_NOP_TIME, .thread = thread_self()->tid};

    put_task(s, &task);
}

/*
 * A stream that is captured records the task, a process that is checked writes it down, and a
 * profile puts stamps around it.
 */
static __attribute__((cold, noinline)) void submit_special(struct stream *s, struct task *task)
{
    if ((s->special & STREAM_CAPTURES) && upcalls->capture_task(s, task))
        return;
    if (s->special & STREAM_PROFILED)
        upcalls->profile_task_begins(s, task);
    if (s->special & STREAM_CHECKED)
        checked_task(stream_checked_name(s), task, s->tail);
    put_own_task(s, task);
    if (s->special & STREAM_PROFILED)
        upcalls->profile_task_put(s);
}

void stream_submit_reserved(struct stream *s, struct task *task)
{
    KILL_POINT(SUBMIT_BEGIN);
    if (__builtin_expect(s->special & ~STREAM_DEFAULT, 0))
        submit_special(s, task);
    else
        put_own_task(s, task);
}

int stream_submit(struct stream *s, const char *function, struct task *task)
{
    int error = stream_reserve(s, function);

    if (__builtin_expect(error == 0, 1))
        stream_submit_reserved(s, task);
    return error;
}

int stream_drain(struct stream *s, const char *function)
{
    int error = stream_check(s, function);

    if (error == 0 && stream_captures(s))
        error = upcalls->capture_error_kind(function, "what the calling thread does by itself");
    if (error == 0)
        error = stream_waited(
            s, function,
            wait_position_or(&s->session->waits, function, s->ctrl, s->tail, &s->aborting));
    /* What it waited for may have been the end of its device or context. */
    return error != 0 ? error : stream_check(s, function);
}

/* --- properties --- */

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    CALL_SCOPE;
    REQUIRE(priority);
    struct stream *s = FIND_OR_RETURN(stream_find, __func__, stream);

    *priority = s->priority;
    return 0;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    CALL_SCOPE;
    REQUIRE(flags);
    struct stream *s = FIND_OR_RETURN(stream_find, __func__, stream);

    *flags = s->flags;
    return 0;
}
