/* Requests about queues. */
#include "daemon/core/call.h"

#include <unistd.h>

#include "daemon/buffers/channel.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "daemon/control/fetch.h"
#include "daemon/core/device.h"
#include "daemon/core/refuse.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

static int32_t reply_queue(struct call *call, const struct queue_attach *attach)
{
    const struct queue *queue = attach->queue;
    Npud__QueueReply *out;
    struct queue_file files[QUEUE_FILES];
    int fds[QUEUE_FILES];

    queue_attach_trace(attach);
    if (queue_ring_open(&queue->ring, attach->rights, fds) < 0)
        return refuse(call, CAUSE_DESCRIPTORS, "queue %u", queue->id);
    queue_ring_files(&queue->ring, attach->rights, files);
    for (unsigned i = 0; i < QUEUE_FILES; i++)
        call->source[i] =
            (struct call_source){.file = files[i].fd, .read_only = !files[i].writable};
    call->fd = fds[0];
    call->more_fd[0] = fds[1];
    call->more_fd[1] = fds[2];
    call->close_fd = true;
    out = CALL_REPLY(call, queue, QUEUE);
    out->queue = attach->id;
    out->number = queue->ring.view.number;
    out->depth = queue->ring.view.depth;
    out->rights = attach->rights;
    out->serial = queue->serial;
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
    if (!queue_finish_some(attach->queue, attach))
        return refuse(call, CAUSE_QUEUE_ENDING, "queue %u", id);
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

/*
 * Of another user's queue nothing is told but that the process was granted it, not even whether
 * there is one: so it is no error to wait for a queue that is still to come.
 */
static int32_t refuse_grant(struct call *call)
{
    const Npud__AttachQueue *in = call->request->attach_queue;

    grant_asked(call->session);
    if (in->of_user && in->owner != call->session->uid)
        return refuse(call, CAUSE_QUEUE_OF_USER_NOT_GRANTED, "queue %u of user %u", in->queue,
                      in->owner);
    return refuse(call, CAUSE_QUEUE_NOT_GRANTED, "queue %u", in->queue);
}

/* queue: NULL, or one that the session has not attached and names by id. */
static int32_t attach_to(struct call *call, struct queue *queue, uint32_t id)
{
    struct grant *grant = queue ? grant_find(call->session, queue) : NULL;
    struct queue_attach *attach;

    if (!grant)
        return refuse_grant(call);
    attach = queue_attach_new(call->session, queue, id, grant->rights);
    if (!attach)
        return refuse(call, session_cause_of_object(call->session),
                      "queue %u cannot be attached to", queue->id);
    grant_free(grant);
    queue_party_came(queue, 0);
    return reply_queue(call, attach);
}

int32_t on_attach_queue(struct call *call)
{
    const Npud__AttachQueue *in = call->request->attach_queue;
    struct session *session = call->session;
    bool own = !in->of_user || in->owner == session->uid;
    struct user *owner = own ? session->user : user_find(&session->server->users, in->owner);
    uint32_t id = own ? in->queue : in->local;
    struct queue_attach *attach;
    struct queue *queue;

    if (in->queue >= QUEUE_IDS)
        return refuse(call, CAUSE_QUEUE_ID, "queue %u", in->queue);
    if (!own && (id < QUEUE_IDS || id >= QUEUE_LOCAL_IDS))
        return refuse(call, CAUSE_QUEUE_LOCAL_ID, "id %u", id);
    queue = owner ? queue_of_user(owner, in->queue) : NULL;
    if (!queue && own)
        return refuse(call, CAUSE_QUEUE_NONE, "queue %u", in->queue);
    if (queue && queue->rest)
        return refuse(call, CAUSE_QUEUE_MOVING, "queue %u", in->queue);
    attach = queue_attachment(session, queue);
    if (attach != queue_attached(session, id))
        return refuse(call, CAUSE_QUEUE_LOCAL_ID_TAKEN, "queue %u of user %u, named by %u",
                      in->queue, in->owner, id);
    return attach ? reply_queue(call, attach) : attach_to(call, queue, id);
}

/* A channel that this user has not got yet. */
static int32_t new_channel(struct call *call)
{
    const Npud__OpenChannel *in = call->request->open_channel;
    struct queue_attach *attach;
    enum cause cause = queue_new_channel(call->session, in->device, in->name, in->depth, &attach);
    int32_t error;

    if (cause != CAUSE_NONE)
        return refuse(call, cause, "no channel of capacity %u", in->depth);
    error = reply_queue(call, attach);
    if (error != 0)
        queue_destroy(attach->queue);
    return error;
}

int32_t on_open_channel(struct call *call)
{
    const Npud__OpenChannel *in = call->request->open_channel;
    struct queue_attach *attach;
    struct queue *queue;

    if (!devices_get(call->session->server->devices, in->device))
        return refuse(call, CAUSE_DEVICE_NONE, "device %u", in->device);
    if (in->name[0] == '\0')
        return refuse(call, CAUSE_CHANNEL_NAME, "a channel on device %u", in->device);
    queue = channel_find(call->session->user, in->device, in->name);
    if (!queue)
        return new_channel(call);
    if (queue->rest)
        return refuse(call, CAUSE_QUEUE_MOVING, "channel %s", queue->name);
    attach = channel_join(call->session, queue);
    if (!attach)
        return refuse(call, session_cause_of_object(call->session), "channel %s", queue->name);
    return reply_queue(call, attach);
}

int32_t on_close_channel(struct call *call)
{
    uint32_t id = call->request->close_channel->queue;
    enum cause cause = channel_leave(call->of.queue);

    return cause == CAUSE_NONE ? 0 : refuse(call, cause, "queue %u", id);
}

int32_t on_allow_map(struct call *call)
{
    const Npud__AllowMap *in = call->request->allow_map;
    struct queue *queue = queue_by_number(call->session->server, in->number);
    struct queue_attach *attach = queue_attachment(call->session, queue);
    struct segment *segment;

    if (!attach)
        return refuse(call, queue ? CAUSE_QUEUE_NOT_ATTACHED : CAUSE_QUEUE_RING_ENDED, "ring %u",
                      in->number);
    if (!(attach->rights & QUEUE_PUT))
        return refuse(call, CAUSE_QUEUE_NOT_ENQUEUE, "queue %u", queue->id);
    segment = segment_find(call->session->server, in->segment);
    if (!segment || !segment_maps(call->session, segment))
        return refuse(call, CAUSE_SEGMENT_NONE, "segment %u of this process", in->segment);
    if (!queue_pass_on(call->session, segment))
        return refuse(call, CAUSE_SEGMENT_RIGHT_LOST, "segment %u (of process %d)", in->segment,
                      (int)segment->pool->pid);
    if (!queue_allow_map(queue, segment))
        return refuse(call, CAUSE_MEMORY, "queue %u cannot take buffers of segment %u", queue->id,
                      in->segment);
    return 0;
}
