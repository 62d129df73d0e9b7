/* Requests about the trace. */
#include <utlist.h>

#include "daemon/buffers/peer.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/call.h"
#include "daemon/core/refuse.h"
#include "daemon/core/session.h"
#include "daemon/core/trace.h"

int32_t on_get_trace_ring(struct call *call)
{
    const struct peer *peer = call->session->peer;
    const struct queue_attach *attach;

    call->fd = trace_ring_of(call->session);
    if (peer)
        DL_FOREACH (peer->attached, attach)
            queue_attach_trace(attach);
    return refuse(call, call->fd < 0 ? CAUSE_TRACE_RING : CAUSE_NONE, "trace");
}
