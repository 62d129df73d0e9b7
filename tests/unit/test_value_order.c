/*
 * What others do while an engine, or the control thread, finds that nobody is left who could write
 * a word that streams wait for: before each lock of a list that is taken meanwhile, once. Who is
 * seen to wait after that waits on. The engines have no thread here; each turn is a call.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/control/session_idle.h"
#include "daemon/engine/value.h"
#include "daemon/memory/export.h"
#include "engine_steps.h"
#include "memory_at.h"
#include "npud.h"
#include "tests/unit/hooks/waitlist.h"
#undef pthread_mutex_lock
#undef pthread_mutex_unlock

#define BYTES  4096
#define FIRST  11 /* is the one that leaves */
#define SECOND 12 /* has made the memory */
#define THIRD  13
#define FOURTH 14 /* comes later */
#define TOLD   ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
#define TURNS  8

/* A session that has the memory, and its stream. */
static struct sharing {
    struct session *session;
    struct mem *mem;
    struct stream *stream;
} first, second, third, fourth;

static struct memory_export *export;

/* --- steps --- */

enum wait_state { BEFORE, WAITS, LET_GO };

static struct {
    void (*act)(void); /* NULL: it is done */
    unsigned locks_left;
    bool locked;
    enum wait_state second, third; /* when it is done */
} step;

static enum wait_state state_of(const struct sharing *s)
{
    if (s->stream->waiter.list)
        return WAITS;
    return stream_is_let_go(s->stream) || client_passed(s->stream, 0) ? LET_GO : BEFORE;
}

static void do_act(void)
{
    void (*act)(void) = step.act;

    step.act = NULL;
    act();
    step.second = state_of(&second);
    step.third = state_of(&third);
}

int list_lock(pthread_mutex_t *lock)
{
    if (step.act && !step.locked && step.locks_left-- == 0)
        do_act();
    step.locked = true;
    return pthread_mutex_lock(lock);
}

int list_unlock(pthread_mutex_t *lock)
{
    step.locked = false;
    return pthread_mutex_unlock(lock);
}

/* --- sessions --- */

static void turn_engine(void)
{
    for (unsigned i = 0; i < TURNS; i++)
        engine_turn(devices_get(server.devices, 0)->engine);
}

static void turn_all(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        turn_engine();
        npud_turn();
    }
}

static void join(struct sharing *s, pid_t pid)
{
    *s = (struct sharing){.session = npud_session(pid)};
    s->stream = npud_stream(s->session, 0);
}

static void import(struct sharing *s)
{
    ck_assert_int_eq(
        memory_export_import(s->session, (struct export_name){.number = export->number}, &s->mem),
        0);
}

static void begin(void)
{
    npud_start((const char *const[]){"engine.spin_us=0", "stream.depth=64", NULL});
    join(&first, FIRST);
    join(&second, SECOND);
    join(&third, THIRD);
    join(&fourth, FOURTH);
    ck_assert_int_eq(allocation_new(second.session, devices_get(server.devices, 0), MEM_DEVICE,
                                    BYTES, &second.mem),
                     0);
    ck_assert_int_eq(memory_export_new(second.mem, BYTES, true, true, &export), 0);
    import(&first);
    import(&third);
}

static void end(void)
{
    session_free(fourth.session);
    session_free(third.session);
    session_free(second.session);
    if (first.session)
        session_free(first.session);
    npud_stop();
}

/* --- what they do --- */

static uint64_t word_of(const struct sharing *s)
{
    return s == &third ? 64 : 8;
}

static void submit_wait(struct sharing *s)
{
    client_submit(s->stream, (struct task){.op = TASK_VALUE_WAIT,
                                           .flags = 1,
                                           .object = s->mem->slot.number,
                                           .generation = slot_generation(s->mem),
                                           .value = {word_of(s), 7}});
}

/* npud is not told. */
static void store_word(const struct sharing *s)
{
    atomic_store((_Atomic uint64_t *)memory_at(s->mem, word_of(s)), 7);
}

static int error_of(const struct sharing *s)
{
    return stream_error_code(client_error(s->stream));
}

static void fourth_imports(void)
{
    import(&fourth);
}

static void first_comes_back(void)
{
    ck_assert(session_idle_end(first.session));
}

static void second_expects_others(void)
{
    pages_expect(second.mem->pages);
}

static void third_is_let_go(void)
{
    store_word(&third);
    value_written(second.mem, word_of(&third), 8);
}

static void first_ends(void)
{
    session_free(first.session);
    first.session = NULL;
}

static void first_finalizes(void)
{
    ck_assert_int_eq(session_idle_begin(first.session), CAUSE_NONE);
    turn_all();
}

/* --- in the middle of an answer --- */

static const struct row {
    void (*leaves)(void);
    void (*act)(void); /* after which somebody can write */
} rows[] = {
    {first_ends, fourth_imports},        {first_finalizes, fourth_imports},
    {first_finalizes, first_comes_back}, {first_finalizes, second_expects_others},
    {first_ends, third_is_let_go},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void expect_told(const struct sharing *s)
{
    ck_assert_int_eq(state_of(s), LET_GO);
    ck_assert_int_eq(error_of(s), TOLD);
}

static void expect_end(const struct sharing *s, enum wait_state seen, unsigned at)
{
    if (seen == LET_GO)
        expect_told(s);
    else
        ck_assert_msg(state_of(s) == WAITS, "%d does not wait after what came before lock %u",
                      s->session->pid, at);
}

static void expect_ends(const struct row *row, unsigned at)
{
    expect_end(&second, step.second, at);
    if (row->act != third_is_let_go)
        expect_end(&third, step.third, at);
}

/* decide: what leads to the answer. False: that was over before so many locks were taken. */
static bool act_before_lock(const struct row *row, void (*decide)(void), unsigned at)
{
    bool acted;

    step.locks_left = at;
    step.act = row->act;
    decide();
    acted = !step.act;
    step.act = NULL;
    turn_all();
    if (acted) {
        expect_ends(row, at);
    } else {
        expect_told(&second);
        expect_told(&third);
    }
    return acted;
}

/* The wait of the second is the last one that there can be. */
START_TEST(a_wait_begins)
{
    bool acted = true;

    for (unsigned at = 0; acted; at++) {
        begin();
        rows[_i].leaves();
        submit_wait(&third);
        turn_all();
        ck_assert_int_eq(state_of(&third), WAITS);
        submit_wait(&second);
        acted = act_before_lock(&rows[_i], turn_engine, at);
        end();
    }
}
END_TEST

/* An engine lets the third go while the control thread finds that the first has ended. */
START_TEST(the_last_one_leaves)
{
    bool acted = true;

    for (unsigned at = 0; acted; at++) {
        begin();
        submit_wait(&second);
        submit_wait(&third);
        turn_all();
        acted = act_before_lock(&rows[ROWS - 1], first_ends, at);
        end();
    }
}
END_TEST

/* --- words that have come, and npud was not told --- */

static void expect_that_third_goes_on(void)
{
    turn_all();
    ck_assert_int_eq(state_of(&third), LET_GO);
    ck_assert_int_eq(error_of(&third), 0);
    ck_assert_int_eq(state_of(&second), WAITS);
    /* Until it waits again. */
    atomic_store((_Atomic uint64_t *)memory_at(third.mem, word_of(&third)), 0);
    submit_wait(&third);
    turn_all();
    expect_told(&second);
    ck_assert_int_eq(error_of(&third), TOLD);
}

/* Who goes on because of the last word of who has left may write what the others wait for. */
START_TEST(a_last_word_lets_one_go)
{
    begin();
    submit_wait(&third);
    submit_wait(&second);
    turn_all();
    store_word(&third);
    first_ends();
    expect_that_third_goes_on();
    end();
}
END_TEST

/* The same when the last wait begins after it. */
START_TEST(a_wait_begins_after_the_last_word)
{
    begin();
    submit_wait(&third);
    turn_all();
    first_ends();
    turn_all();
    store_word(&third);
    submit_wait(&second);
    expect_that_third_goes_on();
    end();
}
END_TEST

/* --- while waits fail in steps --- */

/* Nobody is left for those that wait when that is decided; one that comes later has itself. */
START_TEST(who_comes_meanwhile_waits)
{
    struct pages *p;

    begin();
    p = second.mem->pages;
    submit_wait(&second);
    submit_wait(&third);
    turn_all();
    first_ends();
    ck_assert(job_cancel(&p->look));
    ck_assert(p->look.run(&p->look));
    ck_assert(pages_are_deserted(p));
    import(&fourth);
    submit_wait(&fourth);
    turn_engine();
    ck_assert_int_eq(state_of(&fourth), WAITS);
    job_list(&p->look);
    turn_all();
    expect_told(&second);
    expect_told(&third);
    ck_assert_int_eq(state_of(&fourth), WAITS);
    ck_assert(!pages_are_deserted(p));
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("value_order");
    TCase *t = suite_case(s, "value_order", 60, NULL, NULL);

    tcase_add_loop_test(t, a_wait_begins, 0, ROWS);
    tcase_add_test(t, the_last_one_leaves);
    tcase_add_test(t, a_last_word_lets_one_go);
    tcase_add_test(t, a_wait_begins_after_the_last_word);
    tcase_add_test(t, who_comes_meanwhile_waits);
    return run_suite(s);
}
