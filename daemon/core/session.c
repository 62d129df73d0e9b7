#include "daemon/core/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "acl/acl_base.h"
#include "daemon/base/deferred_close.h"
#include "daemon/core/engine.h"
#include "daemon/core/event.h"
#include "daemon/control/event_fd.h"
#include "daemon/base/pidfd.h"
#include "daemon/core/ipc_event.h"
#include "daemon/base/log.h"
#include "daemon/base/memfd.h"
#include "daemon/memory/allocation.h"
#include "daemon/core/notify.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/release.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/listener.h"
#include "daemon/core/server.h"
#include "daemon/buffers/peer.h"
#include "daemon/buffers/router.h"
#include "daemon/core/stream.h"
#include "daemon/core/survivor.h"
#include "daemon/core/device.h"
#include "daemon/base/heap_trim.h"
#include "daemon/base/config.h"
#include "proto/shm/arena.h"
#include "proto/util/clock.h"
#include "proto/wire/packet.h"
#include "proto/util/futex.h"
#include "proto/util/random.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define ENDED_SLICE   (500 * NSEC_PER_USEC) /* of freeing sessions, before requests have their turn */
#define DEATH_US      10000 /* how long a process may take from closing its socket to its end */
#define TRIM_SESSIONS 128   /* that have left since the heap was given back last */

/* --- locks --- */

/* A halted session has no engine that could come near it, and many objects to be freed. */
void session_lock(struct session *session)
{
    if (session->halted)
        return;
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_lock(session->attach[i]->device->engine);
}

void session_unlock(struct session *session)
{
    if (session->halted)
        return;
    for (unsigned i = DEVICES_MAX; i-- > 0;)
        if (session->attach[i])
            engine_unlock(session->attach[i]->device->engine);
}

/* Engines find no object that was put, and use none outside of their locks. */
void session_give_back(struct session *session, struct slots *table)
{
    /* A session that ends frees the whole table. */
    if (!session->halted)
        slots_release(table, SLOTS_IDLE_KEPT, NULL);
}

struct users *session_users(struct session *session)
{
    return &session->server->users;
}

uint32_t session_ring_depth(const struct session *session)
{
    return session->server->config->ring_depth;
}

/* --- arena --- */

static void forget_newest(struct segments *segs)
{
    if (segs->newest != 0)
        close(segs->newest - 1);
    segs->newest = 0;
    segs->resend = false;
}

void session_segments_taken(struct session *session, bool undoes)
{
    if (undoes)
        return;
    if (session->stream_segments.newest != 0 && !session->stream_segments.resend)
        forget_newest(&session->stream_segments);
    if (session->event_segments.newest != 0 && !session->event_segments.resend)
        forget_newest(&session->event_segments);
}

void session_segment_resend(struct segments *segs, uint32_t index)
{
    if (segs->newest != 0 && segs->newest_at == index)
        segs->resend = true;
}

/*
 * A descriptor for the reply, if the client needs one; another stays here until the client is known
 * to have it. False: npud has none.
 */
static bool send_newest(struct segments *segs, uint32_t index, int *fd)
{
    if (segs->resend && segs->newest_at == index) {
        *fd = fcntl(segs->newest - 1, F_DUPFD_CLOEXEC, 0);
        segs->resend = *fd < 0;
        return *fd >= 0;
    }
    if (*fd >= 0) {
        forget_newest(segs);
        segs->newest = fcntl(*fd, F_DUPFD_CLOEXEC, 0) + 1;
        segs->newest_at = index;
    }
    return true;
}

void *session_segment(struct session *session, struct segments *segs, uint32_t index, size_t size,
                      int *fd)
{
    int r;

    (void)session;
    *fd = -1;
    if (index >= segs->n) {
        void **map = reallocarray(segs->map, index + 1, sizeof(*map));

        if (!map)
            return NULL;
        memset(map + segs->n, 0, (index + 1 - segs->n) * sizeof(*map));
        segs->map = map;
        segs->n = index + 1;
    }
    segs->size = size;
    if (!segs->map[index]) {
        r = memfd_map_new("npud-arena", size, fd, &segs->map[index]);
        if (r < 0) {
            log_line(LOG_ERR, &session->log, "no memory for the arena: %s", strerror(-r));
            return NULL;
        }
    }
    return send_newest(segs, index, fd) ? segs->map[index] : NULL;
}

static void segments_deinit(struct segments *segs)
{
    for (uint32_t i = 0; i < segs->n; i++)
        if (segs->map[i])
            munmap(segs->map[i], segs->size);
    free(segs->map);
    forget_newest(segs);
    *segs = (struct segments){0};
}

/* --- devices --- */

struct attach *session_attach(struct session *session, uint32_t device)
{
    return device < DEVICES_MAX ? session->attach[device] : NULL;
}

static void attach_free(struct attach *a)
{
    if (a->fd >= 0)
        close(a->fd);
    charge_deinit(&a->charge_fd);
    free(a);
}

int32_t session_open_device(struct session *session, uint32_t index, int *fd)
{
    struct device *device = devices_get(session->server->devices, index);
    struct attach *a;

    if (!device)
        return ACL_ERROR_RT_INVALID_DEVICEID;
    a = session->attach[index];
    if (a) {
        *fd = a->fd;
        return 0;
    }
    a = calloc(1, sizeof(*a));
    if (!a)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    a->session = session;
    a->device = device;
    a->bell = &session->page->doorbell[index];
    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->fd < 0 ||
        charge_init(&a->charge_fd, session_users(session), session->user, RESOURCE_FDS, 1) < 0 ||
        engine_attach(device->engine, a) < 0) {
        attach_free(a);
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    session->attach[index] = a;
    device->sessions++;
    *fd = a->fd;
    return 0;
}

static void close_devices(struct session *session)
{
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        struct attach *a = session->attach[i];

        if (!a)
            continue;
        assert(a->streams == 0);
        engine_lock(a->device->engine);
        engine_detach(a->device->engine, a);
        session->attach[i] = NULL;
        engine_unlock(a->device->engine);
        a->device->sessions--;
        attach_free(a);
    }
}

/* --- life --- */

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    dispatch_handle(arg);
}

/* A forked child may still hold the socket open: the process that we talk to is gone all the same.
 */
static void on_death(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    session_end(arg);
}

/* The kernel's word on who has connected, taken once. A pid that was reused since the connect
 * cannot be ours: then we fail. */
static int identify(struct session *session)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int pidfd;

    if (getsockopt(session->socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    session->pid = session->log.pid = cred.pid;
    session->uid = session->log.uid = cred.uid;
    len = sizeof(pidfd);
    if (getsockopt(session->socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
        if (errno != ENOPROTOOPT)
            return -errno; /* dead already */
        /*
         * Before Linux 6.5. If the peer died and its pid was given to another process already, we
         * would watch the wrong one; the end of the socket tells us of the peer's death as well,
         * except from its forked children.
         */
        pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0);
        if (pidfd < 0)
            return -errno;
    }
    session->pidfd = pidfd;
    return 0;
}

/*
 * Answers that nobody reads are kernel memory, and the default is 200 KiB of them for each of
 * thousands of sessions.
 */
#define UNREAD_MAX PACKET_MAX /* bytes; the kernel doubles it, for its own books */

static void bound_answers(struct session *session)
{
    int size = UNREAD_MAX;

    setsockopt(session->socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static int listen_to(struct session *session)
{
    struct event_base *base = session->server->base;

    session->on_socket = event_new(base, session->socket, EV_READ | EV_PERSIST, on_socket, session);
    session->on_death = event_new(base, session->pidfd, EV_READ | EV_PERSIST, on_death, session);
    if (!session->on_socket || !session->on_death || event_add(session->on_socket, NULL) < 0 ||
        event_add(session->on_death, NULL) < 0)
        return -ENOMEM;
    return 0;
}

struct session *session_new(struct server *server, int socket)
{
    struct session *session = calloc(1, sizeof(*session));
    uint32_t seed;

    if (!session || !random_fill(&seed, sizeof(seed))) {
        free(session);
        close(socket);
        return NULL;
    }
    session->server = server;
    session->socket = socket;
    session->pidfd = -1;
    session->since_ns = clock_ns();
    slots_init(&session->streams, sizeof(struct stream), SESSION_STREAMS_MAX, seed);
    slots_init(&session->events, sizeof(struct event_obj), SESSION_EVENTS_MAX, seed);
    slots_init(&session->ipc, sizeof(struct ipc_open), SESSION_IPC_EVENTS_MAX, seed);
    slots_init(&session->mems, sizeof(struct mem), SESSION_MEMS_MAX, seed);
    slots_init(&session->notifies, sizeof(struct notify_open), SESSION_NOTIFIES_MAX, seed);
    session->id = session->log.session = ++server->last_session;
    DL_APPEND(server->sessions, session);
    if (++server->n_sessions > server->most_sessions)
        server->most_sessions = server->n_sessions;
    bound_answers(session);
    if (identify(session) < 0 || listen_to(session) < 0 || !peer_give_id(session) ||
        !(session->user = user_ref(&server->users, session->uid))) {
        dispatch_refuse(socket, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                        "npud has no file descriptors or memory left for another client");
        goto fail;
    }
    if (charge_init(&session->charge, &server->users, session->user, RESOURCE_SESSIONS, 1) < 0 ||
        charge_init(&session->charge_fds, &server->users, session->user, RESOURCE_FDS, 2) < 0) {
        if (!session->user->refused)
            log_client_limit(&session->log,
                             "its user has too many sessions or descriptors: refused");
        session->user->refused = true;
        dispatch_refuse(socket, ACL_ERROR_RT_OVER_LIMIT,
                        "too many sessions of this user ([limits] sessions, fds)");
        goto fail;
    }
    return session;
fail:
    session_free(session);
    return NULL;
}

static void free_event(void *event)
{
    event_obj_free(event);
}

static void free_open(void *open)
{
    ipc_open_release(open);
}

bool session_destroy_event(struct session *session, struct event_obj *event,
                           const struct fence *fences, size_t n, bool all)
{
    event->closing = true;
    if (release_when_passed(session, fences, n, all, free_event, event))
        return true;
    event->closing = false;
    return false;
}

bool session_close_ipc(struct session *session, struct ipc_open *open, const struct fence *fences,
                       size_t n, bool all)
{
    open->closing = true;
    if (release_when_passed(session, fences, n, all, free_open, open))
        return true;
    open->closing = false;
    return false;
}

/*
 * All streams at once: one that goes on because another of the session has been cleared away would
 * do, and tell other processes, what was to be done after it.
 */
void session_halt(struct session *session)
{
    struct stream *stream;

    /* First: the client must know of the end before it can meet a change that comes of it. */
    if (session->page)
        session_announce_end(session->page);
    session_lock(session);
    slots_foreach (&session->streams, i, stream)
        engine_forget(stream->attach->device->engine, stream);
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        if (session->attach[i])
            engine_detach(session->attach[i]->device->engine, session->attach[i]);
    session_unlock(session);
    session->halted = true;
}

/*
 * Streams first: after that no engine knows the session, and what they would have done is failed by
 * the rest. Devices next: then nothing of the rest has to keep an engine out. Exports before open
 * events: what only this session has must not linger, and push out what others have.
 */
static void empty_ledger(struct session *session)
{
    struct stream *stream;
    struct event_obj *event;
    struct ipc_open *open;
    struct mem *mem;
    struct notify_open *notify;

    session_halt(session);
    if (session->notifies.live > 0)
        slots_foreach (&session->streams, i, stream)
            stream_drop_notifies(stream);
    slots_foreach (&session->streams, i, stream)
        stream_free(stream);
    event_fds_drop(session);
    releases_flush(session);
    close_devices(session);
    ipc_exports_drop(session);
    slots_foreach (&session->ipc, i, open)
        ipc_open_free(open);
    slots_foreach (&session->events, i, event)
        event_obj_free(event);
    slots_foreach (&session->notifies, i, notify)
        notify_open_free(notify);
    slots_foreach (&session->mems, i, mem)
        allocation_free(mem);
}

void session_free(struct session *session)
{
    struct server *server = session->server;

    if (session->hello)
        log_line(LOG_DEBUG, &session->log, "gone");
    empty_ledger(session);
    peer_free(session);
    segments_deinit(&session->stream_segments);
    segments_deinit(&session->event_segments);
    if (session->page)
        munmap(session->page, sizeof(*session->page));
    streams_forget_discards(session);
    slots_deinit(&session->streams);
    slots_deinit(&session->events);
    slots_deinit(&session->ipc);
    slots_deinit(&session->mems);
    slots_deinit(&session->notifies);
    if (session->on_socket)
        event_free(session->on_socket);
    if (session->on_death)
        event_free(session->on_death);
    if (session->sends_fds)
        deferred_close_close_slow(session->socket);
    else
        deferred_close(session->socket);
    survivor_watch(session);
    if (session->pidfd >= 0)
        close(session->pidfd);
    charge_deinit(&session->charge);
    charge_deinit(&session->charge_fds);
    user_unref(&server->users, session->user);
    DL_DELETE(server->sessions, session);
    server->n_sessions--;
    free(session);
    heap_trim_count();
    /* A descriptor is free again: the next exhaustion is news. */
    server->clients->exhausted = false;
}

/* --- ends --- */

bool session_alive(const struct session *session)
{
    return !session->ended && !session->leaves &&
           (session->pidfd < 0 || pidfd_alive(session->pidfd));
}

/*
 * Many small objects of many sessions leave a heap that is free and full of holes. After a crowd
 * has left, and not after every client, its pages go back to the system.
 */
static void give_back_memory(struct server *server)
{
    if (server->most_sessions - server->n_sessions < TRIM_SESSIONS)
        return;
    server->most_sessions = server->n_sessions;
    malloc_trim(0);
}

static void free_ended(struct server *server, struct session *session)
{
    uint64_t start = clock_ns();

    session_free(session);
    server->ended_ns += clock_ns() - start;
}

/*
 * A process that dies closes its socket a moment before its pidfd tells. A session that has queues
 * need not have the others go to new rings, as they must when the process lives on, if that moment
 * is given to it. Its memory is not mapped any more by then, or it is none of ours that it does.
 */
static bool await_death(struct session *session)
{
    struct timeval most = {.tv_usec = DEATH_US};

    if (session->leaves || !session->shared || !queues_shared(session->shared) ||
        !survivor_of_session(session))
        return false;
    event_del(session->on_socket);
    if (event_add(session->on_death, &most) < 0)
        return false;
    session_halt(session);
    session->leaves = true;
    return true;
}

void session_end(struct session *session)
{
    struct server *server = session->server;
    struct timeval now = {0};

    if (session->ended || await_death(session))
        return;
    event_add(server->on_ended, &now);
    if (!server->ended && server->ended_ns < ENDED_SLICE) {
        free_ended(server, session);
        return;
    }
    event_del(session->on_socket);
    event_del(session->on_death);
    session->ended = true;
    *server->ended_tail = session;
    server->ended_tail = &session->ended_next;
}

/*
 * A timer of zero fires after the loop has looked at all descriptors: between two slices everybody
 * who has a request gets one answer.
 */
static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    struct timeval now = {0};
    struct session *session;

    (void)fd;
    (void)what;
    server->ended_ns = 0;
    while ((session = server->ended) && server->ended_ns < ENDED_SLICE) {
        server->ended = session->ended_next;
        if (!server->ended)
            server->ended_tail = &server->ended;
        free_ended(server, session);
    }
    if (server->ended)
        event_add(server->on_ended, &now);
    else
        give_back_memory(server);
}

int sessions_init(struct server *server)
{
    int r;

    server->ended_tail = &server->ended;
    server->on_ended = event_new(server->base, -1, 0, on_ended, server);
    if (!server->on_ended)
        return -ENOMEM;
    r = heap_trim_init(server->base);
    if (r == 0)
        r = peers_init(server->peers);
    if (r == 0)
        r = pools_init(server->pools);
    if (r == 0)
        r = queues_init(server->queues);
    return r < 0 ? r : router_init(server);
}

void sessions_deinit(struct server *server)
{
    server->ending = true;
    heap_trim_deinit();
    for (struct session *s = server->sessions, *next; s; s = next) {
        next = s->next;
        session_free(s);
    }
    if (server->on_ended)
        event_free(server->on_ended);
    survivors_deinit(server);
    router_deinit(server);
    queues_deinit(server->queues);
    pools_deinit(server->pools);
    peers_deinit(server->peers);
}

void session_tell_retired(struct session *session)
{
    if (!session || !session->page)
        return;
    atomic_fetch_add(&session->page->retired, 1);
    futex_wake_one(&session->page->retired);
}

int32_t session_hello(struct session *session, const char *program, int *page_fd)
{
    void *map;

    if (memfd_map_new("npud-session", sizeof(struct session_page), page_fd, &map) < 0)
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    session->page = map;
    snprintf(session->program, sizeof(session->program), "%s", program);
    session->hello = true;
    log_line(LOG_DEBUG, &session->log, "program %s, uid %u", session->program,
             (unsigned)session->uid);
    return 0;
}
