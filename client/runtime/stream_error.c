/* Errors of streams: codes, and their sentences. */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/core/upcall.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"
#include "proto/wire/error_name.h"

int stream_error_unknown(const char *function, const void *handle)
{
    return handle_error(ACL_ERROR_RT_INVALID_HANDLE, function, HANDLE_STREAM, handle);
}

int stream_error_foreign(const struct stream *s, const struct context *current,
                         const char *function)
{
    return error_set(ACL_ERROR_RT_STREAM_CONTEXT,
                     "%s: the stream belongs to another context (device %u) than the current one "
                     "(device %u): make that one current first (aclrtSetCurrentContext)",
                     function, s->device, current->device);
}

int stream_error_aborted(const char *function, int32_t code)
{
    return error_set(code, "%s: an abort by another call discarded the tasks of the %s", function,
                     code == ACL_ERROR_RT_DEVICE_TASK_ABORT ? "device" : "stream");
}

static const char *error_cause(int code)
{
    switch (code) {
    case ACL_ERROR_RT_TASK_TIMEOUT:
        return "it waited longer than its time limit";
    case ACL_ERROR_RT_SYS_DMA:
        return "it used memory that was freed, that belongs to another process, or that is too "
               "short";
    case ACL_ERROR_RT_INVALID_HANDLE:
        return "what it waited for was destroyed";
    case ACL_ERROR_RT_PARAM_INVALID:
        return "npud did not understand it";
    case ACL_ERROR_RT_STREAM_ABORT:
    case ACL_ERROR_RT_DEVICE_TASK_ABORT:
        return "it was stopped, or what it waited for was discarded, by an abort (aclrtStreamStop, "
               "aclrtStreamAbort, aclrtDeviceTaskAbort, aclmdlRIAbort)";
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

/* What a kernel has failed with is known in more words. */
static const char *describe_cause(const struct stream_ctrl *ctrl, uint64_t error, bool of_context,
                                  char *text, size_t size)
{
    return upcalls->kernel_failure_text(ctrl, error, of_context, text, size)
               ? text
               : error_cause(stream_error_code(error));
}

int stream_error_failed(const struct stream_ctrl *ctrl, int32_t id, const char *function,
                        uint64_t error)
{
    int code = stream_error_code(error);
    char text[320];

    if (code == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR)
        return error_set(code,
                         "%s: stream %d waited for a record of an IPC event or notify, or a "
                         "word of shared memory, by process %d, which ended, finalized, dropped "
                         "its stream or gave the memory up before that was executed, or the record "
                         "failed",
                         function, id, stream_error_pid(error));
    if (finished_with_remark(code))
        return error_soft(code, "%s: stream %d finished with a remark", function, id);
    return error_set(code, "%s: a task of stream %d failed: %s", function, id,
                     describe_cause(ctrl, error, false, text, sizeof(text)));
}

int stream_error_stopped_by(const struct stream_ctrl *ctrl, uint64_t stopped, const char *function)
{
    char text[320];

    return error_set(stream_error_code(stopped),
                     "%s: a task of this context failed (%s), and its streams stop on failure: "
                     "destroy the context or reset the device",
                     function, describe_cause(ctrl, stopped, true, text, sizeof(text)));
}

int stream_error_stopped(const struct stream_ctrl *ctrl, const char *function)
{
    return stream_error_stopped_by(ctrl, atomic_load_explicit(&ctrl->stopped, memory_order_acquire),
                                   function);
}
