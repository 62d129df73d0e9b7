/*
 * Executors that lie, hang and die (tests/executor/liar.c): npud lives on, the session that has one
 * is told by name, others are not touched, and nothing is left.
 *
 * Skipped under chaos, and over nesting: the executors are the test's own.
 * Skipped under TSan: they are programs of their own, and what npud does there waits for clocks.
 * Runs long: 30 s.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_kit.h"
#include "proto/shm/executor_shm.h"
#include "tests/common/chaos.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/proc.h"
#include "tests/e2e/liars.h"

#define AT_ONCE 50 /* ms in which every waiter is told, on an idle machine */
#define LATEST  5000

static void start(void)
{
    start_with(false, NULL);
}

static void start_watched(void)
{
    static const char *const second[] = {"--set=vendor.hang_s=1", NULL};

    start_with(false, second);
}

static void start_restartable(void)
{
    start_with(true, NULL);
}

/* --- lies --- */

enum ends { LOST, REFUSED, TASK_FAILS, WELL, EITHER, NO_START };

static const struct lie {
    const char *name;
    enum ends ends;
    int code; /* what the first call that fails says */
} lies[] = {
    {"exit", LOST, LOSS},
    {"abort", LOST, LOSS},
    {"segv", LOST, LOSS},
    {"hang", LOST, LOSS},
    {"stop", LOST, LOSS},
    {"fork", LOST, LOSS},
    {"close", LOST, LOSS},
    {"close-all", EITHER, 0}, /* in a lane, it has its socket until the next request */
    {"exit-asked", LOST, LOSS},
    {"abort-asked", LOST, LOSS},
    {"segv-asked", LOST, LOSS},
    {"hang-asked", LOST, LOSS},
    {"stop-asked", LOST, LOSS},
    {"fork-asked", LOST, LOSS},
    {"close-asked", LOST, LOSS},
    {"close-all-asked", LOST, LOSS},
    {"done-future", LOST, LOSS},
    {"done-far", LOST, LOSS},
    {"done-torn", LOST, LOSS},
    {"done-back", LOST, LOSS},
    {"address-zero", LOST, LOSS},
    {"address-wraps", LOST, LOSS},
    {"address-overlaps", LOST, LOSS},
    {"size-small", LOST, LOSS},
    {"handle-other", LOST, LOSS},
    {"number-other", LOST, LOSS},
    {"op-other", LOST, LOSS},
    {"more-huge", LOST, LOSS},
    {"text-open", LOST, LOSS},
    {"short", LOST, LOSS},
    {"empty", LOST, LOSS},
    {"long", LOST, LOSS},
    {"descriptors", LOST, LOSS},
    {"twice", LOST, LOSS},
    {"refuses", REFUSED, ACL_ERROR_RT_MEMORY_ALLOCATION},
    {"refuses-loudly", REFUSED, ACL_ERROR_RT_MEMORY_ALLOCATION},
    {"code-negative", TASK_FAILS, ACL_ERROR_RT_INTERNAL_ERROR},
    {"code-odd", TASK_FAILS, ACL_ERROR_RT_INTERNAL_ERROR},
    {"flood", WELL, 0},
    {"flood-asked", WELL, 0},
    {"flood-waiting", LOST, LOSS}, /* for the pipe, which npud reads in turns */
    {"bell", WELL, 0},
    {"silent", WELL, 0},
    {"exit-hello", NO_START, NOT_BEGUN},
    {"hang-hello", NO_START, NOT_BEGUN},
    {"no-hello", NO_START, NOT_BEGUN},
    {"hang-begin", NO_START, NOT_BEGUN},
    {"refuses-device", NO_START, NOT_BEGUN},
};

#define N_LIES (sizeof(lies) / sizeof(lies[0]))

static int meet_lie(void *arg)
{
    const struct lie *l = arg;
    struct kit k = {0};
    bool well;

    OK(aclInit(NULL));
    well = kit_open(&k);
    /* npud may find it out a moment later. */
    for (unsigned i = 0; well && i < (l->ends == LOST ? 100000 : 40); i++)
        well = kit_round(&k, i);
    ck_assert_msg(l->ends == EITHER || well == (l->ends == WELL), "%s: %s", l->name,
                  well ? "no failure" : failed.text);
    if (getenv("NPUD_TEST_VERBOSE") && !well)
        fprintf(stderr, "%s: %s: %d: %s\n", l->name, failed.call, failed.code, failed.text);
    if (l->code != 0)
        ck_assert_msg(failed.code == l->code, "%s: %s: %d: %s", l->name, failed.call, failed.code,
                      failed.text);
    if (l->ends == LOST) { /* so is all that it does later */
        void *more;

        FAILS(LOSS, aclrtMalloc(&more, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    if (l->ends == LOST || l->ends == NO_START)
        kit_expect_new_life();
    OK(aclFinalize());
    return 0;
}

START_TEST(a_lie_is_told_to_the_session_that_meets_it)
{
    pid_t honest = honest_start();

    tell_lie(lies[_i].name);
    child_expect_ok(child_start(meet_lie, (void *)&lies[_i]));
    honest_stop(honest);
    expect_nothing_left();
}
END_TEST

/* --- lies about kernels --- */

static const struct lie kernel_lies[] = {
    {"binary-other", LOST, LOSS},
    {"binary-no-answer", LOST, LOSS},
    {"binary-exits", LOST, LOSS},
    {"binary-hangs", LOST, LOSS},
    {"binary-refused", REFUSED, ACL_ERROR_RT_PARAM_INVALID},
    {"function-other", LOST, LOSS},
    {"function-no-answer", LOST, LOSS},
    {"function-exits", LOST, LOSS},
    {"function-hangs", LOST, LOSS},
    {"function-refused", REFUSED, ACL_ERROR_RT_PARAM_INVALID},
    {"none", WELL, 0},
    {"binary-vector", WELL, 0},
};

#define N_KERNEL_LIES (sizeof(kernel_lies) / sizeof(kernel_lies[0]))

/* The kernel writes `number` to the first word. */
static bool launch_kernel(struct kit *k, aclrtBinHandle binary, uint64_t number)
{
    uint64_t args[2] = {(uint64_t)(uintptr_t)k->device[0], number}, is;
    aclrtFuncHandle f;

    if (!DID(aclrtBinaryGetFunction(binary, "kernel", &f)) ||
        !DID(aclrtLaunchKernelWithHostArgs(f, 1, k->stream, NULL, args, sizeof(args), NULL, 0)) ||
        !DID(aclrtSynchronizeStream(k->stream)))
        return false;
    OK(aclrtMemcpy(&is, sizeof(is), k->device[0], sizeof(is), ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(is, number);
    return true;
}

/* From a file, with one beside it that says what it is for. */
static aclrtBinHandle load_binary(void)
{
    char path[80], side[80];
    aclrtBinHandle binary;

    snprintf(path, sizeof(path), "%s.d.o", lies_path);
    snprintf(side, sizeof(side), "%s.d.json", lies_path);
    write_text_file(path, "a file");
    write_text_file(side, "{\"magic\": \"RT_DEV_BINARY_MAGIC_ELF_AIVEC\", \"intercoreSync\": 1}");
    OK(aclrtBinaryLoadFromFile(path, NULL, &binary));
    unlink(path);
    unlink(side);
    return binary;
}

static int meet_kernel_lie(void *arg)
{
    const struct lie *l = arg;
    aclrtBinHandle binary;
    struct kit k = {0};
    bool well;

    OK(aclInit(NULL));
    ck_assert_msg(kit_open(&k), "%s: %s", failed.call, failed.text);
    binary = load_binary();
    well = launch_kernel(&k, binary, 4711);
    ck_assert_msg(well == (l->ends == WELL), "%s: %s", l->name, well ? "no failure" : failed.text);
    if (!well)
        ck_assert_msg(failed.code == l->code, "%s: %s: %d: %s", l->name, failed.call, failed.code,
                      failed.text);
    if (l->ends == REFUSED)
        ck_assert_ptr_nonnull(strstr(failed.text, "?[31m?all is well?"));
    if (l->ends == LOST)
        kit_reset();
    if (l->ends == LOST)
        ck_assert_msg(kit_open(&k), "%s: %s", failed.call, failed.text);
    if (l->ends == LOST) /* the library has the file still, and gives it to the next one */
        ck_assert_msg(launch_kernel(&k, binary, 4712), "%s: %s", failed.call, failed.text);
    OK(aclrtBinaryUnLoad(binary));
    OK(aclFinalize());
    return 0;
}

START_TEST(a_lie_about_kernels_is_told_to_the_session_that_meets_it)
{
    pid_t honest = honest_start();

    tell_lie(kernel_lies[_i].name);
    child_expect_ok(child_start(meet_kernel_lie, (void *)&kernel_lies[_i]));
    honest_stop(honest);
    ck_assert_uint_eq(npud_used("binaries"), 0);
    expect_nothing_left();
}
END_TEST

/* The session goes while its executor hangs: nothing stays. */
static int meet_and_wait(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    turn_tell(&to_parent);
    if (kit_open(&k))
        kit_round(&k, 0);
    return 0;
}

START_TEST(a_session_that_dies_leaves_no_executor_that_hangs)
{
    static const char *const names[] = {"hang",       "hang-asked", "stop",
                                        "stop-asked", "hang-hello", "hang-begin"};
    pid_t child, honest = honest_start();

    tell_lie(names[_i]);
    child = child_start(meet_and_wait, NULL);
    turn_await(&to_parent);
    EVENTUALLY(access(lies_path, F_OK) < 0, "no executor is started");
    child_kill(child);
    EVENTUALLY(n_executors() == 1, "the executor is left");
    honest_stop(honest);
    expect_nothing_left();
}
END_TEST

/* --- deaths --- */

static pid_t only_executor(void)
{
    pid_t pids[2];

    /* The one that npud has asked what devices there are may not be gone yet. */
    EVENTUALLY(executors(pids, 2) == 1, "there is no executor, or more than one");
    return pids[0];
}

/* Each of three threads waits in its own way for work that the executor does not end. */
#define WAITERS 3

static struct told {
    _Atomic uint64_t killed, at[WAITERS];
    _Atomic unsigned waits;
} * told;

struct waiter {
    unsigned number;
    aclrtStream stream;
};

static aclrtContext context;

static void *wait_for_stream(void *arg)
{
    struct waiter *w = arg;

    OK(aclrtSetCurrentContext(context));
    told->waits++;
    FAILS_SAYING(LOSS, "lost", aclrtSynchronizeStream(w->stream));
    told->at[w->number] = now_ns();
    return NULL;
}

static void submit_what_hangs(struct kit *k, struct waiter *w)
{
    aclrtEvent event;

    OK(aclrtCreateEvent(&event));
    for (unsigned i = 0; i < WAITERS; i++) {
        w[i].number = i;
        OK(aclrtCreateStream(&w[i].stream));
    }
    for (unsigned i = 0; i < 8; i++)
        OK(aclrtMemcpyAsync(k->device[0], BLOCK, k->to, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE,
                            w[0].stream));
    OK(aclrtRecordEvent(event, w[0].stream));
    OK(aclrtStreamWaitEvent(w[1].stream, event));
    OK(aclrtValueWait(k->device[1], 7, 0, w[2].stream));
}

static int wait_in_three_ways(void *arg)
{
    pthread_t threads[WAITERS];
    struct waiter w[WAITERS];
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    OK(aclrtGetCurrentContext(&context));
    submit_what_hangs(&k, w);
    for (unsigned i = 0; i < WAITERS; i++)
        pthread_create(&threads[i], NULL, wait_for_stream, &w[i]);
    for (unsigned i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    kit_expect_new_life();
    OK(aclFinalize());
    return 0;
}

static void judge_latency(void)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        double ms = (double)(told->at[i] - told->killed) / 1e6;

        printf("waiter %u was told after %.2f ms\n", i, ms);
        ck_assert_msg(ms < LATEST, "waiter %u was told after %.0f ms", i, ms);
    }
}

START_TEST(each_waiter_is_told_at_once_of_a_death)
{
    pid_t child;

    told = child_share(sizeof(*told));
    tell_lie("hang");
    child = child_start(wait_in_three_ways, NULL);
    EVENTUALLY(told->waits == WAITERS, "they do not wait");
    EVENTUALLY(npud_lists_sleeper(child, "aclrtSynchronizeStream"), "nobody sleeps");
    told->killed = now_ns();
    kill(only_executor(), SIGKILL);
    child_expect_ok(child);
    judge_latency();
    expect_nothing_left();
}
END_TEST

/* --- many deaths --- */

#define ROUNDS (choose_effort(20, 100))
#define ENDS   (choose_effort(1, 10)) /* of npud */

static void kill_one(unsigned *seed, bool may_stop)
{
    pid_t pids[COPIERS * 2];
    unsigned n = executors(pids, COPIERS * 2);

    if (n == 0)
        return;
    if (may_stop && rand_r(seed) % 4 == 0)
        kill(pids[rand_r(seed) % n], SIGSTOP); /* and is ended when it has not answered in time */
    else
        kill(pids[rand_r(seed) % n], SIGKILL);
}

struct disturbance {
    unsigned seed;
    bool restarts, kills;
};

static void disturb(void *arg)
{
    struct disturbance *d = arg;

    if (d->kills)
        kill_one(&d->seed, !d->restarts);
    if (d->restarts)
        npud_kill_server();
}

static void copy_under(unsigned rounds, bool restarts, bool kills)
{
    struct disturbance d = {16, restarts, kills};

    copiers_run(rounds, disturb, &d);
    expect_nothing_left();
}

START_TEST(copies_are_right_or_lost_by_name_when_executors_die)
{
    copy_under(ROUNDS, false, true);
}
END_TEST

/* --- npud dies --- */

START_TEST(copies_go_on_when_npud_dies)
{
    copy_under(ENDS, true, false);
}
END_TEST

START_TEST(copies_are_right_or_lost_by_name_when_both_die)
{
    copy_under(ENDS, true, true);
}
END_TEST

/* What a list says is compared with what npud knows. */
static const struct list_lie {
    const char *name;
    bool lost;
} list_lies[] = {
    {"list-surplus", false},
    {"list-of-others", true},
    {"list-for-ever", true},
    {"list-empty", true},
};

static int copy_over_a_restart(void *arg)
{
    const struct list_lie *l = arg;
    struct kit k = {0};
    bool well = true;

    OK(aclInit(NULL));
    ck_assert_msg(kit_open(&k) && kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    turn_tell(&to_parent);
    turn_await(&to_child);
    for (unsigned i = 0; well && i < 20; i++) {
        void *more;

        well = kit_round(&k, i) && DID(aclrtMalloc(&more, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST)) &&
               DID(aclrtFree(more));
    }
    ck_assert_msg(well == !l->lost, "%s: %s", l->name, well ? "not lost" : failed.text);
    if (l->lost) {
        ck_assert_msg(failed.code == LOSS, "%s: %d: %s", l->name, failed.code, failed.text);
        kit_expect_new_life();
    }
    OK(aclFinalize());
    return 0;
}

START_TEST(a_list_that_lies_after_a_restart)
{
    pid_t child;

    tell_lie(list_lies[_i].name);
    child = child_start(copy_over_a_restart, (void *)&list_lies[_i]);
    turn_await(&to_parent);
    npud_kill_server();
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

/* The descriptor of the ring that npud has with an executor; -1: this test may not have it. */
static int take_ring(pid_t server)
{
    char path[320], file[128];
    struct dirent *entry;
    int ring = -1, pidfd = (int)syscall(SYS_pidfd_open, server, 0);
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)server);
    dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    while (ring < 0 && (entry = readdir(dir))) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)server, entry->d_name);
        n = readlink(path, file, sizeof(file) - 1);
        file[n > 0 ? n : 0] = '\0';
        if (strstr(file, "npud-executor-ring"))
            ring = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(entry->d_name), 0);
    }
    closedir(dir);
    close(pidfd);
    return ring;
}

/* An upgrade may find it: npud reads nothing else of what such an executor has. */
START_TEST(an_executor_of_another_version_is_ended)
{
    const struct list_lie lost = {"another version", true};
    const uint32_t version = EXECUTOR_VERSION + 1;
    pid_t child = child_start(copy_over_a_restart, (void *)&lost);
    int ring;

    turn_await(&to_parent);
    ring = take_ring(npud_server_pid());
    if (ring < 0) {
        need_lacks(__func__, "CAP_SYS_PTRACE");
        child_kill(child);
        return;
    }
    ck_assert_int_eq(pwrite(ring, &version, sizeof(version), 0), sizeof(version));
    close(ring);
    npud_kill_server();
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

static int copy_a_little(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    ck_assert_msg(kit_open(&k) && kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

/* To ask takes long, and may fail while the device is full: the next npud knows what was said. */
START_TEST(a_restart_asks_no_library)
{
    for (int i = 0; i < 2; i++) {
        tell_lie("exit-hello");
        npud_kill_server();
        npud_await_sessions(0);
        ck_assert_msg(access(lies_path, F_OK) == 0, "an executor was started");
        unlink(lies_path);
        child_expect_ok(child_start(copy_a_little, NULL));
    }
    expect_nothing_left();
}
END_TEST

/* --- what administrators are told --- */

#define TOPIC(name) NPUD__ADMIN_REQUEST__TOPIC__##name

static const char *const one[] = {"--set=limits.executors=1", NULL};

static void start_one(void)
{
    start_with(false, one);
}

static void start_one_restartable(void)
{
    start_with(true, one);
}

/* Rows in that state. The last of them: its pid, or 0; why: with these words in it. */
static unsigned count_rows(const char *state, const char *why, pid_t *pid)
{
    Npud__Report *report = npud_report(TOPIC(EXECUTORS));
    unsigned n = 0;

    *pid = 0;
    for (size_t i = 0; i < report->n_executors; i++) {
        const Npud__ExecutorRow *r = report->executors[i];

        if (strcmp(r->state, state) != 0 || !strstr(r->why, why))
            continue;
        n++;
        *pid = r->pid;
    }
    npud__report__free_unpacked(report, NULL);
    return n;
}

static uint64_t used_executors(void)
{
    Npud__Report *report = npud_report(TOPIC(LIMITS));
    uint64_t used = 0;

    for (size_t i = 0; i < report->n_limits; i++)
        if (strcmp(report->limits[i]->resource, "executors") == 0)
            used += report->limits[i]->used;
    npud__report__free_unpacked(report, NULL);
    return used;
}

static void expect_counts(uint64_t begun, uint64_t lost)
{
    Npud__Report *report = npud_report(TOPIC(STATUS));

    ck_assert_uint_eq(report->status[0]->executors_started, begun);
    ck_assert_uint_eq(report->status[0]->executors_failed, lost);
    npud__report__free_unpacked(report, NULL);
}

static void expect_row(pid_t pid, uint64_t memory, uint32_t lanes)
{
    Npud__Report *report = npud_report(TOPIC(EXECUTORS));
    const Npud__ExecutorRow *r;

    ck_assert_uint_eq(report->n_executors, 1);
    r = report->executors[0];
    ck_assert_int_eq(r->pid, pid);
    ck_assert_uint_eq(r->uid, getuid());
    ck_assert_str_eq(r->state, "ready");
    ck_assert_str_eq(r->devices, "0");
    ck_assert_str_eq(r->why, "");
    ck_assert_uint_ne(r->session, 0);
    ck_assert_int_eq(strncmp(r->serves, "session ", 8), 0);
    ck_assert_uint_eq(strtoull(r->serves + 8, NULL, 10), r->session);
    ck_assert_uint_eq(r->memory_bytes, memory);
    ck_assert_uint_eq(r->lanes, lanes);
    npud__report__free_unpacked(report, NULL);
}

static uint64_t device_memory(void)
{
    Npud__Report *report = npud_report(TOPIC(DEVICES));
    uint64_t used = report->devices[0]->memory_used;

    npud__report__free_unpacked(report, NULL);
    return used;
}

/* One turn with memory, one with work that hangs, and one when that is lost. */
static int use_and_lose(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtMemcpyAsync(k.device[0], BLOCK, k.to, BLOCK, ACL_MEMCPY_HOST_TO_DEVICE, k.stream));
    turn_tell(&to_parent);
    FAILS_SAYING(LOSS, "lost", aclrtSynchronizeStream(k.stream));
    turn_tell(&to_parent);
    turn_await(&to_child);
    kit_expect_new_life();
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclFinalize());
    return 0;
}

static unsigned lanes_in_use(void)
{
    Npud__Report *report = npud_report(TOPIC(EXECUTORS));
    unsigned n = report->n_executors == 1 ? report->executors[0]->lanes : 0;

    npud__report__free_unpacked(report, NULL);
    return n;
}

START_TEST(executors_are_listed)
{
    pid_t child, pid, before;

    npuctl_says("executors", 0, "PID");
    tell_lie("hang");
    child = child_start(use_and_lose, NULL);
    turn_await(&to_parent);
    before = only_executor();
    expect_row(before, device_memory(), 0);
    ck_assert_uint_ge(device_memory(), 2 * BLOCK);
    turn_tell(&to_child);
    turn_await(&to_parent);
    EVENTUALLY(lanes_in_use() == 1, "%u lanes are in use", lanes_in_use());
    kill(before, SIGKILL);
    turn_await(&to_parent);
    ck_assert_uint_eq(count_rows("ended", "ended by signal 9", &pid), 1);
    ck_assert_int_eq(pid, before);
    expect_counts(1, 1);
    ck_assert_uint_eq(used_executors(), 0);
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert_uint_eq(count_rows("ready", "", &pid), 1);
    ck_assert_int_eq(pid, only_executor());
    expect_counts(2, 1);
    turn_tell(&to_child);
    child_expect_ok(child);
    EVENTUALLY(count_rows("ready", "", &pid) == 0, "the executor is listed still");
    expect_counts(2, 1);
    expect_nothing_left();
}
END_TEST

static int open_and_wait(void *arg)
{
    struct kit k = {0};

    (void)arg;
    OK(aclInit(NULL));
    ck_assert_msg(kit_open(&k) && kit_round(&k, 1), "%s: %s", failed.call, failed.text);
    turn_tell(&to_parent);
    turn_await(&to_child);
    ck_assert_msg(kit_round(&k, 2), "%s: %s", failed.call, failed.text);
    OK(aclFinalize());
    return 0;
}

static int find_no_room(void *arg)
{
    (void)arg;
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "[limits] executors", aclrtSetDevice(0));
    OK(aclFinalize());
    return 0;
}

/* Also after npud has come back: it counts those that it finds. */
START_TEST(a_user_has_no_more_executors_than_it_may)
{
    pid_t child = child_start(open_and_wait, NULL), pid, before;

    turn_await(&to_parent);
    before = only_executor();
    if (_i == 1)
        npud_kill_server();
    child_expect_ok(child_start(find_no_room, NULL));
    ck_assert_uint_eq(used_executors(), 1);
    EVENTUALLY(count_rows("ready", "", &pid) == 1, "it is not ready again");
    ck_assert_int_eq(pid, before);
    expect_row(before, device_memory(), 0);
    turn_tell(&to_child);
    child_expect_ok(child);
    EVENTUALLY(used_executors() == 0, "the executor is charged still");
    child = child_start(open_and_wait, NULL);
    turn_await(&to_parent);
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

static bool has_health(const char *text)
{
    Npud__Report *report = npud_report(TOPIC(DEVICES));
    bool has = report->n_hardware > 0 && strcmp(report->hardware[0]->health, text) == 0;

    npud__report__free_unpacked(report, NULL);
    return has;
}

static void expect_hardware(void)
{
    Npud__Report *report = npud_report(TOPIC(DEVICES));

    ck_assert_uint_eq(report->n_hardware, report->n_devices);
    ck_assert_str_eq(report->hardware[0]->bus, "0000:11:00.0");
    ck_assert_str_eq(report->hardware[0]->version, "the truth 1.0");
    ck_assert_str_eq(report->hardware[0]->can, "share,fd,kernel,health");
    ck_assert_int_eq(report->hardware[0]->temperature, 41);
    ck_assert_int_eq(report->hardware[0]->power_mw, 70500);
    ck_assert_uint_eq(report->hardware[0]->memory_errors, 3);
    npud__report__free_unpacked(report, NULL);
}

START_TEST(devices_say_how_they_are)
{
    pid_t child;

    ck_assert(has_health("")); /* nobody uses it, and none is started to ask it */
    EVENTUALLY(n_executors() == 0, "the one that npud has asked is left");
    child = child_start(open_and_wait, NULL);
    turn_await(&to_parent);
    EVENTUALLY(has_health("41 C, 70.5 W, 3 memory errors"), "the device does not say how it is");
    expect_hardware();
    npuctl_says("devices", 0, "41 C, 70.5 W, 3 memory errors");
    npuctl_says("metrics", 0, "\nnpud_device_temperature_celsius{device=\"0\"} 41\n");
    npuctl_says("metrics", 0, "\nnpud_device_power_watts{device=\"0\"} 70.500\n");
    npuctl_says("metrics", 0, "\nnpud_executors{state=\"ready\"} 1\n");
    turn_tell(&to_child);
    child_expect_ok(child);
    expect_nothing_left();
}
END_TEST

/* Requests to an executor are answered in their order: the last one after that for its health. */
static int open_and_allocate(void *arg)
{
    struct kit k = {0};
    void *more;

    (void)arg;
    OK(aclInit(NULL));
    kit_open_well(&k);
    turn_tell(&to_parent);
    turn_await(&to_child);
    DID(aclrtMalloc(&more, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    turn_tell(&to_parent);
    for (;;)
        pause();
}

/* One that refuses is asked again; one whose answer is too short is ended. */
START_TEST(health_that_is_none)
{
    pid_t child, pid;

    tell_lie(_i == 0 ? "health-refused" : "health-short");
    child = child_start(open_and_allocate, NULL);
    turn_await(&to_parent);
    ck_assert_uint_eq(count_rows("ready", "", &pid), 1);
    ck_assert(has_health(""));
    turn_tell(&to_child);
    turn_await(&to_parent);
    ck_assert(has_health(""));
    ck_assert_uint_eq(count_rows("ready", "", &pid), _i == 0);
    child_kill(child);
    expect_nothing_left();
}
END_TEST

/* A driver may keep a process in the kernel: here, its tracer does. False: this one may not. */
static bool keep_from_ending(pid_t pid)
{
    return ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXIT) == 0;
}

/* It has been killed, and was kept. Now it goes. */
static void let_end(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
    ck_assert_int_eq(status >> 8, SIGTRAP | PTRACE_EVENT_EXIT << 8);
    ck_assert_int_eq(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
    ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
}

/* Its session is gone, others work, and who looks at the devices is told. */
START_TEST(a_process_that_does_not_end_is_told)
{
    pid_t child = child_start(open_and_wait, NULL), pid, other;
    char unwell[64];

    turn_await(&to_parent);
    pid = only_executor();
    if (!keep_from_ending(pid)) {
        need_lacks(__func__, "CAP_SYS_PTRACE");
        turn_tell(&to_child);
        child_expect_ok(child);
        return;
    }
    child_kill(child);
    snprintf(unwell, sizeof(unwell), "unwell: process %d was killed and does not end", (int)pid);
    EVENTUALLY(has_health(unwell), "nobody is told");
    npuctl_says("devices", 0, unwell);
    child = child_start(open_and_wait, NULL);
    turn_await(&to_parent);
    ck_assert_uint_eq(count_rows("ready", "", &other), 1);
    ck_assert_int_ne(other, pid);
    turn_tell(&to_child);
    child_expect_ok(child);
    let_end(pid);
    EVENTUALLY(!has_health(unwell), "it has ended");
    expect_nothing_left();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("executors");
    TCase *t = suite_case(suite, "lies", 300, start, npud_teardown);

    if (chaos_is_on())
        return 0;
    for (int i = 0; i < (int)N_LIES; i += (int)choose_effort(4, 1))
        tcase_add_loop_test(t, a_lie_is_told_to_the_session_that_meets_it, i, i + 1);
    tcase_add_loop_test(t, a_lie_about_kernels_is_told_to_the_session_that_meets_it, 0,
                        N_KERNEL_LIES);
    tcase_add_loop_test(t, a_session_that_dies_leaves_no_executor_that_hangs, 0, 6);
    t = suite_case(suite, "told", 300, start, npud_teardown);
    tcase_add_test(t, executors_are_listed);
    tcase_add_test(t, devices_say_how_they_are);
    tcase_add_loop_test(t, health_that_is_none, 0, 2);
    t = suite_case(suite, "unwell", 300, start_watched, npud_teardown);
    tcase_add_test(t, a_process_that_does_not_end_is_told);
    t = suite_case(suite, "limit", 300, start_one, npud_teardown);
    tcase_add_loop_test(t, a_user_has_no_more_executors_than_it_may, 0, 1);
    t = suite_case(suite, "limit after a restart", 300, start_one_restartable, npud_teardown);
    tcase_add_loop_test(t, a_user_has_no_more_executors_than_it_may, 1, 2);
    t = suite_case(suite, "deaths", 300, start, npud_teardown);
    tcase_add_test(t, each_waiter_is_told_at_once_of_a_death);
    tcase_add_test(t, copies_are_right_or_lost_by_name_when_executors_die);
    t = suite_case(suite, "restarts", 300, start_restartable, npud_teardown);
    tcase_add_test(t, copies_go_on_when_npud_dies);
    tcase_add_test(t, a_restart_asks_no_library);
    tcase_add_test(t, an_executor_of_another_version_is_ended);
    tcase_add_loop_test(t, copies_are_right_or_lost_by_name_when_both_die, 0,
                        (int)choose_effort(0, 1));
    tcase_add_loop_test(t, a_list_that_lies_after_a_restart, 0,
                        (int)choose_effort(1, sizeof(list_lies) / sizeof(list_lies[0])));
    return run_suite(suite);
}
