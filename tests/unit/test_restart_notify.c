/*
 * Notifies over the end of npud: npud ends at each place between two stores of a task, or of a step
 * of the control thread, and all is as in an npud that lives. The engines have no thread here; each
 * turn is a call.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 * Runs long: 19 s.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "acl/acl_rt.h"
#include "daemon/core/notify.h"
#include "daemon/core/stream_abort.h"
#include "proto/wire/packet.h"
#include "tests/unit/restart_acts.h"

#define FIRST  2000000 /* has made the notify, or the counter */
#define SECOND 2000001
#define THIRD  2000002
#define TURNS  60
#define CROWD  80 /* more waits than a step looks at */

static bool with_names;

/* --- how it is --- */

static void tell_stream(struct stream *s)
{
    uint64_t error = client_error(s);

    tell("  %u: %llu done, error %d of %d%s\n", s->slot.number,
         (unsigned long long)(atomic_load(&s->ctrl->done) - s->live->first),
         stream_error_code(error), stream_error_pid(error), s->waiting_on ? " waits" : "");
}

static void tell_notify(struct notify *n)
{
    const struct notify_open *open;

    tell("%s on device %u: value %u, failed %d, %u wait%s%s%s%s, of %d:",
         n->counts ? "counter" : "notify", n->device->index, notify_value(n),
         (int)n->live->failed_pid, n->waiting.n, n->live->looking ? ", looking" : "",
         n->live->failing           ? ", failing"
         : n->live->deserted_before ? ", deserted"
                                    : "",
         n->exported ? ", exported" : "", n->importers.any_pid ? " to any" : "",
         n->creator ? (int)n->creator->session->pid : 0);
    DL_FOREACH (n->opens, open)
        tell(" %d/%u", (int)open->session->pid, open->slot.number);
    for (uint32_t i = 0; i < n->importers.n; i++)
        tell(", pid %d%s", n->importers.list[i].pid, n->importers.list[i].process ? " known" : "");
    tell("\n");
    if (!with_names)
        return;
    tell("  number %llu, id %u, ", (unsigned long long)n->number, n->id->number);
    for (size_t i = 0; n->exported && i < sizeof(n->key); i++)
        tell("%02x", ((uint8_t *)&n->key)[i]);
    DL_FOREACH (n->opens, open)
        tell(" %u", slot_generation(open));
    tell("\n");
}

static void tell_all(void)
{
    struct notify_open *open;
    struct session *session;
    struct stream *s;

    DL_FOREACH (server.sessions, session) {
        tell("session of %d, %u notifies, %u streams\n", (int)session->pid, session->notifies.live,
             session->streams.live);
        slots_foreach (&session->streams, i, s)
            tell_stream(s);
        slots_foreach (&session->notifies, i, open)
            if (open->notify->opens == open)
                tell_notify(open->notify);
    }
    for (uint32_t i = 0; i < server.devices->n; i++)
        tell("device %u: %u notifies\n", i, server.devices->device[i].notify_ids.live);
    tell("%u exported\n", HASH_COUNT(server.notifies->by_number));
    tell_charges();
}

/* --- what the clients do --- */

static struct notify_open *open_in(pid_t pid, uint32_t slot)
{
    struct notify_open *open = slots_get(&session_of(pid)->notifies, slot);

    ck_assert_ptr_nonnull(open);
    return open;
}

static struct notify_open *import_by(pid_t pid)
{
    struct notify_open *open;
    char text[EXPORT_KEY_TEXT];

    export_key_encode(&open_in(FIRST, 0)->notify->key, text);
    ck_assert_int_eq(notify_import(session_of(pid), text, sizeof(text), &open), 0);
    return open;
}

static struct task task_in(pid_t pid, uint8_t op)
{
    const struct notify_open *open = open_in(pid, 0);

    return (struct task){
        .op = op, .object = open->slot.number, .generation = slot_generation(open)};
}

static void submit(pid_t pid, uint32_t slot, uint8_t op)
{
    client_submit(stream_in(pid, slot), task_in(pid, op));
}

static void submit_count(pid_t pid, uint32_t slot, uint8_t op, uint8_t mode, uint32_t value,
                         bool clear)
{
    struct task t = task_in(pid, op);

    t.notify.mode = mode;
    t.notify.value = value;
    t.notify.clear = clear;
    client_submit(stream_in(pid, slot), t);
}

/* All that there is to do. */
static void act_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        turn_engines(TURNS);
        npud_turn();
    }
}

/* Three sessions that have a notify; the first with three streams, the others with two. */
static void start_clients(void)
{
    static const pid_t pids[] = {FIRST, SECOND, THIRD};
    struct notify_open *open;

    start_two_devices();
    for (unsigned i = 0; i < 3; i++) {
        connect_client_of(1000 + i / 2, pids[i], -1);
        for (unsigned k = 0; k < (i ? 2 : 3); k++)
            npud_stream(session_of(pids[i]), (i + k) % 2);
    }
    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 1), false, &open),
                     0);
    ck_assert_int_eq(notify_export(open, true), 0);
    import_by(SECOND);
    import_by(THIRD);
    kept_commit();
}

/* A counter, and a crowd of streams. */
static void start_counter(void)
{
    struct notify_open *open;

    start_two_devices();
    connect_client_of(1000, FIRST, -1);
    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), true, &open), 0);
    for (unsigned i = 0; i < CROWD + 2; i++)
        npud_stream(session_of(FIRST), i % 2);
    kept_commit();
}

/* A notify that one session has made, with a crowd of streams, and another one has imported. */
static void start_crowd(void)
{
    struct notify_open *open;

    start_two_devices();
    connect_client_of(1000, FIRST, -1);
    connect_client_of(1000, SECOND, -1);
    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), false, &open),
                     0);
    ck_assert_int_eq(notify_export(open, true), 0);
    import_by(SECOND);
    for (unsigned i = 0; i <= 2 * CROWD; i++)
        npud_stream(session_of(FIRST), i % 2);
    kept_commit();
}

/* --- the objects are as they were --- */

START_TEST(notifies_are_as_they_were)
{
    struct notify_open *open;
    int32_t pids[NOTIFY_PIDS_REQUEST];
    char text[EXPORT_KEY_TEXT];

    with_names = true;
    start_clients();
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(
            notify_new(session_of(SECOND), devices_get(server.devices, i % 2), i % 3 == 0, &open),
            0);
        if (i % 3 == 1)
            ck_assert_int_eq(notify_export(open, i % 2), 0);
        if (i % 3 == 1)
            for (int32_t k = 0; k < (int32_t)(8 * i); k++)
                ck_assert_int_eq(notify_allow(open, &(int32_t){k + 4000000}, 1), 0);
        if (i % 5 == 4)
            notify_open_free(open);
    }
    kept_commit();
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
    act_turns();
    for (unsigned i = 0; i < 3; i++)
        expect_same_after_restart(tell_all);
    ck_assert_uint_eq(notify_value(open_in(FIRST, 0)->notify), 1);
    /* Numbers go on, and the key still opens it. */
    import_by(THIRD);
    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), false, &open),
                     0);
    ck_assert_uint_gt(open->notify->number, 21);
    /* Nobody has the key of the next one. */
    for (unsigned i = 0; i < NOTIFY_PIDS_REQUEST; i++)
        pids[i] = (int32_t)i + 5000000;
    ck_assert_int_eq(notify_export(open, false), 0);
    ck_assert_int_eq(notify_allow(open, pids, NOTIFY_PIDS_REQUEST), 0);
    kept_commit();
    expect_same_after_restart(tell_all);
    open = slots_get(&session_of(FIRST)->notifies, 1);
    export_key_encode(&open->notify->key, text);
    ck_assert_int_eq(notify_import(session_of(THIRD), text, sizeof(text), &open),
                     CAUSE_NOTIFY_NOT_LISTED);
    stop_all();
}
END_TEST

/* A process on the list is that one, and not a later one with its pid. */
START_TEST(an_importer_is_the_same_process)
{
    struct notify_open *open, *mine;
    char text[EXPORT_KEY_TEXT];
    pid_t pid;
    int pidfd;

    start_two_devices();
    connect_client_of(1000, FIRST, -1);
    pid = start_process(&pidfd);
    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), false, &open),
                     0);
    ck_assert_int_eq(notify_export(open, false), 0);
    ck_assert_int_eq(notify_allow(open, &pid, 1), 0);
    kept_commit();
    restart_npud();
    connect_client_of(1000, pid, pidfd);
    open = open_in(FIRST, 0);
    ck_assert_uint_eq(open->notify->importers.list[0].process, pidfd_now(pid));
    export_key_encode(&open->notify->key, text);
    ck_assert_int_eq(notify_import(session_of(pid), text, sizeof(text), &mine), 0);
    open->notify->importers.list[0].process ^= 1;
    kept_touch(&open->notify->importers.kept);
    kept_commit();
    restart_npud();
    ck_assert_int_eq(notify_import(session_of(pid), text, sizeof(text), &mine),
                     CAUSE_NOTIFY_NOT_LISTED);
    end_process(pid);
    npud_turn();
    stop_all();
}
END_TEST

/* --- tasks and steps that are cut short --- */

static void wait_in_order(void)
{
    submit(SECOND, 0, TASK_NOTIFY_WAIT);
    turn_engines(5);
    submit(FIRST, 1, TASK_NOTIFY_WAIT);
    turn_engines(5);
    submit(THIRD, 0, TASK_NOTIFY_WAIT);
    turn_engines(5);
}

static void submit_record(void)
{
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
}

static void submit_two_records(void)
{
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
}

static void submit_five_records(void)
{
    for (unsigned i = 0; i < 5; i++)
        submit(i % 2 ? SECOND : FIRST, i % 2, TASK_NOTIFY_RECORD);
}

static void record_first(void)
{
    submit_record();
}

static void submit_wait(void)
{
    submit(SECOND, 0, TASK_NOTIFY_WAIT);
    submit(SECOND, 0, TASK_NOTIFY_WAIT);
}

static void submit_record_and_wait(void)
{
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
    submit(FIRST, 0, TASK_NOTIFY_WAIT);
    submit(FIRST, 0, TASK_NOTIFY_RECORD);
}

/* A delay keeps the records in their ring. */
static void hold_back(pid_t pid, uint32_t slot)
{
    client_submit(stream_in(pid, slot),
                  (struct task){.op = TASK_DELAY, .delay.ns = 1000 * NSEC_PER_SEC});
}

static void wait_and_queue_records(void)
{
    submit(FIRST, 1, TASK_NOTIFY_WAIT);
    turn_engines(5);
    submit(THIRD, 0, TASK_NOTIFY_WAIT);
    turn_engines(5);
    submit(THIRD, 1, TASK_NOTIFY_WAIT);
    turn_engines(5);
    hold_back(SECOND, 0);
    for (unsigned i = 0; i < 2; i++)
        submit(SECOND, 0, TASK_NOTIFY_RECORD);
    turn_engines(5);
}

static void queue_records(void)
{
    hold_back(SECOND, 0);
    for (unsigned i = 0; i < 2; i++)
        submit(SECOND, 0, TASK_NOTIFY_RECORD);
    turn_engines(5);
}

static void act_abort(void)
{
    stream_abort(stream_in(SECOND, 0), 507001, 4711);
    kept_commit();
    act_turns();
}

/* The request is handled again in any case: it knows its number. */
static bool never(void)
{
    return false;
}

static void hang_up_second(void)
{
    hang_up(SECOND);
}

static void act_destroy(void)
{
    notify_open_free(open_in(SECOND, 0));
    kept_commit();
    act_turns();
}

static bool is_destroyed(void)
{
    return session_of(SECOND)->notifies.live == 0;
}

/* The record is made while most of the waits are still to fail: it is for none of them. */
static void act_destroy_and_record(void)
{
    const struct stream *s = stream_in(FIRST, 2 * CROWD);

    if (!is_destroyed()) {
        notify_open_free(open_in(SECOND, 0));
        kept_commit();
    }
    if (atomic_load(&s->ctrl->tail) == s->live->first)
        submit(FIRST, 2 * CROWD, TASK_NOTIFY_RECORD);
    act_turns();
}

static void act_reset(void)
{
    ck_assert_int_eq(notify_reset(open_in(FIRST, 1), 7), 0);
    kept_commit();
    act_turns();
}

/* One that is not exported, with its bit set. */
static void prepare_reset(void)
{
    struct notify_open *open;
    struct task t;

    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), false, &open),
                     0);
    kept_commit();
    t = (struct task){
        .op = TASK_NOTIFY_RECORD, .object = open->slot.number, .generation = slot_generation(open)};
    client_submit(stream_in(FIRST, 0), t);
}

static void act_create(void)
{
    struct notify_open *open;

    ck_assert_int_eq(notify_new(session_of(FIRST), devices_get(server.devices, 0), false, &open),
                     0);
    kept_commit();
}

static bool is_created(void)
{
    return session_of(FIRST)->notifies.live == 2;
}

static void act_export(void)
{
    ck_assert_int_eq(notify_export(open_in(FIRST, 1), false), 0);
    kept_commit();
}

static bool is_exported(void)
{
    return open_in(FIRST, 1)->notify->exported;
}

static void prepare_allow(void)
{
    act_create();
    act_export();
    for (int32_t i = 0; i < 16; i++)
        ck_assert_int_eq(notify_allow(open_in(FIRST, 1), &(int32_t){4000000 + i}, 1), 0);
    kept_commit();
}

/* The record of the list grows. */
static void act_allow(void)
{
    const int32_t pids[] = {4000003, 4000100, 4000101};

    ck_assert_int_eq(notify_allow(open_in(FIRST, 1), pids, 3), 0);
    kept_commit();
}

static void act_import(void)
{
    import_by(SECOND);
    kept_commit();
}

static bool is_imported(void)
{
    return session_of(SECOND)->notifies.live == 2;
}

/* --- counters --- */

static void submit_adds(void)
{
    for (unsigned i = 0; i < 3; i++)
        submit_count(FIRST, i, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 5, false);
}

/* Half of the crowd waits for 1, half for 2. */
static void crowd_waits(void)
{
    for (unsigned i = 0; i < CROWD; i++)
        submit_count(FIRST, i, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE,
                     i < CROWD / 2 ? 2 : 1, false);
    turn_engines(TURNS);
}

static void crowd_waits_for_bit(void)
{
    for (unsigned i = 0; i < 2 * CROWD; i++)
        submit(FIRST, i, TASK_NOTIFY_WAIT);
    turn_engines(TURNS);
}

static void submit_one_two(void)
{
    submit_count(FIRST, CROWD, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1,
                 false);
    submit_count(FIRST, CROWD, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 2,
                 false);
}

/* The second record has its turn behind the first one's. */
static void submit_one_and_two(void)
{
    submit_count(FIRST, CROWD, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1,
                 false);
    turn_engines(1);
    submit_count(FIRST, CROWD + 1, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 2,
                 false);
}

/* Each clears the counter: one record lets one go, in the order in which they came. */
static void clearing_waits(void)
{
    for (unsigned i = 0; i < 40; i++) {
        submit_count(FIRST, i, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, 0, true);
        turn_engines(2);
    }
}

static void submit_ones(void)
{
    for (unsigned i = 0; i < 3; i++)
        submit_count(FIRST, CROWD, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1,
                     false);
}

static void count_is_one(void)
{
    submit_count(FIRST, CROWD, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1,
                 false);
}

static void submit_clearing_wait(void)
{
    submit_count(FIRST, 0, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 1, true);
    submit_count(FIRST, 0, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 1, true);
}

static void crowd_and_queued_record(void)
{
    crowd_waits();
    hold_back(FIRST, CROWD);
    submit_one_two();
    turn_engines(5);
}

static void act_abort_counting(void)
{
    stream_abort(stream_in(FIRST, CROWD), 507001, 4711);
    kept_commit();
    act_turns();
}

static const struct act acts[] = {
    {"record lets the first go", start_clients, wait_in_order, submit_record, NULL, never},
    {"records let two go", start_clients, wait_in_order, submit_two_records, NULL, never},
    {"more records than waits", start_clients, wait_in_order, submit_five_records, NULL, never},
    {"wait takes the bit", start_clients, record_first, submit_wait, NULL, never},
    {"record and wait in a stream", start_clients, NULL, submit_record_and_wait, NULL, never},
    {"abort fails waits", start_clients, wait_and_queue_records, NULL, act_abort, never},
    {"abort without waits", start_clients, queue_records, NULL, act_abort, never},
    {"death fails waits", start_clients, wait_and_queue_records, hang_up_second, NULL, never},
    {"death without waits", start_clients, queue_records, hang_up_second, NULL, never},
    {"death of a waiter", start_clients, wait_in_order, hang_up_second, NULL, never},
    {"the other one dies", start_crowd, crowd_waits_for_bit, hang_up_second, NULL, never},
    {"the other one destroys", start_crowd, crowd_waits_for_bit, NULL, act_destroy, is_destroyed},
    {"it destroys, and a record comes", start_crowd, crowd_waits_for_bit, NULL,
     act_destroy_and_record, never},
    {"destroy", start_clients, wait_in_order, NULL, act_destroy, is_destroyed},
    {"reset", start_clients, prepare_reset, NULL, act_reset, never},
    {"create", start_clients, NULL, NULL, act_create, is_created},
    {"export", start_clients, act_create, NULL, act_export, is_exported},
    {"allow", start_clients, prepare_allow, NULL, act_allow, never},
    {"import", start_clients, NULL, NULL, act_import, is_imported},
    {"adds", start_counter, NULL, submit_adds, NULL, never},
    {"a crowd looks", start_counter, crowd_waits, submit_one_two, NULL, never},
    {"a record has its turn", start_counter, crowd_waits, submit_one_and_two, NULL, never},
    {"waits that clear", start_counter, clearing_waits, submit_ones, NULL, never},
    {"a wait takes the count", start_counter, count_is_one, submit_clearing_wait, NULL, never},
    {"abort fails a crowd", start_counter, crowd_and_queued_record, NULL, act_abort_counting,
     never},
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static const struct stage stage = {act_turns, tell_all};

START_TEST(each_act_at_each_place)
{
    with_names = false;
    act_play_everywhere(&stage, &acts[_i]);
}
END_TEST

/* --- a bit that was spent on a wait which does not come to its end --- */

static void end_second(void *arg)
{
    (void)arg;
    hang_up(SECOND);
    npud_turn();
}

/* The record lets the wait go, npud ends, and so does the session. */
START_TEST(a_bit_is_given_back)
{
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        struct stream *s;

        start_clients();
        wait_in_order();
        s = stream_in(SECOND, 0);
        submit(FIRST, 0, TASK_NOTIFY_RECORD);
        /* A turn is over when its time is. */
        for (unsigned turns = 0; turns < 1000 && !notify_has_taken(s); turns++)
            engine_turn(devices_get(server.devices, 0)->engine);
        ck_assert(notify_has_taken(s));
        restart_npud();
        killed = restart_kill((enum kill_place)_i, pass, end_second, NULL);
        npud_turn(); /* before the engines: the wait goes on, if the session does */
        act_turns();
        /* It is for the next one. */
        ck_assert_uint_eq(atomic_load(&stream_in(FIRST, 1)->ctrl->done), 1);
        ck_assert_uint_eq(atomic_load(&stream_in(THIRD, 0)->ctrl->done), 0);
        ck_assert_uint_eq(notify_value(open_in(FIRST, 0)->notify), 0);
        stop_all();
    }
}
END_TEST

/* The time limit of a wait is what is left of it. */
START_TEST(a_wait_has_its_limit)
{
    struct task t;
    uint64_t limit;

    start_clients();
    t = task_in(SECOND, TASK_NOTIFY_WAIT);
    t.notify.timeout_ns = 50 * NSEC_PER_MSEC;
    client_submit(stream_in(SECOND, 0), t);
    turn_engines(5);
    limit = stream_in(SECOND, 0)->live->deadline;
    ck_assert_uint_ne(limit, 0);
    restart_npud();
    ck_assert_uint_eq(stream_in(SECOND, 0)->live->deadline, limit);
    AWAIT((turn_engines(1), atomic_load(&stream_in(SECOND, 0)->ctrl->done) == 1));
    ck_assert_uint_ge(clock_ns(), limit);
    ck_assert_int_eq(stream_error_code(client_error(stream_in(SECOND, 0))),
                     ACL_ERROR_RT_TASK_TIMEOUT);
    stop_all();
}
END_TEST

static void reset_by_request(void *arg)
{
    ck_assert_int_eq(notify_reset(open_in(FIRST, 1), *(const uint64_t *)arg), 0);
    kept_commit();
}

/* The request is handled again, and a record that came in between stays. */
START_TEST(a_request_resets_once)
{
    uint64_t request = 7, next = 8;

    start_clients();
    prepare_reset();
    act_turns();
    ck_assert_uint_eq(notify_value(open_in(FIRST, 1)->notify), 1);
    ck_assert(restart_kill(KILL_HERE_NOTIFY_RESET, 1, reset_by_request, &request));
    ck_assert_uint_eq(notify_value(open_in(FIRST, 1)->notify), 0);
    client_submit(stream_in(FIRST, 0),
                  (struct task){.op = TASK_NOTIFY_RECORD,
                                .object = 1,
                                .generation = slot_generation(open_in(FIRST, 1))});
    act_turns();
    reset_by_request(&request);
    ck_assert_uint_eq(notify_value(open_in(FIRST, 1)->notify), 1);
    reset_by_request(&next);
    ck_assert_uint_eq(notify_value(open_in(FIRST, 1)->notify), 0);
    stop_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: notifies");
    TCase *t = suite_case(s, "notifies", 300, NULL, NULL);

    tcase_add_test(t, notifies_are_as_they_were);
    tcase_add_test(t, an_importer_is_the_same_process);
    tcase_add_test(t, a_wait_has_its_limit);
    tcase_add_test(t, a_request_resets_once);
    tcase_add_loop_test(t, a_bit_is_given_back, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, each_act_at_each_place, 0, (int)ACTS);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
