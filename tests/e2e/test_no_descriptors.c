/*
 * Calls whose answer carries descriptors, in a process that has none left: they fail, leave nothing
 * in npud, and work when there are descriptors again. Each failed acltdtCreateQueue() used to leave
 * a queue that no program knew of, and so did the others with their objects.
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

#define ROUNDS 20

/* --- descriptors --- */

static struct rlimit normal;

/* Leave room for so many descriptors: all numbers below the limit are in use. */
static void leave_descriptors(unsigned n)
{
    struct rlimit tight;
    int fds[4], count = 0;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &normal), 0);
    tight = normal;
    ck_assert_uint_lt(n, sizeof(fds) / sizeof(fds[0]));
    for (unsigned i = 0; i <= n; i++) {
        fds[i] = dup(STDERR_FILENO);
        ck_assert_int_ge(fds[i], 0);
        tight.rlim_cur = (rlim_t)fds[i];
        count++;
    }
    while (count-- > 0)
        close(fds[count]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
}

static void as_before(void)
{
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &normal), 0);
}

/* --- what npud has --- */

static uint32_t npud_queues(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__QUEUES);
    uint32_t n = (uint32_t)report->n_queues;

    npud__report__free_unpacked(report, NULL);
    return n;
}

static void expect_ledger(const struct ledger *l, uint32_t queues)
{
    struct ledger now = npud_ledger();

    ck_assert_uint_eq(now.streams, l->streams);
    ck_assert_uint_eq(now.events, l->events);
    ck_assert_uint_eq(now.lingering, l->lingering);
    ck_assert_uint_eq(now.memory, l->memory);
    ck_assert_uint_eq(now.buffers, l->buffers);
    /*
     * Of the arena, npud keeps the newest segment of each kind until it knows that it has arrived.
     */
    ck_assert_uint_le(now.fds, l->fds + 2);
    ck_assert_uint_eq(npud_queues(), queues);
}

/* --- calls --- */

static union {
    aclrtStream stream;
    aclrtEvent event;
    void *memory;
    uint32_t queue;
} made;

static aclrtIpcEventHandle exported;

static aclError make_stream(void)
{
    return aclrtCreateStream(&made.stream);
}

static aclError end_stream(void)
{
    return aclrtDestroyStream(made.stream);
}

static aclError make_event(void)
{
    return aclrtCreateEvent(&made.event);
}

static aclError make_ipc_event(void)
{
    return aclrtCreateEventExWithFlag(&made.event, ACL_EVENT_IPC);
}

static aclError open_ipc_event(void)
{
    return aclrtIpcOpenEventHandle(exported, &made.event);
}

static aclError end_event(void)
{
    return aclrtDestroyEvent(made.event);
}

static aclError make_memory(void)
{
    return aclrtMalloc(&made.memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclError end_memory(void)
{
    return aclrtFree(made.memory);
}

static aclError make_host_memory(void)
{
    return aclrtMallocHost(&made.memory, 4096);
}

static aclError end_host_memory(void)
{
    return aclrtFreeHost(made.memory);
}

static aclError make_queue(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    aclError error = acltdtCreateQueue(attr, &made.queue);

    OK(acltdtDestroyQueueAttr(attr));
    return error;
}

static aclError end_queue(void)
{
    return acltdtDestroyQueue(made.queue);
}

static const struct kind {
    aclError (*make)(void), (*end)(void);
    unsigned descriptors; /* that the answer carries */
} kinds[] = {
    {make_stream, end_stream, 1},   {make_event, end_event, 1},
    {make_ipc_event, end_event, 1}, {open_ipc_event, end_event, 1},
    {make_memory, end_memory, 1},   {make_host_memory, end_host_memory, 1},
    {make_queue, end_queue, 2},
};

/*
 * A call that needs no descriptor after all succeeds: the arena has room for the stream or event.
 */
static bool make_without(const struct kind *kind, unsigned room)
{
    aclError error;

    leave_descriptors(room);
    error = kind->make();
    as_before();
    if (error == 0)
        OK(kind->end());
    else
        ck_assert_int_eq(error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    return error != 0;
}

START_TEST(nothing_is_left_behind)
{
    const struct kind *kind = &kinds[_i];
    struct ledger before;
    aclrtEvent event;
    uint32_t queues;
    unsigned failed = 0;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &exported));
    before = npud_ledger();
    queues = npud_queues();
    for (unsigned room = 0; room < kind->descriptors; room++)
        for (int i = 0; i < ROUNDS; i++)
            failed += make_without(kind, room);
    /* Streams: the default one has brought the first segment. Strict memory comes without one. */
    ck_assert(failed > 0 || kind->make == make_stream ||
              (kind->make == make_memory && npud_is_strict()));
    expect_ledger(&before, queues);
    OK(kind->make());
    OK(kind->end());
    expect_ledger(&before, queues);
    OK(aclrtDestroyEvent(event));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* The segment of the arena that came in vain comes once more, with the next stream in it. */
START_TEST(streams_beyond_a_segment)
{
    enum { N = 40 };
    aclrtStream stream[N];
    struct ledger before;
    unsigned failed = 0;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    before = npud_ledger();
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 3; j++)
            failed += make_without(&kinds[0], 0);
        OK(aclrtCreateStream(&stream[i]));
        OK(aclrtSynchronizeStream(stream[i]));
    }
    ck_assert_uint_ge(failed, 6);
    for (int i = 0; i < N; i++)
        OK(aclrtDestroyStream(stream[i]));
    expect_ledger(&before, npud_queues());
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* Two sessions share a buffer; the one without descriptors can neither attach nor map it. */
static uint32_t shared_queue;
static struct turn turns[2];

static int attach_in_child(void *arg)
{
    uint32_t rights = 0;
    acltdtBuf buf;

    (void)arg;
    turn_await(&turns[0]);
    OK(aclInit(NULL));
    ck_assert_int_eq(read(turns[1].fd[0], &shared_queue, sizeof(shared_queue)),
                     sizeof(shared_queue));
    for (int i = 0; i < 3; i++) {
        leave_descriptors(i < 2 ? (unsigned)i : 0);
        ck_assert_int_ne(acltdtAttachQueue(shared_queue, 0, &rights), 0);
        as_before();
    }
    OK(acltdtAttachQueue(shared_queue, 0, &rights));
    ck_assert_uint_eq(rights, ACL_TDT_QUEUE_PERMISSION_DEQUEUE);
    leave_descriptors(0);
    for (int i = 0; i < 3; i++)
        FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, acltdtDequeue(shared_queue, &buf, 0));
    as_before();
    OK(acltdtDequeue(shared_queue, &buf, 0));
    OK(acltdtFreeBuf(buf));
    OK(aclFinalize());
    return 0;
}

START_TEST(shared_by_others)
{
    pid_t pid;
    acltdtBuf buf;

    turn_init(&turns[0]);
    turn_init(&turns[1]);
    pid = child_start(attach_in_child, NULL);
    OK(aclInit(NULL));
    OK(make_queue());
    leave_descriptors(0);
    for (int i = 0; i < ROUNDS; i++)
        FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    as_before();
    OK(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtSetBufDataLen(buf, 8));
    OK(acltdtEnqueue(made.queue, buf, 0));
    OK(acltdtGrantQueue(made.queue, pid, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    ck_assert_int_eq(write(turns[1].fd[1], &made.queue, sizeof(made.queue)), sizeof(made.queue));
    turn_tell(&turns[0]);
    child_expect_ok(pid);
    ck_assert_uint_eq(npud_buffers(), 0);
    OK(end_queue());
    ck_assert_uint_eq(npud_queues(), 0);
    OK(aclFinalize());
}
END_TEST

/* The first calls of a process, and the device. */
START_TEST(devices)
{
    OK(aclInit(NULL));
    for (int i = 0; i < ROUNDS; i++)
        for (unsigned room = 0; room < 2; room++) {
            aclError error;

            leave_descriptors(room);
            error = aclrtSetDevice(0);
            as_before();
            ck_assert_int_ne(error, 0);
        }
    npud_await_sessions(0);
    OK(aclrtSetDevice(0));
    leave_descriptors(0);
    ck_assert_int_ne(aclrtSetDevice(1), 0);
    as_before();
    OK(aclrtSetDevice(1));
    ck_assert_uint_eq(npud_ledger().sessions, 1);
    OK(aclrtResetDevice(1));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* --- npud has none left --- */

#define LARGE ((size_t)4 << 20) /* a buffer with a segment of its own: two descriptors of npud's */

/* Take all descriptors that npud has for us but one, maybe, with buffers, and free them. */
static void exhaust_and_free(void)
{
    acltdtBuf buf[100];
    unsigned n = 0;
    aclError error;

    while ((error = acltdtAllocBuf(LARGE, ACL_TDT_NORMAL_MEM, &buf[n])) == 0)
        ck_assert_uint_lt(++n, sizeof(buf) / sizeof(buf[0]));
    ck_assert_int_eq(error, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "descriptors"));
    ck_assert_uint_gt(n, 20);
    for (unsigned i = 0; i < n; i++)
        OK(acltdtFreeBuf(buf[i]));
}

static void make_and_end(const struct kind *kind)
{
    OK(kind->make());
    OK(kind->end());
}

/* The other process has taken all that there was, and has freed it. */
static void await_exhausted(void)
{
    turn_tell(&turns[0]);
    turn_await(&turns[1]);
}

#define KINDS    (sizeof(kinds) / sizeof(kinds[0]))
#define SESSIONS 2

/* Each of them while npud has nothing left but what is free: first in a session that is there. */
static int makes_all(void *arg)
{
    aclrtEvent event;

    (void)arg;
    session_open();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &exported));
    for (size_t i = 0; i < KINDS; i++) {
        await_exhausted();
        make_and_end(&kinds[i]);
    }
    session_close();
    for (int i = 0; i < SESSIONS; i++) {
        await_exhausted();
        session_open();
        make_and_end(&kinds[0]);
        session_close();
    }
    return 0;
}

/* Guards against programs that are refused a descriptor which only free buffers have. */
START_TEST(free_buffers_make_room)
{
    aclrtEvent event;
    pid_t pid;

    turn_init(&turns[0]);
    turn_init(&turns[1]);
    pid = child_start(makes_all, NULL);
    session_open();
    for (size_t i = 0; i < KINDS + SESSIONS; i++) {
        turn_await(&turns[0]);
        /* One is left, or none, where a connection takes two. */
        if (i > KINDS)
            OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
        exhaust_and_free();
        turn_tell(&turns[1]);
    }
    child_expect_ok(pid);
    session_close();
}
END_TEST

static void set_up_small(void)
{
    struct rlimit few = {.rlim_cur = 120, .rlim_max = 120};

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0); /* npud inherits it */
    npud_setup();
}

static void set_up_small_user(void)
{
    static const char *const args[] = {"--set=limits.fds=80", NULL};

    npud_start(args);
}

static void tear_down_test(void)
{
    npud_expect_empty();
    npud_teardown();
}

int main(void)
{
    Suite *suite = suite_create("no descriptors");
    TCase *c = suite_case(suite, "calls", 60, npud_setup, tear_down_test);

    tcase_add_loop_test(c, nothing_is_left_behind, 0, KINDS);
    tcase_add_test(c, streams_beyond_a_segment);
    tcase_add_test(c, shared_by_others);
    tcase_add_test(c, devices);
    c = suite_case(suite, "npud", 60, set_up_small, tear_down_test);
    tcase_add_test(c, free_buffers_make_room);
    c = suite_case(suite, "user", 60, set_up_small_user, tear_down_test);
    tcase_add_test(c, free_buffers_make_room);
    return run_suite(suite);
}
