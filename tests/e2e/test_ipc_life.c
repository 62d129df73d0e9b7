/*
 * Handles of IPC events, destroyed in each order, and processes that leave (acl_npud.h and
 * libaclclient(7)), in one, two and three processes. Decisions where the reference is open:
 *
 * | case                                            | here                                   |
 * | ----------------------------------------------- | -------------------------------------- |
 * | damaged, forged, all-zero handle: 107000        | bad_handles                            |
 * | event gone (exporter left, evicted): 107017     | exporter_left..., oldest_go_first      |
 * | opening one's own handle; twice                 | handles_are_independent                |
 * | re-export by an opener: the same bytes          | export_names_the_event                 |
 * | creator destroys before the peer opens          | creator_destroys_before_the_peer_opens |
 * | creator destroys, or leaves, while others have  | creator_or_opener_leaves,              |
 * | it open                                         | handles_are_independent                |
 * | opener destroys, or leaves                      | the same                               |
 * | destroyed with own tasks pending                | destroyed_with_own_tasks_pending       |
 *
 * Skipped under TSan: the processes end one after the other; the threads of npud and of the
 * library meet in the same ways in test_ipc_order, the model and the soak.
 */
#include <stdio.h>
#include <string.h>

#include "cells.h"
#include "ipc_cast.h"
#include "proto/wire/ipc_handle.h"

#define PARAM ACL_ERROR_RT_PARAM_INVALID
#define GONE  ACL_ERROR_RT_INVALID_HANDLE

static struct cast cast;
static aclrtIpcEventHandle handle;

static void start_cast(unsigned processes)
{
    cast_start(&cast, processes, NULL);
}

static void end_cast(void)
{
    cast_close(&cast, 0);
    cells_expect_ok();
    cast_end(&cast);
}

/* --- handles --- */

/* Opening these bytes says so, and leaves a sentence and nothing else behind. */
static bool check_open(unsigned who, const void *bytes, aclError expected)
{
    aclrtIpcEventHandle h;
    struct ref ref;
    struct act a;

    memcpy(&h, bytes, sizeof(h));
    a = ref_open(who, 0, &h, &ref);
    if (a.error == 0)
        DONE(ref_destroy(&ref));
    return a.error == expected && (a.message[0] != 0) == (expected != 0);
}

static void open_damaged_handles(unsigned who)
{
    unsigned char bytes[sizeof(handle)];
    bool ok = true;

    for (unsigned bit = 0; bit < 8 * sizeof(handle); bit++) {
        memcpy(bytes, &handle, sizeof(bytes));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        ok &= check_open(who, bytes, PARAM);
    }
    cell(ok, "damaged handle, any bit", "process %u opens", who);
    memset(bytes, 0, sizeof(bytes));
    cell(check_open(who, bytes, PARAM), "handle of zeros", "process %u opens", who);
    memset(bytes, 0xff, sizeof(bytes));
    cell(check_open(who, bytes, PARAM), "handle of ones", "process %u opens", who);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    cell(check_open(who, bytes, PARAM), "random bytes", "process %u opens", who);
}

/* Put together with care: the check sum fits. */
static void open_forged_handles(unsigned who, uint64_t never_exported)
{
    static const char *const names[] = {"wrong secret",           "no secret",
                                        "event never exported",   "event never made",
                                        "the greatest event",     "event 0",
                                        "other device",           "device that does not exist",
                                        "another kind of object", "another version",
                                        "other reserved bytes"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct ipc_handle f;

        memcpy(&f, &handle, sizeof(f));
        switch (i) {
        case 0:
            f.secret[15] ^= 1;
            break;
        case 1:
            memset(f.secret, 0, sizeof(f.secret));
            break;
        case 2:
            f.object = never_exported;
            break;
        case 3:
            f.object += 1000;
            break;
        case 4:
            f.object = UINT64_MAX;
            break;
        case 5:
            f.object = 0;
            break;
        case 6:
            f.device ^= 1;
            break;
        case 7:
            f.device = UINT32_MAX;
            break;
        case 8:
            f.kind++;
            break;
        case 9:
            f.version++;
            break;
        default:
            f.reserved2 = 1;
            break;
        }
        f.check = ipc_handle_check(&f);
        cell(check_open(who, &f, PARAM), "forged handle", "%s; process %u opens", names[i], who);
    }
}

START_TEST(bad_handles)
{
    struct ref secretive;
    struct ipc_handle genuine;
    uint64_t next;

    start_cast((unsigned)_i);
    cast_open(&cast);
    DONE(ref_export(&cast.ref[0], &handle));
    memcpy(&genuine, &handle, sizeof(genuine));
    next = genuine.object + 1;
    DONE(ref_create(0, 0, &secretive)); /* has the next number */
    for (unsigned who = 0; who < cast.processes; who++) {
        open_damaged_handles(who);
        open_forged_handles(who, next);
        memcpy(&genuine, &handle, sizeof(genuine));
        genuine.instance ^= 1;
        genuine.check = ipc_handle_check(&genuine);
        cell(check_open(who, &genuine, ACL_ERROR_RT_PARAM_INVALID), "handle of another npud",
             "process %u opens", who);
        cell(check_open(who, &handle, 0), "genuine handle", "process %u opens", who);
    }
    DONE(ref_destroy(&secretive));
    end_cast();
}
END_TEST

START_TEST(export_names_the_event)
{
    aclrtIpcEventHandle again;
    struct ref other;

    start_cast((unsigned)_i);
    cast_open(&cast);
    DONE(ref_export(&cast.ref[0], &handle));
    DONE(ref_record(&cast.ref[0], 0, RECORD_1));
    for (unsigned i = 0; i < cast.n; i++) {
        memset(&again, 0x22, sizeof(again));
        DONE(ref_export(&cast.ref[i], &again));
        cell(memcmp(&handle, &again, sizeof(handle)) == 0, "IpcGetEventHandle, the same event",
             "%s exports", cast.ref[i].name);
    }
    DONE(ref_create(cast.processes - 1, 0, &other));
    DONE(ref_export(&other, &again));
    cell(memcmp(&handle, &again, sizeof(handle)) != 0, "IpcGetEventHandle, another event",
         "process %u exports", other.who);
    DONE(ref_destroy(&other));
    end_cast();
}
END_TEST

/* --- the order of destroying --- */

/* What recorder does, observer sees: neither is harmed. */
static bool check_usable(struct ref *recorder, struct ref *observer)
{
    bool ok;

    DONE(lane_close(recorder->who, 0, SPARE));
    DONE(ref_record(recorder, 0, SPARE));
    ok = ref_is(observer, false) && ref_is(recorder, false);
    ok &= ref_wait(observer, 1, SPARE, WAIT_PLAIN, 0).error == 0;
    ok &= !lane_idle(observer->who, 1, SPARE, true).value;
    DONE(lane_open(recorder->who, 0, SPARE));
    ok &= ref_synchronize(observer, LIMIT_MS).error == 0 && ref_is(observer, true);
    ok &= lane_synchronize(observer->who, 1, SPARE).error == 0;
    return ok;
}

/* All that are left, each with each. */
static void ask_survivors(const char *what, const char *gone)
{
    for (unsigned r = 0; r < cast.n; r++)
        for (unsigned o = 0; o < cast.n; o++)
            if (cast.ref[r].event && cast.ref[o].event)
                cell(check_usable(&cast.ref[r], &cast.ref[o]), what,
                     "%s went: %s records, %s looks", gone, cast.ref[r].name, cast.ref[o].name);
}

/* A handle that was destroyed is no handle; `name` stays for the table. */
static void destroy_handle(unsigned i)
{
    struct ref *ref = &cast.ref[i];

    cell(ref_destroy(ref).error == 0, "Destroy", "%s", ref->name);
    cell(ref_status(ref).error == GONE, "QueryStatus of a destroyed handle", "%s", ref->name);
    cell(ref_destroy(ref).error == GONE, "Destroy of a destroyed handle", "%s", ref->name);
    ref->event = NULL;
}

/* One's own handle, and any handle twice: each has a life of its own, whichever goes first. */
START_TEST(handles_are_independent)
{
    start_cast((unsigned)_i);
    for (unsigned first = 0; first < cast.n; first++) {
        cast_open(&cast);
        ask_survivors("all handles open", "nobody");
        for (unsigned k = 0; k + 1 < cast.n; k++) {
            unsigned i = (first + k) % cast.n;

            destroy_handle(i);
            ask_survivors("destroyed handle", cast.ref[i].name);
        }
        cast_close(&cast, 0);
    }
    end_cast();
}
END_TEST

/*
 * The handle is destroyed at once after its calls: its record, and its wait for a peer's record,
 * finish normally, and the waiters for its record see that.
 */
static void destroy_with_tasks(unsigned doomed, unsigned other)
{
    struct ref *d = &cast.ref[doomed], *o = &cast.ref[other];
    bool ok;

    DONE(lane_close(o->who, 0, RECORD_1));
    DONE(ref_record(o, 0, RECORD_1));
    DONE(ref_wait(d, 1, RECORD_2, WAIT_PLAIN, 0)); /* waits for it, and records behind it */
    DONE(ref_record(d, 1, RECORD_2));
    DONE(ref_wait(o, 0, WAITING, WAIT_PLAIN, 0));
    DONE(ref_destroy(d));
    d->event = NULL;
    ok = ref_is(o, false) && !lane_idle(d->who, 1, RECORD_2, true).value &&
         !lane_idle(o->who, 0, WAITING, true).value;
    cell(ok, "destroyed with own tasks pending", "%s, seen by %s", d->name, o->name);
    DONE(lane_open(o->who, 0, RECORD_1));
    ok = lane_synchronize(d->who, 1, RECORD_2).error == 0 &&
         lane_synchronize(o->who, 0, WAITING).error == 0 &&
         ref_synchronize(o, LIMIT_MS).error == 0 && ref_is(o, true);
    cell(ok, "destroyed with own tasks pending, released", "%s, seen by %s", d->name, o->name);
    DONE(lane_synchronize(o->who, 0, RECORD_1));
}

START_TEST(destroyed_with_own_tasks_pending)
{
    start_cast((unsigned)_i);
    for (unsigned doomed = 0; doomed < cast.n; doomed++)
        for (unsigned other = 0; other < cast.n; other++) {
            if (doomed == other)
                continue;
            cast_open(&cast);
            destroy_with_tasks(doomed, other);
            ask_survivors("after that", cast.ref[doomed].name);
            cast_close(&cast, 0);
        }
    end_cast();
}
END_TEST

/* --- the creator goes --- */

/* All processes but the creator's open it. */
static void open_by_others(unsigned processes)
{
    for (unsigned who = 1; who < processes; who++)
        cell(check_open(who, &handle, 0), "open after the creator destroyed", "process %u opens",
             who);
}

START_TEST(creator_destroys_before_the_peer_opens)
{
    struct ref creator, late;

    start_cast((unsigned)_i);
    DONE(ref_create(0, 0, &creator));
    DONE(ref_export(&creator, &handle));
    DONE(ref_record(&creator, 0, RECORD_1));
    DONE(ref_destroy(&creator));
    cell(npud_ledger().lingering == 1, "exported and destroyed: lingers", "creator");
    cell(check_open(0, &handle, 0), "open after the creator destroyed", "process 0 opens");
    open_by_others(cast.processes);
    cell(npud_ledger().lingering == 1, "closed again: lingers", "creator");
    DONE(ref_open(cast.processes - 1, 0, &handle, &late));
    cell(npud_ledger().lingering == 0, "opened: does not linger", "process %u", late.who);
    cell(ref_is(&late, true), "opened late: QueryStatus of the record made before", "process %u",
         late.who);
    cell(check_usable(&late, &late), "opened late: works", "process %u", late.who);
    DONE(ref_destroy(&late));
    end_cast();
}
END_TEST

/*
 * If a record is pending when its creator's handle is destroyed, a process that opens the event
 * later still sees the record.
 */
START_TEST(creator_destroys_with_its_record_pending)
{
    struct ref creator, late;

    start_cast((unsigned)_i);
    DONE(ref_create(0, 0, &creator));
    DONE(ref_export(&creator, &handle));
    DONE(lane_close(0, 0, RECORD_1));
    DONE(ref_record(&creator, 0, RECORD_1));
    DONE(ref_destroy(&creator));
    DONE(ref_open(cast.processes - 1, 1, &handle, &late));
    cell(ref_is(&late, false), "opened late: QueryStatus of a pending record", "process %u",
         late.who);
    DONE(ref_wait(&late, 1, WAITING, WAIT_PLAIN, 0));
    cell(!lane_idle(late.who, 1, WAITING, true).value, "opened late: StreamWait", "process %u",
         late.who);
    DONE(lane_open(0, 0, RECORD_1));
    cell(lane_synchronize(late.who, 1, WAITING).error == 0 &&
             ref_synchronize(&late, LIMIT_MS).error == 0,
         "opened late: released", "process %u", late.who);
    DONE(ref_destroy(&late));
    end_cast();
}
END_TEST

START_TEST(never_exported_event_does_not_linger)
{
    struct ref ref;

    start_cast(1);
    DONE(ref_create(0, 0, &ref));
    cell(npud_ledger().events == 1, "made", "creator");
    DONE(ref_destroy(&ref));
    cell(npud_ledger().lingering == 0 && npud_ledger().events == 0, "destroyed: gone", "creator");
    end_cast();
}
END_TEST

/* The exporter's session is over: no process can open the event any more. */
START_TEST(exporter_left)
{
    struct ref creator;

    start_cast((unsigned)_i);
    DONE(ref_create(0, 0, &creator));
    DONE(ref_export(&creator, &handle));
    if (_i == 3)
        DONE(ref_destroy(&creator));
    event_actor_end(0);
    for (unsigned who = 1; who < cast.processes; who++)
        cell(check_open(who, &handle, GONE), "exporter left", "process %u opens", who);
    end_cast();
}
END_TEST

/*
 * The event lives as long as a process has it open. Its exported handle ends with the session of
 * the exporter.
 */
START_TEST(exporter_left_while_it_is_open)
{
    struct ref creator, opener;

    start_cast((unsigned)_i);
    DONE(ref_create(0, 0, &creator));
    DONE(ref_export(&creator, &handle));
    DONE(ref_open(1, 0, &handle, &opener));
    event_actor_end(0);
    cell(check_usable(&opener, &opener), "exporter left, opened before: works", "process 1");
    for (unsigned who = 1; who < cast.processes; who++)
        cell(check_open(who, &handle, GONE), "exporter left, opened before", "process %u opens",
             who);
    DONE(ref_destroy(&opener));
    end_cast();
}
END_TEST

/* An opener that has exported the event as well keeps it openable. */
START_TEST(exporter_left_but_another_is_there)
{
    aclrtIpcEventHandle again;

    start_cast(3);
    cast_open(&cast);
    DONE(ref_export(&cast.ref[0], &handle));
    DONE(ref_export(&cast.ref[2], &again));
    event_actor_end(0);
    cast.ref[0].event = cast.ref[1].event = NULL;
    cell(check_open(2, &handle, 0), "creator left, opener exported too", "process 2 opens");
    cast_close(&cast, 0);
    cell(check_open(2, &handle, 0), "... and all handles are closed", "process 2 opens");
    event_actor_end(1);
    cell(check_open(2, &handle, GONE), "... and the opener left", "process 2 opens");
    end_cast();
}
END_TEST

/* Forget the handles of a process that has left. */
static void forget_handles(unsigned who)
{
    for (unsigned i = 0; i < cast.n; i++)
        if (cast.ref[i].who == who)
            cast.ref[i].event = NULL;
}

/* One process leaves, with handles and after a record that was executed. The others go on. */
static void let_process_leave(unsigned processes, unsigned who)
{
    struct ref *leaver;

    start_cast(processes);
    cast_open(&cast);
    leaver = &cast.ref[who == 0 ? 0 : 2 * who];
    DONE(ref_export(&cast.ref[0], &handle));
    for (unsigned i = 0; i < cast.n; i++)
        DONE(ref_record(&cast.ref[i], 0, RECORD_1));
    DONE(ref_record(leaver, 0, RECORD_1));
    DONE(ref_synchronize(leaver, LIMIT_MS));
    event_actor_end(who);
    forget_handles(who);
    for (unsigned i = 0; i < cast.n; i++)
        if (cast.ref[i].event)
            cell(ref_is(&cast.ref[i], true), "left after its record: QueryStatus", "%s went: %s",
                 leaver->name, cast.ref[i].name);
    ask_survivors("left the event open", leaver->name);
    /* Two processes have exported it: one of them is still there. */
    for (unsigned p = 0; p < processes; p++)
        if (p != who)
            cell(check_open(p, &handle, 0), "left the event open: IpcOpenEventHandle",
                 "%s went, process %u opens", leaver->name, p);
    end_cast();
}

START_TEST(creator_or_opener_leaves)
{
    static const struct {
        unsigned processes, who;
    } cases[] = {{2, 0}, {2, 1}, {3, 0}, {3, 1}, {3, 2}};

    let_process_leave(cases[_i].processes, cases[_i].who);
}
END_TEST

/* --- linger_max --- */

#define LINGER_MAX 3

/*
 * If more exported events are destroyed than fit, npud drops the oldest first. An event that a
 * process still has open does not count.
 */
START_TEST(oldest_go_first)
{
    static const char *const args[] = {"--set=ipc.linger_max=3", NULL};
    aclrtIpcEventHandle handles[LINGER_MAX + 2];
    struct ref ref[LINGER_MAX + 2], open;
    unsigned processes = (unsigned)_i, opener = processes - 1;

    cast_start(&cast, processes, args);
    for (unsigned i = 0; i < LINGER_MAX + 2; i++) {
        DONE(ref_create(0, 0, &ref[i]));
        DONE(ref_export(&ref[i], &handles[i]));
    }
    DONE(ref_open(opener, 0, &handles[0], &open)); /* stays open: does not linger */
    for (unsigned i = 0; i < LINGER_MAX + 2; i++)
        DONE(ref_destroy(&ref[i]));
    cell(npud_ledger().lingering == LINGER_MAX, "linger_max", "%u destroyed", LINGER_MAX + 2);
    cell(check_usable(&open, &open), "linger_max: what is open is not counted", "process %u",
         opener);
    cell(check_open(opener, &handles[1], GONE), "linger_max: the oldest is gone",
         "process %u opens", opener);
    DONE(ref_destroy(&open)); /* now 0 is the youngest, and 2 the oldest */
    cell(check_open(opener, &handles[2], GONE), "linger_max: then the next oldest",
         "process %u opens", opener);
    for (unsigned i = 3; i < LINGER_MAX + 2; i++)
        cell(check_open(opener, &handles[i], 0), "linger_max: younger ones are there",
             "process %u opens", opener);
    cell(check_open(opener, &handles[0], 0), "linger_max: what was closed last is there",
         "process %u opens", opener);
    cells_expect_ok();
    cast_end(&cast);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("IPC life");
    TCase *t = suite_case(s, "life", 120, NULL, npud_teardown);

    tcase_add_loop_test(t, bad_handles, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, export_names_the_event, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, handles_are_independent, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, destroyed_with_own_tasks_pending, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, creator_destroys_before_the_peer_opens, 1, ACTORS_MAX + 1);
    tcase_add_loop_test(t, creator_destroys_with_its_record_pending, 1, ACTORS_MAX + 1);
    tcase_add_test(t, never_exported_event_does_not_linger);
    tcase_add_loop_test(t, exporter_left, 2, ACTORS_MAX + 1);
    tcase_add_loop_test(t, exporter_left_while_it_is_open, 2, ACTORS_MAX + 1);
    tcase_add_test(t, exporter_left_but_another_is_there);
    tcase_add_loop_test(t, creator_or_opener_leaves, 0, 5);
    tcase_add_loop_test(t, oldest_go_first, 1, ACTORS_MAX + 1);
    return s;
}

int main(void)
{
    return cells_run_suite(make_suite());
}
