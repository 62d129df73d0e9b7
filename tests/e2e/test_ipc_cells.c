/*
 * IPC events, for one, two and three processes: what each state of an IPC event answers, through
 * each handle, for each recorder. Where the cells are:
 *
 * | rows                                          | here                                        |
 * | --------------------------------------------- | ------------------------------------------- |
 * | no record yet                                 | NOT_RECORDED                                |
 * | latest record submitted, not executed         | ONE_PENDING, LATER_PENDING (an earlier one  |
 * |                                               | of the asker or another was executed and    |
 * |                                               | seen)                                       |
 * | latest record executed                        | ONE_EXECUTED, AT_ONCE (complete at the call)|
 * | several records pending                       | TWO_PENDING, FIRST_EXECUTED                 |
 * | earlier record pending, last one executed     | SECOND_EXECUTED                             |
 * | record and wait in one stream                 | wait_in_the_stream_of_the_record            |
 *
 * Columns: aclrtQueryEventStatus, aclrtSynchronizeEventWithTimeout, aclrtSynchronizeEvent (in a
 * thread, asleep until the record executes), the five forms of stream wait, each in a stream on
 * device 0 and one on device 1. The first record is made on device 0, the second on 0 and on 1.
 *
 * | more                                          | here                                        |
 * | --------------------------------------------- | ------------------------------------------- |
 * | functions that accept IPC events, or not      | function_accepts_ipc                        |
 * | all processes ask at the same time            | everybody_at_once                           |
 * | which record a wait belongs to, order, limits | test_ipc_order.c                            |
 * | handles, the order of destroying and leaving  | test_ipc_life.c                             |
 *
 * Skipped under TSan: the test asks one call after the other; the threads of npud and of the
 * library meet in the same ways in test_ipc_order, the model and the soak.
 * Runs long: 12 s.
 */
#include <stdio.h>

#include "cells.h"
#include "event_kinds.h"
#include "ipc_cast.h"

enum row {
    NOT_RECORDED,
    ONE_PENDING,
    ONE_EXECUTED,
    AT_ONCE,
    TWO_PENDING,
    FIRST_EXECUTED,
    SECOND_EXECUTED,
    LATER_PENDING,
    ROWS
};

static const struct {
    const char *name;
    unsigned records;
    bool complete;
} rows[ROWS] = {
    [NOT_RECORDED] = {"not recorded", 0, true},
    [ONE_PENDING] = {"pending", 1, false},
    [ONE_EXECUTED] = {"executed", 1, true},
    [AT_ONCE] = {"complete at the call", 1, true},
    [TWO_PENDING] = {"two pending", 2, false},
    [FIRST_EXECUTED] = {"first executed, second pending", 2, false},
    [SECOND_EXECUTED] = {"first pending, second executed", 2, true},
    [LATER_PENDING] = {"first executed and seen, second pending", 2, false},
};

/* One state of one event, reached for one asker. */
struct scene {
    enum row row;
    struct ref *first, *second, *asker;
    int device2;       /* of the second record; the first is on device 0 */
    bool held1, held2; /* the streams of the records stand still */
    char who[128];
};

static struct cast cast;

static void check_answer(struct scene *s, bool ok, const char *what)
{
    cell(ok, rows[s->row].name, "%s: %s", s->who, what);
}

/* --- reaching a state --- */

static void record_first(struct scene *s, bool held)
{
    s->held1 = held;
    if (held)
        DONE(lane_close(s->first->who, 0, RECORD_1));
    DONE(ref_record(s->first, 0, RECORD_1));
}

static void record_second(struct scene *s)
{
    s->held2 = true;
    DONE(lane_close(s->second->who, s->device2, RECORD_2));
    DONE(ref_record(s->second, s->device2, RECORD_2));
}

static void release_first(struct scene *s)
{
    if (!s->held1)
        return;
    s->held1 = false;
    DONE(lane_open(s->first->who, 0, RECORD_1));
    DONE(lane_synchronize(s->first->who, 0, RECORD_1));
}

static void release_second(struct scene *s)
{
    if (!s->held2)
        return;
    s->held2 = false;
    DONE(lane_open(s->second->who, s->device2, RECORD_2));
    DONE(lane_synchronize(s->second->who, s->device2, RECORD_2));
}

static void reach_row(struct scene *s)
{
    if (rows[s->row].records > 0)
        record_first(s, s->row != AT_ONCE);
    if (s->row == ONE_EXECUTED || s->row == LATER_PENDING)
        release_first(s);
    if (s->row == LATER_PENDING)
        DONE(ref_synchronize(s->asker, LIMIT_MS));
    if (rows[s->row].records == 2)
        record_second(s);
    if (s->row == FIRST_EXECUTED)
        release_first(s);
    if (s->row == SECOND_EXECUTED)
        release_second(s);
}

/* --- asking --- */

static void ask_synchronize(struct scene *s)
{
    bool complete = rows[s->row].complete;
    aclError error = ref_synchronize(s->asker, complete ? LIMIT_MS : BLOCKED_MS).error;

    check_answer(s, error == (complete ? 0 : ACL_ERROR_RT_EVENT_SYNC_TIMEOUT),
                 "SynchronizeWithTimeout");
}

/*
 * All forms of wait on both devices in one go: value has a bit for each. In the actor, because
 * asking it fifty times per scene is what these tests would spend their time on.
 */
#define WAITS          (DEVICES * WAIT_FORMS)
#define ALL_WAITS      ((1 << WAITS) - 1)
#define WAIT_BIT(d, f) (1 << ((d)*WAIT_FORMS + (int)(f)))

static void act_wait_all(struct act *a)
{
    for (int d = 0; d < DEVICES; d++)
        for (enum wait_form f = 0; f < WAIT_FORMS; f++)
            if (wait_by(f, lane_stream(d, WAITING + (int)f), a->event, LIMIT_S) == 0)
                a->value |= WAIT_BIT(d, f);
}

/* Which are at their end? number: after the engines have had their turns. */
static void act_idle_all(struct act *a)
{
    for (int d = 0; d < DEVICES; d++) {
        if (a->number)
            engine_turn(lane_stream(d, PROBE));
        for (enum wait_form f = 0; f < WAIT_FORMS; f++)
            if (idle(lane_stream(d, WAITING + (int)f)))
                a->value |= WAIT_BIT(d, f);
    }
}

/* Which come to their end, without an error? */
static void act_synchronize_all(struct act *a)
{
    for (int d = 0; d < DEVICES; d++)
        for (enum wait_form f = 0; f < WAIT_FORMS; f++)
            if (aclrtSynchronizeStreamWithTimeout(lane_stream(d, WAITING + (int)f), LIMIT_MS) == 0)
                a->value |= WAIT_BIT(d, f);
}

static int64_t act_for_asker(struct scene *s, void (*fn)(struct act *a), bool settled)
{
    return event_actor_ask(s->asker->who,
                           (struct act){.fn = fn, .event = s->asker->event, .number = settled})
        .value;
}

static void ask_waits(struct scene *s)
{
    int64_t ok = act_for_asker(s, act_wait_all, false);
    char what[80];

    if (s->row == NOT_RECORDED)
        ok &= act_for_asker(s, act_idle_all, false); /* nothing to wait for, nothing submitted */
    else if (rows[s->row].complete)
        ok &= act_for_asker(s, act_synchronize_all, false);
    else
        ok &= ~act_for_asker(s, act_idle_all, true);
    for (int d = 0; d < DEVICES; d++)
        for (enum wait_form f = 0; f < WAIT_FORMS; f++) {
            snprintf(what, sizeof(what), "%s on device %d", wait_form_names[f], d);
            check_answer(s, ok & WAIT_BIT(d, f), what);
        }
}

static bool waits_stand(struct scene *s)
{
    return act_for_asker(s, act_idle_all, true) == 0;
}

static bool waits_are_over(struct scene *s)
{
    return act_for_asker(s, act_synchronize_all, false) == ALL_WAITS;
}

/* The record comes to its end, the older one first: the older one must not release a waiter. */
static void ask_for_the_end(struct scene *s)
{
    struct act a = ref_synchronize_begin(s->asker);
    bool complete = rows[s->row].complete;

    if (complete)
        a = ref_synchronize_end(s->asker);
    check_answer(s, a.value == 1 && a.error == 0, "Synchronize");
    if (s->row == TWO_PENDING) {
        release_first(s);
        check_answer(s, waits_stand(s), "StreamWaits after the first record");
        check_answer(s, ref_is(s->asker, false), "QueryStatus after the first record");
    }
    release_second(s);
    release_first(s);
    if (!complete) {
        a = ref_synchronize_end(s->asker);
        check_answer(s, a.value == 1 && a.error == 0, "Synchronize, released");
        check_answer(s, waits_are_over(s), "StreamWaits, released");
    }
    check_answer(s, ref_is(s->asker, true), "QueryStatus in the end");
}

static void describe_scene(struct scene *s)
{
    static const char *const on[] = {"0", "1"};

    if (rows[s->row].records == 0)
        snprintf(s->who, sizeof(s->who), "%s asks", s->asker->name);
    else if (rows[s->row].records == 1)
        snprintf(s->who, sizeof(s->who), "of %s, %s asks", s->first->name, s->asker->name);
    else
        snprintf(s->who, sizeof(s->who), "of %s, of %s on device %s, %s asks", s->first->name,
                 s->second->name, on[s->device2], s->asker->name);
}

static void play_row(enum row row, unsigned first, unsigned second, unsigned asker, int device2)
{
    struct scene s = {.row = row, .device2 = device2};

    cast_open(&cast);
    s.first = &cast.ref[first];
    s.second = &cast.ref[second];
    s.asker = &cast.ref[asker];
    describe_scene(&s);
    reach_row(&s);
    check_answer(&s, ref_is(s.asker, rows[row].complete), "QueryStatus");
    ask_synchronize(&s);
    ask_waits(&s);
    ask_for_the_end(&s);
    cast_close(&cast, asker);
}

/* Every choice of the first recorder, the second recorder and its device, and the asker. */
static void play_all(unsigned processes, enum row row)
{
    cast_start(&cast, processes, NULL);
    for (unsigned first = 0; first < (rows[row].records > 0 ? cast.n : 1); first++)
        for (unsigned second = 0; second < (rows[row].records > 1 ? cast.n : 1); second++)
            for (unsigned asker = 0; asker < cast.n; asker++)
                for (int device2 = 0; device2 < (rows[row].records > 1 ? DEVICES : 1); device2++)
                    play_row(row, first, second, asker, device2);
    cells_expect_ok();
    cast_end(&cast);
}

START_TEST(state_answers)
{
    play_all((unsigned)_i / ROWS + 1, _i % ROWS);
}
END_TEST

/* --- record and wait in one stream --- */

static void wait_behind(struct ref *recorder, struct ref *waiter, int device, enum wait_form form)
{
    unsigned who = recorder->who;
    bool ok;

    DONE(lane_close(who, device, RECORD_1));
    DONE(ref_record(recorder, device, RECORD_1));
    ok = ref_wait(waiter, device, RECORD_1, form, LIMIT_S).error == 0;
    ok &= !lane_idle(who, device, RECORD_1, true).value;
    DONE(lane_open(who, device, RECORD_1));
    ok &= lane_synchronize(who, device, RECORD_1).error == 0;
    cell(ok, "record and wait in one stream", "%s records, %s: %s on device %d", recorder->name,
         waiter->name, wait_form_names[form], device);
}

START_TEST(wait_in_the_stream_of_the_record)
{
    cast_start(&cast, (unsigned)_i, NULL);
    cast_open(&cast);
    for (unsigned r = 0; r < cast.n; r++)
        for (unsigned w = 0; w < cast.n; w++)
            if (cast.ref[r].who == cast.ref[w].who)
                for (int device = 0; device < DEVICES; device++)
                    for (enum wait_form form = 0; form < WAIT_FORMS; form++)
                        wait_behind(&cast.ref[r], &cast.ref[w], device, form);
    cast_close(&cast, 0);
    cells_expect_ok();
    cast_end(&cast);
}
END_TEST

/* --- all processes at once --- */

/*
 * In each process a thread synchronises, and through each handle a stream waits on either device.
 */
static void all_wait_for(struct ref *recorder)
{
    bool slept[HANDLES_MAX] = {false}, stood[HANDLES_MAX][DEVICES];
    struct act a;

    DONE(lane_close(recorder->who, 0, RECORD_1));
    DONE(ref_record(recorder, 0, RECORD_1));
    for (unsigned i = 0; i < cast.n; i++) {
        if (i == 0 || cast.ref[i].who != cast.ref[i - 1].who)
            slept[i] = ref_synchronize_begin(&cast.ref[i]).value;
        for (int d = 0; d < DEVICES; d++)
            DONE(ref_wait(&cast.ref[i], d, WAITING + (int)i, WAIT_PLAIN, 0));
    }
    for (unsigned i = 0; i < cast.n; i++)
        for (int d = 0; d < DEVICES; d++)
            stood[i][d] = !lane_idle(cast.ref[i].who, d, WAITING + (int)i, true).value;
    DONE(lane_open(recorder->who, 0, RECORD_1));
    for (unsigned i = 0; i < cast.n; i++) {
        if (i == 0 || cast.ref[i].who != cast.ref[i - 1].who) {
            a = ref_synchronize_end(&cast.ref[i]);
            cell(slept[i] && a.value && a.error == 0, "everybody waits at once",
                 "of %s, %s: Synchronize", recorder->name, cast.ref[i].name);
        }
        for (int d = 0; d < DEVICES; d++)
            cell(stood[i][d] && lane_synchronize(cast.ref[i].who, d, WAITING + (int)i).error == 0,
                 "everybody waits at once", "of %s, %s: StreamWait on device %d", recorder->name,
                 cast.ref[i].name, d);
    }
}

START_TEST(everybody_at_once)
{
    cast_start(&cast, (unsigned)_i, NULL);
    cast_open(&cast);
    for (unsigned r = 0; r < cast.n; r++)
        all_wait_for(&cast.ref[r]);
    cast_close(&cast, 0);
    cells_expect_ok();
    cast_end(&cast);
}
END_TEST

/* --- which function accepts IPC events --- */

static void act_call(struct act *a)
{
    a->error = event_calls[a->number].call(a->event, lane_stream(a->device, SPARE));
}

static void call_by(int call, enum moment moment, unsigned recorder, unsigned caller)
{
    struct ref *ref, *by;
    struct act a;

    cast_open(&cast);
    ref = &cast.ref[recorder];
    by = &cast.ref[caller];
    if (moment == PENDING)
        DONE(lane_close(ref->who, 0, RECORD_1));
    if (moment != FRESH)
        DONE(ref_record(ref, 0, RECORD_1));
    a = event_actor_ask(by->who, (struct act){.fn = act_call, .number = call, .event = by->event});
    cell(a.error == event_calls[call].expected[IPC] && (a.error != 0) == (a.message[0] != 0),
         event_calls[call].name, "%s%s, %s calls",
         moment == FRESH     ? "not recorded"
         : moment == PENDING ? "pending, of "
                             : "executed, of ",
         moment == FRESH ? "" : ref->name, by->name);
    if (event_calls[call].call == event_calls[event_calls_n - 1].call)
        by->event = NULL; /* destroyed */
    if (moment == PENDING)
        DONE(lane_open(ref->who, 0, RECORD_1));
    DONE(lane_synchronize(by->who, 0, SPARE));
    DONE(lane_synchronize(ref->who, 0, RECORD_1));
    cast_close(&cast, caller);
}

/* For each recorder and each caller. */
START_TEST(function_accepts_ipc)
{
    cast_start(&cast, (unsigned)_i / 3 + 1, NULL);
    for (int call = 0; call < event_calls_n; call++) {
        enum moment moment = 1 << _i % 3;

        if (!(event_calls[call].when & moment))
            continue;
        for (unsigned recorder = 0; recorder < (moment == FRESH ? 1 : cast.n); recorder++)
            for (unsigned caller = 0; caller < cast.n; caller++)
                call_by(call, moment, recorder, caller);
    }
    cells_expect_ok();
    cast_end(&cast);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("IPC cells");
    TCase *t = suite_case(s, "tables", 120, NULL, npud_teardown);

    tcase_add_loop_test(t, state_answers, 0, ACTORS_MAX * ROWS);
    tcase_add_loop_test(t, wait_in_the_stream_of_the_record, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, everybody_at_once, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, function_accepts_ipc, 0, ACTORS_MAX * 3);
    return s;
}

int main(void)
{
    return cells_run_suite(make_suite());
}
