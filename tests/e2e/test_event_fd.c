/*
 * aclnpudEventNotifyFd(): an eventfd of the program is written, once, when the record that was the
 * latest at the call is complete or has failed. What is not to happen is asked for after something
 * that comes later has happened: npud tells of records in the order in which it learns of them, and
 * a thread of the library writes all that npud has told of before it sleeps.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "gate.h"
#include "proto/shm/doorbell.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"

static aclrtStream work, other;

/* An eventfd that another process fills once the library has found it writable. 0: none */
static _Atomic int to_fill;

/* In place of the one of libc, also in the library. */
int poll(struct pollfd *fds, nfds_t n, int ms)
{
    struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
    int r = (int)syscall(SYS_ppoll, fds, n, ms < 0 ? NULL : &timeout, NULL, 0), fill;

    if (r == 1 && n == 1 && fds->revents == POLLOUT && (fill = atomic_exchange(&to_fill, 0)) > 0)
        ck_assert_int_eq(eventfd_write(fill, UINT64_MAX - 1), 0);
    return r;
}

static void set_up_test(void)
{
    npud_setup();
    streams_open(&work, &other);
}

static void tear_down_test(void)
{
    if (npud.pid)
        OK(aclFinalize());
    npud_teardown();
}

static int new_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    return fd;
}

static bool poll_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

/* It comes, and it is one. */
static void expect_written(int fd)
{
    eventfd_t count = 0;

    ck_assert_msg(poll_readable(fd, LIMIT_MS), "the descriptor was not written");
    ck_assert_int_eq(eventfd_read(fd, &count), 0);
    ck_assert_uint_eq(count, 1);
}

/*
 * npud and the library's thread have done all that they had to: what other descriptors are told of
 * now comes after it. Twice, because the thread may have looked at other bits before the first.
 */
static void await_npud(void)
{
    aclrtStream stream;
    aclrtEvent e;
    int fd = new_fd();

    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&e));
    for (int i = 0; i < 2; i++) {
        OK(aclnpudLaunchDelay(200, 0, stream));
        OK(aclrtRecordEvent(e, stream));
        OK(aclnpudEventNotifyFd(e, fd));
        expect_written(fd);
    }
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(stream));
    close(fd);
}

static void expect_quiet(int fd)
{
    await_npud();
    ck_assert_msg(!poll_readable(fd, 0), "the descriptor was written too early, or twice");
}

/* --- every kind, every state --- */

static aclrtEvent create_kind(int i)
{
    aclrtEvent e = NULL;

    switch (i) {
    case 0:
        OK(aclrtCreateEvent(&e));
        break;
    case 1:
        OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
        break;
    case 2:
        OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
        break;
    case 3:
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
        break;
    case 4:
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_TIME_LINE));
        break;
    default:
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
        break;
    }
    return e;
}
#define KINDS 6

START_TEST(written_when_the_record_completes)
{
    aclrtEvent e = create_kind(_i), gate;
    int fd = new_fd(), late = new_fd();
    aclrtEventRecordedStatus status;

    /* Nothing recorded: at once. */
    OK(aclnpudEventNotifyFd(e, fd));
    expect_written(fd);
    gate = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    expect_quiet(fd);
    stream_let_go(gate);
    expect_written(fd);
    OK(aclrtQueryEventStatus(e, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    /* Complete: at once. */
    OK(aclnpudEventNotifyFd(e, late));
    expect_written(late);
    expect_quiet(fd);
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(e));
    close(fd);
    close(late);
}
END_TEST

START_TEST(a_later_record_changes_nothing)
{
    aclrtEvent e = create_kind(_i), first, second;
    int fd = new_fd(), next = new_fd();

    first = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    /* Recorded anew, in a stream that stands still and in one that gets there before. */
    second = stream_hold(other);
    OK(aclrtRecordEvent(e, other));
    OK(aclnpudEventNotifyFd(e, next));
    stream_let_go(second);
    expect_written(next);
    expect_quiet(fd);
    stream_let_go(first);
    expect_written(fd);
    OK(aclrtSynchronizeStream(work));
    OK(aclrtRecordEvent(e, work));
    OK(aclrtSynchronizeEvent(e));
    expect_quiet(fd);
    expect_quiet(next);
    OK(aclrtDestroyEvent(e));
    close(fd);
    close(next);
}
END_TEST

START_TEST(event_destroyed_before)
{
    aclrtEvent e = create_kind(_i), gate;
    int fd = new_fd();

    gate = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    OK(aclrtDestroyEvent(e));
    expect_quiet(fd);
    stream_let_go(gate);
    expect_written(fd);
    expect_quiet(fd);
    OK(aclrtSynchronizeStream(work));
    OK(aclrtDestroyEvent(gate));
    close(fd);
    ck_assert_uint_eq(npud_ledger().events, 0);
}
END_TEST

START_TEST(stream_destroyed_before)
{
    aclrtEvent e = create_kind(_i), gate;
    int fd = new_fd();

    gate = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    expect_quiet(fd);
    OK(aclrtDestroyStreamForce(work));
    expect_written(fd);
    expect_quiet(fd);
    if (_i == KINDS - 1) {
        aclrtEventRecordedStatus status;

        FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtQueryEventStatus(e, &status));
    }
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(gate));
    close(fd);
}
END_TEST

START_TEST(a_failed_task_is_a_task_done)
{
    aclrtEvent e, gate = stream_hold(work);
    int fd = new_fd();

    OK(aclrtCreateEvent(&e));
    OK(aclnpudLaunchDelay(10, ACL_ERROR_RT_AICORE_EXCEPTION, work));
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    expect_quiet(fd);
    stream_let_go(gate);
    expect_written(fd);
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(work));
    close(fd);
}
END_TEST

/* One descriptor for many records: it counts them. */
START_TEST(one_descriptor_counts_many)
{
    aclrtEvent e[50], gate = stream_hold(work);
    int fd = new_fd();
    eventfd_t count, sum = 0;

    for (int i = 0; i < 50; i++) {
        e[i] = create_kind(i % KINDS);
        OK(aclrtRecordEvent(e[i], work));
        OK(aclnpudEventNotifyFd(e[i], fd));
    }
    expect_quiet(fd);
    stream_let_go(gate);
    while (sum < 50) {
        ck_assert(poll_readable(fd, LIMIT_MS));
        ck_assert_int_eq(eventfd_read(fd, &count), 0);
        sum += count;
    }
    expect_quiet(fd);
    ck_assert_uint_eq(sum, 50);
    for (int i = 0; i < 50; i++)
        OK(aclrtDestroyEvent(e[i]));
    close(fd);
}
END_TEST

/* --- refusals --- */

START_TEST(refused)
{
    aclrtEvent e, external;
    struct rlimit limit, tight;
    int fd = new_fd(), pipe_fd[2], file = open("/dev/null", O_RDWR), pair[2], epoll, timer;

    OK(aclrtCreateEvent(&e));
    OK(aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclnpudEventNotifyFd(NULL, fd));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclnpudEventNotifyFd(work, fd));
    FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclnpudEventNotifyFd(external, fd));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, -1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, 100000));
    ck_assert_int_eq(pipe(pipe_fd), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    epoll = epoll_create1(0);
    timer = timerfd_create(CLOCK_MONOTONIC, 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, pipe_fd[1]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, pipe_fd[0]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, pair[0]));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, file));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, epoll));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, timer));
    ck_assert(!poll_readable(pipe_fd[0], 0));
    close(file);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclnpudEventNotifyFd(e, file));
    /* No descriptor left in this process for the library's copy. */
    getrlimit(RLIMIT_NOFILE, &limit);
    tight = limit;
    tight.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &tight);
    FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclnpudEventNotifyFd(e, fd));
    setrlimit(RLIMIT_NOFILE, &limit);
    OK(aclnpudEventNotifyFd(e, fd));
    expect_written(fd);
    OK(aclrtDestroyEvent(e));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclnpudEventNotifyFd(e, fd));
    expect_quiet(fd);
    close(fd);
}
END_TEST

/*
 * npud keeps the descriptor of a new segment until the next request says that its reply has
 * arrived.
 */
static void let_replies_arrive(void)
{
    aclrtEvent e;

    OK(aclrtCreateEvent(&e));
    OK(aclrtDestroyEvent(e));
}

/*
 * The edge of what one process may have; then all of them are written, and their places free. npud
 * has no descriptor for any of them.
 */
START_TEST(as_many_as_there_may_be)
{
    aclrtEvent e, gate;
    int fd;
    uint32_t before;
    eventfd_t count, sum = 0;

    if (!need_own_fds(__func__, EVENT_FDS_MAX + 64))
        return;
    gate = stream_hold(work);
    fd = new_fd();
    let_replies_arrive();
    before = npud_ledger().fds;

    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    for (unsigned i = 0; i < EVENT_FDS_MAX; i++)
        OK(aclnpudEventNotifyFd(e, fd));
    ck_assert_uint_eq(npud_ledger().fds, before);
    FAILS(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, aclnpudEventNotifyFd(e, fd));
    ck_assert(!poll_readable(fd, 0));
    stream_let_go(gate);
    while (sum < EVENT_FDS_MAX) {
        ck_assert(poll_readable(fd, LIMIT_MS));
        ck_assert_int_eq(eventfd_read(fd, &count), 0);
        sum += count;
    }
    expect_quiet(fd);
    ck_assert_uint_eq(sum, EVENT_FDS_MAX);
    for (unsigned i = 0; i < EVENT_FDS_MAX; i++)
        OK(aclnpudEventNotifyFd(e, fd));
    OK(aclrtDestroyEvent(e));
    close(fd);
}
END_TEST

static void setup_few(void)
{
    static const char *const args[] = {"--set=limits.fds=20", NULL};

    npud_start(args);
    streams_open(&work, &other);
}

/* Neither of the user, nor of npud itself: it has none left, and takes none. */
START_TEST(no_descriptors_of_npud)
{
    aclrtEvent e, gate = stream_hold(work);
    struct rlimit limit, tight;
    int fd = new_fd();

    if (!need_one_server(__func__, "its limit of descriptors"))
        return;
    eventfd_t count, sum = 0;

    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    ck_assert_int_eq(prlimit(npud.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    tight = limit;
    tight.rlim_cur = 5;
    ck_assert_int_eq(prlimit(npud.pid, RLIMIT_NOFILE, &tight, NULL), 0);
    for (int i = 0; i < 100; i++)
        OK(aclnpudEventNotifyFd(e, fd));
    ck_assert_int_eq(prlimit(npud.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    stream_let_go(gate);
    while (sum < 100) {
        ck_assert(poll_readable(fd, LIMIT_MS));
        ck_assert_int_eq(eventfd_read(fd, &count), 0);
        sum += count;
    }
    close(fd);
}
END_TEST

/* The library has its own copy: what the program opens in the place of its own is not written. */
START_TEST(a_number_that_is_used_again)
{
    aclrtEvent e, gate = stream_hold(work);
    int fd = new_fd(), kept = dup(fd), another = new_fd();

    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    ck_assert_int_eq(dup2(another, fd), fd);
    stream_let_go(gate);
    expect_written(kept);
    expect_quiet(fd);
    close(kept);
    close(another);
    close(fd);
}
END_TEST

/* Threads of the library that write descriptors: the sanitizers have threads of their own. */
static unsigned count_writers(void)
{
    unsigned n = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");

    ck_assert_ptr_nonnull(tasks);
    while ((entry = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        n += fgets(name, sizeof(name), f) && strcmp(name, "npud-eventfd\n") == 0;
        fclose(f);
    }
    closedir(tasks);
    return n;
}

/* The copies and the thread go with the session, and a second session has its own. */
START_TEST(nothing_stays_behind)
{
    unsigned fds = 0;

    npud_setup();
    for (int i = 0; i < 3; i++) {
        aclrtEvent e;
        int fd = new_fd();

        streams_open(&work, &other);
        OK(aclrtCreateEvent(&e));
        OK(aclnpudEventNotifyFd(e, fd));
        expect_written(fd);
        await_npud();
        ck_assert_uint_eq(count_writers(), 1);
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        close(fd);
        if (i == 0) /* npud_setup() keeps some */
            fds = proc_usage(getpid()).fds;
        ck_assert_uint_eq(proc_usage(getpid()).fds, fds);
        /* A thread that was joined is there for a moment. */
        EVENTUALLY(count_writers() == 0, "%u threads are left", count_writers());
    }
}
END_TEST

/* --- what becomes of npud with a counter that is full --- */

/* Writing to it would block, and O_NONBLOCK is not even set. */
START_TEST(full_counter_stops_nobody)
{
    aclrtEvent e, gate = stream_hold(work);
    int full = new_fd(), fd = new_fd();
    aclrtStream third;

    ck_assert_int_eq(eventfd_write(full, UINT64_MAX - 1), 0);
    OK(aclrtCreateStream(&third));
    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, full));
    OK(aclnpudEventNotifyFd(e, fd));
    stream_let_go(gate);
    expect_written(fd);
    OK(aclnpudEventNotifyFd(e, full));
    OK(aclnpudEventNotifyFd(e, fd));
    expect_written(fd);
    OK(aclnpudLaunchDelay(1, 0, third));
    OK(aclrtSynchronizeStreamWithTimeout(third, LIMIT_MS));
    OK(aclrtDestroyEvent(e));
    close(full);
    close(fd);
}
END_TEST

/* May a program have operations done asynchronously by this kernel? */
static bool need_aio(const char *test)
{
    unsigned long context = 0;

    if (syscall(SYS_io_setup, 1L, &context) != 0)
        return need_lacks(test, "io_setup(2)");
    syscall(SYS_io_destroy, context);
    return true;
}

/*
 * Filled by another process at the very moment when the library writes it, and it is a blocking
 * one: the library's thread does not wait for a reader of it.
 */
START_TEST(counter_that_fills_stops_nobody)
{
    aclrtEvent e, gate;
    int full = new_fd(), fd = new_fd();

    if (!need_aio(__func__))
        return;
    gate = stream_hold(work);
    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, full));
    OK(aclnpudEventNotifyFd(e, fd));
    atomic_store(&to_fill, full);
    stream_let_go(gate);
    expect_written(fd);
    ck_assert_int_eq(atomic_load(&to_fill), 0);
    ck_assert(poll_readable(full, 0));
    OK(aclrtDestroyEvent(gate));
    OK(aclrtDestroyEvent(e));
    close(full);
    close(fd);
}
END_TEST

START_TEST(semaphore_and_closed_descriptors)
{
    aclrtEvent e, gate = stream_hold(work);
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), gone = new_fd();
    uint32_t before;
    eventfd_t count;

    let_replies_arrive();
    before = npud_ledger().fds;
    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    OK(aclnpudEventNotifyFd(e, fd));
    OK(aclnpudEventNotifyFd(e, gone));
    close(gone);
    stream_let_go(gate);
    for (int i = 0; i < 2; i++) {
        ck_assert(poll_readable(fd, LIMIT_MS));
        ck_assert_int_eq(eventfd_read(fd, &count), 0);
        ck_assert_uint_eq(count, 1);
    }
    npud_await_fds(before);
    ck_assert_int_eq(eventfd_read(fd, &count), -1);
    OK(aclrtDestroyEvent(e));
    close(fd);
}
END_TEST

/* --- several threads --- */

#define ROUNDS  300
#define THREADS 4

static void *notify_often(void *arg)
{
    aclrtContext context = arg;
    aclrtStream stream;
    aclrtEvent e[2];
    int fd = new_fd();

    OK(aclrtSetCurrentContext(context));
    OK(aclrtCreateStream(&stream));
    e[0] = create_kind(0);
    e[1] = create_kind(KINDS - 1);
    for (int i = 0; i < ROUNDS; i++) {
        OK(aclnpudLaunchDelay((uint64_t)(i % 30), 0, stream));
        OK(aclrtRecordEvent(e[i % 2], stream));
        OK(aclnpudEventNotifyFd(e[i % 2], fd));
        expect_written(fd);
    }
    OK(aclrtDestroyEvent(e[0]));
    OK(aclrtDestroyEvent(e[1]));
    OK(aclrtDestroyStream(stream));
    close(fd);
    return NULL;
}

/* Records that complete while the request is under way: none is missed, none told twice. */
START_TEST(threads_at_the_edge)
{
    pthread_t t[THREADS];
    aclrtContext context;

    OK(aclrtGetCurrentContext(&context));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, notify_often, context), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    await_npud();
}
END_TEST

/* --- ends --- */

static int link_fd[2];

static void begin_two(void)
{
    npud_setup();
    turns_init();
    ck_assert_int_eq(pipe(link_fd), 0);
}

static int record_in_child(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;

    (void)arg;
    streams_open(&work, &other);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, &handle));
    stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    ck_assert_int_eq(write(link_fd[1], &handle, sizeof(handle)), sizeof(handle));
    turn_await(&to_child);
    return 0;
}

/*
 * If the recording process is killed, the record fails: the descriptor is written, and the query
 * names the dead process.
 */
START_TEST(recorder_killed)
{
    aclrtIpcEventHandle handle;
    aclrtEventRecordedStatus status;
    aclrtEvent e;
    pid_t child;
    int fd = new_fd();

    begin_two();
    child = child_start(record_in_child, NULL);
    ck_assert_int_eq(read(link_fd[0], &handle, sizeof(handle)), sizeof(handle));
    streams_open(&work, &other);
    OK(aclrtIpcOpenEventHandle(handle, &e));
    OK(aclnpudEventNotifyFd(e, fd));
    expect_quiet(fd);
    if (_i == 1) /* closed before, too */
        OK(aclrtDestroyEvent(e));
    child_kill(child);
    expect_written(fd);
    expect_quiet(fd);
    if (_i == 0) {
        FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtQueryEventStatus(e, &status));
        OK(aclrtDestroyEvent(e));
    }
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
    close(fd);
}
END_TEST

static int wait_in_child(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e, mine;
    int fd = *(int *)arg;

    ck_assert_int_eq(read(link_fd[0], &handle, sizeof(handle)), sizeof(handle));
    streams_open(&work, &other);
    OK(aclrtIpcOpenEventHandle(handle, &e));
    OK(aclrtCreateEvent(&mine));
    stream_hold(work);
    OK(aclrtRecordEvent(mine, work));
    for (int i = 0; i < 10; i++) {
        OK(aclnpudEventNotifyFd(e, fd));
        OK(aclnpudEventNotifyFd(mine, fd));
    }
    turn_tell(&to_parent);
    turn_await(&to_child); /* in vain: it is killed */
    return 1;
}

/* If the process with the descriptor is killed, npud drops its requests and writes nothing. */
START_TEST(process_killed)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    aclrtIpcEventHandle handle;
    struct ledger before;
    aclrtEvent e, gate;
    pid_t child;

    begin_two();
    child = child_start(wait_in_child, &fd);
    streams_open(&work, &other);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, &handle));
    gate = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    let_replies_arrive();
    before = npud_ledger();
    ck_assert_int_eq(write(link_fd[1], &handle, sizeof(handle)), sizeof(handle));
    turn_await(&to_parent);
    child_kill(child);
    npud_await_sessions(1);
    stream_let_go(gate);
    OK(aclrtSynchronizeEvent(e));
    expect_quiet(fd);
    npud_await_fds(before.fds);
    ck_assert_uint_eq(npud_ledger().events, before.events);
    OK(aclrtDestroyEvent(e));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
    close(fd);
}
END_TEST

/*
 * A program that waits in a loop of its own wakes up when npud dies: the library writes the
 * descriptor in npud's place.
 */
START_TEST(npud_killed)
{
    aclrtEvent e[3];
    int fd[3], told = new_fd();

    for (int i = 0; i < 3; i++) {
        e[i] = create_kind(i * 2 + 1);
        fd[i] = new_fd();
    }
    OK(aclnpudEventNotifyFd(e[0], told));
    expect_written(told);
    stream_hold(work);
    for (int i = 0; i < 3; i++) {
        OK(aclrtRecordEvent(e[i], work));
        OK(aclnpudEventNotifyFd(e[i], fd[i]));
    }
    await_npud();
    npud_kill();
    for (int i = 0; i < 3; i++) {
        expect_written(fd[i]);
        FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclnpudEventNotifyFd(e[i], fd[i]));
        ck_assert(!poll_readable(fd[i], 0));
    }
    ck_assert_msg(!poll_readable(told, 0), "what npud had written was written again");
}
END_TEST

/* A session without a device set: it holds nothing but this event and what waits for it. */
START_TEST(finalize_forgets)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;
    pid_t child;
    int fd = new_fd();
    unsigned fds;

    begin_two();
    child = child_start(record_in_child, NULL);
    ck_assert_int_eq(read(link_fd[0], &handle, sizeof(handle)), sizeof(handle));
    fds = proc_usage(getpid()).fds;
    OK(aclInit(NULL));
    OK(aclnpudIpcOpenEventOnDevice(&e, handle, 1));
    OK(aclnpudEventNotifyFd(e, fd));
    OK(aclFinalize());
    ck_assert_uint_eq(proc_usage(getpid()).fds, fds);
    npud_await_sessions(1);
    turn_tell(&to_child);
    child_expect_ok(child);
    npud_expect_empty();
    ck_assert(!poll_readable(fd, 0));
    close(fd);
}
END_TEST

static int child_uses_it(void *arg)
{
    int fd = *(int *)arg;
    aclrtEvent e;

    FAILS(ACL_ERROR_UNINITIALIZE, aclrtCreateEvent(&e));
    streams_open(&work, &other);
    e = create_kind(0);
    OK(aclnpudEventNotifyFd(e, fd));
    return 0;
}

/* A forked child has none of the parent's, and may use the same eventfd. */
START_TEST(forked_child)
{
    aclrtEvent e = create_kind(0), gate;
    int fd = new_fd();

    gate = stream_hold(work);
    OK(aclrtRecordEvent(e, work));
    OK(aclnpudEventNotifyFd(e, fd));
    child_expect_ok(child_start(child_uses_it, &fd));
    npud_await_sessions(1);
    expect_written(fd);
    expect_quiet(fd);
    stream_let_go(gate);
    expect_written(fd);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_fd");
    TCase *t = suite_case(suite, "records", 60, set_up_test, tear_down_test);

    tcase_add_loop_test(t, written_when_the_record_completes, 0, KINDS);
    tcase_add_loop_test(t, a_later_record_changes_nothing, 0, KINDS);
    tcase_add_loop_test(t, event_destroyed_before, 0, KINDS);
    tcase_add_loop_test(t, stream_destroyed_before, 0, KINDS);
    tcase_add_test(t, a_failed_task_is_a_task_done);
    tcase_add_test(t, one_descriptor_counts_many);
    tcase_add_test(t, refused);
    tcase_add_test(t, as_many_as_there_may_be);
    tcase_add_test(t, a_number_that_is_used_again);
    tcase_add_test(t, full_counter_stops_nobody);
    tcase_add_test(t, counter_that_fills_stops_nobody);
    tcase_add_test(t, semaphore_and_closed_descriptors);
    tcase_add_test(t, threads_at_the_edge);
    tcase_add_test(t, npud_killed);
    tcase_add_test(t, forked_child);
    t = suite_case(suite, "limit", 60, setup_few, tear_down_test);
    tcase_add_test(t, no_descriptors_of_npud);
    t = suite_case(suite, "two processes", 60, NULL, npud_teardown);
    tcase_add_test(t, nothing_stays_behind);
    tcase_add_loop_test(t, recorder_killed, 0, 2);
    tcase_add_test(t, process_killed);
    tcase_add_test(t, finalize_forgets);
    return run_suite(suite);
}
