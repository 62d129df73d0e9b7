/*
 * Plans of copies: what several processes, each with streams and buffers, do in one order that a
 * seed tells all of them. Each goes through the whole plan: what is its own it submits, with as
 * many events, IPC events and words between streams and processes as the order needs, and no more;
 * and all of it, it does once more on bytes of its own. So each byte is known at each place of the
 * plan, and is compared there, as soon as an event says that it is complete, and in the end.
 * Meanwhile processes with plans of their own are killed, those that are judged are stopped, and
 * npud is killed and upgraded.
 *
 * COPY_PLANS_SEED, COPY_PLANS_SECONDS: another run. Each round prints its seed if it fails.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "tests/common/chance.h"
#include "tests/common/chaos.h"
#include "tests/common/child.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"
#include "tests/common/nested.h"

#define PROCESSES 2u
#define STREAMS   4u
#define HOST      STREAMS /* the thread itself, in place of a stream */
#define DEVICE    3u      /* buffers of a process: so many of the device, ... */
#define PINNED    2u
#define EACH      (DEVICE + PINNED + 1) /* ... and one of plain memory */
#define BUFFERS   (PROCESSES * EACH)
#define SIZE      (((size_t)10 << 20) + 4096) /* of each: more than COPY_LARGE */
#define OPS       64u                         /* of a round */
#define PARTS     4u
#define KEY       65
#define GUARD_MS  300000

enum kind { COPY, SET, ROWS, BATCH, GRAPH, BLOCKING, HOST_WRITE, CHECK, KINDS };
enum signal_by { NOTHING, EVENT, IPC_EVENT, WORD };

/* rows of n bytes, both sides with the same pitch. */
struct part {
    unsigned dst, src;
    size_t to, at, n, pitch, rows;
};

struct op {
    enum kind kind;
    unsigned process, stream, parts;
    struct part part[PARTS];
    unsigned value;
    unsigned n_waits, wait[PROCESSES * (STREAMS + 1)]; /* for these ops */
    bool for_process, for_host;                        /* somebody waits: elsewhere, in a thread */
    enum signal_by by;
};

struct plan {
    uint64_t seed, chance;
    struct op op[OPS];
};

/* Of the processes of a team. */
struct team {
    char key[PROCESSES][DEVICE + 1][KEY]; /* the last one: words */
    aclrtIpcEventHandle event[PROCESSES][OPS];
    _Atomic uint64_t submitted[PROCESSES]; /* ops, of all rounds */
    _Atomic uint32_t arrived[PROCESSES];   /* at barriers */
    _Atomic uint32_t over;
    uint64_t seed;
    bool expendable; /* it is killed, and whom it leaves alone has nothing to say */
};

/* Each process's own. */
static struct team *team;
static unsigned me;
static uint64_t chance; /* of no plan: what may differ */
static aclrtStream streams[STREAMS];
static aclrtEvent events[OPS], ipc_events[PROCESSES][OPS];
static unsigned char *buffers[BUFFERS], *model[BUFFERS];
static uint64_t *words[PROCESSES];
static struct plan plan;
static unsigned applied; /* ops of it, to the model */
static uint64_t round_number;

static const char *const names[KINDS] = {"copy",  "set",      "rows",       "batch",
                                         "graph", "blocking", "host write", "check"};

static void print_plan(unsigned last)
{
    for (unsigned i = 0; i <= last && i < OPS; i++) {
        const struct op *o = &plan.op[i];

        fprintf(stderr, "  %2u: process %u, stream %u: %s by %d;", i, o->process, o->stream,
                names[o->kind], (int)o->by);
        for (unsigned k = 0; k < o->parts; k++)
            fprintf(stderr, " %u+%zu <- %u+%zu: %zu x %zu/%zu;", o->part[k].dst, o->part[k].to,
                    o->part[k].src, o->part[k].at, o->part[k].rows, o->part[k].n, o->part[k].pitch);
        for (unsigned k = 0; k < o->n_waits; k++)
            fprintf(stderr, " waits %u", o->wait[k]);
        fprintf(stderr, "\n");
    }
}

static _Noreturn void give_up(unsigned i, const char *what, const char *why)
{
    if (team->expendable)
        _exit(0);
    fprintf(stderr, "process %u (%d), seed %llu, round %llu, op %u: %s: %s\n", me, (int)getpid(),
            (unsigned long long)plan.seed, (unsigned long long)round_number, i, what, why);
    print_plan(i);
    _exit(1);
}

#define WELL(i, call)                                                                              \
    do {                                                                                           \
        if ((call) != 0)                                                                           \
            give_up(i, #call, aclGetRecentErrMsg());                                               \
    } while (0)

/* --- making a plan --- */

static bool is_device(unsigned buffer)
{
    return buffer % EACH < DEVICE;
}

static bool is_plain(unsigned buffer)
{
    return buffer % EACH == EACH - 1;
}

/* Own ones, and those of the device of others. */
static unsigned draw_buffer(struct plan *p, unsigned process, bool device)
{
    unsigned b;

    do
        b = draw_below(&p->chance, BUFFERS);
    while ((b / EACH != process || device) && !is_device(b));
    return b;
}

/* Around what copies are cut into, and what decides how they are made. */
static size_t draw_size(struct plan *p)
{
    static const size_t edges[] = {32 << 10, 64 << 10,  256 << 10, 320 << 10,
                                   4 << 20,  288 << 10, 8 << 20,   (4 << 20) + (256 << 10)};
    unsigned which = draw_below(&p->chance, 10);

    if (which < 2)
        return 64 + draw_below(&p->chance, 4096);
    if (which < 6)
        return edges[draw_below(&p->chance, 8)] - 8 + draw_below(&p->chance, 17);
    if (which < 9)
        return (256 << 10) + draw_below(&p->chance, 3 << 20);
    return (1 << 20) + draw_below(&p->chance, 9 << 20);
}

static size_t span(const struct part *t)
{
    return (t->rows - 1) * t->pitch + t->n;
}

static bool meet(unsigned a, size_t at, size_t n, unsigned b, size_t bt, size_t m)
{
    return a == b && at < bt + m && bt < at + n;
}

static void draw_part(struct plan *p, struct op *o, struct part *t)
{
    bool device = o->kind == GRAPH || o->kind == SET;

    t->rows = o->kind == ROWS ? 1 + draw_below(&p->chance, 12) : 1;
    t->n = draw_size(p);
    if (o->kind == ROWS && t->n > SIZE / 16)
        t->n = SIZE / 16;
    if (o->kind == BATCH && t->n > 1 << 20)
        t->n = 1 << 20;
    t->pitch = t->n + (t->rows > 1 ? draw_below(&p->chance, 3) * 1000 : 0);
    do {
        t->dst = draw_buffer(p, o->process, device);
        t->src = draw_buffer(p, o->process, device);
        t->to = draw_random(&p->chance) % (SIZE - span(t));
        t->at = draw_random(&p->chance) % (SIZE - span(t));
        if (draw_chance(&p->chance, 30))
            t->to &= ~(size_t)4095, t->at &= ~(size_t)4095;
    } while (meet(t->dst, t->to, span(t), t->src, t->at, span(t)) ||
             (!is_device(t->dst) && !is_device(t->src)) ||
             (o->kind == BATCH && is_device(t->dst) == is_device(t->src)));
}

static bool parts_meet(const struct part *a, const struct part *b)
{
    return meet(a->dst, a->to, span(a), b->dst, b->to, span(b)) ||
           meet(a->dst, a->to, span(a), b->src, b->at, span(b)) ||
           meet(a->src, a->at, span(a), b->dst, b->to, span(b));
}

/* What a host does has one side: the other one is the same. */
static void draw_host_part(struct plan *p, struct op *o, struct part *t)
{
    t->rows = 1;
    t->pitch = t->n = draw_size(p);
    do
        t->dst = draw_buffer(p, o->process, false);
    while (is_device(t->dst) && (o->kind == HOST_WRITE || nested_is_on() || npud_is_strict()));
    t->src = t->dst;
    t->to = t->at = draw_random(&p->chance) % (SIZE - t->n);
}

static bool is_host_op(enum kind kind)
{
    return kind == BLOCKING || kind == HOST_WRITE || kind == CHECK;
}

static void draw_op(struct plan *p, struct op *o)
{
    static const enum kind often[] = {COPY, COPY,  COPY,  COPY,     COPY,       COPY,  SET,
                                      ROWS, BATCH, GRAPH, BLOCKING, HOST_WRITE, CHECK, CHECK};
    bool again;

    *o = (struct op){.kind = often[draw_below(&p->chance, sizeof(often) / sizeof(often[0]))]};
    o->process = draw_below(&p->chance, PROCESSES);
    o->stream = is_host_op(o->kind) ? HOST : draw_below(&p->chance, STREAMS);
    o->parts = o->kind == GRAPH || o->kind == BATCH ? 1 + draw_below(&p->chance, PARTS) : 1;
    o->value = draw_below(&p->chance, 256);
    do {
        again = false;
        for (unsigned k = 0; k < o->parts; k++)
            if (o->kind == HOST_WRITE || o->kind == CHECK)
                draw_host_part(p, o, &o->part[k]);
            else
                draw_part(p, o, &o->part[k]);
        /* The pieces of a batch have no order. */
        for (unsigned a = 0; a < o->parts && o->kind == BATCH; a++)
            for (unsigned b = 0; b < a; b++)
                again |= parts_meet(&o->part[a], &o->part[b]);
    } while (again);
}

/* Has b to come after a? */
static bool is_ordered(const struct op *a, const struct op *b)
{
    for (unsigned i = 0; i < a->parts; i++)
        for (unsigned k = 0; k < b->parts; k++)
            if (parts_meet(&a->part[i], &b->part[k]) && !(a->kind == CHECK && b->kind == CHECK))
                return true;
    return false;
}

/* Of each stream the latest that it has to wait for: what is before that is over with it. */
static void find_waits(struct plan *p, unsigned j)
{
    struct op *o = &p->op[j];
    bool seen[PROCESSES][STREAMS + 1] = {0};

    seen[o->process][o->stream] = seen[o->process][HOST] = true;
    for (unsigned i = j; i-- > 0;) {
        struct op *before = &p->op[i];

        if (seen[before->process][before->stream] || !is_ordered(before, o))
            continue;
        seen[before->process][before->stream] = true;
        o->wait[o->n_waits++] = i;
        before->for_process |= before->process != o->process;
        before->for_host |= o->stream == HOST;
        if (before->by == NOTHING)
            before->by = EVENT;
    }
}

static void choose_signal(struct plan *p, struct op *o)
{
    unsigned which = draw_below(&p->chance, 3);

    if (o->by == NOTHING || o->stream == HOST)
        o->by = NOTHING;
    else if (o->for_host)
        o->by = o->for_process || which == 0 ? IPC_EVENT : EVENT;
    else if (o->for_process)
        o->by = which == 0 ? WORD : IPC_EVENT;
    else
        o->by = which == 0 ? EVENT : which == 1 ? IPC_EVENT : WORD;
}

static void make_plan(struct plan *p, uint64_t seed)
{
    *p = (struct plan){.seed = seed, .chance = seed};
    for (unsigned i = 0; i < OPS; i++) {
        draw_op(p, &p->op[i]);
        find_waits(p, i);
    }
    for (unsigned i = 0; i < OPS; i++)
        choose_signal(p, &p->op[i]);
}

/* --- what it does to the model --- */

static void fill_random(unsigned char *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        uint64_t x = draw_random(&seed);

        memcpy(p + i, &x, n - i < 8 ? n - i : 8);
    }
}

static uint64_t bytes_seed(unsigned i)
{
    return plan.seed + i;
}

static void apply(unsigned i)
{
    const struct op *o = &plan.op[i];

    for (unsigned k = 0; k < o->parts; k++) {
        const struct part *t = &o->part[k];

        if (o->kind == SET)
            memset(model[t->dst] + t->to, (int)o->value, t->n);
        else if (o->kind == HOST_WRITE)
            fill_random(model[t->dst] + t->to, t->n, bytes_seed(i));
        else
            for (size_t r = 0; r < t->rows && o->kind != CHECK; r++)
                memcpy(model[t->dst] + t->to + r * t->pitch, model[t->src] + t->at + r * t->pitch,
                       t->n);
    }
}

/* Not before it is looked at: streams are to be full. */
static void apply_to(unsigned end)
{
    for (; applied < end; applied++)
        apply(applied);
}

static void compare(unsigned i, unsigned buffer, const unsigned char *is, size_t at, size_t n)
{
    const unsigned char *expected;
    size_t first = 0, last = n - 1;
    char what[128];

    if (team->expendable)
        return;
    apply_to(i);
    expected = model[buffer] + at;
    if (memcmp(is, expected, n) == 0)
        return;
    while (is[first] == expected[first])
        first++;
    while (is[last] == expected[last])
        last--;
    snprintf(what, sizeof(what), "bytes %zu to %zu are wrong", at + first, at + last);
    snprintf(what + strlen(what), sizeof(what) - strlen(what), " of buffer %u", buffer);
    give_up(i, "compared", what);
}

/* --- submitting --- */

static void nap(uint64_t since, unsigned i, const char *what)
{
    if (clock_ns() - since > GUARD_MS * UINT64_C(1000000))
        give_up(i, what, "hangs");
    wait_a_moment();
}

static uint64_t count_before(unsigned i)
{
    return (round_number - 1) * OPS + i;
}

static void await_submitted(unsigned process, unsigned i)
{
    uint64_t since = clock_ns();

    while (atomic_load(&team->submitted[process]) <= count_before(i))
        nap(since, i, "the other process");
}

static aclrtEvent event_of(unsigned i)
{
    const struct op *o = &plan.op[i];

    return o->by == EVENT ? events[i] : ipc_events[o->process][i];
}

static void await_on_host(unsigned j, unsigned i)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    uint64_t since = clock_ns();

    if (draw_chance(&chance, 50)) {
        WELL(j, aclrtSynchronizeEventWithTimeout(event_of(i), GUARD_MS));
        return;
    }
    for (;; nap(since, j, "a queried event")) {
        WELL(j, aclrtQueryEventStatus(event_of(i), &status));
        if (status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
            return;
    }
}

static void wait_for(unsigned j, unsigned i)
{
    const struct op *o = &plan.op[j], *before = &plan.op[i];

    if (before->process != me)
        await_submitted(before->process, i);
    if (before->stream == HOST)
        return;
    if (o->stream == HOST)
        await_on_host(j, i);
    else if (before->by == WORD)
        WELL(j, aclrtValueWait(&words[before->process][i], round_number, ACL_STREAM_WAIT_VALUE_GEQ,
                               streams[o->stream]));
    else
        WELL(j, aclrtStreamWaitEvent(streams[o->stream], event_of(i)));
}

static void signal_it(unsigned i)
{
    const struct op *o = &plan.op[i];

    if (o->by == WORD)
        WELL(i, aclrtValueWrite(&words[me][i], round_number, 0, streams[o->stream]));
    else if (o->by != NOTHING)
        WELL(i, aclrtRecordEvent(event_of(i), streams[o->stream]));
}

static void copy_part(unsigned i, const struct part *t, aclrtStream stream)
{
    WELL(i, aclrtMemcpyAsync(buffers[t->dst] + t->to, t->n, buffers[t->src] + t->at, t->n,
                             ACL_MEMCPY_DEFAULT, stream));
}

static void submit_rows(unsigned i, const struct part *t, aclrtStream stream)
{
    aclrtMemcpyKind kind =
        is_device(t->src) ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_DEVICE;

    if (is_device(t->dst) && is_device(t->src))
        kind = ACL_MEMCPY_DEVICE_TO_DEVICE;
    WELL(i, aclrtMemcpy2dAsync(buffers[t->dst] + t->to, t->pitch, buffers[t->src] + t->at, t->pitch,
                               t->n, t->rows, kind, stream));
}

static void submit_batch(unsigned i, const struct op *o, aclrtStream stream)
{
    void *dst[PARTS], *src[PARTS];
    size_t size[PARTS], first[PARTS], bad;
    aclrtMemcpyBatchAttr attrs[PARTS];

    memset(attrs, 0, sizeof(attrs));
    for (unsigned k = 0; k < o->parts; k++) {
        const struct part *t = &o->part[k];

        dst[k] = buffers[t->dst] + t->to;
        src[k] = buffers[t->src] + t->at;
        size[k] = t->n;
        first[k] = k;
        attrs[k].dstLoc.id = attrs[k].srcLoc.id = (uint32_t)(team->seed % 2);
        attrs[k].dstLoc.type =
            is_device(t->dst) ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
        attrs[k].srcLoc.type =
            is_device(t->src) ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
    }
    WELL(i, aclrtMemcpyBatchAsync(dst, size, src, size, o->parts, attrs, first, o->parts, &bad,
                                  stream));
}

/* A model lives until the round is over. */
static aclmdlRI graphs[OPS];

static void submit_graph(unsigned i, const struct op *o, aclrtStream stream)
{
    WELL(i, aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    for (unsigned k = 0; k < o->parts; k++)
        copy_part(i, &o->part[k], stream);
    WELL(i, aclmdlRICaptureEnd(stream, &graphs[i]));
    WELL(i, aclmdlRIExecuteAsync(graphs[i], stream));
}

static void do_on_host(unsigned i, const struct op *o)
{
    const struct part *t = &o->part[0];

    if (o->kind == BLOCKING)
        WELL(i, aclrtMemcpy(buffers[t->dst] + t->to, t->n, buffers[t->src] + t->at, t->n,
                            ACL_MEMCPY_DEFAULT));
    else if (o->kind == HOST_WRITE)
        fill_random(buffers[t->dst] + t->to, t->n, bytes_seed(i));
    else
        compare(i, t->dst, buffers[t->dst] + t->to, t->to, t->n);
}

static void submit(unsigned i)
{
    const struct op *o = &plan.op[i];
    const struct part *t = &o->part[0];
    aclrtStream stream = o->stream == HOST ? NULL : streams[o->stream];

    for (unsigned k = 0; k < o->n_waits; k++)
        wait_for(i, o->wait[k]);
    if (o->kind == COPY)
        copy_part(i, t, stream);
    else if (o->kind == SET)
        WELL(i, aclrtMemsetAsync(buffers[t->dst] + t->to, t->n, (int)o->value, t->n, stream));
    else if (o->kind == ROWS)
        submit_rows(i, t, stream);
    else if (o->kind == BATCH)
        submit_batch(i, o, stream);
    else if (o->kind == GRAPH)
        submit_graph(i, o, stream);
    else
        do_on_host(i, o);
    signal_it(i);
    atomic_store(&team->submitted[me], count_before(i) + 1);
}

/* --- a process --- */

static void meet_others(void)
{
    uint32_t n = atomic_fetch_add(&team->arrived[me], 1) + 1;
    uint64_t since = clock_ns();

    for (unsigned i = 0; i < PROCESSES; i++)
        while (atomic_load(&team->arrived[i]) < n)
            nap(since, OPS, "a barrier");
}

static void open_buffer(unsigned b)
{
    void *p = NULL;

    if (!team->expendable) {
        model[b] = malloc(SIZE);
        if (!model[b])
            give_up(OPS, "malloc", "no memory");
        fill_random(model[b], SIZE, team->seed ^ b);
    }
    if (b / EACH != me)
        return;
    if (is_plain(b))
        p = malloc(SIZE);
    else if (is_device(b))
        WELL(OPS, aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    else
        WELL(OPS, aclrtMallocHost(&p, SIZE));
    buffers[b] = p;
    if (is_device(b))
        WELL(OPS, aclrtIpcMemGetExportKey(p, SIZE, team->key[me][b % EACH], KEY, 1));
    if (model[b])
        WELL(OPS, aclrtMemcpy(p, SIZE, model[b], SIZE, ACL_MEMCPY_DEFAULT));
}

static void open_own(void)
{
    WELL(OPS, aclInit(NULL));
    WELL(OPS, aclrtSetDevice((int32_t)(team->seed % 2)));
    for (unsigned i = 0; i < STREAMS; i++)
        WELL(OPS, aclrtCreateStream(&streams[i]));
    WELL(OPS, aclrtMalloc((void **)&words[me], OPS * 8, ACL_MEM_MALLOC_HUGE_FIRST));
    WELL(OPS, aclrtMemset(words[me], OPS * 8, 0, OPS * 8));
    WELL(OPS, aclrtIpcMemGetExportKey(words[me], OPS * 8, team->key[me][DEVICE], KEY, 1));
    for (unsigned i = 0; i < OPS; i++) {
        WELL(OPS, aclrtCreateEvent(&events[i]));
        WELL(OPS, aclrtCreateEventExWithFlag(&ipc_events[me][i], ACL_EVENT_IPC));
        WELL(OPS, aclrtIpcGetEventHandle(ipc_events[me][i], &team->event[me][i]));
    }
    for (unsigned b = 0; b < BUFFERS; b++)
        open_buffer(b);
}

static void open_others(void)
{
    void *p;

    for (unsigned o = 0; o < PROCESSES; o++) {
        if (o == me)
            continue;
        for (unsigned i = 0; i < OPS; i++)
            WELL(OPS, aclrtIpcOpenEventHandle(team->event[o][i], &ipc_events[o][i]));
        for (unsigned k = 0; k <= DEVICE; k++) {
            WELL(OPS, aclrtIpcMemImportByKey(&p, team->key[o][k], 0));
            if (k == DEVICE)
                words[o] = p;
            else
                buffers[o * EACH + k] = p;
        }
    }
}

static void compare_all(void)
{
    unsigned char *copy;

    WELL(OPS, aclrtMallocHost((void **)&copy, SIZE));
    for (unsigned b = 0; b < BUFFERS; b++) {
        if (!buffers[b])
            continue;
        if (!is_device(b)) {
            compare(OPS, b, buffers[b], 0, SIZE);
            continue;
        }
        WELL(OPS, aclrtMemcpy(copy, SIZE, buffers[b], SIZE, ACL_MEMCPY_DEFAULT));
        compare(OPS, b, copy, 0, SIZE);
    }
    WELL(OPS, aclrtFreeHost(copy));
}

static void run_round(void)
{
    make_plan(&plan, team->seed * 1000003 + round_number++);
    applied = 0;
    for (unsigned i = 0; i < OPS; i++)
        if (plan.op[i].process == me)
            submit(i);
    for (unsigned i = 0; i < STREAMS; i++)
        WELL(OPS, aclrtSynchronizeStreamWithTimeout(streams[i], GUARD_MS));
    for (unsigned i = 0; i < OPS; i++) {
        if (graphs[i])
            WELL(OPS, aclmdlRIDestroy(graphs[i]));
        graphs[i] = NULL;
    }
    meet_others();
    if (!team->expendable) {
        apply_to(OPS);
        compare_all();
    }
    meet_others();
}

static int play(void *arg)
{
    bool last;

    team = arg;
    me = (unsigned)(atomic_fetch_add(&team->over, 0x100) >> 8 & 0xff);
    chance = team->seed + me;
    open_own();
    meet_others();
    open_others();
    do {
        run_round();
        /* All read it between two barriers in which it does not change. */
        if (me == 0)
            atomic_fetch_or(&team->over, atomic_load(&team->over) & 1 ? 2 : 0);
        meet_others();
        last = atomic_load(&team->over) & 2;
        meet_others();
    } while (!last);
    WELL(OPS, aclFinalize());
    if (me == 0)
        fprintf(stderr, "%llu rounds\n", (unsigned long long)round_number);
    return 0;
}

/* --- directing --- */

static uint64_t draw_seed(void)
{
    const char *seed = getenv("COPY_PLANS_SEED");

    return seed ? strtoull(seed, NULL, 0) : clock_ns() % 1000000;
}

static uint64_t seconds(void)
{
    const char *s = getenv("COPY_PLANS_SECONDS");

    return s ? strtoull(s, NULL, 0) : choose_effort(4, 120);
}

static void start_team(struct team *t, uint64_t seed, pid_t *pid, bool expendable)
{
    memset(t, 0, sizeof(*t));
    t->seed = seed;
    t->expendable = expendable;
    for (unsigned i = 0; i < PROCESSES; i++)
        pid[i] = child_start(play, t);
}

static void kill_team(pid_t *pid)
{
    for (unsigned i = 0; i < PROCESSES; i++)
        child_kill(pid[i]);
}

static void upgrade(void)
{
    int status;

    free(npuctl("upgrade", &status));
}

static void disturb(uint64_t *any, pid_t *judged, bool restartable)
{
    pid_t pid = judged[draw_below(any, PROCESSES)];

    switch (draw_below(any, restartable ? 6 : 3)) {
    case 0:
    case 1:
        child_stop(pid);
        usleep(draw_below(any, 30000)); /* any time is as good */
        kill(pid, SIGCONT);
        break;
    case 3:
    case 4:
        npud_kill_server();
        break;
    case 5:
        upgrade();
        break;
    default:
        break;
    }
}

static void run_teams(bool restartable)
{
    static const char *const two[] = {"--set=sim.copiers=2", NULL};
    struct team *judged, *victims;
    uint64_t seed = draw_seed(), any = seed, until;
    pid_t pid[PROCESSES], victim[PROCESSES];
    unsigned kills = 0;

    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    if (restartable)
        npud_start_restartable(getenv("NPUD_COPIERS") ? NULL : two);
    else
        npud_start(getenv("NPUD_COPIERS") ? NULL : two);
    judged = child_share(sizeof(*judged));
    victims = child_share(sizeof(*victims));
    start_team(judged, seed, pid, false);
    start_team(victims, seed + 1, victim, true);
    until = clock_ns() + seconds() * UINT64_C(1000000000);
    while (clock_ns() < until) {
        usleep(draw_below(&any, 200000));
        child_expect_none_failed();
        disturb(&any, pid, restartable);
        if (draw_chance(&any, 30)) {
            kill_team(victim);
            start_team(victims, seed + 2 + ++kills, victim, true);
        }
    }
    kill_team(victim);
    atomic_fetch_or(&judged->over, 1);
    for (unsigned i = 0; i < PROCESSES; i++)
        child_expect_ok(pid[i]);
    npud_expect_empty();
    npud_teardown();
}

START_TEST(every_byte_is_known)
{
    run_teams(false);
}
END_TEST

START_TEST(npud_is_killed_and_upgraded)
{
    if (!need_one_server(__func__, "it kills them itself"))
        return;
    run_teams(true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("copy plans");
    TCase *t = suite_case(s, "plans", 120, NULL, NULL);

    tcase_add_test(t, every_byte_is_known);
    t = suite_case(s, "restart", 120, NULL, NULL);
    tcase_add_test(t, npud_is_killed_and_upgraded);
    return run_suite(s);
}
