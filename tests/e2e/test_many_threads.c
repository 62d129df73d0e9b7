/*
 * Streams and events that many threads use at once, some of which end meanwhile: no task is lost,
 * none runs twice, and a record of one thread is complete for it when it has waited for it.
 *
 * The locks of streams and events are biased to the first thread (client/core/biased_lock.h); each
 * round has new ones, and the threads take them away from each other.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define THREADS 4
#define STREAMS 3
#define EVENTS  6
#define OPS     400

static aclrtContext context;
static aclrtStream streams[STREAMS];
static aclrtEvent events[EVENTS]; /* default ones, levels and plain ones, in turn */
static uint8_t *cells;            /* device memory: a byte for each operation of each thread */

static uint32_t random_number(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

static void make_objects(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclrtCreateStream(&streams[i]));
    for (unsigned i = 0; i < EVENTS; i += 3) {
        OK(aclrtCreateEvent(&events[i]));
        OK(aclrtCreateEventWithFlag(&events[i + 1], ACL_EVENT_SYNC));
        OK(aclrtCreateEventExWithFlag(&events[i + 2], ACL_EVENT_SYNC));
    }
}

static void destroy_objects(void)
{
    for (unsigned i = 0; i < EVENTS; i++)
        OK(aclrtDestroyEvent(events[i]));
    for (unsigned i = 0; i < STREAMS; i++)
        OK(aclrtDestroyStream(streams[i]));
}

/* Something with an event that all threads use. */
static void use_event(uint64_t *state, aclrtStream stream)
{
    unsigned i = random_number(state, EVENTS);
    aclrtEventRecordedStatus status;
    aclError error;

    switch (random_number(state, 4)) {
    case 0:
        OK(aclrtRecordEvent(events[i], stream));
        break;
    case 1:
        OK(aclrtQueryEventStatus(events[i], &status));
        break;
    case 2:
        if (i % 3 == 0)
            OK(aclrtResetEvent(events[i], stream));
        break;
    default:
        /* A level may be down for ever; a default event may not be recorded. */
        if (i % 3 == 1)
            break;
        error = aclrtStreamWaitEvent(stream, events[i]);
        ck_assert(error == ACL_SUCCESS || (error == ACL_ERROR_RT_PARAM_INVALID && i % 3 == 0));
    }
}

static void expect_complete(aclrtEvent event)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

    OK(aclrtQueryEventStatus(event, &status));
    ck_assert_int_eq(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

static void record_own(aclrtEvent own, aclrtStream stream)
{
    OK(aclrtRecordEvent(own, stream));
    OK(aclrtSynchronizeEvent(own));
    expect_complete(own);
    expect_complete(own);
}

/* arg: number of the thread, and above it of the round. */
static void *run_operations(void *arg)
{
    uint64_t state = (uintptr_t)arg * 2654435761u + 1;
    uint8_t *cell = cells + (uintptr_t)arg % THREADS * OPS;
    aclrtEvent own;

    OK(aclrtSetCurrentContext(context));
    OK(aclrtCreateEvent(&own));
    for (unsigned i = 0; i < OPS; i++) {
        aclrtStream stream = streams[random_number(&state, STREAMS)];

        OK(aclrtMemsetAsync(cell + i, 1, (int)(i % 255 + 1), 1, stream));
        use_event(&state, stream);
        if (random_number(&state, 32) == 0)
            record_own(own, stream);
    }
    OK(aclrtDestroyEvent(own));
    return NULL;
}

static void check_cells(void)
{
    static uint8_t got[THREADS * OPS];

    OK(aclrtSynchronizeDevice());
    OK(aclrtMemcpy(got, sizeof(got), cells, sizeof(got), ACL_MEMCPY_DEVICE_TO_HOST));
    for (unsigned i = 0; i < THREADS * OPS; i++)
        ck_assert_uint_eq(got[i], i % OPS % 255 + 1);
    OK(aclrtMemset(cells, sizeof(got), 0, sizeof(got)));
}

static void run_round(uintptr_t round)
{
    pthread_t threads[THREADS];

    make_objects();
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, run_operations, (void *)(round * THREADS + i)), 0);
    /* On some rounds this thread comes between, and on all of them last. */
    if (round % 2)
        OK(aclrtSynchronizeStream(streams[0]));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_cells();
    destroy_objects();
}

START_TEST(all_threads_use_all_streams)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtMalloc((void **)&cells, THREADS * OPS, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(cells, THREADS * OPS, 0, THREADS * OPS));
    for (unsigned round = 0; round < choose_effort(60, 2000); round++)
        run_round(round);
    OK(aclrtFree(cells));
}
END_TEST

/* --- what a query notes --- */

static aclrtStream stream, other;

static void expect_status(aclrtEvent event, aclrtEventRecordedStatus expected)
{
    aclrtEventRecordedStatus status;

    /* The first one may note what it sees, and the second one go by the note. */
    for (unsigned i = 0; i < 3; i++) {
        OK(aclrtQueryEventStatus(event, &status));
        ck_assert_int_eq(status, expected);
    }
}

#define COMPLETE  ACL_EVENT_RECORDED_STATUS_COMPLETE
#define NOT_READY ACL_EVENT_RECORDED_STATUS_NOT_READY

START_TEST(a_note_is_of_one_record)
{
    aclrtEvent event, gate;

    streams_open(&stream, &other);
    OK(aclrtCreateEvent(&event));
    expect_status(event, NOT_READY);
    OK(aclrtRecordEvent(event, stream));
    expect_status(event, COMPLETE);
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(event, stream));
    expect_status(event, NOT_READY);
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeEvent(event));
    expect_status(event, COMPLETE);
    OK(aclrtResetEvent(event, stream));
    expect_status(event, NOT_READY);
    OK(aclrtRecordEvent(event, stream));
    expect_status(event, COMPLETE);

    /* Seen complete between the reset's call and its effect. */
    gate = stream_hold(stream);
    OK(aclrtResetEvent(event, stream));
    expect_status(event, COMPLETE);
    OK(aclrtRecordEvent(gate, other));
    OK(aclrtSynchronizeStream(stream));
    expect_status(event, NOT_READY);
}
END_TEST

/* The next event has the same memory. */
START_TEST(a_note_is_of_one_event)
{
    aclrtEvent event, next;
    aclrtEventRecordedStatus status;

    streams_open(&stream, &other);
    for (unsigned i = 0; i < 20; i++) {
        OK(aclrtCreateEvent(&event));
        OK(aclrtRecordEvent(event, stream));
        expect_status(event, COMPLETE);
        OK(aclrtDestroyEvent(event));
        FAILS(ACL_ERROR_RT_INVALID_HANDLE, aclrtQueryEventStatus(event, &status));
        if (i % 2) {
            OK(aclrtCreateEvent(&next));
            expect_status(next, NOT_READY);
        } else {
            OK(aclrtCreateEventWithFlag(&next, ACL_EVENT_EXTERNAL));
            OK(aclrtRecordEvent(next, stream));
            for (unsigned k = 0; k < 2; k++)
                FAILS(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEventStatus(next, &status));
        }
        OK(aclrtDestroyEvent(next));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("many threads");
    TCase *t = suite_case(s, "streams and events", 300, npud_setup, npud_teardown);

    tcase_add_test(t, all_threads_use_all_streams);
    tcase_add_test(t, a_note_is_of_one_record);
    tcase_add_test(t, a_note_is_of_one_event);
    return run_suite(s);
}
