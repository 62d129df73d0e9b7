/* Queues of shared buffers (proto/queue_shm.h). Control thread. */
#pragma once

#include <stdbool.h>

struct segment;
struct session;

/** May the session map the segment: does it feed a queue that the session may dequeue from? */
bool queue_feeds(struct session *session, struct segment *segment);

/** The segment goes: it feeds nothing any more. */
void queue_segment_gone(struct segment *segment);
