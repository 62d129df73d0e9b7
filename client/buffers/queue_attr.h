/*
 * What queues are created from: attributes that a program sets one by one. They are memory of this
 * process alone, npud never hears of them, and nothing locks them.
 */
#pragma once

#include <stdint.h>

#include "acl/acl_tdt_queue.h"
#include "proto/shm/queue_shm.h"

#define QUEUE_DEPTH_DEFAULT 8

struct tagMemQueueAttr {
    char name[QUEUE_NAME]; /* ends with a NUL; "": none */
    uint32_t depth;        /* as it was set, whether or not a queue can have it */
};
