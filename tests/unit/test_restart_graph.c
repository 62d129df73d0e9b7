/*
 * Graphs over the end of npud at each place between two stores: each task of a list runs once in
 * each execution, jumps go where they go, and what is passed over is told. The engines have no
 * thread here; each turn is a call.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_clients.h"

#include <utlist.h>

#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "daemon/core/notify.h"
#include "daemon/core/stream_abort.h"
#include "daemon/engine/failure.h"
#include "proto/shm/graph_shm.h"
#include "tests/unit/memory_at.h"
#include "tests/unit/restart_acts.h"

#define OWNER   2000000
#define PAGE    4096u
#define NUMBERS 8u
#define ROUNDS  3
#define TURNS   40

/* In the device memory: what is summed up, what is added, the counter, what it is to begin with. */
enum { SUM = 0, ADD = 256, COUNTER = 512, MINUS = 520, FULL = 528, MARK = 1024 };
enum { DATA, LIST }; /* slots of memory */

static struct mem *mem_in(uint32_t slot)
{
    return slots_get(&session_of(OWNER)->mems, slot);
}

static int32_t *numbers(uint64_t offset)
{
    return memory_at(mem_in(DATA), offset);
}

static struct notify_open *notify_of(uint32_t slot)
{
    return slots_get(&session_of(OWNER)->notifies, slot);
}

/* --- how it is --- */

static void tell_all(void)
{
    struct session *session = session_of(OWNER);
    struct stream *s;
    struct mem *m;

    slots_foreach (&session->streams, i, s)
        tell("stream %u: %llu done, error %d, %s\n", s->slot.number,
             (unsigned long long)(atomic_load(&s->ctrl->done) - s->live->first),
             stream_error_code(client_error(s)), s->graph ? "in a graph" : "in none");
    slots_foreach (&session->mems, i, m)
        tell("memory %u: %u works\n", m->slot.number, atomic_load(&m->works));
    for (unsigned i = 0; i < NUMBERS; i++)
        tell(" %d", numbers(SUM)[i]);
    tell(", counter %d, mark %d, notify %llu\n", numbers(COUNTER)[0], numbers(MARK)[0],
         (unsigned long long)notify_word(&notify_of(0)->notify->live->value));
    tell_charges();
}

static void act_turns(void)
{
    for (unsigned i = 0; i < 3; i++) {
        turn_engines(TURNS);
        npud_turn();
    }
}

/* --- lists --- */

static struct task *list(void)
{
    return memory_at(mem_in(LIST), 0);
}

static struct task of_data(uint8_t op)
{
    return (struct task){
        .op = op, .object = mem_in(DATA)->slot.number, .generation = slot_generation(mem_in(DATA))};
}

static struct task reduce(uint64_t to, uint64_t from, uint32_t n)
{
    struct task t = of_data(TASK_REDUCE);

    t.reduce.dst_offset = to;
    t.reduce.src_offset = from;
    t.reduce.src = t.object;
    t.reduce.src_generation = t.generation;
    t.reduce.size = n * sizeof(int32_t);
    t.reduce.kind = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM;
    t.reduce.type = ACL_INT32;
    return t;
}

static struct task copy(uint64_t to, uint64_t from, uint32_t n)
{
    struct task t = of_data(TASK_COPY);

    t.copy.dst_offset = to;
    t.copy.src_offset = from;
    t.copy.src = t.object;
    t.copy.src_generation = t.generation;
    t.copy.size = n * sizeof(int32_t);
    return t;
}

static struct task jump(enum jump_condition condition, uint64_t offset, uint64_t right,
                        uint32_t target)
{
    struct task t = of_data(TASK_JUMP);

    t.flags = (uint8_t)condition;
    t.jump.offset = offset;
    t.jump.right = right;
    t.jump.target = target;
    return t;
}

static struct task of_notify(uint8_t op)
{
    return (struct task){.op = op, .object = 0, .generation = slot_generation(notify_of(0))};
}

static struct task graph(uint32_t count)
{
    return (struct task){.op = TASK_GRAPH,
                         .flags = TASK_GRAPH_NOTIFIES,
                         .object = mem_in(LIST)->slot.number,
                         .generation = slot_generation(mem_in(LIST)),
                         .graph = {.count = count}};
}

/* The sum is added to ROUNDS times, in a loop; then a mark, and a notify. */
static uint32_t write_loop(void)
{
    struct task *t = list();

    t[0] = copy(COUNTER, FULL, 1);
    t[1] = reduce(SUM, ADD, NUMBERS);
    t[2] = reduce(COUNTER, MINUS, 1);
    t[3] = jump(JUMP_NOT_EQUAL, COUNTER, 0, 1);
    t[4] = jump(JUMP_GREATER, COUNTER, 7, 6); /* does not hold */
    t[5] = reduce(MARK, ADD, 1);
    t[6] = of_notify(TASK_NOTIFY_RECORD);
    return 7;
}

static void start_clients(void)
{
    struct notify_open *open;
    struct session *s;
    struct mem *m;

    start_two_devices();
    s = connect_client_of(1000, OWNER, -1);
    for (unsigned k = 0; k < 4; k++)
        npud_stream(s, k % 2);
    ck_assert_int_eq(allocation_new(s, devices_get(server.devices, 0), MEM_DEVICE, PAGE, &m), 0);
    ck_assert_int_eq(allocation_new(s, devices_get(server.devices, 0), MEM_HOST, PAGE, &m), 0);
    ck_assert_int_eq(notify_new(s, devices_get(server.devices, 0), false, &open), 0);
    for (unsigned i = 0; i < NUMBERS; i++) {
        numbers(ADD)[i] = (int32_t)i + 1;
        numbers(SUM)[i] = 0;
    }
    numbers(MINUS)[0] = -1;
    numbers(FULL)[0] = ROUNDS;
    kept_commit();
}

/* --- acts --- */

/* It waits before there is a record. */
static void submit_wait(void)
{
    client_submit(stream_in(OWNER, 1), of_notify(TASK_NOTIFY_WAIT));
}

static void submit_twice(void)
{
    uint32_t n = write_loop();

    client_submit(stream_in(OWNER, 0), graph(n));
    client_submit(stream_in(OWNER, 0), graph(n));
}

/* It fails in the loop; the wait for its notify fails, too, and the second one runs well. */
static void submit_failing(void)
{
    uint32_t n = write_loop();

    list()[2] = (struct task){.op = TASK_DELAY, .delay = {0, ACL_ERROR_RT_AICORE_EXCEPTION}};
    client_submit(stream_in(OWNER, 0), graph(n));
    client_submit(stream_in(OWNER, 0), reduce(MARK, ADD, 1));
}

/* The same in a context that stops: nothing more is done, but all is told. */
static void submit_stopping(void)
{
    stream_stop_at_failure(stream_in(OWNER, 0));
    kept_commit();
    submit_failing();
    client_submit(stream_in(OWNER, 0), graph(7));
}

/* It waits in the middle until it is aborted. */
static void submit_waiting(void)
{
    uint32_t n = write_loop();

    list()[4] = (struct task){
        .op = TASK_NOTIFY_WAIT, .object = 1, .generation = slot_generation(notify_of(1))};
    client_submit(stream_in(OWNER, 0), graph(n));
    client_submit(stream_in(OWNER, 0), graph(n));
}

static void start_with_another(void)
{
    struct notify_open *open;

    start_clients();
    ck_assert_int_eq(notify_new(session_of(OWNER), devices_get(server.devices, 0), false, &open),
                     0);
    kept_commit();
}

static void wait_and_abort(void)
{
    struct stream *s = stream_in(OWNER, 0);

    act_turns();
    stream_abort(s, ACL_ERROR_RT_STREAM_ABORT, 77);
    kept_commit();
    act_turns();
}

static bool is_aborted(void)
{
    const struct stream *s = stream_in(OWNER, 0);

    return atomic_load(&s->ctrl->done) == s->live->first + 2 && s->live->held == STREAM_FREE;
}

static bool nothing(void)
{
    return false;
}

static const struct act acts[] = {
    {"two executions", start_clients, submit_wait, submit_twice, NULL, nothing},
    {"one that fails", start_clients, submit_wait, submit_failing, NULL, nothing},
    {"one whose context stops", start_clients, submit_wait, submit_stopping, NULL, nothing},
    {"one that is aborted", start_with_another, submit_wait, submit_waiting, wait_and_abort,
     is_aborted},
};

static const struct stage stage = {act_turns, tell_all};

START_TEST(each_act_at_each_place)
{
    act_play_everywhere(&stage, &acts[_i]);
}
END_TEST

START_TEST(a_list_runs_as_its_tasks_do)
{
    start_clients();
    submit_wait();
    act_turns();
    submit_twice();
    act_turns();
    for (unsigned i = 0; i < NUMBERS; i++)
        ck_assert_int_eq(numbers(SUM)[i], (int32_t)(2 * ROUNDS * (i + 1)));
    ck_assert_int_eq(numbers(MARK)[0], 2);
    ck_assert_uint_eq(atomic_load(&stream_in(OWNER, 1)->ctrl->done),
                      stream_in(OWNER, 1)->live->first + 1);
    ck_assert_uint_eq(atomic_load(&mem_in(LIST)->works), 0);
    stop_all();
}
END_TEST

START_TEST(a_failure_ends_the_execution)
{
    start_clients();
    submit_wait();
    act_turns();
    submit_failing();
    act_turns();
    ck_assert_int_eq(numbers(SUM)[0], 1);
    ck_assert_int_eq(numbers(MARK)[0], 1); /* by the task behind it */
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))),
                     ACL_ERROR_RT_AICORE_EXCEPTION);
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 1))),
                     ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
    stop_all();
}
END_TEST

/*
 * A list that is freed while it is under way: the next execution finds none. _i: in a later npud.
 */
START_TEST(a_list_that_is_freed_comes_to_its_end)
{
    start_with_another();
    submit_waiting();
    act_turns();
    allocation_free(mem_in(LIST));
    kept_commit();
    ck_assert(mem_in(LIST)->freed && atomic_load(&mem_in(LIST)->works) == 1);
    if (_i)
        restart_npud();
    client_submit(stream_in(OWNER, 1), (struct task){.op = TASK_NOTIFY_RECORD,
                                                     .object = 1,
                                                     .generation = slot_generation(notify_of(1))});
    act_turns();
    ck_assert_int_eq(numbers(MARK)[0], 1);
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))), ACL_ERROR_RT_SYS_DMA);
    ck_assert_ptr_null(mem_in(LIST));
    stop_all();
}
END_TEST

/* Whatever stands in a list, npud and the stream go on. */
START_TEST(bad_lists_fail)
{
    struct stream *s;

    start_clients();
    s = stream_in(OWNER, 0);
    list()[0] = (struct task[]){graph(1),
                                {.op = 99},
                                {.op = TASK_CALLBACK, .callback = {.ordinal = 1, .word = 1}},
                                jump(JUMP_ALWAYS, 0, 0, 9),
                                jump(JUMP_EQUAL, PAGE - 2, 0, 0),
                                jump(JUMP_EQUAL, PAGE, 0, 0),
                                jump(JUMP_CONDITIONS, 0, 0, 0)}[_i];
    list()[1] = reduce(MARK, ADD, 1);
    client_submit(s, graph(2));
    client_submit(s, reduce(MARK, ADD, 1));
    act_turns();
    ck_assert_int_eq(numbers(MARK)[0], 1);
    ck_assert_int_ne(stream_error_code(client_error(s)), 0);
    ck_assert(!s->graph);
    stop_all();
}
END_TEST

START_TEST(bad_graphs_fail)
{
    struct task t;
    struct stream *s;

    start_clients();
    s = stream_in(OWNER, 0);
    write_loop();
    t = graph(7);
    switch (_i) {
    case 0:
        t.graph.count = 0;
        break;
    case 1:
        t.graph.count = PAGE / sizeof(struct task) + 1;
        break;
    case 2:
        t.graph.offset = 32;
        break;
    case 3:
        t.graph.offset = UINT64_MAX - 63;
        break;
    case 4:
        t.generation++;
        break;
    case 5:
        t.graph.base = 2;
        t.graph.last = 1;
        break;
    default:
        t.graph.count = UINT32_MAX;
        break;
    }
    client_submit(s, t);
    client_submit(s, reduce(MARK, ADD, 1));
    act_turns();
    ck_assert_int_eq(numbers(MARK)[0], 1);
    ck_assert_int_ne(stream_error_code(client_error(s)), 0);
    stop_all();
}
END_TEST

/* A task that a jump comes back to is another one: its wait is not over. _i: in a later npud. */
START_TEST(a_wait_in_a_loop_waits_each_time)
{
    struct task of_other = {.object = 1};
    struct task *t;

    start_with_another();
    of_other.generation = slot_generation(notify_of(1));
    t = list();
    t[0] = copy(COUNTER, FULL, 1);
    t[1] = of_other;
    t[1].op = TASK_NOTIFY_WAIT;
    t[2] = reduce(COUNTER, MINUS, 1);
    t[3] = jump(JUMP_NOT_EQUAL, COUNTER, 0, 1);
    client_submit(stream_in(OWNER, 0), graph(4));
    for (int left = ROUNDS; left > 0; left--) {
        act_turns();
        ck_assert_int_eq(numbers(COUNTER)[0], left);
        if (_i)
            restart_npud();
        act_turns();
        ck_assert_int_eq(numbers(COUNTER)[0], left);
        of_other.op = TASK_NOTIFY_RECORD;
        client_submit(stream_in(OWNER, 1), of_other);
    }
    act_turns();
    ck_assert_int_eq(numbers(COUNTER)[0], 0);
    ck_assert(!stream_in(OWNER, 0)->graph);
    stop_all();
}
END_TEST

/* What each condition makes of a word and the value that it is compared with. */
static const struct {
    int64_t word, right;
    bool narrow_too; /* the low half of the word says the same */
    bool holds[JUMP_CONDITIONS];
} comparisons[] = {
    {5, 5, true, {true, true, false, false, true, false, true}},
    {4, 5, true, {true, false, true, false, false, true, true}},
    {6, 5, true, {true, false, true, true, true, false, false}},
    {-1, 0, true, {true, false, true, false, false, true, true}},
    {0, -1, true, {true, false, true, true, true, false, false}},
    {INT32_MIN, INT32_MAX, true, {true, false, true, false, false, true, true}},
    {INT64_C(1) << 32, 0, false, {true, false, true, true, true, false, false}},
    {INT64_MIN, 1, false, {true, false, true, false, false, true, true}},
};

/* 1: it holds; 0: it does not. form 0: of 32 bits, 1: of 64, 2: of 64 with another word */
static int32_t compare(unsigned form, enum jump_condition condition, int64_t word, int64_t right)
{
    struct task *t = list();

    memcpy(numbers(COUNTER + (form == 0 ? 4 : 0)), &word, form == 0 ? 4 : 8);
    memcpy(numbers(MINUS), &right, 8);
    numbers(MARK)[0] = 0;
    t[0] = jump(condition, COUNTER + (form == 0 ? 4 : 0), (uint64_t)right, 2);
    t[0].jump.wide = form != 0;
    if (form == 2) {
        t[0].jump.memory = 1;
        t[0].jump.right = MINUS;
        t[0].jump.right_object = t[0].object;
        t[0].jump.right_generation = t[0].generation;
    }
    t[1] = reduce(MARK, ADD, 1);
    client_submit(stream_in(OWNER, 0), graph(2));
    act_turns();
    ck_assert_int_eq(stream_error_code(client_error(stream_in(OWNER, 0))), 0);
    return 1 - numbers(MARK)[0];
}

START_TEST(jumps_compare)
{
    start_clients();
    for (unsigned c = JUMP_ALWAYS; c < JUMP_CONDITIONS; c++)
        for (unsigned form = comparisons[_i].narrow_too ? 0 : 1; form < 3; form++)
            ck_assert_msg(compare(form, (enum jump_condition)c, comparisons[_i].word,
                                  comparisons[_i].right) == comparisons[_i].holds[c],
                          "condition %u, form %u", c, form);
    stop_all();
}
END_TEST

/* A loop without an end takes its turns, and its session ends as others do. */
START_TEST(a_loop_without_end_ends_with_its_session)
{
    uint64_t mark;

    start_clients();
    list()[0] = jump(JUMP_ALWAYS, 0, 0, 0);
    client_submit(stream_in(OWNER, 0), graph(1));
    client_submit(stream_in(OWNER, 2), reduce(MARK, ADD, 1));
    act_turns();
    ck_assert_int_eq(numbers(MARK)[0], 1);
    if (_i)
        restart_npud();
    act_turns();
    ck_assert(stream_in(OWNER, 0)->graph);
    /* What is noted of a task is of this round alone: no mark comes again. */
    mark = head_mark(stream_in(OWNER, 0)->live);
    turn_engines(1);
    ck_assert_uint_gt(head_mark(stream_in(OWNER, 0)->live), mark);
    stop_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: graphs");
    TCase *t = suite_case(s, "graphs", 300, NULL, NULL);

    tcase_add_test(t, a_list_runs_as_its_tasks_do);
    tcase_add_test(t, a_failure_ends_the_execution);
    tcase_add_loop_test(t, a_list_that_is_freed_comes_to_its_end, 0, 2);
    tcase_add_loop_test(t, bad_lists_fail, 0, 7);
    tcase_add_loop_test(t, bad_graphs_fail, 0, 7);
    tcase_add_loop_test(t, a_wait_in_a_loop_waits_each_time, 0, 2);
    tcase_add_loop_test(t, jumps_compare, 0, (int)(sizeof(comparisons) / sizeof(comparisons[0])));
    tcase_add_loop_test(t, a_loop_without_end_ends_with_its_session, 0, 2);
    tcase_add_loop_test(t, each_act_at_each_place, 0, (int)(sizeof(acts) / sizeof(acts[0])));
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
