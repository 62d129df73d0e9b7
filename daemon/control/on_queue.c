/* Requests about queues. */
#include "daemon/core/call.h"

#include <unistd.h>

#include "daemon/buffers/grant.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/control/fetch.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

static int32_t reply_queue(struct call *call, const struct queue_attach *attach)
{
    const struct queue *queue = attach->queue;
    static Npud__QueueReply out;

    if (queue_ring_open(&queue->ring, attach->rights, &call->fd, &call->second_fd) < 0)
        return refuse(call, CAUSE_DESCRIPTORS, "queue %u", queue->id);
    call->close_fd = true;
    CALL_REPLY(call, queue, QUEUE, &out);
    out.queue = queue->id;
    out.number = queue->ring.view.number;
    out.depth = queue->ring.view.depth;
    out.rights = attach->rights;
    out.serial = queue->serial;
    return 0;
}

int32_t on_create_queue(struct call *call)
{
    const Npud__CreateQueue *in = call->request->create_queue;
    struct queue_attach *attach;
    enum cause cause = queue_new(call->session, in->name, in->depth, &attach);
    int32_t error;

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no queue of depth %u", in->depth);
    error = reply_queue(call, attach);
    if (error != 0)
        queue_destroy(attach->queue);
    return error;
}

int32_t on_destroy_queue(struct call *call)
{
    uint32_t id = call->request->destroy_queue->queue;
    struct queue_attach *attach = call->of.queue;

    if (!(attach->rights & QUEUE_MANAGE))
        return refuse(call, CAUSE_QUEUE_NOT_MANAGED, "queue %u is not destroyed", id);
    if (router_uses(attach->queue))
        return refuse(call, CAUSE_QUEUE_ROUTED, "queue %u is not destroyed", id);
    queue_destroy(attach->queue);
    return 0;
}

int32_t on_grant_queue(struct call *call)
{
    const Npud__GrantQueue *in = call->request->grant_queue;
    struct queue_attach *attach = call->of.queue;
    enum cause cause;

    if (in->rights & ~QUEUE_RIGHTS)
        return refuse(call, CAUSE_QUEUE_RIGHTS, "permission has bits %#x",
                      in->rights & ~QUEUE_RIGHTS);
    if (!(attach->rights & QUEUE_MANAGE))
        return refuse(call, CAUSE_QUEUE_NOT_MANAGED, "queue %u is not granted", in->queue);
    cause = grant_set(attach->queue, in->pid, in->rights);
    return cause == CAUSE_NONE
               ? 0
               : refuse_payer(call, cause, attach->queue->user,
                              "queue %u is not granted to process %d", in->queue, in->pid);
}

int32_t on_attach_queue(struct call *call)
{
    uint32_t id = call->request->attach_queue->queue;
    struct queue_attach *attach;
    struct grant *grant;

    if (id >= QUEUE_IDS)
        return refuse(call, CAUSE_QUEUE_ID, "queue %u", id);
    attach = queue_attached(call->session, id);
    if (attach)
        return reply_queue(call, attach);
    grant = grant_find(call->session, id);
    if (!grant && call->session->server->queues->by_id[id]) {
        grant_asked(call->session);
        return refuse(call, CAUSE_QUEUE_NOT_GRANTED, "queue %u", id);
    }
    if (!grant)
        return refuse(call, CAUSE_QUEUE_NONE, "queue %u", id);
    attach = queue_attach_new(call->session, grant->queue, grant->rights);
    if (!attach)
        return refuse(call, CAUSE_MEMORY, "queue %u cannot be attached to", id);
    grant_free(grant);
    queue_party_came(attach->queue, 0);
    return reply_queue(call, attach);
}

int32_t on_allow_map(struct call *call)
{
    const Npud__AllowMap *in = call->request->allow_map;
    struct queue *queue = queue_by_number(call->session->server, in->number);
    struct queue_attach *attach = queue ? queue_attached(call->session, queue->id) : NULL;
    struct segment *segment;

    if (!attach || attach->queue != queue)
        return refuse(call, queue ? CAUSE_QUEUE_NOT_ATTACHED : CAUSE_QUEUE_RING_ENDED, "ring %u",
                      in->number);
    if (!(attach->rights & QUEUE_PUT))
        return refuse(call, CAUSE_QUEUE_NOT_ENQUEUE, "queue %u", queue->id);
    segment = segment_find(call->session->server, in->segment);
    if (!segment || !segment_maps(call->session, segment))
        return refuse(call, CAUSE_SEGMENT_NONE, "segment %u of this process", in->segment);
    if (!queue_allow_map(queue, segment))
        return refuse(call, CAUSE_MEMORY, "queue %u cannot take buffers of segment %u", queue->id,
                      in->segment);
    return 0;
}
