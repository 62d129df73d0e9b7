/*
 * An npud without sockets, inside the test: devices with their engines, and sessions whose client
 * is the test itself. The thread that calls this is the control thread.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/base/config.h"
#include "daemon/core/device.h"
#include "daemon/engine/inject.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/base/log.h"
#include "daemon/memory/allocation.h"
#include "daemon/npud.h"
#include "daemon/core/notify.h"
#include "daemon/buffers/peer.h"
#include "daemon/control/event_fd.h"
#include "daemon/control/session_life.h"
#include "daemon/base/work_item.h"
#include "daemon/core/release.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/shm/arena.h"
#include "proto/util/futex.h"
#include "unit.h"

static struct config config;
static struct server server;
static unsigned npud_fds;

/** settings: as for --set, ended by NULL. */
static inline void npud_start(const char *const *settings)
{
    npud_fds = count_fds();
    log_setup(LOG_CRIT); /* faults on purpose are not to be reported */
    config_init(&config);
    for (; settings && *settings; settings++)
        ck_assert_int_eq(config_set(&config, *settings), 0);
    server = (struct server){.config = &config, .work_items.fd = -1};
    npud_assemble(&server);
    server.users.limit = config.limit;
    server.linger_max = config.linger_max;
    server.instance = 1;
    server.base = event_base_new();
    ck_assert_ptr_nonnull(server.base);
    inject_init(server.inject);
    ck_assert_int_eq(sessions_init(&server), 0);
    ck_assert_int_eq(work_items_init(&server.work_items, server.base), 0);
    ck_assert_int_eq(devices_init(server.devices, &config), 0);
}

/** End it. Nothing may be left of any session. */
static inline void npud_stop(void)
{
    sessions_deinit(&server);
    devices_deinit(server.devices);
    work_items_deinit(&server.work_items);
    event_fds_deinit(&server);
    inject_deinit(server.inject);
    event_base_free(server.base);
    ck_assert_uint_eq(HASH_COUNT(server.users.by_uid), 0);
    ck_assert_uint_eq(HASH_COUNT(server.ipc->by_id), 0);
    ck_assert_uint_eq(server.n_sessions, 0);
    config_deinit(&config);
    ck_assert_uint_eq(count_fds(), npud_fds);
}

/** What the control thread does between requests: take back what engines have passed on. */
static inline void npud_turn(void)
{
    event_base_loop(server.base, EVLOOP_NONBLOCK);
}

/**
 * A session as after Hello, with all devices open. pid: the process that other sessions will be
 * told to blame.
 */
static inline struct session *npud_session(pid_t pid)
{
    struct session *s = calloc(1, sizeof(*s));
    int fd;

    ck_assert_ptr_nonnull(s);
    s->server = &server;
    s->pid = pid;
    s->user = user_ref(&server.users, 1000);
    s->uid = 1000;
    s->socket = eventfd(0, EFD_CLOEXEC); /* any descriptor that can be closed */
    s->pidfd = -1;
    slots_init(&s->streams, sizeof(struct stream), SESSION_STREAMS_MAX, 1);
    slots_init(&s->events, sizeof(struct event_obj), SESSION_EVENTS_MAX, 2);
    slots_init(&s->ipc, sizeof(struct ipc_open), SESSION_IPC_EVENTS_MAX, 3);
    slots_init(&s->mems, sizeof(struct mem), SESSION_MEMS_MAX, 4);
    slots_init(&s->notifies, sizeof(struct notify_open), SESSION_NOTIFIES_MAX, 5);
    s->id = ++server.last_session;
    DL_APPEND(server.sessions, s);
    server.n_sessions++;
    ck_assert(peer_give_id(s));
    ck_assert_int_eq(session_hello(s, "unit test", &fd), 0);
    close(fd);
    for (uint32_t i = 0; i < server.devices->n; i++)
        ck_assert_int_eq(session_open_device(s, i, &fd), 0);
    return s;
}

static inline struct stream *npud_stream(struct session *session, uint32_t device)
{
    struct stream *stream;
    int fd;

    ck_assert_int_eq(stream_new(session, session_attach(session, device), 0, 0, 0, &stream, &fd),
                     0);
    if (fd >= 0)
        close(fd);
    return stream;
}

/* --- the client's side, as in client/runtime/stream.c --- */

/** Submit a task; the ring must have room. Returns its position. One thread per stream. */
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

static inline bool client_passed(const struct stream *s, uint64_t position)
{
    return atomic_load_explicit(&s->ctrl->done, memory_order_acquire) > position;
}

/** Sleep until the task at position is retired. */
static inline void client_wait(struct stream *s, uint64_t position)
{
    struct timespec ts = timespec_from_ns(clock_ns() + GUARD_NS);

    while (!client_passed(s, position)) {
        uint32_t seen = atomic_load_explicit(&s->ctrl->wake_seq, memory_order_acquire);

        stream_arm(s->ctrl, position + 1);
        if (!client_passed(s, position) &&
            futex_wait_until(&s->ctrl->wake_seq, seen, &ts) == -ETIMEDOUT)
            ck_abort_msg("task %llu not retired, or wake-up lost: done %llu",
                         (unsigned long long)position,
                         (unsigned long long)atomic_load(&s->ctrl->done));
    }
}
