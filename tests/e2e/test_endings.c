/*
 * Calls that wait, and what ends or disturbs them, as one matrix. A process, the waiter, has a
 * thread in each call that can wait (the rows); then one thing happens (a column); and the table
 * says what each call is to return. It returns at once, with that code and a sentence that names
 * the cause; or it goes on to wait, and returns well when what it waits for has come. Afterwards
 * the waiter works on, and npud has nothing left. All of it over each kind of device.
 *
 * With ENDING=N in the environment, the column N alone.
 *
 * Skipped under chaos: what dies here is the test's own choice.
 * Runs long: 20 s.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wire/npud.pb-c.h"
#include "tests/common/actor.h"
#include "tests/common/chaos.h"
#include "tests/common/nested.h"
#include "waiting_calls.h"

#define ANSWER_MS 120000
#define HANGS_NS  UINT64_C(10000000000)

/* What calls return. */
#define LOST       ACL_ERROR_RT_SOCKET_CLOSE
#define REMOTE     ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define NOBODY     ACL_ERROR_RT_DRV_INTERNAL_ERROR
#define ABORTED    ACL_ERROR_RT_STREAM_ABORT
#define DEVICE     ACL_ERROR_RT_DEVICE_TASK_ABORT
#define HEART      ACL_ERROR_RT_LOST_HEARTBEAT
#define GONE       ACL_ERROR_RT_INVALID_HANDLE
#define MEMORY     ACL_ERROR_RT_SYS_DMA
#define NO_CONTEXT ACL_ERROR_RT_CONTEXT_NULL
#define NO_THREAD  ACL_ERROR_RT_THREAD_SUBSCRIBE
#define FAILED     ACL_ERROR_RT_AICORE_EXCEPTION
#define STOPPED    ACL_ERROR_FAILURE
#define BROKEN_OFF ACLNPUD_ERROR_INTERRUPTED

enum { WAITER, PEER, ACTORS };

enum mode { PLAIN, COPIERS, STRICT, AWAY, MODES };

static struct actor actor[ACTORS];

/* --- directing --- */

static int obey(int fd, void *unused)
{
    void (*order)(void);

    (void)unused;
    while (recv(fd, &order, sizeof(order), 0) == sizeof(order)) {
        order();
        if (send(fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order))
            return 1;
    }
    return 0;
}

static void in(int who, void (*order)(void))
{
    ck_assert(actor_tell(&actor[who], &order, sizeof(order)));
    ck_assert_msg(actor_answer(&actor[who], &order, sizeof(order), ANSWER_MS) == sizeof(order),
                  "the %s does not answer", who == PEER ? "peer" : "waiter");
}

/* --- what happens, in the waiter --- */

static _Atomic bool interrupts;

static int32_t check_interrupt(void *arg, aclnpudInterruptMoment moment)
{
    (void)arg;
    (void)moment;
    return atomic_load(&interrupts);
}

static void ignore_signal(int number)
{
    (void)number;
}

static void signal_calls(void)
{
    for (int i = 0; i < ROWS; i++)
        if (cells[i].begun)
            pthread_kill(cells[i].thread, SIGUSR1);
}

static void interrupt_calls(void)
{
    atomic_store(&interrupts, true);
    signal_calls();
}

/* Of each row that may share its stream, in its context. */
static void for_streams(aclError (*fn)(aclrtStream))
{
    for (int i = 0; i < ROWS; i++) {
        if (!cells[i].begun || !cells[i].stream || i == COPY || i == DESTROY || i == CONTEXT ||
            i == REPORT)
            continue;
        if (i == FUNCTION && fn == aclrtDestroyStreamForce)
            sem_post(&cells[i].let_go); /* one that runs is waited for */
        OK(aclrtSetCurrentContext(i == DEVICE_1 || i == DEVICE_1_T ? mine.second : mine.primary));
        OK(fn(cells[i].stream));
    }
    OK(aclrtSetCurrentContext(mine.primary));
}

#define ORDER(name, ...)                                                                           \
    static void name(void)                                                                         \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

ORDER(abort_streams, for_streams(aclrtStreamAbort))
ORDER(stop_streams, for_streams(aclrtStreamStop))
ORDER(destroy_streams, for_streams(aclrtDestroyStreamForce))
ORDER(abort_device, OK(aclrtDeviceTaskAbort(0, 0)))
ORDER(finalize, OK(aclFinalize()))

static void destroy_objects(void)
{
    OK(aclrtDestroyEvent(cells[EVENT].event));
    OK(aclrtDestroyEvent(cells[EVENT_T].event));
    OK(aclrtDestroyEvent(cells[OTHER].event));
    OK(aclmdlRIAbort(cells[MODEL].model));
    OK(aclrtDestroyNotify(mine.notify));
    OK(aclrtFree(mine.own));
    OK(aclrtIpcMemClose(owed->memory));
    OK(acltdtStopChannel(cells[RECEIVE].channel));
    OK(acltdtStopChannel(cells[SEND].channel));
}

/* One that fails stops all streams of its context. */
static void fail_task(void)
{
    aclrtStream failing;

    OK(aclrtCreateStream(&failing));
    OK(aclrtSetStreamFailureMode(failing, ACL_STOP_ON_FAILURE));
    OK(aclnpudLaunchDelay(0, FAILED, failing));
    FAILS(FAILED, aclrtSynchronizeStream(failing));
}

static pthread_t resetter;

static void *reset_in_thread(void *force)
{
    OK(force ? aclrtResetDeviceForce(0) : aclrtResetDevice(0));
    return NULL;
}

static void begin_reset(const char *call, void *force)
{
    ck_assert_int_eq(pthread_create(&resetter, NULL, reset_in_thread, force), 0);
    EVENTUALLY(npud_lists_sleeper(getpid(), call), "%s does not wait", call);
}

ORDER(reset, begin_reset("aclrtResetDevice", NULL))
ORDER(reset_by_force, begin_reset("aclrtResetDeviceForce", &resetter))

static void fork_and_reap(void)
{
    pid_t pid = fork_when_quiet();
    int status;

    if (pid == 0)
        _exit(aclInit(NULL) != 0 || aclrtSetDevice(0) != 0 || aclFinalize() != 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

/* --- what happens, in the peer --- */

/* The child, which has all of its descriptors, lives on until the test is over. */
static void fork_a_child(void)
{
    owed->child = fork_when_quiet();
    while (owed->child == 0) {
        alarm(ANSWER_MS / 1000);
        pause();
    }
}

ORDER(abort_held, OK(aclrtStreamAbort(mine.held)))
ORDER(stop_held, OK(aclrtStreamStop(mine.held)))
ORDER(destroy_held, OK(aclrtDestroyStreamForce(mine.held)))

/* --- what happens: columns --- */

static void end_session_of(int who)
{
    char command[64];

    snprintf(command, sizeof(command), "kill %llu",
             (unsigned long long)npud_session_of(actor[who].pid));
    npuctl_says(command, 0, "");
}

/* The process that does the device work of another one; 0: there is none. */
static pid_t executor_of(pid_t pid)
{
    uint64_t session = npud_session_of(pid);
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__EXECUTORS);
    pid_t executor = 0;

    for (size_t i = 0; i < r->n_executors; i++)
        if (r->executors[i]->session == session)
            executor = r->executors[i]->pid;
    npud__report__free_unpacked(r, NULL);
    return executor;
}

static pid_t executor;

ORDER(executor_killed, kill(executor, SIGKILL))
ORDER(peer_executor_killed, kill(executor_of(owed->peer), SIGKILL))
ORDER(nothing)
ORDER(peer_killed, actor_kill(&actor[PEER]))
ORDER(peer_forks, in(PEER, fork_a_child); actor_kill(&actor[PEER]))
ORDER(peer_stops, actor_stop(&actor[PEER]); in(WAITER, signal_calls); actor_continue(&actor[PEER]))
ORDER(lost, npuctl_says("inject lose-device --device 0", 0, ""))

/* It learns afterwards what has happened meanwhile. */
static void while_stopped(void (*act)(void))
{
    actor_stop(&actor[WAITER]);
    act();
    actor_continue(&actor[WAITER]);
}

ORDER(stopped_peer_killed, while_stopped(peer_killed))
ORDER(stopped_npud_killed, while_stopped(npud_kill))
ORDER(stopped_server_killed, while_stopped(npud_kill_server))
ORDER(peer_ended, end_session_of(PEER))
ORDER(ended, end_session_of(WAITER))
ORDER(objects, in(WAITER, destroy_objects); in(PEER, owed_destroy_queues))
ORDER(upgrade, npuctl_says("upgrade", 0, "serves"))

/* clang-format off */
#define ENDS        (-1)               /* at once, well */
#define LATER(code) (1000000 + (code)) /* when it is released */
#define MAYBE(code) (2000000 + (code)) /* at once; of two calls one is told, the other ends well */

/* By what they wait for. */
#define OF_TASKS(code)                                                                             \
    [STREAM] = code, [STREAM_T] = code, [WORD] = code, [NOTIFY] = code, [COUNT] = code,            \
    [LAUNCHED] = code, [FAR] = code, [THEIR_RECORD] = code, [THEIR_WORD] = code,                   \
    [THEIR_NOTIFY] = code
#define OF_RECORDS(code) [OTHER] = code, [EVENT] = code, [EVENT_T] = code
#define OF_ROOM(code)    [FILL] = code, [BEHIND] = code
#define OF_DEVICE_1(code) [DEVICE_1] = code, [DEVICE_1_T] = code
#define OF_QUEUES(code)  [TAKE] = code, [TAKE_T] = code, [PUT] = code, [PUT_T] = code
#define OF_PEER(code)                                                                              \
    [RECORD] = code, [RECORD_T] = code, [THEIR_RECORD] = code, [THEIR_NOTIFY] = code

static const struct column {
    const char *name;
    int who;                /* ACTORS: the test itself does it */
    void (*act)(void);
    bool away, restarts;    /* only over devices that are away; npud comes back */
    int32_t limit;          /* of calls with one, in ms; 0: long */
    bool peer_ends, ends;   /* it owes nothing any more; the waiter's session ends */
    int all;                /* what each call returns at once, but for: */
    int code[ROWS];         /* the same; 0: it goes on to wait, and returns well when released */
} columns[] = {
    {"nothing happens", ACTORS, nothing},
    {"limits elapse", ACTORS, nothing, .limit = 20,
     .code = {[STREAM_T] = ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
              [DEVICE_1_T] = ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
              [EVENT_T] = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
              [RECORD_T] = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
              [TAKE_T] = ACL_ERROR_RT_QUEUE_EMPTY, [PUT_T] = ACL_ERROR_RT_QUEUE_FULL}},
    /* A wait for discarded work gets 107023, by way of an event, too. */
    {"streams are aborted", WAITER, abort_streams,
     .code = {OF_TASKS(ABORTED), OF_RECORDS(ABORTED), OF_ROOM(ABORTED), OF_DEVICE_1(ABORTED),
              [FUNCTION] = ABORTED}},
    /* The task that is executed, the wait, ends with an error; what is queued behind is done. */
    {"streams are stopped", WAITER, stop_streams,
     .code = {OF_TASKS(ABORTED), OF_RECORDS(ENDS), OF_ROOM(ENDS), OF_DEVICE_1(MAYBE(ABORTED)),
              [FUNCTION] = ABORTED}},
    /* What is thrown away counts as passed, within the process. */
    {"streams are destroyed", WAITER, destroy_streams,
     .code = {OF_TASKS(ENDS), OF_RECORDS(ENDS), OF_ROOM(GONE), OF_DEVICE_1(ENDS),
              [FUNCTION] = ENDS}},
    /* A plain event may go while its record is waited for; what else goes ends the wait. */
    {"objects are destroyed", ACTORS, objects,
     .code = {[WORD] = MEMORY, [LAUNCHED] = MEMORY, [THEIR_WORD] = MEMORY, [NOTIFY] = GONE,
              [MODEL] = ABORTED, [RECEIVE] = STOPPED, [SEND] = STOPPED, OF_QUEUES(NOBODY),
              [ATTACH] = NOBODY}},
    {"a task fails in mode stop", WAITER, fail_task,
     .code = {OF_TASKS(FAILED), OF_RECORDS(FAILED), OF_ROOM(FAILED), [MODEL] = FAILED,
              [DESTROY] = ENDS, [FUNCTION] = FAILED,
              [REPORT] = LATER(NO_THREAD)}},
    {"the device is aborted", WAITER, abort_device,
     .code = {OF_TASKS(DEVICE), OF_RECORDS(DEVICE), OF_ROOM(DEVICE), [MODEL] = DEVICE,
              [COPY] = DEVICE, [DESTROY] = ENDS, [CONTEXT] = ENDS, [FUNCTION] = DEVICE}},
    /* A reset waits for the work of the streams; subscriptions end at once. */
    {"the device is reset", WAITER, reset,
     .code = {[FILL] = LATER(NO_CONTEXT), [REPORT] = NO_THREAD}},
    {"the device is reset by force", WAITER, reset_by_force,
     .code = {[FILL] = LATER(NO_CONTEXT), [REPORT] = NO_THREAD}},
    {"it finalizes", WAITER, finalize},
    {"it has signals", WAITER, signal_calls},
    {"its check interrupts", WAITER, interrupt_calls, .all = BROKEN_OFF,
     .code = {[DESTROY] = ENDS, [CONTEXT] = ENDS}},
    {"it forks", WAITER, fork_and_reap},
    {"its session is ended", ACTORS, ended, .ends = true, .all = LOST},
    {"the peer is killed", ACTORS, peer_killed, .peer_ends = true,
     .code = {OF_PEER(REMOTE), [THEIR_WORD] = REMOTE, OF_QUEUES(NOBODY), [ATTACH] = NOBODY}},
    {"the peer is killed while the waiter is stopped", ACTORS, stopped_peer_killed,
     .peer_ends = true,
     .code = {OF_PEER(REMOTE), [THEIR_WORD] = REMOTE, OF_QUEUES(NOBODY), [ATTACH] = NOBODY}},
    {"the peer forks and is killed", ACTORS, peer_forks, .peer_ends = true,
     .code = {OF_PEER(REMOTE), [THEIR_WORD] = REMOTE, OF_QUEUES(NOBODY), [ATTACH] = NOBODY}},
    {"the peer's session is ended", ACTORS, peer_ended, .peer_ends = true,
     .code = {OF_PEER(REMOTE), [THEIR_WORD] = REMOTE, OF_QUEUES(NOBODY), [ATTACH] = NOBODY}},
    {"the peer stops and continues", ACTORS, peer_stops},
    /* Its streams do what they were given; by its threads it will do nothing. */
    {"the peer finalizes", PEER, finalize, .code = {OF_QUEUES(NOBODY)}},
    {"the peer aborts its stream", PEER, abort_held, .code = {OF_PEER(REMOTE)}},
    {"the peer destroys its stream", PEER, destroy_held, .code = {OF_PEER(REMOTE)}},
    {"the peer stops its stream's task", PEER, stop_held,
     .code = {OF_PEER(ENDS), [THEIR_WORD] = ENDS}},
    {"npud is killed", ACTORS, npud_kill, .ends = true, .all = LOST},
    {"npud is killed while the waiter is stopped", ACTORS, stopped_npud_killed, .ends = true,
     .all = LOST},
    {"the server is killed", ACTORS, npud_kill_server, .restarts = true},
    {"the server is killed while the waiter is stopped", ACTORS, stopped_server_killed,
     .restarts = true},
    {"the keeper is killed", ACTORS, npud_kill_keeper, .restarts = true},
    {"npud is upgraded", ACTORS, upgrade, .restarts = true},
    {"the device is lost", ACTORS, lost,
     .code = {OF_TASKS(HEART), OF_RECORDS(HEART), OF_ROOM(HEART), [MODEL] = HEART, [COPY] = HEART,
              [DESTROY] = ENDS, [CONTEXT] = ENDS, [RECORD] = REMOTE, [RECORD_T] = REMOTE,
              [REPORT] = LATER(NO_THREAD), [FUNCTION] = HEART}},
    {"its executor is killed", ACTORS, executor_killed, .away = true,
     .code = {OF_TASKS(HEART), OF_RECORDS(HEART), OF_ROOM(HEART), OF_DEVICE_1(HEART),
              [MODEL] = HEART, [COPY] = HEART, [DESTROY] = ENDS, [CONTEXT] = ENDS,
              [REPORT] = LATER(NO_THREAD), [FUNCTION] = LATER(HEART)}},
    /* Its wait fails, and what it does itself is done behind that; its word is not written. */
    {"the peer's executor is killed", ACTORS, peer_executor_killed, .away = true,
     .code = {OF_PEER(ENDS)}},
};
/* clang-format on */
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

static const struct column *tried(void)
{
    return &columns[owed->column % COLUMNS];
}

static bool happens(void (*act)(void))
{
    return tried()->act == act;
}

static bool is_over(void)
{
    return happens(npud_kill) || happens(stopped_npud_killed);
}

/* --- the waiter's life --- */

static void open_waiter(void)
{
    struct sigaction action = {.sa_handler = ignore_signal};

    sigaction(SIGUSR1, &action, NULL);
    calls_prepare();
}

static void *call(void *arg)
{
    struct cell *c = arg;
    const char *text;

    OK(aclrtSetCurrentContext(mine.primary));
    if (happens(interrupt_calls))
        OK(aclnpudSetInterruptCheck(check_interrupt, NULL));
    c->code = c->row->wait(c);
    text = c->code != 0 ? aclGetRecentErrMsg() : NULL;
    snprintf(c->text, sizeof(c->text), "%s", text ? text : "");
    atomic_store(&c->over, true);
    return NULL;
}

static void begin_calls(void)
{
    for (int i = 0; i < ROWS; i++)
        if (call_is_there(i)) {
            cells[i].begun = true;
            ck_assert_int_eq(pthread_create(&cells[i].thread, NULL, call, &cells[i]), 0);
        }
}

/* What the process does next works. */
static void live_on(void)
{
    unsigned char to[64], from[64] = {7};
    aclrtStream stream;
    void *device;

    if (happens(reset) || happens(reset_by_force))
        pthread_join(resetter, NULL);
    (void)aclFinalize(); /* it may be, already */
    OK(aclInit(NULL));
    if (happens(executor_killed)) /* else the device would not be begun anew */
        OK(aclrtDestroyContext(mine.keeper));
    if (happens(lost) || happens(fail_task) || happens(executor_killed))
        OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&device, sizeof(to), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemcpy(device, sizeof(to), from, sizeof(to), ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclnpudLaunchDelay(1000, 0, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(to, sizeof(to), device, sizeof(to), ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_int_eq(memcmp(to, from, sizeof(to)), 0);
    OK(aclFinalize());
}

/* --- judging, in the waiter --- */

static unsigned wrong;

/* The sentence names the call and the cause, and the peer where that is one. */
static bool tells_cause(const struct cell *c)
{
    static const struct {
        int code;
        const char *word;
    } causes[] = {{ABORTED, "abort"}, {DEVICE, "abort"},   {HEART, "lost"},
                  {LOST, "npud"},     {GONE, "destroyed"}, {FAILED, "fail"}};
    char peer[32];

    if (c->code == 0 || c->code == BROKEN_OFF)
        return !c->text[0];
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (causes[i].code == c->code && !strstr(c->text, causes[i].word))
            return false;
    snprintf(peer, sizeof(peer), "process %d,", owed->peer);
    if ((c->code == REMOTE || (c->code == NOBODY && tried()->peer_ends && c != &cells[ATTACH])) &&
        !strstr(c->text, peer))
        return false;
    return strstr(c->text, c->row->call);
}

static void complain(const struct cell *c, const char *what, int code)
{
    fprintf(stderr, "%s: row %td, %s, %s %d, expected %d: %s\n", tried()->name, c - cells,
            c->row->call, what, c->code, code, c->text);
    wrong++;
}

static void judge(struct cell *c, int code)
{
    uint64_t since = clock_ns();

    c->begun = false;
    while (!atomic_load(&c->over) && clock_ns() - since < HANGS_NS)
        wait_a_while(since);
    if (!atomic_load(&c->over)) {
        complain(c, "hangs", code);
        return;
    }
    pthread_join(c->thread, NULL);
    if (code >= MAYBE(0))
        code = c->code != 0 ? code - MAYBE(0) : 0;
    if (c->code != code || !tells_cause(c))
        complain(c, "returned", code);
}

static int expected(int row)
{
    return tried()->code[row] != 0 ? tried()->code[row] : tried()->all;
}

static void judge_ended(void)
{
    for (int i = 0; i < ROWS; i++) {
        int code = expected(i);

        if (cells[i].begun && code != 0 && (code < LATER(0) || code >= MAYBE(0)))
            judge(&cells[i], code == ENDS ? 0 : code);
    }
    for (int i = 0; i < ROWS; i++)
        if (cells[i].begun && atomic_load(&cells[i].over))
            complain(&cells[i], "waits no more, and returned", expected(i));
}

static void judge_rest(void)
{
    sem_post(&cells[FUNCTION].let_go);
    for (int i = 0; i < ROWS; i++)
        if (cells[i].begun)
            judge(&cells[i], expected(i) >= LATER(0) ? expected(i) - LATER(0) : 0);
    ck_assert_uint_eq(wrong, 0);
}

/* --- the test --- */

static void set_up(void)
{
    static const char *const settings[MODES][2] = {
        {NULL}, {"NPUD_COPIERS", "2"}, {"NPUD_STRICT", "1"}, {"NPUD_TEST_BACKEND", "acl"}};
    const char *const *setting = settings[owed->column / COLUMNS];

    if (setting[0])
        setenv(setting[0], setting[1], 1);
    if (tried()->restarts)
        npud_start_restartable(NULL);
    else
        npud_setup();
    for (int who = 0; who < ACTORS; who++)
        actor_start(&actor[who], obey, NULL);
    owed->waiter = actor[WAITER].pid;
    owed->peer = actor[PEER].pid;
}

static int count_asleep(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    int n = 0;

    for (size_t i = 0; i < r->n_waits; i++)
        n += r->waits[i]->pid == owed->waiter && r->waits[i]->thread != 0;
    npud__report__free_unpacked(r, NULL);
    return n;
}

static bool holds_one(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__RULES);
    bool held_one = r->n_rules == 1 && r->rules[0]->held == 1;

    npud__report__free_unpacked(r, NULL);
    return held_one;
}

/* The first task of that kind of the session of a process. */
static void hold_one(const char *kind, pid_t pid)
{
    char rule[80];

    snprintf(rule, sizeof(rule), "inject stall --kind=%s --count=1 --session=%llu", kind,
             (unsigned long long)npud_session_of(pid));
    npuctl_says(rule, 0, "");
}

/* Of the npud whose devices a device that is away is. */
static void inside(void (*act)(void))
{
    char outer[128], inner[192];

    snprintf(outer, sizeof(outer), "%s", getenv("NPUD_ADMIN_SOCKET"));
    snprintf(inner, sizeof(inner), "%s/admin.sock", nested_dir());
    setenv("NPUD_ADMIN_SOCKET", inner, 1);
    act();
    setenv("NPUD_ADMIN_SOCKET", outer, 1);
}

ORDER(hold_set, hold_one("set", executor))
ORDER(await_held, EVENTUALLY(holds_one(), "no task is held"))
ORDER(clear_rules, npuctl_says("inject clear", 0, ""))

static void begin(void)
{
    int over = 0; /* calls whose limit has elapsed */

    in(PEER, owed_open);
    in(WAITER, open_waiter);
    if (npud_is_strict())
        hold_one("copy", owed->waiter);
    executor = executor_of(owed->waiter);
    if (nested_is_on())
        inside(hold_set);
    in(WAITER, begin_calls);
    for (int i = 0; tried()->limit && i < ROWS; i++)
        over += tried()->code[i] != 0;
    EVENTUALLY(count_asleep() == calls_count() - over, "%d calls wait, not %d", count_asleep(),
               calls_count() - over);
    if (npud_is_strict())
        await_held();
    if (nested_is_on())
        inside(await_held);
}

static void let_go(void)
{
    if (!happens(lost) && npud_is_strict())
        clear_rules();
    if (nested_is_on())
        inside(clear_rules);
    if (!tried()->peer_ends && !happens(lost) && !happens(destroy_held) &&
        !happens(peer_executor_killed))
        in(PEER, owed_release_stream);
    if (!tried()->peer_ends && !happens(objects))
        in(PEER, owed_release_queues);
    in(WAITER, calls_release);
}

START_TEST(each_call_returns)
{
    owed = child_share(sizeof(*owed));
    owed->column = _i;
    owed->limit = tried()->limit ? tried()->limit : 60000;
    set_up();
    begin();
    if (tried()->who == ACTORS)
        tried()->act();
    else
        in(tried()->who, tried()->act);
    in(WAITER, judge_ended);
    if (!tried()->ends)
        let_go();
    in(WAITER, judge_rest);
    if (happens(lost))
        clear_rules();
    if (!is_over())
        in(WAITER, live_on);
    for (int who = 0; who < ACTORS; who++)
        if (actor[who].pid)
            actor_end(&actor[who]);
    if (is_over())
        return;
    npud_expect_empty();
    if (owed->child)
        kill(owed->child, SIGKILL);
    npud_teardown();
}
END_TEST

int main(void)
{
    static const char *const names[MODES] = {"plain", "copiers", "strict", "away"};
    Suite *suite = suite_create("endings");

    if (chaos_is_on())
        return 0;
    for (int mode = 0; mode < MODES; mode++) {
        TCase *t = suite_case(suite, names[mode], 120, NULL, NULL);
        const char *only = getenv("ENDING");

        for (int k = 0; k < COLUMNS; k++)
            if ((mode == AWAY || !columns[k].away) && (!only || atoi(only) == k))
                tcase_add_loop_test(t, each_call_returns, mode * COLUMNS + k,
                                    mode * COLUMNS + k + 1);
    }
    return run_suite(suite);
}
