/*
 * daemon/value with real engines: what clients write that no library would, and what must be gone
 * afterwards.
 */
#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/value.h"
#include "npud.h"
#include "memory_at.h"

static const char *const settings[] = {"engine.spin_us=0", "stream.depth=64", NULL};

#define WAITERS 300  /* more than are looked at in one step */
#define MANY    3000 /* than are looked at before a control thread comes in */

static struct session *session;
static struct mem *memory;
static _Atomic uint64_t *words; /* as npud sees them */

static void start_session(void)
{
    npud_start(settings);
    session = npud_session(1);
    ck_assert_int_eq(
        allocation_new(session, devices_get(server.devices, 0), MEM_DEVICE, 8192, &memory), 0);
    words = memory_at(memory, 0);
    ck_assert_ptr_nonnull(words);
}

/* No waiter may be left to be counted. */
static void end_session(void)
{
    session_free(session);
    npud_stop();
}

static uint32_t count_waiters(void)
{
    return atomic_load(&session->page->value_waiters);
}

static struct task on_word(enum task_op op, uint64_t offset, uint64_t value)
{
    return (struct task){.op = (uint8_t)op,
                         .flags = op == TASK_VALUE_WAIT, /* equal */
                         .object = memory->slot.number,
                         .generation = slot_generation(memory),
                         .value = {offset, value}};
}

static struct task make_reduce(uint64_t dst, uint64_t src, uint64_t size, uint32_t kind,
                               uint32_t type)
{
    return (struct task){.op = TASK_REDUCE,
                         .object = memory->slot.number,
                         .generation = slot_generation(memory),
                         .reduce = {.dst_offset = dst,
                                    .src_offset = src,
                                    .size = size,
                                    .src = memory->slot.number,
                                    .src_generation = slot_generation(memory),
                                    .kind = kind,
                                    .type = type}};
}

static void expect_error(struct stream *s, struct task task, int32_t error)
{
    client_wait(s, client_submit(s, task));
    ck_assert_int_eq(stream_error_code(atomic_exchange(&s->ctrl->error, 0)), error);
}

static void park_all(struct stream **s, unsigned n, uint64_t offset)
{
    for (unsigned i = 0; i < n; i++) {
        s[i] = npud_stream(session, i % 2);
        client_submit(s[i], on_word(TASK_VALUE_WAIT, offset, 7));
    }
    AWAIT(atomic_load(&memory->pages->values.n) == n);
    ck_assert_uint_eq(count_waiters(), n);
}

START_TEST(forged_words)
{
    static const uint64_t offsets[] = {1, 4, 7, 8185, 8188, 8191, UINT64_MAX, UINT64_MAX - 7 + 1};
    static const uint64_t outside[] = {8192, 1 << 20, UINT64_C(1) << 62, UINT64_MAX - 7};
    struct stream *s = npud_stream(session, 0);
    struct task t;

    for (unsigned i = 0; i < 8; i++) {
        int32_t error = offsets[i] % 8 ? ACL_ERROR_RT_PARAM_INVALID : ACL_ERROR_RT_SYS_DMA;

        expect_error(s, on_word(TASK_VALUE_WRITE, offsets[i], 1), error);
        expect_error(s, on_word(TASK_VALUE_WAIT, offsets[i], 1), error);
    }
    for (unsigned i = 0; i < 4; i++) {
        expect_error(s, on_word(TASK_VALUE_WRITE, outside[i], 1), ACL_ERROR_RT_SYS_DMA);
        expect_error(s, on_word(TASK_VALUE_WAIT, outside[i], 1), ACL_ERROR_RT_SYS_DMA);
    }
    t = on_word(TASK_VALUE_WAIT, 0, 1);
    t.flags = 4;
    expect_error(s, t, ACL_ERROR_RT_PARAM_INVALID);
    t.flags = 255;
    expect_error(s, t, ACL_ERROR_RT_PARAM_INVALID);
    t = on_word(TASK_VALUE_WAIT, 0, 1);
    t.generation++;
    expect_error(s, t, ACL_ERROR_RT_SYS_DMA);
    t.object = 12345;
    expect_error(s, t, ACL_ERROR_RT_SYS_DMA);
    t.op = TASK_VALUE_WRITE;
    expect_error(s, t, ACL_ERROR_RT_SYS_DMA);
    expect_error(s, on_word(TASK_VALUE_WRITE, 8184, 7), 0);
    expect_error(s, on_word(TASK_VALUE_WAIT, 8184, 7), 0);
    ck_assert_uint_eq(count_waiters(), 0);
}
END_TEST

START_TEST(forged_reductions)
{
    static const uint32_t kinds[] = {0, 9, 14, UINT32_MAX},
                          types[] = {5, 9, 26, 28, 30, UINT32_MAX};
    struct stream *s = npud_stream(session, 0);

    for (unsigned i = 0; i < 4; i++)
        expect_error(s, make_reduce(0, 0, 8, kinds[i], ACL_FLOAT), ACL_ERROR_RT_PARAM_INVALID);
    for (unsigned i = 0; i < 6; i++)
        expect_error(s, make_reduce(0, 0, 8, 10, types[i]), ACL_ERROR_RT_PARAM_INVALID);
    expect_error(s, make_reduce(0, 0, 8, 13, ACL_INT4), ACL_ERROR_RT_PARAM_INVALID);
    expect_error(s, make_reduce(0, 0, 7, 10, ACL_FLOAT), ACL_ERROR_RT_PARAM_INVALID);
    expect_error(s, make_reduce(2, 0, 8, 10, ACL_FLOAT), ACL_ERROR_RT_PARAM_INVALID);
    expect_error(s, make_reduce(0, 1, 8, 10, ACL_BF16), ACL_ERROR_RT_PARAM_INVALID);
    expect_error(s, make_reduce(8192, 0, 4, 10, ACL_FLOAT), ACL_ERROR_RT_SYS_DMA);
    expect_error(s, make_reduce(0, 8188, 8, 10, ACL_FLOAT), ACL_ERROR_RT_SYS_DMA);
    expect_error(s, make_reduce(UINT64_MAX - 3, 0, 8, 10, ACL_FLOAT), ACL_ERROR_RT_SYS_DMA);
    expect_error(s, make_reduce(0, 0, UINT64_MAX - 3, 10, ACL_FLOAT), ACL_ERROR_RT_SYS_DMA);
    expect_error(s, make_reduce(0, 0, 0, 10, ACL_FLOAT), 0);
    expect_error(s, make_reduce(0, 0, 8192, 10, ACL_INT8), 0);
}
END_TEST

/* More than one step of looking at them; those whose word it is not stay. */
START_TEST(one_write_frees_all_who_wait_for_it)
{
    static struct stream *s[WAITERS], *other[WAITERS];
    struct stream *writer = npud_stream(session, 0);

    park_all(s, WAITERS, 4096);
    for (unsigned i = 0; i < WAITERS; i++) {
        other[i] = npud_stream(session, i % 2);
        client_submit(other[i], on_word(TASK_VALUE_WAIT, 4088 + 16 * (i % 2), 7));
    }
    AWAIT(atomic_load(&memory->pages->values.n) == 2 * WAITERS);
    client_wait(writer, client_submit(writer, on_word(TASK_VALUE_WRITE, 4096, 6)));
    ck_assert_uint_eq(atomic_load(&memory->pages->values.n), 2 * WAITERS);
    client_wait(writer, client_submit(writer, on_word(TASK_VALUE_WRITE, 4096, 7)));
    for (unsigned i = 0; i < WAITERS; i++)
        client_wait(s[i], atomic_load(&s[i]->ctrl->tail) - 1);
    ck_assert_uint_eq(atomic_load(&memory->pages->values.n), WAITERS);
    ck_assert_uint_eq(count_waiters(), WAITERS);
    atomic_store(&words[4088 / 8], 7);
    atomic_store(&words[4104 / 8], 7);
    value_written(memory, 4095, 10); /* a byte of the one, a byte of the other */
    for (unsigned i = 0; i < WAITERS; i++)
        client_wait(other[i], atomic_load(&other[i]->ctrl->tail) - 1);
    ck_assert_uint_eq(count_waiters(), 0);
}
END_TEST

/* The stream that has written is dropped before all streams that wait for it were looked at. */
START_TEST(a_writer_that_is_dropped_wakes_all_the_same)
{
    static struct stream *s[MANY];
    struct stream *writer = npud_stream(session, 0);

    park_all(s, MANY, 0);
    client_submit(writer, on_word(TASK_VALUE_WRITE, 0, 7));
    if (_i) /* at any moment */
        AWAIT(atomic_load(&words[0]) == 7);
    stream_abort(writer, 0, 0);
    if (atomic_load(&words[0]) != 7) {
        ck_assert_int_eq(_i, 0);
        ck_assert_uint_eq(count_waiters(), MANY);
        return;
    }
    npud_turn(); /* in steps of the session */
    for (unsigned i = 0; i < MANY; i++)
        client_wait(s[i], atomic_load(&s[i]->ctrl->tail) - 1);
    ck_assert_uint_eq(count_waiters(), 0);
}
END_TEST

START_TEST(dropped_waiters_do_not_count)
{
    static struct stream *s[WAITERS];

    park_all(s, WAITERS, 8);
    for (unsigned i = 0; i < WAITERS; i++) {
        if (i % 2)
            stream_abort(s[i], 0, 0);
        else
            stream_free(s[i]);
    }
    ck_assert_uint_eq(atomic_load(&memory->pages->values.n), 0);
    ck_assert_uint_eq(count_waiters(), 0);
    /* and the place can be waited for again */
    client_submit(s[1], on_word(TASK_VALUE_WAIT, 8, 7));
    AWAIT(count_waiters() == 1);
}
END_TEST

START_TEST(freed_memory_fails_all)
{
    static struct stream *s[WAITERS];

    park_all(s, WAITERS, 8);
    allocation_free(memory);
    for (unsigned i = 0; i < WAITERS; i++) {
        client_wait(s[i], atomic_load(&s[i]->ctrl->tail) - 1);
        ck_assert_int_eq(stream_error_code(atomic_load(&s[i]->ctrl->error)), ACL_ERROR_RT_SYS_DMA);
    }
    ck_assert_uint_eq(count_waiters(), 0);
}
END_TEST

/* The source of a copy goes while the streams that wait for its destination are looked at. */
START_TEST(freed_source_leaves_nobody_waiting)
{
    static struct stream *s[WAITERS];
    struct stream *copier = npud_stream(session, 0);
    struct mem *source;
    struct task copy = {.op = TASK_COPY};
    _Atomic uint64_t *from;

    ck_assert_int_eq(
        allocation_new(session, devices_get(server.devices, 0), MEM_DEVICE, 4096, &source), 0);
    from = memory_at(source, 0);
    atomic_store(from, 7);
    park_all(s, WAITERS, 0);
    copy.object = memory->slot.number;
    copy.generation = slot_generation(memory);
    copy.copy.size = 8;
    copy.copy.src = source->slot.number;
    copy.copy.src_generation = slot_generation(source);
    client_submit(copier, copy);
    AWAIT(atomic_load(&words[0]) == 7);
    allocation_free(source);
    for (unsigned i = 0; i < WAITERS; i++)
        client_wait(s[i], atomic_load(&s[i]->ctrl->tail) - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("value");
    TCase *all = suite_case(suite, "values", 60, start_session, end_session);

    tcase_add_test(all, forged_words);
    tcase_add_test(all, forged_reductions);
    tcase_add_test(all, one_write_frees_all_who_wait_for_it);
    tcase_add_loop_test(all, a_writer_that_is_dropped_wakes_all_the_same, 0, 6);
    tcase_add_test(all, dropped_waiters_do_not_count);
    tcase_add_test(all, freed_memory_fails_all);
    tcase_add_test(all, freed_source_leaves_nobody_waiting);
    return run_suite(suite);
}
