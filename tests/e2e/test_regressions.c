/*
 * What a hostile reader of the code got npud or the library to do, finding by finding. Every test
 * failed before its bug was fixed; but those of "deaths" only keep a mild finding from getting
 * worse.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"
#include "proto/shm/arena.h"
#include "proto/shm/ipc_page.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"

#define KIB   ((size_t)1024)
#define NS_MS 1000000u
#define GUARD (300000 * (uint64_t)NS_MS) /* against hanging only */

static aclrtStream stream, other;

static void open_device(void)
{
    streams_open(&stream, &other);
}

static aclrtEvent make_level(void)
{
    aclrtEvent event;

    OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    return event;
}

/* While npud is stopped nothing that a client does meets an engine or an answer. */
static void npud_stop(void)
{
    child_stop(npud.pid);
}

static void npud_continue(void)
{
    ck_assert_int_eq(kill(npud.pid, SIGCONT), 0);
}

/* Ask until npud has just so many events. */
static void await_events(uint32_t n)
{
    uint64_t give_up = now_ns() + GUARD;
    struct ledger l;

    do
        l = npud_ledger();
    while (l.events != n && now_ns() < give_up);
    ck_assert_uint_eq(l.events, n);
}

/* --- a client without the library --- */

struct raw {
    int socket;
    uint64_t last_id;
    uint32_t depth;
    struct session_page *page;
    int bell;
    void *streams; /* segment of the first ARENA_STREAMS */
};

static int raw_connect(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

/*
 * The answer, and its descriptor if the caller wants it. An answer before it may come twice: of an
 * npud that ended, and of the next one.
 */
static Npud__Reply *raw_ask(struct raw *r, Npud__Request *request, int body, int *fd)
{
    static struct packet packet;
    Npud__Reply *reply;

    request->id = ++r->last_id;
    request->body_case = (Npud__Request__BodyCase)body;
    ck_assert_int_eq(packet_send_message(r->socket, &request->base, NULL, 0, 0), 0);
    for (;;) {
        ck_assert_int_eq(packet_recv(r->socket, &packet, 0), 1);
        reply = npud__reply__unpack(NULL, packet.size, packet.data);
        ck_assert_ptr_nonnull(reply);
        if (reply->id != request->id - 1)
            break;
        npud__reply__free_unpacked(reply, NULL);
        packet_deinit(&packet);
    }
    ck_assert_uint_eq(reply->id, request->id);
    if (fd)
        *fd = packet_take_fd(&packet, 0);
    packet_deinit(&packet);
    return reply;
}

/* A request of whose answer only the error matters. */
static int raw_command(struct raw *r, Npud__Request *request, int body)
{
    Npud__Reply *reply = raw_ask(r, request, body, NULL);
    int error = reply->error;

    npud__reply__free_unpacked(reply, NULL);
    return error;
}

static void *map_shared(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    close(fd);
    return map;
}

static void raw_open(struct raw *r)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    Npud__OpenDevice device = NPUD__OPEN_DEVICE__INIT;
    Npud__Reply *reply;
    int fd;

    *r = (struct raw){.socket = raw_connect(getenv("NPUD_SOCKET"))};
    hello.protocol = PROTOCOL;
    hello.program = (char *)"raw";
    request.hello = &hello;
    reply = raw_ask(r, &request, NPUD__REQUEST__BODY_HELLO, &fd);
    ck_assert_int_eq(reply->error, 0);
    r->depth = reply->hello->ring_depth;
    r->page = map_shared(fd, sizeof(*r->page));
    npud__reply__free_unpacked(reply, NULL);
    request.open_device = &device;
    reply = raw_ask(r, &request, NPUD__REQUEST__BODY_OPEN_DEVICE, &r->bell);
    ck_assert_int_eq(reply->error, 0);
    npud__reply__free_unpacked(reply, NULL);
}

static void raw_close(struct raw *r)
{
    if (r->streams)
        munmap(r->streams, arena_stream_file_size(r->depth));
    munmap(r->page, sizeof(*r->page));
    close(r->bell);
    close(r->socket);
}

static uint32_t raw_stream(struct raw *r)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateStream create = NPUD__CREATE_STREAM__INIT;
    Npud__Reply *reply;
    uint32_t slot;
    int fd;

    request.create_stream = &create;
    reply = raw_ask(r, &request, NPUD__REQUEST__BODY_CREATE_STREAM, &fd);
    ck_assert_int_eq(reply->error, 0);
    slot = reply->create_stream->slot;
    ck_assert_uint_lt(slot, ARENA_STREAMS);
    if (fd >= 0)
        r->streams = map_shared(fd, arena_stream_file_size(r->depth));
    npud__reply__free_unpacked(reply, NULL);
    return slot;
}

static uint32_t raw_event(struct raw *r, uint32_t *generation)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateEvent create = NPUD__CREATE_EVENT__INIT;
    Npud__Reply *reply;
    uint32_t slot;

    request.create_event = &create;
    reply = raw_ask(r, &request, NPUD__REQUEST__BODY_CREATE_EVENT, NULL);
    ck_assert_int_eq(reply->error, 0);
    slot = reply->create_event->slot;
    if (generation)
        *generation = reply->create_event->generation;
    npud__reply__free_unpacked(reply, NULL);
    return slot;
}

/* Destroy with n fences at this position of this stream. */
static int raw_destroy_event(struct raw *r, uint32_t event, uint32_t slot, uint64_t position,
                             size_t n)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__DestroyEvent destroy = NPUD__DESTROY_EVENT__INIT;
    Npud__Fence fence = NPUD__FENCE__INIT, *list[2 * FENCES_MAX];

    ck_assert_uint_le(n, 2 * FENCES_MAX);
    fence.stream = slot;
    fence.position = position;
    for (size_t i = 0; i < n; i++)
        list[i] = &fence;
    destroy.slot = event;
    destroy.fences = list;
    destroy.n_fences = n;
    request.destroy_event = &destroy;
    return raw_command(r, &request, NPUD__REQUEST__BODY_DESTROY_EVENT);
}

static struct stream_ctrl *raw_ctrl(struct raw *r, uint32_t slot)
{
    return arena_stream_ctrl(r->streams, slot);
}

static void raw_submit(struct raw *r, uint32_t slot, const struct task *tasks, int n)
{
    struct task *ring = arena_stream_ring(r->streams, slot, r->depth);
    struct stream_ctrl *c = raw_ctrl(r, slot);

    for (int i = 0; i < n; i++) {
        uint64_t tail = atomic_load(&c->tail);
        struct task *entry = &ring[tail & (r->depth - 1)];

        memcpy((char *)entry + sizeof(entry->sequence), (char *)&tasks[i] + sizeof(entry->sequence),
               sizeof(*entry) - sizeof(entry->sequence));
        atomic_store(&c->tail, tail + 1);
        atomic_store(&entry->sequence, tail + 1);
    }
    if (!atomic_load(&c->watched) && doorbell_raise(&r->page->doorbell[0], slot))
        eventfd_write(r->bell, 1);
}

static void raw_await(struct raw *r, uint32_t slot, uint64_t done)
{
    struct stream_ctrl *c = raw_ctrl(r, slot);
    uint64_t give_up = now_ns() + GUARD;

    while (atomic_load(&c->done) < done && now_ns() < give_up)
        wait_a_moment();
    ck_assert_uint_eq(atomic_load(&c->done), done);
}

/* --- npud and hostile clients --- */

/* Closing an IPC event on which one's stream waits for a forged record ended npud (assertion). */
START_TEST(closing_an_event_that_a_stream_waits_for)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__CreateIpcEvent create = NPUD__CREATE_IPC_EVENT__INIT;
    Npud__CloseIpcEvent close_event = NPUD__CLOSE_IPC_EVENT__INIT;
    struct task tasks[2] = {{.op = TASK_NOP}, {.op = TASK_IPC_WAIT, .ipc.number = 1}};
    struct ipc_page *page;
    Npud__Reply *reply;
    uint64_t blocker;
    struct raw r;
    uint32_t s;
    int fd;

    raw_open(&r);
    s = raw_stream(&r);
    request.create_ipc_event = &create;
    reply = raw_ask(&r, &request, NPUD__REQUEST__BODY_CREATE_IPC_EVENT, &fd);
    ck_assert_int_eq(reply->error, 0);
    page = map_shared(fd, sizeof(*page));
    /* By this session, which never submits it. */
    ck_assert_uint_eq(ipc_take(page, reply->ipc_event->opener, IPC_PENDING, &blocker), 1);
    tasks[1].object = close_event.slot = reply->ipc_event->slot;
    tasks[1].generation = reply->ipc_event->generation;
    npud__reply__free_unpacked(reply, NULL);
    raw_submit(&r, s, tasks, 2);
    raw_await(&r, s, 1); /* what is done is told at the end of the stream's turn: it waits now */
    request.close_ipc_event = &close_event;
    ck_assert_int_eq(raw_command(&r, &request, NPUD__REQUEST__BODY_CLOSE_IPC_EVENT), 0);
    raw_await(&r, s, 2);
    ck_assert_int_eq(stream_error_code(atomic_load(&raw_ctrl(&r, s)->error)),
                     ACL_ERROR_RT_INVALID_HANDLE);
    munmap(page, sizeof(*page));
    raw_close(&r);
    npud_expect_empty();
}
END_TEST

/* Fences at positions that no stream ever reaches kept destroyed events for the whole session. They
 * are fewer than a session may have: how far the stream is, the engine decides. */
START_TEST(fences_beyond_the_end_of_a_stream)
{
    enum { DESTROYS = 16384 / FENCES_MAX - 1 };
    struct task nop = {.op = TASK_NOP};
    struct raw r;
    uint32_t s;

    raw_open(&r);
    s = raw_stream(&r);
    raw_submit(&r, s, &nop, 1);
    for (int i = 0; i < DESTROYS; i++)
        ck_assert_int_eq(raw_destroy_event(&r, raw_event(&r, NULL), s, UINT64_MAX >> 1, FENCES_MAX),
                         0);
    await_events(0);
    raw_close(&r);
    npud_expect_empty();
}
END_TEST

/* A session could have npud remember fences, and search them at every position, without bound. */
START_TEST(fences_are_bounded)
{
    enum { DESTROYS_MAX = 16384 / FENCES_MAX };
    struct task wait = {.op = TASK_WAIT_LEVEL}, record = {.op = TASK_RECORD};
    uint32_t gate, blocked, free_stream, event, n = 0;
    struct raw r;
    int error;

    open_device();
    raw_open(&r);
    blocked = raw_stream(&r);
    free_stream = raw_stream(&r);
    gate = raw_event(&r, &wait.generation);
    wait.object = record.object = gate;
    record.generation = wait.generation;
    record.flags = TASK_RECORD_LEVEL;
    raw_submit(&r, blocked, &wait, 1);
    do {
        event = raw_event(&r, NULL);
        error = raw_destroy_event(&r, event, blocked, 1, FENCES_MAX);
    } while (error == 0 && ++n <= DESTROYS_MAX);
    ck_assert_int_eq(error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    ck_assert_uint_eq(n, DESTROYS_MAX);
    /* All of them are there yet, the refused one too; and all go when the stream has passed. */
    ck_assert_uint_eq(npud_ledger().events, DESTROYS_MAX + 2);
    raw_submit(&r, free_stream, &record, 1);
    raw_await(&r, blocked, 1);
    await_events(2);
    ck_assert_int_eq(raw_destroy_event(&r, event, blocked, 1, FENCES_MAX), 0);
    await_events(1);
    raw_close(&r);
    OK(aclrtSynchronizeDevice());
}
END_TEST

/* Surplus fences of a request were cut off silently: the event went while streams needed it. */
START_TEST(too_many_fences_in_a_request)
{
    struct packet packet;
    struct raw r;
    uint32_t s;

    open_device();
    raw_open(&r);
    s = raw_stream(&r);
    ck_assert_int_eq(raw_destroy_event(&r, raw_event(&r, NULL), s, 1, FENCES_MAX + 1),
                     ACL_ERROR_RT_PARAM_INVALID);
    while (packet_recv(r.socket, &packet, 0) > 0)
        ; /* the answer, maybe, once more from the next npud ... */
    /* ... and the session is ended. */
    raw_close(&r);
    OK(aclrtSynchronizeDevice());
}
END_TEST

/* Returns the other end: while that is open and unread, the last close of what was sent blocks. */
static int send_lingering_socket(int to)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger linger = {.l_onoff = 1, .l_linger = 10};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted, r;
    socklen_t size = sizeof(addr);
    static char data[65536];

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&addr, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&addr, &size);
    ck_assert_int_eq(connect(peer, (struct sockaddr *)&addr, size), 0);
    accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(accepted, 0);
    close(listener);
    fcntl(peer, F_SETFL, O_NONBLOCK);
    while (write(peer, data, sizeof(data)) > 0)
        ;
    ck_assert_int_eq(setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    r = packet_send(to, "x", 1, &peer, 1, 0);
    /* Where the kernel knows SO_PASSRIGHTS it refuses them for npud. */
    ck_assert(r == 0 || r == -EPERM);
    if (r == -EPERM) { /* this process must not sleep in its close either */
        linger.l_onoff = 0;
        setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    }
    close(peer);
    return accepted;
}

/* A passed socket with SO_LINGER and unsent data had npud sleep in close() as long as one liked. */
START_TEST(passed_descriptor_that_is_slow_to_close)
{
    enum { N = 4 };
    int to[N], held[N];
    uint64_t start;
    struct raw r;

    if (!need_one_server(__func__, "it is stopped"))
        return;
    raw_open(&r);
    to[0] = dup(r.socket);
    to[1] = raw_connect(getenv("NPUD_SOCKET"));
    to[2] = raw_connect(getenv("NPUD_ADMIN_SOCKET"));
    for (int i = 0; i < N - 1; i++)
        held[i] = send_lingering_socket(to[i]);
    npud_stop();
    to[3] = raw_connect(getenv("NPUD_SOCKET"));
    held[3] = send_lingering_socket(to[3]); /* npud has not accepted this one yet */
    npud_continue();
    start = now_ns();
    for (int i = 0; i < 10; i++)
        npud_ledger();
    open_device();
    ck_assert_uint_lt(now_ns() - start, 3000 * (uint64_t)NS_MS);
    for (int i = 0; i < N; i++) {
        close(held[i]);
        close(to[i]);
    }
    raw_close(&r);
    while (npud_ledger().sessions != 1)
        ;
}
END_TEST

/* npud's words to a client that it refused were lost when that had spoken first (ECONNRESET). */
START_TEST(refusal_reaches_who_has_spoken_already)
{
    static const char *const args[] = {"--set=limits.sessions=1", NULL};
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Hello hello = NPUD__HELLO__INIT;
    static struct packet packet;
    Npud__Reply *reply;
    struct raw first;
    int fd;

    if (!need_one_server(__func__, "it is stopped"))
        return;
    npud_start(args);
    raw_open(&first);
    npud_stop();
    fd = raw_connect(getenv("NPUD_SOCKET"));
    hello.protocol = PROTOCOL;
    hello.program = (char *)"second";
    request.hello = &hello;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    ck_assert_int_eq(packet_send_message(fd, &request.base, NULL, 0, 0), 0);
    npud_continue();
    ck_assert_int_eq(packet_recv(fd, &packet, 0), 1);
    reply = npud__reply__unpack(NULL, packet.size, packet.data);
    ck_assert_int_eq(reply->error, ACL_ERROR_RT_OVER_LIMIT);
    npud__reply__free_unpacked(reply, NULL);
    ck_assert_int_eq(packet_recv(fd, &packet, 0), 0);
    close(fd);
    /* The library, whichever of the two is faster. */
    OK(aclInit(NULL));
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(aclrtSetDevice(0), ACL_ERROR_RT_OVER_LIMIT);
        ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "([limits] sessions)"));
    }
    raw_close(&first);
}
END_TEST

/* --- sessions that stay in each other's way --- */

static struct turn ready;

/* Copies without end on so many streams. */
static int keep_copying(void *arg)
{
    int n = *(int *)arg;
    aclrtStream *streams = calloc((size_t)n, sizeof(aclrtStream));
    char *memory;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc((void **)&memory, 256 * 256 * KIB, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 256 * 256 * KIB, 1, 256 * 256 * KIB));
    for (int i = 0; i < n; i++)
        OK(aclrtCreateStream(&streams[i]));
    for (uint64_t round = 0;; round++) {
        for (int i = 0; i < n; i++)
            OK(aclrtMemsetAsync(memory + (size_t)(i % 256) * 256 * KIB, 256 * KIB, 1, 256 * KIB,
                                streams[i]));
        if (round == 70)
            turn_tell(&ready);
    }
    return 0;
}

static pid_t start_copying(int n)
{
    pid_t pid;

    turn_init(&ready);
    pid = child_start(keep_copying, &n);
    turn_await(&ready);
    return pid;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Engines gave turns to streams, not to sessions: one with many streams of copies had them all. */
START_TEST(many_copy_streams_leave_others_their_turn)
{
    enum { N = 21 };
    pid_t pid = start_copying(500);
    uint64_t latency[N], start;

    open_device();
    for (int i = 0; i < N; i++) {
        start = now_ns();
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        latency[i] = now_ns() - start;
    }
    qsort(latency, N, sizeof(latency[0]), compare_numbers);
    ck_assert_uint_lt(latency[N / 2], 20 * (uint64_t)NS_MS);
    child_kill(pid);
}
END_TEST

/* --- deaths --- */

static int hold_events(void *arg)
{
    struct raw r;

    raw_open(&r);
    for (int i = 0; i < *(int *)arg; i++)
        raw_event(&r, NULL);
    turn_tell(&ready);
    pause();
    return 0;
}

/* How long the slowest request and task took until npud has no more than n sessions. */
static uint64_t slowest_until(uint32_t n)
{
    uint64_t start, worst = 0;
    struct ledger l;

    do {
        start = now_ns();
        l = npud_ledger();
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        if (now_ns() - start > worst)
            worst = now_ns() - start;
    } while (l.sessions > n);
    return worst;
}

/* A session's end took the lock of a busy engine once per event: others may not feel that. */
START_TEST(death_of_a_session_with_many_events)
{
    int n = 20000;
    pid_t copying = start_copying(4), holder;

    turn_init(&ready);
    holder = child_start(hold_events, &n);
    turn_await(&ready);
    open_device();
    child_kill(holder);
    ck_assert_uint_lt(slowest_until(2), 1000 * (uint64_t)NS_MS);
    child_kill(copying);
    ck_assert_uint_lt(slowest_until(1), 1000 * (uint64_t)NS_MS);
}
END_TEST

/* It takes the lock once per stream, and here the engine is busy with those very streams. */
START_TEST(death_of_a_session_with_many_busy_streams)
{
    pid_t copying = start_copying(500);

    open_device();
    child_kill(copying);
    ck_assert_uint_lt(slowest_until(1), 1000 * (uint64_t)NS_MS);
}
END_TEST

/* --- events --- */

/* Nothing passes any more, until the level is raised once more. */
static void expect_level_down(aclrtEvent event)
{
    aclrtStreamStatus status;

    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtStreamQuery(other, &status));
    ck_assert_int_eq(status, ACL_STREAM_STATUS_NOT_READY);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeStream(other));
}

/* A record after a wait that timed out raised the level twice: at the call, and once more later. */
START_TEST(level_is_raised_once_after_a_wait_timed_out)
{
    aclrtEvent event;
    if (!need_one_server(__func__, "it is stopped"))
        return;
    aclError error[3];

    open_device();
    event = make_level();
    OK(aclrtStreamWaitEventWithTimeout(other, event, 1));
    ck_assert_int_eq(aclrtSynchronizeStream(other), ACL_ERROR_RT_TASK_TIMEOUT);
    npud_stop();
    error[0] = aclrtRecordEvent(event, stream);
    error[1] = aclrtStreamWaitEvent(other, event);
    error[2] = aclrtResetEvent(event, other);
    npud_continue();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(error[i], 0);
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream));
    expect_level_down(event);
}
END_TEST

/* Returns when the engine has come to the wait. */
static void park_on(aclrtStream s, aclrtEvent event)
{
    aclrtEvent gate = make_level(), passed;

    OK(aclrtCreateEventExWithFlag(&passed, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(s, gate));
    OK(aclrtRecordEvent(passed, s));
    OK(aclrtStreamWaitEvent(s, event));
    OK(aclrtRecordEvent(gate, stream));
    OK(aclrtSynchronizeEvent(passed)); /* told at the end of the stream's turn */
}

/* The same with a stream that waits: it must go on, though the level is down when npud looks. */
START_TEST(raise_and_reset_at_once)
{
    aclrtStream waiting;
    aclrtEvent event;
    if (!need_one_server(__func__, "it is stopped"))
        return;
    aclError error[2];

    open_device();
    OK(aclrtCreateStream(&waiting));
    event = make_level();
    park_on(waiting, event);
    OK(aclrtSynchronizeStream(stream));
    npud_stop();
    error[0] = aclrtRecordEvent(event, stream);
    error[1] = aclrtResetEvent(event, other);
    npud_continue();
    ck_assert_int_eq(error[0], 0);
    ck_assert_int_eq(error[1], 0);
    OK(aclrtSynchronizeStreamWithTimeout(waiting, 20000));
    OK(aclrtSynchronizeStream(stream));
    expect_level_down(event);
}
END_TEST

static aclrtEvent make_ipc(void)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    return event;
}

/* Record, let n streams wait for that, some of them late, destroy: all waits must come true. */
static void destroy_with_uses(aclrtEvent (*make)(void), int n, int early)
{
    aclrtStream *waiting = calloc((size_t)n, sizeof(aclrtStream));
    aclrtEvent gate, late, event;

    open_device();
    gate = make_level();
    late = make_level();
    event = make();
    OK(aclrtStreamWaitEvent(stream, gate));
    OK(aclrtRecordEvent(event, stream));
    for (int i = 0; i < n; i++) {
        OK(aclrtCreateStream(&waiting[i]));
        if (i >= early)
            OK(aclrtStreamWaitEvent(waiting[i], late));
        OK(aclrtStreamWaitEvent(waiting[i], event));
    }
    OK(aclrtDestroyEvent(event));
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeStream(stream));
    for (int i = 0; i < early; i++)
        OK(aclrtSynchronizeStream(waiting[i]));
    /* Answered by the thread that would free the event too early. */
    npud_ledger();
    npud_ledger();
    OK(aclrtRecordEvent(late, other));
    for (int i = early; i < n; i++)
        OK(aclrtSynchronizeStream(waiting[i]));
    OK(aclrtSynchronizeDevice());
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(late));
    free(waiting);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
}

/* npud kept an event for 512 of its unfinished uses, and the waits of the others failed. */
START_TEST(destroying_an_event_with_700_uses)
{
    destroy_with_uses(_i == 0 ? make_ipc : make_level, 700, 600);
}
END_TEST

/* With some thousands, the request did not fit a packet, and the program lost its session. */
START_TEST(destroying_an_event_with_3000_uses)
{
    destroy_with_uses(_i == 0 ? make_ipc : make_level, 3000, 0);
}
END_TEST

/* --- the library --- */

static aclrtEvent reset_gate;

static void *reset_with_work_left(void *arg)
{
    aclrtStream s;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&s));
    reset_gate = make_level();
    OK(aclrtStreamWaitEvent(s, reset_gate));
    turn_tell(&ready);
    OK(aclrtResetDevice(0)); /* does not return before its work is done */
    return NULL;
}

/* aclrtResetDevice() freed what another thread had allocated after it had set the device anew. */
START_TEST(reset_leaves_alone_what_came_after_it)
{
    aclrtPtrAttributes attributes;
    int32_t active = 1;
    pthread_t thread;
    char *memory;

    turn_init(&ready);
    OK(aclInit(NULL));
    pthread_create(&thread, NULL, reset_with_work_left, NULL);
    turn_await(&ready);
    while (active) {
        OK(aclrtGetPrimaryCtxState(0, NULL, &active));
        wait_a_moment();
    }
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc((void **)&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, 4096, 1, 4096));
    OK(aclrtRecordEvent(reset_gate, stream));
    pthread_join(thread, NULL);
    OK(aclrtPointerGetAttributes(memory, &attributes));
    ck_assert_int_eq(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    OK(aclrtMemset(memory, 4096, 2, 4096));
    ck_assert_int_eq(device_byte(memory + 4095), 2);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

static int (*get_device)(int32_t *device);
static struct turn unloaded;

static void *outlive_library(void *arg)
{
    int32_t device;

    (void)arg;
    get_device(&device);
    turn_tell(&ready);
    turn_await(&unloaded);
    return NULL;
}

/* A copy of the library that nothing else holds, since this program is linked with the real one. */
static void *load_copy(void)
{
    Dl_info info;
    struct stat st;
    char path[128];
    void *library;
    int from, to;

    ck_assert_int_ne(dladdr((void *)aclInit, &info), 0);
    snprintf(path, sizeof(path), "%s/library.so", npud.dir);
    from = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ck_assert_int_eq(fstat(from, &st), 0);
    while (st.st_size > 0) {
        ssize_t n = sendfile(to, from, NULL, (size_t)st.st_size);

        ck_assert_int_gt(n, 0);
        st.st_size -= n;
    }
    close(from);
    close(to);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    unlink(path);
    return library;
}

/* A thread that had used the library and ended after dlclose() crashed: its destructor was gone. */
START_TEST(thread_ends_after_dlclose)
{
    void *library = load_copy();
    pthread_t thread;

    get_device = (int (*)(int32_t *))dlsym(library, "aclrtGetDevice");
    ck_assert(get_device && (void *)get_device != (void *)aclrtGetDevice);
    turn_init(&ready);
    turn_init(&unloaded);
    pthread_create(&thread, NULL, outlive_library, NULL);
    turn_await(&ready);
    ck_assert_int_eq(dlclose(library), 0);
    turn_tell(&unloaded);
    pthread_join(thread, NULL);
}
END_TEST

/* --- records that are discarded --- */

static int handles[2];

/* Record a shared event behind a wait that nothing ends, and throw the stream away when told. */
static int discard_record(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;

    (void)arg;
    open_device();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtStreamWaitEvent(stream, make_level()));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtIpcGetEventHandle(event, &handle));
    ck_assert_int_eq(write(handles[1], &handle, sizeof(handle)), sizeof(handle));
    turn_await(&ready);
    OK(aclrtDestroyStreamForce(stream));
    turn_await(&ready);
    /* The event is as good as new. */
    OK(aclrtRecordEvent(event, other));
    OK(aclrtSynchronizeEvent(event));
    return 0;
}

/*
 * The record stayed pending, and its waiters waited until the process that had discarded it closed
 * the event or ended.
 */
START_TEST(record_of_a_stream_that_is_destroyed_by_force)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    aclrtEventRecordedStatus status;
    char text[32];
    pid_t pid;

    turn_init(&ready);
    ck_assert_int_eq(pipe(handles), 0);
    pid = child_start(discard_record, NULL);
    snprintf(text, sizeof(text), "process %d", (int)pid);
    ck_assert_int_eq(read(handles[0], &handle, sizeof(handle)), sizeof(handle));
    open_device();
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    turn_tell(&ready);
    ck_assert_int_eq(aclrtSynchronizeEventWithTimeout(event, 20000),
                     ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), text));
    ck_assert_int_eq(aclrtSynchronizeStreamWithTimeout(stream, 20000),
                     ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), text));
    turn_tell(&ready);
    child_expect_ok(pid);
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

/*
 * A reset that had taken effect, or was about to, was forgotten when another one was queued: the
 * event was "recorded" again.
 */
START_TEST(second_reset_leaves_the_first_in_force)
{
    aclrtEventRecordedStatus status;
    aclrtEvent event, gate, other_gate;

    open_device();
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    gate = stream_hold(stream);
    OK(aclrtResetEvent(event, stream));
    other_gate = stream_hold(other);
    OK(aclrtResetEvent(event, other));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtResetEvent(event, other));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    stream_let_go(other_gate);
    OK(aclrtSynchronizeStream(other));
}
END_TEST

/*
 * Delays were counted from the beginning of the engine's turn: a record behind what came first in
 * the turn saw them end too early.
 */
START_TEST(delays_take_their_time)
{
    enum { OTHERS = 15, US = 20 };
    aclrtEvent begin, end, gate, others[OTHERS];
    float ms = 0;

    open_device();
    OK(aclrtCreateEvent(&begin));
    OK(aclrtCreateEvent(&end));
    for (unsigned i = 0; i < OTHERS; i++)
        OK(aclrtCreateEvent(&others[i]));
    for (unsigned n = 0; n < 200; n++) {
        gate = stream_hold(stream);
        for (unsigned i = 0; i < OTHERS; i++)
            OK(aclrtRecordEvent(others[i], stream));
        OK(aclrtRecordEvent(begin, stream));
        OK(aclnpudLaunchDelay(US, 0, stream));
        OK(aclrtRecordEvent(end, stream));
        OK(aclrtRecordEvent(gate, other));
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtEventElapsedTime(&ms, begin, end));
        ck_assert_float_ge(ms * 1000, US);
        OK(aclrtDestroyEvent(gate));
    }
}
END_TEST

/*
 * The waiter shares its memory with work, and was not made anew for a notify: npud ended with an
 * assertion.
 */
START_TEST(notify_wait_behind_work)
{
    aclrtNotify notify;
    aclrtEvent gate;
    void *memory;

    open_device();
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 2; i++) {
        gate = stream_hold(stream);
        OK(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
        OK(aclrtWaitAndResetNotify(notify, stream, 0));
        stream_let_go(gate);
        OK(aclnpudLaunchDelay(2000, 0, other));
        OK(aclrtRecordNotify(notify, other));
        OK(aclrtSynchronizeStreamWithTimeout(stream, 20000));
    }
}
END_TEST

/*
 * To register for barriers takes as long as the kernel needs to see all processors once more, and
 * an acltdtDequeue that took a ring away did so.
 */
START_TEST(barriers_need_nothing_of_a_call)
{
    ck_assert_int_eq(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("regressions");
    TCase *running = suite_case(s, "npud with defaults", 60, npud_setup, npud_teardown);
    TCase *own = suite_case(s, "npud as the test wants it", 60, NULL, npud_teardown);

    tcase_add_test(running, closing_an_event_that_a_stream_waits_for);
    tcase_add_test(running, fences_beyond_the_end_of_a_stream);
    tcase_add_test(running, fences_are_bounded);
    tcase_add_test(running, too_many_fences_in_a_request);
    tcase_add_test(running, passed_descriptor_that_is_slow_to_close);
    tcase_add_test(running, many_copy_streams_leave_others_their_turn);
    tcase_add_test(running, death_of_a_session_with_many_events);
    tcase_add_test(running, death_of_a_session_with_many_busy_streams);
    tcase_add_test(running, level_is_raised_once_after_a_wait_timed_out);
    tcase_add_test(running, raise_and_reset_at_once);
    tcase_add_loop_test(running, destroying_an_event_with_700_uses, 0, 2);
    tcase_add_loop_test(running, destroying_an_event_with_3000_uses, 0, 2);
    tcase_add_test(running, reset_leaves_alone_what_came_after_it);
    tcase_add_test(running, thread_ends_after_dlclose);
    tcase_add_test(running, second_reset_leaves_the_first_in_force);
    tcase_add_test(running, record_of_a_stream_that_is_destroyed_by_force);
    tcase_add_test(running, delays_take_their_time);
    tcase_add_test(running, notify_wait_behind_work);
    tcase_add_test(own, refusal_reaches_who_has_spoken_already);
    tcase_add_test(suite_case(s, "no npud", 60, NULL, NULL), barriers_need_nothing_of_a_call);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
