/*
 * Shared memory: a client with streams, events, IPC events and memory writes what it likes where it
 * likes, and its neighbour, an honest client with streams on the same devices, must not notice.
 */
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "encode.h"
#include "proto/wire/npud.pb-c.h"
#include "surroundings.h"
#include "target.h"
#include "world.h"

#define STREAMS   4
#define EVENTS    2
#define NEIGHBOUR 2 /* client 2 to itself; clients 0 and 1 are the input's */

static void ask_npud(struct client *c, uint32_t field, uint64_t value)
{
    MUST(world_ask(c, field, value) == 0);
}

static void allocate_memory(struct client *c, uint64_t kind, uint64_t size)
{
    struct output body;

    output_begin(&body);
    put_varint_field(&body, 1, kind);
    put_varint_field(&body, 3, size);
    world_request(c, NPUD__REQUEST__BODY_MALLOC, body.data, body.size);
    MUST(world.error == 0);
}

static struct client *connect_client(unsigned i, unsigned streams)
{
    struct client *c = world_connect(i, i == NEIGHBOUR ? 2000 : 1000);

    ask_npud(c, NPUD__REQUEST__BODY_HELLO, PROTOCOL);
    for (unsigned d = 0; d < 2; d++)
        ask_npud(c, NPUD__REQUEST__BODY_OPEN_DEVICE, d);
    for (unsigned s = 0; s < streams; s++)
        ask_npud(c, NPUD__REQUEST__BODY_CREATE_STREAM, s & 1);
    return c;
}

static void open_shared(struct client *c)
{
    struct output body;

    output_begin(&body);
    put_bytes_field(&body, 1, world.handle[0], sizeof(world.handle[0]));
    world_request(c, NPUD__REQUEST__BODY_OPEN_IPC_EVENT, body.data, body.size);
    MUST(world.error == 0);
}

/* Client 0 has some of everything; client 1 shares an IPC event with it. */
static void furnish_clients(void)
{
    struct client *c = connect_client(0, STREAMS);

    for (unsigned e = 0; e < EVENTS; e++)
        ask_npud(c, NPUD__REQUEST__BODY_CREATE_EVENT, 0);
    for (unsigned e = 0; e < EVENTS; e++)
        ask_npud(c, NPUD__REQUEST__BODY_CREATE_IPC_EVENT, e);
    ask_npud(c, NPUD__REQUEST__BODY_EXPORT_IPC_EVENT, 0);
    allocate_memory(c, 0, 4096);
    allocate_memory(c, 1, 1 << 20); /* more than the backend does in one step */
    open_shared(connect_client(1, 2));
}

/* Two tasks on one device, two on the other that wait for them. */
static void neighbour_submits(struct client *c)
{
    struct session *session = world_session(c);
    struct stream *first = slots_get(&session->streams, 0);
    struct task wait = {.op = TASK_WAIT_POS, .object = 0};

    wait.wait.target = atomic_load(&first->ctrl->tail) + 2;
    MUST(world_submit(c, 1, wait));
    MUST(world_submit(c, 1, (struct task){.op = TASK_NOP}));
    MUST(world_submit(c, 0, (struct task){.op = TASK_NOP}));
    MUST(world_submit(c, 0, (struct task){.op = TASK_NOP}));
}

static void neighbour_has_noticed_nothing(struct client *c)
{
    struct session *session = world_session(c);

    MUST(session);
    for (uint32_t i = 0; i < 2; i++) {
        struct stream *s = slots_get(&session->streams, i);

        MUST(s && atomic_load(&s->ctrl->done) == atomic_load(&s->ctrl->tail));
        MUST(atomic_load(&s->ctrl->error) == 0);
    }
}

static void set_up(void)
{
    world_begin();
    world.clients = NEIGHBOUR;
    furnish_clients();
    connect_client(NEIGHBOUR, 2);
}

static void run_input(struct input *in)
{
    struct client *neighbour = &world.client[NEIGHBOUR];
    unsigned submitted = 0;

    world_set_flags(take_u8(in) & (WORLD_ANY_UID | WORLD_SPIN | WORLD_SLOW));
    while (in->size > 0) {
        if (submitted++ % 8 == 0)
            neighbour_submits(neighbour);
        world_act(in);
        if (submitted % 8 == 0) {
            world_rest();
            neighbour_has_noticed_nothing(neighbour);
        }
    }
    world_rest();
    neighbour_has_noticed_nothing(neighbour);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct target target = {set_up, run_input};

    return target_run(&target, data, size);
}
