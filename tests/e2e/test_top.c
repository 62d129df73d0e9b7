/* npuctl top: held by tests/run/top.py, while a stream waits and another works. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

static atomic_bool enough;

struct work {
    aclrtContext context;
    aclrtStream stream;
};

static void *work_on(void *arg)
{
    const struct work *work = arg;

    OK(aclrtSetCurrentContext(work->context));
    while (!atomic_load(&enough)) {
        OK(aclnpudLaunchDelay(2000, 0, work->stream));
        OK(aclrtSynchronizeStream(work->stream));
    }
    return NULL;
}

static bool one_waits(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool met = r->n_waits >= 1;

    npud__report__free_unpacked(r, NULL);
    return met;
}

START_TEST(top_shows_what_is_there)
{
    const char *dir = getenv("NPUD_BINDIR");
    aclrtStream stream;
    aclrtMbuf buffer;
    aclrtEvent gate;
    struct work work;
    pthread_t worker;
    char command[256];
    uint32_t queue;
    void *memory;

    streams_open(&stream, &work.stream);
    OK(aclrtGetCurrentContext(&work.context));
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(acltdtCreateQueue(NULL, &queue));
    OK(aclrtAllocBuf(&buffer, 64));
    OK(acltdtEnqueue(queue, buffer, 0));
    gate = stream_hold(stream);
    EVENTUALLY(one_waits(), "no stream waits");
    ck_assert_int_eq(pthread_create(&worker, NULL, work_on, &work), 0);
    snprintf(command, sizeof(command), "/usr/bin/python3 tests/run/top.py %s/npuctl",
             dir ? dir : "build");
    ck_assert_int_eq(system(command), 0);
    atomic_store(&enough, true);
    ck_assert_int_eq(pthread_join(worker, NULL), 0);
    stream_let_go(gate);
    OK(aclrtFree(memory));
    session_close();
}
END_TEST

static void set_up_slow(void)
{
    static const char *const slow[] = {"--set=sim.latency_us=1000000", NULL};

    npud_start(slow);
}

static bool stream_says(const char *waits_for, bool blocked)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    bool met = false;

    for (size_t i = 0; i < r->n_streams; i++)
        met |= strcmp(r->streams[i]->waits_for, waits_for) == 0 &&
               r->streams[i]->blocked == blocked && strcmp(r->streams[i]->state, "waiting") == 0;
    npud__report__free_unpacked(r, NULL);
    return met;
}

START_TEST(a_stream_whose_device_works_is_not_blocked)
{
    aclrtStream stream, other;
    aclrtEvent gate;
    void *memory;

    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemsetAsync(memory, 4096, 1, 4096, stream));
    EVENTUALLY(stream_says("its device", false), "the set is not shown");
    npuctl_says("--json top --once -i 0.01", 0, "\"blocked\":[]");
    OK(aclrtSynchronizeStream(stream));
    OK(aclnpudLaunchDelay(1000000, 0, stream));
    EVENTUALLY(stream_says("a delay of 1000000 us", false), "the delay is not shown");
    npuctl_says("--json top --once -i 0.01", 0, "\"blocked\":[]");
    gate = stream_hold(other);
    EVENTUALLY(stream_says("a record of event 0", true), "the wait is not shown");
    npuctl_says("--json top --once -i 0.01", 0, "\"blocked\":[{");
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtFree(memory));
    session_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("top");
    TCase *tc = suite_case(suite, "top", 120, npud_setup, npud_teardown);

    tcase_add_test(tc, top_shows_what_is_there);
    tc = suite_case(suite, "slow", 60, set_up_slow, npud_teardown);
    tcase_add_test(tc, a_stream_whose_device_works_is_not_blocked);
    return run_suite(suite);
}
