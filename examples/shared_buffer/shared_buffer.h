/*
 * What the two processes have agreed on: what each tells the other, and what is in the user data of
 * a message.
 */
#ifndef SHARED_BUFFER_H
#define SHARED_BUFFER_H

#include "../common/example.h"
#include "acl/acl_tdt_queue.h"

#define WAIT_MS 60000 /* longer than any wait of this example takes: only so that nothing hangs */

/* From the primary to the secondary, in the file "queues". Ids of queues are plain numbers. */
struct queues {
    uint32_t jobs, answers;
};

/* The 96 bytes of user data travel with a buffer, apart from its data. */
struct job {
    uint32_t number;
    uint32_t width, height;
};

struct answer {
    uint32_t number; /* of the job */
};

/* The data of an answer. */
struct result {
    double average;
    uint32_t brightest;
    uint32_t x, y; /* where */
};

#endif
