/*
 * Whose fault the end of a server is: busy sessions, with a request and a task in hand at nearly
 * any moment, outlive each end that is not their doing, however many there are.
 *
 * Skipped under chaos: the test itself ends npud, and counts.
 * Skipped under ASan and TSan: what a server may have in memory is limited, and the signals of a
 * crash are the sanitizers' own.
 * Runs long: 30 s.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/proc.h"

#define BUSY  2
#define BYTES ((size_t)4 << 20)

static struct {
    _Atomic unsigned rounds[BUSY]; /* so far */
    _Atomic bool over;
} * shared;

static pid_t busy[BUSY];

/* --- busy sessions --- */

/* A request at nearly any moment. */
static void *ask_always(void *arg)
{
    void *memory;

    OK(aclrtSetDevice(0));
    while (!atomic_load(&shared->over)) {
        OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtFree(memory));
        atomic_fetch_add((_Atomic unsigned *)arg, 1);
    }
    return NULL;
}

/* And a task. */
static int be_busy(void *arg)
{
    unsigned char *host, *device;
    aclrtStream stream;
    pthread_t asks;

    session_open();
    OK(aclrtCreateStream(&stream));
    OK(aclrtMallocHost((void **)(void *)&host, BYTES));
    OK(aclrtMalloc((void **)(void *)&device, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    ck_assert_int_eq(pthread_create(&asks, NULL, ask_always, arg), 0);
    for (unsigned i = 0; !atomic_load(&shared->over); i++) {
        memset(host, (int)(i & 0xff), BYTES);
        OK(aclrtMemcpyAsync(device, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        OK(aclrtSynchronizeStream(stream));
        memset(host, 0, BYTES);
        OK(aclrtMemcpyAsync(host, BYTES, device, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        OK(aclrtSynchronizeStream(stream));
        ck_assert_int_eq(host[BYTES - 1], (int)(i & 0xff));
    }
    pthread_join(asks, NULL);
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
    OK(aclrtDestroyStream(stream));
    session_close();
    return 0;
}

/* Each has been served since. */
static void await_rounds(void)
{
    for (unsigned i = 0; i < BUSY; i++) {
        unsigned seen = atomic_load(&shared->rounds[i]);

        EVENTUALLY(atomic_load(&shared->rounds[i]) - seen >= 2, "session %u is not served", i);
    }
}

static void start_busy(void)
{
    shared = child_share(sizeof(*shared));
    for (unsigned i = 0; i < BUSY; i++)
        busy[i] = child_start(be_busy, (void *)&shared->rounds[i]);
    await_rounds();
}

static void stop_busy(void)
{
    atomic_store(&shared->over, true);
    for (unsigned i = 0; i < BUSY; i++)
        child_expect_ok(busy[i]);
    npud_teardown();
}

/* --- ends --- */

static pid_t await_server(pid_t (*which)(void))
{
    pid_t pid;

    EVENTUALLY((pid = which()) != 0, "there is none");
    return pid;
}

static void end_by(int signal)
{
    pid_t pid = await_server(npud_server_pid);

    await_server(npud_standby_pid);
    kill(pid, signal);
    EVENTUALLY(npud_serving_pid() != pid, "no other server serves");
    await_rounds();
}

static void start(void)
{
    npud_start_restartable(NULL);
}

START_TEST(sessions_outlive_signals)
{
    static const int signals[] = {SIGKILL, SIGSEGV, SIGABRT, SIGILL};

    start_busy();
    for (unsigned i = 0; i < 12; i++)
        end_by(signals[i % 4]);
    stop_busy();
}
END_TEST

/* The watchdog cannot know that it is stopped by somebody. */
static void start_watched(void)
{
    setenv("WATCHDOG_USEC", "1000000", 1);
    npud_start_restartable(NULL);
}

START_TEST(sessions_outlive_hangs)
{
    start_busy();
    for (unsigned i = 0; i < 4; i++)
        end_by(SIGSTOP);
    stop_busy();
}
END_TEST

/* The standby, which is the next server, lacks what it needs, and the one after it does not. */
static const struct {
    enum __rlimit_resource resource;
    rlim_t most;
} lacks[] = {{RLIMIT_NOFILE, 30}, {RLIMIT_AS, (rlim_t)1 << 20}};

START_TEST(sessions_outlive_what_servers_lack)
{
    struct rlimit limit = {lacks[_i].most, lacks[_i].most};
    pid_t server, standby;

    start_busy();
    for (unsigned i = 0; i < 2; i++) { /* the third within a minute would start a server clean */
        server = await_server(npud_server_pid);
        standby = await_server(npud_standby_pid);
        ck_assert_int_eq(prlimit(standby, lacks[_i].resource, &limit, NULL), 0);
        kill(server, SIGKILL);
        EVENTUALLY(npud_serving_pid() != server, "no other server serves");
        ck_assert_int_ne(npud_serving_pid(), standby);
        await_rounds();
    }
    stop_busy();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blame");
    TCase *t = suite_case(s, "ends", 120, start, NULL);

    tcase_add_test(t, sessions_outlive_signals);
    tcase_add_loop_test(t, sessions_outlive_what_servers_lack, 0, 2);
    t = suite_case(s, "hangs", 120, start_watched, NULL);
    tcase_add_test(t, sessions_outlive_hangs);
    return run_suite(s);
}
