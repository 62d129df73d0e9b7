/*
 * Runs long: 25 s
 *
 * Streams over the end of npud: for each kind of task, npud ends at each place between two stores
 * of its execution, and the next one has to do what an npud that lives would have done. The engines
 * have no thread here; each turn is a call.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */

#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/failure.h"
#include "daemon/engine/inject.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/unit/restart_steps.h"
#include "tests/unit/memory_at.h"

#define STREAMS 4 /* 0 and 2 on device 0, 1 and 3 on device 1 */
#define BYTES   ((uint64_t)1 << 20)
#define TURNS   400
#define LIMIT   (2 * NSEC_PER_MSEC)
#define FAILED  123456 /* a code that tasks fail with */

/* --- the client --- */

static unsigned errors_taken, exceptions_taken;
static int32_t last_error;

static struct session *the_session(void)
{
    ck_assert_ptr_nonnull(server.sessions);
    return server.sessions;
}

static struct stream *stream_at(uint32_t slot)
{
    struct stream *s = slots_get(&the_session()->streams, slot);

    ck_assert_ptr_nonnull(s);
    return s;
}

static struct event_obj *event_at(uint32_t slot)
{
    struct event_obj *ev = slots_get(&the_session()->events, slot);

    ck_assert_ptr_nonnull(ev);
    return ev;
}

static struct mem *memory(void)
{
    struct mem *m = slots_get(&the_session()->mems, 0);

    ck_assert_ptr_nonnull(m);
    return m;
}

static unsigned char *bytes(uint64_t offset)
{
    return memory_at(memory(), offset);
}

static uint64_t done(uint32_t slot)
{
    return atomic_load(&stream_at(slot)->ctrl->done);
}

static void submit(uint32_t slot, struct task task)
{
    struct stream *s = stream_at(slot);

    client_submit(s, task);
}

/* What the library does whenever it looks: it takes what it is told, at any moment. */
static void take_news(void)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct stream *s = slots_get(&the_session()->streams, i);
        uint64_t error = s ? stream_take_error(s->ctrl) : 0;

        if (stream_error_code(error) == 0)
            continue;
        errors_taken++;
        last_error = stream_error_code(error);
    }
    for (uint32_t d = 0; d < 2; d++) {
        struct attach *a = session_attach(the_session(), d);
        struct exception e;
        bool ring = false;

        while (exception_take(&the_session()->page->exceptions[d], &e, &ring))
            exceptions_taken++;
        if (ring)
            eventfd_write(a->fd, 1);
    }
}

static void run_callbacks(uint32_t slot)
{
    struct stream *s = stream_at(slot);
    uint64_t may = atomic_load(&s->ctrl->callbacks);

    if (atomic_load(&s->ctrl->callbacks_done) == may)
        return;
    atomic_store(&s->ctrl->callbacks_done, may);
    if (doorbell_raise(s->attach->bell, slot))
        eventfd_write(s->attach->fd, 1);
}

/* --- tasks --- */

static struct task of_event(uint8_t op, uint8_t flags, uint64_t number)
{
    return (struct task){.op = op,
                         .flags = flags,
                         .generation = slot_generation(event_at(0)),
                         .record.number = number};
}

static struct task of_memory(uint8_t op)
{
    return (struct task){.op = op, .generation = slot_generation(memory())};
}

static struct task wait_level(uint64_t timeout)
{
    struct task t = of_event(TASK_WAIT_LEVEL, 0, 0);

    t.wait.timeout_ns = timeout;
    return t;
}

static struct task wait_position(uint32_t slot, uint64_t target, uint64_t timeout)
{
    return (struct task){
        .op = TASK_WAIT_POS, .object = slot, .wait.target = target, .wait.timeout_ns = timeout};
}

static struct task bad_copy(void)
{
    return (struct task){.op = TASK_COPY, .object = 77, .copy.size = 8};
}

/* --- one run --- */

static bool turned; /* device 1 first */
static bool (*over)(void);
static uint64_t submitted[STREAMS];

static void turn_once(void)
{
    for (uint32_t i = 0; i < 2; i++)
        engine_turn(devices_get(server.devices, i ^ turned)->engine);
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        if (done(i) < submitted[i])
            return false;
    return true;
}

static void act_turns(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < TURNS && !over(); i++)
        turn_once();
}

static void begin(void)
{
    struct event_obj *ev;
    struct mem *m;
    int fd;

    start_two_devices();
    npud_session(getpid())->protocol = PROTOCOL;
    for (uint32_t i = 0; i < STREAMS; i++)
        npud_stream(the_session(), i % 2);
    ck_assert_int_eq(event_obj_new(the_session(), 0, 0, &ev, &fd), 0);
    ck_assert_int_eq(
        allocation_new(the_session(), devices_get(server.devices, 0), MEM_DEVICE, BYTES, &m), 0);
    for (uint32_t d = 0; d < 2; d++)
        atomic_store(&the_session()->page->exceptions[d].wanted, 1);
    kept_commit();
    memset(submitted, 0, sizeof(submitted));
    errors_taken = exceptions_taken = 0;
    last_error = 0;
    over = all_done;
}

static void end(void)
{
    session_free(the_session());
    restart_stop();
}

struct scenario {
    const char *name;
    void (*submit)(void);
    void (*killed)(void); /* the client, while there is no npud */
    void (*expect)(void);
    bool (*over)(void); /* NULL: all is done */
};

/* --- what happens in a scenario --- */

static void submit_to(uint32_t slot, struct task task)
{
    submit(slot, task);
    submitted[slot]++;
}

static void submit_nops(void)
{
    for (unsigned i = 0; i < 5; i++)
        submit_to(0, (struct task){.op = TASK_NOP, .implicit = (uint16_t)(3 * i)});
}

static void expect_nops(void)
{
    ck_assert_uint_eq(done(0), 5);
    ck_assert_uint_eq(stream_at(0)->live->implicit, 12);
    ck_assert_uint_eq(errors_taken, 0);
}

static uint64_t first_time;

static void submit_times(void)
{
    first_time = 0;
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_TIME, 1));
}

static void note_time(void)
{
    event_slot_get_time(event_at(0)->shm, 1, &first_time);
}

static void expect_time(void)
{
    uint64_t ns;

    ck_assert(event_slot_get_time(event_at(0)->shm, 1, &ns));
    ck_assert_uint_ne(ns, 0);
    if (first_time != 0)
        ck_assert_uint_eq(ns, first_time);
}

static void submit_raises(void)
{
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 1));
    submit_to(1, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 2));
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 3));
}

static void expect_raises(void)
{
    uint64_t level = atomic_load(&event_at(0)->shm->level);

    ck_assert_uint_eq(event_level_count(level), 3);
    ck_assert(level & EVENT_LEVEL_UP);
}

static uint64_t level_seen;

static void submit_raise(void)
{
    level_seen = 0;
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 1));
}

/* The client sees the level, and lowers it. */
static void lower_level(void)
{
    level_seen = atomic_load(&event_at(0)->shm->level);
    if (level_seen & EVENT_LEVEL_UP)
        event_slot_lower(event_at(0)->shm);
}

static void expect_lowered(void)
{
    uint64_t level = atomic_load(&event_at(0)->shm->level);

    ck_assert_uint_eq(event_level_count(level), 1);
    ck_assert_int_eq(level & EVENT_LEVEL_UP, !(level_seen & EVENT_LEVEL_UP));
}

static void submit_reset(void)
{
    event_slot_raise(event_at(0)->shm);
    level_seen = 1;
    submit_to(0, of_event(TASK_RESET, 0, 0));
}

static void raise_level(void)
{
    level_seen = atomic_load(&event_at(0)->shm->level);
    if (!(level_seen & EVENT_LEVEL_UP))
        event_slot_raise(event_at(0)->shm);
}

static void expect_reset(void)
{
    bool up = atomic_load(&event_at(0)->shm->level) & EVENT_LEVEL_UP;

    ck_assert_int_eq(up, !(level_seen & EVENT_LEVEL_UP));
}

/* It waits for a raise that is followed by a reset at once. */
static void submit_level_wait(void)
{
    submit_to(1, wait_level(0));
    turn_once();
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 1));
    submit_to(0, of_event(TASK_RESET, 0, 0));
}

static void expect_no_error(void)
{
    ck_assert_uint_eq(errors_taken, 0);
    ck_assert_uint_eq(exceptions_taken, 0);
}

static void submit_position_wait(void)
{
    submit_to(1, wait_position(0, 2, 0));
    submit_to(2, wait_position(1, 1, 0));
    turn_once();
    submit_to(0, (struct task){.op = TASK_NOP});
    submit_to(0, (struct task){.op = TASK_NOP});
}

static uint64_t began;

static void submit_late_wait(void)
{
    submit_to(1, wait_position(0, 9, LIMIT));
    began = clock_ns();
}

/* Told once, as a failure of the wait and not as an exception; and not before its time. */
static void expect_timeout(void)
{
    ck_assert_uint_ge(clock_ns() - began + NSEC_PER_MSEC / 2, LIMIT);
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, ACL_ERROR_RT_TASK_TIMEOUT);
    ck_assert_uint_eq(exceptions_taken, 0);
    ck_assert_uint_eq(stream_at(1)->live->failures, 1);
}

/* A stream that waits for its timer is looked at again when that is over. */
static bool timed_over(void)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        const struct timer *timer = &stream_at(i)->timer;

        if (timer->place != 0)
            AWAIT(clock_ns() >= timer->deadline);
    }
    return all_done();
}

static void submit_delay(void)
{
    submit_to(0, (struct task){.op = TASK_DELAY, .delay.ns = LIMIT});
    began = clock_ns();
}

static void expect_delay(void)
{
    ck_assert_uint_ge(clock_ns() - began, LIMIT);
    expect_no_error();
}

static void submit_copy(void)
{
    struct task t = of_memory(TASK_COPY);
    unsigned char *from = bytes(0);

    for (uint64_t i = 0; i < BYTES / 4; i++)
        from[i] = (unsigned char)(i * 7);
    t.copy.dst_offset = BYTES / 2;
    t.copy.size = BYTES / 8;
    t.copy.src_generation = t.generation;
    submit_to(0, t);
    t = of_memory(TASK_SET);
    t.set.offset = BYTES / 4 * 3;
    t.set.size = 100000;
    t.set.value = 0x5a;
    submit_to(2, t);
}

static void expect_copy(void)
{
    unsigned char *copied = bytes(BYTES / 2), *set = bytes(BYTES / 4 * 3);

    for (uint64_t i = 0; i < BYTES / 8; i++)
        CHECK(copied[i] == (unsigned char)(i * 7));
    for (uint64_t i = 0; i < 100000; i++)
        CHECK(set[i] == 0x5a);
    expect_no_error();
}

#define NUMBERS 1500 /* three slices */

static void submit_reduce(void)
{
    struct task t = of_memory(TASK_REDUCE);
    int32_t *n = (int32_t *)(void *)bytes(0);

    for (int i = 0; i < NUMBERS; i++) {
        n[i] = i;
        n[NUMBERS + i] = 1000;
    }
    t.reduce.dst_offset = NUMBERS * sizeof(*n);
    t.reduce.size = NUMBERS * sizeof(*n);
    t.reduce.src_generation = t.generation;
    t.reduce.kind = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;
    t.reduce.type = ACL_INT32;
    submit_to(0, t);
    submit_to(0, t);
    submit_to(2, t);
}

static void expect_reduce(void)
{
    int32_t *n = (int32_t *)(void *)bytes(0);

    for (int i = 0; i < NUMBERS; i++)
        ck_assert_int_eq(n[NUMBERS + i], 1000 + 3 * i);
    expect_no_error();
}

static struct task of_word(uint8_t op, uint64_t value)
{
    struct task t = of_memory(op);

    t.flags = op == TASK_VALUE_WAIT; /* equal */
    t.value.value = value;
    return t;
}

static _Atomic uint64_t *word(void)
{
    return (_Atomic uint64_t *)(void *)bytes(0);
}

static uint64_t word_seen;

static void submit_value(void)
{
    atomic_store(word(), 5);
    word_seen = 0;
    submit_to(0, of_word(TASK_VALUE_WRITE, 7));
}

/* The client sees the new value, and changes it. */
static void change_word(void)
{
    word_seen = atomic_load(word());
    if (word_seen == 7)
        atomic_store(word(), 9);
}

static void expect_value(void)
{
    ck_assert_uint_eq(atomic_load(word()), word_seen == 7 ? 9 : 7);
    expect_no_error();
}

static void submit_value_wait(void)
{
    atomic_store(word(), 5);
    submit_to(1, of_word(TASK_VALUE_WAIT, 7));
    turn_once();
    submit_to(0, of_word(TASK_VALUE_WRITE, 7));
}

static void expect_value_wait(void)
{
    ck_assert_uint_eq(atomic_load(&the_session()->page->value_waiters), 0);
    expect_no_error();
}

static unsigned callbacks_run;

static void submit_callbacks(void)
{
    callbacks_run = 0;
    for (unsigned i = 1; i <= 3; i++)
        submit_to(0, (struct task){.op = TASK_CALLBACK, .callback = {.ordinal = i, .block = 1}});
    submit_to(0, (struct task){.op = TASK_CALLBACK, .callback = {.ordinal = 4}});
}

static bool callbacks_over(void)
{
    uint64_t before = atomic_load(&stream_at(0)->ctrl->callbacks_done);

    /* A blocked stream goes on when its function has returned, and not before. */
    ck_assert_uint_le(done(0), before + (before == 3));
    run_callbacks(0);
    callbacks_run += atomic_load(&stream_at(0)->ctrl->callbacks_done) - before;
    return all_done();
}

static void expect_callbacks(void)
{
    run_callbacks(0);
    ck_assert_uint_eq(atomic_load(&stream_at(0)->ctrl->callbacks), 4);
    expect_no_error();
}

/*
 * Handed over one after the other, to a thread that looks when it is told of one: it runs all that
 * were handed over by then, also those that it was told of before npud ended and has not run.
 */
static uint32_t report_seen;

static struct callback_word *the_word(void)
{
    return &the_session()->page->callback_word[0];
}

static void submit_free_callbacks(void)
{
    callbacks_run = 0;
    report_seen = atomic_load(&the_word()->seq);
    callback_word_arm(the_word());
    for (unsigned i = 1; i <= 5; i++)
        submit_to(0, (struct task){.op = TASK_CALLBACK, .callback = {.ordinal = i}});
}

static void run_if_told(void)
{
    uint32_t seq = atomic_load(&the_word()->seq);

    if (seq == report_seen)
        return;
    report_seen = seq;
    callbacks_run = (unsigned)atomic_load(&stream_at(0)->ctrl->callbacks);
    callback_word_arm(the_word());
}

/* The thread does not come to it before all are there. */
static bool free_callbacks_over(void)
{
    if (!all_done())
        return false;
    run_if_told();
    return true;
}

/* It was asleep when npud ended. */
static bool prompt_callbacks_over(void)
{
    run_if_told();
    return all_done();
}

static void expect_free_callbacks(void)
{
    run_if_told();
    ck_assert_uint_eq(callbacks_run, 5);
    expect_no_error();
}

static void submit_failures(void)
{
    submit_to(0, (struct task){.op = TASK_NOP});
    submit_to(0, bad_copy());
    submit_to(0, (struct task){.op = TASK_NOP});
}

static void expect_one_failure(void)
{
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, ACL_ERROR_RT_SYS_DMA);
    ck_assert_uint_eq(exceptions_taken, 1);
    ck_assert_uint_eq(stream_at(0)->live->failures, 1);
}

/* Stream 2 is of the same context, and so is what waits for the failed one. */
static void submit_stop(void)
{
    stream_stop_at_failure(stream_at(0));
    kept_commit();
    submit_to(2, wait_position(0, 3, 0));
    submit_to(1, wait_position(0, 3, 0));
    submit_failures();
}

static bool stop_over(void)
{
    struct stream *s = stream_at(0);

    return s->live->position == 3 && stream_at(2)->live->position == 1 && done(1) == 1;
}

static void expect_stop(void)
{
    ck_assert_uint_eq(done(0), 1);
    ck_assert_uint_eq(done(2), 0);
    ck_assert_int_eq(stream_error_code(atomic_load(&stream_at(0)->ctrl->stopped)),
                     ACL_ERROR_RT_SYS_DMA);
    ck_assert_int_eq(stream_error_code(atomic_load(&stream_at(2)->ctrl->stopped)),
                     ACL_ERROR_RT_SYS_DMA);
    ck_assert_uint_eq(atomic_load(&stream_at(1)->ctrl->stopped), 0);
    /* Stream 1 has waited: its wait fails with the same code. */
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, ACL_ERROR_RT_SYS_DMA);
    ck_assert_uint_eq(exceptions_taken, 2);
    ck_assert_uint_eq(stream_at(0)->live->failures, 1);
}

static const struct scenario scenarios[] = {
    {"nop", submit_nops, NULL, expect_nops, NULL},
    {"time", submit_times, note_time, expect_time, NULL},
    {"raises of two engines", submit_raises, NULL, expect_raises, NULL},
    {"raise, then lowered", submit_raise, lower_level, expect_lowered, NULL},
    {"reset, then raised", submit_reset, raise_level, expect_reset, NULL},
    {"wait for a level", submit_level_wait, NULL, expect_no_error, NULL},
    {"wait for a position", submit_position_wait, NULL, expect_no_error, NULL},
    {"wait with a limit", submit_late_wait, NULL, expect_timeout, timed_over},
    {"delay", submit_delay, NULL, expect_delay, timed_over},
    {"copy and set", submit_copy, NULL, expect_copy, NULL},
    {"reduce", submit_reduce, NULL, expect_reduce, NULL},
    {"value write", submit_value, change_word, expect_value, NULL},
    {"value wait", submit_value_wait, NULL, expect_value_wait, NULL},
    {"callbacks", submit_callbacks, NULL, expect_callbacks, callbacks_over},
    {"callbacks, taken late", submit_free_callbacks, NULL, expect_free_callbacks,
     free_callbacks_over},
    {"callbacks, taken at once", submit_free_callbacks, run_if_told, expect_free_callbacks,
     prompt_callbacks_over},
    {"failure", submit_failures, NULL, expect_one_failure, NULL},
    {"failure that stops", submit_stop, NULL, expect_stop, stop_over},
};
#define SCENARIOS ((int)(sizeof(scenarios) / sizeof(scenarios[0])))

static unsigned kills;

/* False: npud has not passed the place so often. */
static bool run_scenario(const struct scenario *sc, enum kill_place place, unsigned pass, bool turn)
{
    bool killed;

    begin();
    turned = turn;
    sc->submit();
    over = sc->over ? sc->over : all_done;
    if (sc->killed)
        level_seen = word_seen = 0;
    killed = restart_kill(place, pass, act_turns, NULL);
    if (killed) {
        kills++;
        turned = !turn;
        take_news();
        if (sc->killed)
            sc->killed();
        act_turns(NULL);
    }
    ck_assert_msg(over(), "%s: not done, ended at place %d, pass %u", sc->name, (int)place, pass);
    take_news();
    if (killed || !sc->killed)
        sc->expect();
    /* And nothing comes later. */
    restart_npud();
    for (unsigned i = 0; i < 5; i++)
        turn_once();
    take_news();
    if (killed || !sc->killed)
        sc->expect();
    end();
    return killed;
}

START_TEST(each_task_at_each_place)
{
    const struct scenario *sc = &scenarios[_i];

    kills = 0;
    for (unsigned place = 0; place < KILL_PLACE_COUNT; place++)
        for (unsigned pass = 1; run_scenario(sc, (enum kill_place)place, pass, pass % 2); pass++)
            ;
    ck_assert_uint_ge(kills, 3);
}
END_TEST

/* --- what the control thread does --- */

/* The ring of exceptions is full: the stream stays at its task, also in the next npud. */
START_TEST(a_stuck_stream_stays)
{
    begin();
    for (unsigned i = 0; i < EXCEPTIONS + 2; i++) {
        submit_to(0, bad_copy());
        act_turns(NULL);
    }
    ck_assert_uint_eq(done(0), EXCEPTIONS);
    for (unsigned i = 0; i < 3; i++) {
        restart_npud();
        act_turns(NULL);
        ck_assert_uint_eq(done(0), EXCEPTIONS);
        ck_assert_int_eq(stream_at(0)->run, RUN_STUCK);
    }
    take_news();
    ck_assert_uint_eq(exceptions_taken, EXCEPTIONS);
    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(exceptions_taken, EXCEPTIONS + 2);
    ck_assert_uint_eq(stream_at(0)->live->failures, EXCEPTIONS + 2);
    end();
}
END_TEST

/* Which stream of its session a stream is, rules of fault injection go by. */
START_TEST(streams_are_counted)
{
    uint64_t made;

    begin();
    kept_commit();
    npud_stream(the_session(), 0);
    made = the_session()->streams_made;
    kept_commit();
    restart_npud();
    ck_assert_uint_eq(the_session()->streams_made, made);
    end();
}
END_TEST

/* More discards of the slot than npud remembers. */
static void fill_discards(void)
{
    for (unsigned i = 0; i < DISCARDS_MAX + 2; i++) {
        submit_to(0, (struct task){.op = TASK_NOP});
        stream_abort(stream_at(0), (int32_t)i + 1, 0);
    }
    kept_commit();
}

START_TEST(discards_are_remembered)
{
    begin();
    fill_discards();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < DISCARDS_MAX + 2; i++)
            ck_assert_int_eq(stream_discarded(the_session(), 0, i + 1), i < 2 ? 0 : (int)i + 1);
        /* Of a slot that is free, too. */
        if (round == 0)
            stream_free(stream_at(0));
        kept_commit();
        restart_npud();
    }
    end();
}
END_TEST

/* What a user is charged is the same: also for what npud itself notes. */
START_TEST(charges_are_as_they_were)
{
    uint64_t used[RESOURCE_COUNT];

    begin();
    for (unsigned i = 0; i < 2 * ARENA_STREAMS; i++)
        npud_stream(the_session(), i % 2);
    for (unsigned i = 0; i < ARENA_EVENTS; i++) {
        struct event_obj *ev;
        int fd;

        ck_assert_int_eq(event_obj_new(the_session(), 0, 0, &ev, &fd), 0);
    }
    kept_commit();
    memcpy(used, the_session()->user->used, sizeof(used));
    ck_assert_uint_gt(
        used[RESOURCE_TABLE_MEMORY],
        3 * (arena_stream_file_size(64) + ARENA_STREAMS * sizeof(struct stream_kept)) +
            2 * (arena_event_file_size() + ARENA_EVENTS * sizeof(struct event_kept)));
    for (unsigned round = 0; round < 3; round++) {
        restart_npud();
        for (int i = 0; i < RESOURCE_COUNT; i++)
            ck_assert_msg(the_session()->user->used[i] == used[i], "%s: %llu, was %llu",
                          resource_names[i], (unsigned long long)the_session()->user->used[i],
                          (unsigned long long)used[i]);
    }
    session_free(the_session());
    ck_assert_uint_eq(server.users.used[RESOURCE_TABLE_MEMORY], 0);
    restart_stop();
}
END_TEST

#define TOLD 507001

static uint64_t held_from, held_to;

static void act_hold(void *arg)
{
    (void)arg;
    stream_hold(stream_at(0));
    held_from = stream_at(0)->live->held_from;
    held_to = stream_at(0)->live->position;
    kept_commit();
}

static void act_abort(void *arg)
{
    (void)arg;
    stream_abort(stream_at(0), TOLD, 4711);
    kept_commit();
}

/* Some is done, some is queued, others wait for both. */
static void prepare_abort(void)
{
    begin();
    submit_to(0, (struct task){.op = TASK_NOP});
    act_turns(NULL);
    submit_to(0, wait_position(3, 100, 0));
    submit_to(0, of_event(TASK_RECORD, TASK_RECORD_TIME, 1));
    submit_to(1, wait_position(0, 3, 0));
    submit_to(2, wait_position(0, 1, 0));
    for (unsigned i = 0; i < 5; i++)
        turn_once();
    submit_to(0, (struct task){.op = TASK_NOP}); /* nobody has seen it yet */
}

static void expect_aborted(void)
{
    uint64_t ns;

    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, TOLD);
    ck_assert_int_eq(stream_discarded(the_session(), 0, 3), TOLD);
    ck_assert_int_eq(stream_discarded(the_session(), 0, 1), 0);
    ck_assert(!event_slot_get_time(event_at(0)->shm, 1, &ns));
    /* It goes on. */
    submit_to(0, (struct task){.op = TASK_NOP});
    act_turns(NULL);
    ck_assert(all_done());
}

/* A request whose npud ended is handled again. */
START_TEST(an_abort_is_carried_out_once)
{
    enum kill_place place = (enum kill_place)_i;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        prepare_abort();
        killed = restart_kill(place, pass, act_hold, NULL);
        if (killed)
            act_hold(NULL);
        ck_assert_uint_eq(held_from, 1);
        ck_assert_uint_eq(held_to, 4);
        /* Held, as often as npud ends meanwhile. */
        for (unsigned i = 0; i < 2; i++) {
            restart_npud();
            act_turns(NULL);
            ck_assert_int_eq(stream_at(0)->run, RUN_HELD);
            ck_assert_uint_eq(done(0), 1);
        }
        act_abort(NULL);
        expect_aborted();
        end();
    }
    killed = true;
    for (unsigned pass = 1; killed; pass++) {
        prepare_abort();
        act_hold(NULL);
        killed = restart_kill(place, pass, act_abort, NULL);
        if (killed) {
            /* Behind the abort a task may come, which is not discarded. */
            if (stream_at(0)->live->held == STREAM_FREE)
                submit_to(0, (struct task){.op = TASK_NOP});
            act_abort(NULL);
        }
        expect_aborted();
        ck_assert_int_eq(stream_discarded(the_session(), 0, 5), 0);
        end();
    }
}
END_TEST

/* What comes after the abort has begun, while there is no npud, is no part of it. */
START_TEST(an_abort_drops_what_was_there)
{
    enum kill_place place = (enum kill_place)_i;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        uint64_t to = 4;

        prepare_abort();
        killed = restart_kill(place, pass, act_hold, NULL);
        if (killed) {
            to += stream_at(0)->live->held == STREAM_FREE;
            submit_to(0, (struct task){.op = TASK_NOP});
            act_hold(NULL);
        }
        ck_assert_uint_eq(held_to, to);
        act_abort(NULL);
        expect_aborted();
        end();
    }
}
END_TEST

static void act_stop(void *arg)
{
    (void)arg;
    failure_stop_task(stream_at(0), 4711, 0, true);
    kept_commit();
}

START_TEST(a_task_is_ended_once)
{
    enum kill_place place = (enum kill_place)_i;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        begin();
        submit_to(0, wait_position(3, 100, 0));
        submit_to(0, wait_position(3, 101, 0));
        act_turns(NULL);
        killed = restart_kill(place, pass, act_stop, NULL);
        take_news();
        if (killed) {
            act_turns(NULL);
            act_stop(NULL);
        }
        act_turns(NULL);
        ck_assert_uint_eq(done(0), 1);
        take_news();
        ck_assert_uint_eq(errors_taken, 1);
        end();
    }
}
END_TEST

/* A task that would be over by itself before the request comes again. */
START_TEST(a_task_that_is_ended_is_told)
{
    enum kill_place place = (enum kill_place)_i;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        begin();
        submit_delay();
        submit_to(0, wait_position(3, 101, 0));
        for (unsigned i = 0; i < 5; i++)
            turn_once();
        killed = restart_kill(place, pass, act_stop, NULL);
        take_news();
        while (clock_ns() <= began + LIMIT)
            turn_once();
        act_turns(NULL);
        if (killed)
            act_stop(NULL);
        act_turns(NULL);
        take_news();
        ck_assert_uint_eq(errors_taken, 1);
        ck_assert_int_eq(last_error, ACL_ERROR_RT_STREAM_ABORT);
        end();
    }
}
END_TEST

/* Streams, contexts and events are made and destroyed by requests: all or nothing. */
static void act_make(void *arg)
{
    struct stream *s;
    struct event_obj *ev;
    int fd;

    (void)arg;
    ck_assert_int_eq(stream_new(the_session(), session_attach(the_session(), 1), 7, 3, 1, &s, &fd),
                     0);
    ck_assert_int_eq(event_obj_new(the_session(), 8, 1, &ev, &fd), 0);
    kept_commit();
}

static void act_destroy(void *arg)
{
    struct stream *s = slots_get(&the_session()->streams, STREAMS);

    (void)arg;
    stream_abort(s, 0, 0);
    stream_free(s);
    event_obj_free(the_session(), event_at(1));
    kept_commit();
}

static bool is_made(void)
{
    struct stream *s = slots_get(&the_session()->streams, STREAMS);
    struct event_obj *ev = slots_get(&the_session()->events, 1);

    ck_assert_int_eq(s != NULL, ev != NULL);
    if (!s)
        return false;
    ck_assert_uint_eq(s->context->number, 7);
    ck_assert_uint_eq(s->live->priority, 3);
    ck_assert_uint_eq(s->live->flags, 1);
    ck_assert_uint_eq(s->attach->device->index, 1);
    ck_assert_uint_eq(ev->flags, 8);
    ck_assert_uint_eq(ev->device, 1);
    return true;
}

START_TEST(objects_are_made_and_destroyed_once)
{
    enum kill_place place = (enum kill_place)_i;
    uint64_t used;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        begin();
        used = the_session()->user->used[RESOURCE_STREAMS];
        killed = restart_kill(place, pass, act_make, NULL);
        if (!is_made())
            act_make(NULL);
        submit(STREAMS, (struct task){.op = TASK_NOP});
        turn_once();
        turn_once();
        ck_assert_uint_eq(done(STREAMS), 1);
        restart_npud();
        ck_assert(is_made());
        ck_assert_uint_eq(the_session()->user->used[RESOURCE_STREAMS], used + 1);
        killed |= restart_kill(place, pass, act_destroy, NULL);
        if (is_made())
            act_destroy(NULL);
        restart_npud();
        ck_assert(!is_made());
        ck_assert_uint_eq(the_session()->user->used[RESOURCE_STREAMS], used);
        /* Positions of the slot go on, and its stream has another generation. */
        act_make(NULL);
        ck_assert_uint_eq(done(STREAMS), 1);
        ck_assert_uint_eq(stream_at(STREAMS)->live->position, 1);
        end();
    }
}
END_TEST

/* --- records that grow --- */

/* Streams with tasks behind them, from where the record of the segment is full. */
static void act_fill(void *arg)
{
    const unsigned *n = arg;
    struct stream *s;
    int fd;

    for (uint32_t slot = STREAMS; slot < *n; slot++) {
        if (slots_get(&the_session()->streams, slot))
            continue;
        ck_assert_int_eq(
            stream_new(the_session(), session_attach(the_session(), 1), 7, slot, 1, &s, &fd), 0);
        kept_commit();
    }
}

static void act_fill_events(void *arg)
{
    const unsigned *n = arg;
    struct event_obj *ev;
    int fd;

    for (uint32_t slot = the_session()->events.live; slot < *n; slot++) {
        ck_assert_int_eq(event_obj_new(the_session(), slot & 15, 1, &ev, &fd), 0);
        kept_commit();
    }
}

static void expect_filled(unsigned streams, unsigned events)
{
    ck_assert_uint_eq(the_session()->streams.live, streams);
    ck_assert_uint_eq(the_session()->events.live, events);
    for (uint32_t slot = STREAMS; slot < streams; slot++) {
        ck_assert_uint_eq(stream_at(slot)->slot.number, slot);
        ck_assert_uint_eq(stream_at(slot)->live->priority, slot);
        ck_assert_ptr_eq(
            stream_at(slot)->live,
            arena_kept_at(the_session()->stream_files.file[slot / ARENA_STREAMS], slot));
    }
    for (uint32_t slot = 1; slot < events; slot++) {
        ck_assert_uint_eq(event_at(slot)->flags, slot & 15);
        ck_assert_uint_eq(event_is_flags(event_at(slot)->live->is), slot & 15);
    }
}

/*
 * What the streams have done, and wait for, is as it was: also if npud ends when there are two
 * records of the segment, and when it ends later.
 */
START_TEST(a_record_grows_under_its_objects)
{
    static const enum kill_place places[] = {KILL_HERE_KEPT_FILLED, KILL_HERE_KEPT_GROWN};
    static unsigned streams = ARENA_STREAMS + 2, events = 140;
    unsigned pass = 1;
    bool killed = true;

    for (; killed; pass++) {
        begin();
        submit(0, (struct task){.op = TASK_NOP});
        submit(0, wait_position(3, 1, 0));
        submit(1, wait_level(0));
        turn_once();
        turn_once();
        ck_assert_uint_eq(done(0), 1);
        killed = restart_kill(places[_i], pass, act_fill, &streams);
        act_fill(&streams);
        killed |= restart_kill(places[_i], pass, act_fill_events, &events);
        act_fill_events(&events);
        expect_filled(streams, events);
        ck_assert_uint_eq(done(0), 1);
        submit(3, (struct task){.op = TASK_NOP});
        submit(3, of_event(TASK_RECORD, TASK_RECORD_LEVEL, 1));
        for (unsigned i = 0; i < 5; i++)
            turn_once();
        ck_assert(done(0) == 2 && done(1) == 1 && done(3) == 2);
        restart_npud();
        expect_filled(streams, events);
        ck_assert(stream_at(0)->live->position == 2 && stream_at(1)->live->position == 1);
        ck_assert_uint_eq(the_session()->user->used[RESOURCE_STREAMS], streams);
        end();
    }
    ck_assert_uint_ge(pass, 5); /* it has grown three times, at least */
}
END_TEST

static void act_events_at_once(void *arg)
{
    struct event_obj *ev;
    int fd;

    (void)arg;
    for (uint32_t slot = 1; slot < 40; slot++)
        ck_assert_int_eq(event_obj_new(the_session(), slot & 15, 1, &ev, &fd), 0);
}

/* As much as a step changes in objects of a record that grows within it. */
START_TEST(a_record_grows_within_a_step)
{
    begin();
    act_events_at_once(NULL);
    event_obj_free(the_session(), event_at(3));
    kept_commit();
    restart_npud();
    ck_assert_ptr_null(slots_get(&the_session()->events, 3));
    for (uint32_t slot = 4; slot < 40; slot++)
        ck_assert_uint_eq(event_at(slot)->flags, slot & 15);
    end();
}
END_TEST

/* The same step has made it: it goes with the npud that has not committed. _i: how large it is. */
START_TEST(a_record_grows_before_it_is_certain)
{
    start_two_devices();
    npud_session(getpid())->protocol = PROTOCOL;
    kept_commit();
    ck_assert(restart_kill(KILL_HERE_KEPT_GROWN, (unsigned)_i, act_events_at_once, NULL));
    ck_assert_uint_eq(the_session()->events.live, 0);
    end();
}
END_TEST

/* A wait that an eviction has ended, and that its engine has not gone on with. */
START_TEST(an_outcome_is_kept)
{
    begin();
    submit_to(1, wait_position(0, 9, 0));
    act_turns(NULL);
    session_lock(the_session());
    stream_evict_waiters(the_session(), &stream_at(0)->passed, 0, ACL_ERROR_RT_INVALID_HANDLE);
    session_unlock(the_session());
    restart_npud();
    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, ACL_ERROR_RT_INVALID_HANDLE);
    end();
}
END_TEST

/* Neither the limit of a wait begins anew, nor what it waits for. */
START_TEST(a_wait_is_the_same_wait)
{
    uint64_t deadline;

    begin();
    submit_to(1, wait_position(0, 9, 3600 * NSEC_PER_SEC));
    submit_to(0, wait_level(0));
    act_turns(NULL);
    deadline = stream_at(1)->timer.deadline;
    for (unsigned i = 0; i < 3; i++) {
        restart_npud();
        act_turns(NULL);
        ck_assert_int_eq(stream_at(1)->run, RUN_PARKED);
        ck_assert_uint_eq(stream_at(1)->timer.deadline, deadline);
        ck_assert_int_eq(stream_at(0)->run, RUN_PARKED);
    }
    restart_npud();
    /* Up and down again before the stream has parked. */
    event_slot_raise(event_at(0)->shm);
    event_slot_lower(event_at(0)->shm);
    act_turns(NULL);
    ck_assert_uint_eq(done(0), 1);
    end();
}
END_TEST

/*
 * A limit that passes while there is no npud: what has come by then counts, and what has not does
 * not. which: what the stream waits for.
 */
static void let_limit_pass(int which, bool comes, bool turn)
{
    uint64_t deadline;

    begin();
    submit_to(1, which == 0 ? wait_position(0, 1, LIMIT) : wait_level(LIMIT));
    turn_once();
    ck_assert(stream_has_waited(stream_at(1)));
    deadline = stream_at(1)->timer.deadline;
    if (comes && which == 0)
        submit_to(0, (struct task){.op = TASK_NOP});
    else if (comes)
        event_slot_raise(event_at(0)->shm);
    AWAIT(clock_ns() > deadline);
    restart_npud();
    turned = turn;
    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(errors_taken, !comes);
    ck_assert(comes || last_error == ACL_ERROR_RT_TASK_TIMEOUT);
    end();
}

START_TEST(a_limit_that_passes_meanwhile)
{
    let_limit_pass(_i % 2, _i / 2 % 2, _i / 4);
}
END_TEST

/* --- rules of fault injection --- */

static void set_rule(Npud__Inject rule)
{
    uint64_t id;

    ck_assert_int_eq(inject_set(&server, &rule, &id), CAUSE_NONE);
    kept_commit();
}

static Npud__Inject make_rule(enum inject_action action)
{
    Npud__Inject rule = NPUD__INJECT__INIT;

    rule.action = (Npud__Inject__Action)action;
    rule.kind = (char *)"nop";
    rule.device = rule.stream = -1;
    return rule;
}

static void clear_rules(void)
{
    ck_assert_int_eq(inject_clear(&server, 0), CAUSE_NONE);
    kept_commit();
}

START_TEST(a_held_task_stays_held)
{
    begin();
    set_rule(make_rule(INJECT_STALL));
    for (unsigned i = 0; i < 3; i++) {
        submit_to(0, (struct task){.op = TASK_NOP});
        act_turns(NULL);
        restart_npud();
        act_turns(NULL);
        ck_assert_uint_eq(done(0), 0);
        ck_assert_int_eq(stream_at(0)->run, RUN_PARKED);
        ck_assert_uint_eq(server.inject->order[0]->live->hits, 1);
        ck_assert_uint_eq(atomic_load(&server.inject->order[0]->held.n), 1);
        ck_assert_uint_eq(atomic_load(&stream_at(0)->attach->bell->mode), DOORBELL_STRICT);
    }
    clear_rules();
    restart_npud();
    act_turns(NULL);
    ck_assert(all_done());
    ck_assert_uint_eq(server.inject->n, 0);
    ck_assert_uint_eq(atomic_load(&stream_at(0)->attach->bell->mode), DOORBELL_FREE);
    end();
}
END_TEST

START_TEST(a_rule_hits_once)
{
    enum kill_place place = (enum kill_place)_i;
    bool killed = true;

    for (unsigned pass = 1; killed; pass++) {
        Npud__Inject rule = make_rule(INJECT_FAIL);

        begin();
        rule.code = FAILED;
        rule.nth = 2;
        set_rule(rule);
        for (unsigned i = 0; i < 3; i++)
            submit_to(0, (struct task){.op = TASK_NOP});
        killed = restart_kill(place, pass, act_turns, NULL);
        take_news();
        act_turns(NULL);
        take_news();
        ck_assert(all_done());
        ck_assert_uint_eq(errors_taken, 1);
        ck_assert_uint_eq(exceptions_taken, 1);
        ck_assert_int_eq(last_error, FAILED);
        ck_assert_uint_eq(server.inject->order[0]->live->hits, 1);
        ck_assert_uint_eq(server.inject->order[0]->live->matched, 2);
        clear_rules();
        end();
    }
}
END_TEST

START_TEST(a_lost_device_stays_lost)
{
    Npud__Inject rule = make_rule(INJECT_LOSE_DEVICE);

    begin();
    submit_to(0, wait_position(1, 9, 0));
    act_turns(NULL);
    rule.device = 0;
    rule.kind = (char *)"";
    set_rule(rule);
    restart_npud();
    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(errors_taken, 1);
    ck_assert_int_eq(last_error, ACL_ERROR_RT_LOST_HEARTBEAT);
    ck_assert_uint_eq(exceptions_taken, 2); /* the device, and the task */
    ck_assert_int_eq(atomic_load(&server.devices->device[0].lost), ACL_ERROR_RT_LOST_HEARTBEAT);
    ck_assert_uint_eq(atomic_load(&stream_at(0)->attach->bell->mode), ACL_ERROR_RT_LOST_HEARTBEAT);
    clear_rules();
    restart_npud();
    submit_to(0, (struct task){.op = TASK_NOP});
    act_turns(NULL);
    ck_assert(all_done());
    take_news();
    ck_assert_uint_eq(errors_taken, 1);
    end();
}
END_TEST

static Npud__Inject losing_rule(const char *kind)
{
    Npud__Inject rule = make_rule(INJECT_LOSE_DEVICE);

    rule.device = 0;
    rule.kind = (char *)kind;
    return rule;
}

static void act_lose(void *arg)
{
    (void)arg;
    if (server.inject->n == 0) /* else the command was noted, and is answered only */
        set_rule(losing_rule(""));
}

/* By an administrator, or by a task. */
START_TEST(a_loss_is_told_once)
{
    enum kill_place place = (enum kill_place)(_i / 2);
    bool by_task = _i % 2, killed = true;

    for (unsigned pass = 1; killed; pass++) {
        begin();
        if (by_task) {
            set_rule(losing_rule("nop"));
            submit_to(0, (struct task){.op = TASK_NOP});
        }
        killed = restart_kill(place, pass, by_task ? act_turns : act_lose, NULL);
        take_news();
        if (!by_task)
            act_lose(NULL);
        act_turns(NULL);
        take_news();
        restart_npud();
        act_turns(NULL);
        take_news();
        ck_assert(all_done());
        ck_assert_uint_eq(errors_taken, by_task);
        ck_assert_uint_eq(exceptions_taken, 1 + by_task);
        ck_assert_uint_eq(server.inject->n, 1);
        clear_rules();
        end();
    }
}
END_TEST

/* One that comes later does not hear of it. */
START_TEST(a_loss_is_not_told_to_those_that_come_later)
{
    begin();
    act_lose(NULL);
    npud_session(4711)->protocol = PROTOCOL;
    atomic_store(&server.sessions->next->page->exceptions[0].wanted, 1);
    kept_commit();
    restart_npud();
    ck_assert_uint_eq(server.sessions->next->attach[0]->live->exceptions, 0);
    ck_assert_uint_eq(server.sessions->next->attach[0]->live->lost, 0);
    session_free(server.sessions->next);
    clear_rules();
    end();
}
END_TEST

/* What a client submits, and rings, while there is no npud. */
START_TEST(what_comes_meanwhile_is_found)
{
    begin();
    for (unsigned i = 0; i < 3; i++) {
        act_turns(NULL);
        for (unsigned n = 0; n < 50; n++)
            turn_once(); /* to sleep */
        submit_to(i, (struct task){.op = TASK_NOP});
        /* Its summary was taken, and its word was not. */
        if (i == 1)
            atomic_store(&stream_at(i)->attach->bell->summary, 0);
        restart_npud();
        act_turns(NULL);
        ck_assert(all_done());
        ck_assert(atomic_load(&stream_at(i)->attach->bell->word[0]) == 0);
    }
    end();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: streams");
    TCase *t = suite_case(s, "tasks", 120, NULL, NULL);

    tcase_add_loop_test(t, each_task_at_each_place, 0, SCENARIOS);
    t = suite_case(s, "control", 60, NULL, NULL);
    tcase_add_test(t, a_stuck_stream_stays);
    tcase_add_test(t, streams_are_counted);
    tcase_add_test(t, discards_are_remembered);
    tcase_add_test(t, charges_are_as_they_were);
    tcase_add_test(t, an_outcome_is_kept);
    tcase_add_test(t, a_wait_is_the_same_wait);
    tcase_add_loop_test(t, a_limit_that_passes_meanwhile, 0, 8);
    tcase_add_test(t, a_held_task_stays_held);
    tcase_add_test(t, a_lost_device_stays_lost);
    tcase_add_loop_test(t, a_loss_is_told_once, 0, 2 * KILL_PLACE_COUNT);
    tcase_add_test(t, a_loss_is_not_told_to_those_that_come_later);
    tcase_add_loop_test(t, a_rule_hits_once, 0, KILL_PLACE_COUNT);
    tcase_add_test(t, what_comes_meanwhile_is_found);
    tcase_add_loop_test(t, an_abort_is_carried_out_once, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, an_abort_drops_what_was_there, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, a_task_is_ended_once, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, a_task_that_is_ended_is_told, 0, KILL_PLACE_COUNT);
    tcase_add_loop_test(t, a_record_grows_under_its_objects, 0, 2);
    tcase_add_test(t, a_record_grows_within_a_step);
    tcase_add_loop_test(t, a_record_grows_before_it_is_certain, 1, 3);
    tcase_add_loop_test(t, objects_are_made_and_destroyed_once, 0, KILL_PLACE_COUNT);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
