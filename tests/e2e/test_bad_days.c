/*
 * Bad days of devices that are away: npud in npud (tests/common/nested.h), whose inner one fails
 * tasks, stalls, loses its device, stops, dies, or has no room, as hardware may; and executors that
 * are killed and stopped, beside an outer npud that is. Each thing is told to the session that it
 * concerns, by name and in time, and to no other.
 *
 * Skipped under chaos: what dies here is the test's own choice.
 * Runs long: 10 s.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_bytes.h"
#include "device_kit.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/chance.h"
#include "tests/common/chaos.h"
#include "tests/common/effort.h"
#include "tests/common/nested.h"
#include "tests/common/proc.h"

#define TOPIC(name) NPUD__ADMIN_REQUEST__TOPIC__##name
#define LATEST_NS   (promised_ns(5000)) /* in which each waiter is told */
#define HANG_S      "2"

/* --- npud in npud --- */

static void start_with(bool restartable, const char *inner, const char *hang)
{
    char option[64];
    const char *args[] = {option, NULL};

    snprintf(option, sizeof(option), "--set=vendor.hang_s=%s", hang);
    setenv("NPUD_TEST_BACKEND", "acl", 1);
    setenv("NPUD_TEST_INNER", inner, 1);
    unsetenv("NPUD_TEST_EXECUTOR");
    turns_init();
    if (restartable)
        npud_start_restartable(args);
    else
        npud_start(args);
}

static void start(void)
{
    start_with(false, "", "60");
}

static void start_watched(void)
{
    start_with(false, "", HANG_S);
}

static void start_restartable(void)
{
    start_with(true, "", HANG_S);
}

static void start_dropped(void)
{
    start_with(true, "", "60");
}

static void start_slow(void)
{
    start_with(true, "--set=sim.latency_us=1500", "60");
}

static void start_small(void)
{
    start_with(false, "--set=limits.device_memory=16M", "60");
}

static void start_narrow(void)
{
    start_with(false, "--set=limits.streams=5", "60");
}

/* --- executors --- */

/* That of a process; 0: it has none. */
static pid_t executor_of(pid_t pid)
{
    uint64_t session = npud_session_of(pid);
    Npud__Report *report = npud_report(TOPIC(EXECUTORS));
    pid_t executor = 0;

    for (size_t i = 0; i < report->n_executors; i++)
        if (report->executors[i]->session == session &&
            strcmp(report->executors[i]->state, "ready") == 0)
            executor = report->executors[i]->pid;
    npud__report__free_unpacked(report, NULL);
    return executor;
}

/* A rule of the inner one, for what the executor of that process does there. */
static void inject_for(pid_t pid, const char *rule)
{
    char arguments[160];
    pid_t executor = executor_of(pid);
    uint64_t session;

    ck_assert_int_ne(executor, 0);
    nested_enter();
    session = npud_session_of(executor);
    ck_assert_uint_ne(session, 0);
    snprintf(arguments, sizeof(arguments), "inject %s --session=%llu", rule,
             (unsigned long long)session);
    npuctl_says(arguments, 0, "");
    nested_leave();
}

static void expect_nothing_left(void)
{
    pid_t pids[4];

    npud_expect_empty();
    EVENTUALLY(nested_executors(pids, 4) == 0, "executors are left");
    ck_assert_uint_eq(npud_used("executors"), 0);
    npud_teardown();
}

/* --- an inner task fails --- */

#define COPIES     10
#define FAILS_AT   4 /* 1 is the first */
#define DMA_FAILED ACL_ERROR_RT_SYS_DMA

static _Atomic uint32_t told_task, told_code, tellings;

static void on_exception(aclrtExceptionInfo *info)
{
    told_task = aclrtGetTaskIdFromExceptionInfo(info);
    told_code = aclrtGetErrorCodeFromExceptionInfo(info);
    tellings++;
}

static void *all_bytes(unsigned char **host)
{
    void *device;

    OK(aclrtMallocHost((void **)host, COPIES * KIT_BLOCK));
    OK(aclrtMalloc(&device, COPIES * KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    memset(*host, '.', COPIES * KIT_BLOCK);
    OK(aclrtMemcpy(device, COPIES * KIT_BLOCK, *host, COPIES * KIT_BLOCK,
                   ACL_MEMCPY_HOST_TO_DEVICE));
    for (size_t i = 0; i < COPIES; i++)
        memset(*host + i * KIT_BLOCK, 'a' + (int)i, KIT_BLOCK);
    return device;
}

/* Each block has the letter of its copy, but for that of the copy that has failed. */
static void expect_bytes(void *device, unsigned char *host)
{
    OK(aclrtMemcpy(host, COPIES * KIT_BLOCK, device, COPIES * KIT_BLOCK,
                   ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < (size_t)COPIES * KIT_BLOCK; i++) {
        size_t copy = i / KIT_BLOCK + 1;

        ck_assert_msg(host[i] == (copy == FAILS_AT ? '.' : 'a' + (int)copy - 1),
                      "copy %zu: byte '%c'", copy, host[i]);
    }
}

static int copy_and_fail(void *arg)
{
    unsigned char *host, *device;
    uint32_t failing = 0;
    aclrtStream stream;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtSetExceptionInfoCallback(on_exception));
    OK(aclrtCreateStream(&stream));
    device = all_bytes(&host);
    turn_tell(&to_parent);
    turn_await(&to_child);
    for (size_t i = 0; i < COPIES; i++) {
        OK(aclrtMemcpyAsync(device + i * KIT_BLOCK, KIT_BLOCK, host + i * KIT_BLOCK, KIT_BLOCK,
                            ACL_MEMCPY_HOST_TO_DEVICE, stream));
        if (i + 1 == FAILS_AT)
            OK(aclrtGetThreadLastTaskId(&failing));
    }
    FAILS(DMA_FAILED, aclrtSynchronizeStream(stream));
    EVENTUALLY(tellings > 0, "the callback is not called");
    ck_assert_uint_eq(tellings, 1);
    ck_assert_uint_eq(told_code, DMA_FAILED);
    ck_assert_uint_eq(told_task, failing);
    OK(aclrtSynchronizeStream(stream)); /* it is told once, and the stream goes on */
    expect_bytes(device, host);
    OK(aclFinalize());
    return 0;
}

START_TEST(a_task_that_fails_inside_is_the_same_task_outside)
{
    pid_t honest = honest_start(), child = child_start(copy_and_fail, NULL);
    char rule[64];

    turn_await(&to_parent);
    snprintf(rule, sizeof(rule), "fail --kind=copy --nth=%d --code=507013", FAILS_AT);
    inject_for(child, rule);
    turn_tell(&to_child);
    child_expect_ok(child);
    honest_stop(honest);
    expect_nothing_left();
}
END_TEST

/* --- an inner task stalls --- */

/* Waits with a limit end in time, by the limit. Then the one without, as it should. */
static int wait_for_stall(void *arg)
{
    bool ends_well = *(bool *)arg;
    struct kit k = {0};
    aclrtEvent event;

    OK(aclInit(NULL));
    kit_open_well(&k);
    OK(aclrtCreateEvent(&event));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtMemcpyAsync(k.device[0], KIT_BLOCK, k.to, KIT_BLOCK, ACL_MEMCPY_HOST_TO_DEVICE,
                        k.stream));
    OK(aclrtRecordEvent(event, k.stream));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(k.stream, 20));
    FAILS(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(event, 20));
    turn_tell(&to_parent);
    if (ends_well) {
        OK(aclrtSynchronizeStream(k.stream));
        ck_assert(kit_round(&k, 1));
    } else {
        FAILS_SAYING(KIT_LOSS, "lost", aclrtSynchronizeStream(k.stream));
        kit_expect_new_life();
    }
    OK(aclFinalize());
    return 0;
}

static void stall_and(bool ends_well)
{
    pid_t honest = honest_start(), child = child_start(wait_for_stall, &ends_well);

    turn_await(&to_parent);
    inject_for(child, "stall --kind=copy --count=1");
    turn_tell(&to_child);
    turn_await(&to_parent);
    if (ends_well)
        nested_says("inject clear");
    child_expect_ok(child);
    honest_stop(honest);
    expect_nothing_left();
}

START_TEST(a_stall_ends_by_the_hang_timer)
{
    stall_and(false);
}
END_TEST

START_TEST(a_stall_that_ends_is_none)
{
    stall_and(true);
}
END_TEST

/* --- a stream drops work that the device has begun --- */

/*
 * The device goes on with a set, which writes a word. Behind it are another word and sums, which
 * are done once if the stream still has them; together: the device has been given them, too.
 */
static const struct dropping {
    aclError (*drop)(aclrtStream stream);
    bool together;
    int32_t sums;
} droppings[] = {
    {aclrtStreamStop, true, 3},
    {aclrtStreamStop, false, 3},
    {aclrtStreamStop, false, 0},
    {aclrtDestroyStreamForce, true, 3},
};
#define WRITTEN   7
#define DROPPINGS (int)(sizeof(droppings) / sizeof(droppings[0]))

static void submit_sums(const struct dropping *d, struct kit *k, void *word)
{
    aclrtEvent gate = d->together ? stream_hold(k->stream) : NULL;

    OK(aclrtMemsetAsync(k->device[0], KIT_BLOCK, 1, KIT_BLOCK, k->stream));
    OK(aclrtValueWrite(word, WRITTEN, 0, k->stream));
    for (int i = 0; i < d->sums; i++)
        OK(aclrtReduceAsync(k->device[1], k->device[0], KIT_BLOCK, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                            ACL_INT32, k->stream, NULL));
    if (gate)
        stream_let_go(gate);
}

static int wait_for_dropped(void *arg)
{
    const struct dropping *d = arg;
    struct kit k = {0};
    aclrtStream waiting;
    uint64_t *word;
    int32_t sum;

    OK(aclInit(NULL));
    kit_open_well(&k);
    OK(aclrtCreateStream(&waiting));
    OK(aclrtMalloc((void **)&word, KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(word, KIT_BLOCK, 0, KIT_BLOCK));
    for (int i = 0; i < 2; i++)
        OK(aclrtMemset(k.device[i], KIT_BLOCK, 0, KIT_BLOCK));
    turn_tell(&to_parent);
    turn_await(&to_child);
    submit_sums(d, &k, word);
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtValueWait(k.device[0], 0x0101010101010101, ACL_STREAM_WAIT_VALUE_EQ, waiting));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(d->drop(k.stream));
    turn_tell(&to_parent);
    OK(aclrtSynchronizeStream(waiting));
    if (d->drop == aclrtStreamStop) {
        FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(k.stream));
        OK(aclrtMemcpy(&sum, sizeof(sum), k.device[1], sizeof(sum), ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert_int_eq(sum, d->sums * 0x01010101);
        ck_assert_uint_eq(device_word(word), WRITTEN);
    }
    OK(aclFinalize());
    return 0;
}

static bool inner_has_stalled(void)
{
    Npud__Report *report;
    bool held;

    nested_enter();
    report = npud_report(TOPIC(RULES));
    held = report->n_rules == 1 && report->rules[0]->held == 1;
    npud__report__free_unpacked(report, NULL);
    nested_leave();
    return held;
}

static bool waits_for_word(pid_t pid)
{
    Npud__Report *report = npud_report(TOPIC(WAITS));
    bool found = false;

    for (size_t i = 0; i < report->n_waits; i++)
        found |= report->waits[i]->pid == pid && strcmp(report->waits[i]->kind, "value") == 0;
    npud__report__free_unpacked(report, NULL);
    return found;
}

static void drop_what_is_begun(const struct dropping *dropping, bool restarts)
{
    struct dropping d = *dropping;
    pid_t child = child_start(wait_for_dropped, &d);

    turn_await(&to_parent);
    inject_for(child, "stall --kind=set --count=1");
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(inner_has_stalled(), "the device does not begin the set");
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(waits_for_word(child), "no stream waits for the word");
    turn_tell(&to_child);
    turn_await(&to_parent);
    if (restarts)
        npud_kill_server();
    nested_says("inject clear");
    child_expect_ok(child);
    expect_nothing_left();
}

START_TEST(what_is_dropped_is_told_and_the_rest_done_once)
{
    drop_what_is_begun(&droppings[_i], false);
}
END_TEST

START_TEST(what_is_dropped_is_told_by_the_next_npud)
{
    drop_what_is_begun(&droppings[_i], true);
}
END_TEST

/* --- the inner device is lost, and back --- */

static bool is_abnormal(void)
{
    aclrtDeviceStatus status;

    OK(aclrtQueryDeviceStatus(0, &status));
    return status == ACL_RT_DEVICE_STATUS_ABNORMAL;
}

/* The first call that fails names the loss. When that was. */
static uint64_t copy_on_until_lost(struct kit *k)
{
    unsigned i = 0;
    uint64_t told;

    ck_assert(kit_round(k, 0));
    turn_tell(&to_parent);
    while (kit_round(k, ++i))
        continue;
    told = now_ns();
    ck_assert_msg(failed.code == KIT_LOSS && failed.text[0], "%s: %d: %s", failed.call, failed.code,
                  failed.text);
    return told;
}

static uint64_t copy_until_lost(struct kit *k)
{
    OK(aclInit(NULL));
    kit_open_well(k);
    return copy_on_until_lost(k);
}

/* It stays lost until the program has reset it, whatever that asks for and copies meanwhile. */
static int lose_device(void *arg)
{
    struct kit k = {0};

    (void)arg;
    copy_until_lost(&k);
    EVENTUALLY(is_abnormal(), "the device is not lost");
    FAILS_SAYING(KIT_LOSS, "lost",
                 aclrtMemcpy(k.device[0], KIT_BLOCK, k.to, KIT_BLOCK, ACL_MEMCPY_DEFAULT));
    turn_tell(&to_parent);
    turn_await(&to_child);
    kit_expect_new_life();
    OK(aclFinalize());
    return 0;
}

START_TEST(a_lost_device_is_back_when_it_is_back)
{
    pid_t child = child_start(lose_device, NULL);

    turn_await(&to_parent);
    nested_says("inject lose-device --device 0");
    turn_await(&to_parent);
    nested_says("inject clear");
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

/* --- the inner npud dies --- */

/* Two processes that share events of npud's own, and have no work on the device meanwhile. */
static struct pair {
    aclrtIpcEventHandle handle[2];
    _Atomic unsigned made, rounds;
    _Atomic bool stop;
    _Atomic uint64_t killed, told;
} * pair;

/* There and back by events: each waits for the record of the other in its stream. */
static int play(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    aclrtEvent mine, other;
    aclrtStream stream;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(mine, &pair->handle[me]));
    pair->made++;
    EVENTUALLY(pair->made == 2, "the other one makes no event");
    OK(aclrtIpcOpenEventHandle(pair->handle[!me], &other));
    while (!pair->stop) {
        OK(aclrtRecordEvent(mine, stream));
        OK(aclrtStreamWaitEvent(stream, other));
        OK(aclrtSynchronizeStream(stream));
        pair->rounds++;
    }
    OK(aclFinalize());
    return 0;
}

static int work_until_lost(void *arg)
{
    struct kit k = {0};

    (void)arg;
    pair->told = copy_until_lost(&k);
    turn_tell(&to_parent);
    turn_await(&to_child);
    kit_expect_new_life();
    OK(aclFinalize());
    return 0;
}

static void expect_rounds(unsigned more)
{
    unsigned before = pair->rounds;

    EVENTUALLY(pair->rounds > before + more, "events between living sessions do not work");
}

START_TEST(the_inner_npud_dies_and_another_comes)
{
    pid_t players[2], child;

    pair = child_share(sizeof(*pair));
    for (uintptr_t i = 0; i < 2; i++)
        players[i] = child_start(play, (void *)i);
    child = child_start(work_until_lost, NULL);
    turn_await(&to_parent);
    expect_rounds(10);
    pair->killed = now_ns();
    nested_kill();
    turn_await(&to_parent);
    ck_assert_msg(pair->told < pair->killed + LATEST_NS, "it is told after %llu ms",
                  (unsigned long long)((pair->told - pair->killed) / 1000000));
    expect_rounds(100);
    nested_restart();
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_rounds(100);
    pair->stop = true;
    for (int i = 0; i < 2; i++)
        child_expect_ok(players[i]);
    expect_nothing_left();
}
END_TEST

/* --- a device is gone --- */

/* It is not opened any more, which the other device of the process does not feel. */
static int use_what_is_left(void *arg)
{
    struct kit k = {0};
    void *other;

    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtMalloc(&other, KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    kit_open_well(&k);
    copy_on_until_lost(&k);
    turn_tell(&to_parent);
    turn_await(&to_child);
    kit_reset();
    memset(&k, 0, sizeof(k));
    kit_open_well(&k);
    ck_assert(kit_round(&k, 1));
    /* The other one was not reset so far: it is lost as before. */
    OK(aclrtSetDevice(1));
    FAILS_SAYING(KIT_LOSS, "lost", aclrtMemset(other, KIT_BLOCK, 0, KIT_BLOCK));
    OK(aclrtResetDeviceForce(1));
    for (unsigned round = 2; round < 5; round++) {
        FAILS_SAYING(ACL_ERROR_RT_DEV_SETUP_ERROR, "does not open it", aclrtSetDevice(1));
        OK(aclrtSetDevice(0));
        ck_assert(kit_round(&k, round));
    }
    copy_on_until_lost(&k);
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(1));
    OK(aclrtMalloc(&other, KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(other, KIT_BLOCK, 0, KIT_BLOCK));
    OK(aclFinalize());
    return 0;
}

START_TEST(a_device_that_is_gone_is_refused_alone)
{
    pid_t child = child_start(use_what_is_left, NULL);

    for (int devices = 1; devices <= 2; devices++) {
        turn_await(&to_parent);
        nested_kill();
        turn_await(&to_parent);
        setenv("NPUD_TEST_INNER", devices == 1 ? "--devices=1" : "", 1);
        nested_restart();
        turn_tell(&to_child);
    }
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

/* --- the inner npud is stopped --- */

#define REQUESTS 400
#define ATTEMPTS 5
#define NOISE_MS 2

static struct turn to_worker, to_asker;
static _Atomic uint64_t *p99;

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t measure_requests(void)
{
    static uint64_t took[REQUESTS];

    for (size_t i = 0; i < REQUESTS; i++) {
        uint64_t begun = now_ns();
        aclrtStream stream;

        OK(aclrtCreateStream(&stream));
        OK(aclrtDestroyStream(stream));
        took[i] = now_ns() - begun;
    }
    qsort(took, REQUESTS, sizeof(took[0]), compare_ns);
    return took[REQUESTS * 99 / 100];
}

/* It has no work on the device: what it asks is npud's to answer. Until it is told that by 0. */
static int ask_again_and_again(void *arg)
{
    (void)arg;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    do {
        *p99 = measure_requests();
        turn_tell(&to_parent);
        turn_await(&to_asker);
    } while (*p99 != 0);
    OK(aclFinalize());
    return 0;
}

static int work_over_a_stop(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    turn_tell(&to_parent);
    turn_await(&to_worker);
    turn_tell(&to_parent);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_msg(kit_round(&k, i), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

static int begin_over_a_stop(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    turn_tell(&to_parent);
    kit_open_well(&k);
    ck_assert_msg(kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

static void judge_requests(uint64_t before)
{
    uint64_t during = 0;

    for (int i = 0; i < ATTEMPTS; i++) {
        turn_tell(&to_asker);
        turn_await(&to_parent);
        during = *p99;
        if (during <= 3 * before + promised_ns(NOISE_MS))
            return;
    }
    ck_abort_msg("99 %% of the requests took %llu us before, and %llu us while the inner one stood",
                 (unsigned long long)(before / 1000), (unsigned long long)(during / 1000));
}

START_TEST(a_device_that_stands_holds_up_its_users_alone)
{
    pid_t asker, worker, beginner;
    uint64_t before;

    turn_init(&to_worker);
    turn_init(&to_asker);
    p99 = child_share(sizeof(*p99));
    worker = child_start(work_over_a_stop, NULL);
    turn_await(&to_parent);
    asker = child_start(ask_again_and_again, NULL);
    turn_await(&to_parent);
    before = *p99;
    child_stop(nested_pid());
    turn_tell(&to_worker);
    turn_await(&to_parent);
    beginner = child_start(begin_over_a_stop, NULL);
    turn_await(&to_parent);
    judge_requests(before);
    ck_assert_int_eq(waitpid(worker, NULL, WNOHANG), 0);
    ck_assert_int_eq(waitpid(beginner, NULL, WNOHANG), 0);
    kill(nested_pid(), SIGCONT);
    child_expect_ok(worker);
    child_expect_ok(beginner);
    *p99 = 0;
    turn_tell(&to_asker);
    child_expect_ok(asker);
    expect_nothing_left();
}
END_TEST

/* --- the inner npud has no room --- */

static int fill_inner(void *arg)
{
    unsigned n = 0;
    struct kit k = {0};
    void *more;

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    while (DID(aclrtMalloc(&more, 2u << 20, ACL_MEM_MALLOC_HUGE_FIRST)) && ++n < 64)
        continue;
    ck_assert_msg(n > 0 && n < 16, "%u MiB were had", 2 * n);
    ck_assert_msg(failed.code == ACL_ERROR_RT_MEMORY_ALLOCATION, "%d: %s", failed.code,
                  failed.text);
    ck_assert_msg(failed.text[0] != '\0', "no sentence");
    ck_assert(kit_round(&k, 1)); /* what it has goes on */
    OK(aclrtFree(more));
    OK(aclrtMalloc(&more, 2u << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclFinalize());
    return 0;
}

START_TEST(no_memory_inside_is_no_memory_outside)
{
    child_expect_ok(child_start(fill_inner, NULL));
    expect_nothing_left();
}
END_TEST

/*
 * A lane that cannot be had is the error of the task that wanted it, and of no other one. Copies
 * within the device, for which the inner library needs no stream of its own.
 */
#define STREAMS 8
#define LANES   4 /* start_narrow(), without the default stream */

static int work_in_many_streams(void *arg)
{
    aclrtStream streams[STREAMS];
    unsigned well = 0, refused = 0;
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    ck_assert_msg(kit_round(&k, 0), "%s: %d: %s", failed.call, failed.code, failed.text);
    turn_tell(&to_parent);
    turn_await(&to_child);
    for (int i = 0; i < STREAMS; i++)
        OK(aclrtCreateStream(&streams[i]));
    for (int i = 0; i < STREAMS; i++)
        OK(aclrtMemcpyAsync(k.device[1], KIT_BLOCK, k.device[0], KIT_BLOCK,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, streams[i]));
    turn_tell(&to_parent);
    for (int i = 0; i < STREAMS; i++) {
        int code = aclrtSynchronizeStream(streams[i]);

        well += code == 0;
        refused += code == ACL_ERROR_RT_NO_STREAM_RESOURCE;
        ck_assert_msg(code == 0 || aclGetRecentErrMsg()[0] != '\0', "%d without a sentence", code);
    }
    ck_assert_msg(well == LANES && refused == STREAMS - LANES, "%u well, %u refused", well,
                  refused);
    ck_assert(kit_round(&k, 1));
    OK(aclFinalize());
    return 0;
}

static unsigned count_failed_streams(void)
{
    Npud__Report *report = npud_report(TOPIC(STREAMS));
    unsigned n = 0;

    for (size_t i = 0; i < report->n_streams; i++)
        n += report->streams[i]->failures > 0;
    npud__report__free_unpacked(report, NULL);
    return n;
}

START_TEST(no_lane_inside_is_an_error_of_the_task)
{
    pid_t child = child_start(work_in_many_streams, NULL);

    turn_await(&to_parent);
    nested_enter();
    /* The executor that npud has asked for its devices had some, too. */
    EVENTUALLY(npud_used("streams") == 2, "not a default stream and a lane's");
    nested_leave();
    inject_for(child, "stall --kind=copy");
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(count_failed_streams() == STREAMS - LANES, "%u streams have failed",
               count_failed_streams());
    nested_says("inject clear");
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

/* --- executors die --- */

static struct shared_memory {
    char key[128];
} * shared;

#define KEY sizeof(shared->key)

static void expect_letter(const void *device, char letter)
{
    unsigned char bytes[KIT_BLOCK];

    device_get(bytes, device, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        ck_assert_int_eq(bytes[i], letter);
}

static bool is_lost(void *device)
{
    return !DID(aclrtMemset(device, KIT_BLOCK, 'y', KIT_BLOCK));
}

static void await_loss(void *device)
{
    EVENTUALLY(is_lost(device), "it is not told of its loss");
    ck_assert_msg(failed.code == KIT_LOSS, "%d: %s", failed.code, failed.text);
}

/* Who exports, and who imports. loses: its executor is killed. */
static int export_memory(void *arg)
{
    bool loses = *(bool *)arg;
    void *mine;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtMalloc(&mine, 2u << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(mine, KIT_BLOCK, 'x', KIT_BLOCK));
    OK(aclrtIpcMemGetExportKey(mine, 2u << 20, shared->key, KEY, 1));
    turn_tell(&to_parent);
    turn_await(&to_worker);
    if (loses) {
        await_loss(mine);
        kit_expect_new_life();
    } else {
        expect_letter(mine, 'x');
    }
    turn_tell(&to_parent);
    turn_await(&to_worker);
    OK(aclFinalize());
    return 0;
}

static int import_memory(void *arg)
{
    bool loses = *(bool *)arg;
    void *theirs;

    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtIpcMemImportByKey(&theirs, shared->key, 0));
    expect_letter(theirs, 'x');
    turn_tell(&to_parent);
    turn_await(&to_asker);
    if (loses) {
        await_loss(theirs);
        kit_expect_new_life();
    } else {
        expect_letter(theirs, 'x');
    }
    turn_tell(&to_parent);
    turn_await(&to_asker);
    OK(aclFinalize());
    return 0;
}

/* Of the exporter, of the importer, of both in either order. */
static void kill_executors(pid_t exporter, pid_t importer, int order)
{
    pid_t of_exporter = executor_of(exporter), of_importer = executor_of(importer);

    ck_assert(of_exporter != 0 && of_importer != 0 && of_exporter != of_importer);
    if (order != 1 && order != 3)
        kill(of_exporter, SIGKILL);
    if (order != 0)
        kill(of_importer, SIGKILL);
    if (order == 3)
        kill(of_exporter, SIGKILL);
}

START_TEST(memory_that_is_shared_outlives_one_executor)
{
    bool exporter_loses = _i != 1, importer_loses = _i != 0;
    pid_t exporter, importer;

    shared = child_share(sizeof(*shared));
    turn_init(&to_worker);
    turn_init(&to_asker);
    exporter = child_start(export_memory, &exporter_loses);
    turn_await(&to_parent);
    importer = child_start(import_memory, &importer_loses);
    turn_await(&to_parent);
    kill_executors(exporter, importer, _i);
    turn_tell(&to_worker);
    turn_tell(&to_asker);
    turn_await(&to_parent);
    turn_await(&to_parent);
    turn_tell(&to_worker);
    turn_tell(&to_asker);
    child_expect_ok(exporter);
    child_expect_ok(importer);
    expect_nothing_left();
}
END_TEST

#define DEATHS (choose_effort(8, 100))

struct disturbance {
    uint64_t rng;
    bool restarts;
};

/* One executor, or npud, or both at once. */
static void disturb(void *arg)
{
    struct disturbance *d = arg;
    pid_t pids[COPIERS * 2];
    unsigned n = nested_executors(pids, COPIERS * 2), what = draw_below(&d->rng, 4);

    if (n > 0 && (!d->restarts || what != 0))
        kill(pids[draw_below(&d->rng, n)], !d->restarts && what == 0 ? SIGSTOP : SIGKILL);
    if (d->restarts && what != 1)
        npud_kill_server();
}

START_TEST(copies_are_right_or_lost_by_name)
{
    struct disturbance d = {17, _i == 1};

    copiers_run(DEATHS, disturb, &d);
    expect_nothing_left();
}
END_TEST

/* --- npud dies over a queue of work --- */

#define STEPS 13 /* of four tasks each: all are given before the first is done */

struct queue {
    uint32_t *numbers, *out; /* pinned: what is copied to the device, and from it */
    uint32_t *in, *sum;      /* of the device */
    aclrtStream stream;
};

static void queue_open(struct queue *q)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&q->stream));
    OK(aclrtMallocHost((void **)&q->numbers, STEPS * KIT_BLOCK));
    OK(aclrtMallocHost((void **)&q->out, STEPS * KIT_BLOCK));
    OK(aclrtMalloc((void **)&q->in, KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc((void **)&q->sum, KIT_BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
}

/*
 * What is done twice shows: in the sum, and because each copy from the device is followed by a set
 * of what it reads.
 */
static void queue_step(struct queue *q, unsigned step)
{
    uint32_t *numbers = q->numbers + step * KIT_BLOCK / 4, *out = q->out + step * KIT_BLOCK / 4;

    for (unsigned i = 0; i < KIT_BLOCK / 4; i++)
        numbers[i] = step * 65537u + i;
    OK(aclrtMemcpyAsync(q->in, KIT_BLOCK, numbers, KIT_BLOCK, ACL_MEMCPY_HOST_TO_DEVICE,
                        q->stream));
    OK(aclrtReduceAsync(q->sum, q->in, KIT_BLOCK, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32,
                        q->stream, NULL));
    OK(aclrtMemcpyAsync(out, KIT_BLOCK, step % 2 ? q->sum : q->in, KIT_BLOCK,
                        ACL_MEMCPY_DEVICE_TO_HOST, q->stream));
    OK(aclrtMemsetAsync(q->in, KIT_BLOCK, 0xee, KIT_BLOCK, q->stream));
}

static void queue_judge(const struct queue *q, unsigned step)
{
    const uint32_t *out = q->out + step * KIT_BLOCK / 4;

    for (unsigned i = 0; i < KIT_BLOCK / 4; i++) {
        uint32_t number = step * 65537u + i;
        uint32_t sum = step * (step + 1) / 2 * 65537u + (step + 1) * i;

        ck_assert_msg(out[i] == (step % 2 ? sum : number), "step %u, word %u: 0x%x", step, i,
                      out[i]);
    }
}

static int queue_work(void *arg)
{
    struct queue q;
    unsigned rounds = *(unsigned *)arg;

    queue_open(&q);
    for (unsigned round = 0; round < rounds; round++) {
        memset(q.out, 0, STEPS * KIT_BLOCK);
        OK(aclrtMemset(q.sum, KIT_BLOCK, 0, KIT_BLOCK));
        for (unsigned step = 0; step < STEPS; step++)
            queue_step(&q, step);
        turn_tell(&to_parent);
        OK(aclrtSynchronizeStream(q.stream));
        for (unsigned step = 0; step < STEPS; step++)
            queue_judge(&q, step);
    }
    OK(aclFinalize());
    return 0;
}

/* Several servers die over each queue, at any moment of it: also before they have taken it up. */
START_TEST(each_task_of_a_queue_is_done_once)
{
    unsigned rounds = choose_effort(3, 60);
    uint64_t rng = 18 + (unsigned)_i;
    pid_t child = child_start(queue_work, &rounds);

    for (unsigned round = 0; round < rounds; round++) {
        turn_await(&to_parent);
        for (unsigned n = 2 + draw_below(&rng, 3); n > 0; n--)
            npud_kill_server();
    }
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad days");
    TCase *t = suite_case(suite, "tasks", 300, start, npud_teardown);

    if (chaos_is_on())
        return 0;
    tcase_add_test(t, a_task_that_fails_inside_is_the_same_task_outside);
    tcase_add_test(t, a_stall_that_ends_is_none);
    tcase_add_loop_test(t, what_is_dropped_is_told_and_the_rest_done_once, 0, DROPPINGS);
    tcase_add_test(t, a_lost_device_is_back_when_it_is_back);
    tcase_add_test(t, the_inner_npud_dies_and_another_comes);
    tcase_add_test(t, a_device_that_is_gone_is_refused_alone);
    tcase_add_test(t, a_device_that_stands_holds_up_its_users_alone);
    t = suite_case(suite, "hanging", 300, start_watched, npud_teardown);
    tcase_add_test(t, a_stall_ends_by_the_hang_timer);
    t = suite_case(suite, "no room", 300, start_small, npud_teardown);
    tcase_add_test(t, no_memory_inside_is_no_memory_outside);
    t = suite_case(suite, "no lanes", 300, start_narrow, npud_teardown);
    tcase_add_test(t, no_lane_inside_is_an_error_of_the_task);
    t = suite_case(suite, "executors", 300, start_watched, npud_teardown);
    tcase_add_loop_test(t, memory_that_is_shared_outlives_one_executor, 0, 4);
    tcase_add_loop_test(t, copies_are_right_or_lost_by_name, 0, 1);
    t = suite_case(suite, "restarts", 300, start_restartable, npud_teardown);
    tcase_add_loop_test(t, copies_are_right_or_lost_by_name, 1, 2);
    t = suite_case(suite, "dropped", 300, start_dropped, npud_teardown);
    tcase_add_loop_test(t, what_is_dropped_is_told_by_the_next_npud, 0, DROPPINGS);
    t = suite_case(suite, "queues", 300, start_slow, npud_teardown);
    tcase_add_test(t, each_task_of_a_queue_is_done_once);
    return run_suite(suite);
}
