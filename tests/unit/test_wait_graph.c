/*
 * The graph of waits is no larger than what waits and what is queued: what blocks many waits alike
 * stands in it once.
 */
#include "acl/acl_rt.h"
#include "daemon/admin/wait_graph.h"
#include "daemon/core/stream_abort.h"
#include "npud.h"

#define WAITS   150
#define RECORDS 150
#define MUCH    (4 * (WAITS + RECORDS)) /* edges */

static struct session *session;
static struct stream *waiting[WAITS], *busy;
static struct wait_graph *graph;

static struct task wait_for(const struct stream *other, uint64_t position)
{
    return (struct task){
        .op = TASK_WAIT_POS, .object = other->slot.number, .wait.target = position + 1};
}

static bool is_parked(const struct stream *stream)
{
    struct engine *engine = devices_get(server.devices, 0)->engine;
    bool parked;

    engine_lock(engine);
    parked = stream->run == RUN_PARKED;
    engine_unlock(engine);
    return parked;
}

/* The busy stream waits as well: nothing depends on streams that go on by themselves. */
static void begin(void)
{
    struct stream *awake;

    npud_start((const char *const[]){"engine.spin_us=0", "stream.depth=1024", NULL});
    session = npud_session(1);
    for (int i = 0; i < WAITS; i++)
        waiting[i] = npud_stream(session, 0);
    busy = npud_stream(session, 0);
    awake = npud_stream(session, 0);
    client_submit(awake, (struct task){.op = TASK_DELAY, .delay.ns = 3600 * NSEC_PER_SEC});
    client_submit(busy, wait_for(awake, 0));
    AWAIT(is_parked(busy));
}

static void end(void)
{
    waits_free(graph);
    graph = NULL;
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

/* One slice after the other, each as short as can be. Returns how many there were. */
static unsigned finish_graph(void)
{
    unsigned slices = 0;
    int r;

    while ((r = waits_step(graph, 0)) > 0)
        ck_assert_uint_lt(++slices, 100000);
    ck_assert_int_eq(r, 0);
    return slices;
}

static unsigned make_all(void)
{
    graph = waits_new(&server);
    ck_assert_ptr_nonnull(graph);
    return finish_graph();
}

/* The graph when each stream waits, and the busy one has all these records queued. */
static void make_graph(const struct task *wait, const struct task *record)
{
    for (int i = 0; i < RECORDS; i++)
        client_submit(busy, *record);
    for (int i = 0; i < WAITS; i++)
        client_submit(waiting[i], *wait);
    AWAIT(count_parked() == WAITS);
    make_all();
    ck_assert_uint_eq(graph->n_blocked, WAITS + 1);
    ck_assert_uint_eq(graph->n_deadlocks, 0);
    ck_assert_uint_le(graph->n_edges, MUCH);
    ck_assert_uint_eq(graph->n_groups, 1);
    for (int i = 0; i < WAITS; i++) {
        ck_assert_ptr_eq(graph->blocked[i].blocker->session, session);
        ck_assert_int_eq(graph->blocked[i].blocker_stream.id, stream_id(busy));
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
    wait = (struct task){
        .op = TASK_WAIT_LEVEL, .object = event->slot.number, .generation = slot_generation(event)};
    record = wait;
    record.op = TASK_RECORD;
    record.flags = TASK_RECORD_LEVEL;
    make_graph(&wait, &record);
}
END_TEST

/* --- what is in or behind a circle --- */

/* A chain behind a circle of two: each waits for the one before it. */
START_TEST(a_long_chain_behind_a_circle)
{
    client_submit(waiting[0], wait_for(waiting[1], 0));
    for (int i = 1; i < WAITS; i++)
        client_submit(waiting[i], wait_for(waiting[i == 1 ? 0 : i - 1], 0));
    AWAIT(count_parked() == WAITS);
    make_all();
    ck_assert_uint_eq(graph->n_deadlocks, 1);
    ck_assert(graph->deadlock[0].certain);
    ck_assert_uint_eq(graph->deadlock[0].n, 2);
    ck_assert_uint_eq(graph->deadlock[0].processes, 1);
    for (int i = 0; i < WAITS; i++) {
        ck_assert_uint_eq(graph->blocked[i].deadlock, 1);
        ck_assert_int_eq(graph->blocked[i].member, i < 2);
    }
}
END_TEST

/* --- slices --- */

/* Each is short: whatever there is, few of it come in one. */
START_TEST(a_graph_is_made_in_slices)
{
    unsigned slices = 0;
    int r = 1;

    client_submit(waiting[0], wait_for(waiting[1], 0));
    for (int i = 1; i < WAITS; i++)
        client_submit(waiting[i], wait_for(waiting[i == 1 ? 0 : i - 1], 0));
    AWAIT(count_parked() == WAITS);
    graph = waits_new(&server);
    for (; r > 0; slices++) {
        size_t blocked = graph->n_blocked, nodes = graph->n_nodes, edges = graph->n_edges;

        r = waits_step(graph, 0);
        ck_assert_uint_le(graph->n_blocked - blocked, WAITS / 2);
        ck_assert_uint_le(graph->n_nodes - nodes, WAITS / 2);
        ck_assert_uint_le(graph->n_edges - edges, WAITS / 2);
    }
    ck_assert_int_eq(r, 0);
    ck_assert_uint_eq(graph->n_deadlocks, 1);
    ck_assert_uint_gt(slices, 60);
}
END_TEST

/* What is queued is looked at in slices as well. */
START_TEST(rings_are_looked_at_in_slices)
{
    struct notify_open *open;
    unsigned slices = 0, few;
    struct task record;

    ck_assert_int_eq(notify_new(session, devices_get(server.devices, 0), true, &open), 0);
    client_submit(waiting[0], task_of(open, TASK_COUNT_WAIT, ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE));
    AWAIT(count_parked() == 1);
    few = make_all();
    waits_free(graph);
    record = task_of(open, TASK_COUNT_RECORD, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE);
    for (int i = 0; i < 1000; i++)
        client_submit(busy, record);
    slices = make_all();
    ck_assert_uint_ge(slices, few + 20);
    ck_assert_int_eq(graph->blocked[0].blocker_stream.id, stream_id(busy));
}
END_TEST

static struct session *leaving;

/* A stream of the session waits for a record of one that leaves. */
static void wait_for_leaving(pid_t pid)
{
    struct ipc_open *mine, *theirs;
    uint64_t blocker, number;

    leaving = npud_session(pid);
    ck_assert_int_eq(ipc_event_new(leaving, 0, &theirs), 0);
    ck_assert_int_eq(ipc_event_export(theirs), 0);
    ck_assert_int_eq(ipc_event_open(session, &theirs->event->handle, &mine), 0);
    number = ipc_take(theirs->event->page, theirs->opener->slot.number, IPC_PENDING, &blocker);
    client_submit(waiting[0], (struct task){.op = TASK_IPC_WAIT,
                                            .object = mine->slot.number,
                                            .generation = slot_generation(mine),
                                            .ipc.number = number});
    AWAIT(count_parked() == 1);
}

/* Whenever it leaves: what is told of it is what it was. */
START_TEST(a_session_leaves_between_slices)
{
    unsigned slices = 1000;

    for (unsigned at = 0; at < slices; at++) {
        wait_for_leaving((pid_t)(10000 + at));
        graph = waits_new(&server);
        for (unsigned i = 0; i < at; i++)
            if (waits_step(graph, 0) == 0)
                slices = i;
        session_free(leaving);
        finish_graph();
        ck_assert_uint_eq(graph->n_deadlocks, 0);
        for (size_t i = 0; i < graph->n_blocked; i++) {
            char text[128];

            blocked_describe(&graph->blocked[i], text, sizeof(text));
            blocked_describe_blocker(&graph->blocked[i], text, sizeof(text));
        }
        waits_free(graph);
        graph = NULL;
        AWAIT((npud_turn(), count_parked() == 0));
    }
    ck_assert_uint_gt(slices, 10);
}
END_TEST

/* A circle that a stream has left before the graph is complete was none. */
START_TEST(what_moves_on_between_slices_is_not_stuck)
{
    client_submit(waiting[0], wait_for(waiting[1], 0));
    client_submit(waiting[1], wait_for(waiting[0], 0));
    AWAIT(count_parked() == 2);
    graph = waits_new(&server);
    while (graph->n_edges < 2)
        ck_assert_int_eq(waits_step(graph, 0), 1);
    stream_abort(waiting[0], 0, 0);
    finish_graph();
    ck_assert_uint_eq(graph->n_deadlocks, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("wait graph");
    TCase *c = suite_case(s, "graph", 60, begin, end);

    tcase_add_test(c, waits_for_a_counter);
    tcase_add_test(c, waits_for_a_level);
    tcase_add_test(c, a_long_chain_behind_a_circle);
    tcase_add_test(c, a_graph_is_made_in_slices);
    tcase_add_test(c, rings_are_looked_at_in_slices);
    tcase_add_test(c, a_session_leaves_between_slices);
    tcase_add_test(c, what_moves_on_between_slices_is_not_stuck);
    return run_suite(s);
}
