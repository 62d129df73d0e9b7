/*
 * Notifies and count notifies within one process: the latch, the counter, limits, and every error
 * of the reference.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/moment.h"

#define STREAMS 64

static aclrtStream stream, other, probe;
static aclrtNotify notify;

static void open_device(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateStream(&probe));
    OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
}

static unsigned count_idle(aclrtStream *s, unsigned n)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += idle(s[i]);
    return count;
}

static void record_notify(void)
{
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtSynchronizeStream(other));
    engine_turn(probe);
}

START_TEST(a_wait_waits_for_the_record)
{
    open_device();
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
    record_notify();
    OK(aclrtSynchronizeStream(stream));
    /* Cleared by the wait: the next one waits again. */
    OK(aclrtWaitAndResetNotify(notify, stream, UINT32_MAX));
    engine_turn(probe);
    ck_assert(!idle(stream));
    OK(aclrtRecordNotify(notify, NULL)); /* from the default stream */
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(two_records_release_one_wait)
{
    open_device();
    record_notify();
    record_notify();
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
    record_notify();
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(one_record_releases_one_of_many)
{
    aclrtStream s[STREAMS];

    open_device();
    for (unsigned i = 0; i < STREAMS; i++) {
        OK(aclrtCreateStream(&s[i]));
        OK(aclrtWaitAndResetNotify(notify, s[i], 0));
    }
    engine_turn(probe);
    ck_assert_uint_eq(count_idle(s, STREAMS), 0);
    for (unsigned i = 1; i <= STREAMS; i++) {
        record_notify();
        ck_assert_uint_eq(count_idle(s, STREAMS), i);
    }
}
END_TEST

START_TEST(a_record_comes_after_what_was_before_it)
{
    aclrtEvent gate;

    open_device();
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    gate = stream_hold(other);
    OK(aclrtRecordNotify(notify, other));
    engine_turn(probe);
    ck_assert(!idle(stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

/*
 * Two notifies make a pair of streams take turns: every record finds its bit clear, so each
 * releases one wait.
 */
START_TEST(streams_take_turns)
{
    enum { ROUNDS = 2000, PAIRS = 8 };
    aclrtStream s[2 * PAIRS];
    aclrtNotify n[2 * PAIRS];

    open_device();
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        OK(aclrtCreateStream(&s[i]));
        OK(aclrtCreateNotify(&n[i], ACL_NOTIFY_DEFAULT));
    }
    for (unsigned r = 0; r < ROUNDS; r++)
        for (unsigned p = 0; p < 2 * PAIRS; p += 2) {
            OK(aclrtRecordNotify(n[p], s[p]));
            OK(aclrtWaitAndResetNotify(n[p + 1], s[p], 0));
            OK(aclrtWaitAndResetNotify(n[p], s[p + 1], 0));
            OK(aclrtRecordNotify(n[p + 1], s[p + 1]));
        }
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        OK(aclrtSynchronizeStreamWithTimeout(s[i], LIMIT_MS));
    /* And nothing is left over: one more wait of each stays. */
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        OK(aclrtWaitAndResetNotify(n[i], s[i], 0));
    engine_turn(probe);
    ck_assert_uint_eq(count_idle(s, 2 * PAIRS), 0);
}
END_TEST

/*
 * The recorder is on device 1, the waiters on device 0: their engines hand streams to each other.
 */
START_TEST(across_devices)
{
    enum { ROUNDS = 500 };
    aclrtContext first, second;
    aclrtStream remote;
    aclrtNotify back;

    open_device();
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 1));
    OK(aclrtCreateStream(&remote));
    OK(aclrtCreateNotify(&back, ACL_NOTIFY_DEFAULT));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtWaitAndResetNotify(notify, remote, 0));
    for (unsigned i = 0; i < ROUNDS; i++) {
        OK(aclrtSetCurrentContext(second));
        OK(aclrtRecordNotify(notify, remote));
        OK(aclrtWaitAndResetNotify(back, remote, 0));
        OK(aclrtSetCurrentContext(first));
        OK(aclrtWaitAndResetNotify(notify, stream, 0));
        OK(aclrtRecordNotify(back, stream));
    }
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    OK(aclrtSetCurrentContext(second));
    OK(aclrtSynchronizeStreamWithTimeout(remote, LIMIT_MS));
}
END_TEST

START_TEST(a_limit_passes)
{
    uint64_t start = now_ns();

    open_device();
    OK(aclrtWaitAndResetNotify(notify, stream, 1));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    ck_assert_uint_ge(now_ns() - start, 1000000000);
    /* It has not taken the record that comes now. */
    record_notify();
    OK(aclrtWaitAndResetNotify(notify, stream, 1));
    OK(aclrtSynchronizeStream(stream));
    /* A limit that does not pass does nothing. */
    OK(aclrtWaitAndResetNotify(notify, stream, LIMIT_S));
    record_notify();
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(reset_clears_now)
{
    aclrtNotify more[3];
    aclrtStream s[3];

    open_device();
    for (int i = 0; i < 3; i++) {
        OK(aclrtCreateNotify(&more[i], ACL_NOTIFY_DEVICE_USE_ONLY));
        OK(aclrtCreateStream(&s[i]));
        OK(aclrtRecordNotify(more[i], other));
    }
    OK(aclrtSynchronizeStream(other));
    OK(aclrtNotifyBatchReset(more, 3));
    for (int i = 0; i < 3; i++)
        OK(aclrtWaitAndResetNotify(more[i], s[i], 0));
    engine_turn(probe);
    ck_assert_uint_eq(count_idle(s, 3), 0);
    /* It stops at the first that fails: those before are clear, those after are not. */
    for (int i = 0; i < 3; i++) {
        OK(aclrtRecordNotify(more[i], other)); /* lets the wait go */
        OK(aclrtRecordNotify(more[i], other));
    }
    OK(aclrtSynchronizeStream(other));
    FAILS(ACL_ERROR_RT_PARAM_INVALID,
          aclrtNotifyBatchReset((aclrtNotify[]){more[0], NULL, more[2]}, 3));
    for (int i = 0; i < 3; i++)
        OK(aclrtWaitAndResetNotify(more[i], s[i], 0));
    engine_turn(probe);
    ck_assert(!idle(s[0]));
    ck_assert(idle(s[1]));
    ck_assert(idle(s[2]));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtNotifyBatchReset(NULL, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtNotifyBatchReset(more, 0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtNotifyBatchReset((aclrtNotify[]){stream}, 1));
}
END_TEST

START_TEST(ids_differ)
{
    uint32_t a, b, again;
    aclrtNotify second;

    open_device();
    OK(aclrtCreateNotify(&second, ACL_NOTIFY_DEFAULT));
    OK(aclrtGetNotifyId(notify, &a));
    OK(aclrtGetNotifyId(notify, &again));
    OK(aclrtGetNotifyId(second, &b));
    ck_assert_uint_eq(a, again);
    ck_assert_uint_ne(a, b);
}
END_TEST

/*
 * What is queued for a notify that is destroyed never hits the next one, whatever number that gets.
 */
START_TEST(destroyed_with_tasks_queued)
{
    aclrtNotify next;
    aclrtEvent gate;
    aclrtStream third;

    open_device();
    OK(aclrtCreateStream(&third));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    gate = stream_hold(other);
    OK(aclrtRecordNotify(notify, other));
    OK(aclrtWaitAndResetNotify(notify, other, 0));
    OK(aclrtDestroyNotify(notify));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(notify, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(notify));
    OK(aclrtCreateNotify(&next, ACL_NOTIFY_DEFAULT));
    OK(aclrtWaitAndResetNotify(next, third, 0));
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(other));
    engine_turn(probe);
    ck_assert(!idle(third));
    OK(aclrtRecordNotify(next, other));
    OK(aclrtSynchronizeStream(third));
}
END_TEST

/* A wait that is dropped takes no record with it. */
START_TEST(a_dropped_wait_swallows_nothing)
{
    open_device();
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    OK(aclrtWaitAndResetNotify(notify, other, 0));
    engine_turn(probe);
    OK(aclrtDestroyStreamForce(stream));
    OK(aclrtRecordNotify(notify, probe));
    OK(aclrtSynchronizeStreamWithTimeout(other, LIMIT_MS));
}
END_TEST

/*
 * The same, at the moment when a record has let it go and it has not gone on: which of the two
 * streams the record is for may vary, but one of them gets it.
 */
START_TEST(a_record_outlives_the_stream_it_released)
{
    aclrtContext first, second;
    aclrtStream remote;

    open_device();
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 1));
    OK(aclrtCreateStream(&remote));
    for (int i = 0; i < 300; i++) {
        aclrtStream doomed;

        OK(aclrtSetCurrentContext(first));
        OK(aclrtCreateStream(&doomed));
        OK(aclrtWaitAndResetNotify(notify, doomed, 0));
        engine_turn(probe);
        OK(aclrtSetCurrentContext(second));
        OK(aclrtRecordNotify(notify, remote));
        OK(aclrtSetCurrentContext(first));
        OK(aclrtDestroyStreamForce(doomed));
        /* Released and retired, or given back: then the bit is set. */
        OK(aclrtSetCurrentContext(second));
        OK(aclrtSynchronizeStream(remote));
        OK(aclrtSetCurrentContext(first));
        OK(aclrtNotifyBatchReset(&notify, 1));
        OK(aclrtWaitAndResetNotify(notify, stream, 0));
        OK(aclrtRecordNotify(notify, other));
        OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    }
}
END_TEST

static void *synchronize_stream(void *arg)
{
    OK(aclrtSetDevice(0));
    return (void *)(intptr_t)aclrtSynchronizeStream(arg);
}

/*
 * An abort at that moment: either the wait was executed, and the record is spent, or the wait was
 * discarded, and the record is there for the next one. Never both, never neither.
 */
START_TEST(an_aborted_wait_is_told_or_has_its_record)
{
    aclrtContext first, second;
    aclrtStream remote, doomed;

    open_device();
    OK(aclrtGetCurrentContext(&first));
    OK(aclrtCreateContext(&second, 1));
    OK(aclrtCreateStream(&remote));
    OK(aclrtSetCurrentContext(first));
    OK(aclrtCreateStream(&doomed));
    for (int i = 0; i < (int)choose_effort(100, 5000); i++) {
        pthread_t thread;
        void *told;

        OK(aclrtWaitAndResetNotify(notify, doomed, 0));
        ck_assert_int_eq(pthread_create(&thread, NULL, synchronize_stream, doomed), 0);
        while (!npud_lists_sleeper(getpid(), "aclrtSynchronizeStream"))
            wait_a_moment();
        OK(aclrtSetCurrentContext(second));
        OK(aclrtRecordNotify(notify, remote));
        for (volatile int n = i % 50 * 200; n > 0; n--)
            ;
        OK(aclrtSetCurrentContext(first));
        OK(aclrtStreamAbort(doomed));
        ck_assert_int_eq(pthread_join(thread, &told), 0);
        ck_assert(told == NULL || (intptr_t)told == ACL_ERROR_RT_STREAM_ABORT);
        OK(aclrtSetCurrentContext(second));
        OK(aclrtSynchronizeStream(remote));
        OK(aclrtSetCurrentContext(first));
        OK(aclrtWaitAndResetNotify(notify, other, 0));
        engine_turn(probe);
        ck_assert_msg(idle(other) == (told != NULL), "round %d: told %d, the record is %s", i,
                      (int)(intptr_t)told, idle(other) ? "there" : "not there");
        if (!idle(other))
            OK(aclrtRecordNotify(notify, probe));
        OK(aclrtSynchronizeStreamWithTimeout(other, LIMIT_MS));
    }
}
END_TEST

#define WAITERS 5

/* One bit, and streams of which some are parked: which of them a record lets go is not said. */
struct model {
    aclrtStream waiter[WAITERS];
    bool waits[WAITERS];
    bool bit;
    uint64_t rng;
};

static unsigned count_waits_of(const struct model *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WAITERS; i++)
        n += m->waits[i];
    return n;
}

/* As many streams as the model says are parked, and only some of those that were before. */
static void compare_model(struct model *m, unsigned parked, const char *after)
{
    unsigned n = 0;

    engine_turn(probe);
    for (unsigned i = 0; i < WAITERS; i++) {
        bool waits = !idle(m->waiter[i]);

        ck_assert_msg(!waits || m->waits[i], "after %s a stream waits that had gone on", after);
        m->waits[i] = waits;
        n += waits;
    }
    ck_assert_msg(n == parked, "after %s %u streams wait, and not %u", after, n, parked);
}

static void discard_wait(struct model *m, unsigned i)
{
    if (draw_chance(&m->rng, 50)) {
        OK(aclrtStreamAbort(m->waiter[i]));
    } else {
        OK(aclrtDestroyStreamForce(m->waiter[i]));
        OK(aclrtCreateStream(&m->waiter[i]));
    }
}

static void operate_model(struct model *m)
{
    unsigned i = draw_below(&m->rng, WAITERS), parked = count_waits_of(m);

    switch (draw_below(&m->rng, 4)) {
    case 0:
        record_notify();
        m->bit |= parked == 0;
        compare_model(m, parked - (parked > 0), "a record");
        break;
    case 1:
        if (m->waits[i])
            break;
        OK(aclrtWaitAndResetNotify(notify, m->waiter[i], 0));
        m->waits[i] = !m->bit;
        compare_model(m, parked + !m->bit, "a wait");
        m->bit = false;
        break;
    case 2:
        OK(aclrtNotifyBatchReset(&notify, 1));
        m->bit = false;
        compare_model(m, parked, "a reset");
        break;
    default:
        discard_wait(m, i);
        compare_model(m, parked - m->waits[i], "an abort");
    }
}

/* Records, waits, resets and aborts of waits in any order: nothing is lost, and nothing doubled. */
START_TEST(any_order)
{
    struct model m = {.rng = 1};

    open_device();
    for (unsigned i = 0; i < WAITERS; i++)
        OK(aclrtCreateStream(&m.waiter[i]));
    for (unsigned n = choose_effort(1000, 50000); n > 0; n--)
        operate_model(&m);
}
END_TEST

/*
 * A record that is dropped fails the wait that it would have ended, also one that comes later, and
 * no other.
 */
START_TEST(a_dropped_record_fails_its_wait)
{
    aclrtStream doomed;

    open_device();
    OK(aclrtCreateStream(&doomed));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    stream_hold(doomed);
    OK(aclrtRecordNotify(notify, doomed));
    OK(aclrtRecordNotify(notify, doomed));
    OK(aclrtDestroyStreamForce(doomed));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    engine_turn(probe);
    ck_assert(!idle(stream));
    record_notify();
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

static void *without_context(void *arg)
{
    uint32_t id;

    (void)arg;
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateNotify(&(aclrtNotify){0}, 0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyNotify(notify));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtRecordNotify(notify, stream));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtWaitAndResetNotify(notify, stream, 0));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetNotifyId(notify, &id));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtNotifyBatchReset(&notify, 1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtNotifySetImportPid(notify, &(int32_t){1}, 1));
    FAILS(ACL_ERROR_RT_CONTEXT_NULL, aclrtCntNotifyCreate(&(aclrtCntNotify){0}, 0));
    return NULL;
}

START_TEST(refused)
{
    aclrtContext second;
    aclrtNotify n;
    uint32_t id;

    open_device();
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCreateNotify(NULL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateNotify(&n, 2));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtDestroyNotify(NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(stream));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtRecordNotify(NULL, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(stream, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordNotify(notify, notify));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtWaitAndResetNotify(NULL, stream, 0));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtWaitAndResetNotify((void *)&n, stream, 0));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetNotifyId(NULL, &id));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtGetNotifyId(notify, NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtGetNotifyId(stream, &id));
    thread_call(without_context, NULL);
    OK(aclrtCreateContext(&second, 0));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordNotify(notify, stream));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtWaitAndResetNotify(notify, NULL, 1)); /* another context of the same device */
    OK(aclrtRecordNotify(notify, NULL));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(NULL));
}
END_TEST

static void few_setup(void)
{
    static const char *const args[] = {"--set", "limits.notifies=3", NULL};

    npud_start(args);
}

START_TEST(limit)
{
    aclrtNotify n[3];
    aclrtCntNotify count;

    open_device(); /* makes one */
    OK(aclrtCreateNotify(&n[0], 0));
    OK(aclrtCntNotifyCreate(&count, 0));
    FAILS(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, aclrtCreateNotify(&n[1], 0));
    FAILS(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, aclrtCntNotifyCreate(&n[1], 0));
    OK(aclrtCntNotifyDestroy(count));
    OK(aclrtCreateNotify(&n[1], 0));
    ck_assert_uint_eq(npud_ledger().notifies, 3);
}
END_TEST

/* --- count notifies --- */

static aclrtCntNotify count;

static void count_open(void)
{
    open_device();
    OK(aclrtCntNotifyCreate(&count, 0));
}

static void count_record(int mode, uint32_t value)
{
    OK(aclrtCntNotifyRecord(
        count, other,
        &(aclrtCntNotifyRecordInfo){.mode = (aclrtCntNotifyRecordMode)mode, .value = value}));
    OK(aclrtSynchronizeStream(other));
    engine_turn(probe);
}

static void count_wait(aclrtStream s, int mode, uint32_t value, bool clear)
{
    OK(aclrtCntNotifyWaitWithTimeout(count, s,
                                     &(aclrtCntNotifyWaitInfo){.mode = (aclrtCntNotifyWaitMode)mode,
                                                               .value = value,
                                                               .isClear = clear}));
}

/* What the counter is, as npud tells. */
static uint32_t read_counter(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__NOTIFIES);
    uint32_t value = UINT32_MAX;

    for (size_t i = 0; i < r->n_notifies; i++)
        if (strcmp(r->notifies[i]->kind, "count") == 0)
            value = r->notifies[i]->value;
    npud__report__free_unpacked(r, NULL);
    return value;
}

START_TEST(count_records)
{
    count_open();
    ck_assert_uint_eq(read_counter(), 0);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 12);
    ck_assert_uint_eq(read_counter(), 12);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 5);
    ck_assert_uint_eq(read_counter(), 17);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, 0x0e);
    ck_assert_uint_eq(read_counter(), 0x1f);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE, 0x15);
    ck_assert_uint_eq(read_counter(), 0x15);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, UINT32_MAX);
    ck_assert_uint_eq(read_counter(), 0x14);
    OK(aclrtCntNotifyReset(count, NULL));
    OK(aclrtSynchronizeStream(NULL));
    ck_assert_uint_eq(read_counter(), 0);
}
END_TEST

/*
 * Each mode below, at and above its value, and a mask; both for a wait that comes late and for one
 * that is there.
 */
START_TEST(count_waits)
{
    static const struct {
        int mode;
        uint32_t value, counter;
        bool met;
    } table[] = {
        {ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 5, 4, true},
        {ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 5, 5, false},
        {ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, 5, 6, false},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 5, 4, false},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 5, 5, true},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 5, 6, false},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 5, 4, false},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 5, 5, false},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 5, 6, true},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 5, 4, false},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 5, 5, true},
        {ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 5, UINT32_MAX, true},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 6, 2, false},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 6, 6, true},
        {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE, 6, 7, true},
    };
    count_open();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool less = table[i].mode == ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE;

        for (int late = 0; late < 2; late++) {
            /* A counter that meets none of these. */
            count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, less ? 1000 : 0);
            if (!late) {
                count_wait(stream, table[i].mode, table[i].value, false);
                engine_turn(probe);
                ck_assert(!idle(stream));
            }
            count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, table[i].counter);
            if (late)
                count_wait(stream, table[i].mode, table[i].value, false);
            engine_turn(probe);
            ck_assert_msg(idle(stream) == table[i].met, "row %zu, late %d", i, late);
            ck_assert_uint_eq(read_counter(), table[i].counter);
            count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, less ? 0 : table[i].value);
            count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, table[i].value + 1);
            OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
        }
    }
}
END_TEST

/* Waits are looked at in the order in which they came, each with what those before it have left. */
START_TEST(count_clears)
{
    aclrtStream s[4];

    count_open();
    for (int i = 0; i < 4; i++)
        OK(aclrtCreateStream(&s[i]));
    count_wait(s[0], ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 9, false);
    engine_turn(probe);
    count_wait(s[1], ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 3, true);
    engine_turn(probe);
    count_wait(s[2], ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, 3, true);
    engine_turn(probe);
    for (uint32_t i = 1; i <= 2; i++) {
        count_record(ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1);
        ck_assert_uint_eq(count_idle(s, 3), 0);
    }
    count_record(ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1);
    ck_assert(!idle(s[0]) && idle(s[1]) && !idle(s[2]));
    ck_assert_uint_eq(read_counter(), 0);
    count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 10);
    ck_assert_uint_eq(count_idle(s, 3), 3);
    ck_assert_uint_eq(read_counter(), 0);
    /* Cleared under one that waits for just that. */
    count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 7);
    count_wait(s[0], ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0, false);
    engine_turn(probe);
    ck_assert(!idle(s[0]));
    count_wait(s[3], ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 6, true);
    OK(aclrtSynchronizeStreamWithTimeout(s[3], LIMIT_MS));
    OK(aclrtSynchronizeStreamWithTimeout(s[0], LIMIT_MS));
    ck_assert_uint_eq(read_counter(), 0);
}
END_TEST

#define MANY 40 /* more waits than an engine looks at in one step */

/* What the stream did before is no outcome of a wait that is over before its clear is told. */
START_TEST(count_clears_before_many)
{
    aclrtStream s, many[MANY];
    void *memory;

    count_open();
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateStream(&s));
    count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 7);
    for (int i = 0; i < MANY; i++) {
        OK(aclrtCreateStream(&many[i]));
        count_wait(many[i], ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 0, false);
    }
    engine_turn(probe);
    ck_assert_uint_eq(count_idle(many, MANY), 0);
    OK(aclrtMemsetAsync(memory, 4096, 1, 4096, s));
    count_wait(s, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 6, true);
    OK(aclrtSynchronizeStreamWithTimeout(s, LIMIT_MS));
    for (int i = 0; i < MANY; i++)
        OK(aclrtSynchronizeStreamWithTimeout(many[i], LIMIT_MS));
    ck_assert_uint_eq(read_counter(), 0);
    OK(aclrtFree(memory));
}
END_TEST

START_TEST(count_limit_passes)
{
    aclrtCntNotifyWaitInfo info = {
        .mode = ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, .value = 1, .timeout = 1, .isClear = 1};

    count_open();
    OK(aclrtCntNotifyWaitWithTimeout(count, stream, &info));
    FAILS(ACL_ERROR_RT_TASK_TIMEOUT, aclrtSynchronizeStream(stream));
    count_record(ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 2);
    ck_assert_uint_eq(read_counter(), 2); /* no ghost has cleared it */
    OK(aclrtCntNotifyWaitWithTimeout(count, stream, &info));
    OK(aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(count_dropped)
{
    aclrtStream doomed;

    count_open();
    OK(aclrtCreateStream(&doomed));
    count_wait(stream, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 1, false);
    engine_turn(probe);
    stream_hold(doomed);
    OK(aclrtCntNotifyRecord(count, doomed, &(aclrtCntNotifyRecordInfo){.value = 2}));
    OK(aclrtDestroyStreamForce(doomed));
    FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(stream));
    count_wait(stream, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 1, false);
    engine_turn(probe);
    OK(aclrtCntNotifyDestroy(count));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(stream));
}
END_TEST

START_TEST(count_refused)
{
    aclrtCntNotifyRecordInfo r = {.value = 1};
    aclrtCntNotifyWaitInfo w = {.value = 1};
    aclrtContext second;
    uint32_t a, b;

    count_open();
    OK(aclrtCntNotifyGetId(count, &a));
    OK(aclrtGetNotifyId(notify, &b));
    ck_assert_uint_ne(a, b);
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyCreate(NULL, 0));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyCreate(&count, 1));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyDestroy(NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtCntNotifyDestroy(notify));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyNotify(count));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyRecord(NULL, stream, &r));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCntNotifyRecord(count, stream, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyWaitWithTimeout(NULL, stream, &w));
    FAILS(ACL_ERROR_INVALID_PARAM, aclrtCntNotifyWaitWithTimeout(count, stream, NULL));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyReset(NULL, stream));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtCntNotifyReset(notify, stream));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyGetId(NULL, &a));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyGetId(count, NULL));
    FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtCntNotifyGetId(notify, &a));
    for (int mode = 3; mode < 7; mode++) {
        r.mode = (aclrtCntNotifyRecordMode)mode;
        w.mode = (aclrtCntNotifyWaitMode)(mode + 2);
        if (mode != 4)
            FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyRecord(count, stream, &r));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, aclrtCntNotifyWaitWithTimeout(count, stream, &w));
    }
    OK(aclrtCreateContext(&second, 1));
    r.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE;
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtCntNotifyRecord(count, stream, &r));
    FAILS(ACL_ERROR_RT_STREAM_CONTEXT, aclrtCntNotifyReset(count, stream));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tc = suite_case(suite, "notify", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, a_wait_waits_for_the_record);
    tcase_add_test(tc, two_records_release_one_wait);
    tcase_add_test(tc, one_record_releases_one_of_many);
    tcase_add_test(tc, a_record_comes_after_what_was_before_it);
    tcase_add_test(tc, streams_take_turns);
    tcase_add_test(tc, across_devices);
    tcase_add_test(tc, a_limit_passes);
    tcase_add_test(tc, reset_clears_now);
    tcase_add_test(tc, ids_differ);
    tcase_add_test(tc, destroyed_with_tasks_queued);
    tcase_add_test(tc, a_dropped_wait_swallows_nothing);
    tcase_add_test(tc, a_record_outlives_the_stream_it_released);
    tcase_add_test(tc, an_aborted_wait_is_told_or_has_its_record);
    tcase_add_test(tc, any_order);
    tcase_add_test(tc, a_dropped_record_fails_its_wait);
    tcase_add_test(tc, refused);
    tc = suite_case(suite, "limits", 60, few_setup, npud_teardown);
    tcase_add_test(tc, limit);
    tc = suite_case(suite, "count", 60, npud_setup, npud_teardown);
    tcase_add_test(tc, count_records);
    tcase_add_test(tc, count_waits);
    tcase_add_test(tc, count_clears);
    tcase_add_test(tc, count_clears_before_many);
    tcase_add_test(tc, count_limit_passes);
    tcase_add_test(tc, count_dropped);
    tcase_add_test(tc, count_refused);
    return run_suite(suite);
}
