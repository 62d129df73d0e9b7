/* What the processes of the workload do with queues. */
#pragma once

#include <stdint.h>

#include "acl/acl_tdt_queue.h"

/** A new queue for so many messages. */
uint32_t create_queue(uint32_t depth);

/** Put a message with this value; take one, and assert that it is this one. */
void put_value(uint32_t queue, uint64_t value);
void take_value(uint32_t queue, uint64_t value);

/** acltdtBindQueueRoutes() or acltdtUnbindQueueRoutes() for one route. */
void change_route(aclError (*change)(acltdtQueueRouteList *list), uint32_t from, uint32_t to);
