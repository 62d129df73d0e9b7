/* Requests about segments of shared buffers. */
#include "daemon/core/call.h"

#include <fcntl.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/segment_use.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

/* The first descriptors in the answer: of the segment, and of its news. */
static bool open_files(struct call *call, const struct segment *segment)
{
    call->fd = fcntl(segment->fd, F_DUPFD_CLOEXEC, 0);
    if (call->fd < 0)
        return false;
    call->more_fd[0] = memfd_open_read_only(segment->news_fd);
    if (call->more_fd[0] < 0) {
        close(call->fd);
        call->fd = call->more_fd[0] = -1;
        return false;
    }
    call->close_fd = true;
    call->source[0] = (struct call_source){.file = segment->fd};
    call->source[1] = (struct call_source){.file = segment->news_fd, .read_only = true};
    return true;
}

static int32_t reply_segment(struct call *call, const struct segment *segment)
{
    Npud__SegmentReply *out;

    if (!open_files(call, segment))
        return refuse(call, CAUSE_DESCRIPTORS, "segment %u of shared buffers", segment->view.id);
    out = CALL_REPLY(call, segment, SEGMENT);
    out->id = segment->view.id;
    out->number = segment->view.number;
    out->stride = segment->view.stride;
    out->n_data = segment->view.n_data;
    out->n_refs = segment->view.n_refs;
    out->pid = segment->pool->pid;
    return 0;
}

int32_t on_create_segment(struct call *call)
{
    const Npud__CreateSegment *in = call->request->create_segment;
    struct pool *pool = pool_get(call->session);
    struct segment *segment;
    enum cause cause =
        pool ? segment_new(pool, in->stride, in->count, &segment) : CAUSE_SEGMENT_MEMORY;
    int32_t error;

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no shared buffers of %llu bytes",
                      (unsigned long long)in->stride);
    error = reply_segment(call, segment);
    if (error != 0)
        segment_free(segment);
    return error;
}

static enum cause map_segment(struct session *session, struct segment *segment)
{
    struct peer *peer = peer_get(session);

    if (!segment)
        return CAUSE_SEGMENT_NONE;
    if (!peer)
        return CAUSE_MEMORY;
    if (!segment_maps(session, segment) && !queue_session_may_map(session, segment))
        return CAUSE_SEGMENT_NOT_SENT;
    return segment_map(peer, segment) ? CAUSE_NONE : session_cause_of_object(session);
}

int32_t on_map_segment(struct call *call)
{
    uint32_t id = call->request->map_segment->segment;
    struct segment *segment = segment_find(call->session->server, id);
    enum cause cause = map_segment(call->session, segment);

    if (cause == CAUSE_SEGMENT_NOT_SENT)
        return refuse(call, cause, "segment %u (of process %d)", id, (int)segment->pool->pid);
    if (cause != CAUSE_NONE)
        return refuse(call, cause, "segment %u of shared buffers", id);
    return reply_segment(call, segment);
}

int32_t on_trim_segment(struct call *call)
{
    struct segment *segment =
        segment_find(call->session->server, call->request->trim_segment->segment);

    if (segment && segment_maps(call->session, segment)) {
        segment_slot_came(segment);
        call->session->server->pools->above->freed(segment);
        /* No process allocates from a segment that drains: it is not kept for the owner. */
        if (!segment_drains(segment) || !segment_give_back(segment))
            pool_look_soon(segment->pool);
    }
    return 0;
}
