/*
 * What core and runtime, and memory in its turn, call in rooms above them. This is the one place
 * for that: a room calls what is in rooms below it by name, and what is above it through this
 * table, which client/parts.c fills in when the library is loaded. `make lint` (check-symbols)
 * finds a call upward that is made by name.
 *
 * A member has the name of the function that it calls. Each but the first ones is described here,
 * and declared once more by the header of its module.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

struct callback;
struct context;
struct graph;
struct memory;
struct part;
struct session;
struct stream;
struct stream_ctrl;
struct stream_work;
struct task;

/** Allocations taken out of the table, not freed yet. */
struct memory_list {
    bool taken; /* there may have been none */
    struct memory *first;
};

struct upcalls {
    /** What modules do in the life of a process and a session: client/core/lifecycle.h. */
    const struct part *const *parts;

    /* --- client/runtime/session.h: core/error asks about a session, which it does not know --- */

    bool (*session_ended)(struct session *s);
    bool (*session_npud_gone)(const struct session *s);
    int (*session_error_lost)(const char *function);

    /* --- client/memory/alloc.h --- */

    /**
     * The last context on device is going: take everything that was allocated there out of the
     * table, at this moment, so that what another thread allocates after a new aclrtSetDevice is
     * its own.
     */
    struct memory_list (*memory_take_device)(struct session *s, uint32_t device);
    /** Is there memory of the device, whatever device it goes with? */
    bool (*memory_has_of_device)(struct session *s, uint32_t device);
    /** Free what was taken, if it was, and what the library keeps for coming copies. */
    void (*memory_release)(struct session *s, const char *function, struct memory_list list);

    /* --- client/callback/callback.h --- */

    /** A new stream: no worker, and no callback. */
    void (*callback_stream_init)(struct stream *s);
    /**
     * The stream is about to end: drop what has not begun, wait for what is running (unless the
     * caller is that: then the stream goes on without it). Host functions only if host_too, or if
     * the caller is their thread: they come to their end by themselves. Idempotent. Takes the lock;
     * calls drop functions.
     */
    void (*callback_stream_end)(struct stream *s, bool host_too);
    /**
     * The callback of the stream that runs counts as returned: no thread waits for it any more, and
     * the stream goes on. own_only: only if the caller runs it, and is about to wait for the
     * stream's end. Takes the lock.
     */
    void (*callback_stream_disown)(struct stream *s, bool own_only);
    /**
     * Tasks of the stream were discarded: its callbacks that have not begun never run. The caller
     * disposes of them, without locks.
     */
    struct callback *(*callback_stream_discard)(struct stream *s);
    /** The same for all streams of a context that threads of the program have subscribed to. */
    void (*callback_context_leave)(struct context *c);
    /** The streams of the context are gone: end its thread for host functions, if it has one. */
    void (*callback_context_end)(struct context *c);
    /** npud is gone: drop all that has not begun. Without process->lock. */
    void (*callback_drop_lost)(void);
    /** list, followed by more. */
    struct callback *(*callback_join)(struct callback *list, struct callback *more);
    /** Call the drop functions, and free. Without locks. */
    void (*callback_dispose)(struct callback *list);

    /* --- client/callback/stream_work.h --- */

    /**
     * When the stream gets here, w->run(w) is called by a thread of the library, and the stream
     * goes on when that has returned: 0, or an ACL error with which the task fails. Then w is freed
     * with free(), also if its task is discarded. The stream is locked. Not 0: an ACL error, and w
     * is still the caller's.
     */
    int (*stream_work_launch)(struct stream *s, const char *function, struct stream_work *w);
    /** These bytes were written: work that waits for one of their words runs at once. Any locks. */
    void (*stream_work_written)(struct session *s, const void *address, uint64_t size);
    /** If any work of the session runs at this moment, wait until it has returned. */
    void (*stream_work_await)(struct session *s);
    /**
     * A reset ends the context: when (CLOCK_MONOTONIC) will the kernel that has run longest have
     * run for c->kernel_ns since the reset began? If none runs: that time from now. Any locks.
     */
    uint64_t (*stream_work_kernel_due)(const struct context *c);
    /**
     * An abort of a device begins, before any stream hears of it, and is over, when all have. Work
     * that it has let go in streams that it has left as they were begins anew then.
     */
    void (*stream_work_abort_begins)(struct session *session);
    void (*stream_work_abort_over)(struct session *session);

    /* --- client/callback/exception.h --- */

    /**
     * An error is about to be returned: all callbacks for what npud has told so far have run when
     * this returns. Without locks.
     */
    void (*exception_drain)(struct session *s);
    /**
     * A copier of context_lock_copier() has ended, and copier_id still tells which it was: its
     * failures are no exceptions, also where a callback has kept them from being taken.
     */
    void (*exception_copier_ended)(struct session *s);

    /* --- client/kernel/kernel_failure.h --- */

    bool (*kernel_failure_text)(const struct stream_ctrl *ctrl, uint64_t error, bool of_context,
                                char *text, size_t size);
    /** The failure may be that of a kernel: call what its binary has set. Without locks. */
    void (*kernel_failure_tell)(aclrtExceptionInfo *info);

    /* --- client/kernel/kernel.h --- */

    /** Are these bytes in a variable of kernels? Any locks. */
    bool (*kernel_registry_holds)(const void *address, size_t count);

    /* --- client/callback/state_callback.h; without locks --- */

    /** After a stream was made, or before it goes. */
    void (*state_callback_stream)(struct stream *stream, aclrtStreamState state);
    /** user_id: as the program numbers its devices. */
    void (*state_callback_device)(int32_t user_id, aclrtDeviceState state);

    /* --- client/capture/capture.h, which describes them --- */

    bool (*capture_has)(struct stream *s);
    int (*capture_check)(struct stream *s, const char *function);
    bool (*capture_task)(struct stream *s, const struct task *task);
    int (*capture_error_kind)(const char *function, const char *what);
    int (*capture_refuse_stream)(const struct stream *s, const char *function);
    int (*capture_refuse_device)(struct session *s, uint32_t device, const char *function);
    void (*capture_end_context)(struct context *c);

    /* --- client/graph/graph.h --- */

    /** The streams of the context are gone: its graphs go, too. */
    void (*graph_end_context)(struct context *c);
    /** No thread submits to the stream any more: an update window that is open there is dropped. */
    void (*graph_group_end_stream)(struct stream *s);
    /** What runtime does not know of a graph whose last reference has gone. */
    void (*graph_free_rest)(struct graph *g);
    /* --- client/profile/profile.h --- */

    /**
     * A stream was made, and may be one whose tasks are profiled from now on. The caller holds
     * session->lock, and no other thread submits to it.
     */
    void (*profile_stream_made)(struct stream *s);
    /** Its tasks are over: their times are written, and it is not profiled any more. No locks. */
    void (*profile_stream_ends)(struct stream *s);
    /**
     * Of a stream with STREAM_PROFILED: a task is about to be put into its ring, where there is
     * room for STREAM_STAMPS more; and it was put. Locked, maybe with the lock of callbacks.
     */
    void (*profile_task_begins)(struct stream *s, const struct task *task);
    void (*profile_task_put)(struct stream *s);
    /** A call of the calling thread ends: api_call_watch(). npud's clock. No lock of a session. */
    void (*profile_call)(const char *function, uint64_t begin_ns, uint64_t end_ns);

    /* --- client/runtime/trace_range.h --- */

    /** The same, for a trace. */
    void (*trace_tell_call)(const char *function, uint64_t begin_ns);

    /* --- what stands in the configuration of aclInit --- */

    /**
     * aclInit begins the use, and the text of its configuration is checked already: begin what it
     * asks for of profiling and of dumps. 0, or the ACL error for which aclInit fails. Without
     * locks.
     */
    int (*profile_configure)(const char *text);
    int (*dump_configure)(const char *text);
    /** The last aclFinalize: what aclInit began ends. Without locks. */
    void (*profile_unconfigure)(void);
    void (*dump_unconfigure)(void);

    /* --- client/event/event.h --- */

    /**
     * The positions after `from`, up to `to`, of the stream with this control block are discarded:
     * an event whose latest record is one of them looks as never recorded. Takes session->lock.
     */
    void (*event_forget_records)(struct session *s, const struct stream_ctrl *ctrl, uint64_t from,
                                 uint64_t to);
};

/** Filled in before the program makes its first call. */
extern const struct upcalls *upcalls;
