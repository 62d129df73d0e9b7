/*
 * Streams that wait for the level of an event (ACL_EVENT_SYNC), with real engines: none stays
 * parked on a level that was up since it parked.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "tests/common/effort.h"
#include "daemon/core/stream_abort.h"
#include "npud.h"

#define CODE ACL_ERROR_RT_AICORE_EXCEPTION

static const char *const no_spin[] = {"engine.spin_us=0", "stream.depth=256", NULL};
static const char *const spin[] = {"engine.spin_us=50", "stream.depth=256", NULL};

static const struct task nop = {.op = TASK_NOP};
static struct session *session;
static struct event_obj *event;
static struct stream *waiter, *recorder, *probe;
static uint64_t position; /* of the waiter's task */

static void setup_world(const char *const *settings)
{
    struct attach *attach;
    int fd;

    npud_start(settings);
    session = npud_session(1);
    attach = session_attach(session, 0);
    waiter = npud_stream(session, 0);
    probe = npud_stream(session, 0);
    /* Of a context of its own, which may stop. */
    ck_assert_int_eq(stream_new(session, attach, 1, 0, 0, &recorder, &fd), 0);
    ck_assert_int_eq(event_obj_new(session, 0, 0, &event, &fd), 0);
}

static void start_world(void)
{
    setup_world(no_spin);
}

static void setup_spinning(void)
{
    setup_world(spin);
}

static struct task event_task(enum task_op op, unsigned flags)
{
    return (struct task){.op = (uint8_t)op,
                         .flags = (uint8_t)flags,
                         .object = event->slot.number,
                         .generation = slot_generation(event)};
}

static struct task make_record(unsigned flags, uint64_t number)
{
    struct task task = event_task(TASK_RECORD, flags);

    task.record.number = number;
    return task;
}

/* A stream that waits for the level, submitted when `number` was the latest record. */
static uint64_t wait_for_level(struct stream *s, uint64_t number)
{
    struct task task = event_task(TASK_WAIT_LEVEL, 0);
    uint32_t before = atomic_load(&event->raised.n);
    uint64_t at;

    task.wait.target = number;
    at = client_submit(s, task);
    AWAIT(atomic_load(&event->raised.n) == before + 1);
    return at;
}

static void expect_passed(struct stream *s, uint64_t at)
{
    client_wait(s, at);
    ck_assert_int_eq(stream_error_code(atomic_load(&s->ctrl->error)), 0);
}

/* The engine has had a turn with each of its streams: as engine_turn() of the end-to-end tests. */
static void engine_turn(void)
{
    for (int i = 0; i < 3; i++)
        client_wait(probe, client_submit(probe, nop));
}

/*
 * Guards against a hang: a context in stop mode passes over a record that would have raised the
 * level, so that the waiting stream looks again; meanwhile another stream records and resets. The
 * stream took the new count for the one at which it had parked.
 */
START_TEST(raised_and_lowered_while_it_looks_again)
{
    struct engine *engine = session_attach(session, 0)->device->engine;

    position = wait_for_level(waiter, 7);
    engine_lock(engine);
    event_obj_drop(event, 6, CODE);
    ck_assert_uint_eq(atomic_load(&event->raised.n), 0);
    event_slot_raise(event->shm);
    event_slot_lower(event->shm);
    engine_unlock(engine);
    expect_passed(waiter, position);
}
END_TEST

/* The same when it has looked again before, and parked again, any number of times. */
START_TEST(raised_and_lowered_after_it_looked_again)
{
    struct engine *engine = session_attach(session, 0)->device->engine;

    event_slot_raise(event->shm);
    event_slot_lower(event->shm);
    position = wait_for_level(waiter, 7);
    for (int i = 0; i < 5; i++) {
        event_obj_drop(event, 6, CODE);
        AWAIT(atomic_load(&event->raised.n) == 1);
        engine_turn();
        ck_assert(!client_passed(waiter, position));
    }
    engine_lock(engine);
    event_obj_drop(event, 6, CODE);
    event_slot_raise(event->shm);
    event_slot_lower(event->shm);
    engine_unlock(engine);
    expect_passed(waiter, position);
}
END_TEST

/*
 * Guards against taking a reset for a raise: what was lowered, or raised before the stream parked,
 * lets it wait on.
 */
START_TEST(a_reset_before_parking_is_no_raise)
{
    struct stream *late = npud_stream(session, 0);
    uint64_t at;

    event_slot_lower(event->shm);
    position = wait_for_level(waiter, 7);
    event_slot_lower(event->shm);
    event_obj_drop(event, 6, CODE);
    client_wait(recorder, client_submit(recorder, event_task(TASK_RESET, 0)));
    client_wait(recorder, client_submit(recorder, make_record(TASK_RECORD_WAKE, 7)));
    engine_turn();
    ck_assert(!client_passed(waiter, position));
    /* Raised by the client, which has yet to say so, and lowered; then another stream parks. */
    event_slot_raise(event->shm);
    event_slot_lower(event->shm);
    at = wait_for_level(late, 8);
    client_submit(recorder, make_record(TASK_RECORD_WAKE, 8));
    expect_passed(waiter, position);
    engine_turn();
    ck_assert(!client_passed(late, at));
    client_submit(recorder, make_record(TASK_RECORD_LEVEL, 9));
    expect_passed(late, at);
}
END_TEST

/* How a TASK_RECORD_WAKE may end without being executed. */
enum loss { ABORTED, ABORTED_TOLD, STOPPED_CONTEXT, LOSSES };

/*
 * Guards against a hang: the client has raised the level and completed the record at the call, and
 * only the task that tells the engine of it is discarded. Also when the level was lowered since;
 * and with the code of a stopped context, which that record did not meet.
 */
START_TEST(the_news_of_a_raise_is_discarded)
{
    struct task held = {.op = TASK_DELAY, .delay.ns = 60 * NSEC_PER_SEC};
    bool lowered = _i >= LOSSES;

    position = wait_for_level(waiter, 1);
    client_submit(recorder, held);
    event_slot_raise(event->shm);
    AWAIT(atomic_load(&event->shm->level_waiters) == 1);
    client_submit(recorder, make_record(TASK_RECORD_WAKE, 1));
    if (lowered)
        event_slot_lower(event->shm);
    switch (_i % LOSSES) {
    case ABORTED:
        stream_abort(recorder, 0, 0);
        break;
    case ABORTED_TOLD:
        stream_abort(recorder, ACL_ERROR_RT_STREAM_ABORT, 0);
        break;
    default:
        stream_stop_at_failure(recorder);
        /* Ended badly by hand: the context stops, and passes over the rest. */
        engine_lock(session_attach(session, 0)->device->engine);
        stream_fail(recorder, CODE, 0);
        engine_forget(session_attach(session, 0)->device->engine, recorder);
        recorder->run = RUN_PARKED;
        engine_unpark(recorder);
        engine_unlock(session_attach(session, 0)->device->engine);
    }
    expect_passed(waiter, position);
}
END_TEST

/* --- everything at once --- */

#define WAITERS 4

static _Atomic bool over;

/*
 * As a client that records and resets on idle streams; the news go to a stream that is aborted all
 * the time.
 */
static void *raise_and_lower(void *arg)
{
    uint64_t rng = 1, number = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        burn_time(&rng, 300);
        event_slot_raise(event->shm);
        if (atomic_load(&event->shm->level_waiters) != 0)
            client_wait(recorder, client_submit(recorder, make_record(TASK_RECORD_WAKE, ++number)));
        burn_time(&rng, 300);
        event_slot_lower(event->shm);
        if (random_below(&rng, 8) == 0)
            client_wait(recorder, client_submit(recorder, event_task(TASK_RESET, 0)));
    }
    /* Every stream that waits now has parked before this. */
    event_slot_raise(event->shm);
    client_wait(recorder, client_submit(recorder, make_record(TASK_RECORD_WAKE, ++number)));
    return NULL;
}

static void *wait_again_and_again(void *arg)
{
    struct stream *s = arg;
    struct task wait = event_task(TASK_WAIT_LEVEL, 0);
    uint64_t n = 0;

    for (wait.wait.target = UINT32_MAX / 2; !atomic_load(&over); n++)
        client_wait(s, client_submit(s, wait));
    return (void *)(uintptr_t)n;
}

START_TEST(nobody_stays_behind)
{
    uint64_t rng = 2, end = clock_ns() + choose_effort(300, 20000) * NSEC_PER_MSEC;
    pthread_t raiser, waits[WAITERS];

    for (unsigned i = 0; i < WAITERS; i++)
        waits[i] = start_thread(wait_again_and_again, npud_stream(session, i % 2));
    raiser = start_thread(raise_and_lower, NULL);
    while (clock_ns() < end) {
        burn_time(&rng, 3000);
        if (random_below(&rng, 2))
            stream_abort(recorder, 0, 0);
        else
            event_obj_drop(event, 1, CODE);
    }
    atomic_store(&over, true);
    thread_join(raiser);
    for (unsigned i = 0; i < WAITERS; i++)
        thread_join(waits[i]);
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_test(c, raised_and_lowered_while_it_looks_again);
    tcase_add_test(c, raised_and_lowered_after_it_looked_again);
    tcase_add_test(c, a_reset_before_parking_is_no_raise);
    tcase_add_loop_test(c, the_news_of_a_raise_is_discarded, 0, 2 * LOSSES);
    tcase_add_test(c, nobody_stays_behind);
}

int main(void)
{
    Suite *s = suite_create("level");
    TCase *asleep = suite_case(s, "engine asleep", 120, start_world, npud_stop);
    TCase *awake = suite_case(s, "engine awake", 120, setup_spinning, npud_stop);

    add_tests(asleep);
    add_tests(awake);
    return run_suite(s);
}
