#include "tests/hostile/hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/shm/graph_shm.h"
#include "tests/common/raw.h"

static struct raw raw = {.socket = -1};

/* xorshift*; the state is never 0 */
static uint64_t draw_number(struct hostile *h)
{
    h->rng ^= h->rng >> 12;
    h->rng ^= h->rng << 25;
    h->rng ^= h->rng >> 27;
    return h->rng * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t draw_below(struct hostile *h, uint64_t n)
{
    return draw_number(h) % n;
}

static void did_it(struct hostile *h)
{
    atomic_fetch_add(h->progress, 1);
}

/* A session with both devices open, again and again until npud lets us in. */
static void come_in(void)
{
    for (;;) {
        raw_close(&raw);
        if (raw_open(&raw) && raw_open_device(&raw, 0) && raw_open_device(&raw, 1))
            return;
    }
}

/* --- shared memory --- */

#define SOME_STREAMS 40u
#define SOME_BYTES   (1u << 20)

static struct raw_object events[40], ipcs[4], mems[4];

static void come_in_with_everything(void)
{
    come_in();
    for (uint32_t i = 0; i < SOME_STREAMS; i++)
        raw_create_stream(&raw, i % 2);
    for (unsigned i = 0; i < 40; i++)
        raw_create_event(&raw, &events[i]);
    for (unsigned i = 0; i < 4; i++) {
        raw_create_ipc(&raw, &ipcs[i]);
        raw_malloc(&raw, i % 2, SOME_BYTES, &mems[i]);
    }
}

/* The same object under the same number another time, in the midst of everything. */
static void renew_something(struct hostile *h)
{
    unsigned i = (unsigned)draw_below(h, 4);

    switch (draw_below(h, 3)) {
    case 0:
        if (raw.n_streams > 1)
            raw_destroy_stream(&raw, (unsigned)draw_below(h, raw.n_streams));
        raw_create_stream(&raw, (uint32_t)draw_below(h, 2));
        break;
    case 1:
        raw_close_ipc(&raw, ipcs[i].slot);
        raw_create_ipc(&raw, &ipcs[i]);
        break;
    default:
        raw_free(&raw, mems[i].slot);
        raw_malloc(&raw, i % 2, SOME_BYTES, &mems[i]);
    }
    /* Old pages stay mapped, and go on being written; so there is an end to it. */
    if (raw.socket < 0 || raw.n_maps > RAW_MAPS - 8)
        come_in_with_everything();
}

static void scribble_somewhere(struct hostile *h)
{
    const struct raw_map *m = &raw.map[draw_below(h, raw.n_maps)];
    size_t n = 8 * (1 + draw_below(h, 16)), at;

    /* Where the words are that matter; rings and memory are long. */
    at = draw_below(h, draw_below(h, 2) || m->size < 8192 ? m->size : 8192);
    for (; n > 0 && at < m->size; n--, at++)
        ((volatile uint8_t *)m->at)[at] = (uint8_t)draw_number(h);
}

/* Such that npud takes it for an entry, whatever the rest of it is. */
static void forge_sequence(struct hostile *h)
{
    struct raw_stream *s;
    uint64_t position;

    if (raw.n_streams == 0)
        return;
    s = &raw.stream[draw_below(h, raw.n_streams)];
    position = atomic_load_explicit(&s->ctrl->done, memory_order_relaxed) + draw_below(h, 4);
    atomic_store(&s->ring[position & (raw.depth - 1)].sequence, position + 1);
}

static void ring_all(void)
{
    for (unsigned d = 0; d < 2; d++) {
        struct doorbell *bell = &raw.page->doorbell[d];

        for (unsigned i = 0; i < raw.n_streams; i++)
            atomic_fetch_or(&bell->word[raw.stream[i].slot / 64], UINT64_C(1)
                                                                      << raw.stream[i].slot % 64);
        atomic_store(&bell->summary, UINT64_MAX);
        eventfd_write(raw.bell[d], 1);
    }
}

static void scribble_everywhere(struct hostile *h)
{
    come_in_with_everything();
    for (;;) {
        for (unsigned i = 0; i < 256; i++) {
            scribble_somewhere(h);
            forge_sequence(h);
        }
        ring_all();
        renew_something(h);
        did_it(h);
    }
}

/* Slots and generations that may exist. */
static uint32_t some_slot(struct hostile *h)
{
    return (uint32_t)(draw_below(h, 64) ? draw_below(h, 48) : draw_number(h));
}

static uint64_t some_number(struct hostile *h)
{
    switch (draw_below(h, 4)) {
    case 0:
        return draw_number(h);
    case 1:
        return UINT64_MAX - draw_below(h, 4);
    default:
        return draw_below(h, 5000);
    }
}

static struct raw_object *some_object(struct hostile *h)
{
    switch (draw_below(h, 3)) {
    case 0:
        return &events[draw_below(h, 40)];
    case 1:
        return &ipcs[draw_below(h, 4)];
    default:
        return &mems[draw_below(h, 4)];
    }
}

static struct task some_task(struct hostile *h)
{
    struct raw_object *o = some_object(h);
    struct task t = {.op = (uint8_t)draw_below(h, TASK_OPS + 1), .flags = (uint8_t)draw_number(h)};

    t.object = draw_below(h, 4) ? o->slot : some_slot(h);
    t.generation = draw_below(h, 8) ? o->generation : (uint32_t)draw_number(h);
    for (unsigned i = 0; i < 5; i++)
        t.words[i] = some_number(h);
    if (t.op == TASK_COPY) {
        struct raw_object *src = &mems[draw_below(h, 4)];

        t.copy.src = src->slot;
        t.copy.src_generation = src->generation;
    }
    if (t.op == TASK_REDUCE) {
        struct raw_object *src = &mems[draw_below(h, 4)];

        t.reduce.size &= draw_below(h, 4) ? (uint64_t)0xffc : UINT64_MAX;
        t.reduce.src = src->slot;
        t.reduce.src_generation = src->generation;
        t.reduce.kind = 9 + (uint32_t)draw_below(h, 6);
        t.reduce.type = (uint32_t)draw_below(h, 32);
    }
    if (t.op == TASK_VALUE_WAIT &&
        draw_below(h, 4)) { /* one that holds, or other tasks of the stream have no turn */
        t.flags = 0;
        t.value.value = UINT64_C(3) << 62;
    }
    if (t.op == TASK_DELAY)
        t.delay.ns = draw_below(h, 64) ? draw_below(h, 50000) : draw_number(h);
    if (t.op == TASK_WAIT_POS || t.op == TASK_WAIT_LEVEL || t.op == TASK_IPC_WAIT)
        t.words[1] = draw_below(h, 4) ? draw_below(h, 100000) : some_number(h); /* time limit */
    return t;
}

static void submit_nonsense(struct hostile *h)
{
    come_in_with_everything();
    for (;;) {
        for (unsigned i = 0; i < 64 && raw.n_streams > 0; i++) {
            struct raw_stream *s = &raw.stream[draw_below(h, raw.n_streams)];

            for (unsigned n = (unsigned)draw_below(h, 16); n > 0; n--) {
                struct task t = some_task(h);

                if (s->tail - atomic_load(&s->ctrl->done) < raw.depth)
                    raw_put(&raw, s, &t);
            }
            raw_ring(&raw, s);
        }
        renew_something(h);
        did_it(h);
    }
}

/* The steps of an abort in any order and number, on streams that have everything to do. */
static void abort_in_halves(struct hostile *h)
{
    uint64_t from, to;

    come_in_with_everything();
    for (;;) {
        for (unsigned n = 0; n < 16 && raw.n_streams > 0; n++) {
            unsigned i = (unsigned)draw_below(h, raw.n_streams);
            struct raw_stream *s = &raw.stream[i];

            for (unsigned k = (unsigned)draw_below(h, 16); k > 0; k--) {
                struct task t = some_task(h);

                if (s->tail - atomic_load(&s->ctrl->done) < raw.depth)
                    raw_put(&raw, s, &t);
            }
            raw_ring(&raw, s);
            if (draw_below(h, 2))
                raw_hold_stream(&raw, i, &from, &to);
            else
                raw_abort_stream(&raw, i, (int32_t)draw_number(h));
        }
        if (draw_below(h, 4) == 0)
            renew_something(h);
        did_it(h);
    }
}

/* --- lists of graphs --- */

#define LIST 1u /* of mems: pinned memory */

static struct task listed_task(struct hostile *h)
{
    struct task t = some_task(h);

    switch (draw_below(h, 4)) {
    case 0:
        t.op = TASK_JUMP;
        t.flags = (uint8_t)draw_below(h, JUMP_CONDITIONS + 1);
        t.jump.offset = 4 * draw_below(h, 64);
        t.jump.right = 4 * draw_below(h, 64);
        t.jump.right_object = t.object;
        t.jump.right_generation = t.generation;
        t.jump.target = (uint32_t)draw_below(h, 64);
        t.jump.wide = (uint8_t)draw_below(h, 2);
        t.jump.memory = (uint8_t)draw_below(h, 2);
        break;
    case 1:
        t.op = TASK_CALLBACK;
        t.callback.ordinal = draw_below(h, 8);
        t.callback.word = draw_below(h, 2) ? GRAPH_WORD_OF_STREAM : (uint32_t)draw_below(h, 2100);
        break;
    default:
        break;
    }
    return t;
}

/* Another process, which has the same memory: it writes while npud reads. */
static pid_t start_writer(struct hostile *h)
{
    pid_t parent = getpid(), pid = fork();
    struct task *list = mems[LIST].at;

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !list)
        _exit(0);
    h->rng ^= 0x5555;
    for (;;)
        list[draw_below(h, 256)] = listed_task(h);
}

static struct task some_graph(struct hostile *h)
{
    uint64_t base = draw_below(h, 16) ? draw_below(h, 1000) : draw_number(h);

    return (struct task){.op = TASK_GRAPH,
                         .flags = (uint8_t)draw_below(h, 2),
                         .object = mems[LIST].slot,
                         .generation = mems[LIST].generation,
                         .graph = {.offset = sizeof(struct task) * draw_below(h, 64),
                                   .base = base,
                                   .last = base + draw_below(h, 1000),
                                   .count = draw_below(h, 32) ? 1 + (uint32_t)draw_below(h, 100)
                                                              : (uint32_t)draw_number(h),
                                   .calls = (uint32_t)draw_below(h, 8),
                                   .word = (uint32_t)draw_below(h, 2100)}};
}

static void execute_some(struct hostile *h)
{
    for (unsigned n = 0; n < 64 && raw.n_streams > 0; n++) {
        unsigned i = (unsigned)draw_below(h, raw.n_streams);
        struct raw_stream *s = &raw.stream[i];
        struct task t = some_graph(h);

        if (s->tail - atomic_load(&s->ctrl->done) < raw.depth)
            raw_put(&raw, s, &t);
        raw_ring(&raw, s);
        if (draw_below(h, 16) == 0) /* its list may have no end */
            raw_abort_stream(&raw, i, 0);
    }
}

/* Lists that change, and go, while streams execute them, several the same one. */
static void change_lists(struct hostile *h)
{
    come_in_with_everything();
    for (;;) {
        pid_t writer = start_writer(h);

        for (unsigned n = 0; n < 4; n++)
            execute_some(h);
        raw_free(&raw, mems[LIST].slot);
        if (writer > 0) {
            kill(writer, SIGKILL);
            waitpid(writer, NULL, 0);
        }
        raw_malloc(&raw, true, SOME_BYTES, &mems[LIST]);
        renew_something(h);
        did_it(h);
    }
}

/* --- packets --- */

static size_t pack_request(struct hostile *h, uint8_t *buf)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__CreateStream stream = NPUD__CREATE_STREAM__INIT;
    Npud__CloseIpcEvent close_ipc = NPUD__CLOSE_IPC_EVENT__INIT;
    Npud__OpenIpcEvent open_ipc = NPUD__OPEN_IPC_EVENT__INIT;
    Npud__Malloc mem = NPUD__MALLOC__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__Fence fence = NPUD__FENCE__INIT, *fences[300];

    q.id = draw_number(h);
    switch (draw_below(h, 5)) {
    case 0:
        q.create_stream = &stream;
        q.body_case = NPUD__REQUEST__BODY_CREATE_STREAM;
        break;
    case 1:
        fence.position = draw_number(h);
        for (unsigned i = 0; i < 300; i++)
            fences[i] = &fence;
        close_ipc.fences = fences;
        close_ipc.n_fences = draw_below(h, 300);
        q.close_ipc_event = &close_ipc;
        q.body_case = NPUD__REQUEST__BODY_CLOSE_IPC_EVENT;
        break;
    case 2:
        open_ipc.handle.data = (uint8_t *)&h->spoiled;
        open_ipc.handle.len = draw_below(h, 65);
        q.open_ipc_event = &open_ipc;
        q.body_case = NPUD__REQUEST__BODY_OPEN_IPC_EVENT;
        break;
    case 3:
        mem.size = draw_number(h);
        q.malloc = &mem;
        q.body_case = NPUD__REQUEST__BODY_MALLOC;
        break;
    default:
        hello.protocol = PROTOCOL;
        hello.program = (char *)"\x1b[31m\nnpud: error: forged line";
        q.hello = &hello;
        q.body_case = NPUD__REQUEST__BODY_HELLO;
    }
    return npud__request__pack(&q, buf);
}

/* Random, truncated, over-long, empty, or with some bits turned. */
static void send_damaged(struct hostile *h, int socket)
{
    static uint8_t buf[4 * PACKET_MAX];
    size_t n = pack_request(h, buf);

    switch (draw_below(h, 5)) {
    case 0:
        n = draw_below(h, 200);
        for (size_t i = 0; i < n; i++)
            buf[i] = (uint8_t)draw_number(h);
        break;
    case 1:
        n = draw_below(h, n);
        break;
    case 2:
        n = PACKET_MAX - 2 + draw_below(h, sizeof(buf) - PACKET_MAX);
        break;
    case 3:
        break;
    default:
        for (unsigned i = 0; i < 4; i++)
            buf[draw_below(h, n)] ^= (uint8_t)(1u << draw_below(h, 8));
    }
    send(socket, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Answers are nothing to us, but unread they would end the session for another reason. */
static bool still_there(int socket)
{
    char buf[64];
    ssize_t n;

    do
        n = recv(socket, buf, sizeof(buf), MSG_DONTWAIT);
    while (n > 0);
    return n < 0 && errno == EAGAIN;
}

static void send_garbage(struct hostile *h)
{
    for (;;) {
        int fd = draw_below(h, 2) ? raw_connect() : raw_open(&raw) ? raw.socket : -1;

        for (unsigned i = 0; fd >= 0 && i < 16 && still_there(fd); i++)
            send_damaged(h, fd);
        did_it(h);
        if (fd >= 0 && fd != raw.socket)
            close(fd);
        raw_close(&raw);
    }
}

static int some_fd(struct hostile *h, int session)
{
    int pair[2], fd;

    switch (draw_below(h, 7)) {
    case 0:
        if (pipe(pair) < 0)
            return -1;
        close(pair[1]);
        return pair[0];
    case 1:
        if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
            return -1;
        send(pair[1], "x", 1, 0);
        close(pair[1]);
        return pair[0];
    case 2:
        return dup(session);
    case 3:
        return epoll_create1(0);
    case 4:
        return open("/dev/null", O_RDWR);
    case 5:
        fd = memfd_create("huge", MFD_ALLOW_SEALING);
        if (ftruncate(fd, (off_t)1 << 46) == 0 && draw_below(h, 2))
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        return fd;
    default:
        return eventfd(0, 0);
    }
}

/*
 * Every session sends descriptors with a good request, or with none. The kernel may refuse them for
 * npud (SO_PASSRIGHTS).
 */
static void send_descriptors(struct hostile *h)
{
    for (;;) {
        int fds[PACKET_FDS_MAX], n = 1 + (int)draw_below(h, PACKET_FDS_MAX);
        uint8_t buf[PACKET_MAX];
        size_t size = pack_request(h, buf);

        raw_close(&raw);
        if (!raw_open(&raw))
            continue;
        for (int i = 0; i < n; i++)
            fds[i] = some_fd(h, raw.socket);
        if (packet_send(raw.socket, buf, draw_below(h, 4) ? size : 0, fds, (size_t)n, 0) == 0)
            while (still_there(raw.socket))
                poll(&(struct pollfd){.fd = raw.socket, .events = POLLIN}, 1, 1000);
        for (int i = 0; i < n; i++)
            close(fds[i]);
        did_it(h);
    }
}

/* One request, or one with a descriptor, which ends the session. False: it is over. */
static bool notify_somehow(struct hostile *h, int fd)
{
    static struct packet packet;
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__NotifyFd in = NPUD__NOTIFY_FD__INIT;
    unsigned i = (unsigned)draw_below(h, 4);

    in.number = (uint32_t)draw_below(h, EVENT_FDS_MAX);
    in.ipc = draw_below(h, 2);
    in.slot = in.ipc              ? ipcs[i].slot
              : raw.n_streams > 0 ? raw.stream[draw_below(h, raw.n_streams)].slot
                                  : some_slot(h);
    in.generation = ipcs[i].generation;
    in.target = some_number(h);
    q.notify_fd = &in;
    q.body_case = NPUD__REQUEST__BODY_NOTIFY_FD;
    q.id = ++raw.last_id;
    if (packet_send_message(raw.socket, &q.base, &fd, fd >= 0 ? 1 : 0, 0) < 0 ||
        packet_recv(raw.socket, &packet, 0) <= 0)
        return false;
    packet_deinit(&packet);
    return true;
}

/*
 * Waits for records and positions that are there, that come, and that no stream will ever reach,
 * the same number several times; while streams and events come and go under them.
 */
static void notify_many(struct hostile *h)
{
    come_in_with_everything();
    for (;;) {
        int fd = draw_below(h, 64) ? -1 : some_fd(h, raw.socket);
        bool there = notify_somehow(h, fd);

        if (fd >= 0)
            close(fd);
        for (unsigned i = 0; i < 4 && raw.n_streams > 0; i++) {
            struct raw_stream *s = &raw.stream[draw_below(h, raw.n_streams)];
            struct task t = some_task(h);

            if (s->tail - atomic_load(&s->ctrl->done) < raw.depth)
                raw_put(&raw, s, &t);
            raw_ring(&raw, s);
        }
        if (draw_below(h, 16) == 0)
            renew_something(h);
        if (!there || raw.socket < 0)
            come_in_with_everything();
        did_it(h);
    }
}

/*
 * All well-formed, but in no order, with slots that are not there, and on devices that are not
 * open.
 */
static void ask_out_of_order(struct hostile *h)
{
    struct raw_object o;

    for (;;) {
        if (raw.socket < 0) {
            raw_close(&raw);
            raw_open(&raw);
        }
        raw.stream[RAW_STREAMS - 1].slot = some_slot(h);
        switch (draw_below(h, 9)) {
        case 0:
            raw_open_device(&raw, (uint32_t)draw_below(h, 20));
            break;
        case 1:
            raw_create_stream(&raw, (uint32_t)draw_below(h, 4));
            break;
        case 2:
            raw.n_streams++;
            raw_destroy_stream(&raw, raw.n_streams - 1);
            break;
        case 3:
            raw_create_event(&raw, &o);
            break;
        case 4:
            raw_create_ipc(&raw, &o);
            break;
        case 5:
            raw_close_ipc(&raw, some_slot(h));
            break;
        case 6:
            raw_malloc(&raw, draw_below(h, 2), some_number(h), &o);
            break;
        case 7:
            raw_free(&raw, some_slot(h));
            break;
        default:
            raw_open_ipc(&raw, "not a handle, but as long as one, which nobody has ever given out.",
                         &o);
        }
        if (raw.n_streams > 100 || raw.n_maps > RAW_MAPS - 8)
            raw_close(&raw);
        did_it(h);
    }
}

/* Ask for what comes with a descriptor, and never take it. */
static void never_read(struct hostile *h)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__OpenDevice in = NPUD__OPEN_DEVICE__INIT;

    q.open_device = &in;
    q.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    for (;;) {
        struct pollfd p = {.events = POLLOUT};

        raw_close(&raw);
        if (!raw_open(&raw))
            continue;
        p.fd = raw.socket;
        while (poll(&p, 1, -1) == 1 && !(p.revents & POLLHUP)) {
            int r = raw_send(&raw, &q, MSG_DONTWAIT);

            if (r < 0 && r != -EAGAIN)
                break;
        }
        did_it(h);
    }
}

/* Connected, or one request sent, and gone. As a process that is killed at once. */
static void ask_and_die(struct hostile *h)
{
    for (;;) {
        pid_t pid = fork();

        if (pid == 0) {
            Npud__Request q = NPUD__REQUEST__INIT;
            Npud__CreateIpcEvent in = NPUD__CREATE_IPC_EVENT__INIT;

            for (uint64_t n = draw_below(h, 8); n > 0; n--)
                raw_connect(); /* the first ones are left as they are */
            if (raw_open(&raw)) {
                q.create_ipc_event = &in;
                q.body_case = NPUD__REQUEST__BODY_CREATE_IPC_EVENT;
                for (unsigned i = 0; i < 3; i++)
                    raw_send(&raw, &q, 0);
            }
            _exit(0);
        }
        draw_number(h);
        waitpid(pid, NULL, 0);
        did_it(h);
    }
}

/* --- limits --- */

static void open_sessions(struct hostile *h)
{
    int fd[256], n = 0;

    for (;;) {
        if (!raw_open(&raw)) {
            raw_close(&raw);
            /* Refused. One leaves, to be refused anew. */
            if (n > 0)
                close(fd[--n]);
            did_it(h);
            continue;
        }
        if (n < 256)
            fd[n++] = raw.socket;
        else
            close(raw.socket);
        raw.socket = -1;
        raw_close(&raw); /* the mappings: npud does not mind */
    }
}

static bool take_stream(struct raw_object *o)
{
    (void)o;
    return raw_create_stream(&raw, 0);
}

static bool take_event(struct raw_object *o)
{
    return raw_create_event(&raw, o);
}

static bool take_ipc_event(struct raw_object *o)
{
    return raw_create_ipc(&raw, o);
}

static bool take_device_memory(struct raw_object *o)
{
    return raw_malloc(&raw, false, 1 << 20, o);
}

static bool take_host_memory(struct raw_object *o)
{
    return raw_malloc(&raw, true, 1 << 20, o);
}

static bool take_descriptors(struct raw_object *o)
{
    return raw_malloc(&raw, true, 4096, o);
}

/*
 * One kind after the other until refused, and ever again. Each session stays for a while, so that
 * all limits are reached.
 */
static void take_everything(struct hostile *h)
{
    static bool (*const take[])(struct raw_object * o) = {
        take_stream,        take_event,       take_ipc_event,
        take_device_memory, take_host_memory, take_descriptors,
    };
    struct raw_object o;

    come_in();
    for (;;) {
        for (unsigned i = 0; i < sizeof(take) / sizeof(take[0]); i++)
            while (raw.socket >= 0 && take[i](&o))
                while (raw.n_maps > RAW_MAPS - 8) { /* ours alone: npud does not mind */
                    struct raw_map *m = &raw.map[--raw.n_maps];

                    munmap(m->at, m->size);
                }
        did_it(h);
        if (raw.socket < 0)
            come_in();
    }
}

/* --- doorbells and streams --- */

/* Ring and ring, with nothing to tell. */
static void ring_for_nothing(struct hostile *h)
{
    come_in();
    for (;;) {
        eventfd_write(raw.bell[0], 1);
        eventfd_write(raw.bell[1], 1);
        atomic_store(&raw.page->doorbell[draw_number(h) % 2].watched, (uint32_t)draw_number(h));
        did_it(h);
        if (!still_there(raw.socket))
            come_in();
    }
}

/*
 * The counter as high as it goes, drained and filled, other modes of the descriptor, and watchers
 * of it.
 */
static void play_with_counter(struct hostile *h)
{
    eventfd_t n;
    int e = epoll_create1(0);

    come_in();
    for (;;) {
        int fd = raw.bell[draw_below(h, 2)];
        struct epoll_event ev = {.events = EPOLLIN};

        fcntl(fd, F_SETFL, O_NONBLOCK);
        eventfd_write(fd, UINT64_MAX - 1);
        eventfd_write(fd, 1);
        eventfd_read(fd, &n);
        eventfd_write(fd, draw_number(h));
        epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
        epoll_ctl(e, EPOLL_CTL_DEL, fd, &ev);
        fcntl(fd, F_SETFL, 0);
        did_it(h);
        if (!still_there(raw.socket))
            come_in();
    }
}

static void come_in_with_streams(unsigned n)
{
    come_in();
    while (raw.n_streams < n && raw_create_stream(&raw, 0))
        ;
}

/* Bits of all streams there can be, none of which has a task. */
static void ring_for_all_streams(struct hostile *h)
{
    come_in_with_streams(RAW_STREAMS);
    for (;;) {
        struct doorbell *bell = &raw.page->doorbell[0];

        for (unsigned w = 0; w < SESSION_STREAMS_MAX / 64; w++)
            atomic_store(&bell->word[w], UINT64_MAX);
        atomic_store(&bell->summary, UINT64_MAX);
        if (!atomic_load(&bell->watched))
            eventfd_write(raw.bell[0], 1);
        did_it(h);
        if (!still_there(raw.socket))
            come_in_with_streams(RAW_STREAMS);
    }
}

/* Keep all streams of a few full of tasks that take no time. */
static void stay_busy(struct hostile *h)
{
    struct task t = {.op = TASK_NOP};

    come_in_with_streams(16);
    for (;;) {
        for (unsigned i = 0; i < raw.n_streams; i++) {
            struct raw_stream *s = &raw.stream[i];
            uint64_t done = atomic_load_explicit(&s->ctrl->done, memory_order_acquire);

            if (done + raw.depth == s->tail)
                continue;
            while (s->tail < done + raw.depth)
                raw_put(&raw, s, &t);
            if (!atomic_load(&s->ctrl->watched))
                raw_ring(&raw, s);
        }
        did_it(h);
    }
}

/* The same with copies, as long as one task may be. */
static void copy_much(struct hostile *h)
{
    static struct raw_object m;
    struct task t = {.op = TASK_COPY, .copy.size = 8 << 20, .copy.dst_offset = 8 << 20};

    come_in_with_streams(8);
    if (!raw_malloc(&raw, false, 16 << 20, &m))
        _exit(1);
    t.object = t.copy.src = m.slot;
    t.generation = t.copy.src_generation = m.generation;
    for (;;) {
        for (unsigned i = 0; i < raw.n_streams; i++)
            for (unsigned n = 0; n < 4; n++) {
                raw_put(&raw, &raw.stream[i], &t);
                raw_ring(&raw, &raw.stream[i]);
            }
        for (unsigned i = 0; i < raw.n_streams; i++)
            raw_wait(&raw.stream[i]);
        did_it(h);
    }
}

/*
 * As many streams as there can be wait for positions of one, the furthest first; then it goes
 * there.
 */
static void wait_in_wrong_order(struct hostile *h)
{
    struct raw_stream *first;

    come_in_with_streams(RAW_STREAMS);
    first = &raw.stream[0];
    for (;;) {
        struct task wait = {.op = TASK_WAIT_POS, .object = first->slot};
        struct task nap = {.op = TASK_DELAY, .delay.ns = 2000000}, nop = {.op = TASK_NOP};

        raw_put(&raw, first, &nap);
        for (unsigned i = 0; i < 1000; i++)
            raw_put(&raw, first, &nop);
        raw_ring(&raw, first);
        for (unsigned i = 1; i < raw.n_streams; i++) {
            wait.wait.target = first->tail - i % 1000;
            raw_put(&raw, &raw.stream[i], &wait);
            raw_ring(&raw, &raw.stream[i]);
        }
        for (unsigned i = 0; i < raw.n_streams; i++)
            raw_wait(&raw.stream[i]);
        did_it(h);
        if (!still_there(raw.socket))
            come_in_with_streams(RAW_STREAMS);
    }
}

/*
 * As many streams as there can be wait for one word, and never get what they want; all the time it
 * is written, and the host says so, too.
 */
static void wait_for_one_word(struct hostile *h)
{
    static struct raw_object m;
    struct task wait = {.op = TASK_VALUE_WAIT, .flags = 1}, write = {.op = TASK_VALUE_WRITE};

    wait.value.value = UINT64_MAX;
    for (;;) {
        Npud__Request request = NPUD__REQUEST__INIT;
        Npud__MemoryWritten written = NPUD__MEMORY_WRITTEN__INIT;
        struct raw_stream *writer;

        if (!still_there(raw.socket)) {
            come_in_with_streams(RAW_STREAMS);
            if (!raw_malloc(&raw, false, 4096, &m))
                _exit(1);
            wait.object = write.object = m.slot;
            wait.generation = write.generation = m.generation;
            for (unsigned i = 1; i < raw.n_streams; i++) {
                raw_put(&raw, &raw.stream[i], &wait);
                raw_ring(&raw, &raw.stream[i]);
            }
        }
        writer = &raw.stream[0];
        for (unsigned i = 0; i < 100; i++) {
            write.value.value++;
            raw_put(&raw, writer, &write);
        }
        raw_ring(&raw, writer);
        written.slot = m.slot;
        written.generation = m.generation;
        written.size = 4096;
        request.memory_written = &written;
        request.body_case = NPUD__REQUEST__BODY_MEMORY_WRITTEN;
        npud__reply__free_unpacked(raw_ask(&raw, &request, NULL), NULL);
        raw_wait(writer);
        did_it(h);
    }
}

/* --- IPC events --- */

/* A slot of the page as a pending record would leave it. */
static void forge_pending(struct ipc_page *page, uint64_t number, uint32_t opener)
{
    atomic_store(&page->slot[number % IPC_SLOTS],
                 (uint64_t)(uint32_t)number << 32 | (uint64_t)opener << 16 | IPC_PENDING);
}

/*
 * Streams wait for records that are forged as pending, the last of all numbers among them, in an
 * event that is then closed elsewhere: npud looks through the waiters.
 */
static void wait_for_forged_records(struct hostile *h)
{
    static struct raw_object mine, again;
    uint8_t handle[64];

    for (;;) {
        struct ipc_page *page;

        come_in_with_streams(256);
        if (!raw_create_ipc(&raw, &mine) || !mine.at || !raw_export_ipc(&raw, mine.slot, handle))
            continue;
        page = mine.at;
        for (uint64_t i = 0; i < raw.n_streams; i++) {
            struct task wait = {
                .op = TASK_IPC_WAIT, .object = mine.slot, .generation = mine.generation};

            /* 64 at a time are looked at. */
            wait.ipc.number = UINT64_MAX - i % 64;
            forge_pending(page, wait.ipc.number, mine.opener);
            raw_put(&raw, &raw.stream[i], &wait);
            raw_ring(&raw, &raw.stream[i]);
        }
        for (unsigned i = 0; i < 200; i++)
            if (raw_open_ipc(&raw, handle, &again))
                raw_close_ipc(&raw, again.slot);
        did_it(h);
        (void)h;
    }
}

/* Ask for records that have failed: npud keeps a list of those, which is looked through. */
static void wait_for_failed_records(struct hostile *h)
{
    static struct raw_object mine, other;
    uint8_t handle[64];

    come_in_with_streams(16);
    if (!raw_create_ipc(&raw, &mine) || !raw_export_ipc(&raw, mine.slot, handle))
        _exit(1);
    for (unsigned lap = 0; lap < 4; lap++) {
        struct ipc_page *page = mine.at;

        if (!raw_open_ipc(&raw, handle, &other))
            _exit(1);
        for (uint64_t i = 1; i <= IPC_SLOTS; i++)
            forge_pending(page, lap * IPC_SLOTS + i, other.opener);
        atomic_store(&page->latest, ipc_latest_make((lap + 1) * IPC_SLOTS, 0, IPC_DONE));
        raw_close_ipc(&raw, other.slot);
    }
    for (;;) {
        struct task wait = {.op = TASK_IPC_WAIT,
                            .object = mine.slot,
                            .generation = mine.generation,
                            .ipc.number = 5 * IPC_SLOTS};

        for (unsigned i = 0; i < raw.n_streams; i++) {
            struct raw_stream *s = &raw.stream[i];

            while (s->tail < atomic_load(&s->ctrl->done) + raw.depth)
                raw_put(&raw, s, &wait);
            raw_ring(&raw, s);
        }
        did_it(h);
        if (!still_there(raw.socket))
            _exit(1);
    }
}

/*
 * Destroy streams full of records that a waiter seems to sleep on: npud fails them all, one by one.
 */
static void drop_records(struct hostile *h)
{
    static struct raw_object mine;
    uint64_t number = 0;

    come_in_with_streams(4);
    if (!raw_create_ipc(&raw, &mine) || !mine.at)
        _exit(1);
    for (;;) {
        struct ipc_page *page = mine.at;
        struct raw_stream *s = &raw.stream[0];
        struct task nap = {.op = TASK_DELAY, .delay.ns = 1000000000};
        struct task record = {
            .op = TASK_IPC_RECORD, .object = mine.slot, .generation = mine.generation};

        raw_put(&raw, s, &nap);
        for (unsigned i = 0; i < IPC_SLOTS - 1; i++) {
            record.ipc.number = ++number;
            atomic_store(&page->slot[number % IPC_SLOTS],
                         number << 32 | mine.opener << 16 | IPC_WAITERS | IPC_PENDING);
            raw_put(&raw, s, &record);
        }
        atomic_store(&page->latest, ipc_latest_make(number + 1, mine.opener, IPC_DONE));
        if (!raw_destroy_stream(&raw, 0) || !raw_create_stream(&raw, 0))
            _exit(1);
        did_it(h);
    }
}

/* Have one event in common with the others, and spoil it. */
static void spoil_event(struct hostile *h)
{
    static struct raw_object event;
    struct ipc_page *page;

    come_in_with_streams(4);
    if (!raw_open_ipc(&raw, &h->spoiled, &event) || !event.at)
        _exit(1);
    page = event.at;
    for (;;) {
        uint64_t latest = atomic_load(&page->latest);
        uint64_t number = ipc_latest_number(latest);

        switch (draw_below(h, 6)) {
        case 0: /* far ahead, by one lap of the tags */
            number += UINT64_C(1) << 32;
            break;
        case 1:
            number = draw_number(h) >> 14;
            break;
        default:
            number++;
        }
        atomic_store(&page->latest,
                     ipc_latest_make(number, (uint32_t)draw_below(h, 4096), IPC_PENDING));
        if (draw_below(h, 2))
            forge_pending(page, number, (uint32_t)draw_below(h, 4096));
        for (unsigned i = 0; i < 4; i++)
            ((volatile uint8_t *)page)[draw_below(h, sizeof(*page))] = (uint8_t)draw_number(h);
        did_it(h);
    }
}

/* --- memory --- */

#define MUCH (128u << 20)

/* Much memory, in use, given back: a process or npud has to free all those pages. */
static void free_much(struct hostile *h)
{
    static struct raw_object m;

    come_in_with_streams(1);
    for (;;) {
        struct task set = {.op = TASK_SET, .set.size = 4096};

        if (raw.socket < 0 || !raw_malloc(&raw, false, MUCH, &m) || (!m.at && !npud_is_strict())) {
            come_in_with_streams(1);
            continue;
        }
        if (m.at)
            madvise(m.at, MUCH, MADV_POPULATE_WRITE);
        else
            set.set.size = MUCH; /* the pages of a strict device are npud's own */
        set.object = m.slot;
        set.generation = m.generation;
        raw_put(&raw, &raw.stream[0], &set); /* npud maps it */
        raw_ring(&raw, &raw.stream[0]);
        raw_wait(&raw.stream[0]);
        if (m.at) {
            munmap(m.at, MUCH);
            raw.n_maps--;
        }
        raw_free(&raw, m.slot);
        did_it(h);
    }
}

/*
 * Take pages away from below npud, of its rings and of what it fills meanwhile: a thread that
 * touches a page of a file in which a hole is being made waits in the kernel until the hole is
 * there.
 */
static void punch_holes(struct hostile *h)
{
    static struct raw_object m;
    struct task set = {.op = TASK_SET, .set.size = MUCH};

    raw.keep_fds = true;
    come_in_with_streams(4);
    if (!raw_malloc(&raw, false, MUCH, &m))
        _exit(1);
    set.object = m.slot;
    set.generation = m.generation;
    for (;;) {
        madvise(m.at, MUCH, MADV_POPULATE_WRITE);
        for (unsigned i = 0; i < raw.n_streams; i++) {
            struct raw_stream *s = &raw.stream[i];

            s->tail = atomic_load(&s->ctrl->done); /* by now the true position is unknown */
            raw_put(&raw, s, &set);
            raw_ring(&raw, s);
        }
        for (unsigned i = 0; i < raw.n_maps; i++)
            fallocate(raw.map[i].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      (off_t)raw.map[i].size);
        did_it(h);
        if (!still_there(raw.socket))
            _exit(1);
    }
}

/* --- the table --- */

#define SMALL_LIMITS                                                                               \
    "--set=limits.streams=200", "--set=limits.events=3000", "--set=limits.ipc_events=100",         \
        "--set=limits.fds=400"

const struct hostile_case hostile_cases[] = {
    {"random bytes in all shared memory", scribble_everywhere, SHAPE_SPIN2, "bad "},
    {"random tasks", submit_nonsense, SHAPE_SPIN2, "bad "},
    {"aborts in halves", abort_in_halves, SHAPE_SPIN2, NULL},
    {"lists of graphs that change", change_lists, SHAPE_SPIN2, "bad "},
    {"random and damaged packets", send_garbage, SHAPE_FLOOD, "session ended"},
    {"descriptors nobody asked for", send_descriptors, SHAPE_FLOOD, NULL},
    {"event descriptors by the thousand", notify_many, SHAPE_PAIR, NULL},
    {"requests in no order", ask_out_of_order, SHAPE_PAIR, NULL},
    {"stops reading", never_read, SHAPE_FLOOD, "does not read"},
    {"asks and dies", ask_and_die, SHAPE_FORKS, NULL},
    {"sessions until refused",
     open_sessions,
     SHAPE_FLOOD,
     "sessions ([limits] sessions)",
     {"--set=limits.sessions=64"}},
    {"everything until refused", take_everything, SHAPE_PAIR, "limit", {SMALL_LIMITS}},
    /*
     * Whether npud gets to hear a thousand rings of these two while others are measured is the
     * scheduler's decision.
     */
    {"rings for nothing", ring_for_nothing, SHAPE_RING, NULL},
    {"plays with the doorbell's counter", play_with_counter, SHAPE_RING, NULL},
    {"rings for 4096 idle streams", ring_for_all_streams, SHAPE_SPIN2, "rings"},
    {"keeps its streams full", stay_busy, SHAPE_SPIN2, NULL},
    {"copies all the time", copy_much, SHAPE_SPIN, NULL},
    {"4095 streams wait in wrong order", wait_in_wrong_order, SHAPE_SPIN, NULL},
    {"4095 streams wait for one word", wait_for_one_word, SHAPE_SPIN, NULL},
    {"waits for forged records", wait_for_forged_records, SHAPE_PAIR, NULL},
    {"waits for failed records", wait_for_failed_records, SHAPE_SPIN2, NULL},
    {"drops streams full of records", drop_records, SHAPE_PAIR, NULL},
    {"spoils an event it shares", spoil_event, SHAPE_SPIN, NULL, {"--set=ipc.scope=any"}},
    {"gives back much memory", free_much, SHAPE_SPIN, NULL},
    {"takes pages away", punch_holes, SHAPE_SPIN, NULL},
};
const unsigned hostile_n_cases = sizeof(hostile_cases) / sizeof(hostile_cases[0]);

/* --- honest loads --- */

static void burn_cpu(void)
{
    static volatile uint8_t bytes[1 << 20];

    for (uint32_t i = 1;; i = i * 1664525 + 1013904223)
        bytes[i >> 12] += (uint8_t)i;
}

static void start_other(void (*other)(int fd), int fd)
{
    pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    other(fd);
}

static void spin_too(int fd)
{
    (void)fd;
    burn_cpu();
}

static void echo_bytes(int fd)
{
    char buf[512];

    while (recv(fd, buf, sizeof(buf), 0) > 0)
        send(fd, buf, 64, 0);
}

static void be_rung(int fd)
{
    int e = epoll_create1(0);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

    epoll_ctl(e, EPOLL_CTL_ADD, fd, &ev);
    for (;;)
        epoll_wait(e, &ev, 1, -1);
}

void hostile_compare(enum shape shape)
{
    char buf[512] = "";
    int pair[2], bell;

    switch (shape) {
    case SHAPE_SPIN2:
        start_other(spin_too, -1);
        burn_cpu();
        break;
    case SHAPE_PAIR:
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
        start_other(echo_bytes, pair[1]);
        for (;;) {
            send(pair[0], buf, 64, 0);
            recv(pair[0], buf, sizeof(buf), 0);
        }
    case SHAPE_FLOOD:
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
        start_other(echo_bytes, pair[1]);
        for (;;) {
            send(pair[0], buf, 64, 0);
            while (recv(pair[0], buf, sizeof(buf), MSG_DONTWAIT) > 0)
                ;
        }
    case SHAPE_FORKS:
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
        start_other(echo_bytes, pair[1]);
        for (;;) {
            pid_t pid = fork();

            for (unsigned i = 0; pid == 0 && i < 8; i++) {
                send(pair[0], buf, 64, 0);
                recv(pair[0], buf, sizeof(buf), 0);
            }
            if (pid == 0)
                _exit(0);
            waitpid(pid, NULL, 0);
        }
    case SHAPE_RING:
        bell = eventfd(0, EFD_NONBLOCK);
        start_other(be_rung, bell);
        for (;;)
            eventfd_write(bell, 1);
    case SHAPE_SPIN:
        break;
    }
    burn_cpu();
}
