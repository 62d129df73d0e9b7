/* What the data path must not do, and what it must stand: no requests, no polling, full rings, many
 * streams, several threads. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"

static aclrtStream stream, other;

static void open_device(void)
{
    streams_open(&stream, &other);
}

static void set_up_test(void)
{
    npud_setup();
    open_device();
}

static aclrtEvent make_event(uint32_t flag)
{
    aclrtEvent event;

    OK(aclrtCreateEventExWithFlag(&event, flag));
    return event;
}

/* From now on any message that this process sends or receives kills it. */
static void forbid_messages(void)
{
#define FORBID(nr)                                                                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1),                                               \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(SYS_sendmsg),
        FORBID(SYS_sendto),
        FORBID(SYS_recvmsg),
        FORBID(SYS_recvfrom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

static int use_data_path(void *arg)
{
    aclrtEventRecordedStatus status;
    aclrtStreamStatus stream_status;
    aclrtEvent c, ipc, level;
    void *device, *host;

    (void)arg;
    open_device();
    c = make_event(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    ipc = make_event(ACL_EVENT_IPC);
    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&host, 4096));
    forbid_messages();
    for (int i = 0; i < 2000; i++) {
        OK(aclrtStreamWaitEvent(stream, level));
        OK(aclrtRecordEvent(c, stream));
        OK(aclrtRecordEvent(ipc, stream));
        OK(aclrtMemcpyAsync(device, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        OK(aclrtStreamWaitEvent(other, ipc));
        OK(aclrtStreamWaitEvent(other, c));
        OK(aclnpudLaunchDelay(0, 0, other));
        OK(aclrtRecordEvent(level, NULL));
        OK(aclrtQueryEventStatus(ipc, &status));
        OK(aclrtStreamQuery(other, &stream_status));
        OK(aclrtSynchronizeEvent(ipc));
        OK(aclrtSynchronizeStream(other));
        OK(aclrtSynchronizeDevice());
        OK(aclrtResetEvent(level, stream));
        OK(aclrtSynchronizeStream(stream));
    }
    return 0;
}

START_TEST(no_requests)
{
    child_expect_ok(child_start(use_data_path, NULL));
    npud_expect_empty();
}
END_TEST

#ifndef __SANITIZE_THREAD__ /* its runtime has a thread of its own that wakes */
/* A guard timer without sleeping: wait on a timerfd. */
static void let_time_pass(int ms)
{
    struct itimerspec spec = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    uint64_t n;

    timerfd_settime(fd, 0, &spec, NULL);
    ck_assert_int_eq(read(fd, &n, sizeof(n)), sizeof(n));
    close(fd);
}

START_TEST(idle_npud_never_wakes)
{
    uint64_t before;

    if (!need_one_server(__func__, "its context switches"))
        return;
    OK(aclnpudLaunchDelay(10, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    stream_hold(other); /* a parked stream costs nothing either */
    /*
     * The engine spins a moment after its last task, and what the heap has free goes back within a
     * second (daemon/base/heap.h): idle is when the count does not change for longer than that, and
     * no thread waits for a CPU, as it does for long on a busy machine.
     */
    do {
        before = context_switches(npud.pid);
        let_time_pass(1500);
    } while (!proc_sleeps(npud.pid) || context_switches(npud.pid) != before);
    let_time_pass(getenv("NPUD_TEST_LONG") ? 10000 : 2000);
    ck_assert_uint_eq(context_switches(npud.pid), before);
}
END_TEST
#endif

START_TEST(sleeping_in_synchronize_costs_no_cpu)
{
    struct rusage before, after;

    OK(aclnpudLaunchDelay(300000, 0, stream));
    getrusage(RUSAGE_THREAD, &before);
    OK(aclrtSynchronizeStream(stream));
    getrusage(RUSAGE_THREAD, &after);
    ck_assert_int_le(after.ru_nvcsw - before.ru_nvcsw, 10);
    ck_assert_int_lt((after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                         after.ru_utime.tv_usec - before.ru_utime.tv_usec,
                     20000);
}
END_TEST

static void *open_later(void *gate)
{
    aclrtStreamStatus status;

    OK(aclrtSetDevice(0));
    /* The submitter is stuck when it has filled the ring: then done can only stand still. */
    do
        OK(aclrtStreamQuery(stream, &status));
    while (status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtRecordEvent(gate, NULL));
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(full_ring_makes_the_submitter_wait)
{
    aclrtEvent gate = stream_hold(stream), done;
    pthread_t thread;

    pthread_create(&thread, NULL, open_later, gate);
    for (int i = 0; i < 5000; i++)
        OK(aclnpudLaunchDelay(0, 0, stream));
    done = make_event(ACL_EVENT_SYNC);
    OK(aclrtRecordEvent(done, stream));
    OK(aclrtSynchronizeEvent(done));
    pthread_join(thread, NULL);
}
END_TEST

static void *fill_gated_stream(void *arg)
{
    OK(aclrtSetDevice(0));
    for (int i = 0; i < 3000; i++)
        OK(aclrtStreamWaitEvent(stream, arg));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtResetDevice(0));
    return NULL;
}

/* The submitter that waits for room uses the very event whose record makes the room. */
START_TEST(full_ring_does_not_keep_out_the_record_that_empties_it)
{
    aclrtEvent gate;
    pthread_t thread;
    aclrtStreamStatus status;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    pthread_create(&thread, NULL, fill_gated_stream, gate);
    do
        OK(aclrtStreamQuery(stream, &status));
    while (status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtRecordEvent(gate, other));
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(ipc_window_full_makes_the_recorder_wait)
{
    aclrtEvent gate = stream_hold(stream), ipc = make_event(ACL_EVENT_IPC);
    aclrtEventRecordedStatus status;
    pthread_t thread;

    /* 600 on each of two streams is more than IPC_SLOTS. */
    for (int i = 0; i < 600; i++)
        OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtStreamWaitEvent(other, gate));
    pthread_create(&thread, NULL, open_later, gate);
    for (int i = 0; i < 600; i++)
        OK(aclrtRecordEvent(ipc, other));
    OK(aclrtSynchronizeEvent(ipc));
    OK(aclrtQueryEventStatus(ipc, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(thousand_streams)
{
    enum { N = 1000 };
    static aclrtStream streams[N];
    aclrtEvent gate, last = make_event(ACL_EVENT_SYNC);
    aclrtEventRecordedStatus status;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    for (int i = 0; i < N; i++)
        OK(aclrtCreateStream(&streams[i]));
    /* A chain: each stream waits for the one before. */
    OK(aclrtStreamWaitEvent(streams[0], gate));
    for (int i = 0; i < N; i++) {
        if (i > 0)
            OK(aclrtStreamWaitEvent(streams[i], last));
        OK(aclnpudLaunchDelay(0, 0, streams[i]));
        OK(aclrtRecordEvent(last, streams[i]));
    }
    OK(aclrtQueryEventStatus(last, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtRecordEvent(gate, stream));
    OK(aclrtSynchronizeEvent(last));
    OK(aclrtSynchronizeDevice());
    for (int i = 0; i < N; i++)
        OK(aclrtDestroyStream(streams[i]));
}
END_TEST

#define PER_THREAD 20000

static void *submit_many(void *arg)
{
    aclrtEvent event;

    (void)arg;
    OK(aclrtSetDevice(0));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    for (int i = 0; i < PER_THREAD; i++) {
        OK(aclnpudLaunchDelay(0, 0, stream));
        if (i % 100 == 0) {
            OK(aclrtRecordEvent(event, stream));
            OK(aclrtSynchronizeEvent(event));
        }
    }
    OK(aclrtDestroyEvent(event));
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(two_threads_submit_to_one_stream)
{
    pthread_t thread[2];

    OK(aclrtSetDevice(0)); /* our own binding must outlive theirs */
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, submit_many, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* Everything again with one CPU: nothing may need a second one to make progress. */
START_TEST(one_cpu)
{
    static const char *const args[] = {"--set=engine.spin_us=50", NULL};
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(0, &set);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    npud_start(args);
    child_expect_ok(child_start(use_data_path, NULL));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("data path");
    TCase *session = suite_case(s, "with a session", 60, set_up_test, npud_teardown);
    TCase *bare = suite_case(s, "npud only", 60, NULL, npud_teardown);
    TCase *child = suite_case(s, "children", 60, npud_setup, npud_teardown);

#ifndef __SANITIZE_THREAD__
    tcase_add_test(session, idle_npud_never_wakes);
#endif
    tcase_add_test(session, sleeping_in_synchronize_costs_no_cpu);
    tcase_add_test(session, full_ring_makes_the_submitter_wait);
    tcase_add_test(session, full_ring_does_not_keep_out_the_record_that_empties_it);
    tcase_add_test(session, ipc_window_full_makes_the_recorder_wait);
    tcase_add_test(session, thousand_streams);
    tcase_add_test(session, two_threads_submit_to_one_stream);
    tcase_add_test(bare, one_cpu);
    tcase_add_test(child, no_requests);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
