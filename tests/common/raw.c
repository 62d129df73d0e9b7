#include "tests/common/raw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/util/futex.h"

#define CONNECTIONS_MAX 4

/* --- packets --- */

int raw_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_SOCKET"));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void hang_up(struct raw *r)
{
    if (r->socket >= 0)
        close(r->socket);
    r->socket = -1;
}

int raw_send(struct raw *r, Npud__Request *request, int flags)
{
    request->id = ++r->last_id;
    return packet_send_message(r->socket, &request->base, NULL, 0, flags);
}

/*
 * The answer to the request sent last, or NULL. An npud that comes back after it was killed may
 * answer an earlier one once more: that is dropped.
 */
static Npud__Reply *receive_answer(struct raw *r, struct packet *packet)
{
    Npud__Reply *reply = NULL;

    do {
        if (reply)
            npud__reply__free_unpacked(reply, NULL);
        packet_deinit(packet);
        reply = packet_recv(r->socket, packet, 0) == 1
                    ? npud__reply__unpack(NULL, packet->size, packet->data)
                    : NULL;
    } while (reply && reply->id != 0 && reply->id < r->last_id);
    return reply;
}

Npud__Reply *raw_ask_fds(struct raw *r, Npud__Request *request, int *fds, unsigned n)
{
    static struct packet packet;
    Npud__Reply *reply;

    for (unsigned i = 0; i < n; i++)
        fds[i] = -1;
    if (r->socket < 0)
        return NULL;
    raw_send(r, request, 0); /* ended already: its last words may be there all the same */
    reply = receive_answer(r, &packet);
    for (unsigned i = 0; reply && i < n; i++)
        fds[i] = packet_take_fd(&packet, i);
    packet_deinit(&packet);
    if (reply)
        r->error = reply->error;
    else
        hang_up(r);
    return reply;
}

Npud__Reply *raw_ask(struct raw *r, Npud__Request *request, int *fd)
{
    return raw_ask_fds(r, request, fd, fd ? 1 : 0);
}

/* For answers that carry nothing of interest. */
static bool succeed_in_request(struct raw *r, Npud__Request *request)
{
    Npud__Reply *reply = raw_ask(r, request, NULL);
    bool ok = reply && reply->error == 0;

    if (reply)
        npud__reply__free_unpacked(reply, NULL);
    return ok;
}

/* An answer without error, or NULL. */
static Npud__Reply *obtain_answer(struct raw *r, Npud__Request *request, int *fd)
{
    Npud__Reply *reply = raw_ask(r, request, fd);

    if (!reply || reply->error == 0)
        return reply;
    npud__reply__free_unpacked(reply, NULL);
    return NULL;
}

/* --- memory --- */

/*
 * Map what came as fd, which is ours to close. NULL: there is no more room, in the table or at all.
 */
static void *map_fd(struct raw *r, int fd, size_t size)
{
    void *at = MAP_FAILED;
    struct raw_map *m;

    if (fd < 0)
        return NULL;
    if (r->n_maps < RAW_MAPS)
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    m = &r->map[r->n_maps++];
    *m = (struct raw_map){.at = at, .size = size, .fd = r->keep_fds ? fd : -1};
    if (!r->keep_fds)
        close(fd);
    return at;
}

static void unmap_memory(struct raw *r, void *at)
{
    for (unsigned i = 0; i < r->n_maps; i++) {
        struct raw_map *m = &r->map[i];

        if (m->at != at)
            continue;
        munmap(m->at, m->size);
        if (m->fd >= 0)
            close(m->fd);
        *m = r->map[--r->n_maps];
        return;
    }
}

/* --- session --- */

bool raw_open(struct raw *r)
{
    bool keep = r->keep_fds;
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__Reply *reply = NULL;
    int fd;

    memset(r, 0, sizeof(*r));
    r->keep_fds = keep;
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        r->bell[i] = -1;
    hello.protocol = PROTOCOL;
    hello.program = (char *)"raw";
    q.hello = &hello;
    q.body_case = NPUD__REQUEST__BODY_HELLO;
    /* Not answered: an npud was killed before it noted the connection, or hangs up on us. */
    for (unsigned i = 0; i < CONNECTIONS_MAX; i++) {
        r->socket = raw_connect();
        reply = obtain_answer(r, &q, &fd);
        if (reply || r->socket >= 0)
            break;
    }
    if (!reply)
        return false;
    r->depth = reply->hello->ring_depth;
    r->n_devices = (uint32_t)reply->hello->n_devices;
    npud__reply__free_unpacked(reply, NULL);
    r->page = map_fd(r, fd, sizeof(*r->page));
    return r->page != NULL;
}

void raw_close(struct raw *r)
{
    hang_up(r);
    while (r->n_maps > 0)
        unmap_memory(r, r->map[0].at);
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        if (r->bell[i] >= 0)
            close(r->bell[i]);
        r->bell[i] = -1;
    }
    r->n_streams = 0;
}

bool raw_open_device(struct raw *r, uint32_t device)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenDevice in = NPUD__OPEN_DEVICE__INIT;
    Npud__Reply *reply;
    int fd;

    in.device = device;
    q.open_device = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    reply = obtain_answer(r, &q, &fd);
    if (!reply)
        return false;
    npud__reply__free_unpacked(reply, NULL);
    r->bell[device] = fd;
    return true;
}

/* --- streams --- */

bool raw_create_stream(struct raw *r, uint32_t device)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateStream in = NPUD__CREATE_STREAM__INIT;
    Npud__Reply *reply;
    struct raw_stream *s;
    void **segment;
    int fd;

    if (r->n_streams == RAW_STREAMS)
        return false;
    in.device = device;
    q.create_stream = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_STREAM;
    reply = obtain_answer(r, &q, &fd);
    if (!reply)
        return false;
    s = &r->stream[r->n_streams];
    *s = (struct raw_stream){.slot = reply->create_stream->slot,
                             .device = device,
                             .tail = reply->create_stream->position};
    npud__reply__free_unpacked(reply, NULL);
    segment = &r->segment[s->slot / ARENA_STREAMS];
    if (fd >= 0)
        *segment = map_fd(r, fd, arena_stream_file_size(r->depth));
    if (!*segment)
        return false;
    s->ctrl = arena_stream_ctrl(*segment, s->slot);
    s->ring = arena_stream_ring(*segment, s->slot, r->depth);
    r->n_streams++;
    return true;
}

bool raw_destroy_stream(struct raw *r, unsigned i)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__DestroyStream in = NPUD__DESTROY_STREAM__INIT;

    in.slot = r->stream[i].slot;
    r->stream[i] = r->stream[--r->n_streams];
    q.destroy_stream = &in;
    q.body_case = NPUD__REQUEST__BODY_DESTROY_STREAM;
    return succeed_in_request(r, &q);
}

bool raw_hold_stream(struct raw *r, unsigned i, uint64_t *from, uint64_t *to)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__AbortStream in = NPUD__ABORT_STREAM__INIT;
    Npud__Reply *reply;

    in.slot = r->stream[i].slot;
    in.hold = true;
    q.abort_stream = &in;
    q.body_case = NPUD__REQUEST__BODY_ABORT_STREAM;
    reply = obtain_answer(r, &q, NULL);
    if (!reply)
        return false;
    *from = reply->abort_stream->from;
    *to = reply->abort_stream->to;
    npud__reply__free_unpacked(reply, NULL);
    return true;
}

bool raw_abort_stream(struct raw *r, unsigned i, int32_t told)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__AbortStream in = NPUD__ABORT_STREAM__INIT;

    in.slot = r->stream[i].slot;
    in.told = told;
    q.abort_stream = &in;
    q.body_case = NPUD__REQUEST__BODY_ABORT_STREAM;
    return succeed_in_request(r, &q);
}

void raw_put(struct raw *r, struct raw_stream *s, const struct task *task)
{
    struct task *entry = &s->ring[s->tail & (r->depth - 1)];

    memcpy((char *)entry + sizeof(entry->sequence), (const char *)task + sizeof(task->sequence),
           sizeof(*task) - sizeof(task->sequence));
    s->tail++;
    atomic_store_explicit(&s->ctrl->tail, s->tail, memory_order_release);
    atomic_store(&entry->sequence, s->tail);
}

void raw_ring(struct raw *r, struct raw_stream *s)
{
    if (doorbell_raise(&r->page->doorbell[s->device], s->slot))
        eventfd_write(r->bell[s->device], 1);
}

bool raw_passed(const struct raw_stream *s)
{
    return atomic_load_explicit(&s->ctrl->done, memory_order_acquire) >= s->tail;
}

void raw_wait(struct raw_stream *s)
{
    for (;;) {
        uint32_t seen = atomic_load_explicit(&s->ctrl->wake_seq, memory_order_acquire);

        stream_arm(s->ctrl, s->tail);
        if (raw_passed(s))
            return;
        futex_wait_until(&s->ctrl->wake_seq, seen, NULL);
    }
}

/* --- events --- */

bool raw_create_event(struct raw *r, struct raw_object *event)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateEvent in = NPUD__CREATE_EVENT__INIT;
    Npud__Reply *reply;
    int fd;

    q.create_event = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_EVENT;
    reply = obtain_answer(r, &q, &fd);
    if (!reply)
        return false;
    *event = (struct raw_object){.slot = reply->create_event->slot,
                                 .generation = reply->create_event->generation};
    npud__reply__free_unpacked(reply, NULL);
    map_fd(r, fd, arena_event_file_size());
    return true;
}

/* What both requests that give an IPC event answer. */
static bool take_ipc(struct raw *r, Npud__Request *q, struct raw_object *event)
{
    int fd;
    Npud__Reply *reply = obtain_answer(r, q, &fd);

    if (!reply)
        return false;
    *event = (struct raw_object){.slot = reply->ipc_event->slot,
                                 .generation = reply->ipc_event->generation,
                                 .opener = reply->ipc_event->opener};
    npud__reply__free_unpacked(reply, NULL);
    event->at = map_fd(r, fd, sizeof(struct ipc_page));
    return true;
}

bool raw_create_ipc(struct raw *r, struct raw_object *event)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateIpcEvent in = NPUD__CREATE_IPC_EVENT__INIT;

    q.create_ipc_event = &in;
    q.body_case = NPUD__REQUEST__BODY_CREATE_IPC_EVENT;
    return take_ipc(r, &q, event);
}

bool raw_open_ipc(struct raw *r, const void *handle, struct raw_object *event)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenIpcEvent in = NPUD__OPEN_IPC_EVENT__INIT;

    in.handle.data = (uint8_t *)handle;
    in.handle.len = 64;
    q.open_ipc_event = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_IPC_EVENT;
    return take_ipc(r, &q, event);
}

bool raw_export_ipc(struct raw *r, uint32_t slot, uint8_t handle[64])
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__ExportIpcEvent in = NPUD__EXPORT_IPC_EVENT__INIT;
    Npud__Reply *reply;

    in.slot = slot;
    q.export_ipc_event = &in;
    q.body_case = NPUD__REQUEST__BODY_EXPORT_IPC_EVENT;
    reply = obtain_answer(r, &q, NULL);
    if (!reply)
        return false;
    memcpy(handle, reply->export_ipc_event->handle.data, 64);
    npud__reply__free_unpacked(reply, NULL);
    return true;
}

bool raw_close_ipc(struct raw *r, uint32_t slot)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CloseIpcEvent in = NPUD__CLOSE_IPC_EVENT__INIT;

    in.slot = slot;
    q.close_ipc_event = &in;
    q.body_case = NPUD__REQUEST__BODY_CLOSE_IPC_EVENT;
    return succeed_in_request(r, &q);
}

/* --- device and host memory --- */

bool raw_malloc(struct raw *r, bool host, uint64_t size, struct raw_object *memory)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__Malloc in = NPUD__MALLOC__INIT;
    Npud__Reply *reply;
    int fd;

    in.kind = host ? NPUD__MALLOC__KIND__HOST : NPUD__MALLOC__KIND__DEVICE;
    in.size = size;
    q.malloc = &in;
    q.body_case = NPUD__REQUEST__BODY_MALLOC;
    reply = obtain_answer(r, &q, &fd);
    if (!reply)
        return false;
    *memory =
        (struct raw_object){.slot = reply->malloc->slot, .generation = reply->malloc->generation};
    npud__reply__free_unpacked(reply, NULL);
    memory->at = map_fd(r, fd, size);
    return true;
}

bool raw_free(struct raw *r, uint32_t slot)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__Free in = NPUD__FREE__INIT;

    in.slot = slot;
    q.free = &in;
    q.body_case = NPUD__REQUEST__BODY_FREE;
    return succeed_in_request(r, &q);
}
