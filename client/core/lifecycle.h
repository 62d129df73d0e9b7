/*
 * What each module does when a process has forked, when a thread ends, and when a session begins,
 * is lost or ends: one row per module, a struct part. client/parts.c lists the rows; it stands
 * above all rooms, so that core and runtime walk the list and know none of the modules.
 *
 * Each walk goes through the list in the order of client/parts.c, and calls what is not NULL.
 */
#pragma once

#include <stdint.h>

#include "client/core/upcall.h"

struct session;
struct thread;

struct part {
    /** aclInit in a forked child: forget what the parent had. Under process->lock. */
    void (*fork_child)(void);

    /** The calling thread ends. */
    void (*thread_exit)(struct thread *t);

    /** A session is made: all of it is zero. seed: for the generations of handles. */
    void (*session_init)(struct session *s, uint32_t seed);
    /**
     * It has connected. 0, or the ACL error for which it cannot be used: then the rows behind it
     * and session_end are not called. Under process->lock.
     */
    int (*session_begin)(struct session *s, const char *function);
    /** npud is gone: let the threads that wait for npud see that. Any thread, with any lock. */
    void (*session_lost)(struct session *s);
    /** aclFinalize, nothing is in use: end what runs beside the calls. Under process->lock. */
    void (*session_end)(struct session *s);
    /** No call finds the session from here on; calls that have found it may go on. */
    void (*session_forget)(struct session *s);
    /** No call uses it any more, and npud is still there: unmap what other processes share. */
    void (*session_leave)(struct session *s);
    /** Free what the session has on the heap. */
    void (*session_free)(struct session *s);
    /** In a forked child: it was the parent's. Close its descriptors; nothing of it is mapped. */
    void (*session_inherited)(struct session *s);
};

/** The rows. Each stands in the module of its name. */
extern const struct part acl_config_part, allocator_part, api_call_part, block_pool_part,
    callback_part, channel_part, check_part, capture_part, context_part, dump_part, event_fd_part,
    event_part, event_submit_part, exception_part, failure_part, graph_label_part, hold_part,
    init_callback_part, kernel_args_part, kernel_failure_part, kernel_fault_part, kernel_lane_part,
    kernel_registry_part, mbuf_cache_part, memory_part, memory_pool_part, notify_part,
    op_limit_part, physical_part, pool_part, profile_part, profile_stamp_part, profile_step_part,
    profile_subscribe_part, queue_part, registration_part, retire_part, segment_part, session_part,
    state_callback_part, stream_part, stream_work_part, thread_part, trace_part, virtual_part;

/** One walk, as LIFECYCLE_WALK(session_lost, s). For session_begin see client/runtime/session.c. */
#define LIFECYCLE_WALK(hook, ...)                                                                  \
    do {                                                                                           \
        for (const struct part *const *p = upcalls->parts; *p; p++)                                \
            if ((*p)->hook)                                                                        \
                (*p)->hook(__VA_ARGS__);                                                           \
    } while (0)
