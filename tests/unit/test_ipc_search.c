/*
 * Pending records of an IPC event that are in no stream: they fail when a client that waits for one
 * has asked for it, and what is in a stream does not, however long it takes.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/ipc_search.h"
#include "npud.h"

#define FAILED ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define OTHER  4711 /* pid of the other opener */

static struct session *session, *other;
static struct ipc_open *ours, *theirs;
static struct ipc_page *page;

static void begin(void)
{
    npud_start(
        (const char *const[]){"engine.spin_us=0", "stream.depth=256", "ipc.submit_ms=0", NULL});
    session = npud_session(1);
    other = npud_session(OTHER);
    ck_assert_int_eq(ipc_event_new(session, 0, &ours), 0);
    ck_assert_int_eq(ipc_event_export(ours), 0);
    ck_assert_int_eq(ipc_event_open(other, &ours->event->handle, &theirs), 0);
    page = ours->event->page;
}

static uint64_t take_record(const struct ipc_open *open)
{
    uint64_t blocker, number = ipc_take(page, open->opener->slot.number, IPC_PENDING, &blocker);

    ck_assert_uint_ne(number, 0);
    return number;
}

static struct task ipc_task(const struct ipc_open *open, unsigned op, uint64_t number)
{
    return (struct task){.op = (uint8_t)op,
                         .object = open->slot.number,
                         .generation = slot_generation(open),
                         .ipc.number = number};
}

/* To its end, and streams that it lets go on go on. */
static void search(uint64_t number)
{
    ipc_search_begin(ours->event, session, number);
    npud_turn();
    npud_turn();
    ck_assert_uint_eq(atomic_load(&ours->event->asked), 0);
}

static void search_twice(uint64_t number)
{
    search(number);
    search(number);
}

static void expect_abandoned(uint64_t number, int32_t pid)
{
    int32_t error, blamed = 0;

    ck_assert_int_eq(ipc_state_of(page, number), IPC_FAILED);
    ck_assert(ipc_record_outcome(ours->event, number, &error, &blamed));
    ck_assert_int_eq(error, FAILED);
    ck_assert_int_eq(blamed, pid);
    blamed = 0;
    ck_assert(ipc_record_unsubmitted(ours->event, number, &blamed));
    ck_assert_int_eq(blamed, pid);
}

/* A stream of the opener that executes nothing: it waits for a record that is in no stream yet. */
static struct stream *make_stuck(struct session *of, struct ipc_open *open, uint64_t number)
{
    struct stream *s = npud_stream(of, 0);

    client_submit(s, ipc_task(open, TASK_IPC_WAIT, number));
    AWAIT(waitlist_has_any(&open->event->completed));
    return s;
}

/* One search may miss it: its opener is on its way. */
START_TEST(what_no_stream_has_fails)
{
    uint64_t number = take_record(theirs);
    struct stream *s = make_stuck(session, ours, number);

    search(number);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    ck_assert_ptr_nonnull(ours->event->search);
    search(number);
    expect_abandoned(number, OTHER);
    client_wait(s, 0);
    ck_assert(client_error(s) == stream_error_make(FAILED, OTHER));
}
END_TEST

/* A whole window that is forged, in the name of the victim, of the attacker, or of no opener. */
START_TEST(a_forged_window_is_free_again)
{
    static const uint32_t nobody = 4000;
    uint32_t opener[] = {ours->opener->slot.number, theirs->opener->slot.number, nobody};
    uint64_t blocker = 0, first = 5000;

    for (uint64_t n = first; n < first + IPC_SLOTS; n++)
        atomic_store(&page->slot[n % IPC_SLOTS],
                     ipc_slot_of_latest(ipc_latest_make(n, opener[_i], IPC_PENDING)));
    atomic_store(&page->latest, ipc_latest_make(first + IPC_SLOTS - 1, opener[_i], IPC_PENDING));
    ck_assert_uint_eq(ipc_take(page, opener[0], IPC_PENDING, &blocker), 0);
    ck_assert_uint_eq(blocker, first);
    search_twice(blocker);
    for (uint64_t n = first; n < first + IPC_SLOTS; n++)
        ck_assert_int_eq(ipc_state_of(page, n), IPC_FAILED);
    ck_assert_uint_eq(take_record(ours), first + IPC_SLOTS);
}
END_TEST

/* In the middle of full rings of many streams, one of them executing: found each time. */
START_TEST(what_a_stream_has_stays)
{
    uint64_t first = take_record(ours), number[64];
    struct task nop = {.op = TASK_NOP};
    struct stream *s[64];

    for (int i = 0; i < 64; i++) {
        s[i] = make_stuck(other, theirs, first);
        for (int k = 0; k < 100; k++)
            client_submit(s[i], nop);
        number[i] = take_record(theirs);
        client_submit(s[i], ipc_task(theirs, TASK_IPC_RECORD, number[i]));
    }
    client_submit(npud_stream(session, 0), ipc_task(ours, TASK_IPC_WAIT, number[0]));
    for (int i = 0; i < 5; i++) {
        search(number[0]);
        /* Only the first one is in no stream, and fails; what waits for it may go on then. */
        if (i == 0)
            ck_assert_int_eq(ipc_state_of(page, first), IPC_PENDING);
    }
    ck_assert_int_eq(ipc_state_of(page, first), IPC_FAILED);
    for (int i = 0; i < 64; i++) {
        client_wait(s[i], 101);
        ck_assert_int_eq(ipc_state_of(page, number[i]), IPC_DONE);
    }
}
END_TEST

/* Behind a task that does not end. No search fails it, and none leaves anything behind. */
START_TEST(a_long_wait_is_no_failure)
{
    struct ipc_open *gate;
    struct stream *s;
    uint64_t number, opens, blocker;
    bool waiters;

    ck_assert_int_eq(ipc_event_new(session, 0, &gate), 0);
    opens = ipc_take(gate->event->page, gate->opener->slot.number, IPC_PENDING, &blocker);
    s = make_stuck(session, gate, opens);
    number = take_record(ours);
    client_submit(s, ipc_task(ours, TASK_IPC_RECORD, number));
    for (int i = 0; i < 5; i++) {
        search(number);
        ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
        ck_assert_ptr_null(ours->event->search);
    }
    ck_assert(
        ipc_complete(gate->event->page, opens, gate->opener->slot.number, IPC_DONE, &waiters));
    waitlist_fire(&gate->event->completed, opens, opens, 0, 0);
    client_wait(s, 1);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_DONE);
    ck_assert_uint_eq(atomic_load(&s->ctrl->error), 0);
}
END_TEST

/* The opener was between its two stores during the first search. */
START_TEST(submitted_between_two_searches)
{
    struct ipc_open *gate;
    struct stream *s;
    uint64_t number = take_record(ours), opens, blocker;

    ck_assert_int_eq(ipc_event_new(session, 0, &gate), 0);
    opens = ipc_take(gate->event->page, gate->opener->slot.number, IPC_PENDING, &blocker);
    s = make_stuck(session, gate, opens);
    search(number);
    client_submit(s, ipc_task(ours, TASK_IPC_RECORD, number));
    for (int i = 0; i < 3; i++)
        search(number);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    ck_assert_ptr_null(ours->event->search);
}
END_TEST

/* The opener was stopped there for too long. The record has failed, and stays so. */
START_TEST(submitted_too_late)
{
    uint64_t number = take_record(theirs);
    struct stream *s = npud_stream(other, 0);

    search_twice(number);
    client_wait(s, client_submit(s, ipc_task(theirs, TASK_IPC_RECORD, number)));
    expect_abandoned(number, OTHER);
}
END_TEST

/* A hostile opener writes "pending" again: npud does not forget that it has failed. */
START_TEST(a_failed_record_is_forged_again)
{
    uint64_t number = take_record(theirs), word = atomic_load(&page->slot[number]);
    int32_t error, pid = 0;

    search_twice(number);
    expect_abandoned(number, OTHER);
    atomic_store(&page->slot[number], word);
    ck_assert(!ipc_record_outcome(ours->event, number, &error, &pid));
    ck_assert(ipc_record_unsubmitted(ours->event, number, &pid));
    search(number);
    expect_abandoned(number, OTHER);
    /* And "done", for a moment, so that a search takes it for over. */
    atomic_store(&page->slot[number], (word & ~(uint64_t)IPC_STATE_MASK) | IPC_DONE);
    search(number);
    atomic_store(&page->slot[number], word);
    search(number);
    expect_abandoned(number, OTHER);
}
END_TEST

/* No record fails before its opener had the time that it was promised. */
START_TEST(the_first_search_gives_time)
{
    uint64_t number = take_record(theirs);

    server.submit_ns = 3600 * NSEC_PER_SEC;
    for (int i = 0; i < 4; i++)
        search(number);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    server.submit_ns = 0;
    search(number);
    expect_abandoned(number, OTHER);
}
END_TEST

/* A step of the job is short, and what was asked for meanwhile is searched for as well. */
START_TEST(long_rings_are_searched_in_steps)
{
    struct ipc_search *at_work;
    unsigned steps = 0;
    uint64_t first = take_record(ours);
    struct task nop = {.op = TASK_NOP};

    for (int i = 0; i < 200; i++) {
        struct stream *s = make_stuck(other, theirs, first);

        for (int k = 0; k < 250; k++)
            client_submit(s, nop);
    }
    take_record(theirs);
    ipc_search_begin(ours->event, session, first);
    ipc_search_begin(ours->event, other, first);
    ipc_search_begin(ours->event, other, first);
    at_work = ours->event->search;
    ck_assert_ptr_nonnull(at_work);
    while (schedule_busy(&server.schedule)) {
        schedule_pass(&server.schedule);
        ck_assert_uint_lt(++steps, 1000000);
    }
    ck_assert_uint_ge(steps, 4);
    ck_assert_int_eq(ipc_state_of(page, first), IPC_FAILED); /* by the second search */
}
END_TEST

/* The event, or a session, goes while a search is under way. */
START_TEST(what_is_searched_goes)
{
    uint64_t number = take_record(theirs);
    struct task nop = {.op = TASK_NOP};

    for (int i = 0; i < 100; i++) {
        struct stream *s = make_stuck(other, theirs, number);

        for (int k = 0; k < 250; k++)
            client_submit(s, nop);
    }
    ipc_search_begin(ours->event, session, number);
    ipc_search_begin(ours->event, other, number);
    schedule_pass(&server.schedule);
    session_free(other);
    schedule_pass(&server.schedule);
    if (_i == 0)
        npud_turn();
    session_free(session);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ipc_search");
    TCase *c = suite_case(s, "ipc_search", 60, begin, npud_stop);

    tcase_add_test(c, what_no_stream_has_fails);
    tcase_add_loop_test(c, a_forged_window_is_free_again, 0, 3);
    tcase_add_test(c, what_a_stream_has_stays);
    tcase_add_test(c, a_long_wait_is_no_failure);
    tcase_add_test(c, submitted_between_two_searches);
    tcase_add_test(c, submitted_too_late);
    tcase_add_test(c, a_failed_record_is_forged_again);
    tcase_add_test(c, the_first_search_gives_time);
    tcase_add_test(c, long_rings_are_searched_in_steps);
    tcase_add_loop_test(c, what_is_searched_goes, 0, 2);
    return run_suite(s);
}
