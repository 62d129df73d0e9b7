/*
 * npuctl explain and who: each root cause is made by real processes, and named across them.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"
#include "tests/common/second_user.h"
#include "tests/e2e/queue_kit.h"

/* What the recorder does, with its stream held before the record. */
enum then { THEN_COMPUTE, THEN_SLEEP, THEN_NOTHING_HELD };

static int handles[2][2];

/* Has the text all of these words in this order? */
static bool is_in_order(const char *text, const char *const *words)
{
    for (; text && *words; words++) {
        text = strstr(text, *words);
        text = text ? text + strlen(*words) : NULL;
    }
    return text != NULL;
}

/* Until npuctl says so: the processes get to where they wait in their own time. */
static void says_at_last(const char *arguments, const char *const *words)
{
    uint64_t give_up = now_ns() + UINT64_C(30000000000);

    for (;;) {
        int status;
        char *text = npuctl(arguments, &status);
        bool met = status == 0 && is_in_order(text, words);

        ck_assert_msg(met || now_ns() < give_up, "status %d, no \"%s\" in:\n%s", status, words[0],
                      text);
        free(text);
        if (met)
            return;
    }
}
#define SAYS(arguments, ...) says_at_last(arguments, (const char *const[]){__VA_ARGS__, NULL})

static const char *words_of(char *buf, size_t size, const char *format, pid_t pid)
{
    snprintf(buf, size, format, (int)pid);
    return buf;
}
#define WORDS(format, pid) words_of((char[96]){0}, 96, format, pid)

static void give_handle(int fd, aclrtEvent event)
{
    aclrtIpcEventHandle handle;

    OK(aclrtIpcGetEventHandle(event, &handle));
    ck_assert_int_eq(write(fd, &handle, sizeof(handle)), sizeof(handle));
}

static aclrtEvent take_handle(int fd)
{
    aclrtIpcEventHandle handle;
    aclrtEvent event;

    ck_assert_int_eq(read(fd, &handle, sizeof(handle)), sizeof(handle));
    OK(aclrtIpcOpenEventHandle(handle, &event));
    return event;
}

static int recorder(void *arg)
{
    enum then then = *(const enum then *)arg;
    aclrtStream stream, other;
    aclrtEvent event;

    streams_open(&stream, &other);
    if (then != THEN_NOTHING_HELD)
        stream_hold(stream);
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(event, stream));
    give_handle(handles[0][1], event);
    while (then == THEN_COMPUTE)
        __asm__ volatile("");
    for (;;)
        pause();
}

static int waiter(void *arg)
{
    (void)arg;
    session_open();
    return aclrtSynchronizeEvent(take_handle(handles[0][0])) == ACL_SUCCESS ? 0 : 1;
}

/* A process that waits for a record of another. */
static void start_pair(enum then *then, pid_t pid[2])
{
    ck_assert_int_eq(pipe(handles[0]), 0);
    pid[0] = child_start(recorder, then);
    pid[1] = child_start(waiter, NULL);
    EVENTUALLY(npud_lists_sleeper(pid[1], "aclrtSynchronizeEvent"), "the waiter does not wait");
}

/* The chain from the waiter over the recorder's stream to its process. */
static void expect_explained(const pid_t pid[2], const char *kind, const char *state,
                             const char *todo)
{
    SAYS("explain", "process ", WORDS("%d (", pid[1]), "aclrtSynchronizeEvent has waited ",
         "for record 1 of IPC event", WORDS("blocked by process %d (", pid[0]), "stream ",
         "cause (", kind, WORDS("): process %d (", pid[0]), state, "waits for a record of event ",
         WORDS(": process %d: not submitted yet", pid[0]), "to do: ", todo,
         "waits for this cause: 2, the longest ");
    SAYS("--json explain", "{\"explain\":[{\"cause\":1,\"waits\":2,", "\"kind\":\"", kind,
         WORDS("\"pid\":%d,", pid[0]), "\"links\":[", "\"cause\":1,\"link\":1,",
         WORDS("\"pid\":%d,", pid[1]), "\"link\":2,", WORDS("\"pid\":%d,", pid[0]));
}

START_TEST(a_process_that_computes)
{
    enum then then = THEN_COMPUTE;
    pid_t pid[2];

    start_pair(&then, pid);
    expect_explained(pid, "computes", "computes", "gdb -batch -p ");
    child_kill(pid[0]);
    child_reap(pid[1]);
}
END_TEST

START_TEST(a_process_that_sleeps_elsewhere_and_one_that_is_stopped)
{
    enum then then = THEN_SLEEP;
    pid_t pid[2];

    start_pair(&then, pid);
    expect_explained(pid, "sleeps", "sleeps outside of the library", "gdb -batch -p ");
    child_stop(pid[0]);
    expect_explained(pid, "stopped", "is stopped by a signal", WORDS("kill -CONT %d", pid[0]));
    kill(pid[0], SIGCONT);
    expect_explained(pid, "sleeps", "sleeps outside of the library", "npuctl kill ");
    child_kill(pid[0]);
    child_reap(pid[1]);
}
END_TEST

/* --- what only the process itself can do --- */

enum unserved { NEVER_SERVED, SERVED_ONCE, FUNCTION_HANGS, EXCEPTIONS_NOT_TAKEN, UNSERVED };

static void hang(void *arg)
{
    (void)arg;
    pause();
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void hang_in_exception(aclrtExceptionInfo *info)
{
    (void)info;
    pause();
}

static int unserved(void *arg)
{
    enum unserved how = *(const enum unserved *)arg;
    aclrtStream stream, other;

    streams_open(&stream, &other);
    if (how == FUNCTION_HANGS) {
        OK(aclrtLaunchHostFunc(stream, hang, NULL));
    } else if (how == EXCEPTIONS_NOT_TAKEN) {
        OK(aclrtSetExceptionInfoCallback(hang_in_exception));
        for (int i = 0; i < 200; i++)
            OK(aclnpudLaunchDelay(0, 507015, stream));
    } else {
        OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
        if (how == SERVED_ONCE) {
            OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, stream));
            OK(aclrtProcessReport(-1));
        }
        OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    }
    for (;;)
        pause();
}

START_TEST(what_only_the_process_can_do)
{
    enum unserved how = (enum unserved)_i;
    pid_t pid = child_start(unserved, &how);

    if (how == NEVER_SERVED)
        SAYS("explain", WORDS("process %d (", pid), "stream ", "for callback 1 to return",
             "cause (callback): stream ", "no thread has come for it yet",
             "to do: call aclrtProcessReport in the thread of process ", "aclrtSubscribeReport",
             "npuctl kill ");
    else if (how == SERVED_ONCE)
        SAYS("explain", WORDS("process %d (", pid), "for callback 2 to return",
             "cause (callback): stream ", WORDS("process %d, thread ", pid),
             WORDS("to do: call aclrtProcessReport in thread %d of process ", pid), "npuctl kill ");
    else if (how == FUNCTION_HANGS)
        SAYS("explain", WORDS("process %d (", pid), "to return", "cause (callback): stream ",
             WORDS("to do: find where the function is that process %d has launched", pid));
    else
        SAYS("explain", WORDS("process %d (", pid), "for its process to take exceptions",
             "cause (callback): stream ", WORDS("process %d: its exception callback", pid),
             "to do: let the exception callback of process ");
    SAYS("--json explain", "\"kind\":\"callback\"");
    npuctl_says("waits", 0,
                how == EXCEPTIONS_NOT_TAKEN ? "its process to take exceptions" : "to return");
    child_kill(pid);
}
END_TEST

/* --- words of registered memory --- */

enum beside { SLEEPS_IN_THE_LIBRARY, SLEEPS_ELSEWHERE, BESIDES };

static int waits_for_own_word(void *arg)
{
    static _Alignas(4096) uint64_t word[512];
    enum beside beside = *(const enum beside *)arg;
    aclrtStream stream, other;
    void *device;

    streams_open(&stream, &other);
    OK(aclrtHostRegister(word, sizeof(word), ACL_HOST_REGISTER_MAPPED, &device));
    OK(aclrtValueWait(&word[3], 5, ACL_STREAM_WAIT_VALUE_EQ, stream));
    if (beside == SLEEPS_IN_THE_LIBRARY)
        OK(aclrtSynchronizeStream(stream));
    for (;;)
        pause();
}

/* The library's thread looks at it: no callback of the program is to run. */
START_TEST(a_word_of_registered_memory)
{
    enum beside beside = (enum beside)_i;
    pid_t pid = child_start(waits_for_own_word, &beside);
    int status;
    char *text;

    SAYS("explain", WORDS("process %d (", pid), "for the word at 0x", " of registered memory == 5",
         "cause (word): stream ", WORDS("process %d: not written yet", pid),
         WORDS("to do: let process %d write the word", pid), "npud-copy", "npuctl kill ");
    SAYS("--json explain", "\"kind\":\"word\"");
    SAYS("waits", "of registered memory == 5", WORDS("process %d: not written yet", pid));
    SAYS("--json waits", "\"kind\":\"value\"");
    text = npuctl("explain", &status);
    ck_assert_msg(!strstr(text, "callback") && !strstr(text, "aclrtProcessReport"), "%s", text);
    free(text);
    text = npuctl("waits", &status);
    ck_assert_msg(!strstr(text, "in npud-copy"), "%s", text);
    free(text);
    child_kill(pid);
}
END_TEST

/* --- threads that are to run callbacks --- */

enum servant { COMES_NEVER, WAITS_FOR_ITSELF, RUNS_IT, SERVANTS };

static void *sleep_outside(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

static int has_servant(void *arg)
{
    enum servant how = *(const enum servant *)arg;
    pthread_t thread = pthread_self();
    aclrtStream stream, other;

    streams_open(&stream, &other);
    if (how == COMES_NEVER)
        pthread_create(&thread, NULL, sleep_outside, NULL);
    OK(aclrtSubscribeReport((uint64_t)thread, stream));
    OK(aclrtLaunchCallback(how == RUNS_IT ? hang : do_nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    return how == RUNS_IT ? aclrtProcessReport(-1) : aclrtSynchronizeStream(stream);
}

/* What ends it is told, also where all of the process waits for it. */
START_TEST(a_thread_that_is_to_run_a_callback)
{
    enum servant how = (enum servant)_i;
    pid_t pid;

#ifdef __SANITIZE_THREAD__ /* its runtime has a thread in the process that could do anything */
    if (how == WAITS_FOR_ITSELF)
        return;
#endif
    pid = child_start(has_servant, &how);
    if (how == COMES_NEVER) {
        EVENTUALLY(npud_lists_sleeper(pid, "aclrtSynchronizeStream"), "it does not wait");
        /* A suspicion takes a second. */
        SAYS("explain", "blocked by process ", "cause (callback): stream ",
             "no thread has come for it yet",
             "to do: call aclrtProcessReport in the thread of process ", "aclrtSubscribeReport");
    } else if (how == WAITS_FOR_ITSELF) {
        SAYS("explain", "cause (deadlock): a deadlock (certain) of 1 process: ",
             "to do: call aclrtProcessReport in the thread of process ",
             "; or end the session of a member: npuctl kill ");
    } else {
        SAYS("explain", "cause (callback): stream ", WORDS("thread %d: it runs a callback", pid),
             WORDS("to do: find where the callback is that runs in thread %d of process ", pid),
             WORDS("gdb -batch -p %d", pid));
    }
    child_kill(pid);
}
END_TEST

static int has_idle_worker(void *arg)
{
    static _Alignas(4096) uint64_t word[512];
    aclrtStream stream, other;
    void *mapped;

    (void)arg;
    streams_open(&stream, &other);
    OK(aclrtHostRegister(word, sizeof(word), ACL_HOST_REGISTER_MAPPED, &mapped));
    OK(aclrtValueWrite(&word[3], 5, 0, stream));
    OK(aclrtLaunchHostFunc(stream, do_nothing, NULL));
    OK(aclrtSynchronizeStream(stream));
    turn_tell(&to_parent);
    for (;;)
        pause();
}

START_TEST(an_idle_thread_of_the_library_waits_for_nothing)
{
    pid_t pid;
    char *text;
    int status;

    turns_init();
    pid = child_start(has_idle_worker, NULL);
    turn_await(&to_parent);
    SAYS("explain", "Nothing waits in npud.");
    EVENTUALLY(proc_sleeps(pid), "a thread of the library runs");
    text = npuctl("--json waits", &status);
    ck_assert_msg(strstr(text, "\"waits\":[]"), "%s", text);
    free(text);
    child_kill(pid);
}
END_TEST

START_TEST(an_injected_stall)
{
    enum then then = THEN_NOTHING_HELD;
    pid_t pid[2];

    npuctl_says("inject stall --kind=ipc-record", 0, "1");
    start_pair(&then, pid);
    SAYS("explain", WORDS("process %d (", pid[1]), WORDS("blocked by process %d (", pid[0]),
         "cause (stall): rule 1 of npuctl inject holds stream ", WORDS("of process %d", pid[0]),
         "to do: clear the rule: npuctl inject clear 1\n");
    SAYS("--json explain", "\"kind\":\"stall\"", WORDS("\"pid\":%d,", pid[0]));
    npuctl_says("inject clear 1", 0, "");
    child_expect_ok(pid[1]);
    npuctl_says("explain", 0, "Nothing waits in npud.");
    npuctl_says("--json explain", 0, "{\"explain\":[],\"links\":[]}\n");
    child_kill(pid[0]);
}
END_TEST

/* Each of two processes records only after the other has. */
static int one_side(void *arg)
{
    int me = *(const int *)arg;
    aclrtStream stream, other;
    aclrtEvent mine;

    streams_open(&stream, &other);
    stream_hold(stream);
    OK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    OK(aclrtRecordEvent(mine, stream));
    give_handle(handles[me][1], mine);
    return aclrtSynchronizeEvent(take_handle(handles[!me][0])) == ACL_SUCCESS ? 0 : 1;
}

START_TEST(a_deadlock)
{
    static int me[2] = {0, 1};
    pid_t pid[2];

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pipe(handles[i]), 0);
    for (int i = 0; i < 2; i++)
        pid[i] = child_start(one_side, &me[i]);
    SAYS("explain", "cause (deadlock): a deadlock (", ") of 2 processes: process ", " waits for ",
         "to do: end the session of a member: npuctl kill ",
         "waits for this cause: 4, the longest ");
    SAYS("--json explain", "\"waits\":4,", "\"kind\":\"deadlock\"");
    child_kill(pid[0]);
    child_reap(pid[1]);
}
END_TEST

/* --- queues --- */

/* shared */
static uint32_t *queue_id;
static pid_t *consumer_pid;

static int producer(void *arg)
{
    (void)arg;
    session_open();
    *queue_id = create_queue(2);
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(acltdtGrantQueue(*queue_id, *consumer_pid, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
    turn_tell(&to_parent);
    for (uint64_t i = 0; i < 3; i++)
        OK(acltdtEnqueue(*queue_id, buffer_of(i), -1));
    return 0;
}

static int consumer(void *arg)
{
    uint32_t rights;

    (void)arg;
    session_open();
    OK(acltdtAttachQueue(*queue_id, -1, &rights));
    turn_tell(&to_parent);
    for (;;)
        pause();
}

/* One thread of one process, which has all rights to its queue. */
static int lonely_producer(void *arg)
{
    uint32_t qid;

    (void)arg;
    session_open();
    qid = create_queue(2);
    for (uint64_t i = 0; i < 3; i++)
        OK(acltdtEnqueue(qid, buffer_of(i), -1));
    return 0;
}

START_TEST(a_full_queue_that_no_other_process_reads)
{
    pid_t pid = child_start(lonely_producer, NULL);

    SAYS("explain", WORDS("process %d (", pid), "acltdtEnqueue has waited ", "for room in queue ",
         "cause (queue-full): queue ",
         " holds 2 of 2 messages, and no other process that is "
         "attached may dequeue\n",
         "to do: start or attach a process that may dequeue");
    SAYS("--json explain", "\"kind\":\"queue-full\"");
    child_kill(pid);
}
END_TEST

START_TEST(a_full_queue_whose_reader_does_not_read)
{
    pid_t writer, reader;

    queue_id = child_share(sizeof(*queue_id));
    consumer_pid = child_share(sizeof(*consumer_pid));
    turns_init();
    writer = child_start(producer, NULL);
    turn_await(&to_parent);
    reader = child_start(consumer, NULL);
    *consumer_pid = reader;
    turn_tell(&to_child);
    turn_await(&to_parent);
    turn_await(&to_parent);
    SAYS("explain", WORDS("process %d (", writer), "acltdtEnqueue has waited ",
         "cause (queue-full)", " holds 2 of 2 messages, and process ", WORDS("%d (", reader),
         "which may dequeue, as may 1 more, does not: it sleeps outside of the library",
         WORDS("gdb -batch -p %d", reader));
    SAYS("--json explain", "\"kind\":\"queue-full\"", WORDS("\"pid\":%d", reader));
    child_stop(reader);
    SAYS("explain", WORDS("cause (stopped): process %d (", reader), "for room in queue");
    SAYS("--json who queue 0", WORDS("\"pid\":%d", reader), "\"object\":\"queue 0 of user ",
         "\"uses\":\"may dequeue\"");
    SAYS("who queue 0", "may manage dequeue enqueue, thread ", " in acltdtEnqueue has waited ",
         " ms for room in queue 0");
    child_kill(writer);
    child_kill(reader);
}
END_TEST

/* --- who --- */

START_TEST(who_uses_a_device_and_an_event)
{
    enum then then = THEN_SLEEP;
    pid_t pid[2];

    start_pair(&then, pid);
    SAYS("--json who device 0", "{\"who\":[{\"session\":", WORDS("\"pid\":%d,", pid[0]),
         "\"object\":\"device 0\",", "streams");
    npuctl_says("--json who device 1", 0, "{\"who\":[]}\n");
    /* Rows are in the order of the sessions, and either process may have come first. */
    SAYS("who event 1", "SESSION", "OBJECT", WORDS(" %d ", pid[0]), " IPC event 1 ",
         "has it open, pending  ");
    SAYS("who event 1", WORDS(" %d ", pid[1]), " IPC event 1 ", "has it open, pending, thread ",
         " in aclrtSynchronizeEvent has waited ", " ms for record 1 of IPC event 1");
    npuctl_says("who", 2, "who needs device, queue or event");
    npuctl_says("who stream 1", 2, "who takes device, queue or event, not \"stream\"");
    npuctl_says("who device 99", 1, "there is no device 99: npuctl devices lists them");
    npuctl_says("who queue 7", 1, "there is no queue 7: npuctl queues lists them");
    npuctl_says("who event 99", 1, "there is no IPC event 99: npuctl events lists them");
    npuctl_says("who device x", 2, "no number: \"x\"");
    npuctl_says("who device", 2, "who needs a number after \"device\"");
    npuctl_says("who device 0 1", 2, "unexpected argument \"1\"");
    npuctl_says("explain 1", 2, "unexpected argument \"1\"");
    npuctl_says("--kind=copy explain", 2, "this goes with inject");
    child_kill(pid[0]);
    child_reap(pid[1]);
}
END_TEST

/* --- for a user that is no administrator --- */

static int second_waiter(void *arg)
{
    second_user_become();
    return waiter(arg);
}

static int second_recorder(void *arg)
{
    second_user_become();
    return recorder(arg);
}

/* Runs npuctl as the second user. The processes of a pair: who records, and who waits. */
static int second_asks(void *arg)
{
    const pid_t *pid = arg;
    int status;
    char *text;

    second_user_become();
    SAYS("explain", "is for administrators", WORDS("process %d (", pid[3]),
         WORDS("blocked by process %d (", pid[2]), WORDS("cause (sleeps): process %d (", pid[2]),
         WORDS("or end its session: kill %d\n", pid[2]));
    SAYS("explain", WORDS("process %d (", pid[1]), "for record 1 of IPC event",
         WORDS("cause (other-user): process %d is of another user", pid[0]),
         WORDS("ask an administrator for what npuctl explain says of the wait of process %d",
               pid[1]));
    SAYS("--json explain", "\"kind\":\"other-user\"", WORDS("\"pid\":%d,", pid[0]));
    text = npuctl("explain", &status);
    ck_assert_int_eq(status, 0);
    ck_assert_msg(!strstr(text, WORDS("blocked by process %d", pid[0])), "%s", text);
    ck_assert_msg(!strstr(text, "npuctl kill"), "%s", text);
    free(text);
    npuctl_says("who device 0", 3, "refuses this user");
    return 0;
}

START_TEST(a_user_sees_the_chains_of_its_own_processes)
{
    enum then then = THEN_SLEEP;
    pid_t pid[4];

    if (!need_root(__func__))
        return;
    npud_start((const char *const[]){"--devices", "1", "--set=ipc.scope=any", NULL});
    second_user_let_in();
    for (unsigned i = 0; i < 4; i += 2) {
        ck_assert_int_eq(pipe(handles[0]), 0);
        pid[i] = child_start(i == 0 ? recorder : second_recorder, &then);
        pid[i + 1] = child_start(second_waiter, NULL);
        EVENTUALLY(npud_lists_sleeper(pid[i + 1], "aclrtSynchronizeEvent"),
                   "the waiter does not wait");
    }
    child_expect_ok(child_start(second_asks, pid));
    for (unsigned i = 0; i < 4; i += 2) {
        child_kill(pid[i]);
        child_reap(pid[i + 1]);
    }
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("explain");
    TCase *tc = suite_case(suite, "explain", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, a_process_that_computes);
    tcase_add_test(tc, a_process_that_sleeps_elsewhere_and_one_that_is_stopped);
    tcase_add_loop_test(tc, what_only_the_process_can_do, 0, UNSERVED);
    tcase_add_loop_test(tc, a_word_of_registered_memory, 0, BESIDES);
    tcase_add_loop_test(tc, a_thread_that_is_to_run_a_callback, 0, SERVANTS);
    tcase_add_test(tc, an_idle_thread_of_the_library_waits_for_nothing);
    tcase_add_test(tc, an_injected_stall);
    tcase_add_test(tc, a_deadlock);
    tcase_add_test(tc, a_full_queue_that_no_other_process_reads);
    tcase_add_test(tc, a_full_queue_whose_reader_does_not_read);
    tcase_add_test(tc, who_uses_a_device_and_an_event);
    tc = suite_case(suite, "own", 60, NULL, NULL);
    tcase_add_test(tc, a_user_sees_the_chains_of_its_own_processes);
    return run_suite(suite);
}
