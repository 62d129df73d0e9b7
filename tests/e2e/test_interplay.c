/* Where the parts of the engine and of the library meet: each test takes at least two of them. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gate.h"
#include "harness.h"
#include "proto/npud.pb-c.h"

#define GUARD_MS 20000
#define CODE     ACL_ERROR_RT_AICORE_EXCEPTION

static aclrtStream stream, other, probe;

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclrtCreateStream(&probe));
}

/* A stream has both worked and waited: what one has left is not in the way of the other. */
START_TEST(test_notify_wait_after_copy)
{
    aclrtNotify notify;
    void *a, *b;

    open_device();
    OK(aclrtMalloc(&a, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&b, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtMemcpyAsync(a, 4096, b, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- event descriptors --- */

static int notify_fd(aclrtEvent event)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    ck_assert_int_ge(fd, 0);
    OK(aclnpudEventNotifyFd(event, fd));
    return fd;
}

static void expect_written(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ck_assert_msg(poll(&p, 1, GUARD_MS) == 1, "never written");
}

static aclrtEvent record_behind_failure(void)
{
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    OK(aclrtRecordEvent(event, stream));
    return event;
}

/* What a stopped stream has queued is not going to be: no later than that the descriptor says so. */
START_TEST(test_fd_of_stopped_stream)
{
    aclrtEvent event, gate;
    int before, after;

    open_device();
    OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    gate = stream_hold(stream);
    event = record_behind_failure();
    before = notify_fd(event);
    stream_let_go(gate);
    ck_assert_int_eq(aclrtSynchronizeStream(stream), CODE);
    expect_written(before);
    after = notify_fd(event);
    expect_written(after);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interplay");
    TCase *c = suite_case(suite, "interplay", 60, npud_setup, npud_teardown);

    tcase_add_test(c, test_notify_wait_after_copy);
    tcase_add_test(c, test_fd_of_stopped_stream);
    return run_suite(suite);
}
