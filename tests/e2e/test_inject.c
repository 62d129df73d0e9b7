/* Fault injection: rules of `npuctl inject`, and what becomes of programs that meet them. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_npud_kernel.h"
#include "device_bytes.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "proto/wire/npud.pb-c.h"

#define GUARD_NS UINT64_C(300000000000) /* against hanging only */
#define HOUR_US  UINT64_C(3600000000)
#define LOST     ACL_ERROR_RT_LOST_HEARTBEAT
#define SIZE     4096

static aclrtStream stream, other;
static void *from, *to;

/* --- asking npud --- */

/* Set a rule; its number. */
static unsigned long inject_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static unsigned long inject_fault(const char *fmt, ...)
{
    char arguments[256] = "inject ", *out;
    unsigned long rule;
    va_list ap;
    int status;

    va_start(ap, fmt);
    vsnprintf(arguments + 7, sizeof(arguments) - 7, fmt, ap);
    va_end(ap);
    out = npuctl(arguments, &status);
    ck_assert_msg(status == 0, "%s: %d: %s", arguments, status, out);
    rule = strtoul(out, NULL, 10);
    ck_assert_uint_gt(rule, 0);
    free(out);
    return rule;
}

static void clear_rules(unsigned long rule)
{
    char arguments[64];

    snprintf(arguments, sizeof(arguments), rule ? "inject clear %lu" : "inject clear", rule);
    npuctl_says(arguments, 0, "");
}

static Npud__Report *query_rules(void)
{
    return npud_report(NPUD__ADMIN_REQUEST__TOPIC__RULES);
}

static void expect_counts(size_t index, uint64_t matched, uint64_t hits, const char *state)
{
    Npud__Report *r = query_rules();

    ck_assert_uint_gt(r->n_rules, index);
    ck_assert_uint_eq(r->rules[index]->matched, matched);
    ck_assert_uint_eq(r->rules[index]->hits, hits);
    ck_assert_str_eq(r->rules[index]->state, state);
    npud__report__free_unpacked(r, NULL);
}

static void await_held(size_t index, uint32_t held)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    bool met = false;

    while (!met) {
        Npud__Report *r = query_rules();

        met = r->n_rules > index && r->rules[index]->held == held;
        npud__report__free_unpacked(r, NULL);
        ck_assert_msg(now_ns() < give_up, "never %u held", held);
    }
}

/* --- programs --- */

static void open_device(void)
{
    streams_open(&stream, &other);
    OK(aclrtMalloc(&from, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMalloc(&to, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(from, SIZE, 'x', SIZE));
    OK(aclrtMemset(to, SIZE, '.', SIZE));
}

static void set_up_test(void)
{
    npud_setup();
    open_device();
}

static void tear_down_test(void)
{
    OK(aclrtResetDeviceForce(0));
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

static void launch_copy(aclrtStream s)
{
    OK(aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
}

static int32_t id_of(aclrtStream s)
{
    int32_t id;

    OK(aclrtStreamGetId(s, &id));
    return id;
}

/* --- failing --- */

START_TEST(nth_copy_fails_with_a_code)
{
    char *bytes = to;

    inject_fault("fail --kind copy --nth 3 --code 507052");
    for (int i = 1; i <= 4; i++) {
        OK(aclrtMemcpyAsync(bytes + i, 1, from, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        if (i == 3)
            FAILS(507052, aclrtSynchronizeStream(stream));
        else
            OK(aclrtSynchronizeStream(stream));
    }
    expect_counts(0, 3, 1, "used up");
    for (int i = 1; i <= 4; i++)
        ck_assert_int_eq(device_byte(bytes + i), i == 3 ? '.' : 'x');
}
END_TEST

START_TEST(codes_have_names)
{
    static const struct {
        const char *given;
        aclError code;
    } table[] = {{"ACL_ERROR_RT_SYS_DMA", 507013},
                 {"aicore_exception", 507015},
                 {"acl_error_repeat_initialize", 100002},
                 {"Timeout", 207020},
                 {"507900", 507900},
                 {"123456", 123456}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        aclError code;

        inject_fault("fail --kind delay --code %s", table[i].given);
        OK(aclnpudLaunchDelay(HOUR_US, 0, stream));
        code = aclrtSynchronizeStream(stream);
        ck_assert_int_eq(code, table[i].code);
        clear_rules(0);
    }
    inject_fault("fail --kind delay");
    OK(aclnpudLaunchDelay(HOUR_US, 0, stream));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSynchronizeStream(stream));
    npuctl_says("inject list", 0, "507000 ACL_ERROR_RT_INTERNAL_ERROR");
}
END_TEST

START_TEST(only_what_a_rule_is_for)
{
    aclrtStream third;

    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&third));
    OK(aclrtSetDevice(0));
    inject_fault("fail --kind delay --stream %d --device 0 --code 507015", id_of(other));
    inject_fault("fail --device 1 --code 507016");
    inject_fault("fail --session 12345 --code 507017");
    for (int i = 0; i < 3; i++) {
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSynchronizeStream(stream));
        launch_copy(other);
        OK(aclrtSynchronizeStream(other));
        OK(aclnpudLaunchDelay(0, 0, other));
        FAILS(507015, aclrtSynchronizeStream(other));
    }
    OK(aclrtSetDevice(1));
    OK(aclnpudLaunchDelay(0, 0, third));
    FAILS(507016, aclrtSynchronizeStream(third));
    OK(aclrtDestroyStream(third));
    OK(aclrtResetDeviceForce(1));
    OK(aclrtSetDevice(0));
    expect_counts(0, 3, 3, "active");
    expect_counts(1, 1, 1, "active");
    expect_counts(2, 0, 0, "active");
    clear_rules(0);
    OK(aclnpudLaunchDelay(0, 0, other));
    OK(aclrtSynchronizeStream(other));
}
END_TEST

START_TEST(one_session_and_not_the_other)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);

    ck_assert_uint_eq(r->n_sessions, 1);
    inject_fault("fail --session %llu --nth 2 --count 2",
                 (unsigned long long)r->sessions[0]->session);
    npud__report__free_unpacked(r, NULL);
    for (int i = 1; i <= 4; i++) {
        launch_copy(stream);
        ck_assert_int_eq(aclrtSynchronizeStream(stream) != 0, i == 2 || i == 3);
    }
    expect_counts(0, 3, 2, "used up");
}
END_TEST

/* Calls that need no engine make tasks while there are rules: so the n-th of them is the n-th. */
START_TEST(records_waits_and_resets_on_idle_streams_count)
{
    aclrtEvent plain, level;

    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    inject_fault("fail --kind record --nth 5 --code 507001");
    inject_fault("fail --kind wait --nth 4 --code 507003");
    inject_fault("fail --kind reset --nth 3 --code 507022");
    for (int i = 0; i < 2; i++) {
        aclrtEvent e = i == 0 ? plain : level;

        OK(aclrtRecordEvent(e, stream));
        OK(aclrtRecordEvent(level, other));
        OK(aclrtSynchronizeDevice());
        OK(aclrtStreamWaitEvent(stream, e));
        OK(aclrtResetEvent(level, stream));
        OK(aclrtSynchronizeStream(stream));
    }
    expect_counts(0, 4, 0, "active");
    expect_counts(1, 2, 0, "active");
    expect_counts(2, 2, 0, "active");
    OK(aclrtRecordEvent(plain, stream));
    FAILS(507001, aclrtSynchronizeStream(stream));
    OK(aclrtStreamWaitEvent(stream, plain));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtStreamWaitEvent(stream, plain));
    FAILS(507003, aclrtSynchronizeStream(stream));
    OK(aclrtResetEvent(level, stream));
    FAILS(507022, aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyEvent(level));
}
END_TEST

/* A record that fails releases its waiters. */
START_TEST(failed_record_leaves_nobody_waiting)
{
    aclrtEvent level, time;
    uint64_t us;

    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&time, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    inject_fault("fail --kind record");
    OK(aclrtStreamWaitEvent(other, level));
    OK(aclrtRecordEvent(level, stream));
    OK(aclrtRecordEvent(time, stream));
    OK(aclrtStreamWaitEvent(other, time));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeEvent(time));
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventGetTimestamp(time, &us));
    OK(aclrtDestroyEvent(level));
    OK(aclrtDestroyEvent(time));
}
END_TEST

static struct turn go, done;
static aclrtIpcEventHandle *shared;

static int wait_for_record(void *arg)
{
    aclrtEvent ipc;

    (void)arg;
    open_device();
    turn_await(&go);
    OK(aclrtIpcOpenEventHandle(*shared, &ipc));
    OK(aclrtStreamWaitEvent(stream, ipc));
    turn_tell(&done);
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeEvent(ipc));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    turn_tell(&done);
    turn_await(&go);
    OK(aclrtSynchronizeEvent(ipc));
    OK(aclrtDestroyEvent(ipc));
    OK(aclrtResetDevice(0));
    return 0;
}

/* The other process is told what it is told when ours dies. */
START_TEST(failed_ipc_record_fails_for_the_others)
{
    aclrtEvent gate, ipc;
    aclrtEventRecordedStatus status;
    pid_t peer;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    turn_init(&go);
    turn_init(&done);
    peer = child_start(wait_for_record, NULL);
    open_device();
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, shared));
    inject_fault("fail --kind ipc-record --nth 1 --code 507022");
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(ipc, stream));
    turn_tell(&go);
    turn_await(&done);
    stream_let_go(gate);
    FAILS(507022, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtQueryEventStatus(ipc, &status));
    turn_await(&done);
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtSynchronizeStream(stream));
    turn_tell(&go);
    child_expect_ok(peer);
    OK(aclrtDestroyEvent(ipc));
    OK(aclrtDestroyEvent(gate));
    tear_down_test();
}
END_TEST

static void count_run(void *n)
{
    ++*(_Atomic unsigned *)n;
}

START_TEST(every_kind_of_task_can_fail)
{
    _Atomic unsigned runs = 0;
    aclrtEvent level, ipc;

    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
#define KIND(name, call)                                                                           \
    do {                                                                                           \
        unsigned long rule_ = inject_fault("fail --kind '%s' --nth 1 --code 507015", name);        \
        OK(call);                                                                                  \
        FAILS(507015, aclrtSynchronizeDevice());                                                   \
        OK(call);                                                                                  \
        OK(aclrtSynchronizeDevice());                                                              \
        clear_rules(rule_);                                                                        \
    } while (0)
    KIND("record", aclrtRecordEvent(level, stream));
    KIND("Wait", aclrtStreamWaitEvent(stream, level));
    KIND("reset", aclrtResetEvent(level, stream));
    KIND("IPC record", aclrtRecordEvent(ipc, stream));
    KIND("ipc-wait", aclrtStreamWaitEvent(stream, ipc));
    KIND("copy", aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    KIND("set", aclrtMemsetAsync(to, SIZE, 0, SIZE, stream));
    KIND("delay", aclnpudLaunchDelay(0, 0, stream));
    KIND("callback", aclrtLaunchHostFunc(other, count_run, &runs));
    ck_assert_uint_eq(runs, 2); /* the one that failed has run as well */
    OK(aclrtDestroyEvent(level));
    OK(aclrtDestroyEvent(ipc));
}
END_TEST

/* --- at random, again and again the same --- */

#define TASKS   4000
#define STREAMS 6

/*
 * Which of its tasks fail: a byte each, in shared memory. The streams are on two devices, and run
 * at the same time in batches of their own.
 */
static int run_random(void *arg)
{
    char *failed = arg;
    aclrtStream s[STREAMS];

    OK(aclInit(NULL));
    for (int i = 0; i < STREAMS; i++) {
        OK(aclrtSetDevice(i % 2));
        OK(aclrtCreateStream(&s[i]));
    }
    for (int n = 0; n < TASKS; n++)
        for (int i = 0; i < STREAMS; i++) {
            OK(aclrtSetDevice(i % 2));
            OK(aclnpudLaunchDelay((uint64_t)((n + i) % 7), 0, s[i]));
            if (n % (i + 1) != 0)
                continue;
            failed[n * STREAMS + i] = aclrtSynchronizeStream(s[i]) != 0;
        }
    OK(aclrtResetDevice(0));
    OK(aclrtResetDeviceForce(1));
    return 0;
}

static char *random_run(const char *seed, unsigned *n)
{
    char *failed =
        mmap(NULL, TASKS * STREAMS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    inject_fault("fail --kind delay --probability 0.1 --seed %s", seed);
    child_expect_ok(child_start(run_random, failed));
    npud_await_sessions(0);
    clear_rules(0);
    *n = 0;
    for (int i = 0; i < TASKS; i++)
        *n += failed[i * STREAMS] != 0;
    return failed;
}

START_TEST(same_seed_same_failures)
{
    unsigned n[4];
    char *one = random_run("42", &n[0]), *two = random_run("42", &n[1]);
    char *three = random_run("43", &n[2]);

    ck_assert_int_eq(memcmp(one, two, TASKS * STREAMS), 0);
    ck_assert_int_ne(memcmp(one, three, TASKS * STREAMS), 0);
    /*
     * Of the first stream every task is looked at: 400 are to be expected, and 19 is the deviation.
     */
    ck_assert_uint_gt(n[0], 300);
    ck_assert_uint_lt(n[0], 500);
    ck_assert_uint_gt(n[2], 300);
    ck_assert_uint_lt(n[2], 500);
    npud_expect_empty();
}
END_TEST

/*
 * A program whose timing decides which records are complete at the call: the rule sees the same
 * tasks all the same.
 */
static int run_records(void *arg)
{
    char *failed = arg;
    aclrtEvent e;

    open_device();
    OK(aclrtCreateEvent(&e));
    for (int n = 0; n < TASKS; n++) {
        if (n % 3 == 0)
            launch_copy(stream);
        OK(aclrtRecordEvent(e, stream));
        OK(aclrtStreamWaitEvent(other, e));
        if (n % 5 == 0)
            failed[n] = aclrtSynchronizeStream(stream) != 0;
    }
    OK(aclrtResetDevice(0));
    return 0;
}

START_TEST(records_fail_at_the_same_places)
{
    char *failed[2];
    Npud__Report *r;

    for (int i = 0; i < 2; i++) {
        failed[i] = mmap(NULL, TASKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        inject_fault("fail --kind record --probability 0.02 --seed 5");
        child_expect_ok(child_start(run_records, failed[i]));
        npud_await_sessions(0);
        r = query_rules();
        ck_assert_uint_eq(r->rules[0]->matched, TASKS);
        npud__report__free_unpacked(r, NULL);
        clear_rules(0);
    }
    ck_assert_int_eq(memcmp(failed[0], failed[1], TASKS), 0);
    ck_assert_ptr_nonnull(memchr(failed[0], 1, TASKS));
}
END_TEST

START_TEST(counting_over_engines)
{
    aclrtStream far;

    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    inject_fault("fail --kind delay --nth 1001 --count 500");
    for (int i = 0; i < 1000; i++) {
        OK(aclrtSetDevice(0));
        OK(aclnpudLaunchDelay(0, 0, stream));
        OK(aclrtSetDevice(1));
        OK(aclnpudLaunchDelay(0, 0, far));
    }
    aclrtSynchronizeStream(far);
    OK(aclrtSetDevice(0));
    aclrtSynchronizeStream(stream);
    expect_counts(0, 1500, 500, "used up");
    OK(aclrtSetDevice(1));
    OK(aclrtResetDeviceForce(1));
    OK(aclrtSetDevice(0));
}
END_TEST

/* --- stalling --- */

START_TEST(stalled_until_cleared)
{
    unsigned long rule = inject_fault("stall --kind copy --nth 2");
    char words[64];
    Npud__Report *r;

    launch_copy(stream);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemset(to, SIZE, '.', SIZE));
    launch_copy(stream);
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 20));
    await_held(0, 1);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STREAMS);
    for (size_t i = 0; i < r->n_streams; i++)
        ck_assert_str_eq(r->streams[i]->state,
                         r->streams[i]->stream == id_of(stream) ? "stalled" : "idle");
    npud__report__free_unpacked(r, NULL);
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    ck_assert_uint_eq(r->n_waits, 1);
    snprintf(words, sizeof(words), "rule %lu of npuctl inject", rule);
    ck_assert_str_eq(r->waits[0]->waits_for, words);
    snprintf(words, sizeof(words), "npuctl inject clear %lu", rule);
    ck_assert_str_eq(r->waits[0]->blocker, words);
    npud__report__free_unpacked(r, NULL);
    launch_copy(other);
    OK(aclrtSynchronizeStream(other));
    OK(aclrtMemset(to, SIZE, '.', SIZE));
    clear_rules(rule);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(device_byte(to), 'x');
}
END_TEST

/*
 * Streams that wait for a stalled one: with a limit they give up, without one they are in no
 * deadlock.
 */
START_TEST(waiting_for_a_stalled_stream)
{
    aclrtEvent level, e;
    Npud__Report *r;

    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEvent(&e));
    inject_fault("stall --kind delay --count 1");
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtRecordEvent(level, stream));
    OK(aclrtStreamWaitEventWithTimeout(other, level, 1));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(other));
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtStreamWaitEvent(other, e));
    FAILS(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(other, 20));
    r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    ck_assert_uint_eq(r->n_waits, 2);
    ck_assert_uint_eq(r->n_deadlocks, 0);
    npud__report__free_unpacked(r, NULL);
    clear_rules(0);
    OK(aclrtSynchronizeDevice());
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyEvent(level));
}
END_TEST

START_TEST(stall_counts_and_holds_several_streams)
{
    aclrtStream s[8];

    inject_fault("stall --kind set --count 8");
    for (int i = 0; i < 8; i++) {
        OK(aclrtCreateStream(&s[i]));
        OK(aclrtMemsetAsync(to, SIZE, i, SIZE, s[i]));
    }
    await_held(0, 8);
    OK(aclrtMemsetAsync(to, SIZE, 1, SIZE, stream));
    OK(aclrtSynchronizeStream(stream));
    expect_counts(0, 8, 8, "used up");
    OK(aclrtDestroyStreamForce(s[3]));
    await_held(0, 7);
    clear_rules(0);
    OK(aclrtSynchronizeDevice());
    for (int i = 0; i < 8; i++)
        if (i != 3)
            OK(aclrtDestroyStream(s[i]));
}
END_TEST

/*
 * Guards against a record that is neither done nor failed: aclrtStreamStop() ended the held task of
 * an IPC record, and all waiters for that record waited for ever.
 */
START_TEST(stop_of_a_stalled_ipc_record_fails_it)
{
    aclrtEventRecordedStatus status;
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    inject_fault("stall --kind ipc-record --count 1");
    OK(aclrtRecordEvent(e, stream));
    await_held(0, 1);
    OK(aclrtQueryEventStatus(e, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtStreamWaitEvent(other, e));
    OK(aclrtStreamStop(stream));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeEvent(e));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtQueryEventStatus(e, &status));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(other));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(stream));
    /* The event is as good as new. */
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtSynchronizeEvent(e));
    OK(aclrtDestroyEvent(e));
}
END_TEST

/* The same for those that a notify would let go. */
START_TEST(stop_of_a_stalled_notify_record_fails_its_wait)
{
    aclrtNotify n;

    OK(aclrtCreateNotify(&n, ACL_NOTIFY_DEFAULT));
    OK(aclrtWaitAndResetNotify(n, other, 0));
    inject_fault("stall --kind notify-record --count 1");
    OK(aclrtRecordNotify(n, stream));
    await_held(0, 1);
    OK(aclrtStreamStop(stream));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStreamWithTimeout(other, 10000));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(stream));
    OK(aclrtDestroyNotify(n));
}
END_TEST

static void run_for_ever(void)
{
    for (volatile bool ever = true; ever;)
        ;
}

/* The program runs it: it must not begin when the stop has dropped it, beside what is behind. */
START_TEST(stop_of_a_stalled_kernel_ends_it)
{
    const aclnpudKernel kernel = {.size = sizeof(kernel),
                                  .name = "run_for_ever",
                                  .function = (const void *)(uintptr_t)run_for_ever};

    inject_fault("stall --kind callback --count 1");
    OK(aclnpudLaunchKernel(&kernel, 1, NULL, 0, stream));
    await_held(0, 1);
    OK(aclrtStreamStop(stream));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStreamWithTimeout(stream, 10000));
    OK(aclrtMemsetAsync(to, 1, 0, 1, stream));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/* --- kernels: the program runs them, maybe before npud has come to the task --- */

static _Atomic bool kernel_began, kernel_may_end;

static void run_until_it_may_end(void)
{
    atomic_store(&kernel_began, true);
    while (!atomic_load(&kernel_may_end))
        wait_a_moment();
}

static char first_byte(const void *memory)
{
    char byte;

    OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    return byte;
}

/* The rule fails it, and what is behind it waits for it all the same. */
static void fail_a_kernel(bool busy, bool restarted)
{
    const aclnpudKernel kernel = {.size = sizeof(kernel),
                                  .name = "run_until_it_may_end",
                                  .function = (const void *)(uintptr_t)run_until_it_may_end};
    aclrtEvent gate = NULL;

    inject_fault("fail --kind callback --count 1 --code 507015");
    if (busy)
        gate = stream_hold(stream);
    OK(aclnpudLaunchKernel(&kernel, 1, NULL, 0, stream));
    OK(aclrtMemcpyAsync(to, 1, from, 1, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    if (busy)
        stream_let_go(gate);
    while (!atomic_load(&kernel_began))
        wait_a_moment();
    /* The engine of both streams comes by `stream` before it is at the end of these. */
    for (int i = 0; i < 20; i++) {
        if (restarted && i == 10)
            npud_kill_server();
        OK(aclrtMemsetAsync(from, SIZE, 'x', SIZE, other));
        OK(aclrtSynchronizeStream(other));
        ck_assert_int_eq(first_byte(to), '.');
    }
    atomic_store(&kernel_may_end, true);
    FAILS(507015, aclrtSynchronizeStream(stream));
    ck_assert_int_eq(first_byte(to), 'x');
    expect_counts(0, 1, 1, "used up");
}

START_TEST(a_kernel_that_fails_is_waited_for)
{
    fail_a_kernel(_i == 1, false);
}
END_TEST

START_TEST(a_failing_kernel_when_npud_is_killed)
{
    npud_start_restartable(NULL);
    open_device();
    fail_a_kernel(false, true);
    tear_down_test();
}
END_TEST

/*
 * Guards against a wait for a record of another event: the library's slot of an event kept the
 * position of the last record of the event that had the slot before, and with rules set a wait for
 * an event that was never recorded is a task that names a position.
 */
START_TEST(wait_for_an_event_that_was_never_recorded)
{
    aclrtEvent e, gate;

    gate = stream_hold(stream);
    inject_fault("fail --kind copy --nth 1000 --code 507052");
    for (int i = 0; i < 20; i++) {
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
        OK(aclrtRecordEvent(e, stream));
        OK(aclrtDestroyEvent(e));
        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
        OK(aclrtStreamWaitEvent(other, e));
        OK(aclrtSynchronizeStreamWithTimeout(other, 10000));
        OK(aclrtDestroyEvent(e));
    }
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static int stall_for_good(void *arg)
{
    (void)arg;
    open_device();
    for (int i = 0; i < 100; i++)
        launch_copy(stream);
    OK(aclrtSynchronizeStream(stream));
    return 1;
}

START_TEST(killed_while_stalled)
{
    pid_t pid[4];

    inject_fault("stall --kind copy");
    for (int i = 0; i < 4; i++)
        pid[i] = child_start(stall_for_good, NULL);
    await_held(0, 4);
    for (int i = 0; i < 4; i++)
        child_kill(pid[i]);
    npud_expect_empty();
    await_held(0, 0);
    /* The rule is still there for the next. */
    pid[0] = child_start(stall_for_good, NULL);
    await_held(0, 1);
    child_kill(pid[0]);
    npud_expect_empty();
}
END_TEST

/* npud ends while a stream is stalled: no administrator has cleared the rule. */
START_TEST(end_of_npud_while_stalled)
{
    inject_fault("stall");
    launch_copy(stream);
    await_held(0, 1);
    npud_teardown();
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtSynchronizeStream(stream));
}
END_TEST

/* --- losing a device --- */

static void *synchronize_stream(void *s)
{
    OK(aclrtSetDevice(0));
    return (void *)(intptr_t)aclrtSynchronizeStream(s);
}

static const char *state_of_device(uint32_t device)
{
    static char state[16];
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__DEVICES);

    snprintf(state, sizeof(state), "%s", r->devices[device]->state);
    npud__report__free_unpacked(r, NULL);
    return state;
}

/*
 * Two threads, and the stream on the other device: of those that wait for a position the only one.
 */
static bool all_wait(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    unsigned threads = 0, streams = 0;

    for (size_t i = 0; i < r->n_waits; i++)
        if (r->waits[i]->thread != 0)
            threads++;
        else
            streams += strncmp(r->waits[i]->waits_for, "position ", strlen("position ")) == 0;
    npud__report__free_unpacked(r, NULL);
    return threads == 2 && streams == 1;
}

/* Each unfinished task of the device fails, whatever it waits for, and its waiters are told. */
START_TEST(lost_device_lets_go_everybody)
{
    uint64_t give_up = now_ns() + GUARD_NS;
    aclrtDeviceStatus status;
    aclrtEvent never, point;
    aclrtStream far, third;
    pthread_t thread[2];
    unsigned long rule;
    void *result;

    OK(aclrtCreateStream(&third));
    OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    OK(aclrtCreateEvent(&point));
    inject_fault("stall --kind set");
    OK(aclnpudLaunchDelay(HOUR_US, 0, stream));
    OK(aclrtRecordEvent(point, stream));
    OK(aclrtStreamWaitEvent(other, never));
    OK(aclrtMemsetAsync(to, SIZE, 1, SIZE, third));
    await_held(0, 1);
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&far));
    OK(aclrtStreamWaitEvent(far, point));
    OK(aclrtSetDevice(0));
    ck_assert_int_eq(pthread_create(&thread[0], NULL, synchronize_stream, stream), 0);
    ck_assert_int_eq(pthread_create(&thread[1], NULL, synchronize_stream, other), 0);
    while (!all_wait())
        ck_assert(now_ns() < give_up);
    rule = inject_fault("lose-device --device 0");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(thread[i], &result), 0);
        ck_assert_int_eq((intptr_t)result, LOST);
    }
    FAILS(LOST, aclrtSynchronizeStream(third));
    FAILS(LOST, aclrtSynchronizeStream(third));
    FAILS(LOST, aclrtSynchronizeDevice());
    FAILS(LOST, aclrtSynchronizeEvent(point));
    FAILS(LOST, aclnpudLaunchDelay(0, 0, stream));
    FAILS(LOST, aclrtRecordEvent(point, stream));
    FAILS(LOST, aclrtStreamWaitEvent(stream, point));
    FAILS(LOST, aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    FAILS(LOST, aclrtCreateStream(&third));
    ck_assert_str_eq(state_of_device(0), "lost");
    OK(aclrtQueryDeviceStatus(0, &status));
    ck_assert_int_eq(status, ACL_RT_DEVICE_STATUS_ABNORMAL);
    OK(aclrtQueryDeviceStatus(1, &status));
    ck_assert_int_eq(status, ACL_RT_DEVICE_STATUS_NORMAL);
    /* The other device is as it was, but for the wait for a stream of this one. */
    ck_assert_str_eq(state_of_device(1), "up");
    OK(aclrtSetDevice(1));
    FAILS(LOST, aclrtSynchronizeStream(far));
    OK(aclnpudLaunchDelay(1, 0, far));
    OK(aclrtSynchronizeStream(far));
    OK(aclrtResetDeviceForce(1));
    OK(aclrtSetDevice(0));
    clear_rules(rule);
    clear_rules(0);
    ck_assert_str_eq(state_of_device(0), "up");
    OK(aclrtQueryDeviceStatus(0, &status));
    ck_assert_int_eq(status, ACL_RT_DEVICE_STATUS_NORMAL);
    aclrtSynchronizeDevice(); /* what its streams have not reported yet */
    OK(aclrtSynchronizeDevice());
    OK(aclrtMemset(to, SIZE, '.', SIZE));
    launch_copy(stream);
    OK(aclrtSynchronizeStream(stream));
    ck_assert_int_eq(device_byte(to), 'x');
    OK(aclrtDestroyEvent(never));
    OK(aclrtDestroyEvent(point));
}
END_TEST

static _Atomic unsigned kernels_ran;

static void count_kernel(void)
{
    atomic_fetch_add(&kernels_ran, 1);
}

static aclError launch_kernel(void (*fn)(void))
{
    const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "kernel", .function = (const void *)(uintptr_t)fn};

    return aclnpudLaunchKernel(&kernel, 1, NULL, 0, stream);
}

static void begin_kernel(void)
{
    OK(launch_kernel(run_until_it_may_end));
    while (!atomic_load(&kernel_began))
        wait_a_moment();
}

/* The program is told that its work has failed, and then that the stream is as good as before. */
static void lose_and_regain_device(void)
{
    unsigned long rule = inject_fault("lose-device --device 0");

    FAILS(LOST, aclrtSynchronizeStreamWithTimeout(stream, 10000));
    clear_rules(rule);
    aclrtSynchronizeStream(stream); /* what it has not reported yet */
}

static void *registered_page(void)
{
    void *at, *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(page, MAP_FAILED);
    OK(aclrtHostRegister(page, SIZE, ACL_HOST_REGISTER_MAPPED, &at));
    return page;
}

/*
 * Guards against work that the program runs after it was told that it failed, as what was before it
 * took longer: a copy into memory that was unmapped by then ended the program. Before it: a wait
 * for a word that comes too late (0), or never (1), which held up the stream for ever when the
 * device was back; and a kernel (2), which comes to its end.
 */
START_TEST(work_of_a_lost_device_does_not_begin)
{
    void *page = registered_page();
    _Atomic uint64_t *word = registered_page();

    if (_i < 2)
        OK(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, stream));
    else
        begin_kernel();
    OK(aclrtMemcpyAsync(page, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(launch_kernel(count_kernel));
    lose_and_regain_device();
    OK(aclrtHostUnregister(page));
    ck_assert_int_eq(munmap(page, SIZE), 0);
    atomic_store(&kernel_may_end, true);
    atomic_store(word, _i == 0 ? 7 : 0);
    OK(launch_kernel(count_kernel));
    OK(aclrtSynchronizeStreamWithTimeout(stream, 10000));
    ck_assert_uint_eq(atomic_load(&kernels_ran), 1);
    OK(aclrtHostUnregister((void *)word));
}
END_TEST

/* It may wait for ever, and changes nothing: the stream, and what else it has, goes on. */
START_TEST(a_wait_that_fails_is_not_waited_for)
{
    void *word = registered_page();

    inject_fault("fail --kind callback --count 1 --code 507015");
    OK(aclrtValueWait(word, 7, ACL_STREAM_WAIT_VALUE_EQ, stream));
    FAILS(507015, aclrtSynchronizeStreamWithTimeout(stream, 10000));
    OK(launch_kernel(count_kernel));
    OK(aclrtValueWrite(word, 8, 0, stream));
    OK(aclrtSynchronizeStreamWithTimeout(stream, 10000));
    ck_assert_uint_eq(atomic_load(&kernels_ran), 1);
    ck_assert_uint_eq(*(uint64_t *)word, 8);
    OK(aclrtHostUnregister(word));
}
END_TEST

/* What the loss has left running stands before what the stream is at, and ends with it. */
START_TEST(a_stop_ends_what_a_lost_device_has_left)
{
    begin_kernel();
    OK(launch_kernel(count_kernel));
    lose_and_regain_device();
    OK(launch_kernel(count_kernel));
    OK(aclrtStreamStop(stream));
    FAILS(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStreamWithTimeout(stream, 10000));
    OK(launch_kernel(count_kernel));
    OK(aclrtSynchronizeStreamWithTimeout(stream, 10000));
    ck_assert_uint_eq(atomic_load(&kernels_ran), 1);
}
END_TEST

START_TEST(nth_task_loses_its_device)
{
    unsigned long rule = inject_fault("lose-device --kind delay --nth 500");

    for (int i = 0; i < 600; i++) {
        aclError r = aclnpudLaunchDelay(0, 0, i % 2 ? stream : other);

        if (r != 0)
            ck_assert_int_eq(r, LOST);
        ck_assert(r == 0 || i >= 499);
    }
    FAILS(LOST, aclrtSynchronizeDevice());
    ck_assert_str_eq(state_of_device(0), "lost");
    ck_assert_str_eq(state_of_device(1), "up");
    expect_counts(0, 500, 1, "device 0 lost");
    npuctl_says("inject lose-device --device 0", 1, "lost already");
    clear_rules(rule);
    aclrtSynchronizeDevice();
    OK(aclnpudLaunchDelay(0, 0, stream));
    OK(aclrtSynchronizeDevice());
}
END_TEST

/*
 * If a process waits for a record of another process, and the recording stream was on the lost
 * device, the waiter is told.
 */
START_TEST(record_of_a_lost_device_fails_for_the_others)
{
    aclrtEvent ipc;
    pid_t peer;
    unsigned long rule;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    turn_init(&go);
    turn_init(&done);
    peer = child_start(wait_for_record, NULL);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(1));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, shared));
    OK(aclnpudLaunchDelay(HOUR_US, 0, stream));
    OK(aclrtRecordEvent(ipc, stream));
    turn_tell(&go);
    turn_await(&done);
    rule = inject_fault("lose-device --device 1");
    turn_await(&done);
    FAILS(LOST, aclrtSynchronizeStream(stream));
    clear_rules(rule);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtSynchronizeStream(stream));
    turn_tell(&go);
    child_expect_ok(peer);
    OK(aclrtDestroyEvent(ipc));
    OK(aclrtResetDeviceForce(1));
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

START_TEST(session_of_a_lost_device_can_leave)
{
    launch_copy(stream);
    inject_fault("lose-device --device 0");
    OK(aclrtDestroyStream(other));
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

/* --- rules --- */

START_TEST(rules_outlive_sessions_and_are_bounded)
{
    char words[32];
    Npud__Report *r;

    inject_fault("fail --kind copy --nth 1");
    for (int i = 1; i < 64; i++)
        inject_fault("fail --kind delay --nth %d", i + 1000);
    npuctl_says("inject fail", 1, "207012");
    launch_copy(stream);
    FAILS(ACL_ERROR_RT_INTERNAL_ERROR, aclrtSynchronizeStream(stream));
    /* One that is used up makes room. */
    inject_fault("fail --kind set");
    npuctl_says("inject fail", 1, "207012");
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    npud_expect_empty();
    r = query_rules();
    ck_assert_uint_eq(r->n_rules, 64);
    ck_assert_str_eq(r->rules[63]->kind, "set");
    snprintf(words, sizeof(words), "inject clear %llu", (unsigned long long)r->rules[63]->rule);
    npud__report__free_unpacked(r, NULL);
    npuctl_says(words, 0, "");
    npuctl_says(words, 1, "there is no such rule");
    clear_rules(0);
    r = query_rules();
    ck_assert_uint_eq(r->n_rules, 0);
    npud__report__free_unpacked(r, NULL);
    clear_rules(0);
    npud_teardown();
}
END_TEST

START_TEST(list_and_usage)
{
    npuctl_says("--json inject fail --kind ipc_event_record", 1,
                "\"ipc_event_record\": there are no such tasks; there are");
    npuctl_says("inject fail --kind x", 1,
                " reset, wait, ipc-record, ipc-wait, copy,"); /* as typed in a shell */
    npuctl_says("--json inject fail --kind ipc-record --nth 2", 0, "{\"rule\":1}");
    npuctl_says("inject fail --session 7 --probability 0.5 --seed 9 --code sys_dma", 0, "2");
    npuctl_says("inject stall --stream 4 --device 1 --count 3", 0, "3");
    npuctl_says("--json inject list", 0,
                "\"kind\":\"IPC record\",\"session\":0,\"device\":-1,\"stream\":-1,\"nth\":2,"
                "\"count\":1,\"code\":507000,\"probability\":0,\"seed\":0}");
    npuctl_says("--json inject list", 0, "\"probability\":0.5,\"seed\":9}");
    npuctl_says("inject list", 0, "IPC record tasks");
    npuctl_says("inject list", 0, "all with probability 0.5, seed 9");
    npuctl_says("inject list", 0, "all tasks in stream 4 on device 1");
    npuctl_says("inject", 2, "inject needs one of");
    npuctl_says("inject explode", 2, "not \"explode\"");
    npuctl_says("inject fail copy", 2, "unexpected argument \"copy\"");
    npuctl_says("inject fail --code nonsense", 2, "--code wants");
    npuctl_says("inject fail --code 7", 2, "--code wants");
    npuctl_says("inject stall --code 507000", 2, "--code goes with inject fail");
    npuctl_says("inject fail --nth 0", 2, "--nth wants");
    npuctl_says("inject fail --nth -1", 2, "--nth wants");
    npuctl_says("inject fail --count 0", 2, "--count wants");
    npuctl_says("inject fail --session x", 2, "--session wants");
    npuctl_says("inject fail --stream 4294967296", 2, "--stream wants");
    npuctl_says("inject fail --device 4294967296", 2, "--device wants");
    npuctl_says("inject fail --device 2", 1, "device 2: there is no such device");
    npuctl_says("inject fail --probability 1.5", 2, "--probability wants");
    npuctl_says("inject fail --probability nan", 2, "--probability wants");
    npuctl_says("inject fail --seed 3", 2, "--seed goes with --probability");
    npuctl_says("inject lose-device", 1, "lose-device needs --device");
    npuctl_says("inject lose-device --device 0 --count 2", 2, "--count does not go");
    npuctl_says("inject clear x", 2, "no number of a rule: \"x\"");
    npuctl_says("inject clear 1 2", 2, "unexpected argument \"2\"");
    npuctl_says("inject clear --nth 3", 2, "\"--nth\"");
    npuctl_says("inject list 3", 2, "unexpected argument");
    npuctl_says("--kind copy status", 2, "this goes with inject: \"--kind\"");
    npuctl_says("--watch=1 inject fail", 2, "goes with reports");
    npuctl_says("inject fail --kind", 2, "requires an argument");
    npuctl_says("--socket=/nonexistent inject list", 3, "no npud at");
    clear_rules(0);
    npuctl_says("--json inject list", 0, "{\"rules\":[]}");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inject");
    TCase *tc = suite_case(suite, "one program", 60, set_up_test, tear_down_test);

    tcase_add_test(tc, nth_copy_fails_with_a_code);
    tcase_add_test(tc, codes_have_names);
    tcase_add_test(tc, only_what_a_rule_is_for);
    tcase_add_test(tc, one_session_and_not_the_other);
    tcase_add_test(tc, records_waits_and_resets_on_idle_streams_count);
    tcase_add_test(tc, failed_record_leaves_nobody_waiting);
    tcase_add_test(tc, every_kind_of_task_can_fail);
    tcase_add_test(tc, counting_over_engines);
    tcase_add_test(tc, stalled_until_cleared);
    tcase_add_test(tc, waiting_for_a_stalled_stream);
    tcase_add_test(tc, stall_counts_and_holds_several_streams);
    tcase_add_test(tc, stop_of_a_stalled_ipc_record_fails_it);
    tcase_add_test(tc, stop_of_a_stalled_kernel_ends_it);
    tcase_add_test(tc, stop_of_a_stalled_notify_record_fails_its_wait);
    tcase_add_loop_test(tc, a_kernel_that_fails_is_waited_for, 0, 2);
    tcase_add_test(tc, wait_for_an_event_that_was_never_recorded);
    tcase_add_test(tc, lost_device_lets_go_everybody);
    tcase_add_loop_test(tc, work_of_a_lost_device_does_not_begin, 0, 3);
    tcase_add_test(tc, a_wait_that_fails_is_not_waited_for);
    tcase_add_test(tc, a_stop_ends_what_a_lost_device_has_left);
    tcase_add_test(tc, nth_task_loses_its_device);
    tc = suite_case(suite, "its end", 60, set_up_test, NULL);
    tcase_add_test(tc, end_of_npud_while_stalled);
    tcase_add_test(tc, session_of_a_lost_device_can_leave);
    tcase_add_test(tc, rules_outlive_sessions_and_are_bounded);
    tc = suite_case(suite, "processes", 60, npud_setup, NULL);
    tcase_add_test(tc, failed_ipc_record_fails_for_the_others);
    tcase_add_test(tc, record_of_a_lost_device_fails_for_the_others);
    tc = suite_case(suite, "programs", 120, npud_setup, npud_teardown);
    tcase_add_test(tc, same_seed_same_failures);
    tcase_add_test(tc, records_fail_at_the_same_places);
    tcase_add_test(tc, killed_while_stalled);
    tcase_add_test(tc, list_and_usage);
    tc = suite_case(suite, "an npud that comes back", 120, NULL, NULL);
    tcase_add_test(tc, a_failing_kernel_when_npud_is_killed);
    return run_suite(suite);
}
