/*
 * Pools over the end of npud: segments, the sessions that map them, orphans, processes that outlive
 * their sessions, and buffers that npud, or a session that dies, has half in hand.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_buffers.h"
/* The reader may put, too, and has the segment that the numbers 1 to 4 in the queue are of. */
static uint32_t begin_with_numbers(uint32_t *segment)
{
    uint32_t queue;

    begin_clients();
    *segment = make_segment_of(OWNER, 64);
    queue = make_queue_of(OWNER, 8);
    share_queue(OWNER, queue, READER, QUEUE_TAKE | QUEUE_PUT);
    allow_map(OWNER, queue, *segment);
    map_segment(READER, *segment);
    for (uint64_t n = 1; n <= 4; n++)
        put_number(OWNER, queue, *segment, n);
    return queue;
}

START_TEST(segments_are_as_they_were)
{
    uint32_t first, queue;

    begin_clients();
    first = make_segment_of(OWNER, 64);
    queue = make_queue_of(OWNER, 64);
    share_queue(OWNER, queue, READER, QUEUE_TAKE | QUEUE_PUT);
    for (unsigned i = 0; i < 50; i++) {
        uint32_t id = make_segment_of(OWNER, 1 + i);

        allow_map(OWNER, queue, id);
        if (i % 3 == 0)
            map_segment(READER, id);
        if (i < 20)
            put_number(OWNER, queue, first, i + 1);
    }
    allow_map(OWNER, queue, first);
    expect_the_same(3);
    /* Numbers and ids are not given out again. */
    ck_assert_uint_gt(make_segment_of(WRITER, 4), first);
    take_numbers(OWNER, queue, 1, 20);
    expect_no_buffer();
    end_all();
}
END_TEST

/* The owner has gone; what readers hold, and what is in rings, stays until it is dropped. */
START_TEST(an_orphan_stays_while_it_is_used)
{
    uint32_t segment, queue, held;

    queue = begin_with_numbers(&segment);
    held = take_message(ring_of(queue), session_of(READER));
    ck_assert_uint_ne(held, 0);
    kill_process(OWNER);
    hang_up(OWNER);
    npud_turn();
    ck_assert_uint_eq(server.pools->n_orphans, 1);
    expect_the_same(3);
    ck_assert_uint_eq(server.pools->n_orphans, 1);
    ck_assert_uint_eq(number_of(held), 1);
    take_numbers(READER, queue, 2, 4);
    ck_assert_uint_eq(server.pools->n_orphans, 1);
    drop_message(held);
    restart_npud();
    npud_turn();
    ck_assert_uint_eq(server.pools->n_orphans, 0);
    end_all();
}
END_TEST

/* The client hangs up, and its process lives on. */
static void end_session(struct client *c)
{
    hang_up(c);
    for (unsigned i = 0; i < 1000 && session_of(c); i++)
        schedule_round(&server.schedule, server.base, true);
    ck_assert_ptr_null(session_of(c));
}

/* What the process of a session that has ended holds is not another's before the process ends. */
START_TEST(a_survivor_keeps_what_it_holds)
{
    uint32_t segment, queue, held;

    queue = begin_with_numbers(&segment);
    held = take_message(ring_of(queue), session_of(READER));
    end_session(READER);
    ck_assert_ptr_nonnull(server.survivors);
    expect_the_same(3);
    ck_assert_uint_eq(mbuf_state(find_buffer(held)->word), MBUF_HELD);
    ck_assert_ptr_nonnull(peer_left(&server, READER->peer));
    restart_npud();
    kill_process(READER);
    npud_turn();
    ck_assert_ptr_null(server.survivors);
    ck_assert_uint_eq(mbuf_state(find_buffer(held)->word), MBUF_FREE);
    take_numbers(OWNER, queue, 2, 4);
    expect_no_buffer();
    end_all();
}
END_TEST

/*
 * Without memory for what is kept of a process that outlives its session, what the process holds is
 * given back with the session, and a later npud finds nothing that it does not know.
 */
START_TEST(a_survivor_without_memory_holds_nothing)
{
    static const enum kept_kind lacks[] = {KEPT_PEER, KEPT_SURVIVOR};
    uint32_t segment, queue;

    queue = begin_with_numbers(&segment);
    ck_assert_uint_ne(take_message(ring_of(queue), session_of(READER)), 0);
    restart_lacks = lacks[_i];
    end_session(READER);
    restart_lacks = KEPT_KIND_MAX;
    expect_the_same(2);
    kill_process(READER);
    npud_turn();
    take_numbers(OWNER, queue, 2, 4);
    expect_no_buffer();
    end_all();
}
END_TEST

/* The owner, or a reader, dies while there is no npud. */
START_TEST(clients_die_meanwhile)
{
    uint32_t segment, queue;

    queue = begin_with_numbers(&segment);
    make_message(OWNER, segment, 100);
    kill_process(OWNER);
    hang_up(OWNER);
    restart_npud();
    npud_turn();
    ck_assert_uint_eq(queue_with_id(queue)->puts.gone, 1);
    ck_assert_int_eq(who(queue_with_id(queue)->puts.pid), 0);
    take_numbers(READER, queue, 1, 4);
    expect_no_buffer();
    end_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: buffers");
    TCase *t = suite_case(s, "buffers", 60, NULL, NULL);

    tcase_add_test(t, segments_are_as_they_were);
    tcase_add_test(t, an_orphan_stays_while_it_is_used);
    tcase_add_test(t, a_survivor_keeps_what_it_holds);
    tcase_add_loop_test(t, a_survivor_without_memory_holds_nothing, 0, 2);
    tcase_add_test(t, clients_die_meanwhile);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
