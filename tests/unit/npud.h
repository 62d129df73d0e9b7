/*
 * The npud of tests/unit/server.h, with what unit tests assert of it, and sessions whose client
 * is the test itself. The thread that calls this is the control thread.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/core/ipc_event.h"
#include "daemon/base/log.h"
#include "daemon/memory/allocation.h"
#include "daemon/core/notify.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/release.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/shm/arena.h"
#include "proto/util/futex.h"
#include "proto/wire/packet.h"
#include "tests/unit/server.h"
#include "tests/unit/unit.h"

static struct config config;
static struct server server;
static unsigned npud_fds;

/** settings: as for --set, ended by NULL. */
static inline void npud_start(const char *const *settings)
{
    npud_fds = count_fds();
    log_setup(LOG_CRIT);
    config_init(&config);
    config.log_level = LOG_CRIT; /* faults on purpose are not to be reported */
    for (; settings && *settings; settings++)
        ck_assert_int_eq(config_set(&config, *settings), 0);
    ck_assert_int_eq(server_begin(&server, &config), 0);
}

/** End it. Nothing may be left of any session. */
static inline void npud_stop(void)
{
    server_end(&server);
    ck_assert_uint_eq(HASH_COUNT(server.users.by_uid), 0);
    for (int i = 0; i < RESOURCE_COUNT; i++)
        ck_assert_uint_eq(server.users.used[i], 0);
    ck_assert_uint_eq(HASH_COUNT(server.ipc->by_id), 0);
    ck_assert_uint_eq(server.n_sessions, 0);
    config_deinit(&config);
    ck_assert_uint_eq(count_fds(), npud_fds);
}

/** What the control thread does between requests. */
static inline void npud_turn(void)
{
    server_turn(&server);
}

/**
 * A session of this user as after Hello, with all devices open. pid: the process that other
 * sessions will be told to blame.
 */
static inline struct session *npud_session_of(uid_t uid, pid_t pid)
{
    const struct client_process client = {.pid = pid, .uid = uid, .pidfd = -1};
    /* A descriptor that never becomes readable: this client sends nothing and does not hang up. */
    struct session *s = session_new_for(&server, eventfd(0, EFD_CLOEXEC), &client);
    int fd;

    ck_assert_ptr_nonnull(s);
    s->protocol = PROTOCOL;
    ck_assert_int_eq(session_hello(s, "unit test"), 0);
    for (uint32_t i = 0; i < server.devices->n; i++)
        ck_assert_int_eq(session_open_device(s, i, &fd), 0);
    return s;
}

static inline struct session *npud_session(pid_t pid)
{
    return npud_session_of(1000, pid);
}

static inline struct stream *npud_stream(struct session *session, uint32_t device)
{
    struct stream *stream;
    int fd;

    ck_assert_int_eq(stream_new(session, session_attach(session, device), 0, 0, 0, &stream, &fd),
                     0);
    return stream;
}

/* --- the client's side, as in client/runtime/stream.c --- */

static inline bool client_passed(const struct stream *s, uint64_t position)
{
    return atomic_load_explicit(&s->ctrl->done, memory_order_acquire) > position;
}

/** The failure that was not taken, without its number. */
static inline uint64_t client_error(const struct stream *s)
{
    uint64_t error = atomic_load(&s->ctrl->error);

    return stream_error_make(stream_error_code(error), stream_error_pid(error));
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
