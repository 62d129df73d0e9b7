#include "daemon/buffers/channel.h"

#include <stddef.h>

#include "daemon/buffers/queue.h"
#include "daemon/core/session.h"

struct queue *channel_find(const struct user *user, uint32_t device, const char *name)
{
    const struct channel_name key = {.device = device + 1, .text = name};
    struct channel_name *found = channel_name_find(user, &key);

    return found ? (struct queue *)((char *)found - offsetof(struct queue, channel)) : NULL;
}

struct queue_attach *channel_join(struct session *session, struct queue *queue)
{
    struct queue_attach *attach = queue_attachment(session, queue);

    if (!attach)
        return queue_attach_new(session, queue, queue->id, CHANNEL_RIGHTS);
    /* It was about to leave, and npud had no memory to go on with that. */
    if (attach->rights != CHANNEL_RIGHTS)
        queue_attach_change(attach, CHANNEL_RIGHTS);
    return attach;
}

enum cause channel_leave(struct queue_attach *attach)
{
    struct queue *queue = attach->queue;

    if (queue->channel.device == 0)
        return CAUSE_CHANNEL_NONE;
    /* Not after a ring of its own for sessions that are not there. */
    if (queue->attached != attach || attach->qnext)
        return queue_attach_change(attach, 0);
    if (!queue_finish_some(queue, attach))
        return CAUSE_QUEUE_ENDING;
    queue_destroy(queue);
    return CAUSE_NONE;
}
