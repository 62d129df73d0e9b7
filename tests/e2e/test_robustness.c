/* Death on either side, packets that no honest client sends, limits, and descriptors that run out.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "proto/shm/task.h"

static aclrtStream stream, other;

static void open_device(void)
{
    streams_open(&stream, &other);
}

/* --- the harness itself --- */

static int expect_alarm_to_kill(void *arg)
{
    struct sigaction action;

    (void)arg;
    ck_assert_int_eq(sigaction(SIGALRM, NULL, &action), 0);
    return action.sa_handler != SIG_DFL;
}

START_TEST(alarm_ends_only_the_child_that_hangs)
{
    child_expect_ok(child_start(expect_alarm_to_kill, NULL));
}
END_TEST

/* --- a client dies --- */

static struct turn ready;
static int handles[2];

/* Leave behind one of everything, with work in flight, and wait to be killed. */
static int hold_everything(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEvent ipc, plain;
    void *memory;

    (void)arg;
    open_device();
    stream_hold(stream);
    OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&memory, 1 << 20));
    OK(aclrtCreateEvent(&plain));
    OK(aclrtRecordEvent(plain, stream));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtIpcGetEventHandle(ipc, &handle));
    ck_assert_int_eq(write(handles[1], &handle, sizeof(handle)), sizeof(handle));
    OK(aclnpudLaunchDelay(60000000, 0, other));
    turn_tell(&ready);
    pause();
    return 0;
}

static pid_t start_holder(void)
{
    pid_t pid;

    turn_init(&ready);
    ck_assert_int_eq(pipe(handles), 0);
    pid = child_start(hold_everything, NULL);
    turn_await(&ready);
    return pid;
}

START_TEST(death_returns_everything)
{
    struct ledger before = npud_ledger();

    for (int i = 0; i < 5; i++) {
        pid_t pid = start_holder();

        ck_assert_uint_eq(npud_ledger().sessions, 1);
        child_kill(pid);
        npud_expect_empty();
    }
    npud_await_fds(before.fds); /* npud closes what clients sent on a thread of its own */
}
END_TEST

static void *synchronize_event(void *event)
{
    return (void *)(intptr_t)aclrtSynchronizeEvent(event);
}

static void *synchronize_stream(void *arg)
{
    aclError error = aclrtSetDevice(0);

    return (void *)(intptr_t)(error ? error : aclrtSynchronizeStream(arg));
}

START_TEST(death_wakes_who_waits_for_its_record)
{
    pid_t pid = start_holder();
    aclrtIpcEventHandle handle;
    aclrtEventRecordedStatus status;
    aclrtEvent event;
    pthread_t thread;
    uint64_t start;
    void *result;
    char text[32];

    ck_assert_int_eq(read(handles[0], &handle, sizeof(handle)), sizeof(handle));
    open_device();
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 10));
    pthread_create(&thread, NULL, synchronize_event, event);
    start = now_ns();
    child_kill(pid);
    snprintf(text, sizeof(text), "process %d", (int)pid);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), text));
    pthread_join(thread, &result);
    ck_assert_int_eq((int)(intptr_t)result, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_uint_lt(now_ns() - start, promised_ns(100));
    /* Later callers learn the same, until a client records anew. */
    ck_assert_int_eq(aclrtQueryEventStatus(event, &status), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), text));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
}
END_TEST

START_TEST(exported_event_outlives_its_handle_but_not_its_exporter)
{
    pid_t pid;
    aclrtIpcEventHandle handle, stale;
    aclrtEvent event;

    open_device();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &handle));
    OK(aclrtDestroyEvent(event));
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtDestroyEvent(event));
    pid = start_holder();
    ck_assert_int_eq(read(handles[0], &stale, sizeof(stale)), sizeof(stale));
    child_kill(pid);
    while (npud_ledger().sessions != 1)
        ;
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtIpcOpenEventHandle(stale, &event));
}
END_TEST

/* --- npud dies --- */

static struct {
    aclrtEvent gate, plain, ipc;
    aclrtStream doomed;
} blocked;
static _Atomic int n_blocked;

static aclError call_blocking(int which)
{
    switch (which) {
    case 0:
        return aclrtSynchronizeStream(stream);
    case 1:
        return aclrtSynchronizeEvent(blocked.plain);
    case 2:
        return aclrtSynchronizeEvent(blocked.ipc);
    case 3:
        return aclrtSynchronizeDevice();
    case 4:
        return aclrtSynchronizeStreamWithTimeout(stream, 60000);
    case 5:
        return aclrtDestroyStream(blocked.doomed);
    default: {
        aclError e = 0;

        while (e == 0)
            e = aclnpudLaunchDelay(0, 0, other);
        return e;
    }
    }
}

static void *block_in_call(void *which)
{
    aclError error = aclrtSetDevice(0);

    n_blocked++;
    if (error == 0)
        error = call_blocking((int)(intptr_t)which);
    return (void *)(intptr_t)error;
}

/*
 * Killed, or ended in order: the streams of live clients are not "complete" because npud clears
 * them away.
 */
static void (*const end_npud[])(void) = {npud_kill, npud_teardown};

START_TEST(npud_end_ends_every_blocked_call)
{
    enum { N = 7 };
    pthread_t thread[N];
    uint64_t start;
    void *result;

    open_device();
    blocked.gate = stream_hold(stream);
    OK(aclrtStreamWaitEvent(other, blocked.gate));
    OK(aclrtCreateStream(&blocked.doomed));
    OK(aclrtStreamWaitEvent(blocked.doomed, blocked.gate));
    OK(aclrtCreateEvent(&blocked.plain));
    OK(aclrtRecordEvent(blocked.plain, stream));
    OK(aclrtCreateEventExWithFlag(&blocked.ipc, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(blocked.ipc, stream));
    for (int i = 0; i < N; i++)
        pthread_create(&thread[i], NULL, block_in_call, (void *)(intptr_t)i);
    while (n_blocked < N)
        wait_a_moment();
    start = now_ns();
    end_npud[_i]();
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], &result);
        ck_assert_msg((int)(intptr_t)result == ACL_ERROR_RT_SOCKET_CLOSE, "call %d: %d", i,
                      (int)(intptr_t)result);
    }
    ck_assert_uint_lt(now_ns() - start, promised_ns(100));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtCreateStream(&stream));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSetDevice(1));
}
END_TEST

/*
 * With npud, all sessions end at once: a record of a process that lives has not failed because of
 * that process.
 */
START_TEST(npud_end_blames_no_process)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    pthread_t thread[2];
    void *result;
    pid_t pid = start_holder();

    ck_assert_int_eq(read(handles[0], &handle, sizeof(handle)), sizeof(handle));
    open_device();
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    pthread_create(&thread[0], NULL, synchronize_event, event);
    pthread_create(&thread[1], NULL, synchronize_stream, stream);
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 10));
    end_npud[_i]();
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        ck_assert_int_eq((int)(intptr_t)result, ACL_ERROR_RT_SOCKET_CLOSE);
    }
    child_kill(pid);
}
END_TEST

/* --- hostile packets --- */

static int raw_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", getenv("NPUD_SOCKET"));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

/* The connection is ended by npud: a read comes to its end (after whatever npud answered). */
static void expect_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char buf[PACKET_MAX];

    do
        ck_assert_int_eq(poll(&p, 1, 10000), 1);
    while (recv(fd, buf, sizeof(buf), 0) > 0);
    close(fd);
}

static Npud__Reply *ask_npud(int fd, Npud__Request *request)
{
    static struct packet packet;

    int r = packet_send_message(fd, &request->base, NULL, 0, 0);

    /* npud may have refused us and closed before we spoke: its words are there all the same. */
    ck_assert(r == 0 || r == -EPIPE);
    ck_assert_int_eq(packet_recv(fd, &packet, 0), 1);
    packet_deinit(&packet);
    return npud__reply__unpack(NULL, packet.size, packet.data);
}

static Npud__Reply *say_hello(int fd, uint32_t protocol)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__Hello h = NPUD__HELLO__INIT;

    h.protocol = protocol;
    h.program = (char *)"raw";
    request.id = 1;
    request.hello = &h;
    request.body_case = NPUD__REQUEST__BODY_HELLO;
    return ask_npud(fd, &request);
}

static int raw_session(void)
{
    int fd = raw_connect();
    Npud__Reply *reply = say_hello(fd, PROTOCOL);

    ck_assert_int_eq(reply->error, 0);
    npud__reply__free_unpacked(reply, NULL);
    return fd;
}

START_TEST(malformed_packets_end_that_session_only)
{
    static char big[PACKET_MAX + 1];
    int fd, fds[PACKET_FDS_MAX] = {0, 1, 2, 0};
    Npud__Request empty = NPUD__REQUEST__INIT;
    Npud__Reply *reply;
    aclrtStreamStatus status;

    open_device();
    fd = raw_connect();
    packet_send(fd, "\xff\xff\xff\xff", 4, NULL, 0, 0);
    expect_ended(fd);
    fd = raw_session();
    packet_send(fd, big, sizeof(big), NULL, 0, 0);
    expect_ended(fd);
    fd = raw_session();
    /* Where the kernel knows SO_PASSRIGHTS it refuses them for us. */
    if (packet_send(fd, "\x08\x02", 2, fds, 3, 0) == -EPERM)
        close(fd);
    else
        expect_ended(fd);
    fd = raw_connect();
    packet_send_message(fd, &empty.base, NULL, 0, 0); /* packs to nothing */
    expect_ended(fd);
    fd = raw_session();
    empty.id = 7; /* no body */
    packet_send_message(fd, &empty.base, NULL, 0, 0);
    expect_ended(fd);
    fd = raw_session();
    reply = say_hello(fd, PROTOCOL); /* twice */
    ck_assert_int_ne(reply->error, 0);
    npud__reply__free_unpacked(reply, NULL);
    expect_ended(fd);
    OK(aclrtStreamQuery(stream, &status));
    OK(aclrtSynchronizeDevice());
    ck_assert_uint_eq(npud_ledger().sessions, 1);
}
END_TEST

/* The lower number is the older one: that side is to be restarted. _i: the program is. */
START_TEST(protocol_mismatch_is_explained)
{
    int fd = raw_connect();
    Npud__Reply *reply = say_hello(fd, _i ? PROTOCOL_OLDEST - 1 : PROTOCOL + 1);

    ck_assert_int_eq(reply->error, ACL_ERROR_API_NOT_SUPPORT);
    ck_assert_ptr_nonnull(strstr(reply->message, "protocol"));
    ck_assert_ptr_nonnull(strstr(reply->message, _i ? "restart the program" : "npuctl upgrade"));
    npud__reply__free_unpacked(reply, NULL);
    close(fd);
}
END_TEST

START_TEST(who_does_not_read_is_ended)
{
    int fd = raw_session(), r = 0;
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__OpenDevice open = NPUD__OPEN_DEVICE__INIT;
    struct pollfd p = {.fd = fd, .events = POLLOUT | POLLRDHUP};

    open.device = 99;
    request.open_device = &open;
    request.body_case = NPUD__REQUEST__BODY_OPEN_DEVICE;
    while (r == 0 || r == -EAGAIN) {
        request.id++;
        r = packet_send_message(fd, &request.base, NULL, 0, MSG_DONTWAIT);
        ck_assert_int_eq(poll(&p, 1, 10000), 1);
    }
    close(fd);
    npud_expect_empty();
}
END_TEST

/* --- limits --- */

START_TEST(limits_are_named_errors)
{
    static const char *const args[] = {"--set=limits.streams=3",    "--set=limits.events=2",
                                       "--set=limits.ipc_events=1", "--set=limits.host_memory=8192",
                                       "--set=limits.sessions=2",   NULL};
    aclrtEvent event;
    aclrtStream s;
    void *p;
    int fd, second;
    Npud__Reply *reply;

    npud_start(args);
    open_device(); /* default stream and two more: three */
    FAILS(ACL_ERROR_RT_NO_STREAM_RESOURCE, aclrtCreateStream(&s));
    OK(aclrtDestroyStream(other));
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateEvent(&event));
    OK(aclrtCreateEvent(&event));
    FAILS(ACL_ERROR_RT_NO_EVENT_RESOURCE, aclrtCreateEvent(&event));
    OK(aclrtDestroyEvent(event));
    OK(aclrtCreateEvent(&event));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    FAILS(ACL_ERROR_RT_NO_EVENT_RESOURCE, aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtMallocHost(&p, 8192));
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&p, 1));
    second = raw_session();
    fd = raw_connect();
    reply = say_hello(fd, PROTOCOL);
    ck_assert_int_eq(reply->error, ACL_ERROR_RT_OVER_LIMIT);
    ck_assert_ptr_nonnull(strstr(reply->message, "([limits] sessions)"));
    npud__reply__free_unpacked(reply, NULL);
    close(fd);
    close(second);
}
END_TEST

START_TEST(accept_survives_fd_exhaustion)
{
    struct rlimit small = {.rlim_cur = 40, .rlim_max = 40};
    int fd[64], n = 0;
    Npud__Reply *reply = NULL;
    uint64_t before;

    if (!need_one_server(__func__, "its context switches"))
        return;
    setrlimit(RLIMIT_NOFILE, &small); /* npud inherits it */
    npud_setup();
    before = context_switches(npud.pid);
    for (n = 0; n < 30; n++) {
        fd[n] = raw_connect();
        reply = say_hello(fd[n], PROTOCOL);
        if (reply->error != 0)
            break;
        npud__reply__free_unpacked(reply, NULL);
    }
    ck_assert_int_lt(n, 30);
    ck_assert_int_eq(reply->error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    ck_assert_ptr_nonnull(strstr(reply->message, "descriptors"));
    npud__reply__free_unpacked(reply, NULL);
    /* Connections alone take what is too little for a session. An administrator is answered all the
     * same, again and again, ... */
    while (n < 29)
        fd[++n] = raw_connect();
    for (int i = 0; i < 3; i++)
        ck_assert_uint_gt(npud_ledger().sessions, 0);
    /* ... npud does not spin on the listener meanwhile, ... */
    ck_assert_uint_lt(context_switches(npud.pid) - before, 1000);
    for (int i = 0; i <= n; i++)
        close(fd[i]);
    /* ... and takes clients again. */
    npud_expect_empty();
    close(raw_session());
}
END_TEST

/* --- fork --- */

static int use_session_of_parent(void *arg)
{
    aclrtEventRecordedStatus status;
    aclrtEvent event = arg;

    if (aclrtQueryEventStatus(event, &status) != ACL_ERROR_UNINITIALIZE ||
        aclrtRecordEvent(event, stream) != ACL_ERROR_UNINITIALIZE ||
        aclrtSynchronizeStream(stream) != ACL_ERROR_UNINITIALIZE ||
        aclrtSetDevice(0) != ACL_ERROR_UNINITIALIZE || !strstr(aclGetRecentErrMsg(), "fork"))
        return 1;
    /* With aclInit the child is a client of its own. */
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0 ||
        aclrtSynchronizeDevice() != 0)
        return 2;
    return aclrtQueryEventStatus(event, &status) == ACL_ERROR_RT_INVALID_HANDLE ? 0 : 3;
}

START_TEST(forked_child_gets_a_clear_error)
{
    aclrtEvent event;

    open_device();
    OK(aclrtCreateEvent(&event));
    OK(aclrtRecordEvent(event, stream));
    child_expect_ok(child_start(use_session_of_parent, event));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtSynchronizeEvent(event));
}
END_TEST

/* --- a ring full of garbage --- */

/* The arena is mapped in this process: find the stream segment by its name and scribble on it. */
static void scribble_on_arena(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned seed = 42;

    while (fgets(line, sizeof(line), f)) {
        unsigned long from, to;

        if (!strstr(line, "npud-arena") || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        for (unsigned long p = from; p < to; p += sizeof(int))
            *(volatile int *)p = rand_r(&seed);
    }
    fclose(f);
}

static int ruin_own_rings(void *arg)
{
    uint64_t one = 1;

    (void)arg;
    open_device();
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    scribble_on_arena();
    /* Ring the doorbells, so that npud looks at it. */
    for (int fd = 3; fd < 64; fd++) {
        char path[64], target[64];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0 && (target[n] = '\0', strstr(target, "eventfd")))
            ck_assert_int_eq(write(fd, &one, sizeof(one)), sizeof(one));
    }
    turn_tell(&ready);
    pause();
    return 0;
}

START_TEST(garbage_in_an_arena_hurts_its_session_only)
{
    pid_t pid;

    turn_init(&ready);
    pid = child_start(ruin_own_rings, NULL);
    turn_await(&ready);
    open_device();
    for (int i = 0; i < 1000; i++) {
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
    }
    child_kill(pid);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("robustness");
    TCase *running = suite_case(s, "npud with defaults", 60, npud_setup, npud_teardown);
    TCase *own = suite_case(s, "npud as the test wants it", 60, NULL, npud_teardown);

    tcase_add_test(running, alarm_ends_only_the_child_that_hangs);
    tcase_add_test(running, death_returns_everything);
    tcase_add_test(running, death_wakes_who_waits_for_its_record);
    tcase_add_test(running, exported_event_outlives_its_handle_but_not_its_exporter);
    tcase_add_loop_test(running, npud_end_ends_every_blocked_call, 0, 2);
    tcase_add_loop_test(running, npud_end_blames_no_process, 0, 2);
    tcase_add_test(running, malformed_packets_end_that_session_only);
    tcase_add_loop_test(running, protocol_mismatch_is_explained, 0, 2);
    tcase_add_test(running, who_does_not_read_is_ended);
    tcase_add_test(running, forked_child_gets_a_clear_error);
    tcase_add_test(running, garbage_in_an_arena_hurts_its_session_only);
    tcase_add_test(own, limits_are_named_errors);
    tcase_add_test(own, accept_survives_fd_exhaustion);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
