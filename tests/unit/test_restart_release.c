/*
 * Objects that are destroyed and still in use, and event descriptors that are to be written, over
 * the end of npud.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "daemon/control/event_fd.h"
#include "daemon/core/ipc_event.h"
#include "daemon/core/ipc_record.h"
#include "daemon/core/release.h"
#include "tests/unit/restart_steps.h"

#define FIRST  2000000
#define SECOND 2000001

static struct session *mine(void)
{
    return session_of(FIRST);
}

static struct stream *stream_at(uint32_t slot)
{
    struct stream *s = slots_get(&mine()->streams, slot);

    ck_assert_ptr_nonnull(s);
    return s;
}

static void tell_session(struct session *s)
{
    struct ipc_open *open;
    struct event_obj *ev;

    tell("session %d: %u streams, %u event descriptors, %u fences\n  events:", (int)s->pid,
         s->streams.live, s->n_event_fds, s->n_fences);
    slots_foreach (&s->events, i, ev)
        tell(" %u%s", i, ev->closing ? " closing" : "");
    tell("\n  IPC events:");
    slots_foreach (&s->ipc, i, open)
        tell(" %u=%d, %u pins", i, open->state, open->pins);
    tell("\n  written:");
    for (unsigned i = 0; i < EVENT_FDS_MAX / 64; i++)
        if (s->page->written[i] != 0)
            tell(" %u:%llx", i, (unsigned long long)s->page->written[i]);
    tell("\n");
}

static void tell_all(void)
{
    struct session *s;

    DL_FOREACH (server.sessions, s)
        tell_session(s);
    tell("%u IPC events\n", HASH_COUNT(server.ipc->by_id));
    tell_charges();
}

#define TURNS 20

static void act_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        turn_engines(TURNS);
        npud_turn();
    }
}

/*
 * Streams 0 and 1 wait for the level of event 0; what is behind that is not passed. Event 1 and IPC
 * event 0 are theirs, too; the second session has the IPC event open.
 */
static void start_clients(void)
{
    struct event_obj *ev;
    struct ipc_open *open;
    int fd;

    start_two_devices();
    connect_client_of(1000, FIRST, -1);
    connect_client_of(1001, SECOND, -1);
    for (uint32_t i = 0; i < 3; i++)
        npud_stream(mine(), i % 2);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(event_obj_new(mine(), 0, 0, &ev, &fd), 0);
    ck_assert_int_eq(ipc_event_new(mine(), 0, &open), 0);
    ck_assert_int_eq(ipc_event_export(open), 0);
    ck_assert_int_eq(ipc_event_open(session_of(SECOND), &open->event->handle, &open), 0);
    kept_commit();
    for (uint32_t i = 0; i < 2; i++) {
        ev = slots_get(&mine()->events, 0);
        client_submit(stream_at(i),
                      (struct task){.op = TASK_WAIT_LEVEL, .generation = slot_generation(ev)});
        client_submit(stream_at(i), (struct task){.op = TASK_NOP});
    }
    turn_engines(TURNS);
}

static void raise_level(void)
{
    struct event_obj *ev = slots_get(&mine()->events, 0);

    client_submit(stream_at(2), (struct task){.op = TASK_RECORD,
                                              .flags = TASK_RECORD_LEVEL,
                                              .generation = slot_generation(ev),
                                              .record.number = 1});
}

static const struct fence fences[] = {{0, 2}, {1, 2}};

static void destroy_event(void)
{
    ck_assert_int_eq(release_event(mine(), slots_get(&mine()->events, 1), fences, 2, false), 0);
    kept_commit();
}

static void close_ipc_event(void)
{
    ck_assert_int_eq(release_ipc_event(slots_get(&mine()->ipc, 0), NULL, 0, true), 0);
    kept_commit();
}

static void watch_position(uint32_t number, uint32_t stream, uint64_t position)
{
    const struct captured captured = {.stream = stream, .target = position};

    ck_assert_int_eq(event_fd_watch(mine(), number, &captured), 0);
    kept_commit();
}

static void watch_record(uint32_t number, uint64_t record)
{
    const struct captured captured = {.open = slots_get(&mine()->ipc, 0), .target = record};

    ck_assert_int_eq(event_fd_watch(mine(), number, &captured), 0);
    kept_commit();
}

/* Of the second session. */
static uint64_t record_pending(void)
{
    struct ipc_open *open = slots_get(&session_of(SECOND)->ipc, 0);

    return ipc_take(open->event->page, open->opener->slot.number, IPC_PENDING, &(uint64_t){0});
}

/* --- all is as it was, and goes on --- */

START_TEST(they_wait_again)
{
    start_clients();
    destroy_event();
    close_ipc_event();
    watch_position(3, 0, 1);
    watch_position(4, 1, 100); /* as far as it goes */
    for (unsigned i = 0; i < 3; i++)
        expect_same_after_restart(tell_all);
    ck_assert_uint_eq(mine()->n_fences, 4);
    ck_assert_uint_eq(mine()->n_event_fds, 2);
    raise_level();
    act_turns();
    ck_assert_uint_eq(mine()->n_fences, 0);
    ck_assert_uint_eq(mine()->events.live, 1);
    ck_assert_uint_eq(mine()->ipc.live, 0);
    ck_assert_uint_eq(mine()->page->written[0], 1 << 3 | 1 << 4);
    expect_same_after_restart(tell_all);
    stop_all();
}
END_TEST

/* It was closed, and is pinned by what waits for its record. */
START_TEST(a_pin_holds)
{
    uint64_t n;

    start_clients();
    n = record_pending();
    watch_record(9, n);
    ck_assert_int_eq(release_ipc_event(slots_get(&mine()->ipc, 0), NULL, 0, false), 0);
    kept_commit();
    for (unsigned i = 0; i < 3; i++)
        expect_same_after_restart(tell_all);
    ck_assert_uint_eq(mine()->ipc.live, 1);
    /* Its opener leaves while there is no npud. */
    hang_up(SECOND);
    restart_npud();
    act_turns();
    ck_assert_uint_eq(mine()->page->written[0], 1 << 9);
    ck_assert_uint_eq(mine()->ipc.live, 0);
    stop_all();
}
END_TEST

/* What was destroyed when nothing was in its way is gone. */
START_TEST(what_was_passed_is_gone)
{
    start_clients();
    ck_assert_int_eq(release_event(mine(), slots_get(&mine()->events, 1), NULL, 0, false), 0);
    kept_commit();
    expect_same_after_restart(tell_all);
    ck_assert_uint_eq(mine()->events.live, 1);
    stop_all();
}
END_TEST

/* --- steps that are cut short --- */

struct act {
    const char *what;
    void (*prepare)(void);
    void (*act)(void);
    bool (*done)(void);
};

static bool is_released(void)
{
    struct event_obj *ev = slots_get(&mine()->events, 1);

    return !ev || ev->closing;
}

static bool is_closing(void)
{
    struct ipc_open *open = slots_get(&mine()->ipc, 0);

    return !open || open->state != IPC_OPEN_USED;
}

static void act_watch(void)
{
    watch_position(3, 0, 2);
    watch_record(5, 1);
}

static bool is_watched(void)
{
    return false;
}

static void prepare_record(void)
{
    record_pending();
}

static void act_watch_once(void)
{
    if (mine()->n_event_fds == 0)
        watch_position(3, 0, 2);
    if (mine()->n_event_fds == 1)
        watch_record(5, 1);
}

static void prepare_all(void)
{
    record_pending();
    act_watch();
    destroy_event();
    close_ipc_event();
    raise_level();
}

static void prepare_death(void)
{
    prepare_all();
    hang_up(FIRST);
}

static void prepare_death_of_other(void)
{
    record_pending();
    act_watch();
    hang_up(SECOND);
}

static const struct act acts[] = {
    {"destroy", NULL, destroy_event, is_released},
    {"close", NULL, close_ipc_event, is_closing},
    {"watch", prepare_record, act_watch_once, is_watched},
    {"pass", prepare_all, act_turns, is_watched},
    {"death", prepare_death, npud_turn, is_watched},
    {"death of another", prepare_death_of_other, act_turns, is_watched},
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static void run_act(void *arg)
{
    ((const struct act *)arg)->act();
}

static char *run_killed(const struct act *act, enum kill_place place, unsigned pass, bool *killed)
{
    char *text;

    start_clients();
    if (act->prepare)
        act->prepare();
    *killed = pass > 0 && restart_kill(place, pass, run_act, (void *)act);
    if (pass == 0)
        act->act();
    else if (*killed && !act->done())
        act->act();
    act_turns();
    restart_npud();
    text = text_of(tell_all);
    stop_all();
    return text;
}

START_TEST(each_act_at_each_place)
{
    const struct act *act = &acts[_i];
    char *undisturbed, *text;
    unsigned kills = 0;
    bool killed;

    undisturbed = run_killed(act, 0, 0, &killed);
    for (unsigned place = 0; place < KILL_PLACE_COUNT; place++) {
        killed = true;
        for (unsigned pass = 1; killed; pass = pass < 6 ? pass + 1 : 2 * pass) {
            text = run_killed(act, (enum kill_place)place, pass, &killed);
            kills += killed;
            if (!same_text(undisturbed, text))
                ck_abort_msg("%s, place %u, pass %u", act->what, place, pass);
            free(text);
        }
    }
    ck_assert_uint_ge(kills, 3);
    free(undisturbed);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: releases");
    TCase *t = suite_case(s, "releases", 120, NULL, NULL);

    tcase_add_test(t, they_wait_again);
    tcase_add_test(t, a_pin_holds);
    tcase_add_test(t, what_was_passed_is_gone);
    tcase_add_loop_test(t, each_act_at_each_place, 0, (int)ACTS);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
