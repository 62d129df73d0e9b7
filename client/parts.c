/*
 * The modules of the library that have something to do when a process has forked, when a thread
 * ends, and when a session begins or ends (client/core/lifecycle.h), in the order of the walks.
 *
 * The order matters where it says so. Elsewhere it is that of the rooms.
 */
#include <stddef.h>

#include "client/core/lifecycle.h"

const struct part *const lifecycle_parts[] = {
    /* Fork: the child closes the parent's descriptors before it forgets anything else. */
    &session_part,
    &context_part,
    &stream_part,
    &op_timeout_part,
    &init_callback_part,
    /* Free: waits until no thread is inside aclrtProcessReport. Before anything is freed. */
    &callback_part,
    &state_callback_part,
    &stream_work_part,
    &registration_part,
    /* Free: mappings, then what they map, and where. */
    &memory_part,
    &hold_part,
    &physical_part,
    &virtual_part,
    &memory_pool_part,
    &allocator_part,
    /* Lost: descriptors that the program waits for, then the threads that run its callbacks. */
    &event_fd_part,
    &event_part,
    &event_submit_part,
    &notify_part,
    &exception_part,
    &failure_part,
    /* Leave: its thread unmaps segments and rings of queues. It ends before they go. */
    &retire_part,
    &trace_part,
    &mbuf_cache_part,
    &segment_part,
    &pool_part,
    &queue_part,
    /* Thread: its cache of buffers goes back in a call, so the mark of calls goes after it. */
    &api_call_part,
    &acl_config_part,
    &thread_part,
    NULL,
};
