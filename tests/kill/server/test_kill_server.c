/*
 * The death of the real server at every place of daemon/base/kill_here.h.
 *
 * Two processes do a bit of everything that npud keeps, and two others end in the middle of it
 * (workload.h). The first time nothing dies, which tells how often each place is passed. Then, once
 * for each of them, the server ends itself with SIGKILL at the first pass; and at another one,
 * where the next server that passes the place dies, too; in make check-long at many. The workload
 * must not notice: each process checks all that it gets. Afterwards npud has nothing, and its
 * keeper has as many descriptors as before. A place that the workload does not pass fails the test.
 *
 * In each run the server is killed between two steps as well, and replaced by npuctl upgrade, so
 * that there are recoveries with all kinds of record, and their places are passed, too: one hears
 * of a process that has died meanwhile, and one finds a process that goes on although its session
 * has ended.
 *
 * The places of the end in order are passed by an npud of each one's own, which is to end.
 *
 * And at some places npud crashes, in place of a SIGKILL: the second time that ends the session
 * whose request or task it was.
 *
 * NPUD_TEST_TABLE=1 prints each place. NPUD_KILL_PLACE=NAME[:PASS[:AGAIN[:AFTER]]], as printed,
 * tries this one only.
 *
 * Skipped under TSan: the same as test_kill.
 * Skipped under chaos: the server dies where this test says.
 * Runs long: 80 s.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/actor.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/proc.h"
#include "tests/common/raw.h"
#include "tests/kill/server/kill_here_switch.h"
#include "tests/common/workload.h"

#define TRIES      3  /* how often an engine passes a place is up to the machine */
#define COUNTS     12 /* of runs that show all places: one is passed by chance on a busy machine */
#define RECOVERIES 2  /* of a run in which nothing else dies */
#define OFTEN      3  /* passes that another run has as well */

static const struct {
    const char *name, *what;
} places[] = {
#define PLACE_ROW(name, what) {#name, what},
    KILL_PLACES(PLACE_ROW)
#undef PLACE_ROW
};

static struct kill_here_switch *kill_switch;
static char path[64];

static void make_switch(void)
{
    int fd;

    strcpy(path, "/tmp/npud-kill-here.XXXXXX");
    fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(*kill_switch)), 0);
    kill_switch = mmap(NULL, sizeof(*kill_switch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(kill_switch, MAP_FAILED);
    close(fd);
    setenv("NPUD_KILL_HERE", path, 1);
}

static void start(void)
{
    make_switch();
    workload = child_share(sizeof(*workload));
    npud_start_restartable((const char *const[]){"--set=engine.spin_us=0", NULL});
    npud_await_sessions(0);
}

static void stop(void)
{
    npud_teardown();
    unlink(path);
}

/* If it does not end itself just now, which is as good. */
static void kill_server(void)
{
    pid_t pid = npud_server_pid();

    if (pid == 0)
        return;
    kill(pid, SIGKILL);
    EVENTUALLY(npud_server_pid() != pid, "the server does not die");
}

/* --- the processes --- */

static struct actor first, second, victim[VICTIMS];

static void start_actors(void)
{
    actor_start(&first, first_main, NULL);
    actor_start(&second, second_main, NULL);
    workload->second = second.pid;
    workload->victims = VICTIMS;
    workload->injects = true;
    for (int i = 0; i < VICTIMS; i++) {
        actor_start(&victim[i], victim_main, &workload->victim[i]);
        workload->victim[i].pid = victim[i].pid;
    }
}

static void do_step(struct actor *a)
{
    actor_next_step(a);
    actor_await_step(a);
}

/* The next npud hears of it: this one is stopped. */
static void kill_victim_and_server(struct actor *a)
{
    pid_t pid = npud_server_pid();

    if (pid != 0)
        kill(pid, SIGSTOP);
    actor_kill(a);
    kill_server();
}

/* The process goes on, which npud has to reckon with until it ends. */
static void end_session_of(const struct actor *a)
{
    char command[64];

    snprintf(command, sizeof(command), "kill %llu", (unsigned long long)npud_session_of(a->pid));
    npuctl_says(command, 0, "");
}

/* One step of one process, and then of the other. */
static void run_steps(void)
{
    for (int i = 0; i < WORKLOAD_STEPS; i++) {
        if (i == STEPS_BEFORE_VICTIMS)
            for (int v = 0; v < VICTIMS; v++)
                do_step(&victim[v]);
        if (i == STEPS_BEFORE_DEATHS) {
            kill_victim_and_server(&victim[0]);
            end_session_of(&victim[1]);
            npuctl_says("upgrade", 0, "");
        }
        if (i == STEPS_BEFORE_EXIT)
            actor_kill(&victim[1]);
        do_step(&first);
        do_step(&second);
    }
    actor_end(&first);
    actor_end(&second);
}

/* --- */

/* What the keeper has is no one's but npud's: with no session it is as it was. */
static unsigned keeper_fds(void)
{
    return proc_usage(npud_keeper_pid()).fds;
}

/* Recovery passes these only if the npud before has died at the other. */
static const struct {
    enum kill_place place, after;
} only_after[] = {
    {KILL_HERE_SLICE_AGAIN, KILL_HERE_SLICE_NOTED},
    {KILL_HERE_REST_FINISHED, KILL_HERE_REST_TAKEN_OUT},
    {KILL_HERE_TAKE_FINISHED, KILL_HERE_MESSAGE_TAKEN},
    {KILL_HERE_END_AGAIN, KILL_HERE_END_PIECE_CERTAIN},
    {KILL_HERE_REPEAT_SENT, KILL_HERE_ANSWER_COMMITTED},
    {KILL_HERE_REPEAT_TAKEN, KILL_HERE_ANSWER_COMMITTED},
};
#define ONLY_AFTER (sizeof(only_after) / sizeof(only_after[0]))

/* 1 + the place; 0: there is none. */
static uint32_t place_before(uint32_t place)
{
    for (size_t i = 0; i < ONLY_AFTER; i++)
        if (only_after[i].place == place)
            return (uint32_t)only_after[i].after + 1;
    return 0;
}

struct death {
    uint32_t place, pass;
    uint32_t again; /* so many passes later, too; 0: not */
    uint32_t after; /* 1 + where a server dies before that; 0: nowhere */
};

/* How often has the server died at the place? */
static unsigned run_workload(const struct death *death, unsigned keeper)
{
    memset(workload, 0, sizeof(*workload));
    memset(kill_switch, 0, sizeof(*kill_switch));
    atomic_store(&kill_switch->place, death ? death->place + 1 : 0);
    atomic_store(&kill_switch->pass, death ? death->pass : 0);
    atomic_store(&kill_switch->again, death ? death->again : 0);
    atomic_store(&kill_switch->after, death ? death->after : 0);
    atomic_store(&kill_switch->on, 1);
    start_actors();
    run_steps();
    npud_expect_empty();
    if (keeper > 0)
        EVENTUALLY(keeper_fds() == keeper, "the keeper has %u descriptors, before %u", keeper_fds(),
                   keeper);
    atomic_store(&kill_switch->on, 0);
    return atomic_load(&kill_switch->died);
}

static unsigned try_death(const struct death *death, unsigned keeper)
{
    unsigned died = 0;

    for (int i = 0; i < TRIES && died == 0; i++)
        died = run_workload(death, keeper);
    return died;
}

/*
 * Before the workload and after it, because one of a request of npud's own may be there for a
 * moment. What the servers before have given is there when another has asked the keeper for it.
 */
static unsigned count_keeper_fds(void)
{
    unsigned before, after;

    npud_kill_server();
    before = keeper_fds();
    run_workload(NULL, 0);
    after = keeper_fds();
    return before < after ? before : after;
}

static uint32_t hits[KILL_PLACE_COUNT];

/*
 * At load a run may pass one of those that come only after a death, because its own two deaths fell
 * there: that says nothing of the others.
 */
static bool is_passed(uint32_t place)
{
    return hits[place] > 0 || place_before(place) != 0;
}

/* Simulated devices have no work that is away: tests/e2e/test_executors.c kills there. */
static bool is_of_executors(uint32_t p)
{
    return p >= KILL_HERE_TICKET_TAKEN && p <= KILL_HERE_LANE_RUNG;
}

static bool are_passed(void)
{
    uint32_t p = 0;

    while (p < KILL_HERE_NPUD_ENDS && (is_passed(p) || is_of_executors(p)))
        p++;
    return p == KILL_HERE_NPUD_ENDS;
}

static unsigned count_not_passed(void)
{
    unsigned n = 0;

    for (uint32_t p = 0; p < KILL_HERE_NPUD_ENDS; p++)
        if (hits[p] == 0 && !is_of_executors(p)) {
            n++;
            fprintf(stderr, "the workload does not pass %s\n", places[p].name);
        }
    return n;
}

/* How often is each place passed that has not been seen so far? */
static void count_run(const struct death *death, unsigned keeper)
{
    ck_assert_uint_eq(run_workload(death, keeper), 0);
    for (uint32_t p = 0; p < KILL_PLACE_COUNT; p++)
        if (hits[p] == 0)
            hits[p] = atomic_load(&kill_switch->hits[p]);
}

static void count_hits(unsigned keeper)
{
    for (int i = 0; i < COUNTS && !are_passed(); i++)
        count_run(NULL, keeper);
    for (size_t i = 0; i < ONLY_AFTER; i++)
        for (int k = 0; k < TRIES && hits[only_after[i].place] == 0; k++)
            count_run(&(struct death){.place = only_after[i].place,
                                      .pass = UINT32_MAX,
                                      .after = (uint32_t)only_after[i].after + 1},
                      keeper);
    ck_assert_msg(count_not_passed() == 0, "the workload does not pass all places");
}

/*
 * At the first pass, or at one that is drawn, where the next server that comes there dies as well:
 * which of the two, is drawn; in make check-long, at up to so many that are spread over all of
 * them. Every other death in recovery is one in the recovery from the death at another place, which
 * is drawn.
 */
#define DEATHS_LONG 24

static uint32_t draw_number(uint32_t n)
{
    static uint64_t seed;

    if (seed == 0)
        seed = now_ns() | 1;
    return draw_below(&seed, n);
}

static unsigned n_deaths(uint32_t n)
{
    unsigned most = choose_effort(1, DEATHS_LONG);

    return most == 1 ? 1 : n < 2 ? 2 : n < most ? n : most;
}

static uint32_t choose_pass(uint32_t n, unsigned i)
{
    if (i == 0 || n < 2)
        return 1;
    return n_deaths(n) > 2 ? 1 + (uint32_t)((uint64_t)i * (n - 1) / (n_deaths(n) - 1))
                           : 2 + draw_number(n - 1);
}

static struct death choose_death(uint32_t place, unsigned i)
{
    struct death death = {.place = place,
                          .pass = choose_pass(hits[place], i),
                          .again = i % 2,
                          .after = place_before(place)};

    if (i % 2 == 0 || place < KILL_HERE_RECOVERY_BEGINS || death.after != 0)
        return death;
    death.after = 1 + draw_number(KILL_HERE_RECOVERY_BEGINS);
    death.pass = 1 + draw_number(hits[place] / RECOVERIES + 1);
    return death;
}

/* NPUD_KILL_PLACE=NAME, or NAME:PASS, or NAME:PASS:AGAIN:AFTER: nothing but this. */
static bool is_wanted(uint32_t place, struct death *only)
{
    const char *wanted = getenv("NPUD_KILL_PLACE");
    size_t n = strlen(places[place].name);

    *only = (struct death){.place = place};
    if (!wanted)
        return true;
    if (strncmp(wanted, places[place].name, n) != 0)
        return false;
    if (wanted[n] == ':')
        sscanf(wanted + n, ":%" SCNu32 ":%" SCNu32 ":%" SCNu32, &only->pass, &only->again,
               &only->after);
    return wanted[n] == ':' || wanted[n] == '\0';
}

static unsigned try_pass(uint32_t p, const struct death *death, unsigned keeper)
{
    fprintf(stderr, "place %s:%u:%u:%u (after %s), of %u\n", places[p].name, death->pass,
            death->again, death->after, death->after ? places[death->after - 1].name : "none",
            hits[p]);
    return try_death(death, keeper);
}

/* How many of these deaths there were. A pass that is drawn need not come. */
static unsigned try_drawn_pass(uint32_t p, unsigned n, unsigned keeper)
{
    unsigned died = 0;

    for (unsigned i = 0; i < n; i++) {
        struct death death = choose_death(p, n == 1 ? draw_number(2) : i);

        died += try_pass(p, &death, keeper);
    }
    if (died == 0) {
        struct death plain = choose_death(p, 0);

        died = try_pass(p, &plain, keeper);
    }
    return died;
}

/* The same for what NPUD_KILL_PLACE wants. */
static unsigned try_place(uint32_t p, unsigned keeper)
{
    struct death only;
    unsigned died;

    if (!is_wanted(p, &only))
        return 0;
    died =
        only.pass != 0 ? try_pass(p, &only, keeper) : try_drawn_pass(p, n_deaths(hits[p]), keeper);
    if (getenv("NPUD_TEST_TABLE"))
        printf("kill server | %-18s | %-58s | %5u passes, %2u deaths\n", places[p].name,
               places[p].what, hits[p], died);
    ck_assert_msg(hits[p] < OFTEN || died > 0, "the server never dies at %s", places[p].name);
    return died;
}

/* Once, for the tests of all parts: how often the workload passes each place. */
static void count_places(void)
{
    const char *wanted = getenv("NPUD_KILL_PLACE");

    if (wanted && strchr(wanted, ':'))
        return; /* the pass is given */
    start();
    count_hits(count_keeper_fds());
    stop();
}

#define PARTS 4 /* of the places: each test takes one */

START_TEST(every_place)
{
    unsigned keeper = count_keeper_fds(), deaths = 0;

    for (uint32_t p = (uint32_t)_i; p < KILL_HERE_NPUD_ENDS; p += PARTS)
        deaths += try_place(p, keeper);
    printf("kill server: %u deaths\n", deaths);
    fflush(stdout);
}
END_TEST

/* --- the end in order --- */

static int hold_to_the_end(void *arg)
{
    aclrtStream stream;

    (void)arg;
    session_open();
    OK(aclrtCreateStream(&stream));
    stream_hold(stream);
    turn_tell(&to_parent);
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSynchronizeStream(stream));
    return 0;
}

static void start_fresh(void)
{
    make_switch();
    turns_init();
}

/* It ends all the same, as if nothing had died, and leaves nothing; also if the next server dies
 * there, too. */
START_TEST(every_place_of_the_end)
{
    uint32_t place = KILL_HERE_NPUD_ENDS + (uint32_t)_i / 2, again = (uint32_t)_i % 2;
    pid_t child;
    struct stat st;
    int status;

    memset(kill_switch, 0, sizeof(*kill_switch));
    npud_start_restartable(NULL);
    child = child_start(hold_to_the_end, NULL);
    turn_await(&to_parent);
    atomic_store(&kill_switch->pass, 1);
    atomic_store(&kill_switch->again, again);
    atomic_store(&kill_switch->place, place + 1);
    atomic_store(&kill_switch->on, 1);
    ck_assert_int_eq(kill(npud.pid, SIGTERM), 0);
    child_expect_ok(child);
    ck_assert_int_eq(waitpid(npud.pid, &status, 0), npud.pid);
    npud.pid = 0;
    ck_assert_int_eq(status, 0);
    ck_assert_msg(lstat(npud.dir, &st) < 0, "%s: the directory is left", places[place].name);
    ck_assert_msg(atomic_load(&kill_switch->died) == 1 + again, "the end passes %s %u times",
                  places[place].name, atomic_load(&kill_switch->hits[place]));
}
END_TEST

/* --- faults of a session's own --- */

static struct {
    _Atomic bool over;
} * honest;

static int be_honest(void *arg)
{
    void *memory;

    session_open();
    turn_tell(&to_parent);
    while (!atomic_load(&honest->over)) {
        OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        OK(aclrtMemset(memory, 4096, 1, 4096));
        OK(aclrtFree(memory));
    }
    session_close();
    return arg != NULL;
}

static aclError make_stream(void)
{
    aclrtStream stream;

    return aclrtCreateStream(&stream);
}

static aclError write_value(void)
{
    aclrtStream stream;
    void *memory;
    aclError r;

    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateStream(&stream));
    r = aclrtValueWrite(memory, 1, 0, stream);
    return r == 0 ? aclrtSynchronizeStream(stream) : r;
}

static const struct {
    aclError (*act)(void);
    enum kill_place place; /* that nothing but the act passes */
    int signal;
} fatal[] = {{make_stream, KILL_HERE_STREAM_CLEARED, SIGABRT},
             {write_value, KILL_HERE_VALUE_WRITTEN, SIGSEGV}};
#define FATAL (sizeof(fatal) / sizeof(fatal[0]))

/* It ends, with a code, if npud has crashed twice. */
static int be_fatal(void *arg)
{
    unsigned i = *(const unsigned *)arg;

    session_open();
    turn_tell(&to_parent);
    turn_await(&to_child);
    ck_assert_int_eq(fatal[i % FATAL].act(), i / FATAL ? ACL_ERROR_RT_SOCKET_CLOSE : 0);
    return 0;
}

/*
 * A request or a task that npud crashes by is done again. The second time its session ends, and no
 * other one.
 */
START_TEST(a_session_that_crashes_npud_twice_ends)
{
    unsigned i = (unsigned)_i, deaths = 1 + i / FATAL;
    pid_t other, child;

    memset(kill_switch, 0, sizeof(*kill_switch));
    honest = child_share(sizeof(*honest));
    npud_start_restartable(NULL);
    other = child_start(be_honest, NULL);
    turn_await(&to_parent);
    child = child_start(be_fatal, &i);
    turn_await(&to_parent);
    atomic_store(&kill_switch->signal, (uint32_t)fatal[i % FATAL].signal);
    atomic_store(&kill_switch->pass, 1);
    atomic_store(&kill_switch->again, deaths - 1);
    atomic_store(&kill_switch->place, 1 + (uint32_t)fatal[i % FATAL].place);
    atomic_store(&kill_switch->on, 1);
    turn_tell(&to_child);
    child_expect_ok(child);
    ck_assert_uint_eq(atomic_load(&kill_switch->died), deaths);
    atomic_store(&honest->over, true);
    child_expect_ok(other);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- a stop beside the end of its context --- */

static struct raw raw;

/* Places of the library, which this client passes where it does the same. */
void kill_point(enum kill_point point)
{
    (void)point;
}

static void submit_delay(unsigned i, uint64_t ns, int32_t result)
{
    const struct task task = {.op = TASK_DELAY, .delay = {.ns = ns, .result = result}};

    raw_put(&raw, &raw.stream[i], &task);
    raw_ring(&raw, &raw.stream[i]);
}

static void stop_at_failure(void)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__SetFailureMode mode = NPUD__SET_FAILURE_MODE__INIT;
    Npud__Reply *reply;

    mode.slot = raw.stream[0].slot;
    request.set_failure_mode = &mode;
    request.body_case = NPUD__REQUEST__BODY_SET_FAILURE_MODE;
    reply = raw_ask(&raw, &request, NULL);
    ck_assert(reply && reply->error == 0);
    npud__reply__free_unpacked(reply, NULL);
}

/* A record: its number. */
static uint64_t submit_record(unsigned i, const struct raw_object *event)
{
    struct task task = {
        .op = TASK_IPC_RECORD, .object = event->slot, .generation = event->generation};
    uint64_t blocker;

    task.ipc.number = ipc_take(event->at, event->opener, IPC_PENDING, &blocker);
    raw_put(&raw, &raw.stream[i], &task);
    raw_ring(&raw, &raw.stream[i]);
    return task.ipc.number;
}

/*
 * Streams of one context, which stops when a task of it fails; [0] is at a task without end, with a
 * record behind it: its number.
 */
static uint64_t open_stopping(struct raw_object *event)
{
    uint64_t number;

    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    for (int i = 0; i < 2; i++)
        ck_assert(raw_create_stream(&raw, 0));
    ck_assert(raw_create_ipc(&raw, event));
    stop_at_failure();
    submit_delay(0, 3600 * NSEC_PER_SEC, 0);
    number = submit_record(0, event);
    submit_delay(1, 0, 0);
    raw_wait(&raw.stream[1]);
    return number;
}

static void send_stop(void)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__StopTask stop = NPUD__STOP_TASK__INIT;

    stop.slot = raw.stream[0].slot;
    stop.tell_work = true;
    request.stop_task = &stop;
    request.body_case = NPUD__REQUEST__BODY_STOP_TASK;
    ck_assert_int_eq(raw_send(&raw, &request, 0), 0);
}

static bool is_answered(int timeout)
{
    struct pollfd answer = {.fd = raw.socket, .events = POLLIN};

    return poll(&answer, 1, timeout) == 1;
}

static void die_at(enum kill_place after, enum kill_place place)
{
    memset(kill_switch, 0, sizeof(*kill_switch));
    atomic_store(&kill_switch->after, 1 + after);
    atomic_store(&kill_switch->place, 1 + place);
    atomic_store(&kill_switch->pass, 1);
    atomic_store(&kill_switch->on, 1);
}

/* npud dies in the stop, and the next one while it stops the context: was that before the stop? */
static bool stop_late(void)
{
    struct raw_object event;
    uint64_t number, done;
    struct stream_ctrl *ctrl;
    bool late;

    number = open_stopping(&event);
    ctrl = raw.stream[0].ctrl;
    done = atomic_load(&ctrl->done);
    die_at(KILL_HERE_FAILURE_STORED, KILL_HERE_STREAM_STOPS);
    send_stop();
    EVENTUALLY(atomic_load(&kill_switch->after_died) == 1, "npud does not die in the stop");
    submit_delay(1, 0, ACL_ERROR_RT_AICORE_EXCEPTION);
    EVENTUALLY(atomic_load(&kill_switch->died) == 1, "npud does not die in the end of the context");
    late = atomic_load(&ctrl->stopped) != 0 && !is_answered(0) && atomic_load(&ctrl->done) == done;
    ck_assert(is_answered(-1));
    atomic_store(&kill_switch->on, 0);
    if (late) {
        ck_assert_msg(atomic_load(&ctrl->done) == done, "what the end has dropped is done");
        EVENTUALLY(ipc_state_of(event.at, number) == IPC_FAILED, "the stream stays where it is");
    }
    raw_close(&raw);
    npud_await_sessions(0);
    return late;
}

#define STOPS 200 /* of which one comes late: which thread of npud is first is up to the machine */

START_TEST(a_stop_that_comes_again_late_does_nothing)
{
    unsigned i = 0;

    npud_start_restartable(NULL);
    while (i < STOPS && !stop_late())
        i++;
    ck_assert_uint_lt(i, STOPS);
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- work of devices --- */

#define LANE_PLACES (KILL_HERE_LANE_RUNG - KILL_HERE_TICKET_TAKEN + 1)

static void start_away(void)
{
    start_fresh();
    setenv("NPUD_TEST_BACKEND", "acl", 1);
    npud_start_restartable(NULL);
}

static struct {
    aclrtStream stream, capturing;
    uint64_t *one, *sum; /* of the device */
    aclmdlRI graph;
} away;

static void add_one(aclrtStream stream)
{
    OK(aclrtReduceAsync(away.sum, away.one, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream,
                        NULL));
}

static void open_away(void)
{
    const uint64_t words[] = {1, 0};

    streams_open(&away.stream, &away.capturing);
    OK(aclrtMalloc((void **)&away.one, sizeof(words), ACL_MEM_MALLOC_HUGE_FIRST));
    away.sum = away.one + 1;
    OK(aclrtMemcpy(away.one, sizeof(words), words, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclmdlRICaptureBegin(away.capturing, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    add_one(away.capturing);
    OK(aclmdlRICaptureEnd(away.capturing, &away.graph));
}

/*
 * Work of a stream (0), or of a graph (1), that npud is giving to a device when it dies is done
 * once; and if it is stopped before the next npud has looked at it, once or not (2, of the graph).
 */
START_TEST(given_work_is_done_once)
{
    bool stops = _i / LANE_PLACES == 2;
    uint64_t sum = 0;

    open_away();
    memset(kill_switch, 0, sizeof(*kill_switch));
    atomic_store(&kill_switch->place, 1 + KILL_HERE_TICKET_TAKEN + (uint32_t)_i % LANE_PLACES);
    atomic_store(&kill_switch->pass, 1);
    atomic_store(&kill_switch->on, 1);
    if (_i / LANE_PLACES == 0)
        add_one(away.stream);
    else
        OK(aclmdlRIExecuteAsync(away.graph, away.stream));
    EVENTUALLY(atomic_load(&kill_switch->died) == 1, "npud does not die");
    if (stops)
        OK(aclrtStreamStop(away.stream));
    add_one(away.stream);
    if (stops)
        aclrtSynchronizeStream(away.stream); /* 107023, unless the work was over */
    else
        OK(aclrtSynchronizeStream(away.stream));
    OK(aclrtMemcpy(&sum, 8, away.sum, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_msg(sum == 2 || (stops && sum == 1), "sum %llu", (unsigned long long)sum);
    OK(aclmdlRIDestroy(away.graph));
    session_close();
    npud_expect_empty();
}
END_TEST

/* The npud that is built with this program, whichever one the other tests are about. */
static void use_own_npud(void)
{
    char self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *tests;

    self[n > 0 ? n : 0] = '\0';
    tests = strstr(self, "/tests/kill/server/");
    if (!tests)
        return;
    *tests = '\0';
    setenv("NPUD_BINDIR", self, 1);
}

int main(void)
{
    Suite *suite = suite_create("kill server");
    TCase *t = suite_case(suite, "places", choose_effort(600, 1800), start, stop);

    use_own_npud();
    tcase_add_unchecked_fixture(t, count_places, NULL);
    tcase_add_loop_test(t, every_place, 0, PARTS);
    t = suite_case(suite, "the end", 60, start_fresh, stop);
    tcase_add_loop_test(t, every_place_of_the_end, 0, 2 * (KILL_PLACE_COUNT - KILL_HERE_NPUD_ENDS));
    t = suite_case(suite, "faults", 60, start_fresh, stop);
    tcase_add_loop_test(t, a_session_that_crashes_npud_twice_ends, 0, 2 * FATAL);
    t = suite_case(suite, "stops", 60, start_fresh, stop);
    tcase_add_test(t, a_stop_that_comes_again_late_does_nothing);
    t = suite_case(suite, "work of devices", 60, start_away, stop);
    tcase_add_loop_test(t, given_work_is_done_once, 0, 3 * LANE_PLACES);
    return run_suite(suite);
}
