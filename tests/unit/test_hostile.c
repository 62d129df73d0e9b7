/*
 * npud against clients that write what they like: the parts of it that once did endless or too much
 * work, or left others waiting.
 */
#include "daemon/core/ipc_record.h"
#include "npud.h"

#include <stdio.h>
#include <sys/mman.h>

#include "acl/error_codes/rt_error_codes.h"
#include "proto/shm/ipc_page.h"

/* --- IPC events --- */

struct probe {
    struct waiter waiter; /* first: fire() gets this */
    bool fired;
};

static void on_fire(struct waiter *waiter)
{
    ((struct probe *)waiter)->fired = true;
}

static struct session *session[2];
static struct ipc_open *open_of[2];
static struct ipc_page *page;

/* One event, open in two sessions. */
static void setup_event(void)
{
    npud_start(NULL);
    for (int i = 0; i < 2; i++)
        session[i] = npud_session(100 + i);
    ck_assert_int_eq(ipc_event_new(session[0], 0, &open_of[0]), 0);
    ck_assert_int_eq(ipc_event_export(open_of[0]), 0);
    ck_assert_int_eq(ipc_event_open(session[1], &open_of[0]->event->handle, &open_of[1]), 0);
    page = open_of[0]->event->page;
}

static void wait_for(struct probe *p, uint64_t number)
{
    p->waiter.fire = on_fire;
    waitlist_add(&open_of[0]->event->completed, &p->waiter, number);
}

static void forge_record(uint64_t number, uint32_t opener)
{
    atomic_store(&page->slot[number % IPC_SLOTS],
                 (uint64_t)(uint32_t)number << 32 | (uint64_t)opener << 16 | IPC_PENDING);
}

static uint32_t get_opener(int i)
{
    return open_of[i]->opener->slot.number;
}

/*
 * npud looked at the waiters in portions of 64. Each portion began one after the end of the portion
 * before.
 */
START_TEST(waits_for_the_last_of_all_numbers)
{
    static struct probe probes[64];

    for (unsigned i = 0; i < 64; i++) {
        uint64_t number = UINT64_MAX - i;

        forge_record(number, get_opener(0));
        wait_for(&probes[i], number);
    }
    ipc_open_free(open_of[1]);
    for (unsigned i = 0; i < 64; i++)
        waitlist_remove(&open_of[0]->event->completed, &probes[i].waiter);
}
END_TEST

/*
 * What an honest client has recorded stays pending when another one leaves: also after many laps,
 * and beside complete ones.
 */
START_TEST(leaving_spares_the_records_of_others)
{
    struct probe p = {0};
    uint64_t blocker, number = 0;
    int32_t pid;

    for (unsigned i = 0; i < (unsigned)_i; i++)
        number = ipc_take(page, get_opener((int)i % 2), IPC_DONE, &blocker);
    number = ipc_take(page, get_opener(0), IPC_PENDING, &blocker);
    wait_for(&p, number);
    ipc_open_free(open_of[1]);
    ck_assert_int_eq(ipc_state_of(page, number), IPC_PENDING);
    ck_assert(!p.fired);
    ck_assert(!ipc_record_failed(open_of[0]->event, number, &pid));
    ipc_record_complete(open_of[0], number);
    ck_assert(p.fired);
    ck_assert_int_eq(p.waiter.result, 0);
}
END_TEST

START_TEST(record_of_an_opener_that_is_not_there)
{
    struct probe p = {0};
    int32_t pid = 0;

    atomic_store(&page->latest, ipc_latest_make(1, 77, IPC_PENDING));
    wait_for(&p, 1);
    ck_assert_int_eq(ipc_state_of(page, 1), IPC_PENDING);
    ipc_open_free(open_of[1]);
    ck_assert(p.fired);
    ck_assert_int_eq(p.waiter.result, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    ck_assert_int_eq(p.waiter.pid, 101);
    ck_assert(ipc_record_failed(open_of[0]->event, 1, &pid));
    ck_assert_int_eq(ipc_state_of(page, 1), IPC_FAILED);
}
END_TEST

/* In the name of one that is: told from a true record by what else was written. */
START_TEST(nothing_stays_pending_in_a_damaged_page)
{
    struct probe probes[3] = {0};
    uint64_t far = UINT64_C(1) << 40;
    uint32_t before = atomic_load(&page->wake_seq);

    forge_record(5, get_opener(0));
    forge_record(far + 7, get_opener(0));
    wait_for(&probes[0], 5);
    wait_for(&probes[1], far + 7);
    wait_for(&probes[2], 12345); /* of no slot at all */
    atomic_store(&page->latest, ipc_latest_make(3, get_opener(0), IPC_DONE));
    ((volatile uint8_t *)page->slot)[100 * 8 + 4] = 0x3f;
    ipc_open_free(open_of[1]);
    for (unsigned i = 0; i < 3; i++)
        ck_assert(probes[i].fired);
    ck_assert_int_ne(ipc_state_of(page, 5), IPC_PENDING);
    ck_assert_int_ne(ipc_state_of(page, far + 7), IPC_PENDING);
    ck_assert_uint_ne(atomic_load(&page->wake_seq), before);
}
END_TEST

/* --- doorbells --- */

static struct session *ringer;

static void setup_ringer(void)
{
    npud_start(NULL);
    ringer = npud_session(200);
    ringer->state = SESSION_OPEN;
}

/* Has the engine told the control thread, which does nothing here? */
static bool is_to_end(void)
{
    bool sent;

    pthread_mutex_lock(&server.schedule.lock);
    sent = session_attach(ringer, 0)->fault.sent;
    pthread_mutex_unlock(&server.schedule.lock);
    return sent;
}

/* Ring once while the engine sleeps, and wait until it has heard that and sleeps again. */
static void ring_and_wait(void)
{
    struct attach *a = session_attach(ringer, 0);
    struct engine_stats before, now;

    do
        engine_get_stats(a->device->engine, &before);
    while (!before.asleep);
    eventfd_write(a->fd, 1);
    do
        engine_get_stats(a->device->engine, &now);
    while (!is_to_end() && (now.wakeups == before.wakeups || !now.asleep));
}

START_TEST(who_rings_for_nothing_is_ended)
{
    unsigned n;

    for (n = 0; n < 5000 && !is_to_end(); n++)
        ring_and_wait();
    ck_assert_uint_gt(n, 500);
    ck_assert_uint_lt(n, 5000);
}
END_TEST

START_TEST(who_has_tasks_may_ring_too_often)
{
    struct stream *s = npud_stream(ringer, 0);

    for (unsigned n = 0; n < 3000; n++) {
        if (n % 100 == 0)
            client_wait(s, client_submit(s, (struct task){.op = TASK_NOP}));
        ring_and_wait();
    }
    ck_assert(!is_to_end());
}
END_TEST

/* --- the log --- */

static unsigned lines_of(int log)
{
    char buf[65536];
    ssize_t size = pread(log, buf, sizeof(buf), 0);
    unsigned n = 0;

    for (ssize_t i = 0; i < size; i++)
        n += buf[i] == '\n';
    return n;
}

/*
 * Many sessions, each with its fault: as many lines as are good to have, and other users keep
 * theirs.
 */
START_TEST(a_user_cannot_fill_the_log)
{
    int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
    struct log_client one = {.uid = 1234};
    unsigned many;

    log_setup(LOG_WARNING);
    dup2(log, STDERR_FILENO);
    for (unsigned i = 0; i < 1000; i++) {
        struct log_client c = {.session = i, .uid = 4321};

        log_client_fault(&c, "fault %u", i);
        log_client_fault(&c, "again");
        log_client_limit(&c, "limit %u", i);
    }
    many = lines_of(log);
    log_client_fault(&one, "another user");
    log_client_fault(&one, "the same again");
    dup2(saved, STDERR_FILENO);
    ck_assert_uint_ge(many, 10);
    ck_assert_uint_le(many, 30);
    ck_assert_uint_eq(lines_of(log), many + 1);
    close(saved);
    close(log);
}
END_TEST

/* In UTF-8, Latin-1, or neither: a line has nothing that acts on a terminal, and no second line. */
START_TEST(names_reach_the_log_in_plain_characters)
{
    int log = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
    struct log_client client = {.session = 1, .uid = 1234};
    char text[4096] = "", many[1200];
    ssize_t n;

    log_setup(LOG_WARNING);
    dup2(log, STDERR_FILENO);
    log_client_fault(&client, "%s", "a\x1b[31m\n\xc2\x9b\x9b\x7f\xff\\x20 b");
    memset(many, 0x9b, sizeof(many));
    many[sizeof(many) - 1] = '\0';
    client = (struct log_client){.session = 2, .uid = 4321};
    log_client_fault(&client, "%s", many);
    dup2(saved, STDERR_FILENO);
    n = pread(log, text, sizeof(text) - 1, 0);
    ck_assert_int_gt(n, 1000);
    ck_assert_uint_eq(lines_of(log), 2);
    ck_assert_ptr_nonnull(strstr(text, ": a\\x1b[31m\\x0a\\xc2\\x9b\\x9b\\x7f\\xff\\x5cx20 b\n"));
    for (ssize_t i = 0; i < n; i++)
        ck_assert_msg(text[i] == '\n' || (text[i] >= ' ' && text[i] < 0x7f), "byte %zd", i);
    close(saved);
    close(log);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("hostile clients, npud's side");
    TCase *events = suite_case(s, "IPC events", 0, setup_event, npud_stop);
    TCase *bells = suite_case(s, "doorbells", 60, setup_ringer, npud_stop);
    TCase *logs = suite_case(s, "log", 0, NULL, NULL);

    tcase_add_test(events, waits_for_the_last_of_all_numbers);
    tcase_add_loop_test(events, leaving_spares_the_records_of_others, 0, 3);
    tcase_add_loop_test(events, leaving_spares_the_records_of_others, 1020, 1030);
    tcase_add_loop_test(events, leaving_spares_the_records_of_others, 2500, 2502);
    tcase_add_test(events, record_of_an_opener_that_is_not_there);
    tcase_add_test(events, nothing_stays_pending_in_a_damaged_page);
    tcase_add_test(bells, who_rings_for_nothing_is_ended);
    tcase_add_test(bells, who_has_tasks_may_ring_too_often);
    tcase_add_test(logs, a_user_cannot_fill_the_log);
    tcase_add_test(logs, names_reach_the_log_in_plain_characters);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
