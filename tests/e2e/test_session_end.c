/*
 * The end of a session, by `npuctl kill` or with npud, and aclFinalize, while threads of the
 * process are inside calls of every kind.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/effort.h"
#include "acl/acl_tdt_queue.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "proto/wire/npud.pb-c.h"
#include "queue_kit.h"

#define LOST ACL_ERROR_RT_SOCKET_CLOSE

/* --- threads that call all the time --- */

/* What one of them saw. */
struct caller {
    aclError (*turn)(struct caller *c, const char **call);
    const char *call;       /* the last one, */
    _Atomic aclError error; /* and what it returned; the main thread looks meanwhile */
    /* the main thread looks while the caller runs */ /* and what it returned */
    const char *text;
    _Atomic uint32_t turns;
    uint32_t qid;
    aclrtStream stream;
    acltdtBuf buf;
    pthread_t thread;
};

/* Leave the function with what the call returned if that is an error. */
#define CALL(function, ...)                                                                        \
    do {                                                                                           \
        aclError e_ = function(__VA_ARGS__);                                                       \
        *call = #function;                                                                         \
        if (e_ != 0)                                                                               \
            return e_;                                                                             \
    } while (0)

static aclError turn_buffers(struct caller *c, const char **call)
{
    acltdtBuf buf, copy, more;
    uint64_t value = 7;
    size_t size;
    uint32_t n;
    void *data;

    (void)c;
    CALL(acltdtAllocBuf, 100, ACL_TDT_NORMAL_MEM, &buf);
    CALL(acltdtGetBufData, buf, &data, &size);
    CALL(acltdtSetBufDataLen, buf, 8);
    CALL(acltdtSetBufUserData, buf, &value, sizeof(value), 0);
    CALL(acltdtCopyBufRef, buf, &copy);
    CALL(acltdtAllocBuf, 2000, ACL_TDT_NORMAL_MEM, &more);
    CALL(acltdtAppendBufChain, buf, more);
    CALL(acltdtGetBufChainNum, buf, &n);
    CALL(acltdtGetBufUserData, copy, &value, sizeof(value), 0);
    CALL(acltdtFreeBuf, copy);
    CALL(acltdtFreeBuf, buf);
    return 0;
}

static aclError turn_queue(struct caller *c, const char **call)
{
    acltdtBuf buf;

    CALL(acltdtAllocBuf, 100, ACL_TDT_NORMAL_MEM, &buf);
    CALL(acltdtEnqueue, c->qid, buf, 0);
    CALL(acltdtDequeue, c->qid, &buf, 0);
    CALL(acltdtFreeBuf, buf);
    return 0;
}

/* Keeps the queue full or empty: sleeps in it, alone or with another of its kind. */
static aclError turn_put(struct caller *c, const char **call)
{
    acltdtBuf buf;

    CALL(acltdtAllocBuf, 100, ACL_TDT_NORMAL_MEM, &buf);
    CALL(acltdtEnqueue, c->qid, buf, -1);
    return 0;
}

static aclError turn_take(struct caller *c, const char **call)
{
    acltdtBuf buf;

    CALL(acltdtDequeue, c->qid, &buf, -1);
    CALL(acltdtFreeBuf, buf);
    return 0;
}

static aclError turn_events(struct caller *c, const char **call)
{
    aclrtEventRecordedStatus status;
    aclrtEvent event, shared;

    CALL(aclrtSetDevice, 0);
    CALL(aclrtCreateEvent, &event);
    CALL(aclrtRecordEvent, event, c->stream);
    CALL(aclrtStreamWaitEvent, c->stream, event);
    CALL(aclrtQueryEventStatus, event, &status);
    CALL(aclrtSynchronizeEvent, event);
    CALL(aclrtDestroyEvent, event);
    CALL(aclrtCreateEventExWithFlag, &shared, ACL_EVENT_IPC);
    CALL(aclrtRecordEvent, shared, c->stream);
    CALL(aclrtSynchronizeEvent, shared);
    CALL(aclrtSynchronizeStream, c->stream);
    CALL(aclrtDestroyEvent, shared);
    return 0;
}

static aclError turn_objects(struct caller *c, const char **call)
{
    aclrtStream stream;
    aclrtNotify notify;
    void *memory;

    (void)c;
    CALL(aclrtSetDevice, 0);
    CALL(aclrtCreateStream, &stream);
    CALL(aclrtMalloc, &memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    CALL(aclrtMemsetAsync, memory, 4096, 1, 4096, stream);
    CALL(aclrtCreateNotify, &notify, 0);
    CALL(aclrtRecordNotify, notify, stream);
    CALL(aclrtWaitAndResetNotify, notify, stream, 0);
    CALL(aclrtSynchronizeStream, stream);
    CALL(aclrtDestroyNotify, notify);
    CALL(aclrtFree, memory);
    CALL(aclrtDestroyStream, stream);
    return 0;
}

enum { CALLERS = 7, QUEUES = 4 };
static struct caller callers[CALLERS];
static uint32_t queues[QUEUES];

static void *call_on(void *arg)
{
    struct caller *c = arg;

    do {
        c->error = c->turn(c, &c->call);
        atomic_fetch_add(&c->turns, 1);
    } while (c->error == 0);
    c->text = strdup(aclGetRecentErrMsg());
    return NULL;
}

/* Every kind of object, and threads that use them until a call fails. */
static void callers_start(void)
{
    static aclError (*const turns[CALLERS])(struct caller *, const char **) = {
        turn_buffers, turn_buffers, turn_queue, turn_put, turn_take, turn_events, turn_objects};
    static const int queue_of[CALLERS] = {0, 0, 1, 2, 3, 0, 0};
    aclrtStream stream;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    for (int i = 0; i < QUEUES; i++)
        OK(acltdtCreateQueue(NULL, &queues[i]));
    for (int i = 0; i < CALLERS; i++) {
        callers[i] =
            (struct caller){.turn = turns[i], .stream = stream, .qid = queues[queue_of[i]]};
        pthread_create(&callers[i].thread, NULL, call_on, &callers[i]);
    }
}

/* The last one sleeps in its first turn. */
static void callers_await_turns(uint32_t n)
{
    for (int i = 0; i < CALLERS; i++)
        while (callers[i].turn != turn_take && atomic_load(&callers[i].turns) < n &&
               callers[i].error == 0 && (callers[i].turn != turn_put || n < 2))
            wait_a_moment();
}

static void callers_expect(aclError error)
{
    for (int i = 0; i < CALLERS; i++) {
        struct caller *c = &callers[i];

        pthread_join(c->thread, NULL);
        ck_assert_msg(c->error == error, "%s: %d instead of %d: %s", c->call, c->error, error,
                      c->text);
        ck_assert_msg(strstr(c->text, c->call), "%s: %s", c->call, c->text);
        free((void *)(uintptr_t)c->text);
    }
}

/* --- ends of the session --- */

static void end_by_kill(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);
    char text[64];

    ck_assert_uint_eq(r->n_sessions, 1);
    snprintf(text, sizeof(text), "kill %llu", (unsigned long long)r->sessions[0]->session);
    npud__report__free_unpacked(r, NULL);
    npuctl_says(text, 0, "");
}

static void end_npud(void)
{
    npud_teardown();
}

/* A later call, whatever it is of, says the same. */
static void expect_lost_in_later_calls(void)
{
    aclrtEventRecordedStatus status;
    aclrtStream stream;
    acltdtBuf buf;
    size_t size;

    FAILS(LOST, aclrtCreateStream(&stream));
    FAILS(LOST, acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &buf));
    FAILS(LOST, acltdtGetBufDataLen((acltdtBuf)(uintptr_t)1, &size));
    FAILS(LOST, acltdtDequeue(queues[0], &buf, 0));
    FAILS(LOST, acltdtDestroyQueue(queues[0]));
    FAILS(LOST, aclrtRecordEvent((aclrtEvent)(uintptr_t)1, callers[0].stream));
    FAILS(LOST, aclrtQueryEventStatus((aclrtEvent)(uintptr_t)1, &status));
    FAILS(LOST, aclrtSynchronizeStream(callers[0].stream));
    FAILS(LOST, aclrtProcessReport(1));
}

/*
 * npud takes back buffers, queues and records before it closes the connection. A call that met one
 * of those changes said that the buffer was freed, or the queue destroyed, or that the record had
 * failed.
 */
START_TEST(every_call_says_that_the_session_has_ended)
{
    static void (*const end[])(void) = {end_by_kill, end_npud, npud_kill};
    unsigned rounds = choose_effort(15, 1000);
    acltdtBuf held;
    size_t size;
    void *data;

    if (_i > 0)
        rounds = choose_effort(5, 300);
    for (unsigned i = 0; i < rounds; i++) {
        if (npud.pid == 0)
            npud_setup();
        callers_start();
        OK(acltdtAllocBuf(100, ACL_TDT_NORMAL_MEM, &held));
        OK(acltdtGetBufData(held, &data, &size));
        callers_await_turns(1 + i % 16);
        end[_i]();
        callers_expect(LOST);
        memset(data, 1, size); /* what the process holds it may use */
        expect_lost_in_later_calls();
        OK(aclFinalize());
    }
}
END_TEST

/* --- aclFinalize --- */

static _Atomic bool stop;
static _Atomic uint64_t beside_turns;
static _Atomic uint32_t beside_queue;
static _Atomic(void *) beside_stream, beside_event;

/* Handles may be of a session that is closed at this moment: any code will do, a crash will not. */
static void *use_buffers(void *arg)
{
    struct caller c = {.qid = 0};
    const char *call;

    (void)arg;
    while (!atomic_load(&stop)) {
        c.qid = atomic_load(&beside_queue);
        turn_buffers(&c, &call);
        turn_queue(&c, &call);
        atomic_fetch_add(&beside_turns, 1);
    }
    return NULL;
}

static void *use_events(void *arg)
{
    aclrtEventRecordedStatus status;
    aclrtEventStatus old;

    (void)arg;
    while (!atomic_load(&stop)) {
        void *stream = atomic_load(&beside_stream), *event = atomic_load(&beside_event);

        aclrtRecordEvent(event, stream);
        aclrtQueryEventStatus(event, &status);
        aclrtQueryEvent(event, &old);
        aclrtStreamWaitEvent(stream, event);
        aclrtStreamQuery(stream, &(aclrtStreamStatus){0});
        atomic_fetch_add(&beside_turns, 1);
    }
    return NULL;
}

/* A session with one of each kind, and its end while all threads use it. */
static void open_and_finalize(uint64_t turns)
{
    aclrtStream stream;
    aclrtEvent event;
    uint64_t begin;
    uint32_t qid;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEvent(&event));
    OK(acltdtCreateQueue(NULL, &qid));
    atomic_store(&beside_stream, stream);
    atomic_store(&beside_event, event);
    atomic_store(&beside_queue, qid);
    begin = atomic_load(&beside_turns);
    while (atomic_load(&beside_turns) - begin < turns)
        wait_a_moment();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

/*
 * aclFinalize freed the session although threads were inside calls that used it: the program
 * crashed.
 */
START_TEST(finalize_beside_calls)
{
    void *(*const uses[])(void *) = {use_buffers, use_buffers, use_events, use_events};
    enum { N = sizeof(uses) / sizeof(uses[0]) };
    unsigned rounds = choose_effort(80, 20000);
    pthread_t thread[N];

    OK(aclInit(NULL));
    for (int i = 0; i < N; i++)
        pthread_create(&thread[i], NULL, uses[i], NULL);
    OK(aclFinalize());
    for (unsigned i = 0; i < rounds; i++)
        open_and_finalize(i % 8);
    atomic_store(&stop, true);
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    /* The last calls may have opened a session once more. */
    OK(aclInit(NULL));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

static _Atomic bool subscribed;

/* The subscription went with the device, so that is what the thread learns. */
static void *process_reports(void *arg)
{
    (void)arg;
    while (!atomic_load(&subscribed))
        wait_a_moment();
    FAILS(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    return NULL;
}

/* aclFinalize took a thread that was leaving aclrtProcessReport for one that uses the session. */
START_TEST(finalize_beside_leaving_reporters)
{
    enum { N = 6 };
    unsigned rounds = choose_effort(60, 3000);

    for (unsigned i = 0; i < rounds; i++) {
        pthread_t thread[N];
        aclrtStream stream;

        OK(aclInit(NULL));
        OK(aclrtSetDevice(0));
        atomic_store(&subscribed, false);
        for (int k = 0; k < N; k++) {
            OK(aclrtCreateStream(&stream));
            pthread_create(&thread[k], NULL, process_reports, NULL);
            OK(aclrtSubscribeReport((uint64_t)thread[k], stream));
        }
        atomic_store(&subscribed, true);
        if (i % 2)
            await_asleep(getpid(), N);
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        npud_await_sessions(0);
        for (int k = 0; k < N; k++)
            pthread_join(thread[k], NULL);
    }
}
END_TEST

/* A thread that sleeps at a queue still uses the session: aclFinalize leaves it open. */
static void *take_message(void *arg)
{
    acltdtBuf buf;

    OK(acltdtDequeue(*(uint32_t *)arg, &buf, -1));
    OK(acltdtFreeBuf(buf));
    return NULL;
}

START_TEST(finalize_beside_a_sleeping_consumer)
{
    pthread_t thread;
    acltdtBuf buf;
    uint32_t qid;

    OK(aclInit(NULL));
    OK(acltdtCreateQueue(NULL, &qid));
    pthread_create(&thread, NULL, take_message, &qid);
    while (!npud_lists_sleeper(getpid(), "acltdtDequeue"))
        ;
    OK(aclFinalize());
    OK(acltdtAllocBuf(8, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtEnqueue(qid, buf, 0));
    pthread_join(thread, NULL);
    OK(aclInit(NULL));
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* Comes back with a message, or the session has gone under it. */
static void *take_last_message(void *arg)
{
    acltdtBuf buf;
    aclError r = acltdtDequeue(*(uint32_t *)arg, &buf, -1);

    ck_assert_msg(r == 0 || r == LOST || r == ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%d: %s", r,
                  aclGetRecentErrMsg());
    return NULL;
}

/*
 * Their messages are there, so they are about to leave: aclFinalize took them for threads that go
 * on to use the session, and left it open for good.
 */
START_TEST(finalize_beside_leaving_consumers)
{
    enum { N = 6 };
    unsigned rounds = choose_effort(40, 2000);

    for (unsigned i = 0; i < rounds; i++) {
        pthread_t thread[N];
        uint32_t qid[N];
        acltdtBuf buf;

        OK(aclInit(NULL));
        for (int k = 0; k < N; k++) {
            OK(acltdtCreateQueue(NULL, &qid[k]));
            pthread_create(&thread[k], NULL, take_last_message, &qid[k]);
        }
        await_asleep(getpid(), N);
        for (int k = 0; k < N; k++) {
            OK(acltdtAllocBuf(8, ACL_TDT_NORMAL_MEM, &buf));
            OK(acltdtEnqueue(qid[k], buf, 0));
        }
        OK(aclFinalize());
        npud_await_sessions(0);
        for (int k = 0; k < N; k++)
            pthread_join(thread[k], NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_end");
    TCase *tc = suite_case(suite, "ends", 600, npud_setup, npud_teardown);

    tcase_add_loop_test(tc, every_call_says_that_the_session_has_ended, 0, 3);
    tcase_add_test(tc, finalize_beside_calls);
    tcase_add_test(tc, finalize_beside_leaving_reporters);
    tcase_add_test(tc, finalize_beside_leaving_consumers);
    tcase_add_test(tc, finalize_beside_a_sleeping_consumer);
    return run_suite(suite);
}
