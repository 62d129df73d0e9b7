/* daemon/engine with real engines: no task and no wake-up is lost, and what is told is true. */
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/engine.h"
#include "npud.h"

static const char *const no_spin[] = {"engine.spin_us=0", "stream.depth=256", NULL};
static const char *const spin[] = {"engine.spin_us=50", "stream.depth=256", NULL};

static const struct task nop = {.op = TASK_NOP};
static struct session *session;

static void start_session(void)
{
    npud_start(no_spin);
    session = npud_session(1);
}

static void setup_spinning(void)
{
    npud_start(spin);
    session = npud_session(1);
}

static int32_t error_of(const struct stream *s)
{
    return stream_error_code(atomic_load(&s->ctrl->error));
}

/* Take the error as the library does: it names process 4711. */
static void expect_dead_4711(struct stream *s)
{
    uint64_t error = stream_take_error(s->ctrl);

    ck_assert_int_eq(stream_error_code(error), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_int_eq(stream_error_pid(error), 4711);
}

/* Either of two failures, or none. */
static void expect_whole(uint64_t error)
{
    error = stream_error_make(stream_error_code(error), stream_error_pid(error));
    ck_assert(stream_error_code(error) == 0 ||
              error == stream_error_make(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, 4711) ||
              error == stream_error_make(ACL_ERROR_RT_SYS_DMA, 0));
}

static struct task wait_for(const struct stream *other, uint64_t position, uint64_t timeout_ns)
{
    return (struct task){.op = TASK_WAIT_POS,
                         .object = other->slot.number,
                         .wait.target = position + 1,
                         .wait.timeout_ns = timeout_ns};
}

static struct ipc_open *make_ipc(struct session *s)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(s, 0, &open), 0);
    return open;
}

static struct ipc_open *open_ipc(struct session *s, struct ipc_open *exported)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_export(exported), 0);
    ck_assert_int_eq(ipc_event_open(s, &exported->event->handle, &open), 0);
    return open;
}

static uint64_t take_record(struct ipc_open *open)
{
    uint64_t blocker, number;

    AWAIT((number =
               ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker)) != 0);
    return number;
}

static struct task ipc_task(struct ipc_open *open, enum task_op op, uint64_t number)
{
    return (struct task){.op = (uint8_t)op,
                         .object = open->slot.number,
                         .generation = slot_generation(open),
                         .ipc.number = number};
}

/* --- single things --- */

START_TEST(tasks_retire)
{
    struct stream *s = npud_stream(session, 0);

    for (unsigned i = 0; i < 3 * s->depth; i++)
        client_wait(s, client_submit(s, nop));
    for (unsigned i = 0; i < s->depth; i++)
        client_submit(s, nop);
    client_wait(s, 4 * s->depth - 1);
    ck_assert_uint_eq(atomic_load(&s->ctrl->done), 4 * s->depth);
    ck_assert_int_eq(error_of(s), 0);
}
END_TEST

/* Each between what came before it and what comes after, and only those that ask for it. */
START_TEST(a_nop_says_when_its_stream_got_there)
{
    struct stream *s = npud_stream(session, 0);
    uint64_t before = clock_ns(), first, second;

    client_submit(s, (struct task){.op = TASK_NOP, .flags = TASK_NOP_TIME});
    client_submit(s, (struct task){.op = TASK_DELAY, .delay.ns = 2000000});
    client_submit(s, (struct task){.op = TASK_NOP, .flags = TASK_NOP_TIME});
    client_wait(s, client_submit(s, nop));
    first = atomic_load(&s->ring[0].stamp.ns);
    second = atomic_load(&s->ring[2].stamp.ns);
    ck_assert_uint_ge(first, before);
    ck_assert_uint_ge(second, first + 2000000);
    ck_assert_uint_le(second, clock_ns());
    ck_assert_uint_eq(atomic_load(&s->ring[3].stamp.ns), 0);
}
END_TEST

START_TEST(waits_hold_until_the_other_stream_gets_there)
{
    struct stream *first = npud_stream(session, 0), *second = npud_stream(session, 1);
    uint64_t waits = client_submit(second, wait_for(first, 4, 0)),
             after = client_submit(second, nop);

    for (int i = 0; i < 4; i++)
        client_wait(first, client_submit(first, nop));
    ck_assert(!client_passed(second, waits));
    client_submit(first, nop);
    client_wait(second, after);
    ck_assert_int_eq(error_of(second), 0);
}
END_TEST

START_TEST(waits_that_take_too_long_fail)
{
    struct stream *never = npud_stream(session, 0), *s = npud_stream(session, 1);

    client_wait(s, client_submit(s, wait_for(never, 0, 1000)));
    ck_assert_int_eq(error_of(s), ACL_ERROR_RT_TASK_TIMEOUT);
    ck_assert_int_eq(stream_error_pid(atomic_load(&s->ctrl->error)), 0);
}
END_TEST

/* Thousands can be let go in one step of the control thread: with a system call each it is long. */
START_TEST(an_engine_is_woken_once_for_many)
{
    struct engine *e = devices_get(server.devices, 0)->engine;
    struct stream *first = npud_stream(session, 0), *s[64];
    uint64_t position[64];
    eventfd_t wakes;

    for (unsigned i = 0; i < 64; i++) {
        s[i] = npud_stream(session, 0);
        position[i] = client_submit(s[i], wait_for(first, 0, 0));
    }
    AWAIT(atomic_load(&first->passed.n) == 64 && atomic_load(&e->sleeping));
    eventfd_read(e->wake, &wakes);
    engine_lock(e);
    waitlist_fire(&first->passed, 0, UINT64_MAX, 0, 0);
    ck_assert(atomic_load(&e->sleeping));
    ck_assert_int_eq(eventfd_read(e->wake, &wakes), 0);
    ck_assert_uint_eq(wakes, 1);
    eventfd_write(e->wake, 1);
    engine_unlock(e);
    for (unsigned i = 0; i < 64; i++)
        client_wait(s[i], position[i]);
}
END_TEST

START_TEST(streams_that_are_gone_hold_nobody)
{
    struct stream *doomed = npud_stream(session, 0), *s = npud_stream(session, 1);
    uint64_t position = client_submit(s, wait_for(doomed, 100, 0));

    AWAIT(atomic_load(&doomed->passed.n) == 1);
    stream_free(doomed);
    client_wait(s, position);
    ck_assert_int_eq(error_of(s), 0);
}
END_TEST

START_TEST(death_fails_pending_records_by_name)
{
    struct session *doomed = npud_session(4711);
    struct stream *s = npud_stream(session, 0);
    struct ipc_open *theirs = make_ipc(doomed), *ours = open_ipc(session, theirs);
    uint64_t number = take_record(theirs), last, position;

    position = client_submit(s, ipc_task(ours, TASK_IPC_WAIT, number));
    AWAIT(atomic_load(&ours->event->completed.n) == 1);
    last = take_record(theirs); /* known from `latest` only */
    session_free(doomed);
    ck_assert_int_eq(ipc_state_of(ours->event->page, last), IPC_FAILED);
    client_wait(s, position);
    expect_dead_4711(s);
    ck_assert_int_eq(ipc_state_of(ours->event->page, number), IPC_FAILED);
    /* A wait that comes later fares no better. */
    client_wait(s, client_submit(s, ipc_task(ours, TASK_IPC_WAIT, number)));
    expect_dead_4711(s);
}
END_TEST

/*
 * A client that is told of a failure is told which process caused that failure, also while other
 * tasks fail. The latest failure stays.
 */
START_TEST(failures_keep_their_culprits)
{
    struct session *doomed = npud_session(4711);
    struct stream *s = npud_stream(session, 0);
    struct ipc_open *theirs = make_ipc(doomed), *ours = open_ipc(session, theirs);
    struct task wait = ipc_task(ours, TASK_IPC_WAIT, take_record(theirs)),
                copy = {.op = TASK_COPY, .copy.size = 1}; /* from and to nowhere */
    uint64_t last;

    session_free(doomed);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 20; i++) {
            client_submit(s, wait);
            last = client_submit(s, copy);
        }
        while (!client_passed(s, last))
            expect_whole(stream_take_error(s->ctrl));
        expect_whole(client_error(s));
    }
    client_wait(s, client_submit(s, copy));
    client_wait(s, client_submit(s, wait));
    expect_dead_4711(s);
}
END_TEST

/*
 * What waits for a stream of the same session does not go on because that stream is cleared away:
 * no process sees a record complete that depends on it.
 */
START_TEST(death_completes_nothing)
{
    enum { N = 200 };
    struct session *doomed = npud_session(4711);
    struct ipc_open *theirs = make_ipc(doomed), *ours = open_ipc(session, theirs);
    struct stream *first = npud_stream(doomed, 0);
    uint64_t number[N], position;

    position = client_submit(first, (struct task){.op = TASK_DELAY, .delay.ns = 60 * NSEC_PER_SEC});
    for (int i = 0; i < N; i++) {
        struct stream *s = npud_stream(doomed, (uint32_t)i % 2);

        number[i] = take_record(theirs);
        client_submit(s, wait_for(first, position, 0));
        client_submit(s, ipc_task(theirs, TASK_IPC_RECORD, number[i]));
    }
    AWAIT(atomic_load(&first->passed.n) == N);
    session_free(doomed);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(ipc_state_of(ours->event->page, number[i]), IPC_FAILED);
}
END_TEST

/* The page says "pending", by an opener that does not exist: no process will ever complete it. */
START_TEST(a_forged_record_holds_no_stream)
{
    struct ipc_open *open = make_ipc(session);
    struct stream *s = npud_stream(session, 0);

    atomic_store(&open->event->page->slot[5], UINT64_C(5) << 32 | 77 << 16 | IPC_PENDING);
    client_wait(s, client_submit(s, ipc_task(open, TASK_IPC_WAIT, 5)));
    ck_assert_int_eq(error_of(s), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_int_eq(ipc_state_of(open->event->page, 5), IPC_FAILED);
}
END_TEST

/* --- destroyed objects --- */

static bool all_gone(void)
{
    npud_turn();
    return session->events.live == 0;
}

/* The streams pass their fences just while these are set up. */
START_TEST(destroyed_events_go_when_streams_have_passed_them)
{
    struct stream *s[2] = {npud_stream(session, 0), npud_stream(session, 1)};
    uint64_t rng = 6, end = clock_ns() + 300 * NSEC_PER_MSEC;

    while (clock_ns() < end) {
        struct fence fences[2];
        struct event_obj *ev;
        int fd;

        ck_assert_int_eq(event_obj_new(session, 0, 0, &ev, &fd), 0);
        for (int i = 0; i < 2; i++) {
            fences[i].stream = s[i]->slot.number;
            for (uint32_t n = 1 + random_below(&rng, 5); n > 0; n--)
                fences[i].position = client_submit(s[i], nop) + 1;
        }
        burn_time(&rng, 1u << random_below(&rng, 11));
        CHECK(release_event(session, ev, fences, 2, random_below(&rng, 2)) == CAUSE_NONE);
        AWAIT(all_gone());
        CHECK(session->n_fences == 0 && !session->releases);
    }
}
END_TEST

/* --- what is told is true --- */

static _Atomic bool over;
static uint64_t stress_end;

/* If a thread sees a record complete, what the stream was given before it is complete too. */
START_TEST(record_is_not_complete_before_what_came_before)
{
    struct ipc_open *open = make_ipc(session);
    struct stream *s = npud_stream(session, 0);
    uint64_t end = clock_ns() + 300 * NSEC_PER_MSEC;

    while (clock_ns() < end) {
        uint64_t number = take_record(open), before = 0;

        for (int i = 0; i < 5; i++)
            before = client_submit(s, nop);
        client_submit(s, ipc_task(open, TASK_IPC_RECORD, number));
        for (int i = 0; i < 50; i++)
            client_submit(s, nop);
        while (ipc_state_of(open->event->page, number) == IPC_PENDING)
            ;
        if (!client_passed(s, before))
            ck_abort_msg("record %llu is done, task %llu before it is not",
                         (unsigned long long)number, (unsigned long long)before);
        client_wait(s, before + 51);
    }
}
END_TEST

/* The same for a level, as another stream sees it. */
START_TEST(level_is_not_up_before_what_came_before)
{
    struct stream *s = npud_stream(session, 0);
    uint64_t end = clock_ns() + 300 * NSEC_PER_MSEC;
    struct event_obj *ev;
    int fd;

    ck_assert_int_eq(event_obj_new(session, 0, 0, &ev, &fd), 0);
    while (clock_ns() < end) {
        uint64_t before = 0;

        event_slot_lower(ev->shm);
        for (int i = 0; i < 5; i++)
            before = client_submit(s, nop);
        client_submit(s, (struct task){.op = TASK_RECORD,
                                       .flags = TASK_RECORD_LEVEL,
                                       .object = ev->slot.number,
                                       .generation = slot_generation(ev)});
        for (int i = 0; i < 50; i++)
            client_submit(s, nop);
        while (!(atomic_load(&ev->shm->level) & EVENT_LEVEL_UP))
            ;
        CHECK(client_passed(s, before));
        client_wait(s, before + 51);
    }
}
END_TEST

/* If a thread sees a stream go on, what that stream had waited for is complete. */
START_TEST(waiter_does_not_go_on_before_the_news_are_out)
{
    struct stream *first = npud_stream(session, 0), *second = npud_stream(session, 1);
    uint64_t rng = 4, end = clock_ns() + 300 * NSEC_PER_MSEC;

    while (clock_ns() < end) {
        uint64_t position = client_submit(first, nop), waits;

        burn_time(&rng, 500); /* the second engine looks when the first is about to tell */
        waits = client_submit(second, wait_for(first, position, 0));
        while (!client_passed(second, waits))
            ;
        CHECK(client_passed(first, position));
    }
}
END_TEST

/* --- stress --- */

#define SUBMITTERS 3

static struct stream *theirs[SUBMITTERS][2];

static void *run_submitter(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t rng = me + 1;

    while (clock_ns() < stress_end)
        for (int i = 0; i < 2; i++) {
            struct stream *s = theirs[me][i];
            uint64_t last = 0;

            for (uint32_t n = 1 + random_below(&rng, 10); n > 0; n--)
                last = client_submit(s, nop);
            burn_time(&rng, 500);
            client_wait(s, last);
            burn_time(&rng, 500);
        }
    return NULL;
}

static void run_submitters(unsigned n)
{
    pthread_t threads[SUBMITTERS];

    for (unsigned i = 0; i < n; i++)
        for (uint32_t device = 0; device < 2; device++)
            theirs[i][device] = npud_stream(session, device);
    stress_end = clock_ns() + 300 * NSEC_PER_MSEC;
    for (uintptr_t i = 0; i < n; i++)
        threads[i] = start_thread(run_submitter, (void *)i);
    for (unsigned i = 0; i < n; i++)
        thread_join(threads[i]);
    for (unsigned i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            ck_assert_uint_eq(atomic_load(&theirs[i][k]->ctrl->done),
                              atomic_load(&theirs[i][k]->ctrl->tail));
}

START_TEST(one_submitter)
{
    run_submitters(1);
}
END_TEST

START_TEST(many_submitters)
{
    run_submitters(SUBMITTERS);
}
END_TEST

/*
 * This thread wants the engines all the time, as the control thread does when objects come and go.
 */
static void *lock_and_unlock(void *arg)
{
    uint64_t rng = 5, n = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        session_lock(session);
        n++;
        session_unlock(session);
        burn_time(&rng, 2000);
    }
    return (void *)(uintptr_t)n;
}

START_TEST(submitters_beside_a_busy_control_thread)
{
    pthread_t thread = start_thread(lock_and_unlock, NULL);

    run_submitters(SUBMITTERS);
    atomic_store(&over, true);
    thread_join(thread);
}
END_TEST

/*
 * An engine that goes to sleep lets go of many streams first, and of their doorbell last: what is
 * submitted in between must not be lost.
 */
START_TEST(submitting_while_the_engine_falls_asleep)
{
    enum { STREAMS = 60 };
    struct stream *s[STREAMS];
    uint64_t rng = 11, end = clock_ns() + 300 * NSEC_PER_MSEC, last[STREAMS];

    for (int i = 0; i < STREAMS; i++)
        s[i] = npud_stream(session, 0);
    while (clock_ns() < end) {
        uint32_t one = random_below(&rng, STREAMS);

        for (int i = 0; i < STREAMS; i++)
            last[i] = client_submit(s[i], nop);
        for (int i = 0; i < STREAMS; i++)
            client_wait(s[i], last[i]);
        burn_time(&rng, 2000);
        client_wait(s[one], client_submit(s[one], nop));
    }
}
END_TEST

/*
 * Streams of two devices that wait for each other in a random, but possible, order; some not for
 * long.
 */
START_TEST(random_waits_come_to_an_end)
{
    enum { STREAMS = 8 };
    struct stream *s[STREAMS];
    uint64_t rng = 3, end = clock_ns() + 400 * NSEC_PER_MSEC;

    for (uint32_t i = 0; i < STREAMS; i++)
        s[i] = npud_stream(session, i % 2);
    while (clock_ns() < end) {
        for (int n = 0; n < 100; n++) {
            struct stream *one = s[random_below(&rng, STREAMS)];
            struct stream *other = s[random_below(&rng, STREAMS)];
            uint64_t given = atomic_load(&other->ctrl->tail);
            struct task task = nop;

            if (given > 0 && random_below(&rng, 4))
                task = wait_for(other, given - 1,
                                random_below(&rng, 3) ? 0 : 1 + random_below(&rng, 20000));
            else if (random_below(&rng, 4) == 0)
                task = (struct task){.op = TASK_DELAY, .delay.ns = random_below(&rng, 5000)};
            client_submit(one, task);
        }
        for (int i = 0; i < STREAMS; i++)
            if (atomic_load(&s[i]->ctrl->tail) > 0)
                client_wait(s[i], atomic_load(&s[i]->ctrl->tail) - 1);
    }
    for (int i = 0; i < STREAMS; i++)
        ck_assert(error_of(s[i]) == 0 || error_of(s[i]) == ACL_ERROR_RT_TASK_TIMEOUT);
}
END_TEST

/* --- callbacks --- */

static struct task make_callback(uint64_t ordinal, uint32_t word, bool block)
{
    return (struct task){.op = TASK_CALLBACK,
                         .callback = {.ordinal = ordinal, .word = word, .block = block}};
}

/* What the library does when the function has returned. */
static void report_return(struct stream *s, uint64_t ordinal)
{
    atomic_store(&s->ctrl->callbacks_done, ordinal);
    if (doorbell_raise(s->attach->bell, s->slot.number))
        eventfd_write(s->attach->fd, 1);
}

/*
 * Asleep or not, before or after the engine has got there: the stream goes on when it is told, and
 * not before.
 */
START_TEST(callbacks_hold_until_they_return)
{
    struct stream *s = npud_stream(session, 0), *probe = npud_stream(session, 0);
    struct callback_word *word = &session->page->callback_word[5];

    for (uint64_t i = 1; i < 2000; i++) {
        uint32_t seq = atomic_load(&word->seq);
        uint64_t position = client_submit(s, make_callback(i, 5, true));

        client_submit(s, nop);
        if (i % 2) {
            AWAIT(atomic_load(&s->ctrl->callbacks) == i);
            AWAIT(atomic_load(&word->seq) == seq + 1);
            client_wait(probe, client_submit(probe, nop));
            ck_assert(!client_passed(s, position));
        }
        report_return(
            s,
            i); /* every other one is dropped at any moment, perhaps before the engine got there */
        client_wait(s, position + 1);
    }
    ck_assert_int_eq(error_of(s), 0);
    stream_free(s);
    stream_free(probe);
}
END_TEST

/* Entries that no honest client writes, and rings for callbacks that have not returned. */
START_TEST(bad_callbacks)
{
    struct stream *s = npud_stream(session, 0), *probe = npud_stream(session, 0);
    uint64_t position;

    client_wait(s, client_submit(s, make_callback(1, CALLBACK_WORDS, false)));
    ck_assert_int_eq(error_of(s), ACL_ERROR_RT_PARAM_INVALID);
    atomic_store(&s->ctrl->error, 0);
    client_wait(s, client_submit(s, make_callback(0, 0, true)));
    ck_assert_int_eq(error_of(s), ACL_ERROR_RT_PARAM_INVALID);
    atomic_store(&s->ctrl->error, 0);
    client_wait(s, client_submit(s, make_callback(7, 0, false)));
    ck_assert_int_eq(error_of(s), 0);
    client_wait(s, client_submit(s, make_callback(7, 0, true)));
    ck_assert_int_eq(error_of(s), ACL_ERROR_RT_PARAM_INVALID);
    atomic_store(&s->ctrl->error, 0);
    position = client_submit(s, make_callback(UINT64_MAX, CALLBACK_WORDS - 1, true));
    AWAIT(atomic_load(&s->ctrl->callbacks) == UINT64_MAX);
    report_return(s, 8); /* not that one */
    client_wait(probe, client_submit(probe, nop));
    ck_assert(!client_passed(s, position));
    /* Freed while it waits; nothing is left of that for the next one in its slot. */
    stream_free(s);
    s = npud_stream(session, 0);
    ck_assert_uint_eq(atomic_load(&s->ctrl->callbacks), 0);
    ck_assert_uint_eq(atomic_load(&s->ctrl->callbacks_done), 0);
    client_wait(s, client_submit(s, make_callback(1, 0, false)));
    ck_assert_int_eq(error_of(s), 0);
    position = client_submit(s, make_callback(2, 0, true));
    AWAIT(atomic_load(&s->ctrl->callbacks) == 2);
    stream_abort(s, 0, 0); /* the engine forgets that it waited */
    ck_assert(client_passed(s, position));
    client_wait(s, client_submit(s, nop));
    stream_free(s);
    stream_free(probe);
}
END_TEST

/* --- users --- */

#define CROWD   64 /* sessions of one user, with one stream each */
#define STREAMS 8  /* of the one session of another user */

static void fill_ring(struct stream *s)
{
    for (unsigned i = 0; i < s->depth - 1; i++)
        client_submit(s, nop);
}

/*
 * By the times at which the engine has last found a task in a stream: the one session has eight
 * times the tasks of each session of the crowd. If sessions took turns, it would be the last. Users
 * take turns, so it ends when the crowd has had as much as it, which is an eighth of what each of
 * them needs.
 */
START_TEST(a_crowd_of_one_user_is_one_user)
{
    struct engine *e = server.devices->device[0].engine;
    struct session *one = npud_session_of(2000, 2);
    struct stream *crowd[CROWD], *own[STREAMS];
    uint64_t own_end = 0;

    for (unsigned i = 0; i < CROWD; i++)
        crowd[i] = npud_stream(npud_session_of(1234, 3), 0);
    for (unsigned i = 0; i < STREAMS; i++)
        own[i] = npud_stream(one, 0);
    engine_lock(e);
    for (unsigned i = 0; i < CROWD; i++)
        fill_ring(crowd[i]);
    for (unsigned i = 0; i < STREAMS; i++)
        fill_ring(own[i]);
    engine_unlock(e);
    for (unsigned i = 0; i < CROWD; i++)
        client_wait(crowd[i], crowd[i]->depth - 2);
    for (unsigned i = 0; i < STREAMS; i++)
        client_wait(own[i], own[i]->depth - 2);
    engine_lock(e);
    for (unsigned i = 0; i < STREAMS; i++)
        own_end = own[i]->idle_since > own_end ? own[i]->idle_since : own_end;
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_msg(crowd[i]->idle_since > own_end, "session %u of the crowd was %llu ns earlier",
                      i, (unsigned long long)(own_end - crowd[i]->idle_since));
    engine_unlock(e);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("engine");
    TCase *single = suite_case(s, "single things", 60, start_session, npud_stop);
    TCase *truth = suite_case(s, "truth", 60, setup_spinning, npud_stop);
    TCase *asleep = suite_case(s, "engines that sleep at once", 60, start_session, npud_stop);
    TCase *awake = suite_case(s, "engines that spin", 60, setup_spinning, npud_stop);

    tcase_add_test(single, tasks_retire);
    tcase_add_test(single, a_nop_says_when_its_stream_got_there);
    tcase_add_test(single, waits_hold_until_the_other_stream_gets_there);
    tcase_add_test(single, waits_that_take_too_long_fail);
    tcase_add_test(single, an_engine_is_woken_once_for_many);
    tcase_add_test(single, streams_that_are_gone_hold_nobody);
    tcase_add_test(single, death_fails_pending_records_by_name);
    tcase_add_test(single, failures_keep_their_culprits);
    tcase_add_test(single, death_completes_nothing);
    tcase_add_test(single, a_forged_record_holds_no_stream);
    tcase_add_test(single, callbacks_hold_until_they_return);
    tcase_add_test(single, bad_callbacks);
    tcase_add_test(single, a_crowd_of_one_user_is_one_user);
    tcase_add_test(truth, record_is_not_complete_before_what_came_before);
    tcase_add_test(truth, level_is_not_up_before_what_came_before);
    tcase_add_test(truth, waiter_does_not_go_on_before_the_news_are_out);
    tcase_add_test(asleep, one_submitter);
    tcase_add_test(asleep, many_submitters);
    tcase_add_test(asleep, submitters_beside_a_busy_control_thread);
    tcase_add_test(asleep, submitting_while_the_engine_falls_asleep);
    tcase_add_test(asleep, random_waits_come_to_an_end);
    tcase_add_test(awake, one_submitter);
    tcase_add_test(awake, many_submitters);
    tcase_add_test(awake, submitters_beside_a_busy_control_thread);
    tcase_add_test(awake, destroyed_events_go_when_streams_have_passed_them);
    tcase_add_test(awake, random_waits_come_to_an_end);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
