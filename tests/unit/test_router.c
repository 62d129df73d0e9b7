/*
 * daemon/router, daemon/forward, daemon/chain, daemon/backlog: routes between queues, with the test
 * as every client: it puts into and takes from rings, allocates and frees buffers, by the functions
 * of proto/.
 */
#include <fcntl.h>
#include <poll.h>
#include <utlist.h>

#include "daemon/buffers/buffers.h"
#include "daemon/buffers/relay.h"
#include "daemon/buffers/route_bell.h"
#include "daemon/buffers/route_index.h"
#include "daemon/buffers/route_query.h"
#include "daemon/buffers/route_rest.h"
#include "daemon/buffers/router.h"

#include "daemon/buffers/chain.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/queue_rest.h"
#include "daemon/buffers/segment.h"
#include "daemon/buffers/sweep.h"
#include "proto/shm/mbuf_ref.h"
#include "npud.h"

static struct session *owner, *other;
static struct segment *segment;

static void start_with(const char *const *settings)
{
    npud_start(settings);
    owner = npud_session(100);
    other = npud_session(200);
    ck_assert_ptr_nonnull(peer_get(owner));
    ck_assert_int_eq(segment_new(pool_get(owner), 64, 4096, &segment), 0);
}

static void start_npud(void)
{
    start_with(NULL);
}

/* Every buffer is back, exactly once. */
static unsigned in_use(struct segment *s)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < segment_slots(&s->view); i++)
        n += mbuf_state(atomic_load(&s->view.mbufs[i].word)) != MBUF_FREE;
    return n;
}

static void stop_npud(void)
{
    npud_stop();
}

/* --- the clients --- */

static struct queue *queue_for(struct session *session, uint32_t depth)
{
    struct queue_attach *attach;

    ck_assert_int_eq(queue_new(session, "", depth, &attach), 0);
    return attach->queue;
}

static struct mbuf *mbuf_of(uint32_t ref)
{
    struct mbuf *m = mbuf_at(segments_table(&server), ref);

    ck_assert_ptr_nonnull(m);
    return m;
}

/* A buffer of `session` with that length. */
static uint32_t alloc_buffer(struct session *session, struct segment *s, uint64_t length)
{
    uint32_t slot = segment_claim(&s->view, 0, s->view.n_data, session->peer_id);
    struct mbuf *m = &s->view.mbufs[slot];

    ck_assert_uint_lt(slot, s->view.n_data);
    mbuf_prepare(&s->view, slot, 64);
    atomic_store(&m->length, length);
    mbuf_hold(m, session->peer_id);
    return mbuf_ref(&s->view, m);
}

/* What the library does in acltdtAppendBufChain(). */
static void append_buffer(uint32_t head, uint32_t ref)
{
    struct mbuf *h = mbuf_of(head), *m = mbuf_of(ref);
    uint32_t tail = atomic_load(&h->count) == 1 ? head : atomic_load(&h->tail);

    atomic_store(&m->word, mbuf_word_member(mbuf_generation(atomic_load(&m->word)) + 1, head));
    atomic_store(&mbuf_of(tail)->next, ref);
    atomic_store(&h->tail, ref);
    atomic_fetch_add(&h->count, 1);
}

static void ring_bell(struct queue *queue, _Atomic uint64_t *waiting)
{
    int fd;

    if (!(queue_waiting(waiting) & QUEUE_ROUTER) || !queue->attached)
        return;
    ck_assert_int_eq(route_bell_get(queue->attached, &fd), CAUSE_NONE);
    ck_assert_int_ge(fd, 0);
    eventfd_write(fd, 1);
}

static enum queue_result put_message(struct session *session, struct queue *queue, uint32_t ref)
{
    struct segment *s = segment_find(&server, ref >> 16);
    enum queue_result r;

    CHECK(queue_allow_map(queue, s));
    r = queue_enqueue(&queue->ring.view, mbuf_of(ref), ref, atomic_load(&mbuf_of(ref)->word),
                      session->peer_id);
    if (r == QUEUE_OK)
        ring_bell(queue, &queue->ring.view.take->waiting);
    return r;
}

/* The buffer taken, now session's; 0: the queue is empty. */
static uint32_t take_message(struct session *session, struct queue *queue)
{
    struct queue_front front;
    uint64_t held;

    if (queue_front(&queue->ring.view, &front) != QUEUE_OK)
        return 0;
    queue_commit(&queue->ring.view, front.head, segments_table(&server));
    CHECK(queue_dequeue(&queue->ring.view, &front, mbuf_of(front.ref), session->peer_id,
                        segments_table(&server), &held) == QUEUE_OK);
    ring_bell(queue, &queue->ring.view.put->waiting);
    return front.ref;
}

/* As mbuf_free() of the library. */
static void drop_chain(struct session *session, uint32_t head)
{
    uint32_t ref = head, next;
    bool full = false;

    CHECK(mbuf_state(atomic_load(&mbuf_of(head)->word)) == MBUF_HELD);
    CHECK(mbuf_session(atomic_load(&mbuf_of(head)->word)) == session->peer_id);
    for (uint32_t i = 0, n = atomic_load(&mbuf_of(head)->count); i < n; i++, ref = next) {
        struct segment_view *v = segment_get(segments_table(&server), ref);

        next = atomic_load(&mbuf_of(ref)->next);
        mbuf_drop(v, mbuf_of(ref), &full);
        if (full && segment_slot_wanted(v))
            router_slot_freed(segment_find(&server, ref >> 16));
    }
}

/* Until npud has nothing more to do. */
static void run_until_idle(void)
{
    npud_turn();
}

static enum route_state bind_route(struct queue *source, struct queue *destination)
{
    struct route_refusal why;

    return router_bind(owner, source->id, destination->id, &why);
}

static enum route_state unbind_route(struct queue *source, struct queue *destination)
{
    struct route_refusal why;

    return router_unbind(owner, source->id, destination->id, &why);
}

static void send_lengths(struct queue *queue, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        CHECK(put_message(owner, queue, alloc_buffer(owner, segment, i)) == QUEUE_OK);
}

/* Take and free messages with lengths [from, to). */
static void expect_lengths(struct queue *queue, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint32_t ref = take_message(owner, queue);

        if (ref == 0) {
            run_until_idle();
            ref = take_message(owner, queue);
        }
        ck_assert_uint_ne(ref, 0);
        ck_assert_uint_eq(atomic_load(&mbuf_of(ref)->length), i);
        drop_chain(owner, ref);
    }
}

/* --- messages --- */

START_TEST(one_to_one_moves_buffers_in_order)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 64);
    uint32_t ref = alloc_buffer(owner, segment, 7);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_uint_eq(atomic_load(&a->ring.view.news->takes.routed), 1);
    ck_assert_uint_eq(atomic_load(&b->ring.view.news->puts.routed), 1);
    ck_assert_int_eq(put_message(owner, a, ref), QUEUE_OK);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), ref);
    drop_chain(owner, ref);
    for (uint64_t i = 0; i < 1000; i += 50) {
        send_lengths(a, i, i + 50);
        run_until_idle();
        expect_lengths(b, i, i + 50);
    }
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(messages_from_before_the_route_go_along)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 64);

    send_lengths(a, 0, 64);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    run_until_idle();
    expect_lengths(b, 0, 64);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(one_to_many_shares_data_only)
{
    struct queue *a = queue_for(owner, 8), *b[3];
    uint32_t ref = alloc_buffer(owner, segment, 5), got[3];
    struct mbuf *m = mbuf_of(ref);

    memset(m->user, 'u', sizeof(m->user));
    atomic_store(&m->user_set, 1);
    for (int i = 0; i < 3; i++) {
        b[i] = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    }
    ck_assert_int_eq(put_message(owner, a, ref), QUEUE_OK);
    run_until_idle();
    for (int i = 0; i < 3; i++) {
        struct mbuf *n;

        got[i] = take_message(owner, b[i]);
        ck_assert_uint_ne(got[i], 0);
        n = mbuf_of(got[i]);
        ck_assert_uint_eq(atomic_load(&n->block), ref & 0xffff);
        ck_assert_uint_eq(atomic_load(&n->length), 5);
        ck_assert_uint_eq(atomic_load(&n->room), 64);
        ck_assert_uint_eq(atomic_load(&n->count), 1);
        ck_assert_int_eq(n->user[95], 'u');
        atomic_store(&n->length, 50 + i);
        n->user[95] = (unsigned char)i;
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(got[i], got[j]);
    }
    ck_assert_uint_eq(mbuf_refs_count(atomic_load(&m->refs)), 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(atomic_load(&mbuf_of(got[i])->length), 50 + i);
        ck_assert_int_eq(mbuf_of(got[i])->user[95], i);
    }
    for (int i = 3; i-- > 0;)
        drop_chain(owner, got[i]);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* A message for many destinations is given to some of them in each step. No order is lost. */
START_TEST(one_to_hundreds_goes_in_slices)
{
    struct queue *a = queue_for(owner, 8), *b[300];
    unsigned reached = 0;

    for (int i = 0; i < 300; i++) {
        b[i] = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    }
    run_until_idle();
    send_lengths(a, 0, 1);
    event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
    ck_assert(job_cancel(&a->route->turn));
    ck_assert(!a->route->turn.run(&a->route->turn));
    for (int i = 0; i < 300; i++)
        reached += queue_fill(&b[i]->ring.view) > 0;
    ck_assert_uint_gt(reached, 0);
    ck_assert_uint_lt(reached, 200);
    send_lengths(a, 1, 4);
    run_until_idle();
    for (int i = 0; i < 300; i++)
        expect_lengths(b[i], 0, 4);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* --- turns --- */

static void take_step(struct relay *relay)
{
    ck_assert(job_cancel(&relay->turn));
    relay->turn.run(&relay->turn);
}

/* What a bell brings waits for the turn of the queue's user. */
START_TEST(a_bell_is_answered_in_a_turn)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    run_until_idle();
    send_lengths(a, 0, 1); /* npud is asked for the eventfd: a reason for a turn */
    run_until_idle();
    expect_lengths(b, 0, 1);
    for (uint64_t i = 1; i < 4; i++) {
        send_lengths(a, i, i + 1);
        ck_assert(job_cancel(&a->route->turn)); /* asked for it again */
        event_base_loop(server.base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
        ck_assert_uint_eq(queue_fill(&b->ring.view), 0);
        ck_assert(a->route->turn.listed);
        ck_assert_ptr_eq(a->route->turn.owner->user, &owner->user->schedule);
        take_step(a->route);
        expect_lengths(b, i, i + 1);
        run_until_idle();
    }
}
END_TEST

/* A message for hundreds is the work of many steps. */
START_TEST(messages_to_hundreds_take_several_turns)
{
    struct queue *a = queue_for(owner, 8), *b;

    for (int i = 0; i < 300; i++) {
        b = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    }
    run_until_idle();
    send_lengths(a, 0, 8);
    for (uint32_t left = 8; left > 0; left = queue_fill(&a->ring.view)) {
        take_step(a->route);
        ck_assert_uint_ge(queue_fill(&a->ring.view), left - 1);
        ck_assert(left == 1 || a->route->turn.listed);
    }
    run_until_idle();
}
END_TEST

/* Before a message is taken there is memory for it in hundreds of backlogs, made in steps. */
START_TEST(hundreds_of_backlogs_grow_in_steps)
{
    struct queue *a = queue_for(owner, 8), *b[100];
    unsigned steps = 0, ready = 0;

    for (int i = 0; i < 100; i++) {
        b[i] = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    }
    send_lengths(a, 0, 1);
    for (; queue_fill(&a->ring.view) > 0 && steps < 1000; steps++) {
        const struct route *route;
        unsigned before = ready;

        take_step(a->route);
        ready = 0;
        DL_FOREACH2 (a->route->out, route, out_next)
            ready += route->backlog.size > 0;
        ck_assert(queue_fill(&a->ring.view) == 0 || a->route->turn.listed);
        ck_assert(queue_fill(&a->ring.view) == 0 || ready > before);
        ck_assert_uint_le(ready, before + 8);
    }
    ck_assert_uint_ge(steps, 10);
    ck_assert_uint_lt(steps, 20);
    run_until_idle();
    for (int i = 0; i < 100; i++)
        expect_lengths(b[i], 0, 1);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* --- routes change while a message is given to them --- */

#define MANY 40

/* Routes from `a` to all but the last of them. Two messages, and the first is given to some. */
static struct queue *begin_to_give(struct queue *b[MANY])
{
    struct queue *a = queue_for(owner, 8);

    for (int i = 0; i < MANY; i++)
        b[i] = queue_for(owner, 8);
    for (int i = 0; i < MANY - 1; i++)
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    run_until_idle();
    send_lengths(a, 0, 2);
    take_step(a->route);
    ck_assert_ptr_nonnull(a->route->message);
    ck_assert_uint_eq(queue_fill(&b[1]->ring.view), 1);
    ck_assert_uint_eq(queue_fill(&b[MANY - 10]->ring.view), 0);
    return a;
}

static void expect_no_more(struct queue *queue)
{
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, queue), 0);
}

/*
 * A route gets the messages that are taken while it is bound, each once, and whatever happens to
 * the others.
 */
START_TEST(routes_change_while_a_message_is_given)
{
    enum { HAS = 0, HAS_AGAIN = 1, OUT = 30, OUT_AGAIN = 31, GONE = 32, FREED = 33 };
    struct queue *b[MANY], *a = begin_to_give(b);
    int is_next = 2;
    uint32_t next;

    ck_assert_int_eq(unbind_route(a, b[HAS]), ROUTE_UNBOUND);
    ck_assert_int_eq(unbind_route(a, b[HAS_AGAIN]), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b[HAS_AGAIN]), ROUTE_BOUND);
    ck_assert_int_eq(unbind_route(a, b[OUT]), ROUTE_UNBOUND);
    ck_assert_int_eq(unbind_route(a, b[OUT_AGAIN]), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b[OUT_AGAIN]), ROUTE_BOUND);
    queue_destroy(b[GONE]);
    next = b[FREED]->id;
    queue_destroy(b[FREED]);
    ck_assert_int_eq(router_unbind(owner, a->id, next, &(struct route_refusal){0}), ROUTE_UNBOUND);
    while (b[is_next]->route->in != a->route->at)
        is_next++;
    ck_assert_int_lt(is_next, OUT);
    next = b[is_next]->id;
    queue_destroy(b[is_next]);
    ck_assert_int_eq(router_unbind(owner, a->id, next, &(struct route_refusal){0}), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b[MANY - 1]), ROUTE_BOUND);
    ck_assert_ptr_nonnull(a->route->message);
    run_until_idle();
    ck_assert_ptr_null(a->route->message);
    for (int i = 0; i < MANY; i++) {
        if (i == GONE || i == FREED || i == is_next)
            continue;
        expect_lengths(b[i], i == MANY - 1, i == HAS || i == OUT ? 1 : 2);
        expect_no_more(b[i]);
    }
    ck_assert_uint_eq(atomic_load(&b[OUT]->ring.view.news->puts.routed), 0);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(all_routes_end_while_a_message_is_given)
{
    struct queue *b[MANY], *a = begin_to_give(b);

    for (int i = 0; i < MANY - 1; i++)
        ck_assert_int_eq(unbind_route(a, b[i]), ROUTE_UNBOUND);
    run_until_idle();
    ck_assert_ptr_null(server.router->all);
    for (int i = 0; i < MANY - 1; i++)
        expect_lengths(b[i], 0, 1);
    expect_lengths(a, 1, 2);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(a_source_ends_while_a_message_is_given)
{
    struct queue *b[MANY], *a = begin_to_give(b);

    queue_destroy(a);
    for (int i = 0; i < MANY - 1; i++) {
        expect_lengths(b[i], 0, 2);
        expect_no_more(b[i]);
    }
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(all_destinations_end_while_a_message_is_given)
{
    struct queue *b[MANY], *a = begin_to_give(b);

    for (int i = 0; i < MANY - 1; i++)
        queue_destroy(b[i]);
    ck_assert_ptr_null(a->route->message);
    run_until_idle();
    expect_lengths(a, 1, 2);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/*
 * A backlog is emptied after its source has made room there for the next message, and the user gets
 * no memory any more: the room stays.
 */
START_TEST(memory_ends_while_a_message_is_given)
{
    struct queue *b[MANY], *a = begin_to_give(b), *late = b[MANY - 2];
    struct route *route = late->route->in;
    uint64_t most = config.limit[RESOURCE_TABLE_MEMORY];

    run_until_idle();
    send_lengths(a, 2, 8);
    run_until_idle();
    send_lengths(a, 8, 10);
    run_until_idle();
    ck_assert_uint_eq(route->backlog.n, 2);
    send_lengths(a, 10, 11);
    take_step(a->route);
    ck_assert_ptr_nonnull(a->route->message);
    config.limit[RESOURCE_TABLE_MEMORY] = 0;
    job_cancel(&a->route->turn);
    expect_lengths(late, 0, 2);
    relay_make_ready(late->route);
    take_step(late->route);
    ck_assert_uint_eq(route->backlog.n, 0);
    ck_assert(route->backlog.reserved && route->backlog.item);
    relay_make_ready(a->route);
    run_until_idle();
    expect_lengths(late, 2, 11);
    for (int i = 0; i < MANY - 2; i++)
        expect_lengths(b[i], 0, 11);
    config.limit[RESOURCE_TABLE_MEMORY] = most;
    send_lengths(a, 11, 13);
    run_until_idle();
    for (int i = 0; i < MANY - 1; i++)
        expect_lengths(b[i], 11, 13);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* Some memory was given back: hundreds of sources that wait for it try again in slices. */
START_TEST(relays_that_wait_for_memory_try_again_in_slices)
{
    struct queue *a[200], *b = queue_for(owner, 8);
    unsigned listed = 0;

    for (int i = 0; i < 200; i++) {
        a[i] = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a[i], b), ROUTE_BOUND);
    }
    run_until_idle();
    for (int i = 0; i < 200; i++)
        relay_starve(a[i]->route);
    relay_unstarve_all(server.router);
    for (int i = 0; i < 200; i++)
        listed += a[i]->route->turn.listed;
    ck_assert_uint_gt(listed, 0);
    ck_assert_uint_lt(listed, 100);
    run_until_idle();
    for (int i = 0; i < 200; i++)
        ck_assert(!a[i]->route->starved);
}
END_TEST

/* The user has no more memory, and a message needs a first backlog. */
static void starve_source(struct queue *source, struct queue *destination)
{
    config.limit[RESOURCE_TABLE_MEMORY] = owner->user->used[RESOURCE_TABLE_MEMORY];
    ck_assert_int_eq(bind_route(source, destination), ROUTE_BOUND);
    send_lengths(source, 0, 1);
    run_until_idle();
    ck_assert(source->route->starved);
    ck_assert_uint_eq(take_message(owner, destination), 0);
}

/*
 * The user gives memory back that had nothing to do with routes: a queue's, which goes in steps,
 * and that of a session's use of one. Or it may have more.
 */
START_TEST(a_source_goes_on_when_its_user_has_memory_again)
{
    struct queue *a[3], *b[3], *q = queue_for(owner, 64);
    struct queue_attach *attach = queue_attach_new(other, q, q->id, QUEUE_MANAGE);
    uint64_t most = config.limit[RESOURCE_TABLE_MEMORY];

    ck_assert_ptr_nonnull(attach);
    for (int i = 0; i < 3; i++) {
        a[i] = queue_for(owner, 8);
        b[i] = queue_for(owner, 8);
    }
    starve_source(a[0], b[0]);
    config.limit[RESOURCE_TABLE_MEMORY] = most;
    ck_assert_int_eq(queue_attach_change(attach, 0), 0);
    run_until_idle();
    expect_lengths(b[0], 0, 1);
    send_lengths(q, 0, 40);
    starve_source(a[1], b[1]);
    queue_destroy(q);
    ck_assert_ptr_nonnull(server.queues->rests);
    run_until_idle();
    expect_lengths(b[1], 0, 1);
    starve_source(a[2], b[2]);
    config.limit[RESOURCE_TABLE_MEMORY] = most;
    server_configure(&server);
    run_until_idle();
    expect_lengths(b[2], 0, 1);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* What its ring still has is given to the routes in steps, and then it goes. */
START_TEST(a_source_that_ends_is_emptied_in_steps)
{
    struct session *leaving = npud_session(300);
    struct queue *a = queue_for(leaving, 64), *b = queue_for(owner, 64);
    struct queue_attach *attach;
    struct route_refusal why;

    attach = queue_attach_new(owner, a, a->id, QUEUE_MANAGE);
    ck_assert_ptr_nonnull(attach);
    ck_assert_int_eq(router_bind(owner, a->id, b->id, &why), ROUTE_BOUND);
    run_until_idle();
    for (uint64_t i = 0; i < 60; i++)
        CHECK(put_message(owner, a, alloc_buffer(owner, segment, i)) == QUEUE_OK);
    job_cancel(&a->route->turn);
    queue_attach_free(attach);
    leaving->peer->end_part = 4; /* queue_sweep_leave() is next */
    for (uint32_t left = 60; left > 16; left = queue_fill(&a->ring.view)) {
        ck_assert(!buffers_session_end(leaving));
        ck_assert_ptr_eq(leaving->peer->attached->queue, a);
        ck_assert_uint_ge(queue_fill(&a->ring.view) + 16, left);
        ck_assert_uint_lt(queue_fill(&a->ring.view), left);
    }
    leaving->peer->end_part = 0;
    session_free(leaving);
    run_until_idle();
    expect_lengths(b, 0, 60);
}
END_TEST

START_TEST(many_to_one_keeps_the_order_of_each)
{
    struct queue *a[3], *b = queue_for(owner, 4);
    uint64_t next[3] = {0, 1000, 2000};

    for (int i = 0; i < 3; i++) {
        a[i] = queue_for(owner, 128);
        ck_assert_int_eq(bind_route(a[i], b), ROUTE_BOUND);
    }
    for (int i = 0; i < 3; i++)
        send_lengths(a[i], (uint64_t)i * 1000, (uint64_t)i * 1000 + 100);
    for (int i = 0; i < 300; i++) {
        uint32_t ref;
        uint64_t length;

        run_until_idle();
        ref = take_message(owner, b);
        ck_assert_uint_ne(ref, 0);
        length = atomic_load(&mbuf_of(ref)->length);
        ck_assert_uint_eq(length, next[length / 1000]);
        next[length / 1000]++;
        drop_chain(owner, ref);
        /* None has to wait for another to be through. */
        if (i == 150)
            for (int j = 0; j < 3; j++)
                ck_assert_uint_gt(next[j] % 1000, 20);
    }
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(a_chain_goes_to_three)
{
    struct queue *a = queue_for(owner, 8), *b[3];
    uint32_t head = alloc_buffer(owner, segment, 0);

    for (uint32_t i = 1; i < MBUF_CHAIN_MAX; i++)
        append_buffer(head, alloc_buffer(owner, segment, i));
    for (int i = 0; i < 3; i++) {
        b[i] = queue_for(owner, 8);
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    }
    ck_assert_int_eq(put_message(owner, a, head), QUEUE_OK);
    run_until_idle();
    for (int i = 0; i < 3; i++) {
        uint32_t ref = take_message(owner, b[i]), at = ref, last = 0;

        ck_assert_uint_ne(ref, 0);
        ck_assert_uint_eq(atomic_load(&mbuf_of(ref)->count), MBUF_CHAIN_MAX);
        for (uint32_t j = 0; j < MBUF_CHAIN_MAX; j++) {
            ck_assert_uint_ne(at, 0);
            ck_assert_uint_eq(atomic_load(&mbuf_of(at)->length), j);
            last = at;
            at = atomic_load(&mbuf_of(at)->next);
        }
        ck_assert_uint_eq(at, 0);
        ck_assert_uint_eq(atomic_load(&mbuf_of(ref)->tail), last);
        drop_chain(owner, ref);
    }
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(a_slow_destination_stalls_nobody_else)
{
    struct queue *a = queue_for(owner, 64), *slow = queue_for(owner, 2),
                 *fast = queue_for(owner, 64);
    struct segment *more[8];

    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(segment_new(pool_get(owner), 64, 4096, &more[i]), 0);
    ck_assert_int_eq(bind_route(a, slow), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, fast), ROUTE_BOUND);
    for (uint64_t i = 0; i < 20000; i++) {
        ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, more[i / 4000], i)), QUEUE_OK);
        if (i % 50 == 49) {
            run_until_idle();
            expect_lengths(fast, i - 49, i + 1);
        }
    }
    ck_assert_uint_eq(take_message(owner, fast), 0);
    expect_lengths(slow, 0, 20000);
    ck_assert_uint_eq(take_message(owner, slow), 0);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(in_use(more[i]), 0);
}
END_TEST

/* Buffers of a MiB: it is their bytes that are too many. */
START_TEST(a_full_backlog_stops_the_source)
{
    struct queue *a = queue_for(owner, 64), *slow = queue_for(owner, 2),
                 *fast = queue_for(owner, 512);
    struct segment *big[8];
    uint64_t n = 0, through = BACKLOG_BYTES >> 20;

    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(segment_new(pool_get(owner), 1 << 20, 64, &big[i]), 0);
    ck_assert_int_eq(bind_route(a, slow), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, fast), ROUTE_BOUND);
    for (;; n++) {
        uint32_t ref = alloc_buffer(owner, big[n / 64], n);

        if (put_message(owner, a, ref) != QUEUE_OK) {
            drop_chain(owner, ref);
            break;
        }
        run_until_idle();
    }
    ck_assert_uint_eq(n, 2 + through + 64);
    expect_lengths(fast, 0, 2 + through);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, fast), 0);
    /* Each that is taken lets one more through. */
    expect_lengths(slow, 0, 1);
    run_until_idle();
    expect_lengths(fast, 2 + through, 3 + through);
    ck_assert_uint_eq(take_message(owner, fast), 0);
    for (uint64_t i = 1; i < n; i++) {
        expect_lengths(slow, i, i + 1);
        run_until_idle();
    }
    expect_lengths(fast, 3 + through, n);
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(in_use(big[i]), 0);
}
END_TEST

START_TEST(no_slot_for_a_reference_is_waited_for)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 8192),
                 *c = queue_for(owner, 8192);
    struct segment *small;
    uint32_t refs;

    ck_assert_int_eq(segment_new(pool_get(owner), 4 << 20, 1, &small), 0);
    refs = small->view.n_refs;
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    /* The one buffer of the segment, sent so often that references to it run out. */
    for (uint32_t i = 0; i < refs - 1; i++) {
        uint32_t slot = segment_claim(&small->view, small->view.n_data, segment_slots(&small->view),
                                      other->peer_id);

        ck_assert_uint_ne(slot, segment_slots(&small->view));
    }
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, 1)), QUEUE_OK);
    send_lengths(a, 2, 4);
    run_until_idle();
    expect_lengths(b, 1, 2);
    run_until_idle();
    expect_lengths(c, 1, 2);
    expect_lengths(b, 2, 4);
    expect_lengths(c, 2, 4);
    /* Now with none at all. */
    ck_assert_uint_ne(segment_claim(&small->view, small->view.n_data, segment_slots(&small->view),
                                    other->peer_id),
                      segment_slots(&small->view));
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, 1)), QUEUE_OK);
    send_lengths(a, 2, 4);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    ck_assert_uint_eq(take_message(owner, c), 0);
    ck_assert_uint_ne(atomic_load(&small->view.news->slot_wanted), 0);
    {
        bool full = false;

        mbuf_drop(&small->view, &small->view.mbufs[small->view.n_data], &full);
        ck_assert(full);
        ck_assert(segment_slot_wanted(&small->view));
        ck_assert(!segment_slot_wanted(&small->view));
        router_slot_freed(small);
    }
    run_until_idle();
    expect_lengths(b, 1, 4);
    expect_lengths(c, 1, 4);
    for (uint32_t i = 1; i < segment_slots(&small->view); i++)
        if (mbuf_state(atomic_load(&small->view.mbufs[i].word)) == MBUF_CACHED)
            mbuf_release(&small->view, &small->view.mbufs[i]);
    ck_assert_uint_eq(in_use(small), 0);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* Take away all slots without data but `left` of a segment, or give them back. */
static void take_slots(struct segment *s, uint32_t left)
{
    for (uint32_t i = left; i < s->view.n_refs; i++)
        ck_assert_uint_ne(
            segment_claim(&s->view, s->view.n_data, segment_slots(&s->view), other->peer_id),
            segment_slots(&s->view));
}

static void give_slots_back(struct segment *s)
{
    for (uint32_t i = s->view.n_data; i < segment_slots(&s->view); i++)
        if (mbuf_state(atomic_load(&s->view.mbufs[i].word)) == MBUF_CACHED)
            mbuf_release(&s->view, &s->view.mbufs[i]);
    if (segment_slot_wanted(&s->view))
        router_slot_freed(s);
}

/*
 * The same at a destination that has become a source: npud waits for messages there, and nobody
 * takes from the ring.
 */
START_TEST(a_slot_comes_for_one_that_is_a_source_now)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8), *c = queue_for(owner, 8),
                 *d = queue_for(owner, 8);
    struct segment *small;

    ck_assert_int_eq(segment_new(pool_get(owner), 64, 256, &small), 0);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    take_slots(small, 0);
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, 1)), QUEUE_OK);
    run_until_idle();
    ck_assert_int_eq(unbind_route(a, b), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(b, d), ROUTE_BOUND);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, d), 0);
    give_slots_back(small);
    run_until_idle();
    expect_lengths(d, 1, 2);
    expect_lengths(c, 1, 2);
    ck_assert_uint_eq(in_use(small), 0);
}
END_TEST

/*
 * A client frees a slot, rings, and stops before it tells npud. The ring counts also if the queue
 * gets a new ring, and with it a new bell, before npud's turn.
 */
START_TEST(a_bell_is_heard_though_the_ring_moves)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8), *c = queue_for(owner, 8);
    struct segment *small;
    int fd;

    ck_assert_int_eq(segment_new(pool_get(owner), 64, 256, &small), 0);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    take_slots(small, 0);
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, 1)), QUEUE_OK);
    run_until_idle();
    ck_assert_int_eq(route_bell_get(a->attached, &fd), CAUSE_NONE);
    run_until_idle();
    for (uint32_t i = small->view.n_data; i < segment_slots(&small->view); i++)
        mbuf_release(&small->view, &small->view.mbufs[i]);
    eventfd_write(fd, 1);
    ck_assert_int_eq(queue_move(a), 0);
    run_until_idle();
    expect_lengths(b, 1, 2);
    expect_lengths(c, 1, 2);
    ck_assert_uint_eq(in_use(small), 0);
}
END_TEST

/* The same if its session leaves the queue before npud's turn. */
START_TEST(a_bell_is_heard_though_its_session_leaves)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8), *c = queue_for(owner, 8);
    struct queue_attach *attach = queue_attach_new(other, a, a->id, QUEUE_PUT);
    struct segment *small;
    int fd;

    ck_assert_int_eq(segment_new(pool_get(owner), 64, 256, &small), 0);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    take_slots(small, 0);
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, 1)), QUEUE_OK);
    run_until_idle();
    ck_assert_int_eq(route_bell_get(attach, &fd), CAUSE_NONE);
    run_until_idle();
    for (uint32_t i = small->view.n_data; i < segment_slots(&small->view); i++)
        mbuf_release(&small->view, &small->view.mbufs[i]);
    eventfd_write(fd, 1);
    queue_attach_free(attach);
    run_until_idle();
    expect_lengths(b, 1, 2);
    expect_lengths(c, 1, 2);
    ck_assert_uint_eq(in_use(small), 0);
}
END_TEST

static bool becomes_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* What a session makes of its bell is its own affair: others ring theirs. npud reads none. */
START_TEST(each_session_has_a_bell_of_its_own)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);
    struct queue_attach *attach = queue_attach_new(other, a, a->id, QUEUE_PUT);
    int mine, others, again;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(route_bell_get(a->attached, &mine), CAUSE_NONE);
    ck_assert_int_eq(route_bell_get(attach, &others), CAUSE_NONE);
    ck_assert_int_eq(route_bell_get(attach, &again), CAUSE_NONE);
    ck_assert_int_eq(others, again);
    ck_assert_int_ne(mine, others);
    run_until_idle();
    ck_assert_int_eq(fcntl(others, F_SETFL, 0), 0);
    ck_assert(fcntl(mine, F_GETFL) & O_NONBLOCK);
    ck_assert_int_eq(eventfd_write(others, UINT64_MAX - 1), 0);
    ck_assert(!becomes_readable(mine));
    for (uint64_t i = 0; i < 3; i++) {
        send_lengths(a, i, i + 1);
        run_until_idle();
        expect_lengths(b, i, i + 1);
    }
    ck_assert(becomes_readable(mine) && becomes_readable(others));
}
END_TEST

/* What npud carries comes behind the messages that are still on their way to a new ring. */
START_TEST(a_message_comes_behind_those_that_move)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 64);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    run_until_idle();
    send_lengths(b, 0, 40);
    send_lengths(a, 40, 41);
    relay_make_ready(a->route);
    ck_assert_int_eq(queue_move(b), 0);
    ck_assert_ptr_nonnull(b->rest);
    run_until_idle();
    expect_lengths(b, 0, 41);
}
END_TEST

/* A source does not go before its routes have what is still on its way to its new ring. */
START_TEST(a_source_that_moves_is_not_empty)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 64);

    send_lengths(a, 0, 40);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(queue_move(a), 0);
    for (int i = 0; i < 10; i++) {
        ck_assert_ptr_nonnull(a->rest);
        ck_assert(!server.queues->on_ending(a));
    }
    run_until_idle();
    expect_lengths(b, 0, 40);
}
END_TEST

/*
 * Guards against idle destinations whose rings have all slots of a segment: then no other
 * destination gets anything. Sixty of them share 1024 slots with one that is read.
 */
START_TEST(idle_rings_leave_slots_to_the_others)
{
    enum { IDLE = 60, N = 250 };
    struct queue *a = queue_for(owner, 64), *fast = queue_for(owner, 64), *idle[IDLE];
    struct segment *small;
    uint32_t least = UINT32_MAX;

    ck_assert_int_eq(segment_new(pool_get(owner), 64, 256, &small), 0);
    ck_assert_uint_eq(small->view.n_refs, 1024);
    for (int i = 0; i < IDLE; i++) {
        idle[i] = queue_for(owner, 8192);
        ck_assert_int_eq(bind_route(a, idle[i]), ROUTE_BOUND);
    }
    ck_assert_int_eq(bind_route(a, fast), ROUTE_BOUND);
    for (uint64_t i = 0; i < N; i++) {
        ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, i)), QUEUE_OK);
        run_until_idle();
        expect_lengths(fast, i, i + 1);
    }
    /* As many for each, and not only one. */
    for (int i = 0; i < IDLE; i++)
        if (queue_fill(&idle[i]->ring.view) < least)
            least = queue_fill(&idle[i]->ring.view);
    ck_assert_uint_ge(least, 1024 / (IDLE + 1) - 1);
    for (int i = 0; i < IDLE; i++)
        expect_lengths(idle[i], 0, N);
    ck_assert_uint_eq(in_use(small), 0);
}
END_TEST

/* What others put into a destination takes no slot of npud's from it. */
START_TEST(few_slots_and_messages_of_others)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 8192),
                 *c = queue_for(owner, 8192);
    struct segment *small;

    ck_assert_int_eq(segment_new(pool_get(owner), 64, 256, &small), 0);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    take_slots(small, 8);
    send_lengths(b, 0, 100);
    for (uint64_t i = 100; i < 150; i++)
        ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, small, i)), QUEUE_OK);
    run_until_idle();
    ck_assert_uint_gt(queue_fill(&b->ring.view), 100);
    send_lengths(b, 1000, 1100);
    expect_lengths(b, 0, 100);
    for (uint64_t routed = 100, own = 1000; routed < 150 || own < 1100;) {
        uint32_t ref = take_message(owner, b);

        run_until_idle();
        ck_assert_uint_ne(ref, 0);
        ck_assert_uint_eq(atomic_load(&mbuf_of(ref)->length),
                          ref >> 16 == small->view.id ? routed++ : own++);
        drop_chain(owner, ref);
    }
    expect_lengths(c, 100, 150);
    give_slots_back(small);
    ck_assert_uint_eq(in_use(segment) + in_use(small), 0);
}
END_TEST

/* --- ends --- */

/*
 * Guards against messages that some destinations get and others do not: npud had taken one, found
 * no slot for it, and dropped it when the routes were unbound and the source was destroyed.
 */
START_TEST(each_destination_gets_what_was_taken)
{
    enum { N = 6 };
    struct queue *a = queue_for(owner, 8), *b[N];

    for (int i = 0; i < N; i++) {
        b[i] = queue_for(owner, 2);
        ck_assert_int_eq(bind_route(a, b[i]), ROUTE_BOUND);
    }
    take_slots(segment, 3);
    for (uint64_t i = 0; i < 100; i++) {
        send_lengths(a, i, i + 1);
        run_until_idle();
    }
    ck_assert_uint_eq(queue_fill(&a->ring.view), 0);
    for (int i = 0; i < N / 2; i++)
        ck_assert_int_eq(unbind_route(a, b[i]), ROUTE_UNBOUND);
    queue_destroy(a);
    give_slots_back(segment);
    for (int i = 0; i < N; i++)
        expect_lengths(b[i], 0, 100);
    for (int i = 0; i < N; i++)
        ck_assert_uint_eq(take_message(owner, b[i]), 0);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(what_was_taken_before_unbind_is_delivered)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 40);
    run_until_idle();
    send_lengths(a, 40, 60);
    ck_assert_int_eq(unbind_route(a, b), ROUTE_UNBOUND);
    ck_assert_uint_eq(atomic_load(&a->ring.view.news->takes.routed), 0);
    run_until_idle();
    expect_lengths(b, 0, 40);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    ck_assert_ptr_null(server.router->all);
    /* What was not taken is the application's again. */
    expect_lengths(a, 40, 60);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(a_route_bound_again_goes_on_in_order)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 40);
    run_until_idle();
    ck_assert_int_eq(unbind_route(a, b), ROUTE_UNBOUND);
    ck_assert_int_eq(unbind_route(a, b), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 40, 80);
    run_until_idle();
    expect_lengths(b, 0, 80);
    ck_assert_uint_eq(owner->user->used[RESOURCE_ROUTES], 1);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(unbinding_the_slow_one_frees_the_others)
{
    struct queue *a = queue_for(owner, 8), *slow = queue_for(owner, 2),
                 *fast = queue_for(owner, 64);
    struct segment *big;

    ck_assert_int_eq(segment_new(pool_get(owner), BACKLOG_BYTES, 1, &big), 0);
    ck_assert_int_eq(bind_route(a, slow), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, fast), ROUTE_BOUND);
    send_lengths(a, 0, 2);
    ck_assert_int_eq(put_message(owner, a, alloc_buffer(owner, big, 2)), QUEUE_OK);
    run_until_idle();
    send_lengths(a, 3, 6);
    run_until_idle();
    expect_lengths(fast, 0, 3);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, fast), 0);
    ck_assert_int_eq(unbind_route(a, slow), ROUTE_UNBOUND);
    run_until_idle();
    expect_lengths(fast, 3, 6);
    expect_lengths(slow, 0, 3);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, slow), 0);
    ck_assert_uint_eq(in_use(segment) + in_use(big), 0);
}
END_TEST

START_TEST(with_a_destination_goes_what_was_meant_for_it)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2), *c = queue_for(owner, 64);
    const struct route *found[4];
    struct route_query query = {.mode = 100};
    bool more;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    send_lengths(a, 0, 40);
    run_until_idle();
    queue_destroy(b);
    send_lengths(a, 40, 60);
    run_until_idle();
    expect_lengths(c, 0, 60);
    ck_assert_uint_eq(in_use(segment), 0);
    ck_assert_uint_eq(route_query_find(owner, &query, found, 4, &more), 1);
    ck_assert_int_eq(found[0]->state, ROUTE_ABNORMAL);
    ck_assert(router_uses(a));
    /* The last one that worked: messages stay, and are the application's. */
    queue_destroy(c);
    ck_assert_uint_eq(atomic_load(&a->ring.view.news->takes.routed), 0);
    send_lengths(a, 60, 70);
    run_until_idle();
    expect_lengths(a, 60, 70);
    ck_assert_uint_eq(route_query_find(owner, &query, found, 4, &more), 2);
    queue_destroy(a);
    ck_assert_uint_eq(route_query_find(owner, &query, found, 4, &more), 2);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/*
 * A long backlog is dropped in steps of the route's user, who pays for it meanwhile. What other
 * routes have of it is delivered.
 */
START_TEST(a_backlog_without_a_destination_goes_in_steps)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2), *c = queue_for(owner, 512);
    uint64_t before = owner->user->used[RESOURCE_TABLE_MEMORY];

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    for (uint64_t i = 0; i < 300; i += 60) {
        send_lengths(a, i, i + 60);
        run_until_idle();
        if (i == 180)
            ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    }
    ck_assert_uint_gt(owner->user->used[RESOURCE_TABLE_MEMORY], before);
    queue_destroy(b);
    ck_assert_uint_ge(in_use(segment), 250);
    ck_assert_ptr_nonnull(server.router->rests);
    ck_assert_ptr_eq(server.router->rests->job.owner, &owner->user->schedule.leftovers);
    ck_assert(server.router->rests->job.listed);
    npud_turn();
    run_until_idle();
    ck_assert_ptr_null(server.router->rests);
    expect_lengths(c, 240, 300);
    ck_assert_uint_eq(in_use(segment), 0);
    ck_assert_uint_lt(owner->user->used[RESOURCE_TABLE_MEMORY], before);
}
END_TEST

#define ENDS 20

/* The routes of a queue that no session has any more leave it one after the other. */
START_TEST(routes_of_a_queue_that_ends_go_in_steps)
{
    bool is_source = _i == 0;
    struct queue *hub = queue_for(owner, 64), *end[ENDS];
    uint32_t left = ENDS, *bound;

    for (int i = 0; i < ENDS; i++) {
        end[i] = queue_for(owner, 8);
        ck_assert_int_eq(is_source ? bind_route(hub, end[i]) : bind_route(end[i], hub),
                         ROUTE_BOUND);
    }
    run_until_idle();
    bound = is_source ? &hub->route->n_out : &hub->route->n_in;
    queue_attach_free(queue_attachment(owner, hub));
    server.schedule.until = 1; /* each step is over at once */
    queue_check_used(hub);
    ck_assert_ptr_eq(hub->end.owner, &owner->user->schedule.leftovers);
    for (; *bound > 1; left = *bound) {
        ck_assert(hub->end.listed);
        ck_assert_uint_le(left - *bound, 1);
        ck_assert(hub->end.run(&hub->end));
    }
    ck_assert_uint_eq(server.queues->n, ENDS + 1);
    server.schedule.until = 0;
    run_until_idle();
    ck_assert_uint_eq(server.queues->n, ENDS);
    for (int i = 0; i < ENDS; i++)
        ck_assert_uint_eq(end[i]->routes_from + end[i]->routes_to, 0);
}
END_TEST

/* Nothing that is put meanwhile goes to some of them only. */
START_TEST(a_source_that_ends_gives_nothing_to_the_rest)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 8), *c = queue_for(owner, 8);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    run_until_idle();
    queue_attach_free(queue_attachment(owner, a));
    server.schedule.until = 1;
    queue_check_used(a);
    ck_assert_uint_eq(a->route->n_out, 1);
    send_lengths(a, 0, 1);
    relay_make_ready(a->route);
    ck_assert(!a->route->turn.run(&a->route->turn));
    ck_assert_uint_eq(queue_fill(&a->ring.view), 1);
    server.schedule.until = 0;
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    ck_assert_uint_eq(take_message(owner, c), 0);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* npud ends before it has come to that. */
START_TEST(a_backlog_without_a_destination_goes_with_npud)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 60);
    run_until_idle();
    queue_destroy(b);
    ck_assert_ptr_nonnull(server.router->rests);
}
END_TEST

/*
 * A buffer of an ended session that claims to be in a chain is kept while npud has the head. The
 * pool is looked at when the queue ends, and its messages are dropped after that: then it is looked
 * at again.
 */
START_TEST(what_a_dropped_backlog_has_kept_goes)
{
    struct session *dead = npud_session(300);
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);
    struct segment *kept;
    struct pool *orphan;
    uint32_t last;

    ck_assert_int_eq(segment_new(pool_get(dead), 64, 16, &kept), 0);
    orphan = kept->pool;
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 40);
    last = alloc_buffer(owner, segment, 40);
    atomic_store(&kept->view.mbufs[0].word, mbuf_word_member(1, last));
    ck_assert_int_eq(put_message(owner, a, last), QUEUE_OK);
    run_until_idle();
    session_free(dead);
    run_until_idle();
    ck_assert_ptr_eq(server.pools->orphans, orphan);
    queue_destroy(b);
    ck_assert_ptr_nonnull(server.router->rests);
    event_del(orphan->on_look);
    while (orphan->job.run(&orphan->job))
        ;
    ck_assert_int_eq(orphan->look, POOL_LOOK_NONE);
    run_until_idle();
    ck_assert_ptr_null(server.router->rests);
    ck_assert(!server.pools->orphans || orphan->look == POOL_LOOK_DUE);
    while (server.pools->orphans)
        schedule_round(&server.schedule, server.base, true);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(what_a_source_had_is_delivered_when_it_goes)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);
    struct route_refusal why;
    uint32_t source = a->id, destination = b->id;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 30);
    run_until_idle();
    send_lengths(a, 30, 60);
    queue_destroy(a);
    /* As long as something is to come. */
    ck_assert_uint_eq(atomic_load(&b->ring.view.news->puts.routed), 1);
    ck_assert_int_eq(router_unbind(owner, source, destination, &why), ROUTE_UNBOUND);
    expect_lengths(b, 0, 60);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    ck_assert_uint_eq(atomic_load(&b->ring.view.news->puts.routed), 0);
    ck_assert_ptr_null(server.router->all);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(abnormal_routes_do_not_heal)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);
    struct route_refusal why;
    uint32_t id = b->id;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    queue_destroy(b);
    ck_assert_int_eq(router_bind(owner, a->id, id, &why), ROUTE_ABNORMAL);
    ck_assert_int_eq(why.cause, CAUSE_ROUTE_BROKEN);
    /* Nor when another queue has got the id. */
    owner->user->next_queue = id;
    b = queue_for(owner, 8);
    ck_assert_uint_eq(b->id, id);
    ck_assert_int_eq(bind_route(a, b), ROUTE_ABNORMAL);
    ck_assert_int_eq(unbind_route(a, b), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 8);
    run_until_idle();
    expect_lengths(b, 0, 8);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(an_abnormal_route_goes_with_all_who_know_it)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    queue_destroy(b);
    queue_destroy(a);
    ck_assert_ptr_nonnull(server.router->all);
    session_free(owner);
    ck_assert_ptr_null(server.router->all);
}
END_TEST

START_TEST(the_ring_of_either_end_may_move)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 4);
    struct queue_attach *third[2] = {queue_attach_new(other, a, a->id, QUEUE_TAKE),
                                     queue_attach_new(other, b, b->id, QUEUE_PUT)};
    uint32_t numbers[2] = {a->ring.view.number, b->ring.view.number};

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 20);
    run_until_idle();
    send_lengths(a, 20, 40);
    ck_assert_int_eq(queue_attach_change(third[0], 0), 0);
    ck_assert_int_eq(queue_attach_change(third[1], 0), 0);
    ck_assert_uint_ne(a->ring.view.number, numbers[0]);
    ck_assert_uint_ne(b->ring.view.number, numbers[1]);
    run_until_idle();
    send_lengths(a, 40, 60);
    expect_lengths(b, 0, 60);
    run_until_idle();
    send_lengths(a, 60, 61);
    run_until_idle();
    expect_lengths(b, 60, 61);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* npud waited for room in the old ring, and finds some in the new one. Then that is full again. */
START_TEST(a_full_ring_may_move)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 4);
    struct queue_attach *third = queue_attach_new(other, b, b->id, QUEUE_PUT);
    uint32_t number = b->ring.view.number;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    send_lengths(a, 0, 6);
    run_until_idle();
    ck_assert_int_eq(queue_attach_change(third, 0), 0);
    ck_assert_uint_ne(b->ring.view.number, number);
    expect_lengths(b, 0, 4);
    run_until_idle();
    send_lengths(a, 6, 12);
    run_until_idle();
    expect_lengths(b, 4, 12);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/* --- which queues are bound --- */

START_TEST(what_is_refused)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8), *c = queue_for(owner, 8);
    struct route_refusal why;

    ck_assert_int_eq(bind_route(a, a), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(b, a), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(b, c), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(c, a), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(c, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_UNBOUND);
    ck_assert_int_eq(router_bind(owner, a->id, 4095, &why), ROUTE_UNBOUND);
    ck_assert_int_eq(why.cause, CAUSE_QUEUE_NOT_ATTACHED);
    ck_assert_uint_eq(why.queue, 4095);
    ck_assert_int_eq(router_bind(owner, 1u << 31, a->id, &why), ROUTE_UNBOUND);
    ck_assert_int_eq(router_unbind(owner, 77, 78, &why), ROUTE_UNBOUND);
    ck_assert_uint_eq(owner->user->used[RESOURCE_ROUTES], 2);
}
END_TEST

START_TEST(only_who_manages_binds_and_unbinds)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);
    struct queue_attach *x = queue_attach_new(other, a, a->id, QUEUE_TAKE | QUEUE_PUT);
    struct queue_attach *y = queue_attach_new(other, b, b->id, QUEUE_RIGHTS);
    struct route_refusal why;

    ck_assert_int_eq(router_bind(other, a->id, b->id, &why), ROUTE_UNBOUND);
    ck_assert_int_eq(why.cause, CAUSE_QUEUE_NOT_MANAGED);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(queue_attach_change(y, QUEUE_TAKE), 0);
    ck_assert_int_eq(router_unbind(other, a->id, b->id, &why), ROUTE_BOUND);
    ck_assert_int_eq(queue_attach_change(x, QUEUE_RIGHTS), 0);
    ck_assert_int_eq(router_unbind(other, a->id, b->id, &why), ROUTE_UNBOUND);
    ck_assert_ptr_null(server.router->all);
}
END_TEST

START_TEST(the_limit_is_exact)
{
    static const char *const settings[] = {"limits.routes=2", NULL};
    struct queue *a, *b[3];

    start_with(settings);
    a = queue_for(owner, 8);
    for (int i = 0; i < 3; i++)
        b[i] = queue_for(owner, 8);
    ck_assert_int_eq(bind_route(a, b[0]), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, b[1]), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, b[2]), ROUTE_UNBOUND);
    ck_assert_ptr_null(b[2]->route);
    ck_assert_int_eq(unbind_route(a, b[0]), ROUTE_UNBOUND);
    ck_assert_int_eq(bind_route(a, b[2]), ROUTE_BOUND);
}
END_TEST

START_TEST(queries_give_all_in_pages)
{
    static const struct route *found[64];
    struct queue *a[3], *b[100];
    struct route_query query = {.mode = 0};
    unsigned n = 0;
    bool more = true;

    for (int i = 0; i < 3; i++)
        a[i] = queue_for(owner, 2);
    for (int i = 0; i < 100; i++)
        b[i] = queue_for(owner, 2);
    for (int i = 100; i-- > 0;)
        for (int j = 0; j < 3; j++)
            ck_assert_int_eq(bind_route(a[j], b[i]), ROUTE_BOUND);
    query.source = a[1]->id;
    for (uint32_t last = 0; more; query.goes_on = true) {
        size_t got = route_query_find(owner, &query, found, 33, &more);

        for (size_t i = 0; i < got; i++, n++) {
            ck_assert_uint_eq(found[i]->name.source, a[1]->id);
            ck_assert_uint_gt(found[i]->name.destination, last);
            last = found[i]->name.destination;
        }
        query.after_source = a[1]->id;
        query.after_destination = last;
    }
    ck_assert_uint_eq(n, 100);
    query = (struct route_query){.mode = 1, .destination = b[7]->id};
    ck_assert_uint_eq(route_query_find(owner, &query, found, 64, &more), 3);
    query = (struct route_query){.mode = 2, .source = a[0]->id, .destination = b[7]->id};
    ck_assert_uint_eq(route_query_find(owner, &query, found, 64, &more), 1);
    query = (struct route_query){.mode = 100};
    ck_assert_uint_eq(route_query_find(owner, &query, found, 64, &more), 0);
    /* Others see routes of queues that they are attached to. */
    query = (struct route_query){.mode = 0, .source = a[0]->id};
    ck_assert_uint_eq(route_query_find(other, &query, found, 64, &more), 0);
    ck_assert_ptr_nonnull(queue_attach_new(other, a[0], a[0]->id, QUEUE_PUT));
    ck_assert_uint_eq(route_query_find(other, &query, found, 64, &more), 64);
    ck_assert(more);
}
END_TEST

/* --- queries, beside a plain look at all routes --- */

#define PLAIN_QUEUES 12 /* the first half are sources */

static bool plain_match(const struct route *route, const struct route_query *query)
{
    const struct route_name *name = &route->name;
    uint64_t pair = (uint64_t)name->source << 32 | name->destination;
    uint64_t after = (uint64_t)query->after_source << 32 | query->after_destination;

    if (route->state == ROUTE_UNBOUND || (query->goes_on && pair <= after))
        return false;
    switch (query->mode) {
    case 0:
        return name->source == query->source;
    case 1:
        return name->destination == query->destination;
    case 2:
        return name->source == query->source && name->destination == query->destination;
    default:
        return route->state == ROUTE_ABNORMAL;
    }
}

static int compare_plain(const void *x, const void *y)
{
    const struct route *a = *(const struct route *const *)x, *b = *(const struct route *const *)y;
    const struct route_name *m = &a->name, *n = &b->name;

    if (m->source != n->source)
        return m->source < n->source ? -1 : 1;
    if (m->destination != n->destination)
        return m->destination < n->destination ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static void expect_plain(const struct route_query *query)
{
    const struct route *plain[PLAIN_QUEUES * PLAIN_QUEUES], *found[4], *route;
    size_t n = 0, got;
    bool more;

    DL_FOREACH (server.router->all, route)
        if (plain_match(route, query))
            plain[n++] = route;
    qsort(plain, n, sizeof(plain[0]), compare_plain);
    got = route_query_find(owner, query, found, 4, &more);
    CHECK(got == (n < 4 ? n : 4) && more == (n > 4));
    for (size_t i = 0; i < got; i++)
        CHECK(found[i] == plain[i]);
}

static void expect_all_plain(const uint32_t *id, uint64_t *rng)
{
    static const uint32_t modes[] = {0, 1, 2, 100};

    for (int i = 0; i < 200; i++) {
        struct route_query query = {
            .mode = modes[random_below(rng, 4)],
            .source = id[random_below(rng, PLAIN_QUEUES)],
            .destination = id[random_below(rng, PLAIN_QUEUES)],
            .goes_on = random_below(rng, 2),
            .after_source = id[random_below(rng, PLAIN_QUEUES)],
            .after_destination = id[random_below(rng, PLAIN_QUEUES)],
        };

        expect_plain(&query);
    }
}

/* Routes come and go, lose their queues, and have names that others had before. */
START_TEST(queries_agree_with_a_plain_look)
{
    struct queue *queue[PLAIN_QUEUES];
    uint32_t id[PLAIN_QUEUES];
    uint64_t rng = 11;

    for (int i = 0; i < PLAIN_QUEUES; i++) {
        queue[i] = queue_for(owner, 2);
        id[i] = queue[i]->id;
    }
    for (int i = 0; i < 300; i++) {
        uint32_t from = random_below(&rng, PLAIN_QUEUES / 2);
        uint32_t to = PLAIN_QUEUES / 2 + random_below(&rng, PLAIN_QUEUES / 2);
        uint32_t choice = random_below(&rng, 20), gone = random_below(&rng, PLAIN_QUEUES);

        if (choice < 10) {
            bind_route(queue[from], queue[to]);
        } else if (choice < 19) {
            unbind_route(queue[from], queue[to]);
        } else {
            queue_destroy(queue[gone]);
            owner->user->next_queue = id[gone];
            queue[gone] = queue_for(owner, 2);
            CHECK(queue[gone]->id == id[gone]);
        }
        expect_all_plain(id, &rng);
    }
    ck_assert_uint_eq(HASH_COUNT(server.router->by_user), 1);
    session_free(owner);
    ck_assert_ptr_null(server.router->by_user);
}
END_TEST

/* --- hostile clients --- */

/* Whatever stands in the ring: what is no message is passed over, and what is one gets through. */
START_TEST(forged_messages_are_passed_over)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 64);
    struct queue_view *v = &a->ring.view;
    uint32_t mine = alloc_buffer(owner, segment, 9);
    const uint32_t forged[] = {
        0,    0xffffffff, segment->view.id << 16 | 0xffff,
        mine, 1u << 16,   segment->view.id << 16 | (segment->view.n_data - 1)};
    uint64_t position = 0;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    run_until_idle();
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++, position++)
        atomic_store(&v->put->slot[position & v->mask].word, queue_slot_word(position, forged[i]));
    atomic_store(&v->put->tail, position);
    send_lengths(a, 1, 5);
    run_until_idle();
    expect_lengths(b, 1, 5);
    ck_assert_uint_eq(mbuf_state(atomic_load(&mbuf_of(mine)->word)), MBUF_HELD);
    drop_chain(owner, mine);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/*
 * A peer with the right to take from the destination would map the segment of everything that is in
 * the message.
 */
START_TEST(segments_that_the_source_does_not_allow_do_not_travel)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8);
    struct segment *secret;
    uint32_t head = alloc_buffer(owner, segment, 1), member;

    ck_assert_ptr_nonnull(peer_get(other));
    ck_assert_int_eq(segment_new(pool_get(other), 64, 16, &secret), 0);
    member = alloc_buffer(other, secret, 2);
    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    append_buffer(head, member);
    ck_assert_int_eq(put_message(owner, a, head), QUEUE_OK);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    ck_assert(!queue_allows_map(b, secret));
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(chains_that_never_end_do)
{
    struct queue *a = queue_for(owner, 8), *b = queue_for(owner, 8), *c = queue_for(owner, 8);
    uint32_t head = alloc_buffer(owner, segment, 1), member = alloc_buffer(owner, segment, 2), got;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    append_buffer(head, member);
    atomic_store(&mbuf_of(member)->next, member);
    atomic_store(&mbuf_of(head)->count, UINT32_MAX);
    ck_assert_int_eq(put_message(owner, a, head), QUEUE_OK);
    run_until_idle();
    got = take_message(owner, b);
    ck_assert_uint_eq(atomic_load(&mbuf_of(got)->count), MBUF_CHAIN_MAX);
    drop_chain(owner, got);
    ck_assert_uint_eq(take_message(owner, c), head);
    queue_destroy(b);
    atomic_store(&mbuf_of(head)->count, 2);
    drop_chain(owner, head);
    ck_assert_uint_eq(in_use(segment), 0);
    /* And one that npud frees. */
    head = alloc_buffer(owner, segment, 1);
    member = alloc_buffer(owner, segment, 2);
    append_buffer(head, member);
    atomic_store(&mbuf_of(member)->next, member);
    mbuf_hold(mbuf_of(head), PEER_NPUD);
    chain_free(&server, head);
    chain_free(&server, head);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

START_TEST(words_that_change_in_the_backlog)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 2);
    uint32_t refs[10];

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    for (uint64_t i = 0; i < 10; i++) {
        refs[i] = alloc_buffer(owner, segment, i);
        ck_assert_int_eq(put_message(owner, a, refs[i]), QUEUE_OK);
    }
    run_until_idle();
    /* Taken back while npud has it; and sent once more. */
    mbuf_hold(mbuf_of(refs[5]), owner->peer_id);
    mbuf_hold(mbuf_of(refs[7]), owner->peer_id);
    ck_assert_int_eq(put_message(owner, a, refs[7]), QUEUE_OK);
    run_until_idle();
    expect_lengths(b, 0, 5);
    expect_lengths(b, 6, 10);
    run_until_idle();
    ck_assert_uint_eq(take_message(owner, b), 0);
    drop_chain(owner, refs[5]);
    ck_assert_uint_eq(in_use(segment), 0);
}
END_TEST

/*
 * Every word of both files, at random, all the time: npud stays in its bounds, and comes to an end.
 */
START_TEST(noise_in_the_rings)
{
    struct queue *a = queue_for(owner, 64), *b = queue_for(owner, 4), *c = queue_for(owner, 4);
    uint64_t rng = 42;
    int fd;

    ck_assert_int_eq(bind_route(a, b), ROUTE_BOUND);
    ck_assert_int_eq(bind_route(a, c), ROUTE_BOUND);
    for (int i = 0; i < 3000; i++) {
        struct queue *q = random_below(&rng, 2) ? a : random_below(&rng, 2) ? b : c;
        bool put_side = random_below(&rng, 2);
        size_t size = put_side ? queue_put_size(q->ring.view.depth) : queue_take_size();
        _Atomic uint64_t *words =
            put_side ? (_Atomic uint64_t *)q->ring.view.put : (_Atomic uint64_t *)q->ring.view.take;
        uint64_t *word = (uint64_t *)(words + random_below(&rng, (uint32_t)(size / 8)));
        uint32_t ref = alloc_buffer(owner, segment, 1);

        *word = random_below(&rng, 4) ? random_next(&rng) : random_below(&rng, 4);
        if (put_message(owner, a, ref) != QUEUE_OK)
            mbuf_release(&segment->view, mbuf_of(ref));
        route_bell_get(a->attached, &fd);
        npud_turn();
        if (i % 64 == 0)
            for (uint32_t slot = 0; slot < segment_slots(&segment->view); slot++)
                if (random_below(&rng, 2))
                    mbuf_release(&segment->view, &segment->view.mbufs[slot]);
    }
    queue_destroy(a);
    queue_destroy(b);
}
END_TEST

/* --- backlog --- */

START_TEST(a_backlog_is_a_queue)
{
    static struct message m[100001];
    struct message big = {.kib = 64};
    static const uint64_t limit[RESOURCE_COUNT] = {[RESOURCE_TABLE_MEMORY] = UINT64_C(4) << 20};
    struct users users = {.limit = limit};
    struct user *user = user_ref(&users, 1);
    struct backlog b = {0};
    uint32_t in = 0, out = 0;
    uint64_t rng = 7;

    ck_assert_ptr_null(backlog_first(&b));
    for (int i = 0; i < 100000; i++) {
        if (random_below(&rng, 1000) < (i / 10000 % 2 ? 400u : 600u)) {
            ck_assert(backlog_reserve(&b, user));
            m[in].kib = 2;
            backlog_push(&b, &m[in++]);
        } else if (b.n > 0) {
            CHECK(backlog_first(&b) == &m[out]);
            CHECK(b.item[(b.first + b.n - 1) & (b.size - 1)] == &m[in - 1]);
            backlog_pop(&b);
            out++;
        }
        CHECK(b.n == in - out && b.kib == 2 * b.n);
    }
    while (b.n > 0)
        backlog_pop(&b);
    ck_assert_ptr_null(b.item);
    for (uint32_t i = 0; i < BACKLOG_MESSAGES; i++) {
        CHECK(!backlog_full(&b));
        CHECK(backlog_reserve(&b, user));
        backlog_push(&b, m);
    }
    ck_assert(backlog_full(&b));
    backlog_pop(&b);
    ck_assert(!backlog_full(&b));
    while (b.n > 0)
        backlog_pop(&b);
    for (uint64_t i = 0; i < BACKLOG_BYTES >> 16; i++) {
        CHECK(!backlog_full(&b));
        CHECK(backlog_reserve(&b, user));
        backlog_push(&b, &big);
    }
    ck_assert(backlog_full(&b));
    while (b.n > 0)
        backlog_pop(&b);
    user_unref(user); /* asserts that all charges were given back */
}
END_TEST

START_TEST(a_backlog_is_charged)
{
    static struct message m[64];
    uint64_t limit[RESOURCE_COUNT] = {0};
    struct users users = {.limit = limit};
    struct user *user = user_ref(&users, 1);
    struct backlog b = {0}, second = {0};
    uint32_t n = 0;

    ck_assert(!backlog_reserve(&b, user));
    ck_assert_ptr_null(b.item);
    limit[RESOURCE_TABLE_MEMORY] = 64 * (sizeof(struct message *) + sizeof(struct message));
    while (backlog_reserve(&b, user))
        backlog_push(&b, &m[n++]);
    ck_assert_uint_eq(n, 64);
    ck_assert(!backlog_reserve(&second, user));
    while (b.n > 0)
        backlog_pop(&b);
    ck_assert_uint_eq(user->used[RESOURCE_TABLE_MEMORY], 0);
    ck_assert(backlog_reserve(&second, user));
    backlog_deinit(&second);
    user_unref(user);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *c = suite_case(suite, name, 120, start_npud, stop_npud);

    return c;
}

int main(void)
{
    Suite *suite = suite_create("router");
    TCase *c = add_case(suite, "messages");

    tcase_add_test(c, one_to_one_moves_buffers_in_order);
    tcase_add_test(c, messages_from_before_the_route_go_along);
    tcase_add_test(c, one_to_many_shares_data_only);
    tcase_add_test(c, one_to_hundreds_goes_in_slices);
    tcase_add_test(c, a_bell_is_answered_in_a_turn);
    tcase_add_test(c, messages_to_hundreds_take_several_turns);
    tcase_add_test(c, hundreds_of_backlogs_grow_in_steps);
    tcase_add_test(c, routes_change_while_a_message_is_given);
    tcase_add_test(c, all_routes_end_while_a_message_is_given);
    tcase_add_test(c, a_source_ends_while_a_message_is_given);
    tcase_add_test(c, all_destinations_end_while_a_message_is_given);
    tcase_add_test(c, memory_ends_while_a_message_is_given);
    tcase_add_test(c, relays_that_wait_for_memory_try_again_in_slices);
    tcase_add_test(c, a_source_goes_on_when_its_user_has_memory_again);
    tcase_add_test(c, a_source_that_ends_is_emptied_in_steps);
    tcase_add_test(c, many_to_one_keeps_the_order_of_each);
    tcase_add_test(c, a_chain_goes_to_three);
    tcase_add_test(c, a_slow_destination_stalls_nobody_else);
    tcase_add_test(c, a_full_backlog_stops_the_source);
    tcase_add_test(c, no_slot_for_a_reference_is_waited_for);
    tcase_add_test(c, a_slot_comes_for_one_that_is_a_source_now);
    tcase_add_test(c, a_bell_is_heard_though_the_ring_moves);
    tcase_add_test(c, a_bell_is_heard_though_its_session_leaves);
    tcase_add_test(c, each_session_has_a_bell_of_its_own);
    tcase_add_test(c, a_message_comes_behind_those_that_move);
    tcase_add_test(c, a_source_that_moves_is_not_empty);
    tcase_add_test(c, idle_rings_leave_slots_to_the_others);
    tcase_add_test(c, few_slots_and_messages_of_others);
    c = add_case(suite, "ends");
    tcase_add_test(c, each_destination_gets_what_was_taken);
    tcase_add_test(c, what_was_taken_before_unbind_is_delivered);
    tcase_add_test(c, a_route_bound_again_goes_on_in_order);
    tcase_add_test(c, unbinding_the_slow_one_frees_the_others);
    tcase_add_test(c, with_a_destination_goes_what_was_meant_for_it);
    tcase_add_loop_test(c, routes_of_a_queue_that_ends_go_in_steps, 0, 2);
    tcase_add_test(c, a_source_that_ends_gives_nothing_to_the_rest);
    tcase_add_test(c, a_backlog_without_a_destination_goes_in_steps);
    tcase_add_test(c, a_backlog_without_a_destination_goes_with_npud);
    tcase_add_test(c, what_a_dropped_backlog_has_kept_goes);
    tcase_add_test(c, what_a_source_had_is_delivered_when_it_goes);
    tcase_add_test(c, abnormal_routes_do_not_heal);
    tcase_add_test(c, an_abnormal_route_goes_with_all_who_know_it);
    tcase_add_test(c, the_ring_of_either_end_may_move);
    tcase_add_test(c, a_full_ring_may_move);
    c = add_case(suite, "names");
    tcase_add_test(c, what_is_refused);
    tcase_add_test(c, only_who_manages_binds_and_unbinds);
    tcase_add_test(c, queries_give_all_in_pages);
    tcase_add_test(c, queries_agree_with_a_plain_look);
    c = add_case(suite, "hostile");
    tcase_add_test(c, forged_messages_are_passed_over);
    tcase_add_test(c, segments_that_the_source_does_not_allow_do_not_travel);
    tcase_add_test(c, chains_that_never_end_do);
    tcase_add_test(c, words_that_change_in_the_backlog);
    tcase_add_test(c, noise_in_the_rings);
    c = suite_case(suite, "by themselves", 0, NULL, stop_npud);
    tcase_add_test(c, the_limit_is_exact);
    c = suite_case(suite, "backlog", 0, NULL, NULL);
    tcase_add_test(c, a_backlog_is_a_queue);
    tcase_add_test(c, a_backlog_is_charged);
    return run_suite(suite);
}
