/*
 * Random graphs of 2 to 200 tasks, executed 1 to 50 times: what they leave in memory, and in which
 * order they have called functions of the program, is what a plain program in C computes, and what
 * the same tasks leave when they are submitted one by one.
 *
 * Two processes execute theirs in turn, on memory that one of them has from the other, with IPC
 * events between the executions.
 *
 * The tasks of a graph are on several streams, with an event wherever one follows another on
 * another stream: so their order is fixed, and all streams join again.
 *
 * Skipped under TSan: that a copy by the library's thread comes before what the program does after
 * it is told by npud, another process, and TSan sees one.
 *
 * Seeds: NPUD_GRAPH_SEED is the first one. The variant in which npud is killed again and again is
 * skipped under chaos, which does that by itself.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_npud_kernel.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define BLOCKS   8u
#define NUMBERS  16u
#define BYTES    (NUMBERS * sizeof(int32_t))
#define STREAMS  3u
#define OPS_MAX  200u
#define DEPTH    3u
#define NESTED   3u
#define LOOP_MAX 4

enum op_kind {
    OP_COPY,    /* block a = block b */
    OP_SET,     /* all bytes of block a */
    OP_ADD,     /* block a += block b */
    OP_KERNEL,  /* block a = 3 * block a + block b, by a kernel */
    OP_OUT,     /* block a of the program's memory = block b */
    OP_IN,      /* the other way */
    OP_ADD_OUT, /* block a of the program's memory += block b */
    OP_CALL,    /* a function of the program */
    OP_WRITE,   /* a word of block a */
    OP_IF,
    OP_WHILE,
    OP_SWITCH,
    OP_KINDS
};

struct op {
    enum op_kind kind;
    unsigned a, b, stream;
    int value;
    unsigned n_nested;
    struct ops *nested[NESTED];
};

struct ops {
    unsigned n;
    struct op op[];
};

/* What the tasks change. */
struct world {
    int32_t device[BLOCKS][NUMBERS];
    int32_t host[BLOCKS][NUMBERS];
    uint64_t calls; /* of functions: their order counts */
};

/* --- a random graph --- */

static struct ops *draw_ops(uint64_t *random, unsigned most, unsigned depth);

static struct op draw_op(uint64_t *random, unsigned depth)
{
    struct op op = {.kind = draw_below(random, depth > 0 ? OP_KINDS : OP_IF),
                    .a = draw_below(random, BLOCKS),
                    .b = draw_below(random, BLOCKS),
                    .stream = draw_below(random, STREAMS),
                    .value = (int)draw_below(random, 100)};

    if (op.b == op.a)
        op.b = (op.a + 1) % BLOCKS;
    if (op.kind < OP_IF)
        return op;
    op.n_nested = op.kind == OP_WHILE ? 1 : 1 + draw_below(random, op.kind == OP_IF ? 2 : NESTED);
    op.value %= LOOP_MAX;
    for (unsigned i = 0; i < op.n_nested; i++)
        op.nested[i] = draw_ops(random, 6, depth - 1);
    return op;
}

static struct ops *draw_ops(uint64_t *random, unsigned most, unsigned depth)
{
    struct ops *ops = calloc(1, sizeof(*ops) + most * sizeof(ops->op[0]));

    ck_assert_ptr_nonnull(ops);
    ops->n = draw_below(random, most + 1);
    for (unsigned i = 0; i < ops->n; i++)
        ops->op[i] = draw_op(random, depth);
    return ops;
}

static void free_ops(struct ops *ops)
{
    for (unsigned i = 0; i < ops->n; i++)
        for (unsigned k = 0; k < ops->op[i].n_nested; k++)
            free_ops(ops->op[i].nested[k]);
    free(ops);
}

/* --- the plain program --- */

static uint64_t next_call(uint64_t calls, int value)
{
    return calls * 31 + (uint64_t)value + 1;
}

static void add_block(int32_t *to, const int32_t *from)
{
    for (unsigned i = 0; i < NUMBERS; i++)
        to[i] = (int32_t)((uint32_t)to[i] + (uint32_t)from[i]);
}

static void mix_numbers(int32_t *to, const int32_t *from, unsigned begin, unsigned end)
{
    for (unsigned i = begin; i < end; i++)
        to[i] = (int32_t)(3 * (uint32_t)to[i] + (uint32_t)from[i]);
}

static void run_plain(struct world *w, const struct ops *ops);

static void run_nested(struct world *w, const struct op *op)
{
    if (op->kind == OP_WHILE) {
        for (int i = op->value; i > 0; i--)
            run_plain(w, op->nested[0]);
    } else if (op->kind == OP_IF) {
        if (op->value != 0)
            run_plain(w, op->nested[0]);
        else if (op->n_nested == 2)
            run_plain(w, op->nested[1]);
    } else if ((unsigned)op->value < op->n_nested) {
        run_plain(w, op->nested[op->value]);
    }
}

static void run_op(struct world *w, const struct op *op)
{
    switch (op->kind) {
    case OP_COPY:
        memcpy(w->device[op->a], w->device[op->b], BYTES);
        break;
    case OP_SET:
        memset(w->device[op->a], op->value, BYTES);
        break;
    case OP_ADD:
        add_block(w->device[op->a], w->device[op->b]);
        break;
    case OP_KERNEL:
        mix_numbers(w->device[op->a], w->device[op->b], 0, NUMBERS);
        break;
    case OP_OUT:
        memcpy(w->host[op->a], w->device[op->b], BYTES);
        break;
    case OP_IN:
        memcpy(w->device[op->a], w->host[op->b], BYTES);
        break;
    case OP_ADD_OUT:
        add_block(w->host[op->a], w->device[op->b]);
        break;
    case OP_CALL:
        w->calls = next_call(w->calls, op->value);
        break;
    case OP_WRITE:
        memcpy(w->device[op->a], &(uint64_t){(uint64_t)op->value << 20}, sizeof(uint64_t));
        break;
    default:
        run_nested(w, op);
    }
}

static void run_plain(struct world *w, const struct ops *ops)
{
    for (unsigned i = 0; i < ops->n; i++)
        run_op(w, &ops->op[i]);
}

/* --- the library --- */

static struct {
    aclrtStream stream[DEPTH + 1][STREAMS]; /* for each depth of nesting */
    aclrtEvent event[DEPTH + 1][STREAMS];
    unsigned char *device;
    int32_t (*host)[NUMBERS]; /* the program's, registered */
    uint64_t *constants;      /* pinned: values of condition words, and what counts them down */
    uint64_t calls;
    struct op *called;
} lib;

#define MINUS LOOP_MAX /* of the constants: -1 in the low half */

/* memory_key: of the device memory of another process, which this one uses; NULL: none. */
static void lib_begin(const char *memory_key)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (unsigned d = 0; d <= DEPTH; d++)
        for (unsigned i = 0; i < STREAMS; i++) {
            OK(aclrtCreateStream(&lib.stream[d][i]));
            OK(aclrtCreateEventExWithFlag(&lib.event[d][i], ACL_EVENT_SYNC));
        }
    if (memory_key)
        OK(aclrtIpcMemImportByKey((void **)&lib.device, memory_key, 0));
    else
        OK(aclrtMalloc((void **)&lib.device, (BLOCKS + 1) * BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&lib.constants, (MINUS + 1) * sizeof(uint64_t)));
    ck_assert_int_eq(posix_memalign((void **)&lib.host, 4096, 4096), 0);
    OK(aclrtHostRegisterV2(lib.host, 4096, ACL_HOST_REG_MAPPED));
    for (unsigned i = 0; i < MINUS; i++)
        lib.constants[i] = i;
    lib.constants[MINUS] = UINT32_MAX;
    OK(aclrtMemcpy(lib.device + BLOCKS * BYTES, BYTES, &lib.constants[MINUS], sizeof(uint64_t),
                   ACL_MEMCPY_HOST_TO_DEVICE));
}

static void lib_end(const char *memory_key)
{
    OK(aclrtHostUnregister(lib.host));
    free(lib.host);
    OK(aclrtFreeHost(lib.constants));
    if (memory_key)
        OK(aclrtIpcMemClose(memory_key));
    else
        OK(aclrtFree(lib.device));
    for (unsigned d = 0; d <= DEPTH; d++)
        for (unsigned i = 0; i < STREAMS; i++) {
            OK(aclrtDestroyEvent(lib.event[d][i]));
            OK(aclrtDestroyStream(lib.stream[d][i]));
        }
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static void lib_set(const struct world *w)
{
    OK(aclrtMemcpy(lib.device, BLOCKS * BYTES, w->device, BLOCKS * BYTES,
                   ACL_MEMCPY_HOST_TO_DEVICE));
    memcpy(lib.host, w->host, sizeof(w->host));
    lib.calls = w->calls;
}

static void lib_get(struct world *w)
{
    OK(aclrtMemcpy(w->device, BLOCKS * BYTES, lib.device, BLOCKS * BYTES,
                   ACL_MEMCPY_DEVICE_TO_HOST));
    memcpy(w->host, lib.host, sizeof(w->host));
    w->calls = lib.calls;
}

static void on_call(void *data)
{
    lib.calls = next_call(lib.calls, *(int *)data);
}

static unsigned char *block(unsigned i)
{
    return lib.device + i * BYTES;
}

/* Each of two blocks does its half. */
static void mix_half(const void *function, const void *args)
{
    int32_t *const *blocks = args;
    unsigned half = NUMBERS / 2, begin = aclnpudBlockSelf()->index * half;

    (void)function;
    mix_numbers(blocks[0], blocks[1], begin, begin + half);
}

static void launch_mix(unsigned a, unsigned b, aclrtStream s)
{
    static const aclnpudKernel kernel = {
        .size = sizeof(kernel), .name = "mix", .function = &kernel, .call = mix_half};
    const void *args[] = {block(a), block(b)};

    OK(aclnpudLaunchKernel(&kernel, 2, args, sizeof(args), s));
}

static void submit_plain(const struct op *op, aclrtStream s)
{
    switch (op->kind) {
    case OP_COPY:
        OK(aclrtMemcpyAsync(block(op->a), BYTES, block(op->b), BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE,
                            s));
        break;
    case OP_SET:
        OK(aclrtMemsetAsync(block(op->a), BYTES, op->value, BYTES, s));
        break;
    case OP_ADD:
        OK(aclrtReduceAsync(block(op->a), block(op->b), BYTES, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                            ACL_INT32, s, NULL));
        break;
    case OP_KERNEL:
        launch_mix(op->a, op->b, s);
        break;
    case OP_OUT:
        OK(aclrtMemcpyAsync(lib.host[op->a], BYTES, block(op->b), BYTES, ACL_MEMCPY_DEVICE_TO_HOST,
                            s));
        break;
    case OP_IN:
        OK(aclrtMemcpyAsync(block(op->a), BYTES, lib.host[op->b], BYTES, ACL_MEMCPY_HOST_TO_DEVICE,
                            s));
        break;
    case OP_ADD_OUT:
        OK(aclrtReduceAsync(lib.host[op->a], block(op->b), BYTES, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                            ACL_INT32, s, NULL));
        break;
    case OP_CALL:
        OK(aclrtLaunchHostFunc(s, on_call, (void *)(uintptr_t)&op->value));
        break;
    default:
        OK(aclrtValueWrite(block(op->a), (uint64_t)op->value << 20, 0, s));
    }
}

/* `to` waits for what was submitted to `from`. */
static void follow(unsigned depth, unsigned from, unsigned to)
{
    if (from == to)
        return;
    OK(aclrtRecordEvent(lib.event[depth][from], lib.stream[depth][from]));
    OK(aclrtStreamWaitEvent(lib.stream[depth][to], lib.event[depth][from]));
}

static void capture_ops(const struct ops *ops, unsigned depth, uint64_t *word);

/* The last that each run of the body does is to count down. */
static void count_down(uint64_t *word, aclrtStream s)
{
    OK(aclrtReduceAsync(word, block(BLOCKS), sizeof(*word), ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
                        ACL_INT32, s, NULL));
}

static void capture_condition(const struct op *op, unsigned depth, aclrtStream s)
{
    aclmdlRI model, nested[NESTED];
    aclmdlRICondHandle handle;
    uint64_t *word;
    aclmdlRICondTaskParams params = {.type = op->kind == OP_IF      ? ACL_MODEL_RI_COND_TYPE_IF
                                             : op->kind == OP_WHILE ? ACL_MODEL_RI_COND_TYPE_WHILE
                                                                    : ACL_MODEL_RI_COND_TYPE_SWITCH,
                                     .size = op->n_nested,
                                     .modelRIArray = nested};

    OK(aclmdlRICaptureGetInfo(s, NULL, &model));
    OK(aclmdlRICondHandleCreate(model, 0, 0, &handle));
    OK(aclmdlRICondHandleGetCondPtr(handle, &word));
    OK(aclrtMemcpyAsync(word, sizeof(*word), &lib.constants[op->value], sizeof(*word),
                        ACL_MEMCPY_HOST_TO_DEVICE, s));
    params.handle = handle;
    OK(aclmdlRIAddCondTask(params, s, 0));
    for (unsigned i = 0; i < op->n_nested; i++) {
        OK(aclmdlRICaptureToModelRIBegin(lib.stream[depth + 1][0], nested[i],
                                         ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        capture_ops(op->nested[i], depth + 1, op->kind == OP_WHILE ? word : NULL);
        OK(aclmdlRICaptureEnd(lib.stream[depth + 1][0], NULL));
    }
}

static void capture_ops(const struct ops *ops, unsigned depth, uint64_t *word)
{
    unsigned last = 0;

    for (unsigned i = 0; i < ops->n; i++) {
        const struct op *op = &ops->op[i];

        follow(depth, last, op->stream);
        last = op->stream;
        if (op->kind < OP_IF)
            submit_plain(op, lib.stream[depth][last]);
        else
            capture_condition(op, depth, lib.stream[depth][last]);
    }
    follow(depth, last, 0);
    if (word)
        count_down(word, lib.stream[depth][0]);
}

/* One by one: what conditions decide, the program decides here. */
static void submit_ops(const struct ops *ops, unsigned *last)
{
    for (unsigned i = 0; i < ops->n; i++) {
        const struct op *op = &ops->op[i];

        if (op->kind < OP_IF) {
            follow(0, *last, op->stream);
            *last = op->stream;
            submit_plain(op, lib.stream[0][*last]);
        } else if (op->kind == OP_WHILE) {
            for (int k = op->value; k > 0; k--)
                submit_ops(op->nested[0], last);
        } else if (op->kind == OP_IF) {
            if (op->value != 0)
                submit_ops(op->nested[0], last);
            else if (op->n_nested == 2)
                submit_ops(op->nested[1], last);
        } else if ((unsigned)op->value < op->n_nested) {
            submit_ops(op->nested[op->value], last);
        }
    }
}

static void expect_world(const struct world *wanted, uint64_t seed, const char *what)
{
    struct world is;

    lib_get(&is);
    ck_assert_msg(memcmp(&is, wanted, sizeof(is)) == 0, "seed %llu: %s: %s differ%s",
                  (unsigned long long)seed, what,
                  is.calls != wanted->calls                             ? "calls"
                  : memcmp(is.host, wanted->host, sizeof(is.host)) != 0 ? "the program's memory"
                                                                        : "device memory",
                  "");
}

static void draw_world(uint64_t *random, struct world *w)
{
    for (unsigned i = 0; i < BLOCKS * NUMBERS; i++) {
        w->device[i / NUMBERS][i % NUMBERS] = (int32_t)draw_random(random);
        w->host[i / NUMBERS][i % NUMBERS] = (int32_t)draw_random(random);
    }
}

static aclmdlRI capture_model(const struct ops *ops)
{
    aclmdlRI model;

    OK(aclmdlRICaptureBegin(lib.stream[0][0], ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    capture_ops(ops, 0, NULL);
    OK(aclmdlRICaptureEnd(lib.stream[0][0], &model));
    return model;
}

static void play(uint64_t seed)
{
    uint64_t random = seed;
    struct ops *ops = draw_ops(&random, 2 + draw_below(&random, OPS_MAX - 1), DEPTH);
    unsigned times = 1 + draw_below(&random, 50), last = 0;
    struct world begin = {.calls = 1}, plain;
    aclmdlRI model;

    draw_world(&random, &begin);
    model = capture_model(ops);
    lib_set(&begin);
    plain = begin;
    for (unsigned i = 0; i < times; i++) {
        OK(aclmdlRIExecuteAsync(model, lib.stream[0][draw_below(&random, STREAMS)]));
        run_plain(&plain, ops);
    }
    OK(aclrtSynchronizeDevice());
    expect_world(&plain, seed, "replayed");
    lib_set(&begin);
    plain = begin;
    for (unsigned i = 0; i < 2; i++) {
        submit_ops(ops, &last);
        run_plain(&plain, ops);
    }
    OK(aclrtSynchronizeDevice());
    expect_world(&plain, seed, "one by one");
    OK(aclmdlRIDestroy(model));
    free_ops(ops);
}

static uint64_t first_seed(void)
{
    const char *seed = getenv("NPUD_GRAPH_SEED");

    return seed ? strtoull(seed, NULL, 0) : 1;
}

static void play_many(unsigned n)
{
    lib_begin(NULL);
    for (unsigned i = 0; i < n; i++)
        play(first_seed() + i);
    lib_end(NULL);
}

START_TEST(graphs_do_what_the_plain_program_does)
{
    play_many((unsigned)choose_effort(40 / SUITE_STRIDE, 3000));
    npud_expect_empty();
}
END_TEST

/* --- between two processes: each executes its graph on the memory of one of them, in turn --- */

static struct pair {
    char key[65]; /* of the memory */
    aclrtIpcEventHandle done[2];
} * pair;

static aclrtEvent done[2]; /* a process's own, and the other one's */

/* What both know: the graphs, how often they are executed, and what each has at first. */
struct game {
    struct ops *ops[2];
    struct world world[2];
    unsigned rounds;
};

static void game_draw(struct game *g, uint64_t seed)
{
    uint64_t random = seed;

    for (unsigned i = 0; i < 2; i++) {
        g->ops[i] = draw_ops(&random, 2 + draw_below(&random, OPS_MAX - 1), DEPTH);
        g->world[i].calls = 1;
        draw_world(&random, &g->world[i]);
    }
    g->rounds = 1 + draw_below(&random, 50);
    memcpy(g->world[1].device, g->world[0].device, sizeof(g->world[0].device));
}

/* What the plain program makes of it. */
static void game_run_plain(struct game *g)
{
    for (unsigned i = 0; i < 2 * g->rounds; i++) {
        struct world *now = &g->world[i % 2], *next = &g->world[(i + 1) % 2];

        run_plain(now, g->ops[i % 2]);
        memcpy(next->device, now->device, sizeof(now->device));
    }
}

static void pass_turn(unsigned side)
{
    turn_tell(side == 0 ? &to_child : &to_parent);
}

static void await_pass(unsigned side)
{
    turn_await(side == 0 ? &to_parent : &to_child);
}

static void game_play(uint64_t seed, unsigned side)
{
    aclrtStream s = lib.stream[0][0];
    struct game g = {.rounds = 0};
    aclmdlRI model;

    game_draw(&g, seed);
    model = capture_model(g.ops[side]);
    if (side == 0)
        lib_set(&g.world[0]);
    memcpy(lib.host, g.world[side].host, sizeof(g.world[side].host));
    lib.calls = 1;
    for (unsigned round = 0; round < g.rounds; round++) {
        if (side == 1 || round > 0) {
            await_pass(side);
            OK(aclrtStreamWaitEvent(s, done[1 - side]));
        }
        OK(aclmdlRIExecuteAsync(model, s));
        OK(aclrtRecordEvent(done[side], s));
        pass_turn(side);
    }
    OK(aclrtSynchronizeStream(s));
    if (side == 0) {
        await_pass(side);
        OK(aclrtSynchronizeEvent(done[1]));
    }
    game_run_plain(&g);
    expect_world(&g.world[side], seed, side == 0 ? "first process" : "second process");
    OK(aclmdlRIDestroy(model));
    free_ops(g.ops[0]);
    free_ops(g.ops[1]);
    /* The next game begins when both have looked. */
    if (side == 1)
        pass_turn(side);
    else
        await_pass(side);
}

static void games_play(unsigned side)
{
    for (unsigned i = 0; i < choose_effort(12 / SUITE_STRIDE, 500); i++)
        game_play(first_seed() + i, side);
    OK(aclrtDestroyEvent(done[0]));
    OK(aclrtDestroyEvent(done[1]));
}

static int play_second(void *arg)
{
    (void)arg;
    turn_await(&to_child);
    lib_begin(pair->key);
    for (unsigned i = 0; i < 2; i++)
        OK(aclrtIpcOpenEventHandle(pair->done[i], &done[i]));
    games_play(1);
    lib_end(pair->key);
    return 0;
}

START_TEST(two_processes_execute_in_turn)
{
    pid_t pid;

    pair = child_share(sizeof(*pair));
    turns_init();
    pid = child_start(play_second, NULL);
    lib_begin(NULL);
    OK(aclrtIpcMemGetExportKey(lib.device, (BLOCKS + 1) * BYTES, pair->key, sizeof(pair->key),
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    for (unsigned i = 0; i < 2; i++) {
        OK(aclrtCreateEventExWithFlag(&done[i], ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(done[i], &pair->done[i]));
    }
    turn_tell(&to_child);
    games_play(0);
    child_expect_ok(pid);
    lib_end(NULL);
    npud_expect_empty();
}
END_TEST

/* --- while npud ends --- */

static _Atomic int *ended;

static int play_in_child(void *arg)
{
    (void)arg;
    play_many((unsigned)choose_effort(3, 300));
    atomic_store(ended, 1);
    return 0;
}

START_TEST(also_while_npud_is_killed)
{
    pid_t pid = child_start(play_in_child, NULL);
    int kills = 0;

    for (; !atomic_load(ended); kills++) {
        child_expect_none_failed();
        npud_kill_server();
    }
    ck_assert_int_gt(kills, 0);
    child_expect_ok(pid);
    npud_expect_empty();
}
END_TEST

static void begin_restartable(void)
{
    ended = child_share(sizeof(*ended));
    npud_start_restartable(NULL);
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("random graphs");

    tcase_add_test(suite_case(s, "graphs", 600, npud_setup, npud_teardown),
                   graphs_do_what_the_plain_program_does);
    tcase_add_test(suite_case(s, "two processes", 600, npud_setup, npud_teardown),
                   two_processes_execute_in_turn);
    tcase_add_test(suite_case(s, "killed npud", 600, begin_restartable, npud_teardown),
                   also_while_npud_is_killed);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
