/*
 * daemon/failure with real engines and a client that is the test: nothing is lost at the edges, and
 * a client that lies harms only itself.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/inject.h"
#include "daemon/core/ipc_record.h"
#include "npud.h"
#include "proto/wire/npud.pb-c.h"

#define CODE ACL_ERROR_RT_AICORE_EXCEPTION

static const char *const no_spin[] = {"engine.spin_us=0", "stream.depth=256", NULL};
static const char *const spin[] = {"engine.spin_us=50", "stream.depth=256", NULL};

static const struct task nop = {.op = TASK_NOP};
static const struct task bad = {.op = TASK_DELAY, .thread = 7, .delay.result = CODE};

static struct session *session, *neighbour;

static void start_sessions(void)
{
    npud_start(no_spin);
    session = npud_session(1);
    neighbour = npud_session(2);
}

static void setup_spinning(void)
{
    npud_start(spin);
    session = npud_session(1);
    neighbour = npud_session(2);
}

static struct exception_ring *get_ring(struct session *s, uint32_t device)
{
    return &s->page->exceptions[device];
}

static void want_exceptions(struct session *s)
{
    atomic_store(&get_ring(s, 0)->wanted, 1);
    atomic_store(&get_ring(s, 1)->wanted, 1);
}

/* As the library does. */
static bool take_exception(struct session *s, uint32_t device, struct exception *e)
{
    bool full;

    if (!exception_take(get_ring(s, device), e, &full))
        return false;
    if (full && !atomic_load(&s->page->doorbell[device].watched))
        eventfd_write(s->attach[device]->fd, 1);
    return true;
}

static void take_next(struct session *s, uint32_t device, struct exception *e)
{
    struct timespec ts = timespec_from_ns(clock_ns() + GUARD_NS);

    for (;;) {
        uint32_t seen = atomic_load(&s->page->exception_seq);

        if (take_exception(s, device, e))
            return;
        if (futex_wait_until(&s->page->exception_seq, seen, &ts) == -ETIMEDOUT)
            ck_abort_msg("no exception, or wake-up lost");
    }
}

static bool is_stuck(struct stream *s)
{
    bool stuck;

    engine_lock(s->attach->device->engine);
    stuck = s->run == RUN_STUCK;
    engine_unlock(s->attach->device->engine);
    return stuck;
}

static void await_stuck(struct stream *s)
{
    uint64_t give_up = clock_ns() + GUARD_NS;

    while (!is_stuck(s))
        CHECK(clock_ns() < give_up);
}

/* --- the ring --- */

#define STREAMS  3
#define FAILURES 20000

struct flood {
    struct stream *s;
    pthread_t thread;
};

static void *submit_failures(void *arg)
{
    struct flood *f = arg;
    uint64_t first = atomic_load(&f->s->ctrl->tail);

    for (uint64_t i = 0; i < FAILURES; i++) {
        if (i >= f->s->depth)
            client_wait(f->s, first + i - f->s->depth);
        client_submit(f->s, bad);
    }
    return NULL;
}

/*
 * Each failure once and in its stream's order, however full the ring is and whenever the engine
 * falls asleep.
 */
START_TEST(each_failure_is_told_once)
{
    struct flood f[STREAMS];
    uint32_t next[STREAMS] = {0};
    struct exception e;
    uint64_t rng = 1;

    want_exceptions(session);
    for (int i = 0; i < STREAMS; i++) {
        f[i].s = npud_stream(session, 0);
        ck_assert_int_eq(stream_id(f[i].s), i);
        pthread_create(&f[i].thread, NULL, submit_failures, &f[i]);
    }
    for (unsigned n = 0; n < STREAMS * FAILURES; n++) {
        take_next(session, 0, &e);
        CHECK(e.stream < STREAMS && e.task == next[e.stream]++);
        CHECK(e.thread == 7 && e.code == CODE);
        /* Until the ring is full, which the last ones do not fill. */
        if (next[e.stream] < FAILURES - 256 && random_next(&rng) % 200 == 0)
            await_stuck(f[e.stream].s);
    }
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(f[i].thread, NULL);
        client_wait(f[i].s, atomic_load(&f[i].s->ctrl->tail) - 1);
        ck_assert_uint_eq(f[i].s->live->failures, FAILURES);
    }
    ck_assert(!take_exception(session, 0, &e));
    ck_assert_uint_eq(atomic_load(&get_ring(session, 0)->full), 0);
}
END_TEST

static void expect_neighbour_works(void)
{
    struct stream *s = npud_stream(neighbour, 0);
    uint32_t first = (uint32_t)atomic_load(&s->ctrl->tail);
    struct exception e;

    want_exceptions(neighbour);
    for (uint32_t i = 0; i < 500; i++) {
        client_wait(s, client_submit(s, i % 2 ? bad : nop));
        if (i % 2) {
            ck_assert(take_exception(neighbour, 0, &e)); /* told before it is done */
            ck_assert_uint_eq(e.task, first + i);
        }
    }
    stream_free(s);
}

/*
 * The client wants exceptions, but never takes them: only that stream stays where it is. It can be
 * aborted, and the session can end.
 */
START_TEST(exceptions_that_nobody_takes)
{
    struct stream *s = npud_stream(session, 0), *healthy = npud_stream(session, 0);

    want_exceptions(session);
    for (unsigned i = 0; i < EXCEPTIONS + 2; i++)
        client_submit(s, bad);
    await_stuck(s);
    ck_assert_uint_eq(atomic_load(&s->live->done), EXCEPTIONS);
    client_wait(healthy, client_submit(healthy, nop));
    expect_neighbour_works();
    stream_abort(s, 0, 0);
    client_wait(s, client_submit(s, nop));
    client_submit(s, bad);
    await_stuck(s);
    stream_free(s);
    ck_assert_uint_eq(atomic_load(&get_ring(session, 0)->full), 0);
    s = npud_stream(session, 0);
    client_submit(s, bad);
    await_stuck(s);
}
END_TEST

static const uint64_t lies[] = {1, EXCEPTIONS + 1, UINT64_MAX - EXCEPTIONS, UINT64_C(1) << 63};

/* A tail that cannot be: no room, and no more. */
START_TEST(forged_tail)
{
    struct stream *s = npud_stream(session, 0);

    want_exceptions(session);
    atomic_store(&get_ring(session, 0)->tail, lies[_i]);
    client_submit(s, bad);
    await_stuck(s);
    expect_neighbour_works();
    atomic_store(&get_ring(session, 0)->tail, 0);
    eventfd_write(session->attach[0]->fd, 1);
    client_wait(s, 0);
    ck_assert_uint_eq(atomic_load(&get_ring(session, 0)->head), 1);
}
END_TEST

static _Atomic bool over;

#define RINGS 100 /* far fewer than npud takes for an attack on its sleep */

static void *scribble_on_ring(void *arg)
{
    unsigned rings = 0;
    uint64_t rng = 3;

    (void)arg;
    while (!atomic_load(&over)) {
        struct exception_ring *r = get_ring(session, 0);
        uint64_t x = random_next(&rng);

        atomic_store(&r->wanted, x & 1);
        atomic_store(&r->tail, x & 2 ? x : atomic_load(&r->head) - (x >> 8) % 80);
        atomic_store(&r->full, x >> 4 & 1);
        atomic_store(&r->entry[x >> 16 & (EXCEPTIONS - 1)][x >> 5 & 1], x);
        atomic_store(&session->page->exception_seq, (uint32_t)x);
        if (x % 64 == 0 && rings++ < RINGS)
            eventfd_write(session->attach[0]->fd, 1);
    }
    return NULL;
}

START_TEST(scribbled_ring)
{
    struct stream *s = npud_stream(session, 0);
    pthread_t t;

    pthread_create(&t, NULL, scribble_on_ring, NULL);
    for (unsigned i = 0; i < 40; i++) {
        for (unsigned n = 0; n < s->depth - 1; n++)
            client_submit(s, bad);
        expect_neighbour_works();
        stream_abort(s, 0, 0);
        npud_turn();
    }
    atomic_store(&over, true);
    pthread_join(t, NULL);
}
END_TEST

/* --- abort beside a submitter --- */

static void *submit_nops(void *arg)
{
    struct stream *s = arg;

    while (!atomic_load(&over)) {
        uint64_t p = client_submit(s, nop);

        client_wait(s, p); /* executed or discarded: not left lying */
    }
    return NULL;
}

START_TEST(submission_during_abort)
{
    struct stream *s = npud_stream(session, 0);
    pthread_t t;

    pthread_create(&t, NULL, submit_nops, s);
    for (unsigned i = 0; i < 30000; i++)
        stream_abort(s, i % 2 ? ACL_ERROR_RT_STREAM_ABORT : 0, 0);
    atomic_store(&over, true);
    pthread_join(t, NULL);
    client_wait(s, client_submit(s, nop));
}
END_TEST

/* --- stop --- */

/*
 * What comes too late to be refused is passed over, wherever it meets the stop; and its IPC records
 * fail.
 */
START_TEST(records_beside_a_stop)
{
    struct stream *s = npud_stream(session, 0), *t = npud_stream(session, 0);
    struct ipc_open *open;
    uint64_t blocker;
    int32_t pid;

    ck_assert_int_eq(ipc_event_new(session, 0, &open), 0);
    stream_stop_at_failure(s);
    client_submit(s, bad);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t n = ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker);
        struct timespec ts = timespec_from_ns(clock_ns() + GUARD_NS);

        client_submit(i % 2 ? s : t, (struct task){.op = TASK_IPC_RECORD,
                                                   .object = open->slot.number,
                                                   .generation = slot_generation(open),
                                                   .ipc.number = n});
        while (ipc_arm(open->event->page, n)) {
            uint32_t seen = atomic_load(&open->event->page->wake_seq);

            if (ipc_state_of(open->event->page, n) == IPC_PENDING &&
                futex_wait_until(&open->event->page->wake_seq, seen, &ts) == -ETIMEDOUT)
                ck_abort_msg("record %u is left pending", i);
        }
        if (atomic_load(&t->stopped) != 0 && ipc_state_of(open->event->page, n) == IPC_FAILED) {
            ck_assert(ipc_record_failed(open->event, n, &pid));
            ck_assert_int_eq(pid, 1);
        }
    }
    ck_assert_int_eq(stream_error_code(atomic_load(&t->ctrl->stopped)), CODE);
    ck_assert_uint_eq(atomic_load(&s->ctrl->done), 0);
    expect_neighbour_works();
}
END_TEST

static void fail_next(const char *kind)
{
    Npud__Inject rule = NPUD__INJECT__INIT;
    uint64_t id;

    rule.action = NPUD__INJECT__ACTION__FAIL;
    rule.kind = (char *)kind;
    rule.device = rule.stream = -1;
    rule.nth = 1;
    rule.code = CODE;
    ck_assert_int_eq(inject_set(&server, &rule, &id), 0);
}

/*
 * A record that has failed has failed one wait, also when it cannot be told and is discarded then.
 */
START_TEST(a_record_fails_once)
{
    struct stream *full = npud_stream(session, 0), *s = npud_stream(session, 0);
    struct stream *waiter[2] = {npud_stream(session, 1), npud_stream(session, 1)};
    struct task record = {.op = TASK_NOTIFY_RECORD}, wait = {.op = TASK_NOTIFY_WAIT};
    struct notify_open *open;
    uint64_t first = 0;

    want_exceptions(session);
    ck_assert_int_eq(notify_new(session, devices_get(server.devices, 0), false, &open), 0);
    record.object = wait.object = open->slot.number;
    record.generation = wait.generation = slot_generation(open);
    for (unsigned i = 0; i < 2; i++) {
        first = client_submit(waiter[i], wait);
        AWAIT(atomic_load(&open->notify->waiting.n) == i + 1);
    }
    for (unsigned i = 0; i <= EXCEPTIONS; i++)
        client_submit(full, bad);
    await_stuck(full);
    fail_next("notify record");
    client_submit(s, record);
    await_stuck(s);
    ck_assert_uint_eq(atomic_load(&open->notify->waiting.n), 1);
    if (_i == 0) {
        stream_abort(s, ACL_ERROR_RT_STREAM_ABORT, 0);
    } else { /* a failure without an exception stops the context */
        struct stream *late = npud_stream(session, 0);
        struct task never = {.op = TASK_WAIT_POS,
                             .object = waiter[1]->slot.number,
                             .wait = {.target = first + 1, .timeout_ns = 1000000}};

        stream_stop_at_failure(s);
        client_submit(late, never);
        AWAIT(atomic_load(&s->ctrl->stopped) != 0);
        AWAIT(!is_stuck(s));
    }
    ck_assert_uint_eq(atomic_load(&open->notify->waiting.n), 1);
    client_submit(waiter[0], record);
    client_wait(waiter[1], first);
    ck_assert_int_eq(stream_error_code(atomic_load(&waiter[1]->ctrl->error)), 0);
    session_free(session);
    session_free(neighbour);
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_test(c, each_failure_is_told_once);
    tcase_add_test(c, exceptions_that_nobody_takes);
    tcase_add_loop_test(c, forged_tail, 0, sizeof(lies) / sizeof(lies[0]));
    tcase_add_test(c, scribbled_ring);
    tcase_add_test(c, submission_during_abort);
    tcase_add_test(c, records_beside_a_stop);
    tcase_add_loop_test(c, a_record_fails_once, 0, 2);
}

int main(void)
{
    Suite *s = suite_create("failure");
    TCase *asleep = suite_case(s, "engine asleep", 60, start_sessions, npud_stop);
    TCase *awake = suite_case(s, "engine awake", 60, setup_spinning, npud_stop);

    add_tests(asleep);
    add_tests(awake);
    return run_suite(s);
}
