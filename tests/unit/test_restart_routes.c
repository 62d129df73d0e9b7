/*
 * Routes over the end of npud: each step in which npud carries messages, and each change of a
 * route, is cut short at each place that it passes. Every message is numbered: none is lost, none
 * comes twice, and every buffer comes back.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 * Runs long: 20 s.
 */
#include "daemon/buffers/route_bell.h"
#include "tests/unit/restart_buffers.h"

static uint32_t segment;
static uint32_t source, shallow, deep; /* queues */

static void begin_queues(void)
{
    segment = make_segment_of(OWNER, 128);
    source = make_queue_of(OWNER, 32);
    shallow = make_queue_of(OWNER, 2);
    deep = make_queue_of(OWNER, 32);
    allow_map(OWNER, source, segment);
    share_queue(OWNER, shallow, READER, QUEUE_TAKE);
    share_queue(OWNER, deep, READER, QUEUE_TAKE);
}

static void bind_to(uint32_t to)
{
    put_bind(OWNER, source, to);
    expect_done(OWNER);
    ck_assert_int_eq(answer.status, ROUTE_BOUND);
}

static void unbind_from(uint32_t to)
{
    put_unbind(OWNER, source, to);
    expect_done(OWNER);
    ck_assert_int_eq(answer.status, ROUTE_UNBOUND);
}

static void put_numbers(uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++)
        put_number(OWNER, source, segment, n);
    ring_bell(source);
}

static void take(uint32_t queue, uint64_t first, uint64_t last)
{
    take_numbers(READER, queue, first, last);
}

/* --- one route --- */

static void begin_one(void)
{
    begin_queues();
    bind_to(deep);
}

static void act_put(void)
{
    put_numbers(1, 10);
}

static void end_one(void)
{
    take(deep, 1, 10);
    expect_no_buffer();
}

/* Most of them into a backlog. */
static void begin_full(void)
{
    begin_queues();
    bind_to(shallow);
}

static void end_full(void)
{
    take(shallow, 1, 10);
    expect_no_buffer();
}

/* Out of a backlog. */
static void begin_backlog(void)
{
    begin_full();
    put_numbers(1, 10);
    npud_turn();
}

static void act_take(void)
{
    ck_assert_uint_eq(take_number(READER, shallow), 1);
    ck_assert_uint_eq(take_number(READER, shallow), 2);
}

static void end_backlog(void)
{
    take(shallow, 3, 10);
    expect_no_buffer();
}

/* --- two routes: references, and a backlog of one of them --- */

static void begin_two(void)
{
    begin_queues();
    bind_to(deep);
    bind_to(shallow);
}

static void end_two(void)
{
    take(deep, 1, 10);
    take(shallow, 1, 10);
    expect_no_buffer();
}

static void begin_two_backlogs(void)
{
    begin_two();
    put_numbers(1, 10);
    npud_turn();
}

static void end_two_backlogs(void)
{
    take(deep, 1, 10);
    take(shallow, 3, 10);
    expect_no_buffer();
}

/* --- changes --- */

static void act_bind(void)
{
    put_bind(OWNER, source, shallow);
}

static void end_bind(void)
{
    put_numbers(1, 6);
    npud_turn();
    take(deep, 1, 6);
    take(shallow, 1, 6);
    expect_no_buffer();
}

static void act_unbind(void)
{
    put_unbind(OWNER, source, shallow);
}

static void end_unbind(void)
{
    put_numbers(11, 14);
    npud_turn();
    take(deep, 1, 14);
    take(shallow, 1, 10);
    expect_no_buffer();
}

/* It is bound again while it has messages: those in between are not for it. */
static void begin_gap(void)
{
    begin_two_backlogs();
    unbind_from(shallow);
    put_numbers(11, 40); /* some of them into a backlog */
    npud_turn();
}

static void end_gap(void)
{
    put_numbers(41, 44);
    npud_turn();
    restart_npud();
    npud_turn();
    take(deep, 1, 44);
    for (uint64_t n = 1; n <= 44; n++)
        if (n <= 10 || n > 40) {
            uint64_t number = take_number(READER, shallow);

            npud_turn();
            ck_assert_uint_eq(number, n);
        }
    npud_turn();
    expect_no_buffer();
}

static void act_bell(void)
{
    put_bell(READER, ring_of(shallow)->number);
}

static void expect_reader(void)
{
    expect_answer(READER);
    ck_assert_uint_eq(answer.n_fds, 1);
}

/* --- ends --- */

/* With messages in its backlog and in its ring, the destination is destroyed. */
static void begin_unbound(void)
{
    begin_two_backlogs();
    unbind_from(shallow);
}

static void act_destroy(void)
{
    put_destroy_queue(OWNER, shallow);
}

static void end_destroy(void)
{
    take(deep, 1, 10);
    expect_no_buffer();
}

/* A source whose sessions die is emptied first; what is in backlogs is delivered. */
static void begin_owned(void)
{
    begin_two_backlogs();
    for (uint64_t n = 11; n <= 20; n++)
        put_number(OWNER, source, segment, n);
}

static void act_owner_dies(void)
{
    kill_process(OWNER);
    hang_up(OWNER);
}

static void end_owner(void)
{
    take(deep, 1, 20);
    take(shallow, 1, 20);
    expect_no_buffer();
}

static void act_all_die(void)
{
    act_owner_dies();
    kill_process(READER);
    hang_up(READER);
}

/* The reader loses its right to a destination with a backlog: its ring moves. */
static void act_revoke(void)
{
    put_grant_queue(OWNER, shallow, READER->pid, 0);
}

static void end_revoke(void)
{
    take(deep, 1, 10);
    take_numbers(OWNER, shallow, 1, 10);
    expect_no_buffer();
}

static const struct cut_short cuts[] = {
    {begin_one, act_put, nothing, end_one},
    {begin_full, act_put, nothing, end_full},
    {begin_backlog, act_take, nothing, end_backlog},
    {begin_two, act_put, nothing, end_two},
    {begin_two_backlogs, act_take, nothing, end_two_backlogs},
    {begin_one, act_bind, expect_owner, end_bind},
    {begin_two_backlogs, act_unbind, expect_owner, end_unbind},
    {begin_gap, act_bind, expect_owner, end_gap},
    {begin_two, act_bell, expect_reader, nothing},
    {begin_unbound, act_destroy, expect_owner, end_destroy},
    {begin_owned, act_owner_dies, nothing, end_owner},
    {begin_owned, act_all_die, nothing, nothing},
    {begin_two_backlogs, act_revoke, expect_owner, end_revoke},
};
#define CUTS (sizeof(cuts) / sizeof(cuts[0]))

START_TEST(a_step_is_cut_short)
{
    cut_short(&cuts[_i]);
}
END_TEST

START_TEST(all_is_as_it_was)
{
    begin_clients();
    begin_gap();
    for (unsigned i = 0; i < 50; i++) {
        uint32_t q = make_queue_of(OWNER, 4);

        bind_to(q);
        if (i % 2)
            unbind_from(q);
    }
    expect_the_same(5);
    take(deep, 1, 40);
    take(shallow, 1, 10);
    end_all();
}
END_TEST

/* Without memory for their records messages stay in their source, until there is some. */
START_TEST(messages_wait_for_memory)
{
    begin_clients();
    begin_full();
    restart_lacks = KEPT_MESSAGE;
    put_numbers(1, 10);
    npud_turn();
    /* Two in the other ring, and one for which there was a record. */
    ck_assert_uint_eq(queue_fill(ring_of(source)), 7);
    restart_lacks = KEPT_KIND_MAX;
    if (_i == 0)
        restart_npud();
    else
        users_tell_of_memory(&server.users);
    npud_turn();
    ck_assert_uint_eq(queue_fill(ring_of(source)), 0);
    restart_npud();
    end_full();
    end_all();
}
END_TEST

/*
 * 0.9.0 does not know the bells of sessions: it has let go of one, and left its key in the record.
 * The session gets another one with another ring, and what it has put is carried.
 */
START_TEST(a_bell_that_0_9_0_has_let_go_is_made_anew)
{
    uint32_t number;
    int fd;

    begin_clients();
    begin_full();
    number = ring_of(source)->number;
    ck_assert_int_eq(route_bell_get(queue_with_id(source)->attached, &fd), CAUSE_NONE);
    put_numbers(1, 5);
    kept_commit();
    kept_close(fd);
    kept_commit();
    restart_npud();
    ck_assert_ptr_null(queue_with_id(source)->attached->bell);
    ck_assert_uint_ne(ring_of(source)->number, number);
    npud_turn();
    put_numbers(6, 10);
    restart_npud();
    end_full();
    end_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: routes");
    TCase *t = suite_case(s, "routes", 300, NULL, NULL);

    tcase_add_test(t, all_is_as_it_was);
    tcase_add_loop_test(t, messages_wait_for_memory, 0, 2);
    tcase_add_test(t, a_bell_that_0_9_0_has_let_go_is_made_anew);
    tcase_add_loop_test(t, a_step_is_cut_short, 0, CUTS);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
