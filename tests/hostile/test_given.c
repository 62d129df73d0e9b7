/*
 * A client that changes entries of its ring whose work npud has given to a device ahead of their
 * turn (tests/common/nested.h): what it makes of them fails by name, and holds no place of the
 * device. There are more rounds than places: with one that stays away in each, the last ones would
 * wait for ever.
 *
 * Skipped under chaos, and over CUDA: the inner npud is stopped meanwhile.
 * Skipped under TSan: shared memory is written that is read meanwhile.
 */
#include "tests/common/harness.h"

#include <signal.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "proto/shm/executor_shm.h"
#include "tests/common/nested.h"
#include "tests/common/proc.h"
#include "tests/common/raw.h"

#define BYTES  (64u << 10)
#define ROUNDS (EXECUTOR_LANES + 6)
#define GIVEN  3u /* by one task, and two behind it */

static struct raw raw;
static struct raw_object memory, other;

/* --- what becomes of the last entry --- */

static void change_op(struct task *t)
{
    t->op = TASK_NOP;
}

static void change_size(struct task *t)
{
    t->set.size = 8;
}

static void change_memory(struct task *t)
{
    t->object = other.slot;
    t->generation = other.generation;
}

static void change_to_host(struct task *t)
{
    t->object = 0xffff;
}

static void change_to_graph(struct task *t)
{
    *t = (struct task){.sequence = t->sequence, .op = TASK_GRAPH, .graph = {.count = 1}};
}

static void change_to_wait(struct task *t)
{
    *t = (struct task){.sequence = t->sequence,
                       .op = TASK_VALUE_WAIT,
                       .object = memory.slot,
                       .generation = memory.generation};
}

static void take_back(struct task *t)
{
    atomic_store(&t->sequence, 0);
}

static const struct attack {
    void (*change)(struct task *entry);
    int32_t ends; /* 0: it is not there any more */
} attacks[] = {
    {change_op, ACL_ERROR_RT_PARAM_INVALID},
    {change_size, ACL_ERROR_RT_PARAM_INVALID},
    {change_memory, ACL_ERROR_RT_PARAM_INVALID},
    {change_to_host, ACL_ERROR_RT_SYS_DMA},
    {change_to_graph, ACL_ERROR_RT_PARAM_INVALID},
    {change_to_wait, ACL_ERROR_RT_PARAM_INVALID},
    {take_back, 0},
};

/* --- the client; its streams: [0] attacks, [1] is a probe --- */

/* What was submitted before has been looked at. */
static void take_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        raw_put(&raw, &raw.stream[1], &(struct task){.op = TASK_DELAY});
        raw_ring(&raw, &raw.stream[1]);
        raw_wait(&raw.stream[1]);
    }
}

static void put_set(struct raw_stream *s)
{
    raw_put(&raw, s,
            &(struct task){.op = TASK_SET,
                           .object = memory.slot,
                           .generation = memory.generation,
                           .set = {.size = BYTES, .value = 1}});
}

static int32_t error_of(const struct raw_stream *s)
{
    return stream_error_code(atomic_load(&s->ctrl->error));
}

static void attack_once(const struct attack *a, unsigned round)
{
    struct raw_stream *s = &raw.stream[0];
    struct task *last;

    atomic_store(&s->ctrl->error, 0);
    raw_put(&raw, s,
            &(struct task){.op = TASK_WAIT_POS,
                           .object = raw.stream[1].slot,
                           .wait = {.target = raw.stream[1].tail + 1}});
    for (unsigned i = 0; i < GIVEN; i++)
        put_set(s);
    last = &s->ring[(s->tail - 1) & (raw.depth - 1)];
    child_stop(nested_pid());
    raw_ring(&raw, s);
    take_turns();
    a->change(last);
    ck_assert_int_eq(kill(nested_pid(), SIGCONT), 0);
    if (a->ends == 0) {
        EVENTUALLY(atomic_load(&s->ctrl->done) == s->tail - 1, "round %u: it does not go on",
                   round);
        take_turns();
        atomic_store(&last->sequence, s->tail);
        raw_ring(&raw, s);
    }
    EVENTUALLY(raw_passed(s), "round %u: it has no place any more", round);
    ck_assert_msg(error_of(s) == a->ends, "round %u: error %d", round, error_of(s));
}

START_TEST(an_entry_is_changed_that_was_given)
{
    if (nested_pid() == 0)
        return;
    raw = (struct raw){.socket = -1};
    ck_assert(raw_open(&raw) && raw_open_device(&raw, 0));
    for (unsigned i = 0; i < 2; i++)
        ck_assert(raw_create_stream(&raw, 0));
    ck_assert(raw_malloc(&raw, false, BYTES, &memory) && raw_malloc(&raw, false, BYTES, &other));
    for (unsigned i = 0; i < ROUNDS; i++)
        attack_once(&attacks[_i], i);
    raw_close(&raw);
    npud_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("given");

    tcase_add_loop_test(suite_case(suite, "given", 30, npud_setup, npud_teardown),
                        an_entry_is_changed_that_was_given, 0,
                        sizeof(attacks) / sizeof(attacks[0]));
    return run_suite(suite);
}
