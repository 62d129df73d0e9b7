/*
 * Memory that is freed while work that has begun uses it: the work is done, or dropped, and then
 * the memory goes, over the end of npud at each place between two stores. The engines have no
 * thread here; each turn is a call.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/work.h"
#include "daemon/memory/export.h"
#include "tests/unit/memory_at.h"
#include "tests/unit/restart_acts.h"

#define OWNER    2000000
#define IMPORTER 2000001 /* of another user; it sees what was done */
#define BYTES    8192u   /* four slices of a reduction */
#define NUMBERS  (BYTES / sizeof(int32_t))
#define TURNS    60

enum { TARGET, SOURCE };

/* --- how it is --- */

static bool is_summed(void)
{
    const int32_t *n = memory_at(slots_get(&session_of(IMPORTER)->mems, 0), 0);
    bool summed = true;

    for (unsigned i = 0; i < NUMBERS; i++)
        summed = summed && n[i] == (int32_t)(1000 + i);
    return summed;
}

static void tell_all(void)
{
    struct session *session;
    struct stream *s;
    struct mem *m;

    DL_FOREACH (server.sessions, session) {
        tell("session of %d, %llu bytes\n", (int)session->pid, (unsigned long long)session->memory);
        slots_foreach (&session->streams, i, s)
            tell("  stream %u: %llu done, error %d\n", s->slot.number,
                 (unsigned long long)(atomic_load(&s->ctrl->done) - s->live->first),
                 stream_error_code(client_error(s)));
        slots_foreach (&session->mems, i, m)
            tell("  memory %u%s, %u works, %u hold it, charged to %u\n", m->slot.number,
                 m->freed ? ", freed" : "", atomic_load(&m->works), m->pages->n_holders,
                 (unsigned)m->pages->charge.user->uid);
    }
    tell("%llu used, %s\n", (unsigned long long)devices_get(server.devices, 0)->memory_used,
         is_summed() ? "summed" : "not summed");
    tell_charges();
}

static void act_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        turn_engines(TURNS);
        npud_turn();
    }
}

/* --- what the clients do --- */

static struct mem *mem_in(uint32_t slot)
{
    return slots_get(&session_of(OWNER)->mems, slot);
}

static void start_clients(void)
{
    const pid_t pids[] = {OWNER, IMPORTER};
    struct memory_export *export;
    struct mem *m;
    int32_t *n;

    start_two_devices();
    for (unsigned i = 0; i < 2; i++) {
        connect_client_of(1000 + i, pids[i], -1);
        for (unsigned k = 0; k < 3; k++)
            npud_stream(session_of(pids[i]), k % 2);
    }
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(allocation_new(session_of(OWNER), devices_get(server.devices, 0),
                                        MEM_DEVICE, BYTES, &m),
                         0);
    ck_assert_int_eq(memory_export_new(mem_in(TARGET), BYTES, true, true, &export), 0);
    ck_assert_int_eq(memory_export_import(session_of(IMPORTER),
                                          (struct export_name){.number = export->number}, &m),
                     0);
    n = memory_at(mem_in(TARGET), 0);
    for (unsigned i = 0; i < NUMBERS; i++)
        n[i] = 1000;
    n = memory_at(mem_in(SOURCE), 0);
    for (unsigned i = 0; i < NUMBERS; i++)
        n[i] = (int32_t)i;
    kept_commit();
}

static void submit_sum(void)
{
    const struct mem *target = mem_in(TARGET), *source = mem_in(SOURCE);

    client_submit(stream_in(OWNER, 0),
                  (struct task){.op = TASK_REDUCE,
                                .object = target->slot.number,
                                .generation = slot_generation(target),
                                .reduce = {.size = BYTES,
                                           .src = source->slot.number,
                                           .src_generation = slot_generation(source),
                                           .kind = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                                           .type = ACL_INT32}});
}

static bool has_freed(void)
{
    const struct mem *target = mem_in(TARGET), *source = mem_in(SOURCE);

    return (!target || target->freed) && (!source || source->freed);
}

static void await_work(void)
{
    const struct stream *s = stream_in(OWNER, 0);

    AWAIT((turn_engines(1), stream_has_begun(s) || s->live->position != s->live->first));
}

static void free_both(void)
{
    for (uint32_t slot = TARGET; slot <= SOURCE; slot++) {
        struct mem *m = mem_in(slot);

        if (m && !m->freed)
            allocation_free(m);
        kept_commit();
    }
}

static void free_in_work(void)
{
    await_work();
    free_both();
    act_turns();
}

/* --- */

static const struct act acts[] = {
    {"target and source are freed", start_clients, NULL, submit_sum, free_in_work, has_freed},
};

static const struct stage stage = {act_turns, tell_all};

START_TEST(each_act_at_each_place)
{
    act_play_everywhere(&stage, &acts[_i]);
}
END_TEST

static void begin_and_free(void)
{
    start_clients();
    submit_sum();
    await_work();
    free_both();
}

/* Handle and address are gone at once, and the rest when the work is done. _i: in a later npud. */
START_TEST(it_goes_after_the_work)
{
    struct session *owner;
    struct mem *m;

    begin_and_free();
    if (_i)
        restart_npud();
    owner = session_of(OWNER);
    for (uint32_t slot = TARGET; slot <= SOURCE; slot++) {
        m = mem_in(slot);
        ck_assert(m->freed && atomic_load(&m->works) == 1);
        ck_assert_ptr_null(allocation_get(owner, slot, slot_generation(m)));
    }
    ck_assert_uint_eq(devices_get(server.devices, 0)->memory_used, 2 * BYTES);
    ck_assert_uint_eq(owner->memory, 2 * BYTES);
    ck_assert_uint_eq(owner->user->used[RESOURCE_DEVICE_MEMORY], 2 * BYTES);
    ck_assert_uint_eq(HASH_COUNT(server.memory_exports->by_number), 0);
    ck_assert(!is_summed());
    act_turns();
    ck_assert(is_summed());
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))), 0);
    ck_assert_uint_eq(owner->mems.live + owner->memory, 0);
    /* the importer has it, and pays for it */
    ck_assert_uint_eq(devices_get(server.devices, 0)->memory_used, BYTES);
    ck_assert_uint_eq(owner->user->used[RESOURCE_DEVICE_MEMORY], 0);
    stop_all();
}
END_TEST

/* Work that is behind it has not begun, and finds nothing. */
START_TEST(work_behind_it_fails)
{
    start_clients();
    submit_sum();
    submit_sum();
    await_work();
    free_both();
    act_turns();
    ck_assert(is_summed());
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))), ACL_ERROR_RT_SYS_DMA);
    ck_assert_uint_eq(session_of(OWNER)->mems.live, 0);
    stop_all();
}
END_TEST

/*
 * The npud of the release before frees at once: the work fails in the next npud, and the next work
 * of the stream goes where it says. _i: what was freed.
 */
START_TEST(work_whose_memory_is_gone_fails)
{
    struct session *owner;
    struct mem *other, *rest;
    const unsigned char *bytes;

    start_clients();
    ck_assert_int_eq(allocation_new(session_of(OWNER), devices_get(server.devices, 0), MEM_DEVICE,
                                    BYTES, &other),
                     0);
    submit_sum();
    await_work();
    work_drop(stream_in(OWNER, 0));
    allocation_free(mem_in((uint32_t)_i));
    kept_commit();
    restart_npud();
    act_turns();
    owner = session_of(OWNER);
    rest = mem_in(_i == TARGET ? SOURCE : TARGET);
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))), ACL_ERROR_RT_SYS_DMA);
    ck_assert_uint_eq(atomic_load(&rest->works), 0);
    other = slots_get(&owner->mems, 2);
    client_submit(stream_in(OWNER, 0), (struct task){.op = TASK_SET,
                                                     .object = other->slot.number,
                                                     .generation = slot_generation(other),
                                                     .set = {.size = BYTES, .value = 0x5a}});
    act_turns();
    bytes = memory_at(other, 0);
    ck_assert_uint_eq(bytes[0], 0x5a);
    ck_assert_uint_eq(bytes[BYTES - 1], 0x5a);
    stop_all();
}
END_TEST

#define WAITERS 100 /* more than a step looks at */

/* All that wait for a word are told that it was written, not only when the work is over. */
START_TEST(waiters_do_not_wait_for_the_work)
{
    struct task task = {.op = TASK_VALUE_WAIT, .flags = WORD_EQ, .value = {BYTES - 8, 7}};
    struct stream *sum;
    struct mem *m;

    start_clients();
    m = slots_get(&session_of(IMPORTER)->mems, 0);
    task.generation = slot_generation(m);
    for (unsigned i = 0; i < WAITERS; i++)
        client_submit(npud_stream(session_of(IMPORTER), 0), task);
    turn_engines(TURNS);
    ck_assert(waitlist_has_any(&m->pages->values));
    submit_sum();
    await_work();
    task.op = TASK_VALUE_WRITE;
    task.generation = slot_generation(mem_in(TARGET));
    client_submit(stream_in(OWNER, 2), task);
    /* How far an engine comes in a turn is up to the clock. */
    for (unsigned i = 0; i < TURNS && !stream_has_begun(stream_in(OWNER, 2)); i++)
        turn_engines(1);
    ck_assert(stream_has_begun(stream_in(OWNER, 2)));
    free_both();
    for (unsigned i = 0; i < TURNS && waitlist_has_any(&m->pages->values); i++)
        turn_engines(1);
    sum = stream_in(OWNER, 0);
    ck_assert(stream_has_begun(sum) && sum->live->position == sum->live->first);
    ck_assert(!waitlist_has_any(&m->pages->values));
    stop_all();
}
END_TEST

static void abort_it(struct stream *s)
{
    stream_abort(s, ACL_ERROR_RT_STREAM_ABORT, 0);
}

static void stop_it(struct stream *s)
{
    failure_stop_task(s, 0, 0, true);
}

static void fail_beside_it(struct stream *s)
{
    struct stream *other = stream_in(OWNER, 2);

    stream_stop_at_failure(s);
    client_submit(other,
                  (struct task){.op = TASK_DELAY, .delay = {0, ACL_ERROR_RT_AICORE_EXCEPTION}});
}

static void end_it(struct stream *s)
{
    (void)s;
    hang_up(OWNER);
}

/* However the work ends, the memory goes. _i: how; in a later npud. */
START_TEST(it_goes_with_work_that_is_cut)
{
    static void (*const cuts[])(struct stream * s) = {abort_it, stream_free, stop_it,
                                                      fail_beside_it, end_it};
    struct session *owner;

    begin_and_free();
    if (_i % 2)
        restart_npud();
    cuts[_i / 2](stream_in(OWNER, 0));
    kept_commit();
    for (unsigned i = 0; i < 10; i++)
        npud_turn();
    act_turns();
    ck_assert(!is_summed());
    owner = session_of(OWNER);
    ck_assert(owner ? owner->mems.live == 0 : cuts[_i / 2] == end_it);
    ck_assert_uint_eq(devices_get(server.devices, 0)->memory_used, BYTES);
    stop_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: work");
    TCase *t = suite_case(s, "memory freed in work", 300, NULL, NULL);

    tcase_add_loop_test(t, it_goes_after_the_work, 0, 2);
    tcase_add_test(t, work_behind_it_fails);
    tcase_add_test(t, waiters_do_not_wait_for_the_work);
    tcase_add_loop_test(t, work_whose_memory_is_gone_fails, TARGET, SOURCE + 1);
    tcase_add_loop_test(t, it_goes_with_work_that_is_cut, 0, 10);
    tcase_add_loop_test(t, each_act_at_each_place, 0, (int)(sizeof(acts) / sizeof(acts[0])));
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
