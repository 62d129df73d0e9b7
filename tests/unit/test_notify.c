/*
 * A record of a notify is spent on one wait. If the stream that it has let go ends, or is aborted,
 * before its engine has looked at it, the record is for the next wait.
 */
#include "daemon/core/export_key.h"
#include "npud.h"
#include "proto/wire/packet.h"

static const char *const settings[] = {"engine.spin_us=0", NULL};

static struct session *recorder, *leaver, *other;
static struct notify_open *ours;
static struct stream *recording; /* on device 0 */

static struct notify_open *import_notify(struct session *s)
{
    char text[EXPORT_KEY_TEXT];
    struct notify_open *open;

    export_key_encode(&ours->notify->key, text);
    ck_assert_int_eq(notify_import(s, text, sizeof(text), &open), 0);
    return open;
}

static void start_sessions(void)
{
    npud_start(settings);
    recorder = npud_session(1);
    leaver = npud_session(2);
    other = npud_session(3);
    ck_assert_int_eq(notify_new(recorder, devices_get(server.devices, 1), false, &ours), 0);
    ck_assert_int_eq(notify_export(ours, true), 0);
    recording = npud_stream(recorder, 0);
}

static struct task task_of(unsigned op, const struct notify_open *open)
{
    return (struct task){
        .op = op, .object = open->slot.number, .generation = slot_generation(open)};
}

/* A stream of the session that waits, and stands on the list. */
static struct stream *wait_in(struct session *s, uint64_t *position)
{
    struct notify_open *open = import_notify(s);
    struct stream *stream = npud_stream(s, 1);
    uint32_t n = atomic_load(&ours->notify->waiting.n);

    *position = client_submit(stream, task_of(TASK_NOTIFY_WAIT, open));
    AWAIT(atomic_load(&ours->notify->waiting.n) == n + 1);
    return stream;
}

/* Executed by device 0, while the engine of device 1 is kept from what is let go. */
static void record_beside(void)
{
    client_wait(recording, client_submit(recording, task_of(TASK_NOTIFY_RECORD, ours)));
    ck_assert_uint_eq(notify_value(ours->notify), 0);
}

static void expect_passed(struct stream *s, uint64_t position)
{
    client_wait(s, position);
    ck_assert(atomic_load(&s->ctrl->error) == 0);
    ck_assert_uint_eq(notify_value(ours->notify), 0);
}

/*
 * As the end of a session does it: the engine forgets the stream. No other stream waits: the bit is
 * set again.
 */
START_TEST(spent_on_a_dead_waiter)
{
    struct engine *engine = devices_get(server.devices, 1)->engine;
    uint64_t position;
    struct stream *doomed = wait_in(leaver, &position), *next;

    engine_lock(engine);
    record_beside();
    ck_assert(doomed->in_inbox && notify_has_taken(doomed));
    engine_forget(engine, doomed);
    ck_assert_uint_eq(notify_value(ours->notify), 1);
    engine_unlock(engine);
    session_free(leaver);
    next = npud_stream(other, 1);
    expect_passed(next, client_submit(next, task_of(TASK_NOTIFY_WAIT, import_notify(other))));
}
END_TEST

/* Another stream waits already: it goes on. */
START_TEST(handed_on_to_the_next_waiter)
{
    struct engine *engine = devices_get(server.devices, 1)->engine;
    uint64_t first, second;
    struct stream *doomed = wait_in(leaver, &first), *next = wait_in(other, &second);

    engine_lock(engine);
    record_beside();
    ck_assert(notify_has_taken(doomed) && !notify_has_taken(next));
    engine_forget(engine, doomed);
    ck_assert(notify_has_taken(next));
    engine_unlock(engine);
    session_free(leaver);
    expect_passed(next, second);
}
END_TEST

/*
 * Each pid costs npud system calls: a request has a limit, also when it names the same process
 * again and again.
 */
START_TEST(a_request_names_few_processes)
{
    int32_t pids[NOTIFY_PIDS_REQUEST + 1];
    struct notify_open *open;

    for (size_t i = 0; i <= NOTIFY_PIDS_REQUEST; i++)
        pids[i] = getpid();
    ck_assert_int_eq(notify_new(recorder, devices_get(server.devices, 0), false, &open), 0);
    ck_assert_int_eq(notify_export(open, false), 0);
    ck_assert_int_eq(notify_allow(open, pids, NOTIFY_PIDS_REQUEST + 1), CAUSE_IMPORTERS_REQUEST);
    ck_assert_uint_eq(open->notify->importers.n, 0);
    ck_assert_int_eq(notify_allow(open, pids, NOTIFY_PIDS_REQUEST), 0);
    ck_assert_uint_eq(open->notify->importers.n, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("notify");
    TCase *c = suite_case(s, "notify", 60, start_sessions, npud_stop);

    tcase_add_test(c, spent_on_a_dead_waiter);
    tcase_add_test(c, handed_on_to_the_next_waiter);
    tcase_add_test(c, a_request_names_few_processes);
    return run_suite(s);
}
