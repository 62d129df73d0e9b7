/*
 * What an operation of npud costs while others hold much. No cost may grow with that: each row is
 * measured in a world with few objects and in one with eight times as many. The best of some goes
 * counts, because the machine may be busy.
 *
 * NPUD_TEST_TABLE=1 prints what each row costs beside 100, 1,000 and 4,000 objects.
 */
#include "npud.h"

#include <stdio.h>
#include <utlist.h>

#include "daemon/base/pidfd.h"
#include "daemon/buffers/grant.h"
#include "daemon/buffers/pool.h"
#include "daemon/buffers/queue.h"
#include "daemon/buffers/route_query.h"
#include "daemon/buffers/router.h"
#include "daemon/buffers/segment.h"
#include "tests/common/need.h"

#define FEW         120u
#define MANY        (8 * FEW)
#define GOES        15
#define DESCRIPTORS 16384
#define SLACK       4 /* times as much is no growth: caches, and one more level of a tree */

/* Sessions that others are beside. */
static struct session *producer, *consumer;
static struct ipc_open *shared_event;

static void begin(void)
{
    npud_start((const char *const[]){"engine.spin_us=0", "limits.ipc_events=100000", NULL});
    producer = npud_session(100);
    consumer = npud_session(getpid());
}

static struct queue *make_queue(struct session *session)
{
    struct queue_attach *attach;

    ck_assert_int_eq(queue_new(session, "", 2, &attach), 0);
    return attach->queue;
}

static struct segment *make_segment(struct session *session)
{
    struct segment *segment;

    ck_assert_int_eq(segment_new(pool_get(session), 64, 64, &segment), 0);
    return segment;
}

/* A session of the consumer's user that is beside: the i-th. */
static struct session *make_neighbour(unsigned i)
{
    return npud_session_of(2000, 1 << 24 | i);
}

static void grant_to_consumer(struct queue *queue)
{
    ck_assert_int_eq(grant_set(queue, getpid(), QUEUE_TAKE), 0);
}

/* As on_attach_queue(). */
static uint64_t attach_consumer(struct queue *queue)
{
    struct grant *grant = grant_find(consumer, queue);
    uint64_t begin_ns;

    ck_assert_ptr_nonnull(grant);
    begin_ns = clock_ns();
    ck_assert_ptr_nonnull(queue_attach_new(consumer, queue, queue->id, grant->rights));
    grant_free(grant);
    queue_party_came(queue, 0);
    return clock_ns() - begin_ns;
}

/* As on_map_segment(). */
static uint64_t map_for_consumer(struct segment *segment)
{
    uint64_t begin_ns = clock_ns();

    ck_assert(queue_session_may_map(consumer, segment));
    ck_assert(segment_map(peer_get(consumer), segment));
    return clock_ns() - begin_ns;
}

/* --- queues and segments of one consumer --- */

static struct queue *any_queue;

static void make_taken(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct segment *segment = make_segment(producer);

        any_queue = make_queue(producer);
        ck_assert(queue_allow_map(any_queue, segment));
        grant_to_consumer(any_queue);
        attach_consumer(any_queue);
        map_for_consumer(segment);
    }
}

static uint64_t cost_of_attach(void)
{
    struct queue *queue = make_queue(producer);
    uint64_t ns;

    grant_to_consumer(queue);
    ns = attach_consumer(queue);
    queue_destroy(queue);
    return ns;
}

static uint64_t cost_of_revoke(void)
{
    struct queue *queue = make_queue(producer);
    uint64_t ns;

    grant_to_consumer(queue);
    attach_consumer(queue);
    ns = clock_ns();
    ck_assert_int_eq(grant_set(queue, getpid(), 0), 0);
    ns = clock_ns() - ns;
    queue_destroy(queue);
    return ns;
}

static uint64_t cost_of_first_take(void)
{
    struct segment *segment = make_segment(producer);
    uint64_t ns;

    ck_assert(queue_allow_map(any_queue, segment));
    ns = map_for_consumer(segment);
    segment_free(segment);
    return ns;
}

/* --- queues of another user --- */

static void make_queues_of_neighbour(unsigned n)
{
    struct session *neighbour = make_neighbour(0);
    struct segment *segment = make_segment(neighbour);

    for (unsigned i = 0; i < n; i++)
        ck_assert(queue_allow_map(make_queue(neighbour), segment));
}

static uint64_t cost_of_segment_free(void)
{
    struct segment *segment = make_segment(producer);
    uint64_t ns = clock_ns();

    segment_free(segment);
    return clock_ns() - ns;
}

/* --- streams --- */

static void make_streams(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        npud_stream(consumer, 0);
}

static uint64_t cost_of_notify_close(void)
{
    struct notify_open *open;
    uint64_t ns;

    ck_assert_int_eq(notify_new(consumer, devices_get(server.devices, 0), false, &open), 0);
    ns = clock_ns();
    notify_open_free(open);
    return clock_ns() - ns;
}

static uint64_t cost_of_ipc_event_close(void)
{
    struct ipc_open *open;
    uint64_t ns;

    ck_assert_int_eq(ipc_event_new(consumer, 0, &open), 0);
    ns = clock_ns();
    ipc_open_free(open);
    return clock_ns() - ns;
}

/* --- sessions of another user --- */

static void make_pools(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ck_assert_ptr_nonnull(pool_get(make_neighbour(i)));
}

static uint64_t cost_of_queue_destroy(void)
{
    struct queue *queue = make_queue(producer);
    uint64_t ns = clock_ns();

    queue_destroy(queue);
    return clock_ns() - ns;
}

static void ask_for_grants(void)
{
    struct session *session;

    DL_FOREACH (server.sessions, session)
        if (session->uid == 2000)
            grant_asked(session);
}

static void make_askers(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct session *neighbour = make_neighbour(i);

        atomic_store(&neighbour->page->grants, 0); /* or the first to be told gets a page for it */
        grant_asked(neighbour);
    }
}

static uint64_t cost_of_grant(void)
{
    struct queue *queue = make_queue(producer);
    uint64_t ns = clock_ns();

    grant_to_consumer(queue);
    ns = clock_ns() - ns;
    queue_destroy(queue);
    ask_for_grants();
    return ns;
}

static uint64_t cost_of_destroy_beside_askers(void)
{
    uint64_t ns = cost_of_queue_destroy();

    ask_for_grants();
    return ns;
}

/* --- exporters of an event --- */

static void make_exporters(unsigned n)
{
    struct ipc_open *open;

    ck_assert_int_eq(ipc_event_new(producer, 0, &shared_event), 0);
    ck_assert_int_eq(ipc_event_export(shared_event), 0);
    for (unsigned i = 0; i < n; i++) {
        struct session *session = npud_session(1 << 24 | i);

        session->pidfd = pidfd_open_process(getpid());
        ck_assert_int_eq(ipc_event_open(session, &shared_event->event->handle, &open), 0);
        ck_assert_int_eq(ipc_event_export(open), 0);
        ipc_open_free(open);
    }
}

static uint64_t cost_of_info(void)
{
    struct ipc_event_info info;
    uint64_t ns = clock_ns();

    ck_assert_int_eq(ipc_event_info(consumer, &shared_event->event->handle, &info), 0);
    ns = clock_ns() - ns;
    ck_assert_int_eq(info.pid, 100);
    return ns;
}

static uint64_t cost_of_export(void)
{
    struct session *session = npud_session(2);
    struct ipc_open *open;
    uint64_t ns;

    ck_assert_int_eq(ipc_event_open(session, &shared_event->event->handle, &open), 0);
    ns = clock_ns();
    ck_assert_int_eq(ipc_event_export(open), 0);
    while (!ipc_export_drop(session))
        ;
    ns = clock_ns() - ns;
    session_free(session);
    return ns;
}

/* --- routes of the user --- */

static struct queue *source, *last_destination;

static void make_routes(unsigned n)
{
    struct route_refusal why;

    source = make_queue(producer);
    for (unsigned i = 0; i < n; i++) {
        last_destination = make_queue(producer);
        ck_assert_int_eq(router_bind(producer, source->id, last_destination->id, &why),
                         ROUTE_BOUND);
    }
}

static uint64_t cost_of_query(void)
{
    const struct route *found[2];
    const struct route_query one = {
        .mode = 2, .source = source->id, .destination = last_destination->id};
    const struct route_query abnormal = {.mode = 100};
    bool more;
    uint64_t ns = clock_ns();

    ck_assert_uint_eq(route_query_find(producer, &one, found, 2, &more), 1);
    ck_assert_uint_eq(route_query_find(producer, &abnormal, found, 2, &more), 0);
    return clock_ns() - ns;
}

/* --- the rows --- */

static const struct row {
    const char *what, *beside;
    void (*prepare)(unsigned n);
    uint64_t (*cost)(void); /* of one time, in nanoseconds */
} rows[] = {
    {"attach", "queues and segments of the consumer", make_taken, cost_of_attach},
    {"revoke", "queues and segments of the consumer", make_taken, cost_of_revoke},
    {"first take from a segment", "queues and segments of the consumer", make_taken,
     cost_of_first_take},
    {"free a segment", "queues of another user", make_queues_of_neighbour, cost_of_segment_free},
    {"close a notify", "streams of the session", make_streams, cost_of_notify_close},
    {"close an IPC event", "streams of the session", make_streams, cost_of_ipc_event_close},
    {"destroy a queue", "pools of other sessions", make_pools, cost_of_queue_destroy},
    {"grant", "sessions that ask for a grant", make_askers, cost_of_grant},
    {"destroy a queue", "sessions that ask for a grant", make_askers,
     cost_of_destroy_beside_askers},
    {"ask for an event's exporter", "exporters", make_exporters, cost_of_info},
    {"export an event", "exporters", make_exporters, cost_of_export},
    {"query a route", "routes of the user", make_routes, cost_of_query},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t best_cost(const struct row *row, unsigned n)
{
    uint64_t best = UINT64_MAX;

    begin();
    row->prepare(n);
    for (int i = 0; i < GOES; i++) {
        uint64_t ns = row->cost();

        best = ns < best ? ns : best;
    }
    npud_stop();
    return best;
}

static void print_row(const struct row *row)
{
    printf("%-28s %-38s", row->what, row->beside);
    for (unsigned n = 100; n <= 4000; n = n == 100 ? 1000 : n * 4)
        printf(" %9.1f", (double)best_cost(row, n) / 1000);
    printf("  us\n");
}

START_TEST(no_cost_grows_with_what_others_hold)
{
    const struct row *row = &rows[_i];
    uint64_t few, many;

    if (!need_own_fds(__func__, DESCRIPTORS))
        return;
    if (getenv("NPUD_TEST_TABLE")) {
        print_row(row);
        return;
    }
    few = best_cost(row, FEW);
    many = best_cost(row, MANY);
    ck_assert_msg(many < SLACK * few, "%s: %llu ns beside %u %s, %llu ns beside %u", row->what,
                  (unsigned long long)few, FEW, row->beside, (unsigned long long)many, MANY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cost");
    TCase *tc = suite_case(suite, "cost", 120, NULL, NULL);

    tcase_add_loop_test(tc, no_cost_grows_with_what_others_hold, 0, ROWS);
    return run_suite(suite);
}
