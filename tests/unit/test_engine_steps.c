/*
 * What an engine does in one turn, when tens of thousands of streams can go on at the same moment:
 * a part of it. The engines have no thread here; each turn is a call.
 */
#include <sys/epoll.h>

#include "daemon/core/ipc_record.h"
#include "daemon/engine/engine.h"
#include "npud.h"

#define CROWD    600
#define PER_TURN 64 /* streams that may go on in a turn */

static struct session *session;
static struct engine *engine;
static struct stream *crowd[CROWD];

/* As tests/fuzz/hooks/engine.h has it for engine.c. */
void engine_turn(struct engine *e);
int step_no_thread(pthread_t *thread);
int step_poll(int epoll, struct epoll_event *events, int max);

int step_no_thread(pthread_t *thread)
{
    *thread = 0;
    return 0;
}

int step_poll(int epoll, struct epoll_event *events, int max)
{
    int n = epoll_wait(epoll, events, max, 0);

    return n < 0 ? 0 : n;
}

static void begin(void)
{
    npud_start((const char *const[]){"engine.spin_us=0", "stream.depth=256", NULL});
    session = npud_session(1);
    engine = devices_get(server.devices, 0)->engine;
    for (int i = 0; i < CROWD; i++)
        crowd[i] = npud_stream(session, 0);
}

static unsigned count_parked(void)
{
    unsigned n = 0;

    for (int i = 0; i < CROWD; i++)
        n += crowd[i]->run == RUN_PARKED;
    return n;
}

/* Each of the crowd submits this task, and is parked on it. */
static void park_crowd(struct task task)
{
    for (int i = 0; i < CROWD; i++)
        client_submit(crowd[i], task);
    for (int i = 0; i < 2 * CROWD && count_parked() < CROWD; i++)
        engine_turn(engine);
    ck_assert_uint_eq(count_parked(), CROWD);
}

/* All go on, and few of them in each turn. */
static void expect_slices(void)
{
    unsigned parked = CROWD, turns = 0;

    while (parked > 0) {
        unsigned left;

        engine_turn(engine);
        npud_turn();
        left = count_parked();
        ck_assert_msg(parked - left <= PER_TURN, "%u streams went on in one turn", parked - left);
        parked = left;
        ck_assert_uint_lt(++turns, 20 * CROWD);
    }
    ck_assert_uint_ge(turns, CROWD / PER_TURN);
    for (int i = 0; i < CROWD; i++)
        for (turns = 0; !client_passed(crowd[i], 0); turns++) {
            engine_turn(engine);
            ck_assert_uint_lt(turns, CROWD);
        }
}

static struct ipc_open *make_event(void)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(session, 0, &open), 0);
    return open;
}

static struct task wait_for_record(const struct ipc_open *open, uint64_t number)
{
    return (struct task){.op = TASK_IPC_WAIT,
                         .object = open->slot.number,
                         .generation = slot_generation(open),
                         .ipc.number = number};
}

static uint64_t take_record(const struct ipc_open *open)
{
    uint64_t blocker;

    return ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker);
}

static uint32_t count_waiting(const struct ipc_open *open)
{
    return atomic_load(&open->event->completed.n);
}

/* All of them wait for the same record. What is not let go at once is, in steps. */
START_TEST(streams_that_wait_for_one_record)
{
    struct ipc_open *open = make_event();
    struct job *settle = &open->event->settle;
    uint64_t number = take_record(open);
    uint32_t left;

    park_crowd(wait_for_record(open, number));
    ipc_record_complete(open, number);
    left = count_waiting(open);
    ck_assert_uint_ge(left, CROWD - PER_TURN);
    ck_assert(job_cancel(settle));
    ck_assert(settle->run(settle)); /* there is more to do */
    ck_assert_uint_lt(count_waiting(open), left);
    ck_assert_uint_gt(count_waiting(open), 0);
    job_list(settle);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
    for (int i = 0; i < CROWD; i++)
        ck_assert_uint_eq(atomic_load(&crowd[i]->ctrl->error), 0);
}
END_TEST

/* A record that is asked for while the job is at work: it begins once more. */
START_TEST(a_record_that_is_over_meanwhile)
{
    struct ipc_open *open = make_event();
    struct job *settle = &open->event->settle;
    uint64_t first = take_record(open), second = take_record(open);

    for (int i = 0; i < CROWD; i++)
        client_submit(crowd[i], wait_for_record(open, i < CROWD / 4 ? first : second));
    while (count_parked() < CROWD)
        engine_turn(engine);
    ipc_record_complete(open, second);
    ck_assert(job_cancel(settle));
    ck_assert(settle->run(settle) || count_waiting(open) == CROWD / 4);
    ipc_record_complete(open, first);
    ck_assert_uint_gt(count_waiting(open), 0);
    job_list(settle);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
}
END_TEST

/* An opener leaves that has spoiled the page: all that wait fail, with its pid. */
START_TEST(streams_that_wait_on_a_damaged_page)
{
    struct session *hostile = npud_session(4711);
    struct ipc_open *open = make_event(), *theirs;

    ck_assert_int_eq(ipc_event_export(open), 0);
    ck_assert_int_eq(ipc_event_open(hostile, &open->event->handle, &theirs), 0);
    park_crowd(wait_for_record(open, take_record(theirs)));
    atomic_store(&open->event->page->slot[7], UINT64_C(3) << 32 | 77 << 16 | IPC_PENDING);
    session_free(hostile);
    ck_assert_uint_gt(count_waiting(open), 0);
    npud_turn();
    ck_assert_uint_eq(count_waiting(open), 0);
    expect_slices();
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(stream_error_pid(atomic_load(&crowd[i]->ctrl->error)), 4711);
    ck_assert(!open->event->damaged);
}
END_TEST

/* The limits of all of them end at once. */
START_TEST(streams_whose_time_is_over)
{
    struct ipc_open *open = make_event();
    struct task task = wait_for_record(open, take_record(open));

    task.ipc.timeout_ns = 3600 * NSEC_PER_SEC;
    park_crowd(task);
    for (int i = 0; i < CROWD; i++) {
        timers_clear(&engine->timers, &crowd[i]->timer);
        ck_assert_int_eq(timers_set(&engine->timers, &crowd[i]->timer, clock_ns()), 0);
    }
    expect_slices();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("engine steps");
    TCase *c = suite_case(s, "turns", 60, begin, npud_stop);

    tcase_add_test(c, streams_that_wait_for_one_record);
    tcase_add_test(c, a_record_that_is_over_meanwhile);
    tcase_add_test(c, streams_that_wait_on_a_damaged_page);
    tcase_add_test(c, streams_whose_time_is_over);
    return run_suite(s);
}
