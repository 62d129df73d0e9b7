/*
 * IPC events, for one, two and three processes: which record a wait belongs to, whichever record
 * finishes first; turns on one event; limits; and what aclrtSynchronizeDevice waits for. (What each
 * state answers: test_ipc_cells.c.)
 *
 * | sentence of the reference                        | here                                      |
 * | ------------------------------------------------ | ----------------------------------------- |
 * | tied to the record that is latest at the call,   | wait_belongs_to_the_record_...: each pair |
 * | in order of the host calls over all processes    | of recorders, each waiter, either order   |
 * | a wait issued before the record does not wait    | wait_before_the_record_...                |
 * | both record and both wait, directions alternate  | direction_alternates_..., turns_...       |
 * | capacity; a recycled state (vendor weakness 2)   | old_record_among_many                     |
 * | limits of stream waits: decided: they are kept   | limits_are_kept                           |
 * | SynchronizeEventWithTimeout, 507047              | limits_are_kept, and every NOT_READY cell |
 * | SynchronizeDevice: decided: all streams of the   | synchronise_device_...                    |
 * | calling process on that device                   |                                           |
 *
 * Runs long: 11 s.
 * Skipped under TSan: the test asks one call after the other.
 */
#include "cells.h"
#include "ipc_cast.h"
#include "proto/shm/ipc_page.h"

static struct cast cast;

static void start_cast(unsigned processes)
{
    cast_start(&cast, processes, NULL);
    cast_open(&cast);
}

static void end_cast(void)
{
    cast_close(&cast, 1);
    cells_expect_ok();
    cast_end(&cast);
}

static bool is_lane_blocked(unsigned who, int device, int lane)
{
    return !lane_idle(who, device, lane, true).value;
}

/* --- which record --- */

/* Lanes of the waits that are called between the two records, and after them. */
enum { BETWEEN = WAITING, AFTER = WAITING + 2 };

struct race {
    struct ref *first, *second, *waiter;
    int device2;
    bool swapped; /* the second record is executed before the first */
};

static void check_answer(const struct race *r, bool ok, const char *what)
{
    cell(ok, what, "%s records, %s records on device %d, %s waits; %s is executed first",
         r->first->name, r->second->name, r->device2, r->waiter->name,
         r->swapped ? "the second" : "the first");
}

static void wait_on_both_devices(const struct race *r, int lane)
{
    for (int d = 0; d < DEVICES; d++)
        DONE(ref_wait(r->waiter, d, lane, WAIT_PLAIN, 0));
}

static bool both_stand(const struct race *r, int lane)
{
    return is_lane_blocked(r->waiter->who, 0, lane) && is_lane_blocked(r->waiter->who, 1, lane);
}

static bool both_are_over(const struct race *r, int lane)
{
    return lane_synchronize(r->waiter->who, 0, lane).error == 0 &&
           lane_synchronize(r->waiter->who, 1, lane).error == 0;
}

static void execute_record(const struct race *r, bool second)
{
    unsigned who = second ? r->second->who : r->first->who;
    int device = second ? r->device2 : 0, lane = second ? RECORD_2 : RECORD_1;

    DONE(lane_open(who, device, lane));
    DONE(lane_synchronize(who, device, lane));
}

/*
 * Both records are submitted, and only then executed, in either order. What was called between them
 * belongs to the first and nothing else; what was called after them to the second.
 */
static void run_race(const struct race *r)
{
    struct act a;
    bool slept;

    DONE(lane_close(r->first->who, 0, RECORD_1));
    DONE(lane_close(r->second->who, r->device2, RECORD_2));
    DONE(ref_record(r->first, 0, RECORD_1));
    wait_on_both_devices(r, BETWEEN);
    slept = ref_synchronize_begin(r->waiter).value; /* belongs to the first */
    DONE(ref_record(r->second, r->device2, RECORD_2));
    wait_on_both_devices(r, AFTER);
    check_answer(r, both_stand(r, BETWEEN) && both_stand(r, AFTER),
                 "StreamWait, both records pending");

    execute_record(r, r->swapped);
    if (r->swapped) {
        check_answer(r, both_are_over(r, AFTER), "StreamWait after the second, second executed");
        check_answer(r, both_stand(r, BETWEEN), "StreamWait after the first, second executed");
    } else {
        check_answer(r, both_are_over(r, BETWEEN), "StreamWait after the first, first executed");
        check_answer(r, both_stand(r, AFTER), "StreamWait after the second, first executed");
        a = ref_synchronize_end(r->waiter);
        check_answer(r, slept && a.value && a.error == 0, "Synchronize begun after the first");
    }
    check_answer(r, ref_is(r->waiter, r->swapped), "QueryStatus, one executed");
    a = ref_synchronize(r->waiter, r->swapped ? LIMIT_MS : BLOCKED_MS);
    check_answer(r, a.error == (r->swapped ? 0 : ACL_ERROR_RT_EVENT_SYNC_TIMEOUT),
                 "SynchronizeWithTimeout, one executed");

    execute_record(r, !r->swapped);
    if (r->swapped) {
        a = ref_synchronize_end(r->waiter);
        check_answer(r, slept && a.value && a.error == 0, "Synchronize begun after the first");
    }
    check_answer(r, both_are_over(r, BETWEEN) && both_are_over(r, AFTER),
                 "StreamWait, both executed");
    check_answer(r, ref_is(r->waiter, true), "QueryStatus, both executed");
}

START_TEST(wait_belongs_to_the_record_latest_at_the_call)
{
    struct race r;

    start_cast((unsigned)_i / 4 + 1);
    r.swapped = _i & 1;
    r.device2 = _i >> 1 & 1;
    for (unsigned first = 0; first < cast.n; first++)
        for (unsigned second = 0; second < cast.n; second++)
            for (unsigned waiter = 0; waiter < cast.n; waiter++) {
                r.first = &cast.ref[first];
                r.second = &cast.ref[second];
                r.waiter = &cast.ref[waiter];
                run_race(&r);
            }
    end_cast();
}
END_TEST

/* There is no queue of notifications: what was called before the record does not wait for it. */
START_TEST(wait_before_the_record_returns_without_waiting)
{
    start_cast((unsigned)_i);
    for (unsigned r = 0; r < cast.n; r++)
        for (unsigned w = 0; w < cast.n; w++) {
            unsigned who = cast.ref[w].who;
            bool ok = true;

            DONE(lane_close(cast.ref[r].who, 0, RECORD_1));
            for (int d = 0; d < DEVICES; d++)
                ok &= ref_wait(&cast.ref[w], d, WAITING, WAIT_PLAIN, 0).error == 0;
            ok &= ref_synchronize(&cast.ref[w], 0).error == 0;
            DONE(ref_record(&cast.ref[r], 0, RECORD_1));
            for (int d = 0; d < DEVICES; d++)
                ok &= lane_synchronize(who, d, WAITING).error == 0;
            cell(ok, "wait and synchronise before the record", "%s records, %s waits",
                 cast.ref[r].name, cast.ref[w].name);
            DONE(lane_open(cast.ref[r].who, 0, RECORD_1));
            DONE(lane_synchronize(cast.ref[r].who, 0, RECORD_1));
        }
    end_cast();
}
END_TEST

/* --- turns --- */

#define ROUNDS 30

/*
 * Round and round on one event: each records behind a gate, the next waits for it, and only then
 * the gate is opened.
 */
static bool hand_over(struct ref *from, struct ref *to, int device)
{
    bool ok;

    DONE(lane_close(from->who, device, RECORD_1));
    DONE(ref_record(from, device, RECORD_1));
    ok = ref_wait(to, !device, WAITING, WAIT_PLAIN, 0).error == 0;
    ok &= is_lane_blocked(to->who, !device, WAITING) && ref_is(to, false);
    DONE(lane_open(from->who, device, RECORD_1));
    ok &= lane_synchronize(to->who, !device, WAITING).error == 0 && ref_is(to, true);
    return ok;
}

START_TEST(direction_alternates_on_one_event)
{
    start_cast((unsigned)_i);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ref *from = &cast.ref[i % cast.n], *to = &cast.ref[(i + 1) % cast.n];

        cell(hand_over(from, to, (int)i / 3 % DEVICES), "turns on one event", "turn %u: %s to %s",
             i, from->name, to->name);
    }
    end_cast();
}
END_TEST

/*
 * The same, but no process looks in between: all turns are submitted first, as waits and records
 * behind each other in one stream of each process. The last turn is over when all are.
 */
START_TEST(turns_submitted_in_advance)
{
    struct ref *last = NULL;
    bool stood;

    start_cast((unsigned)_i);
    DONE(lane_close(0, 0, RECORD_1));
    DONE(ref_record(&cast.ref[0], 0, RECORD_1));
    for (unsigned i = 1; i <= ROUNDS; i++) {
        last = &cast.ref[i % cast.n];
        DONE(ref_wait(last, (int)i % DEVICES, WAITING, WAIT_PLAIN, 0));
        DONE(ref_record(last, (int)i % DEVICES, WAITING));
    }
    stood = is_lane_blocked(last->who, ROUNDS % DEVICES, WAITING) && ref_is(last, false);
    DONE(lane_open(0, 0, RECORD_1));
    cell(stood && lane_synchronize(last->who, ROUNDS % DEVICES, WAITING).error == 0,
         "turns submitted in advance", "%s has the last", last->name);
    for (unsigned i = 0; i < cast.n; i++)
        cell(ref_is(&cast.ref[i], true), "turns submitted in advance", "%s: QueryStatus",
             cast.ref[i].name);
    end_cast();
}
END_TEST

/* --- many records --- */

static void act_record_often(struct act *a)
{
    aclrtStream s = lane_stream(a->device, a->lane);

    for (int i = 0; i < a->number && a->error == 0; i++)
        a->error = aclrtRecordEvent(a->event, s);
}

static void record_often(struct ref *ref, int n)
{
    DONE(event_actor_ask(ref->who, (struct act){.fn = act_record_often,
                                                .event = ref->event,
                                                .device = 1,
                                                .lane = RECORD_2,
                                                .number = n}));
}

/*
 * A record stays pending while as many newer ones come and go as fit beside it. The newer ones do
 * not release the waiter for it. The waiter is released when the record is executed, even if other
 * records take its place many times before the waiter looks.
 */
static void outlast_records(struct ref *old, struct ref *busy, struct ref *waiter)
{
    struct act a;
    bool ok;

    DONE(lane_close(old->who, 0, RECORD_1));
    DONE(ref_record(old, 0, RECORD_1));
    ok = ref_synchronize_begin(waiter).value;
    DONE(ref_wait(waiter, 0, WAITING, WAIT_PLAIN, 0));
    record_often(busy, IPC_SLOTS - 1);
    DONE(ref_wait(waiter, 0, WAITING + 1, WAIT_PLAIN, 0));
    ok &= ref_is(waiter, true) && lane_synchronize(waiter->who, 0, WAITING + 1).error == 0;
    ok &= is_lane_blocked(waiter->who, 0, WAITING);
    cell(ok, "an old record among many", "of %s, newer ones of %s, %s waits", old->name, busy->name,
         waiter->name);
    DONE(lane_open(old->who, 0, RECORD_1));
    DONE(lane_synchronize(old->who, 0, RECORD_1));
    record_often(busy, 3 * IPC_SLOTS);
    a = ref_synchronize_end(waiter);
    cell(a.value && a.error == 0 && lane_synchronize(waiter->who, 0, WAITING).error == 0,
         "an old record among many, executed", "of %s, newer ones of %s, %s waits", old->name,
         busy->name, waiter->name);
}

START_TEST(old_record_among_many)
{
    start_cast((unsigned)_i);
    for (unsigned old = 0; old < cast.n; old++)
        for (unsigned busy = 0; busy < cast.n; busy++)
            for (unsigned waiter = 0; waiter < cast.n; waiter++)
                outlast_records(&cast.ref[old], &cast.ref[busy], &cast.ref[waiter]);
    end_cast();
}
END_TEST

/* --- limits --- */

/* The k-th handle of a process; after its last the first again. */
static struct ref *own_handle(unsigned who, unsigned k)
{
    struct ref *own[HANDLES_MAX];
    unsigned n = 0;

    for (unsigned i = 0; i < cast.n; i++)
        if (cast.ref[i].who == who)
            own[n++] = &cast.ref[i];
    return own[k % n];
}

/*
 * Every process, every form that takes a limit, either device; all at the same time, so that it
 * takes one second. The error goes to the stream that waited and is told once. The event, its
 * record and the waiters without a limit notice nothing.
 */
static void expire_waits(struct ref *recorder)
{
    uint64_t begun = now_ns();
    bool told;

    DONE(lane_close(recorder->who, 0, RECORD_1));
    DONE(ref_record(recorder, 0, RECORD_1));
    for (unsigned who = 0; who < cast.processes; who++)
        for (enum wait_form f = 0; f < WAIT_FORMS; f++)
            for (int d = 0; d < DEVICES; d++)
                DONE(ref_wait(own_handle(who, f + (unsigned)d), d, WAITING + (int)f, f, 1));
    for (unsigned who = 0; who < cast.processes; who++)
        for (enum wait_form f = WAIT_TIMEOUT; f < WAIT_FORMS; f++)
            for (int d = 0; d < DEVICES; d++) {
                told =
                    lane_synchronize(who, d, WAITING + (int)f).error == ACL_ERROR_RT_TASK_TIMEOUT;
                told &= now_ns() - begun >= 1000000000;
                told &= lane_synchronize(who, d, WAITING + (int)f).error == 0;
                cell(told, "limit of a stream wait", "of %s; process %u, %s on device %d",
                     recorder->name, who, wait_form_names[f], d);
            }
    for (unsigned i = 0; i < cast.n; i++) {
        cell(ref_is(&cast.ref[i], false), "limit of a stream wait: the event",
             "of %s, %s: QueryStatus", recorder->name, cast.ref[i].name);
        cell(ref_synchronize(&cast.ref[i], 20).error == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
             "limit of a synchronise", "of %s, %s", recorder->name, cast.ref[i].name);
    }
    for (unsigned who = 0; who < cast.processes; who++)
        cell(is_lane_blocked(who, 0, WAITING) && is_lane_blocked(who, 1, WAITING), "no limit",
             "of %s, process %u", recorder->name, who);
    DONE(lane_open(recorder->who, 0, RECORD_1));
    for (unsigned who = 0; who < cast.processes; who++)
        for (int d = 0; d < DEVICES; d++)
            cell(lane_synchronize(who, d, WAITING).error == 0, "no limit, released",
                 "of %s, process %u, device %d", recorder->name, who, d);
    for (unsigned i = 0; i < cast.n; i++)
        cell(ref_synchronize(&cast.ref[i], LIMIT_MS).error == 0 && ref_is(&cast.ref[i], true),
             "after the limit passed", "of %s, %s", recorder->name, cast.ref[i].name);
}

START_TEST(limits_are_kept)
{
    start_cast((unsigned)_i);
    expire_waits(&cast.ref[0]);
    if (cast.processes > 1)
        expire_waits(&cast.ref[cast.n - 1]);
    end_cast();
}
END_TEST

/* --- aclrtSynchronizeDevice --- */

#define TIMED_OUT ACL_ERROR_RT_STREAM_SYNC_TIMEOUT

/*
 * One stream stands still: `who`'s on `device`. Each process asks for each device; only that one
 * process and device have something to wait for.
 */
static void device_waits(unsigned who, int device, int lane)
{
    DONE(lane_close(who, device, lane));
    for (unsigned p = 0; p < cast.processes; p++)
        for (int d = 0; d < DEVICES; d++) {
            bool mine = p == who && d == device;
            aclError error = device_synchronize(p, d, mine ? BLOCKED_MS : LIMIT_MS).error;

            cell(error == (mine ? TIMED_OUT : 0), "SynchronizeDevice",
                 "process %u has work in stream %d of device %d; process %u asks for device %d",
                 who, lane, device, p, d);
        }
    DONE(lane_open(who, device, lane));
    cell(device_synchronize(who, device, LIMIT_MS).error == 0, "SynchronizeDevice, released",
         "process %u, stream %d of device %d", who, lane, device);
}

START_TEST(synchronise_device_is_about_one_process_and_device)
{
    start_cast((unsigned)_i);
    for (unsigned who = 0; who < cast.processes; who++)
        for (int d = 0; d < DEVICES; d++)
            for (int lane = RECORD_1; lane <= RECORD_2; lane++)
                device_waits(who, d, lane);
    end_cast();
}
END_TEST

/* A stream that waits for another process's record is work like any other. */
START_TEST(synchronise_device_waits_for_a_peers_record)
{
    struct ref *recorder, *waiter;

    start_cast((unsigned)_i);
    recorder = &cast.ref[0];
    waiter = &cast.ref[cast.n - 1];
    DONE(lane_close(recorder->who, 1, RECORD_1));
    DONE(ref_record(recorder, 1, RECORD_1));
    DONE(ref_wait(waiter, 0, WAITING, WAIT_PLAIN, 0));
    cell(device_synchronize(waiter->who, 0, BLOCKED_MS).error == TIMED_OUT,
         "SynchronizeDevice of a stream that waits", "%s waits for %s", waiter->name,
         recorder->name);
    DONE(lane_open(recorder->who, 1, RECORD_1));
    cell(device_synchronize(waiter->who, 0, LIMIT_MS).error == 0 &&
             lane_idle(waiter->who, 0, WAITING, false).value,
         "SynchronizeDevice of a stream that waits, released", "%s waits for %s", waiter->name,
         recorder->name);
    end_cast();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("IPC order");
    TCase *t = suite_case(s, "order", 120, NULL, npud_teardown);

    tcase_add_loop_test(t, wait_belongs_to_the_record_latest_at_the_call, 0, 4 * ACTORS_MAX);
    tcase_add_loop_test(t, wait_before_the_record_returns_without_waiting, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, direction_alternates_on_one_event, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, turns_submitted_in_advance, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, old_record_among_many, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, limits_are_kept, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, synchronise_device_is_about_one_process_and_device, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, synchronise_device_waits_for_a_peers_record, 1, ACTORS_MAX + 1);
    return s;
}

int main(void)
{
    return cells_run_suite(make_suite());
}
