/*
 * An npud without sockets of its own, inside a test program: set up, and given sessions, by npud's
 * own constructors. The thread that calls this is the control thread. Nothing here asserts, because
 * unit tests and fuzzers do so in different ways.
 */
#pragma once

#include <event2/event.h>
#include <string.h>
#include <sys/eventfd.h>

#include "daemon/base/schedule.h"
#include "daemon/control/session_life.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "daemon/npud.h"
#include "proto/shm/doorbell.h"

#define SERVER_FDS (UINT64_C(1) << 20) /* that this npud believes it may have */

/** Begin with this configuration. 0 or a negative errno. */
static inline int server_begin(struct server *server, struct config *config)
{
    int r;

    *server =
        (struct server){.config = config, .fds = SERVER_FDS, .admin_gid = (gid_t)-1, .instance = 1};
    kept_begin_private();
    npud_assemble(server);
    server_configure(server);
    r = npud_begin(server);
    return r < 0 ? r : npud_start_engines(server);
}

static inline void server_end(struct server *server)
{
    npud_end(server);
    schedule_deinit(&server->schedule);
    event_base_free(server->base);
}

/**
 * What the control thread does between requests: take back what engines have passed on, read what
 * clients have sent, and end what was begun in slices.
 */
static inline void server_turn(struct server *server)
{
    do {
        schedule_round(&server->schedule, server->base, false);
    } while (schedule_busy(&server->schedule));
}

/**
 * Submit a task as the client does in client/runtime/stream.c; the ring must have room. Returns its
 * position. One thread per stream.
 */
static inline uint64_t client_submit(struct stream *s, struct task task)
{
    uint64_t tail = atomic_load_explicit(&s->ctrl->tail, memory_order_relaxed);
    struct task *entry = &s->ring[tail & (s->depth - 1)];

    memcpy((char *)entry + sizeof(entry->sequence), (char *)&task + sizeof(task.sequence),
           sizeof(task) - sizeof(task.sequence));
    atomic_store_explicit(&s->ctrl->tail, tail + 1, memory_order_release);
    atomic_store(&entry->sequence, tail + 1);
    if (!atomic_load(&s->ctrl->watched) && doorbell_raise(s->attach->bell, s->slot.number))
        eventfd_write(s->attach->fd, 1);
    return tail;
}
