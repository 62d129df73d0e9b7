/*
 * Waits and their blockers, deadlocks, and ending a session: what an operator asks npud, and what
 * npuctl prints.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/chaos.h"
#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */

static aclrtStream stream, other, third;

static void open_device(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&third));
}

static aclrtEvent gate_close(aclrtStream s)
{
    aclrtEvent gate;

    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtStreamWaitEvent(s, gate));
    return gate;
}

/* --- asking --- */

typedef bool condition_fn(const Npud__Report *report);

/*
 * Ask until it is so. Each answer comes from npud itself; clients get to where they wait in their
 * own time.
 */
static Npud__Report *ask_until(condition_fn *met)
{
    uint64_t give_up = now_ns() + GUARD_NS;

    for (;;) {
        Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);

        if (met(report))
            return report;
        ck_assert_msg(now_ns() < give_up, "%zu waits, %zu deadlocks", report->n_waits,
                      report->n_deadlocks);
        npud__report__free_unpacked(report, NULL);
    }
}

static bool four_wait(const Npud__Report *r)
{
    return r->n_waits == 4;
}

static bool deadlock_found(const Npud__Report *r)
{
    return r->n_deadlocks > 0;
}

/* The row of a stream (thread 0), or of a thread by what it called. */
static const Npud__WaitRow *find_row(const Npud__Report *r, int32_t id, const char *call)
{
    for (size_t i = 0; i < r->n_waits; i++)
        if (call ? strcmp(r->waits[i]->call, call) == 0 : r->waits[i]->stream == id)
            return r->waits[i];
    ck_abort_msg("no row for stream %d, call %s", id, call ? call : "-");
}

static int32_t id_of(aclrtStream s)
{
    int32_t id;

    OK(aclrtStreamGetId(s, &id));
    return id;
}

/* --- rows --- */

static void *synchronize_event(void *event)
{
    return (void *)(intptr_t)aclrtSynchronizeEvent(event);
}

START_TEST(every_stream_and_thread_that_waits_has_a_row)
{
    aclrtEvent gate, plain, ipc;
    pthread_t thread;
    Npud__Report *r;
    const Npud__WaitRow *row;
    void *result;

    open_device();
    gate = gate_close(stream);
    OK(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(plain, stream));
    OK(aclrtStreamWaitEvent(other, plain));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(ipc, other));
    OK(aclrtStreamWaitEventWithTimeout(third, ipc, 1000));
    pthread_create(&thread, NULL, synchronize_event, ipc);

    r = ask_until(four_wait);
    row = find_row(r, id_of(stream), NULL);
    ck_assert_str_eq(row->waiter + strlen("stream "), strchr(row->waiter, ' ') + 1);
    ck_assert_ptr_nonnull(strstr(row->waits_for, "a record of event"));
    ck_assert_int_eq(row->blocker_pid, getpid());
    ck_assert_int_eq(row->blocker_stream, -1);
    ck_assert_ptr_nonnull(strstr(row->blocker, "not submitted"));
    ck_assert_str_eq(row->state, "waiting");
    row = find_row(r, id_of(other), NULL);
    ck_assert_ptr_nonnull(strstr(row->waits_for, "position"));
    ck_assert_int_eq(row->blocker_stream, id_of(stream));
    row = find_row(r, id_of(third), NULL);
    ck_assert_ptr_nonnull(strstr(row->waits_for, "record 1 of IPC event"));
    ck_assert_int_eq(row->blocker_stream, id_of(other));
    ck_assert_int_eq(row->blocker_pid, getpid());
    ck_assert(row->timed);
    ck_assert_str_eq(row->state, "waiting (timed)");
    row = find_row(r, 0, "aclrtSynchronizeEvent");
    ck_assert_int_eq(row->stream, -1);
    ck_assert_uint_ne(row->thread, 0);
    ck_assert_uint_ne(row->thread, (uint32_t)gettid());
    ck_assert_int_eq(row->blocker_stream, id_of(other));
    ck_assert_uint_eq(r->n_deadlocks, 0);
    npud__report__free_unpacked(r, NULL);

    npuctl_says("waits", 0, "aclrtSynchronizeEvent");
    npuctl_says("--json waits", 0, "\"deadlocks\":[]");
    npuctl_says("--json waits", 0, "\"waiter\":\"stream ");
    npuctl_says("--json waits", 0, "\"blocker\":\"stream ");

    OK(aclrtRecordEvent(gate, NULL));
    pthread_join(thread, &result);
    ck_assert_int_eq((intptr_t)result, 0);
    OK(aclrtSynchronizeDevice());
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    ck_assert_uint_eq(r->n_waits, 0);
    npud__report__free_unpacked(r, NULL);
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

static void *synchronize_stream(void *arg)
{
    aclrtSetDevice(0);
    return (void *)(intptr_t)aclrtSynchronizeStreamWithTimeout(arg, 100000);
}

#define THREADS 70 /* more than one word of slots */

static bool all_threads_wait(const Npud__Report *r)
{
    return r->n_waits == THREADS + 1;
}

START_TEST(many_threads)
{
    pthread_t thread[THREADS];
    aclrtEvent gate;
    void *result;

    open_device();
    for (int round = 0; round < 3; round++) {
        gate = gate_close(stream);
        for (int i = 0; i < THREADS; i++)
            pthread_create(&thread[i], NULL, synchronize_stream, stream);
        npud__report__free_unpacked(ask_until(all_threads_wait), NULL);
        OK(aclrtRecordEvent(gate, other));
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], &result);
            ck_assert_int_eq((intptr_t)result, 0);
        }
        OK(aclrtDestroyEvent(gate));
    }
    OK(aclrtResetDevice(0));
}
END_TEST

/*
 * A thread that waits for a record asks npud for it after a second, and again later. Reports show
 * it meanwhile, or a deadlock would come and go.
 */
START_TEST(threads_that_ask_npud_for_a_record_are_shown)
{
    pthread_t thread[THREADS];
    aclrtEvent gate, ipc;
    uint64_t oldest_ms = 0;
    void *result;

    open_device();
    gate = gate_close(stream);
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(ipc, stream));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, synchronize_event, ipc);
    npud__report__free_unpacked(ask_until(all_threads_wait), NULL);
    while (oldest_ms < 1500) {
        /* The engines of the next npud look again when it serves already. */
        Npud__Report *r = chaos_is_on() ? ask_until(all_threads_wait)
                                        : npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);

        ck_assert_uint_eq(r->n_waits, THREADS + 1);
        oldest_ms = find_row(r, 0, "aclrtSynchronizeEvent")->for_ms;
        npud__report__free_unpacked(r, NULL);
    }
    OK(aclrtRecordEvent(gate, NULL));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        ck_assert_int_eq((intptr_t)result, 0);
    }
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}
END_TEST

/* --- deadlocks --- */

static int handles[2][2];
static int32_t timeout_ms;
static bool extra_thread;
static bool library_threads; /* all that do nothing by themselves */

static void *sleep_for_good(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

static void ignore_exception(aclrtExceptionInfo *info)
{
    (void)info;
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Those for host functions and for registered memory, with nothing to do. */
static void start_workers(void)
{
    static _Alignas(4096) uint64_t word[512];
    void *mapped;

    OK(aclrtHostRegister(word, sizeof(word), ACL_HOST_REGISTER_MAPPED, &mapped));
    OK(aclrtValueWrite(&word[3], 5, 0, third));
    OK(aclrtLaunchHostFunc(third, do_nothing, NULL));
    OK(aclrtSynchronizeStream(third));
}

static void start_library_threads(void)
{
    static aclrtEvent event;
    uint32_t queue;
    acltdtBuf buf;

    OK(acltdtCreateQueue(NULL, &queue));
    OK(acltdtAllocBuf(64, ACL_TDT_NORMAL_MEM, &buf));
    OK(aclrtSetExceptionInfoCallback(ignore_exception));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(event, third));
    OK(aclrtSynchronizeStream(third));
    OK(aclnpudEventNotifyFd(event, eventfd(0, EFD_CLOEXEC)));
    start_workers();
}

/*
 * Each side will let its own stream go on only when the other's has recorded; each of them waits
 * for that first. Returns how that ended.
 */
static int one_side(void *arg)
{
    int me = *(int *)arg;
    aclrtIpcEventHandle handle;
    aclrtEvent mine, theirs;
    pthread_t thread;
    int r;

    open_device();
    if (library_threads)
        start_library_threads();
    if (extra_thread)
        pthread_create(&thread, NULL, sleep_for_good, NULL);
    OK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    gate_close(stream);
    OK(aclrtRecordEvent(mine, stream));
    OK(aclrtIpcGetEventHandle(mine, &handle));
    ck_assert_int_eq(write(handles[me][1], &handle, sizeof(handle)), sizeof(handle));
    ck_assert_int_eq(read(handles[!me][0], &handle, sizeof(handle)), sizeof(handle));
    OK(aclrtIpcOpenEventHandle(handle, &theirs));
    r = timeout_ms ? aclrtSynchronizeEventWithTimeout(theirs, timeout_ms)
                   : aclrtSynchronizeEvent(theirs);
    return r == ACL_ERROR_RT_SUSPECT_REMOTE_ERROR ? 1
           : r == ACL_ERROR_RT_SOCKET_CLOSE       ? 2
           : r == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT ? 3
                                                  : 4;
}

static void start_sides(pid_t pid[2])
{
    static int me[2] = {0, 1};

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pipe(handles[i]), 0);
    for (int i = 0; i < 2; i++)
        pid[i] = child_start(one_side, &me[i]);
}

static int result_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The circle has both streams and both threads; ending one session ends it. */
static void expect_deadlock(const char *certainty, const char *state)
{
    pid_t pid[2];
    Npud__Report *r;
    char text[64];

    start_sides(pid);
    r = ask_until(deadlock_found);
    ck_assert_uint_eq(r->n_deadlocks, 1);
    ck_assert_str_eq(r->deadlocks[0]->certainty, certainty);
    ck_assert_uint_eq(r->deadlocks[0]->processes, 2);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "process %d", (int)pid[i]);
        ck_assert_ptr_nonnull(strstr(r->deadlocks[0]->members, text));
    }
    ck_assert_uint_eq(r->n_waits, 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(r->waits[i]->deadlock, 1);
        ck_assert_str_eq(r->waits[i]->state, state);
    }
    npuctl_says("waits", 0, "deadlock 1");
    npuctl_says("waits --json", 0, "\"deadlock\":1");
    snprintf(text, sizeof(text), "kill %llu", (unsigned long long)r->waits[0]->session);
    npuctl_says(text, 0, "");
    npuctl_says(text, 1, "there is no session");
    ck_assert_int_eq(result_of(r->waits[0]->pid), 2);
    ck_assert_int_eq(result_of(r->waits[0]->pid == pid[0] ? pid[1] : pid[0]), 1);
    npud__report__free_unpacked(r, NULL);
    npud_expect_empty();
}

START_TEST(deadlock_of_two_processes)
{
    struct ledger before = npud_ledger();

/* The runtime of TSan has a thread in every process, and npud cannot know what it will do. */
#ifdef __SANITIZE_THREAD__
    expect_deadlock("suspected", "suspected deadlock 1");
#else
    expect_deadlock("certain", "deadlock 1");
#endif
    npud_await_fds(before.fds);
}
END_TEST

/* Threads of the library's own end no wait. */
START_TEST(deadlock_beside_threads_of_the_library)
{
    library_threads = true;
#ifdef __SANITIZE_THREAD__
    expect_deadlock("suspected", "suspected deadlock 1");
#else
    expect_deadlock("certain", "deadlock 1");
#endif
}
END_TEST

START_TEST(deadlock_that_another_thread_could_end)
{
    if (!need_one_server(__func__, "such a deadlock is told after a second of its life"))
        return;
    extra_thread = true;
    expect_deadlock("suspected", "suspected deadlock 1");
}
END_TEST

START_TEST(no_deadlock_with_a_time_limit)
{
    pid_t pid[2];
    Npud__Report *r;

    timeout_ms = 300;
    start_sides(pid);
    r = ask_until(four_wait);
    ck_assert_uint_eq(r->n_deadlocks, 0);
    npud__report__free_unpacked(r, NULL);
    /* The first to give up ends the other's wait by its death, if that comes first. */
    for (int i = 0; i < 2; i++) {
        int result = result_of(pid[i]);

        ck_assert_msg(result == 3 || result == 1, "%d", result);
    }
}
END_TEST

/*
 * One stream waits for another of the same process, which waits for the first: no other thread is
 * asleep, so this can only be suspected.
 */
START_TEST(deadlock_of_two_streams)
{
    aclrtEvent a, b, c;
    Npud__Report *r;

    if (!need_one_server(__func__, "such a deadlock is told after a second of its life"))
        return;
    open_device();
    OK(aclrtCreateEventWithFlag(&a, ACL_EVENT_SYNC));
    OK(aclrtCreateEventWithFlag(&b, ACL_EVENT_SYNC));
    OK(aclrtCreateEvent(&c));
    OK(aclrtStreamWaitEvent(stream, a));
    OK(aclrtStreamWaitEvent(other, b));
    OK(aclrtRecordEvent(b, stream));
    OK(aclrtRecordEvent(a, other));
    OK(aclrtRecordEvent(c, other));
    OK(aclrtStreamWaitEvent(third, c));
    r = ask_until(deadlock_found);
    ck_assert_str_eq(r->deadlocks[0]->certainty, "suspected");
    ck_assert_uint_eq(r->deadlocks[0]->processes, 1);
    ck_assert_str_eq(find_row(r, id_of(stream), NULL)->state, "suspected deadlock 1");
    ck_assert_int_eq(find_row(r, id_of(stream), NULL)->blocker_stream, id_of(other));
    ck_assert_str_eq(find_row(r, id_of(third), NULL)->state, "behind suspected deadlock 1");
    npud__report__free_unpacked(r, NULL);
    OK(aclrtRecordEvent(a, NULL));
    OK(aclrtSynchronizeDevice());
    OK(aclrtResetDevice(0));
}
END_TEST

/* --- npuctl --- */

/* --- memory of several processes --- */

static int keys[2];

static int await_word(uint64_t *word)
{
    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    return aclrtSynchronizeStream(stream);
}

/* Shares the word for which its stream waits, and has nothing else to do. */
static int share_and_wait(void *arg)
{
    char key[65];
    uint64_t *words;

    (void)arg;
    open_device();
    OK(aclrtMalloc((void **)&words, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(words, 4096, 0, 4096));
    OK(aclrtIpcMemGetExportKey(words, 4096, key, sizeof(key),
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    ck_assert_int_eq(write(keys[1], key, sizeof(key)), sizeof(key));
    return await_word(words);
}

static uint64_t *import_words(void)
{
    char key[65];
    uint64_t *words;

    ck_assert_int_eq(read(keys[0], key, sizeof(key)), sizeof(key));
    OK(aclrtIpcMemImportByKey((void **)&words, key, 0));
    return words;
}

static int import_and_wait(void *arg)
{
    (void)arg;
    open_device();
    return await_word(import_words() + 1);
}

static bool two_wait(const Npud__Report *r)
{
    return r->n_waits == 2;
}

/* Another process has the memory: what waits for it is not stuck. */
START_TEST(no_deadlock_where_another_process_may_write)
{
    const Npud__WaitRow *row;
    uint64_t *words;
    Npud__Report *r;
    pid_t pid;

    ck_assert_int_eq(pipe(keys), 0);
    pid = child_start(share_and_wait, NULL);
    open_device();
    words = import_words();
    r = ask_until(two_wait);
    ck_assert_msg(r->n_deadlocks == 0, "%s", r->n_deadlocks ? r->deadlocks[0]->certainty : "");
    row = r->waits[r->waits[0]->stream < 0];
    ck_assert_int_eq(row->pid, pid);
    ck_assert_int_eq(row->blocker_pid, getpid());
    npud__report__free_unpacked(r, NULL);
    OK(aclrtValueWrite(words, 1, 0, stream));
    child_expect_ok(pid);
}
END_TEST

/* Each has the memory, and both wait for words of it. A third process might yet import it. */
START_TEST(deadlock_over_shared_memory)
{
    pid_t pid[2];
    Npud__Report *r;

    if (!need_one_server(__func__, "such a deadlock is told after a second of its life"))
        return;
    ck_assert_int_eq(pipe(keys), 0);
    pid[0] = child_start(share_and_wait, NULL);
    pid[1] = child_start(import_and_wait, NULL);
    r = ask_until(deadlock_found);
    ck_assert_uint_eq(r->n_waits, 4);
    ck_assert_uint_eq(r->n_deadlocks, 1);
    ck_assert_str_eq(r->deadlocks[0]->certainty, "suspected");
    npud__report__free_unpacked(r, NULL);
    child_kill(pid[0]);
    ck_assert_int_eq(result_of(pid[1]), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR & 255);
}
END_TEST

START_TEST(watch_prints_again_and_again)
{
    const char *dir = getenv("NPUD_BINDIR");
    char command[256], line[4096];
    FILE *f;

    snprintf(command, sizeof(command), "exec %s/npuctl --json --watch=0.01 status",
             dir ? dir : "build");
    f = popen(command, "re");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
        ck_assert_ptr_nonnull(strstr(line, "{\"status\":{\"version\""));
    }
    npud_kill();
    while (fgets(line, sizeof(line), f))
        ;
    ck_assert_int_eq(WEXITSTATUS(pclose(f)), 3);
}
END_TEST

START_TEST(wrong_usage)
{
    npuctl_says("kill", 2, "needs the number of a session");
    npuctl_says("kill x", 2, "no number of a session");
    npuctl_says("kill 0", 2, "no number of a session");
    npuctl_says("kill 1 2", 2, "unexpected argument");
    npuctl_says("kill 12345", 1, "there is no session 12345");
    npuctl_says("--watch=0 status", 2, "--watch wants");
    npuctl_says("--watch=x status", 2, "--watch wants");
    npuctl_says("--watch=1 kill 3", 2, "goes with reports");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waits");
    TCase *tc = suite_case(suite, "waits", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, every_stream_and_thread_that_waits_has_a_row);
    tcase_add_test(tc, many_threads);
    tcase_add_test(tc, threads_that_ask_npud_for_a_record_are_shown);
    tcase_add_test(tc, deadlock_of_two_processes);
    tcase_add_test(tc, deadlock_beside_threads_of_the_library);
    tcase_add_test(tc, deadlock_that_another_thread_could_end);
    tcase_add_test(tc, no_deadlock_with_a_time_limit);
    tcase_add_test(tc, deadlock_of_two_streams);
    tcase_add_test(tc, no_deadlock_where_another_process_may_write);
    tcase_add_test(tc, deadlock_over_shared_memory);
    tcase_add_test(tc, watch_prints_again_and_again);
    tcase_add_test(tc, wrong_usage);
    return run_suite(suite);
}
