/*
 * IPC events over the end of npud: openers, exporters, the events that linger, records that have
 * failed, and processes that outlive their session.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 * Runs long: 28 s.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "daemon/core/capability.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_failures.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/survivor.h"

static bool with_names; /* ids and secrets: another run has others */

/* --- how it is --- */

static void tell_opener(const struct ipc_event *ev, const struct ipc_opener *o)
{
    uint32_t i = o->slot.number;

    tell(" %u:%d%s%s%s", i, (int)o->pid, slot_live(o) ? " open" : "",
         o->set_aside ? " set aside" : "", ev->page->gone[i / 64] >> i % 64 & 1 ? " gone" : "");
}

static void tell_event(struct ipc_event *ev)
{
    const struct ipc_export *export;
    const struct ipc_open *open;
    int32_t pid;

    tell("event on device %u of %u, last exporter %d%s:", ev->device, (unsigned)ev->user->uid,
         (int)ev->last_exporter, ev->lingers ? " lingers" : "");
    if (with_names) {
        tell(" id %llu ", (unsigned long long)ev->id);
        for (size_t i = 0; i < sizeof(ev->handle); i++)
            tell("%02x", ((uint8_t *)&ev->handle)[i]);
    }
    tell("\n  openers:");
    for (uint32_t i = 0; i < ev->openers.end; i++) {
        const struct ipc_opener *o = slots_at(&ev->openers, i);

        if (o && o->event)
            tell_opener(ev, o);
    }
    tell("\n  open:");
    DL_FOREACH (ev->opens, open)
        tell(" %d/%u:%u=%d", (int)open->session->pid, open->slot.number,
             with_names ? slot_generation(open) : 0, open->state);
    tell("\n  exports:");
    DL_FOREACH (ev->exports, export)
        tell(" %d", (int)export->session->pid);
    tell("\n  records:");
    for (uint64_t n = 1; n <= ipc_latest_number(ev->page->latest) && n <= 8; n++) {
        pid = 0;
        tell(" %u", ipc_state_of(ev->page, n));
        if (ipc_record_failed(ev, n, &pid))
            tell("/%d", (int)pid);
    }
    tell(" failed up to %llu, %llu forgotten\n", (unsigned long long)ev->page->failed,
         (unsigned long long)ev->live->forgotten);
}

static void tell_all(void)
{
    const struct survivor *survivor;
    struct ipc_event *ev, *next;
    struct user *u, *other;

    HASH_ITER (hh, server.ipc->by_id, ev, next)
        tell_event(ev);
    HASH_ITER (hh, server.users.by_uid, u, other) {
        tell("%u:", (unsigned)u->uid);
        DL_FOREACH2 (u->linger, ev, linger_next)
            tell(" %llu", (unsigned long long)(with_names ? ev->id : ev->device));
        tell("\n");
    }
    DL_FOREACH (server.survivors, survivor)
        tell("survivor %d\n", (int)survivor->pid);
    tell("%u linger\n", server.ipc->lingering);
    tell_charges();
}

/* --- what the clients do --- */

/* The n-th event there is. */
static struct ipc_event *event_at(unsigned n)
{
    struct ipc_event *ev = server.ipc->by_id;

    for (; n > 0 && ev; n--)
        ev = ev->hh.next;
    return ev;
}

static struct ipc_open *open_of(pid_t pid, struct ipc_event *ev)
{
    struct ipc_open *open;

    DL_FOREACH (ev->opens, open)
        if (open->session->pid == pid)
            return open;
    return NULL;
}

static struct ipc_open *create(pid_t pid, uint32_t device, bool exported)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(session_of(pid), device, &open), 0);
    if (exported)
        ck_assert_int_eq(ipc_event_export(open), 0);
    kept_commit();
    return open;
}

static struct ipc_open *open_by_handle(pid_t pid, struct ipc_event *ev)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_open(session_of(pid), &ev->handle, &open), 0);
    kept_commit();
    return open;
}

static void close_open(struct ipc_open *open)
{
    ipc_open_free(open);
    kept_commit();
}

/* A record that no engine has executed. */
static uint64_t record_by(const struct ipc_open *open)
{
    uint64_t blocker,
        n = ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &blocker);

    ck_assert_uint_gt(n, 0);
    return n;
}

#define SECOND 2000001
#define THIRD  2000002

static const char *const settings[] = {"ipc.scope=any", "ipc.linger_max=8", NULL};

static pid_t first;

static void start_clients(void)
{
    restart_start(settings);
    first = getpid();
    connect_client_of(1000, first, -1);
    connect_client_of(1000, SECOND, -1);
    connect_client_of(1001, THIRD, -1);
}

/* --- all is as it was --- */

START_TEST(events_are_as_they_were)
{
    struct ipc_handle handle;
    struct ipc_event *ev;
    struct ipc_open *open;

    with_names = true;
    start_clients();
    for (unsigned i = 0; i < 12; i++) {
        open = create(i % 3 ? first : SECOND, i % 2, i % 4 != 3);
        if (i % 4 == 3)
            continue;
        close_open(open_by_handle(THIRD, open->event)); /* its number has a history */
        open_by_handle(SECOND, open->event);
        if (i % 4 == 1)
            ck_assert_int_eq(ipc_event_export(open_of(SECOND, open->event)), 0);
        for (unsigned k = 0; k < i % 3; k++)
            record_by(open);
    }
    /* Some linger, in another order than they were made. */
    for (unsigned i = 12; i-- > 6;) {
        ev = event_at(i);
        while (ev->opens && ev->opens->next)
            close_open(ev->opens);
        if (ev->exports)
            close_open(ev->opens);
    }
    kept_commit();
    for (unsigned i = 0; i < 3; i++)
        expect_same_after_restart(tell_all);
    /* The handle opens the event, for users that may, and numbers go on. */
    ev = server.users.by_uid->linger;
    ck_assert_ptr_nonnull(ev);
    handle = ev->handle;
    open_by_handle(THIRD, ev);
    handle.secret[3] ^= 1;
    handle.check = ipc_handle_check(&handle);
    ck_assert_int_eq(ipc_event_open(session_of(SECOND), &handle, &open), CAUSE_IPC_HANDLE);
    expect_same_after_restart(tell_all);
    ck_assert_uint_gt(create(first, 0, false)->event->id, 12);
    /* One more lingers, as the last one. */
    ev = event_at(0);
    while (ev->opens->next)
        close_open(ev->opens);
    close_open(ev->opens);
    expect_same_after_restart(tell_all);
    stop_all();
}
END_TEST

/* The scope and the limits of a user hold for what was made before. */
START_TEST(only_its_user_opens_it)
{
    static const char *const own[] = {"ipc.linger_max=8", NULL};
    struct ipc_open *open;
    uint64_t memory;

    restart_start(own);
    connect_client_of(1000, 1, -1);
    connect_client_of(1001, 2, -1);
    connect_client_of(1000, 3, -1);
    create(1, 0, true);
    memory = server.users.used[RESOURCE_TABLE_MEMORY];
    restart_npud();
    ck_assert_uint_eq(server.users.used[RESOURCE_TABLE_MEMORY], memory);
    ck_assert_int_eq(ipc_event_open(session_of(2), &event_at(0)->handle, &open),
                     CAUSE_IPC_EVENT_OF_OTHER_USER);
    open_by_handle(3, event_at(0));
    stop_all();
}
END_TEST

/* As many as a table has, and more: what was forgotten may have failed. */
START_TEST(failures_are_remembered)
{
    static const uint64_t counts[] = {1, 16, 17, 200, 5000};
    struct ipc_open *open;

    start_clients();
    with_names = true;
    for (unsigned i = 0; i < 5; i++) {
        open = create(first, 0, false);
        for (uint64_t n = 1; n <= counts[i]; n++)
            ipc_failure_remember(open->event, 3 * n, (int32_t)(1000 + n), n % 2);
    }
    expect_same_after_restart(tell_all);
    for (unsigned i = 0; i < 5; i++)
        for (uint64_t n = 1; n <= counts[i]; n++) {
            bool kept = counts[i] <= 4096 || 3 * n > event_at(i)->live->forgotten;
            int32_t pid = 0;

            ck_assert(ipc_record_failed(event_at(i), 3 * n, &pid));
            ck_assert(!kept || pid == (int32_t)(1000 + n));
            ck_assert(!kept || ipc_record_unsubmitted(event_at(i), 3 * n, &pid) == n % 2);
            ck_assert(ipc_record_failed(event_at(i), 3 * n + 1, &pid) ==
                      (3 * n + 1 <= event_at(i)->live->forgotten));
        }
    stop_all();
}
END_TEST

/* --- streams that wait --- */

#define CROWD 400 /* more than are let go in one step */

static bool is_parked(uint32_t slot)
{
    struct stream *s = slots_get(&session_of(first)->streams, slot);

    return stream_has_waited(s) && atomic_load(&s->ctrl->done) == 0;
}

/* A record that looks like one of this opener's to come. */
static void forge_pending(const struct ipc_open *open, uint64_t number)
{
    atomic_store(&open->event->page->slot[number % IPC_SLOTS],
                 number << 32 | (uint64_t)open->opener->slot.number << 16 | IPC_PENDING);
}

static void park_crowd(const struct ipc_open *open, uint64_t number)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        struct stream *s = npud_stream(session_of(first), 0);

        kept_commit();
        client_submit(s, (struct task){.op = TASK_IPC_WAIT,
                                       .object = open->slot.number,
                                       .generation = slot_generation(open),
                                       .ipc.number = number});
        AWAIT(is_parked(i));
    }
}

/*
 * An opener that leaves has damaged the page: what waits for a record that nobody has made fails,
 * also if npud ends before all of it was told. _i: was the opener's end certain by then?
 */
START_TEST(all_that_wait_on_a_damaged_page_fail)
{
    struct ipc_open *open;
    struct stream *s;

    start_clients();
    open = create(first, 0, true);
    open_by_handle(SECOND, open->event);
    record_by(open);
    forge_pending(open, 1 + IPC_SLOTS);
    park_crowd(open, 1 + IPC_SLOTS);
    atomic_store(&open->event->page->slot[7], UINT64_C(3) << 32 | 77 << 16 | IPC_PENDING);
    ipc_open_free(open_of(SECOND, open->event));
    ck_assert(waitlist_has_any(&open->event->completed));
    if (_i == 0)
        kept_commit();
    hang_up(SECOND);
    restart_npud();
    npud_turn();
    slots_foreach (&session_of(first)->streams, i, s) {
        AWAIT(atomic_load(&s->ctrl->done) == 1);
        ck_assert_int_eq(stream_error_pid(atomic_load(&s->ctrl->error)), SECOND);
    }
    stop_all();
}
END_TEST

/* --- steps that are cut short --- */

static void commit_step(void)
{
    kept_commit();
}

struct act {
    const char *what;
    void (*prepare)(void);
    void (*act)(void);  /* as the request is handled, or the job goes on */
    bool (*done)(void); /* the answer was made certain: it is not handled again */
};

static void prepare_one(void)
{
    record_by(create(first, 0, true));
}

static void act_create(void)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(session_of(SECOND), 0, &open), 0);
}

static bool is_created(void)
{
    return HASH_COUNT(server.ipc->by_id) == 2;
}

static void prepare_unexported(void)
{
    create(first, 0, false);
}

static void act_export(void)
{
    ck_assert_int_eq(ipc_event_export(open_of(first, event_at(0))), 0);
}

static void act_open(void)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_open(session_of(SECOND), &event_at(0)->handle, &open), 0);
}

static bool is_open_twice(void)
{
    return open_of(SECOND, event_at(0)) != NULL;
}

/* The number is that of a process before, which has left records. */
static void prepare_number_of_another(void)
{
    create(first, 0, true);
    record_by(open_by_handle(THIRD, event_at(0)));
    close_open(open_of(THIRD, event_at(0)));
}

/* It lingers, and the one who opens it is its user. */
static void prepare_lingering(void)
{
    prepare_number_of_another();
    close_open(open_of(first, event_at(0)));
    ck_assert_uint_eq(server.ipc->lingering, 1);
}

static void prepare_shared(void)
{
    struct ipc_open *mine = create(first, 0, true), *theirs = open_by_handle(SECOND, mine->event);

    for (unsigned i = 0; i < 20; i++)
        record_by(i % 2 ? mine : theirs);
}

static void act_close(void)
{
    ipc_open_free(open_of(SECOND, event_at(0)));
}

static bool is_closed(void)
{
    return !event_at(0) || !open_of(SECOND, event_at(0));
}

static void prepare_last_open(void)
{
    prepare_shared();
    close_open(open_of(first, event_at(0)));
}

/* As many linger as may. */
static void prepare_many_lingering(void)
{
    for (unsigned i = 0; i < 9; i++)
        create(first, 0, true);
    for (unsigned i = 0; i < 8; i++)
        close_open(event_at(i)->opens);
    open_by_handle(SECOND, event_at(8));
    close_open(event_at(8)->opens);
    ck_assert_uint_eq(server.ipc->lingering, 8);
}

static void act_evict(void)
{
    ipc_open_free(event_at(8) ? event_at(8)->opens : event_at(7)->opens);
}

static bool is_evicted(void)
{
    return HASH_COUNT(server.ipc->by_id) == 8;
}

/* The session ends: npud is in the midst of it whenever it comes back. */
static void act_turn(void)
{
    npud_turn();
}

static void prepare_death(void)
{
    prepare_shared();
    create(SECOND, 1, true);
    create(SECOND, 1, false);
    hang_up(SECOND);
}

static void prepare_exporter_death(void)
{
    prepare_shared();
    ck_assert_int_eq(ipc_event_export(open_of(SECOND, event_at(0))), 0);
    kept_commit();
    close_open(open_of(SECOND, event_at(0)));
    hang_up(first);
}

static void prepare_first_exporter_death(void)
{
    prepare_shared();
    ck_assert_int_eq(ipc_event_export(open_of(SECOND, event_at(0))), 0);
    kept_commit();
    hang_up(first);
}

static bool never(void)
{
    return false;
}

static const struct act steps[] = {
    {"create", prepare_one, act_create, is_created},
    {"export", prepare_unexported, act_export, never},
    {"open", prepare_one, act_open, is_open_twice},
    {"open with the number of another", prepare_number_of_another, act_open, is_open_twice},
    {"open what lingers", prepare_lingering, act_open, is_open_twice},
    {"close", prepare_shared, act_close, is_closed},
    {"close and linger", prepare_last_open, act_close, is_closed},
    {"evict", prepare_many_lingering, act_evict, is_evicted},
    {"death", prepare_death, act_turn, never},
    {"death of an exporter", prepare_exporter_death, act_turn, never},
    {"death of the first exporter", prepare_first_exporter_death, act_turn, never},
};
#define STEPS (sizeof(steps) / sizeof(steps[0]))

static void run_step(void *arg)
{
    const struct act *step = arg;

    step->act();
    commit_step();
}

/* Killed at each place, each time that it is passed; or not at all. */
static char *run_killed(const struct act *step, enum kill_place place, unsigned pass, bool *killed)
{
    char *text;

    start_clients();
    step->prepare();
    *killed = pass > 0 && restart_kill(place, pass, run_step, (void *)step);
    if (pass == 0)
        run_step((void *)step);
    else if (*killed && !step->done())
        run_step((void *)step);
    npud_turn();
    restart_npud(); /* what it holds is what its records say */
    text = text_of(tell_all);
    stop_all();
    return text;
}

START_TEST(a_step_is_done_once)
{
    const struct act *step = &steps[(unsigned)_i / KILL_PLACE_COUNT];
    enum kill_place place = (enum kill_place)((unsigned)_i % KILL_PLACE_COUNT);
    char *undisturbed, *text;
    bool killed = true;

    with_names = false;
    undisturbed = run_killed(step, place, 0, &killed);
    killed = true;
    for (unsigned pass = 1; killed; pass++) {
        text = run_killed(step, place, pass, &killed);
        if (!same_text(undisturbed, text))
            ck_abort_msg("%s, place %u, pass %u", step->what, place, pass);
        free(text);
    }
    free(undisturbed);
}
END_TEST

/* --- processes that outlive their session --- */

static pid_t survivor_pid;

static void end_session_alone(void *arg)
{
    (void)arg;
    hang_up(survivor_pid);
    npud_turn();
}

static void turn_once(void *arg)
{
    (void)arg;
    npud_turn();
}

/* Its number stays set aside, and what it records late fails when it has exited. */
static void outlive(enum kill_place at_end, enum kill_place at_exit, unsigned pass, bool *killed)
{
    struct ipc_opener *opener;
    struct ipc_open *open;
    struct ipc_event *ev;
    uint64_t early, late;
    uint32_t number;
    int32_t pid;
    int pidfd;

    start_clients();
    survivor_pid = start_process(&pidfd);
    connect_client_of(1001, survivor_pid, pidfd);
    create(first, 0, true);
    open = open_by_handle(survivor_pid, event_at(0));
    number = open->opener->slot.number;
    early = record_by(open);
    *killed = restart_kill(at_end, pass, end_session_alone, NULL);
    npud_turn();
    ck_assert_ptr_null(session_of(survivor_pid));
    expect_same_after_restart(tell_all);
    ev = event_at(0);
    ck_assert(ipc_record_failed(ev, early, &pid) && pid == survivor_pid);
    opener = slots_at(&ev->openers, number);
    ck_assert(opener->set_aside && !slot_live(opener));
    ck_assert_uint_eq(server.survivors->charge.amount, 1);
    ck_assert_uint_eq(ev->left->charge.amount, ipc_left_bytes());
    ck_assert_uint_ne(open_by_handle(THIRD, ev)->opener->slot.number, number);
    /* The process does not know that its session is gone. */
    late = ipc_take(ev->page, number, IPC_PENDING, &(uint64_t){0});
    npud_turn();
    ck_assert_int_eq(ipc_state_of(ev->page, late), IPC_PENDING);
    end_process(survivor_pid);
    *killed |= restart_kill(at_exit, pass, turn_once, NULL);
    npud_turn();
    ev = event_at(0);
    ck_assert_int_eq(ipc_state_of(ev->page, late), IPC_FAILED);
    ck_assert(ipc_record_failed(ev, late, &pid) && pid == survivor_pid);
    ck_assert_ptr_null(server.survivors);
    opener = slots_at(&ev->openers, number);
    ck_assert(!opener->set_aside);
    ck_assert_uint_eq(open_by_handle(SECOND, ev)->opener->slot.number, number);
    stop_all();
}

START_TEST(a_survivor_is_watched_again)
{
    bool killed = true;

    for (unsigned pass = 1; killed; pass++)
        outlive((enum kill_place)_i, (enum kill_place)_i, pass, &killed);
}
END_TEST

/* It exits while there is no npud. */
START_TEST(a_survivor_that_exits_meanwhile)
{
    struct ipc_open *open;
    int32_t pid;
    uint64_t n;
    int pidfd;

    start_clients();
    survivor_pid = start_process(&pidfd);
    connect_client_of(1001, survivor_pid, pidfd);
    create(first, 0, true);
    open = open_by_handle(survivor_pid, event_at(0));
    end_session_alone(NULL);
    n = ipc_take(event_at(0)->page, 1, IPC_PENDING, &(uint64_t){0});
    ck_assert_ptr_nonnull(open);
    end_process(survivor_pid);
    restart_npud();
    npud_turn();
    ck_assert_int_eq(ipc_state_of(event_at(0)->page, n), IPC_FAILED);
    ck_assert(ipc_record_failed(event_at(0), n, &pid) && pid == survivor_pid);
    ck_assert_ptr_null(server.survivors);
    stop_all();
}
END_TEST

/* --- the page, which is the clients' to write while npud is away --- */

START_TEST(words_of_npud_are_stored_again)
{
    struct ipc_event *ev;
    struct ipc_open *open;
    uint32_t seq;
    uint64_t n;

    start_clients();
    create(first, 0, true);
    open = open_by_handle(SECOND, event_at(0));
    n = record_by(open);
    close_open(open);
    ev = event_at(0);
    seq = ev->page->wake_seq;
    memset((void *)ev->page->gone, 0, sizeof(ev->page->gone));
    ev->page->gone[0] = 1; /* the one that is there */
    ev->page->failed = 0;
    restart_npud();
    ev = event_at(0);
    ck_assert_uint_eq(ev->page->gone[0], 2);
    ck_assert_uint_eq(ev->page->failed, n);
    ck_assert_uint_ne(ev->page->wake_seq, seq);
    stop_all();
}
END_TEST

/* A failure that was remembered, and not told in the page: which one of both it is to be. */
START_TEST(half_a_failure_is_finished)
{
    struct ipc_open *open;
    uint64_t n[3];
    bool waiters;
    int32_t pid;

    start_clients();
    open = create(first, 0, true);
    for (unsigned i = 0; i < 3; i++)
        n[i] = record_by(open);
    ipc_failure_remember(open->event, n[0], 7, true);
    ipc_failure_remember(open->event, n[1], 7, true);
    ck_assert(ipc_complete(open->event->page, n[1], 0, IPC_DONE, &waiters));
    restart_npud();
    open = open_of(first, event_at(0));
    ck_assert_int_eq(ipc_state_of(open->event->page, n[0]), IPC_FAILED);
    ck_assert(ipc_record_unsubmitted(open->event, n[0], &pid) && pid == 7);
    ck_assert(!ipc_record_failed(open->event, n[1], &pid));
    ck_assert_int_eq(ipc_state_of(open->event->page, n[2]), IPC_PENDING);
    stop_all();
}
END_TEST

static void fail_many(void *arg)
{
    for (uint64_t n = 1; n <= 300; n++)
        ipc_failure_remember(event_at(0), n, 9, false);
    (void)arg;
}

static size_t write_nothing(const struct kept *kept, void *record)
{
    (void)kept;
    (void)record;
    return 0;
}

/* Cells of the larger table are found before those of the smaller one. */
static void take_large_cell(void)
{
    struct kept kept;

    ck_assert(kept_make(&kept, KEPT_GRANT, 1040, write_nothing));
    kept_commit();
    kept_drop(&kept);
    kept_commit();
}

/* A table grows outside of transactions. */
START_TEST(a_table_that_grows_is_there)
{
    static const enum kill_place places[] = {KILL_HERE_KEPT_FILLED, KILL_HERE_KEPT_GROWN};
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        int32_t pid;

        restart_start(settings);
        take_large_cell();
        connect_client_of(1000, first = getpid(), -1);
        create(first, 0, false);
        killed = restart_kill(places[_i], pass, fail_many, NULL);
        for (uint64_t n = 1; pass > 1 && n <= (pass == 2 ? 16 : 64); n++)
            ck_assert(ipc_record_failed(event_at(0), n, &pid) && pid == 9);
        fail_many(NULL);
        restart_npud();
        for (uint64_t n = 1; n <= 300; n++)
            ck_assert(ipc_record_failed(event_at(0), n, &pid) && pid == 9);
        stop_all();
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: IPC events");
    TCase *t = suite_case(s, "events", 60, NULL, NULL);

    tcase_add_test(t, events_are_as_they_were);
    tcase_add_test(t, only_its_user_opens_it);
    tcase_add_test(t, failures_are_remembered);
    tcase_add_loop_test(t, all_that_wait_on_a_damaged_page_fail, 0, 2);
    tcase_add_test(t, words_of_npud_are_stored_again);
    tcase_add_test(t, half_a_failure_is_finished);
    tcase_add_loop_test(t, a_table_that_grows_is_there, 0, 2);
    t = suite_case(s, "steps", 120, NULL, NULL);
    tcase_add_loop_test(t, a_step_is_done_once, 0, (int)STEPS * KILL_PLACE_COUNT);
    t = suite_case(s, "survivors", 120, NULL, NULL);
    tcase_add_loop_test(t, a_survivor_is_watched_again, 0, KILL_PLACE_COUNT);
    tcase_add_test(t, a_survivor_that_exits_meanwhile);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
