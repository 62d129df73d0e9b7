/*
 * Reading the configuration again while npud runs. A thread reads, because a file can be slow; the
 * control thread takes over what was read, if all of it is good.
 */
#pragma once

#include <stdbool.h>

#include "daemon/base/schedule.h"
#include "daemon/base/subuid.h"
#include "daemon/base/worker.h"

struct options;
struct server;

struct reload {
    struct job job; /* sent by the thread when it has read */
    struct server *server;
    const struct options *options;
    struct config *read;    /* by the thread; NULL: it was bad */
    struct subuids subuids; /* read at the same time */
    struct errand errand;
    bool running; /* the thread reads; until the job is run */
    bool again;   /* it was asked for meanwhile */
};

/** Begin to read. Control thread. Asked for while it goes on, it is done once more afterwards. */
void reload_begin(struct reload *reload, struct server *server, const struct options *options);

/** npud ends: wait for the thread, which may write to the log, but not for long. */
void reload_end(void);
