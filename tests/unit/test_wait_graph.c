/*
 * The graph of waits is no larger than what waits and what is queued: what blocks many waits alike
 * stands in it once.
 */
#include "acl/acl_rt.h"
#include "daemon/admin/wait_graph.h"
#include "npud.h"

#define WAITS   150
#define RECORDS 150
#define MUCH    (4 * (WAITS + RECORDS)) /* edges */

static struct session *session;
static struct stream *waiting[WAITS], *busy;
static struct wait_graph graph;

static void begin(void)
{
    npud_start((const char *const[]){"engine.spin_us=0", "stream.depth=1024", NULL});
    session = npud_session(1);
    for (int i = 0; i < WAITS; i++)
        waiting[i] = npud_stream(session, 0);
    busy = npud_stream(session, 0);
    client_submit(busy, (struct task){.op = TASK_DELAY, .delay.ns = 3600 * NSEC_PER_SEC});
}

static void end(void)
{
    waits_deinit(&graph);
    npud_stop();
}

static unsigned count_parked(void)
{
    struct engine *engine = devices_get(server.devices, 0)->engine;
    unsigned n = 0;

    engine_lock(engine);
    for (int i = 0; i < WAITS; i++)
        n += waiting[i]->run == RUN_PARKED;
    engine_unlock(engine);
    return n;
}

/* The graph when each stream waits, and the busy one has all these records queued. */
static void make_graph(const struct task *wait, const struct task *record)
{
    for (int i = 0; i < RECORDS; i++)
        client_submit(busy, *record);
    for (int i = 0; i < WAITS; i++)
        client_submit(waiting[i], *wait);
    AWAIT(count_parked() == WAITS);
    ck_assert_int_eq(waits_init(&graph, &server), 0);
    ck_assert_uint_eq(graph.n_blocked, WAITS);
    ck_assert_uint_eq(graph.n_deadlocks, 0);
    ck_assert_uint_le(graph.n_edges, MUCH);
    for (int i = 0; i < WAITS; i++) {
        ck_assert_ptr_eq(graph.blocked[i].blocker, session);
        ck_assert_int_eq(graph.blocked[i].blocker_stream, stream_id(busy));
    }
}

static struct task task_of(const struct notify_open *open, unsigned op, unsigned mode)
{
    return (struct task){.op = (uint8_t)op,
                         .object = open->slot.number,
                         .generation = slot_generation(open),
                         .notify.mode = (uint8_t)mode,
                         .notify.value = 1};
}

/* Each of many waits may be ended by each of many records. */
START_TEST(waits_for_a_counter)
{
    struct notify_open *open;
    struct task wait, record;

    ck_assert_int_eq(notify_new(session, devices_get(server.devices, 0), true, &open), 0);
    wait = task_of(open, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE);
    record = task_of(open, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE);
    make_graph(&wait, &record);
}
END_TEST

START_TEST(waits_for_a_level)
{
    struct event_obj *event;
    struct task wait, record;
    int fd;

    ck_assert_int_eq(event_obj_new(session, 0, 0, &event, &fd), 0);
    close(fd);
    wait = (struct task){
        .op = TASK_WAIT_LEVEL, .object = event->slot.number, .generation = slot_generation(event)};
    record = wait;
    record.op = TASK_RECORD;
    record.flags = TASK_RECORD_LEVEL;
    make_graph(&wait, &record);
}
END_TEST

/* --- what is in or behind a circle --- */

static struct task wait_for(const struct stream *other, uint64_t position)
{
    return (struct task){
        .op = TASK_WAIT_POS, .object = other->slot.number, .wait.target = position + 1};
}

/* A chain behind a circle of two: each waits for the one before it. */
START_TEST(a_long_chain_behind_a_circle)
{
    client_submit(waiting[0], wait_for(waiting[1], 0));
    for (int i = 1; i < WAITS; i++)
        client_submit(waiting[i], wait_for(waiting[i == 1 ? 0 : i - 1], 0));
    AWAIT(count_parked() == WAITS);
    ck_assert_int_eq(waits_init(&graph, &server), 0);
    ck_assert_uint_eq(graph.n_deadlocks, 1);
    ck_assert(graph.deadlock[0].certain);
    ck_assert_uint_eq(graph.deadlock[0].n, 2);
    ck_assert_uint_eq(graph.deadlock[0].processes, 1);
    for (int i = 0; i < WAITS; i++) {
        ck_assert_uint_eq(graph.blocked[i].deadlock, 1);
        ck_assert_int_eq(graph.blocked[i].member, i < 2);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wait graph");
    TCase *c = suite_case(s, "graph", 60, begin, end);

    tcase_add_test(c, waits_for_a_counter);
    tcase_add_test(c, waits_for_a_level);
    tcase_add_test(c, a_long_chain_behind_a_circle);
    return run_suite(s);
}
