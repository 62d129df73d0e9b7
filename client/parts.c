/*
 * What rooms call above them (client/core/upcall.h): the modules of the library that have something
 * to do when a process has forked, when a thread ends, and when a session begins or ends
 * (client/core/lifecycle.h), in the order of the walks; and single functions.
 *
 * The order matters where it says so. Elsewhere it is that of the rooms.
 */
#include <stddef.h>

#include "client/callback/callback.h"
#include "client/callback/exception.h"
#include "client/callback/state_callback.h"
#include "client/callback/stream_work.h"
#include "client/core/lifecycle.h"
#include "client/core/upcall.h"
#include "client/capture/capture.h"
#include "client/dump/dump.h"
#include "client/event/event.h"
#include "client/graph/graph.h"
#include "client/graph/graph_group.h"
#include "client/kernel/kernel.h"
#include "client/kernel/kernel_failure.h"
#include "client/memory/alloc.h"
#include "client/profile/profile.h"
#include "client/runtime/session.h"
#include "client/runtime/trace_range.h"

static const struct part *const parts[] = {
    /* Fork: the child closes the parent's descriptors before it forgets anything else. */
    &session_part,
    &context_part,
    &stream_part,
    &capture_part,
    &graph_label_part,
    &op_limit_part,
    &init_callback_part,
    /* Free: waits until no thread is inside aclrtProcessReport. Before anything is freed. */
    &callback_part,
    &state_callback_part,
    &stream_work_part,
    &kernel_lane_part,
    &kernel_args_part,
    &kernel_failure_part,
    &kernel_fault_part,
    &block_pool_part,
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
    &channel_part,
    /* Thread: its cache of buffers goes back in a call, so the mark of calls goes after it. */
    &profile_part,
    &profile_stamp_part,
    &profile_step_part,
    &profile_subscribe_part,
    &dump_part,
    &check_part,
    &api_call_part,
    &acl_config_part,
    &thread_part,
    NULL,
};

static const struct upcalls table = {
    .parts = parts,
    .session_ended = session_ended,
    .session_npud_gone = session_npud_gone,
    .session_error_lost = session_error_lost,
    .memory_take_device = memory_take_device,
    .memory_has_of_device = memory_has_of_device,
    .memory_release = memory_release,
    .callback_stream_init = callback_stream_init,
    .callback_stream_end = callback_stream_end,
    .callback_stream_disown = callback_stream_disown,
    .callback_stream_discard = callback_stream_discard,
    .callback_context_leave = callback_context_leave,
    .callback_context_end = callback_context_end,
    .callback_drop_lost = callback_drop_lost,
    .callback_join = callback_join,
    .callback_dispose = callback_dispose,
    .stream_work_launch = stream_work_launch,
    .stream_work_written = stream_work_written,
    .stream_work_await = stream_work_await,
    .stream_work_kernel_due = stream_work_kernel_due,
    .stream_work_abort_begins = stream_work_abort_begins,
    .stream_work_abort_over = stream_work_abort_over,
    .exception_drain = exception_drain,
    .exception_copier_ended = exception_copier_ended,
    .kernel_failure_text = kernel_failure_text,
    .kernel_failure_tell = kernel_failure_tell,
    .kernel_registry_holds = kernel_registry_holds,
    .state_callback_stream = state_callback_stream,
    .state_callback_device = state_callback_device,
    .capture_has = capture_has,
    .capture_check = capture_check,
    .capture_task = capture_task,
    .capture_error_kind = capture_error_kind,
    .capture_refuse_stream = capture_refuse_stream,
    .capture_refuse_device = capture_refuse_device,
    .capture_end_context = capture_end_context,
    .graph_end_context = graph_end_context,
    .graph_group_end_stream = graph_group_end_stream,
    .graph_free_rest = graph_free_rest,
    .profile_stream_made = profile_stream_made,
    .profile_stream_ends = profile_stream_ends,
    .profile_task_begins = profile_task_begins,
    .profile_task_put = profile_task_put,
    .profile_call = profile_call,
    .trace_tell_call = trace_tell_call,
    .profile_configure = profile_configure,
    .profile_unconfigure = profile_unconfigure,
    .dump_configure = dump_configure,
    .dump_unconfigure = dump_unconfigure,
    .event_forget_records = event_forget_records,
};

/* When the library is loaded: the lower rooms do not know where the table is. */
static __attribute__((constructor)) void fill_in(void)
{
    upcalls = &table;
}
