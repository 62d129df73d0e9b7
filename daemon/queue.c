#include "daemon/queue.h"

/* There are no queues so far: nothing feeds any. */
bool queue_feeds(struct session *session, struct segment *segment)
{
    (void)session;
    (void)segment;
    return false;
}

void queue_segment_gone(struct segment *segment)
{
    (void)segment;
}
