/* Requests about the trace. */
#include "daemon/core/call.h"
#include "daemon/core/refuse.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"

int32_t on_get_trace_ring(struct call *call)
{
    call->fd = trace_ring_of(call->session);
    return refuse(call, call->fd < 0 ? CAUSE_TRACE_RING : CAUSE_NONE, "trace");
}
