/* What an input can make clients and the rest of the world do: one row in `actions` each. */
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/admin/admin.h"
#include "daemon/core/event.h"
#include "daemon/core/device.h"
#include "daemon/core/ipc_event.h"
#include "daemon/memory/allocation.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/segment.h"
#include "daemon/core/session.h"
#include "daemon/buffers/peer.h"
#include "daemon/core/stream.h"
#include "encode.h"
#include "proto/shm/arena.h"
#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "step.h"
#include "surroundings.h"
#include "world.h"

#define UID(i) (1000 + ((i)&4 ? 1u : 0u))

static struct client *take_client(struct input *in)
{
    uint8_t i = take_u8(in);

    return world_connect((i & 3) % world.clients, UID(i));
}

/* --- packets --- */

static void act_hello(struct input *in)
{
    struct client *c = take_client(in);

    world_ask(c, NPUD__REQUEST__BODY_HELLO, PROTOCOL);
}

/* Well-formed, with values as the input says. */
static void act_request(struct input *in)
{
    struct client *c = take_client(in);
    const ProtobufCMessageDescriptor *type = &npud__request__descriptor;
    const ProtobufCFieldDescriptor *field = &type->fields[1 + take_u8(in) % (type->n_fields - 1)];
    struct output body;

    output_begin(&body);
    encode_message(&body, field->descriptor, in);
    world_request(c, field->id, body.data, body.size);
}

/* Any bytes, with any descriptors. */
static void act_packet(struct input *in)
{
    struct client *c = take_client(in);
    uint8_t n_fds = take_u8(in) % (PACKET_FDS_MAX + 1);
    uint64_t want = take_number(in);
    int fds[PACKET_FDS_MAX] = {0, 1, c->death, c->socket};
    static uint8_t data[2 * PACKET_MAX];
    const uint8_t *p;
    size_t n;

    if (want > sizeof(data))
        want = sizeof(data);
    p = take_bytes(in, want, &n);
    memset(data, 0, want);
    if (n > 0)
        memcpy(data, p, n);
    world_send(c, data, want, fds, n_fds);
}

static bool given_out(const uint8_t *handle)
{
    for (unsigned i = 0; i < world.n_handles; i++)
        if (memcmp(handle, world.handle[i], sizeof(world.handle[i])) == 0)
            return true;
    return false;
}

/*
 * A handle that npud gave out, whole or damaged, with or without a check sum that fits. Only the
 * former may open anything.
 */
static void act_open(struct input *in)
{
    struct client *c = take_client(in);
    uint8_t how = take_u8(in);
    struct ipc_handle handle;
    struct output body;
    size_t n = sizeof(handle);

    output_begin(&body);
    memcpy(&handle, world.handle[how % 8], sizeof(handle));
    if (how & 8)
        damage_byte(in, (uint8_t *)&handle, sizeof(handle));
    if (how & 16)
        handle.check = ipc_handle_check(&handle);
    if (how & 32)
        n = take_u8(in);
    put_bytes_field(&body, 1, &handle, n < sizeof(handle) ? n : sizeof(handle));
    world_request(c, NPUD__REQUEST__BODY_OPEN_IPC_EVENT, body.data, body.size);
    MUST(world.error != 0 || (n >= sizeof(handle) && given_out((uint8_t *)&handle)));
}

/* An administrator may end any session, but not that of a client which is to notice nothing. */
static bool spares_others(const struct output *out)
{
    Npud__AdminRequest *r = npud__admin_request__unpack(NULL, out->size, out->data);
    bool spares = true;

    for (unsigned i = world.clients; r && i < CLIENTS; i++)
        spares &= r->end_session != world.client[i].id;
    if (r)
        npud__admin_request__free_unpacked(r, NULL);
    return spares;
}

static void connect_admin(uid_t uid)
{
    int pair[2];

    if (world.admin >= 0)
        return;
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    surroundings.peer_uid = uid;
    world.admin = pair[0];
    admin_accept(&world.server, pair[1]);
}

static void act_admin(struct input *in)
{
    const ProtobufCMessageDescriptor *type = &npud__admin_request__descriptor;
    uint8_t how = take_u8(in), topic;
    struct output out;
    static struct packet packet;
    const uint8_t *p;

    output_begin(&out);
    connect_admin(how & 2 ? 4242 : 0);
    if (how & 1) {
        p = take_bytes(in, take_u8(in), &out.size);
        if (out.size > 0)
            memcpy(out.data, p, out.size);
    } else {
        put_varint_field(&out, 2, PROTOCOL);
        topic = take_u8(in);
        put_varint_field(&out, 3, topic < 200 ? topic % 12 : 70 + topic % 3);
        encode_message(&out, type, in);
    }
    if (spares_others(&out))
        packet_send(world.admin, out.data, out.size, NULL, 0, MSG_DONTWAIT);
    world_turn();
    while (packet_recv(world.admin, &packet, MSG_DONTWAIT) > 0)
        packet_deinit(&packet);
    if (!world.server.admin_list) {
        close(world.admin);
        world.admin = -1;
    }
}

static void act_mute(struct input *in)
{
    struct client *c = take_client(in);

    c->mute = !c->mute;
    world_read(c);
}

static void act_hang_up(struct input *in)
{
    world_hang_up(take_client(in));
}

static void act_die(struct input *in)
{
    struct client *c = take_client(in);

    eventfd_write(c->death, 1);
    world_turn();
    world_read(c);
}

/* --- shared memory --- */

/* Whose generation the op checks: where a task names an object, this is of the right one. */
static uint32_t generation_of(const struct session *s, unsigned op, uint32_t object)
{
    const struct slots *tables[TASK_OPS] = {
        [TASK_RECORD] = &s->events,
        [TASK_RESET] = &s->events,
        [TASK_WAIT_LEVEL] = &s->events,
        [TASK_IPC_RECORD] = &s->ipc,
        [TASK_IPC_WAIT] = &s->ipc,
        [TASK_COPY] = &s->mems,
        [TASK_SET] = &s->mems,
        [TASK_NOTIFY_RECORD] = &s->notifies,
        [TASK_NOTIFY_WAIT] = &s->notifies,
        [TASK_COUNT_RECORD] = &s->notifies,
        [TASK_COUNT_WAIT] = &s->notifies,
        [TASK_VALUE_WRITE] = &s->mems,
        [TASK_VALUE_WAIT] = &s->mems,
        [TASK_REDUCE] = &s->mems,
        [TASK_GRAPH] = &s->mems,
        [TASK_JUMP] = &s->mems,
        [TASK_LAUNCH] = &s->mems,
    };
    void *slot = op < TASK_OPS && tables[op] ? slots_get(tables[op], object) : NULL;

    return slot ? slot_generation(slot) : 0;
}

static void act_task(struct input *in)
{
    struct client *c = take_client(in);
    struct session *session = world_session(c);
    uint8_t stream = take_u8(in);
    struct task t = {.op = take_u8(in) % (TASK_OPS + 1)};

    t.flags = take_u8(in);
    t.object = (uint32_t)take_number(in);
    for (unsigned i = 0; i < 4; i++)
        t.words[i] = take_number(in);
    if (t.op == TASK_REDUCE) {
        t.reduce.kind = take_u8(in) & 15;
        t.reduce.type = take_u8(in) & 31;
    }
    if (!session)
        return;
    t.generation = stream & 0x80 ? take_u8(in) : generation_of(session, t.op, t.object);
    if (t.op == TASK_COPY && !(stream & 0x80))
        t.copy.src_generation = generation_of(session, TASK_COPY, t.copy.src);
    if (t.op == TASK_REDUCE && !(stream & 0x80))
        t.reduce.src_generation = generation_of(session, TASK_COPY, t.reduce.src);
    world_submit(c, stream & 0x7f, t);
}

/* Heads of a segment that it maps, or a file of a queue that it may write, or NULL. */
static void *find_shared(struct session *s, uint32_t i, size_t *size)
{
    struct segment_map *map = s->peer ? s->peer->maps : NULL;
    struct queue_attach *a = s->peer ? s->peer->attached : NULL;
    const struct queue_view *ring;

    if (i & 1) {
        for (i >>= 1; map && i > 0; i--)
            map = map->hh.next;
        *size = map ? map->segment->mapped : 0;
        return map ? map->segment->view.page : NULL;
    }
    for (uint32_t n = i >> 2; a && n > 0; n--)
        a = a->next;
    if (!a)
        return NULL;
    ring = &a->queue->ring.view;
    *size = i & 2 ? queue_take_size() : queue_put_size(ring->depth);
    if (i & 2)
        return a->rights & QUEUE_TAKE ? ring->take : NULL;
    return a->rights & QUEUE_PUT ? ring->put : NULL;
}

/* Something that the client has mapped, or NULL. */
static void *find_region(struct session *s, uint8_t which, size_t *size)
{
    uint32_t i = which >> 3;
    struct ipc_open *open;
    struct stream *stream;

    switch (which & 7) {
    case 0:
        *size = sizeof(struct session_page);
        return s->page;
    case 1:
    case 2:
        *size = s->stream_files.size;
        return i < s->stream_files.n && s->stream_files.file[i] ? s->stream_files.file[i]->map
                                                                : NULL;
    case 3:
        *size = s->event_files.size;
        return i < s->event_files.n && s->event_files.file[i] ? s->event_files.file[i]->map : NULL;
    case 5:
        return find_shared(s, i, size);
    case 4:
        open = slots_get(&s->ipc, i);
        *size = sizeof(struct ipc_page);
        return open ? open->event->page : NULL;
    case 6:
        stream = slots_get(&s->streams, i);
        *size = sizeof(struct stream_ctrl);
        return stream ? stream->ctrl : NULL;
    default:
        stream = slots_get(&s->streams, i);
        *size = stream ? stream->depth * sizeof(struct task) : 0;
        return stream ? stream->ring : NULL;
    }
}

struct poke {
    struct client *client;
    uint8_t region;
    uint64_t offset;
    uint64_t value;
};

static struct poke take_poke(struct input *in)
{
    struct poke p = {.client = take_client(in)};

    p.region = take_u8(in);
    p.offset = (uint64_t)take_u16(in) * 8;
    p.value = take_number(in);
    return p;
}

static void poke_region(const struct poke *p)
{
    struct session *session = world_session(p->client);
    size_t size;
    uint8_t *region = session ? find_region(session, p->region, &size) : NULL;

    if (region)
        memcpy(region + p->offset % size, &p->value, sizeof(p->value));
}

/* Write anywhere. */
static void act_poke(struct input *in)
{
    struct poke p = take_poke(in);

    poke_region(&p);
}

static struct poke later;

static void poke_later(void)
{
    poke_region(&later);
}

/* The same, just when a stream begins to wait. */
static void act_poke_later(struct input *in)
{
    later = take_poke(in);
    surroundings.meanwhile = poke_later;
}

static void act_ring_doorbell(struct input *in)
{
    struct session *session = world_session(take_client(in));
    struct attach *a = session ? session_attach(session, take_u8(in) & 1) : NULL;

    if (!a)
        return;
    doorbell_raise(a->bell, take_u8(in));
    eventfd_write(a->fd, 1);
}

/* A record, as the library takes it, of which the stream learns by a task (or does not). */
static void act_take_record(struct input *in)
{
    struct session *session = world_session(take_client(in));
    uint8_t stream = take_u8(in);
    uint32_t slot = take_u8(in);
    struct ipc_open *open = session ? slots_get(&session->ipc, slot) : NULL;
    struct task t = {.op = TASK_IPC_RECORD, .object = slot};
    uint64_t blocker;

    if (!open)
        return;
    t.generation = slot_generation(open);
    t.ipc.number = ipc_take(open->event->page, open->opener->slot.number,
                            stream & 0x80 ? IPC_DONE : IPC_PENDING, &blocker);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (world_session(&world.client[i]) == session && t.ipc.number != 0)
            world_submit(&world.client[i], stream & 0x7f, t);
}

/* To be told when a position or a record has come; seldom with a descriptor, which is the end. */
static void act_notify(struct input *in)
{
    struct client *c = take_client(in);
    uint8_t how = take_u8(in), slot = take_u8(in);
    struct session *session = world_session(c);
    struct output body, out;
    void *open = session ? slots_get(&session->ipc, slot) : NULL;

    output_begin(&body);
    output_begin(&out);
    put_varint_field(&body, 1, take_number(in) % (how & 8 ? UINT64_MAX : EVENT_FDS_MAX));
    put_varint_field(&body, 2, how >> 4 & 1);
    put_varint_field(&body, 3, slot);
    put_varint_field(&body, 4, open && !(how & 32) ? slot_generation(open) : take_u8(in));
    put_varint_field(&body, 5, take_number(in));
    put_varint_field(&out, 1, ++c->last_request);
    put_bytes_field(&out, NPUD__REQUEST__BODY_NOTIFY_FD, body.data, body.size);
    if (c->socket >= 0)
        world_send(c, out.data, out.size, &c->socket, (how & 192) == 192);
}

/* A thread says that it sleeps, truly or not. */
static void act_sleep(struct input *in)
{
    struct session *session = world_session(take_client(in));
    uint8_t slot = take_u8(in);
    struct wait_info info = {.call = "aclrtSynchronizeStream"};

    info.what = take_u8(in);
    info.object = (uint32_t)take_number(in);
    info.target = take_number(in);
    info.since_ns = take_number(in);
    info.thread = slot;
    damage_byte(in, (uint8_t *)info.call, sizeof(info.call));
    if (!session || !session->page)
        return;
    wait_slot_fill(&session->page->waits[slot], &info);
    if (atomic_load(&session->page->waits_used) <= slot)
        atomic_store(&session->page->waits_used, slot + 1u);
}

/* --- npud's time and means --- */

static void act_turns(struct input *in)
{
    uint8_t how = take_u8(in);
    struct device *d = devices_get(world.server.devices, how & 1);

    for (unsigned n = how >> 1; n > 0; n--)
        if (engine_step(d->engine) == STEP_SLEPT)
            break; /* the next ones would do the same */
}

static void act_rest(struct input *in)
{
    (void)in;
    world_rest();
}

static void act_wait(struct input *in)
{
    uint64_t us = take_number(in);

    surroundings.now += us % 1000000 * NSEC_PER_USEC;
}

static void act_refuse(struct input *in)
{
    surroundings.fail = take_u8(in) & 31;
}

void world_act(struct input *in)
{
    static void (*const actions[])(struct input * in) = {
        act_hello,  act_request,    act_request, act_packet,        act_open,        act_admin,
        act_mute,   act_hang_up,    act_die,     act_task,          act_task,        act_poke,
        act_poke,   act_turns,      act_rest,    act_ring_doorbell, act_take_record, act_wait,
        act_refuse, act_poke_later, act_sleep,   act_notify,
    };

    actions[take_u8(in) % (sizeof(actions) / sizeof(actions[0]))](in);
}
