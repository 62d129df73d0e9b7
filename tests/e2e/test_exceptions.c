/*
 * Exception callbacks: once for each task that fails, with what the program and npuctl know of it,
 * and no caller hangs.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/shm/exception_shm.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define CODE     ACL_ERROR_RT_AICORE_EXCEPTION

struct seen {
    uint32_t task, stream, thread, device, code;
};

#define SEEN_MAX 65536
static struct seen seen[SEEN_MAX];
static _Atomic unsigned n_seen;

static struct seen read_info(aclrtExceptionInfo *info)
{
    return (struct seen){
        .task = aclrtGetTaskIdFromExceptionInfo(info),
        .stream = aclrtGetStreamIdFromExceptionInfo(info),
        .thread = aclrtGetThreadIdFromExceptionInfo(info),
        .device = aclrtGetDeviceIdFromExceptionInfo(info),
        .code = aclrtGetErrorCodeFromExceptionInfo(info),
    };
}

/* Callbacks are called one at a time. */
static void note_exception(aclrtExceptionInfo *info)
{
    unsigned n = atomic_load(&n_seen);

    if (n < SEEN_MAX)
        seen[n] = read_info(info);
    atomic_store(&n_seen, n + 1);
}

static aclrtStream stream, other;

static void open_noting(void)
{
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(note_exception));
}

static uint32_t last_task(void)
{
    uint32_t id;

    OK(aclrtGetThreadLastTaskId(&id));
    return id;
}

static uint32_t id_of(aclrtStream s)
{
    int32_t id;

    OK(aclrtStreamGetId(s, &id));
    return (uint32_t)id;
}

static uint32_t get_thread_id(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void expect_row(uint32_t id, uint64_t failures, const struct seen *s)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    bool found = false;

    for (size_t i = 0; i < r->n_streams; i++) {
        const Npud__StreamRow *row = r->streams[i];

        if (row->stream != (int32_t)id || row->device != s->device)
            continue;
        found = true;
        ck_assert_uint_eq(row->failures, failures);
        ck_assert_uint_eq(row->failed_task, s->task);
        ck_assert_uint_eq(row->failed_thread, s->thread);
        ck_assert_int_eq(row->failed_code, (int32_t)s->code);
    }
    ck_assert(found);
    npud__report__free_unpacked(r, NULL);
}

/* --- what is told --- */

START_TEST(test_getters)
{
    void *p;
    uint32_t n;
    aclrtFuncHandle f;

    ck_assert_uint_eq(aclrtGetTaskIdFromExceptionInfo(NULL), UINT32_MAX);
    ck_assert_uint_eq(aclrtGetStreamIdFromExceptionInfo(NULL), UINT32_MAX);
    ck_assert_uint_eq(aclrtGetThreadIdFromExceptionInfo(NULL), UINT32_MAX);
    ck_assert_uint_eq(aclrtGetDeviceIdFromExceptionInfo(NULL), UINT32_MAX);
    ck_assert_uint_eq(aclrtGetErrorCodeFromExceptionInfo(NULL), UINT32_MAX);
    FAILS(-1, aclrtGetArgsFromExceptionInfo(NULL, &p, &n));
    FAILS(-1, aclrtGetFuncHandleFromExceptionInfo(NULL, &f));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtBinarySetExceptionCallback(NULL, NULL, NULL));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetThreadLastTaskId(NULL));
}
END_TEST

static _Atomic int getter_codes[5];

static void use_getters(aclrtExceptionInfo *info)
{
    void *p;
    uint32_t n;
    aclrtFuncHandle f;

    getter_codes[0] = aclrtGetArgsFromExceptionInfo(info, &p, &n);
    getter_codes[1] = aclrtGetArgsFromExceptionInfo(info, NULL, &n);
    getter_codes[2] = aclrtGetArgsFromExceptionInfo(info, &p, NULL);
    getter_codes[3] = aclrtGetFuncHandleFromExceptionInfo(info, &f);
    getter_codes[4] = aclrtGetFuncHandleFromExceptionInfo(info, NULL);
    ck_assert_uint_eq(aclrtGetTaskIdFromExceptionInfo(NULL), UINT32_MAX);
    note_exception(info);
}

START_TEST(test_getters_inside)
{
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(use_getters));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_int_eq(getter_codes[0], -1);
    ck_assert_int_eq(getter_codes[1], ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(getter_codes[2], ACL_ERROR_INVALID_PARAM);
    ck_assert_int_eq(getter_codes[3], ACL_ERROR_RT_PARAM_INVALID);
    ck_assert_int_eq(getter_codes[4], ACL_ERROR_INVALID_PARAM);
}
END_TEST

START_TEST(test_ids)
{
    struct seen expect;

    open_noting();
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    expect = (struct seen){last_task(), id_of(stream), get_thread_id(), 0, CODE};
    OK(aclnpudLaunchDelay(0, 0, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_int_eq(memcmp(&seen[0], &expect, sizeof(expect)), 0);
    expect_row(expect.stream, 1, &expect);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtSynchronizeStream(other));
    ck_assert_uint_eq(n_seen, 1);
}
END_TEST

/*
 * The callback has run when the error is returned, on whichever thread it runs. It also runs
 * without a synchronise call.
 */
START_TEST(test_before_error)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    open_noting();
    for (unsigned i = 1; i <= 500; i++) {
        OK(aclnpudLaunchDelay(0, CODE, i % 2 ? stream : other));
        FAILS(CODE, aclrtSynchronizeStream(i % 2 ? stream : other));
        ck_assert_uint_eq(atomic_load(&n_seen), i);
    }
    OK(aclnpudLaunchDelay(0, CODE, stream));
    while (atomic_load(&n_seen) < 501)
        ck_assert(now_ns() < give_up);
    FAILS(CODE, aclrtSynchronizeDevice());
    ck_assert_uint_eq(atomic_load(&n_seen), 501);
}
END_TEST

START_TEST(test_excepted)
{
    aclrtEvent gate;

    open_noting();
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEventWithTimeout(stream, gate, 1));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_END_OF_SEQUENCE, other));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_MODEL_ABORT_NORMAL, other));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_int_eq(aclrtSynchronizeStream(other), ACL_ERROR_RT_MODEL_ABORT_NORMAL);
    /* A task of another kind with the same code is one. */
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_TASK_TIMEOUT, stream));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_uint_eq(seen[0].code, ACL_ERROR_RT_TASK_TIMEOUT);
}
END_TEST

/* --- callbacks --- */

static _Atomic unsigned n_one, n_two;

static void count_one(aclrtExceptionInfo *info)
{
    ck_assert_uint_eq(aclrtGetErrorCodeFromExceptionInfo(info), CODE);
    n_one++;
}

static void count_two(aclrtExceptionInfo *info)
{
    ck_assert_uint_eq(aclrtGetErrorCodeFromExceptionInfo(info), CODE);
    n_two++;
}

static void fail_and_expect(unsigned ones, unsigned twos)
{
    n_one = n_two = 0;
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_one, ones);
    ck_assert_uint_eq(n_two, twos);
}

START_TEST(test_table)
{
    /* Before there is a session, and without a context. */
    OK(aclrtSetExceptionInfoCallback(count_one));
    streams_open(&stream, &other);
    fail_and_expect(1, 0);
    OK(aclrtSetExceptionInfoCallback(count_two));
    fail_and_expect(0, 1);
    OK(aclrtSetExceptionInfoCallback(NULL));
    fail_and_expect(0, 0);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtExceptionInfoCallbackRegister(NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtExceptionInfoCallbackUnregister(NULL));
    OK(aclrtExceptionInfoCallbackUnregister(count_one));
    OK(aclrtExceptionInfoCallbackRegister(count_one));
    OK(aclrtExceptionInfoCallbackRegister(count_one));
    fail_and_expect(1, 0);
    OK(aclrtExceptionInfoCallbackRegister(count_two));
    OK(aclrtSetExceptionInfoCallback(count_one));
    fail_and_expect(2, 1);
    OK(aclrtExceptionInfoCallbackUnregister(count_one));
    fail_and_expect(1, 1);
    OK(aclrtExceptionInfoCallbackUnregister(count_two));
    OK(aclrtSetExceptionInfoCallback(NULL));
    fail_and_expect(0, 0);
}
END_TEST

/* --- load --- */

#define WORKERS 4
#define ROUNDS  60
#define BURST   40 /* of each round half fail as delays, half as copies */

struct worker {
    pthread_t thread;
    int32_t device;
    struct seen expect[ROUNDS * BURST];
    unsigned n;
};

static void expect_failure(struct worker *w, aclrtStream s, uint32_t code)
{
    w->expect[w->n++] =
        (struct seen){last_task(), id_of(s), get_thread_id(), (uint32_t)w->device, code};
}

static void submit_burst(struct worker *w, aclrtStream s, aclrtStream gate_stream)
{
    aclrtEvent gate;
    void *to, *from;

    OK(aclrtMalloc(&to, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&from, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(s, gate));
    for (unsigned i = 0; i < BURST; i++) {
        if (i % 2)
            OK(aclrtMemcpyAsync(to, 4096, from, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
        else
            OK(aclnpudLaunchDelay(0, CODE, s));
        expect_failure(w, s, i % 2 ? ACL_ERROR_RT_SYS_DMA : CODE);
    }
    OK(aclrtFree(to)); /* before the copies run */
    OK(aclrtRecordEvent(gate, gate_stream));
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStream(s));
    OK(aclrtFree(from));
    OK(aclrtDestroyEvent(gate));
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    aclrtStream s, gate_stream;

    OK(aclrtSetDevice(w->device));
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateStream(&gate_stream));
    for (unsigned i = 0; i < ROUNDS; i++)
        submit_burst(w, s, gate_stream);
    return NULL;
}

static int compare_seen(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct seen));
}

/* Streams stay until the end: a number that is given anew would make two tasks look alike. */
START_TEST(test_load)
{
    static struct worker workers[WORKERS];
    static struct seen all[WORKERS * ROUNDS * BURST];
    unsigned n = 0;

    OK(aclInit(NULL));
    OK(aclrtSetExceptionInfoCallback(note_exception));
    for (int i = 0; i < WORKERS; i++) {
        workers[i].device = i % 2;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        memcpy(all + n, workers[i].expect, workers[i].n * sizeof(all[0]));
        n += workers[i].n;
        expect_row(all[n - 1].stream, ROUNDS * BURST, &all[n - 1]);
    }
    ck_assert_uint_eq(atomic_load(&n_seen), n);
    qsort(all, n, sizeof(all[0]), compare_seen);
    qsort(seen, n, sizeof(seen[0]), compare_seen);
    ck_assert_int_eq(memcmp(all, seen, n * sizeof(all[0])), 0);
    for (unsigned i = 1; i < n; i++)
        ck_assert_int_ne(compare_seen(&seen[i - 1], &seen[i]), 0);
}
END_TEST

/* --- a full ring --- */

#define FLOOD 300 /* more than EXCEPTIONS, in each of two streams */

static sem_t entered, go_on;

static void note_slowly(aclrtExceptionInfo *info)
{
    if (atomic_load(&n_seen) == 0) {
        sem_post(&entered);
        sem_wait(&go_on);
    }
    note_exception(info);
}

static void submit_flood(void)
{
    for (unsigned i = 0; i < FLOOD; i++) {
        OK(aclnpudLaunchDelay(0, CODE, stream));
        OK(aclnpudLaunchDelay(0, CODE, other));
    }
}

static bool stream_waits(uint32_t id, const char *what)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    bool waits = false;

    for (size_t i = 0; i < r->n_streams; i++)
        waits |=
            r->streams[i]->stream == (int32_t)id && strcmp(r->streams[i]->waits_for, what) == 0;
    npud__report__free_unpacked(r, NULL);
    return waits;
}

static void await_stuck(aclrtStream s)
{
    EVENTUALLY(stream_waits(id_of(s), "its process to take exceptions"),
               "the stream does not wait for its process");
}

static struct turn to_neighbour, from_neighbour;

static int run_neighbour(void *arg)
{
    aclrtStream a, b;

    (void)arg;
    turn_await(&to_neighbour);
    streams_open(&a, &b);
    for (int i = 0; i < 1000; i++) {
        OK(aclnpudLaunchDelay(0, i % 2 ? CODE : 0, a));
        if (aclrtSynchronizeStream(a) != (i % 2 ? CODE : 0))
            return 1;
    }
    turn_tell(&from_neighbour);
    return 0;
}

/* Failures of a stream are told in its order. */
static void expect_order(uint32_t id)
{
    uint32_t next = 0;

    for (unsigned i = 0; i < n_seen; i++)
        if (seen[i].stream == id)
            ck_assert_uint_eq(seen[i].task, next++);
    ck_assert_uint_eq(next, FLOOD);
}

START_TEST(test_full)
{
    pid_t pid;

    sem_init(&entered, 0, 0);
    sem_init(&go_on, 0, 0);
    turn_init(&to_neighbour);
    turn_init(&from_neighbour);
    pid = child_start(run_neighbour, NULL);
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(note_slowly));
    submit_flood();
    sem_wait(&entered);
    await_stuck(stream);
    await_stuck(other);
    /*
     * The callback does not come back. Neither another process nor a stream of this process that
     * does not fail is delayed.
     */
    turn_tell(&to_neighbour);
    turn_await(&from_neighbour);
    OK(aclrtSynchronizeStream(NULL));
    child_expect_ok(pid);
    sem_post(&go_on);
    FAILS(CODE, aclrtSynchronizeStream(stream));
    FAILS(CODE, aclrtSynchronizeStream(other));
    ck_assert_uint_eq(n_seen, 2 * FLOOD);
    expect_order(id_of(stream));
    expect_order(id_of(other));
}
END_TEST

/* A stream that waits for room can be destroyed, and the session can end. */
START_TEST(test_full_destroy)
{
    sem_init(&entered, 0, 0);
    sem_init(&go_on, 0, 0);
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(note_slowly));
    submit_flood();
    sem_wait(&entered);
    await_stuck(stream);
    OK(aclrtDestroyStreamForce(stream));
    await_stuck(other);
    OK(aclrtStreamAbort(other));
    OK(aclnpudLaunchDelay(0, 0, other));
    sem_post(&go_on);
    aclrtSynchronizeStream(other);
    OK(aclrtSynchronizeStream(other));
    ck_assert_uint_ge(n_seen, EXCEPTIONS);
    ck_assert_uint_le(n_seen, EXCEPTIONS + 1);
}
END_TEST

/*
 * What the reference advises against: while a callback waits for a stream, that one fails more
 * often than there is room for.
 */
static _Atomic int code_inside;

static void synchronize_inside(aclrtExceptionInfo *info)
{
    if (atomic_load(&n_seen) == 0) {
        aclrtSetDevice(0);
        code_inside = aclrtSynchronizeStream(stream);
    }
    note_exception(info);
}

START_TEST(test_synchronize_inside)
{
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(synchronize_inside));
    submit_flood();
    FAILS(CODE, aclrtSynchronizeStream(other));
    aclrtSynchronizeStream(stream);
    OK(aclrtSynchronizeDevice());
    ck_assert_int_eq(code_inside, CODE);
    ck_assert_uint_eq(n_seen, 2 * FLOOD);
}
END_TEST

static _Atomic int finalize_code;

static void finalize_inside(aclrtExceptionInfo *info)
{
    finalize_code = aclFinalize();
    note_exception(info);
}

START_TEST(test_finalize_inside)
{
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(finalize_inside));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_int_eq(finalize_code, ACL_ERROR_INTERNAL_ERROR);
}
END_TEST

/* --- ends --- */

/* Everything that failed is told before the session is closed; and the next session goes on. */
START_TEST(test_finalize)
{
    open_noting();
    for (unsigned round = 1; round <= 20; round++) {
        submit_flood();
        OK(aclrtResetDevice(0));
        OK(aclFinalize());
        ck_assert_uint_eq(atomic_load(&n_seen), round * 2 * FLOOD);
        npud_expect_empty();
        streams_open(&stream, &other);
    }
}
END_TEST

static int child_of_fork(void)
{
    FAILS(ACL_ERROR_UNINITIALIZE, aclrtSetExceptionInfoCallback(note_exception));
    streams_open(&stream, &other);
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1); /* the parent's, before */
    OK(aclrtSetExceptionInfoCallback(note_exception));
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 2);
    ck_assert_uint_eq(seen[1].thread, get_thread_id());
    return 0;
}

START_TEST(test_fork)
{
    pid_t pid;

    open_noting();
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    pid = fork();
    if (pid == 0)
        _exit(child_of_fork());
    child_expect_ok(pid);
    OK(aclnpudLaunchDelay(0, CODE, stream));
    FAILS(CODE, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 2);
}
END_TEST

/*
 * npud's end is a failure of each device in use. The library reports it once, also if the program
 * makes no call.
 */
START_TEST(test_npud_killed)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    OK(aclrtSetExceptionInfoCallback(note_exception));
    streams_open(&stream, &other);
    OK(aclrtSetDevice(1));
    OK(aclrtSetDevice(0));
    OK(aclnpudLaunchDelay(3600000000, 0, stream));
    npud_kill();
    if (_i == 0)
        ck_assert_int_eq(aclrtSynchronizeStream(stream), ACL_ERROR_RT_SOCKET_CLOSE);
    while (atomic_load(&n_seen) < 2)
        ck_assert(now_ns() < give_up);
    ck_assert_int_eq(aclrtSynchronizeStream(other), ACL_ERROR_RT_SOCKET_CLOSE);
    ck_assert_uint_eq(n_seen, 2);
    for (uint32_t d = 0; d < 2; d++) {
        const struct seen expect = {UINT32_MAX, UINT32_MAX, UINT32_MAX, d,
                                    ACL_ERROR_RT_SOCKET_CLOSE};

        ck_assert_int_eq(memcmp(&seen[d], &expect, sizeof(expect)), 0);
    }
    OK(aclFinalize());
    ck_assert_uint_eq(n_seen, 2);
}
END_TEST

static int dies_before_recording(void *arg)
{
    aclrtIpcEventHandle handle;
    aclrtStream s, t;
    aclrtEvent event;
    int *pipe = arg;

    streams_open(&s, &t);
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &handle));
    OK(aclnpudLaunchDelay(3600000000, 0, s));
    OK(aclrtRecordEvent(event, s));
    if (write(pipe[1], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return 1;
    pause();
    return 1;
}

/* A dead peer is a failure of the wait. */
START_TEST(test_dead_peer)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;
    int fd[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fd), 0);
    pid = child_start(dies_before_recording, fd);
    open_noting();
    ck_assert_int_eq(read(fd[0], &handle, sizeof(handle)), sizeof(handle));
    OK(aclrtIpcOpenEventHandle(handle, &event));
    OK(aclrtStreamWaitEvent(stream, event));
    child_kill(pid);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_uint_eq(seen[0].code, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_uint_eq(seen[0].task, last_task());
}
END_TEST

/* --- ids of tasks --- */

static void *no_task_yet(void *arg)
{
    (void)arg;
    ck_assert_uint_eq(last_task(), UINT32_MAX);
    OK(aclrtSetDevice(0));
    OK(aclnpudLaunchDelay(0, 0, NULL)); /* the default stream does not count */
    ck_assert_uint_eq(last_task(), UINT32_MAX);
    OK(aclrtResetDevice(0));
    return NULL;
}

START_TEST(test_last_task)
{
    aclrtEvent plain, level, ipc, done;
    uint32_t before, id;

    thread_call(no_task_yet, NULL);
    streams_open(&stream, &other);
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&done, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    ck_assert_uint_eq(last_task(), UINT32_MAX);
#define NEXT(call)                                                                                 \
    do {                                                                                           \
        OK(call);                                                                                  \
        id = last_task();                                                                          \
        ck_assert_uint_eq(id, before + 1);                                                         \
        before = id;                                                                               \
    } while (0)
    OK(aclrtRecordEvent(plain, stream));
    before = last_task();
    ck_assert_uint_ne(before, UINT32_MAX);
    NEXT(aclrtResetEvent(plain, stream));
    NEXT(aclrtRecordEvent(level, stream));
    NEXT(aclrtRecordEvent(ipc, stream));
    NEXT(aclrtRecordEvent(done, stream));
    NEXT(aclnpudLaunchDelay(20000, 0, stream));
    NEXT(aclrtRecordEvent(done, stream));
    NEXT(aclrtRecordEvent(level, stream));
    NEXT(aclrtRecordEvent(ipc, stream));
    OK(aclrtSynchronizeStream(stream));
    NEXT(aclnpudLaunchDelay(0, 0, stream));
    /* What submits nothing does not change it. */
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtRecordEvent(plain, other));
    before = last_task();
    OK(aclrtStreamWaitEvent(stream, done));
    ck_assert_uint_eq(last_task(), before);
}
END_TEST

/* Unlike those of events. */
START_TEST(test_notify_over_its_limit)
{
    aclrtNotify notify;
    uint32_t task;

    open_noting();
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtWaitAndResetNotify(notify, stream, 1));
    task = last_task();
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_uint_eq(n_seen, 1);
    ck_assert_uint_eq(seen[0].code, ACL_ERROR_RT_TASK_TIMEOUT);
    ck_assert_uint_eq(seen[0].task, task);
    OK(aclrtDestroyNotify(notify));
}
END_TEST

static _Atomic unsigned n_device;

/* The tasks that fail with the device come beside it. */
static void note_device(aclrtExceptionInfo *info)
{
    struct seen s = read_info(info);

    if (s.task != UINT32_MAX)
        return;
    seen[atomic_load(&n_device)] = s;
    atomic_fetch_add(&n_device, 1);
}

/* Also when the ring has no room at that moment: it is full of tasks that have failed. */
START_TEST(test_device_lost)
{
    const struct seen expect = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 0, ACL_ERROR_RT_LOST_HEARTBEAT};
    uint64_t give_up = now_ns() + GUARD_NS;
    int status;

    sem_init(&entered, 0, 0);
    sem_init(&go_on, 0, 0);
    streams_open(&stream, &other);
    OK(aclrtSetExceptionInfoCallback(_i ? note_slowly : note_device));
    if (_i) {
        submit_flood();
        await_stuck(other);
    }
    free(npuctl("inject lose-device --device 0", &status));
    ck_assert_int_eq(status, 0);
    if (_i) {
        OK(aclrtSetExceptionInfoCallback(note_device));
        sem_post(&go_on);
    }
    while (atomic_load(&n_device) == 0)
        ck_assert_msg(now_ns() < give_up, "nobody is told of the device");
    ck_assert_int_eq(memcmp(&seen[0], &expect, sizeof(expect)), 0);
    free(npuctl("inject clear", &status));
    aclrtSynchronizeDevice();
    ck_assert_uint_eq(n_device, 1);
    OK(aclrtSetExceptionInfoCallback(NULL));
}
END_TEST

/* Records without a task in between, many of them: npud and the program still agree. */
START_TEST(test_ids_after_implicit)
{
    aclrtEvent event;
    uint32_t expect;

    open_noting();
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < (round == 2 ? 70000 : round * 30000); i++)
            OK(aclrtRecordEvent(event, stream));
        OK(aclnpudLaunchDelay(0, CODE, stream));
        expect = last_task();
        FAILS(CODE, aclrtSynchronizeStream(stream));
        ck_assert_uint_eq(n_seen, round + 1);
        ck_assert_uint_eq(seen[round].task, expect);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exceptions");
    TCase *c = suite_case(suite, "told", 60, npud_setup, npud_teardown);

    tcase_add_test(c, test_getters);
    tcase_add_test(c, test_getters_inside);
    tcase_add_test(c, test_ids);
    tcase_add_test(c, test_before_error);
    tcase_add_test(c, test_excepted);
    tcase_add_test(c, test_table);
    tcase_add_test(c, test_load);
    tcase_add_test(c, test_full);
    tcase_add_test(c, test_full_destroy);
    tcase_add_test(c, test_synchronize_inside);
    tcase_add_test(c, test_finalize_inside);
    tcase_add_test(c, test_finalize);
    tcase_add_test(c, test_fork);
    tcase_add_test(c, test_dead_peer);
    tcase_add_test(c, test_last_task);
    tcase_add_test(c, test_ids_after_implicit);
    tcase_add_test(c, test_notify_over_its_limit);
    tcase_add_loop_test(c, test_device_lost, 0, 2);
    c = suite_case(suite, "npud ends", 60, npud_setup, NULL);
    tcase_add_loop_test(c, test_npud_killed, 0, 2);
    return run_suite(suite);
}
