#include "world.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/admin/admin.h"
#include "daemon/core/engine.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/buffers/pool.h"
#include "daemon/base/hash.h"
#include "daemon/base/log.h"
#include "daemon/buffers/queue.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "encode.h"
#include "kernel.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "step.h"
#include "surroundings.h"
#include "tests/unit/server.h"

#define CLIENT_PID 100
#define OTHER_PID  1
#define TURNS_MAX  200000 /* more than any input can ask for: npud does not come to rest */
#define FAR        (2 * 3600 * NSEC_PER_SEC) /* timers beyond that are not waited for */

struct world world;

/* --- life --- */

/* What npud can find by pid: its clients, and one process that is none. */
static int find_process(pid_t pid)
{
    if (pid == OTHER_PID)
        return world.other;
    return pid >= CLIENT_PID && pid < CLIENT_PID + CLIENTS ? world.client[pid - CLIENT_PID].death
                                                           : -1;
}

static void set_config(struct config *config)
{
    config_init(config);
    config->log_level = LOG_DEBUG;
    config->ring_depth = 64;
    config->spin_us = 0;
    MUST(config_set(config, "npud.admin_group=") == 0); /* no look at this machine's groups */
    config->device_memory = 1 << 20;
    config->limit[RESOURCE_HOST_MEMORY] = 1 << 20;
}

void world_set_flags(unsigned flags)
{
    static const uint64_t poor[RESOURCE_COUNT] = {2,       3, 3, 2,  65536,    65536, 14, 2,
                                                  1 << 20, 2, 0, 64, 16 << 20, 64,    4,  65536};
    struct config *config = &world.config;

    config->ipc_any_uid = flags & WORLD_ANY_UID;
    if (flags & WORLD_POOR)
        memcpy(config->limit, poor, sizeof(poor));
    if (flags & (WORLD_LINGER_1 | WORLD_LINGER_NO))
        config->linger_max = flags & WORLD_LINGER_1 ? 1 : 0;
    if (flags & WORLD_SLOW)
        surroundings.tick = 15 * NSEC_PER_USEC;
    for (uint32_t i = 0; i < world.server.devices->n; i++)
        engine_set_spin(world.server.devices->device[i].engine,
                        flags & WORLD_SPIN ? 20 * NSEC_PER_USEC : 0);
    server_configure(&world.server);
}

void world_begin(void)
{
    log_setup(LOG_DEBUG);
    world = (struct world){.admin = -1, .clients = CLIENTS};
    for (int i = 0; i < CLIENTS; i++)
        world.client[i] = (struct client){.socket = -1, .death = -1};
    MUST(kernel_count() == 0);
    kernel_begin();
    surroundings_reset();
    surroundings.on = true;
    hash_key("", 0);         /* npud takes its key for the first use, and keeps it */
    surroundings.random = 1; /* so that all inputs find the same */
    surroundings.find_process = find_process;
    world.other = kernel_open_events(0);
    set_config(&world.config);
    MUST(server_begin(&world.server, &world.config) == 0);
}

void world_turn(void)
{
    server_turn(&world.server);
}

/* npud waits for the exit of processes that have outlived their sessions. All have exited here. */
static void let_survivors_exit(void)
{
    for (unsigned turns = 0; world.server.survivors; turns++) {
        MUST(turns < 1000);
        world_turn();
    }
}

void world_hang_up(struct client *c)
{
    if (c->socket < 0)
        return;
    close(c->socket);
    world_turn();
    eventfd_write(c->death, 1); /* then its process exits */
    close(c->death);
    *c = (struct client){.socket = -1, .death = -1};
    world_turn();
}

static void hang_up_admin(void)
{
    if (world.admin >= 0)
        close(world.admin);
    world.admin = -1;
    /* A report that is being made learns at its end that no administrator wants it. */
    do {
        world_turn();
    } while (world.server.admin_list);
}

static void must_be_empty(struct server *server)
{
    MUST(!server->sessions && server->n_sessions == 0 && !server->admin_list);
    MUST(HASH_COUNT(server->users.by_uid) == 0);
    MUST(HASH_COUNT(server->ipc->by_id) == 0 && server->ipc->lingering == 0);
    MUST(!schedule_busy(&server->schedule) && !server->schedule.inbox);
    MUST(!server->pools->list && server->queues->n == 0);
    for (uint32_t i = 0; i < server->devices->n; i++) {
        struct device *d = &server->devices->device[i];

        MUST(d->memory_used == 0 && d->sessions == 0 && d->stream_ids.live == 0);
        MUST(engine_empty(d->engine));
    }
}

void world_end(void)
{
    struct server *server = &world.server;

    surroundings.fail = 0;
    surroundings.meanwhile = NULL;
    for (int i = 0; i < CLIENTS; i++)
        world_hang_up(&world.client[i]);
    hang_up_admin();
    let_survivors_exit();
    /*
     * npud gives a client that hangs up and has queues a moment to be seen dying. It looks at what
     * a dead client left again some time later. And clients grant queues to pids, which may be
     * those of processes of this machine: these live, and could still come.
     */
    while (server->sessions || server->queues->all || server->pools->list) {
        if (server->sessions || !server->queues->all)
            schedule_round(&server->schedule, server->base, true);
        else
            queue_destroy(server->queues->all);
    }
    let_survivors_exit();
    must_be_empty(server);
    spare_fds_deinit(&server->spare);
    server_end(server);
    config_deinit(&world.config);
    close(world.other);
    surroundings.on = false;
    MUST(kernel_count() == 0);
}

/* --- time --- */

/*
 * Let npud and all engines have a turn. True when all engines have slept, and slept again, since
 * any of them has done anything.
 */
static bool step_all(unsigned *slept)
{
    bool rest = true;

    for (uint32_t i = 0; i < world.server.devices->n; i++) {
        enum engine_does step = engine_step(world.server.devices->device[i].engine);

        if (step == STEP_WORKED)
            memset(slept, 0, DEVICES_MAX * sizeof(*slept));
        slept[i] += step == STEP_SLEPT;
    }
    world_turn();
    for (uint32_t i = 0; i < world.server.devices->n; i++)
        rest &= slept[i] > 1;
    return rest;
}

static uint64_t next_deadline(void)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < world.server.devices->n; i++) {
        uint64_t d = engine_deadline(world.server.devices->device[i].engine);

        if (d != 0 && (next == 0 || d < next))
            next = d;
    }
    return next;
}

void world_rest(void)
{
    unsigned slept[DEVICES_MAX] = {0};

    for (unsigned turns = 0;; turns++) {
        uint64_t next;

        MUST(turns < TURNS_MAX);
        if (!step_all(slept))
            continue;
        next = next_deadline();
        if (next == 0 || next > surroundings.now + FAR)
            return;
        if (next > surroundings.now)
            surroundings.now = next;
        memset(slept, 0, sizeof(slept));
    }
}

/* --- clients --- */

struct session *world_session(const struct client *c)
{
    struct session *s;

    DL_FOREACH (world.server.sessions, s)
        if (s->id == c->id)
            return s;
    return NULL;
}

static void small_buffer(int socket)
{
    int size = 1; /* the kernel's least: a few replies */

    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

struct client *world_connect(unsigned i, uid_t uid)
{
    struct client *c = &world.client[i % CLIENTS];
    struct session *session;
    int pair[2];

    if (c->socket >= 0)
        return c;
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    small_buffer(pair[1]);
    *c = (struct client){.socket = pair[0]};
    c->death = kernel_open_events(0);
    surroundings.peer_pid = CLIENT_PID + (pid_t)(i % CLIENTS);
    surroundings.peer_uid = uid;
    surroundings.peer_death = c->death;
    session = session_new(&world.server, pair[1]);
    c->id = session ? session->id : 0;
    return c;
}

static void keep_handle(const ProtobufCBinaryData *handle)
{
    MUST(handle->len == sizeof(world.handle[0]));
    memmove(world.handle[1], world.handle[0], sizeof(world.handle) - sizeof(world.handle[0]));
    memcpy(world.handle[0], handle->data, handle->len);
    if (world.n_handles < sizeof(world.handle) / sizeof(world.handle[0]))
        world.n_handles++;
}

static void check_reply(struct client *c, struct packet *packet)
{
    Npud__Reply *reply = npud__reply__unpack(NULL, packet->size, packet->data);

    MUST(reply);
    MUST(packet->n_fds <= QUEUE_FILES); /* no answer has more */
    if (reply->error != 0) {
        MUST(reply->message[0] != '\0');
        MUST(reply->body_case == NPUD__REPLY__BODY__NOT_SET);
        MUST(packet->n_fds == 0);
    }
    if (reply->body_case == NPUD__REPLY__BODY_EXPORT_IPC_EVENT)
        keep_handle(&reply->export_ipc_event->handle);
    if (reply->id == c->last_request)
        world.error = reply->error;
    npud__reply__free_unpacked(reply, NULL);
}

void world_read(struct client *c)
{
    static struct packet packet;
    int r;

    if (c->mute && world_session(c))
        return;
    while ((r = packet_recv(c->socket, &packet, MSG_DONTWAIT)) > 0) {
        check_reply(c, &packet);
        packet_deinit(&packet);
    }
    MUST(r == 0 || r == -EAGAIN);
    MUST((r == -EAGAIN) == (world_session(c) != NULL));
    if (r == 0)
        world_hang_up(c);
}

void world_send(struct client *c, const void *data, size_t size, const int *fds, size_t n_fds)
{
    world.error = -1;
    /* More than fits the socket is refused to the client by its kernel, and npud never sees it. */
    if (packet_send(c->socket, data, size, fds, n_fds, MSG_DONTWAIT) == 0)
        world_turn();
    world_read(c);
}

void world_request(struct client *c, uint32_t field, const void *body, size_t size)
{
    struct output out;

    output_begin(&out);
    put_varint_field(&out, 1, ++c->last_request);
    put_bytes_field(&out, field, body, size);
    world_send(c, out.data, out.size, NULL, 0);
}

int32_t world_ask(struct client *c, uint32_t field, uint64_t value)
{
    struct output body;

    output_begin(&body);
    put_varint_field(&body, 1, value);
    world_request(c, field, body.data, body.size);
    return world.error;
}

bool world_submit(struct client *c, uint32_t number, struct task task)
{
    struct session *session = world_session(c);
    struct stream *s = session ? slots_get(&session->streams, number) : NULL;

    if (!s || atomic_load(&s->ctrl->tail) - atomic_load(&s->live->done) >= s->depth)
        return false;
    client_submit(s, task);
    return true;
}
