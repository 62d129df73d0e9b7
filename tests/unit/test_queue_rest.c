/*
 * daemon/buffers/queue_rest: a queue gets a new ring in steps, while sessions die, ask for the
 * ring, or take more rights away. Nothing is lost, doubled, or in another order.
 */
#include "npud.h"

#include <sys/mman.h>

#include "acl/acl_base.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/queue_sweep.h"
#include "daemon/buffers/sweep.h"
#include "daemon/control/dispatch.h"
#include "daemon/control/session_hear.h"
#include "tests/unit/messages.h"
#include "tests/unit/requester.h"

#define DEPTH    128
#define MESSAGES 100

static struct session *owner, *other;
static struct queue *queue;
static struct segment *segment;
static uint32_t ref[MESSAGES];

static void set_up(void)
{
    struct queue_attach *attach;

    npud_start(NULL);
    owner = npud_session_of(7001, 1);
    other = npud_session_of(7001, 2);
    ck_assert_int_eq(queue_new(owner, "", DEPTH, &attach), 0);
    queue = attach->queue;
    ck_assert_ptr_nonnull(queue_attach_new(other, queue, queue->id, QUEUE_PUT | QUEUE_TAKE));
    ck_assert_int_eq(segment_new(pool_get(owner), 64, 2 * MESSAGES, &segment), 0);
    ck_assert(segment_map(peer_get(other), segment));
    for (int i = 0; i < MESSAGES; i++) {
        ref[i] = make_buffer(other, segment);
        ck_assert_int_eq(put_message(&queue->ring.view, other, ref[i]), QUEUE_OK);
    }
}

/*
 * The queue has begun to move, and has most of it before it: outside of steps, npud does the least
 * that a step does. Returns the number of the old ring.
 */
static uint32_t begin_move(void)
{
    uint32_t number = queue->ring.view.number;

    ck_assert_int_eq(queue_move(queue), 0);
    ck_assert_ptr_nonnull(queue->rest);
    ck_assert(queue_moves_from(server.queues, number));
    ck_assert_ptr_null(queue_by_number(&server, number));
    ck_assert_uint_lt(queue_fill(&queue->ring.view), MESSAGES / 2);
    return number;
}

static void expect_all(void)
{
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_uint_eq(take_message(&queue->ring.view, owner), ref[i]);
    ck_assert_uint_eq(take_message(&queue->ring.view, owner), 0);
}

static void tear_down(void)
{
    session_free(owner);
    if (other)
        session_free(other);
    npud_turn();
    npud_stop();
}

START_TEST(messages_keep_their_order)
{
    uint32_t number = begin_move();

    npud_turn();
    ck_assert_ptr_null(queue->rest);
    ck_assert(!queue_moves_from(server.queues, number));
    ck_assert_ptr_null(server.queues->by_number[number]);
    ck_assert_uint_eq(queue_fill(&queue->ring.view), MESSAGES);
    expect_all();
    ck_assert_uint_eq(queue_messages(queue), MESSAGES);
}
END_TEST

/* What is put into the old ring from then on is no message. */
START_TEST(a_session_without_the_right_puts_nothing)
{
    struct queue_put *old = mmap(NULL, queue_put_size(DEPTH), PROT_READ | PROT_WRITE, MAP_SHARED,
                                 queue->ring.put_fd, 0);
    uint32_t number, late = make_buffer(other, segment);

    ck_assert_ptr_ne(old, MAP_FAILED);
    number = begin_move();
    find_buffer(late)->word =
        mbuf_word(mbuf_generation(find_buffer(late)->word), MBUF_SENDING, other->peer_id, number);
    atomic_store(&old->slot[MESSAGES].word, queue_slot_word(MESSAGES, late));
    npud_turn();
    ck_assert_uint_eq(queue_fill(&queue->ring.view), MESSAGES);
    expect_all();
    munmap(old, queue_put_size(DEPTH));
}
END_TEST

/* Nobody has the new ring, so another one would be of no use. */
START_TEST(a_queue_that_moves_gets_no_other_ring)
{
    uint32_t number;

    begin_move();
    number = queue->ring.view.number;
    ck_assert_int_eq(queue_move(queue), 0);
    ck_assert_int_eq(queue_move_or_destroy(queue), 0);
    ck_assert_uint_eq(queue->ring.view.number, number);
    npud_turn();
    expect_all();
}
END_TEST

START_TEST(a_queue_ends_while_it_moves)
{
    uint32_t number = begin_move();

    queue_destroy(queue);
    npud_turn();
    ck_assert_ptr_null(server.queues->by_number[number]);
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_int_eq(mbuf_state(find_buffer(ref[i])->word), MBUF_FREE);
}
END_TEST

/*
 * The sender of the messages dies. Those that are still to be moved are in no ring that npud could
 * look into; one that it was about to put is in none, and goes.
 */
START_TEST(a_sender_dies_while_its_messages_move)
{
    uint32_t sending = make_buffer(other, segment);
    uint32_t number = begin_move();

    find_buffer(sending)->word = mbuf_word(mbuf_generation(find_buffer(sending)->word),
                                           MBUF_SENDING, other->peer_id, number);
    queue_sweep_puts_end(other->peer);
    for (int i = 0; i < 20; i++)
        ck_assert(!sweep_peer_piece(other->peer));
    ck_assert_ptr_nonnull(queue->rest);
    session_end(other);
    other = NULL;
    npud_turn();
    ck_assert_int_eq(mbuf_state(find_buffer(sending)->word), MBUF_FREE);
    expect_all();
}
END_TEST

/* What is not moved yet is in use, and so is what was moved after a look at the ring. */
START_TEST(what_moves_is_in_use)
{
    uint32_t number;

    queue_allow_map(queue, segment);
    number = begin_move();
    ck_assert(queue_sweep_sent(segment, number, ref[MESSAGES - 1], other->peer_id));
    ck_assert(queue_sweep_has(queue, ref[0], PEER_NPUD));
    npud_turn();
    ck_assert(queue_sweep_has(queue, ref[MESSAGES - 1], PEER_NPUD));
    ck_assert(!queue_sweep_sent(segment, number, ref[MESSAGES - 1], other->peer_id));
    expect_all();
}
END_TEST

/* Who asks for the ring waits for it, and gets all of it. */
START_TEST(the_new_ring_is_for_those_that_ask_later)
{
    Npud__Request q = NPUD__REQUEST__INIT;
    Npud__AttachQueue in = NPUD__ATTACH_QUEUE__INIT;
    int fd = open_as(7001);
    size_t n;

    ck_assert_ptr_nonnull(queue_attach_new(server.sessions->prev, queue, queue->id, QUEUE_TAKE));
    begin_move();
    in.queue = queue->id;
    q.attach_queue = &in;
    q.body_case = NPUD__REQUEST__BODY_ATTACH_QUEUE;
    q.id = 1;
    ck_assert_int_eq(packet_send_message(fd, &q.base, NULL, 0, 0), 0);
    ck_assert_int_eq(dispatch_handle(server.sessions->prev), DISPATCH_WAITS);
    ck_assert_int_eq(read_answer(fd, &n), -1);
    ck_assert_ptr_nonnull(queue->rest);
    session_hear_again(server.sessions->prev);
    ck_assert_int_eq(await_answer(fd, &n), 0);
    ck_assert_uint_eq(n, QUEUE_FILES);
    expect_all();
    close(fd);
    npud_turn();
}
END_TEST

START_TEST(npud_ends_while_a_queue_moves)
{
    begin_move();
    owner = other = NULL;
}
END_TEST

static void stop_only(void)
{
    npud_stop();
}

int main(void)
{
    Suite *suite = suite_create("queue rest");
    TCase *c = suite_case(suite, "all", 60, set_up, tear_down);

    tcase_add_test(c, messages_keep_their_order);
    tcase_add_test(c, a_session_without_the_right_puts_nothing);
    tcase_add_test(c, a_queue_that_moves_gets_no_other_ring);
    tcase_add_test(c, a_queue_ends_while_it_moves);
    tcase_add_test(c, a_sender_dies_while_its_messages_move);
    tcase_add_test(c, what_moves_is_in_use);
    tcase_add_test(c, the_new_ring_is_for_those_that_ask_later);
    c = suite_case(suite, "end", 60, set_up, stop_only);
    tcase_add_test(c, npud_ends_while_a_queue_moves);
    return run_suite(suite);
}
