/*
 * Objects of all kinds come and go while engines use them, and clients submit what they like: npud
 * lives, and holds nothing afterwards. The assertions are mostly npud's own, and those of the
 * sanitizers.
 */
#include "daemon/core/stream_abort.h"
#include "npud.h"

#define SESSIONS 3
#define STREAMS  6
#define EVENTS   4
#define IPC      4
#define MEMS     3

/* One client, hostile or only lively. */
struct client {
    struct session *session;
    struct stream *stream[STREAMS];
    struct event_obj *event[EVENTS];
    struct ipc_open *ipc[IPC];
    struct mem *mem[MEMS];
};

static const char *const settings[] = {"engine.spin_us=5", "stream.depth=64", "ipc.linger_max=2",
                                       NULL};
static const struct task nop = {.op = TASK_NOP};
static struct client clients[SESSIONS];
static uint64_t rng;

static uint32_t draw_below(uint32_t n)
{
    return random_below(&rng, n);
}

static void start_npud(void)
{
    npud_start(settings);
}

/* --- tasks --- */

static uint64_t draw_timeout(void)
{
    return draw_below(2) ? 0 : 1 + draw_below(100000);
}

static struct task wait_task(const struct client *c)
{
    const struct stream *other = c->stream[draw_below(STREAMS)];
    uint64_t done = other ? atomic_load(&other->live->done) : 0;

    return (struct task){.op = TASK_WAIT_POS,
                         .object = other ? other->slot.number : draw_below(10),
                         .wait.target =
                             done + draw_below(6), /* often enough one that never comes */
                         .wait.timeout_ns = draw_timeout()};
}

static struct task event_task(const struct client *c)
{
    static const uint8_t ops[] = {TASK_RECORD, TASK_RESET, TASK_WAIT_LEVEL};
    const struct event_obj *ev = c->event[draw_below(EVENTS)];
    struct task task = {.op = ops[draw_below(3)], .flags = (uint8_t)draw_below(8)};

    task.object = ev ? ev->slot.number : draw_below(10);
    task.generation = ev ? slot_generation(ev) : draw_below(10);
    task.record.number = draw_below(100);
    if (task.op == TASK_WAIT_LEVEL)
        task.wait.timeout_ns = draw_timeout();
    return task;
}

static struct task ipc_task(const struct client *c)
{
    struct ipc_open *open = c->ipc[draw_below(IPC)];
    struct task task = {.op = TASK_NOP};
    uint64_t blocker, number;

    if (!open)
        return task;
    task.object = open->slot.number;
    task.generation = slot_generation(open);
    if (draw_below(2)) {
        task.op = TASK_IPC_WAIT;
        task.ipc.number =
            ipc_latest_number(atomic_load(&open->event->page->latest)) - draw_below(3);
        task.ipc.timeout_ns = draw_timeout();
        return task;
    }
    number = ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker);
    /* Some are never submitted: only the end of the opener completes them. */
    if (number != 0 && draw_below(4) != 0) {
        task.op = TASK_IPC_RECORD;
        task.ipc.number = number;
    }
    return task;
}

/*
 * Each device has a half of every allocation: npud does not mind if a client lets two copies race,
 * but the thread sanitizer does. Now and then a range leaves the allocation.
 */
static struct task memory_task(const struct client *c, uint32_t device)
{
    const struct mem *dst = c->mem[draw_below(MEMS)], *src = c->mem[draw_below(MEMS)];
    struct task task = {.op = draw_below(2) ? TASK_COPY : TASK_SET};
    uint64_t room, size;

    if (!dst || !src)
        return task;
    room = dst->pages->size < src->pages->size ? dst->pages->size / 2 : src->pages->size / 2;
    size = draw_below(16) ? draw_below((uint32_t)room + 1) : dst->pages->size + src->pages->size;
    task.object = dst->slot.number;
    task.generation = slot_generation(dst);
    if (task.op == TASK_COPY) {
        task.copy.dst_offset = device * (dst->pages->size / 2);
        task.copy.src_offset = device * (src->pages->size / 2);
        task.copy.size = size;
        task.copy.src = src->slot.number;
        task.copy.src_generation = slot_generation(src);
    } else {
        task.set.offset = device * (dst->pages->size / 2);
        task.set.size = size;
        task.set.value = draw_below(256);
    }
    return task;
}

static struct task make_garbage(void)
{
    struct task task = {.op = (uint8_t)draw_below(TASK_OPS + 2), .flags = (uint8_t)draw_below(256)};

    task.object = draw_below(12);
    task.generation = draw_below(12);
    for (unsigned i = 0; i < sizeof(task.words) / sizeof(task.words[0]); i++)
        task.words[i] = draw_below(2) ? draw_below(300) : random_next(&rng);
    if (task.op == TASK_DELAY)
        task.delay.ns %= 100000;
    if (task.op == TASK_COPY)
        task.copy.size |= UINT64_C(1) << 40;
    if (task.op == TASK_SET)
        task.set.size |= UINT64_C(1) << 40;
    return task;
}

static struct task any_task(const struct client *c, uint32_t device)
{
    switch (draw_below(6)) {
    case 0:
        return wait_task(c);
    case 1:
        return event_task(c);
    case 2:
        return ipc_task(c);
    case 3:
        return memory_task(c, device);
    case 4:
        return make_garbage();
    default:
        return (struct task){.op = TASK_DELAY, .delay.ns = draw_below(30000)};
    }
}

/*
 * Never more than fits: what a client overwrites is its own affair, and only makes this test see
 * less.
 */
static void submit_tasks(const struct client *c)
{
    struct stream *s = c->stream[draw_below(STREAMS)];

    if (!s)
        return;
    for (uint32_t n = draw_below(8); n > 0; n--)
        if (atomic_load(&s->ctrl->tail) - atomic_load(&s->ctrl->done) < s->depth)
            client_submit(s, any_task(c, s->attach->device->index));
}

/* --- objects --- */

static size_t fences_of(const struct client *c, struct fence *fences)
{
    size_t n = 0;

    for (unsigned i = 0; i < STREAMS; i++)
        if (c->stream[i] && draw_below(2))
            fences[n++] = (struct fence){.stream = c->stream[i]->slot.number,
                                         .position = atomic_load(&c->stream[i]->ctrl->tail) +
                                                     draw_below(2) * draw_below(100)};
    return n;
}

static void toggle_stream(struct client *c)
{
    struct stream **s = &c->stream[draw_below(STREAMS)];

    if (!*s) {
        *s = npud_stream(c->session, draw_below(2));
    } else if (draw_below(4) == 0) {
        stream_abort(*s, 0, 0);
    } else {
        stream_free(*s);
        *s = NULL;
    }
}

static void toggle_event(struct client *c)
{
    struct event_obj **ev = &c->event[draw_below(EVENTS)];
    struct fence fences[STREAMS];
    int fd;

    if (*ev) {
        size_t n = fences_of(c, fences);

        if (release_event(c->session, *ev, fences, n, draw_below(2)) == CAUSE_NONE)
            *ev = NULL;
        else
            ck_abort_msg("event not destroyed");
        return;
    }
    ck_assert_int_eq(event_obj_new(c->session, 0, 0, ev, &fd), 0);
}

static void open_ipc(struct client *c, struct ipc_open **open)
{
    struct client *other = &clients[draw_below(SESSIONS)];
    struct ipc_open *theirs = other->session ? other->ipc[draw_below(IPC)] : NULL;

    if (theirs && ipc_event_export(theirs) == 0 &&
        ipc_event_open(c->session, &theirs->event->handle, open) == 0)
        return;
    ck_assert_int_eq(ipc_event_new(c->session, 0, open), 0);
    if (draw_below(2))
        ck_assert_int_eq(ipc_event_export(*open), 0);
}

static void toggle_ipc(struct client *c)
{
    struct ipc_open **open = &c->ipc[draw_below(IPC)];
    struct fence fences[STREAMS];

    if (!*open) {
        open_ipc(c, open);
        return;
    }
    ck_assert_int_eq(release_ipc_event(*open, fences, fences_of(c, fences), draw_below(2)), 0);
    *open = NULL;
}

static void toggle_mem(struct client *c)
{
    struct mem **m = &c->mem[draw_below(MEMS)];

    if (*m) {
        allocation_free(*m);
        *m = NULL;
        return;
    }
    ck_assert_int_eq(allocation_new(c->session, devices_get(server.devices, draw_below(2)),
                                    draw_below(2) ? MEM_DEVICE : MEM_HOST, 1 + draw_below(1 << 20),
                                    m),
                     0);
}

static void toggle_session(struct client *c)
{
    if (c->session && draw_below(2000) != 0)
        return;
    if (c->session) {
        session_free(c->session);
        *c = (struct client){0};
    } else {
        c->session = npud_session((pid_t)(100 + draw_below(100)));
    }
}

/*
 * A client may write anywhere in what it shares. What engines need to come to an end stays as it
 * is.
 */
static void scribble_on_shared(const struct client *c)
{
    const struct stream *s = c->stream[draw_below(STREAMS)];
    const struct ipc_open *open = c->ipc[draw_below(IPC)];
    const struct event_obj *ev = c->event[draw_below(EVENTS)];
    struct doorbell *bell = &c->session->page->doorbell[draw_below(2)];

    atomic_store(&bell->word[draw_below(64)], random_next(&rng));
    atomic_store(&bell->summary, random_next(&rng));
    atomic_store(&c->session->page->exceptions[draw_below(2)].wanted, draw_below(2));
    atomic_store(&c->session->page->exceptions[draw_below(2)].tail, random_next(&rng));
    if (s) {
        atomic_store(&s->ctrl->wake_at, draw_below(100));
        atomic_store(&s->ctrl->watched, draw_below(2));
        atomic_store(&s->ctrl->error, random_next(&rng));
    }
    if (ev)
        atomic_store(&ev->shm->level, random_next(&rng));
    if (!open)
        return;
    atomic_store(&open->event->page->slot[draw_below(IPC_SLOTS)], random_next(&rng));
    if (draw_below(4) == 0)
        atomic_store(&open->event->page->latest, random_next(&rng));
    if (draw_below(4) == 0)
        atomic_store(&open->event->page->failed, random_next(&rng));
}

static void act_as_client(struct client *c, bool hostile)
{
    toggle_session(c);
    if (!c->session)
        return;
    switch (draw_below(24)) {
    case 0:
        toggle_stream(c);
        break;
    case 1:
        toggle_event(c);
        break;
    case 2:
        toggle_ipc(c);
        break;
    case 3:
        toggle_mem(c);
        break;
    case 4:
        npud_turn();
        break;
    case 5:
        if (hostile)
            scribble_on_shared(c);
        break;
    default:
        submit_tasks(c);
    }
}

static void run_rounds(uint64_t seed, bool hostile)
{
    uint64_t end = clock_ns() + 700 * NSEC_PER_MSEC;
    struct session *bystander = npud_session(1);
    struct stream *theirs[2] = {npud_stream(bystander, 0), npud_stream(bystander, 1)};

    rng = seed;
    for (unsigned round = 0; round < 200 || clock_ns() < end; round++) {
        act_as_client(&clients[draw_below(SESSIONS)], hostile);
        /* A bystander with nothing to do with all that gets its work done. */
        if (round % 16 == 0)
            client_wait(theirs[round / 16 % 2], client_submit(theirs[round / 16 % 2], nop));
    }
}

START_TEST(lively_clients)
{
    run_rounds(1, false);
}
END_TEST

START_TEST(hostile_clients)
{
    run_rounds(2, true);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("lifecycle");
    TCase *t = suite_case(s, "coming and going", 120, start_npud, npud_stop);

    tcase_add_test(t, lively_clients);
    tcase_add_test(t, hostile_clients);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
