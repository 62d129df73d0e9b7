#include "daemon/buffers/channel.h"

#include <assert.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include "daemon/buffers/queue.h"
#include "daemon/core/session.h"

static int compare_channels(const void *a, const void *b)
{
    const struct queue *x = a, *y = b;

    if (x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    return strcmp(x->name, y->name);
}

struct queue *channel_find(const struct user *user, uint32_t device, const char *name)
{
    struct queue key = {.channel = device + 1};
    struct queue **node;

    /* A longer name is none that a channel has. */
    if (snprintf(key.name, sizeof(key.name), "%s", name) >= (int)sizeof(key.name))
        return NULL;
    node = tfind(&key, &user->channels, compare_channels);
    return node ? *node : NULL;
}

bool channel_list(struct queue *queue)
{
    struct queue **node = tsearch(queue, &queue->user->channels, compare_channels);

    assert(!node || *node == queue);
    queue->channel_listed = node != NULL;
    return queue->channel_listed;
}

void channel_unlist(struct queue *queue)
{
    if (!queue->channel_listed)
        return;
    queue->channel_listed = false;
    tdelete(queue, &queue->user->channels, compare_channels);
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

    if (queue->channel == 0)
        return CAUSE_CHANNEL_NONE;
    /* Not after a ring of its own for sessions that are not there. */
    if (queue->attached != attach || attach->qnext)
        return queue_attach_change(attach, 0);
    if (!queue_finish_some(queue, attach))
        return CAUSE_QUEUE_ENDING;
    queue_destroy(queue);
    return CAUSE_NONE;
}
