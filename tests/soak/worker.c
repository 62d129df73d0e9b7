/* A process of the soak test: does its operations of each round and says which answer was not the one expected. */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "proto/futex.h"
#include "tests/common/sleeper.h"
#include "tests/soak/round.h"
#include "tests/soak/wild.h"

static struct {
    struct common *common;
    unsigned p;
    int fd;
    const struct round *round;
    const struct op *op;
    aclrtContext context[DEVICES];
    int device; /* current */
    aclrtStream stream[OWN];
    aclrtEvent var[VARS];
    aclrtEvent gate[GATES];
    char *cell[CELLS];
    struct sleeper_thread sleeper;
} me = {.device = -1, .sleeper = SLEEPER_INIT};

/* Tell the driver, and wait to be killed. */
__attribute__((noreturn, format(printf, 1, 2))) static void trouble(const char *format, ...)
{
    char *text = me.common->trouble[me.p].text;
    va_list args;

    me.common->trouble[me.p].op = me.op ? (uint16_t)(me.op - me.round->op) : 0;
    va_start(args, format);
    vsnprintf(text, sizeof(me.common->trouble[me.p].text), format, args);
    va_end(args);
    if (write(me.fd, "!", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

static void expect(const char *call, int code)
{
    for (unsigned i = 0; i < me.op->codes; i++)
        if (me.op->code[i] == code)
            return;
    trouble("%s returned %d%s%s", call, code, code == 0 ? "" : ": ",
            code == 0 ? "" : aclGetRecentErrMsg());
}
#define EXPECT(call) expect(#call, (call))

/* What the test itself needs must succeed. */
static void must(int code, const char *call)
{
    if (code != 0)
        trouble("%s returned %d: %s", call, code, aclGetRecentErrMsg());
}
#define MUST(call) must((call), #call)

static void enter(unsigned device)
{
    if (me.device == (int)device)
        return;
    MUST(aclrtSetCurrentContext(me.context[device]));
    me.device = (int)device;
}

static aclrtStream stream_of(const struct op *op)
{
    enter(device_of(op->stream));
    return me.stream[op->stream];
}

/* --- events --- */

static int make_event(aclrtEvent *event, unsigned kind)
{
    switch (kind) {
    case KIND_A:
        return aclrtCreateEvent(event);
    case KIND_SYNC:
        return aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC);
    case KIND_SYNC_TIME:
        return aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    case KIND_C:
        return aclrtCreateEventExWithFlag(event, ACL_EVENT_SYNC);
    case KIND_C_TIME:
        return aclrtCreateEventExWithFlag(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    case KIND_C_MARK:
        return aclrtCreateEventExWithFlag(event, ACL_EVENT_TIME_LINE);
    default:
        return aclrtCreateEventExWithFlag(event, ACL_EVENT_IPC);
    }
}

static void do_create(const struct op *op)
{
    enter(device_of_var(me.p, op->var));
    EXPECT(make_event(&me.var[op->var], op->kind));
}

static void do_destroy(const struct op *op)
{
    EXPECT(aclrtDestroyEvent(me.var[op->var]));
}

static void do_export(const struct op *op)
{
    EXPECT(aclrtIpcGetEventHandle(me.var[op->var], &me.common->handle[op->var - VAR_SHARED]));
}

static void do_export_again(const struct op *op)
{
    aclrtIpcEventHandle handle;

    EXPECT(aclrtIpcGetEventHandle(me.var[op->var], &handle));
    if (memcmp(&handle, &me.common->handle[op->var - VAR_SHARED], sizeof(handle)) != 0)
        trouble("these are not the bytes that the first export gave");
}

static void do_open(const struct op *op)
{
    enter(device_of_var(me.p, op->var));
    EXPECT(aclrtIpcOpenEventHandle(me.common->handle[op->var - VAR_SHARED], &me.var[op->var]));
}

static void do_record(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtEvent event = me.var[op->var];

    if (op->variant == 0)
        EXPECT(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT));
    else
        EXPECT(aclrtRecordEvent(event, stream));
}

static void do_wait(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtEvent event = me.var[op->var];

    switch (op->variant) {
    case 0:
        EXPECT(aclrtStreamWaitEventWithTimeout(stream, event, 0));
        break;
    case 1:
        EXPECT(aclrtStreamWaitEventWithTimeout(stream, event, 1000));
        break;
    case 2:
        EXPECT(aclrtStreamWaitEventWithFlag(stream, event, 500, ACL_EVENT_WAIT_DEFAULT));
        break;
    default:
        EXPECT(aclrtStreamWaitEvent(stream, event));
        break;
    }
}

static void do_lower(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtResetEvent(me.var[op->var], stream));
}

static void expect_status(bool is_complete)
{
    if (me.op->status != STATUS_ANY && is_complete != (me.op->status == STATUS_COMPLETE))
        trouble("npud says %s", is_complete ? "complete" : "not ready");
}

static void do_query(const struct op *op)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
    int code;

    if (op->variant == 0) {
        code = aclrtQueryEventStatus(me.var[op->var], &status);
        expect("aclrtQueryEventStatus", code);
        if (code == 0)
            expect_status(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    } else {
        code = aclrtQueryEvent(me.var[op->var], &old);
        expect("aclrtQueryEvent", code);
        if (code == 0)
            expect_status(old == ACL_EVENT_STATUS_COMPLETE);
    }
}

static void do_sync_event(const struct op *op)
{
    if (op->variant == 0 && op->arg == GUARD_MS)
        EXPECT(aclrtSynchronizeEvent(me.var[op->var]));
    else
        EXPECT(aclrtSynchronizeEventWithTimeout(me.var[op->var], op->arg));
}

static void do_sleep(const struct op *op)
{
    sleeper_begin(&me.sleeper, me.var[op->var], op->variant == 0 ? SLEEPER_NEVER : GUARD_MS);
}

static void do_peek(const struct op *op)
{
    bool returned;

    (void)op;
    pthread_mutex_lock(&me.sleeper.lock);
    returned = sleeper_returned(&me.sleeper, 0);
    pthread_mutex_unlock(&me.sleeper.lock);
    if (returned)
        trouble("the second thread's synchronise returned %d too early", me.sleeper.code);
}

static void do_join(const struct op *op)
{
    bool returned;

    (void)op;
    pthread_mutex_lock(&me.sleeper.lock);
    returned = sleeper_returned(&me.sleeper, GUARD_MS);
    me.sleeper.event = NULL;
    pthread_mutex_unlock(&me.sleeper.lock);
    if (!returned)
        trouble("the second thread's synchronise did not return");
    expect("the second thread's aclrtSynchronizeEvent", me.sleeper.code);
}

/* --- work --- */

static void do_delay(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclnpudLaunchDelay((uint64_t)op->arg, op->result, stream));
}

static void do_burst(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    for (int i = 0; i < op->arg; i++)
        EXPECT(aclnpudLaunchDelay(0, 0, stream));
}

/* A level, and the default stream of its device: nothing else is ever in that. */
static void do_close_gate(const struct op *op)
{
    enter(op->var);
    EXPECT(aclrtResetEvent(me.gate[op->var], NULL));
    EXPECT(aclrtSynchronizeStream(NULL));
}

static void do_gate(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtStreamWaitEvent(stream, me.gate[op->var]));
}

static void do_open_gate(const struct op *op)
{
    enter(op->var);
    EXPECT(aclrtRecordEvent(me.gate[op->var], NULL));
}

/* --- memory --- */

static void do_copy(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    size_t size = cell_size(op->cell);
    aclrtMemcpyKind kind = ACL_MEMCPY_DEVICE_TO_DEVICE;

    if (op->cell >= CELLS_PINNED)
        kind = ACL_MEMCPY_DEVICE_TO_HOST;
    else if (op->from >= CELLS_PINNED)
        kind = ACL_MEMCPY_HOST_TO_DEVICE;
    EXPECT(aclrtMemcpyAsync(me.cell[op->cell], size, me.cell[op->from], size, kind, stream));
}

static void do_set(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    size_t size = cell_size(op->cell);

    EXPECT(aclrtMemsetAsync(me.cell[op->cell], size, op->arg, size, stream));
}

static void do_fill(const struct op *op)
{
    uint64_t *word = (uint64_t *)me.cell[op->cell];

    for (unsigned i = 0; i < WORDS_OF(op->cell); i++)
        word[i] = op->base + i * op->step;
}

static void do_check(const struct op *op)
{
    const uint64_t *word = (const uint64_t *)me.cell[op->cell];

    for (unsigned i = 0; i < WORDS_OF(op->cell); i++)
        if (word[i] != op->base + i * op->step)
            trouble("word %u is %llx, not %llx", i, (unsigned long long)word[i],
                    (unsigned long long)(op->base + i * op->step));
}

/* --- times --- */

static void do_elapsed(const struct op *op)
{
    float ms = -1;
    int code = aclrtEventElapsedTime(&ms, me.var[VAR_BEGIN + op->var], me.var[VAR_END + op->var]);

    expect("aclrtEventElapsedTime", code);
    if (code == 0 && ms < op->at_least)
        trouble("%g ms, and the delay was %g", (double)ms, (double)op->at_least);
}

static void do_stamp(const struct op *op)
{
    EXPECT(aclrtEventGetTimestamp(me.var[op->var], &me.common->stamp[me.p][op->var - VAR_STAMP]));
}

/* --- streams --- */

static void do_sync_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    if (op->variant == 0 && op->arg == GUARD_MS)
        EXPECT(aclrtSynchronizeStream(stream));
    else
        EXPECT(aclrtSynchronizeStreamWithTimeout(stream, op->arg));
}

static void do_sync_device(const struct op *op)
{
    enter(device_of(op->stream));
    EXPECT(op->variant == 0 ? aclrtSynchronizeDevice()
                            : aclrtSynchronizeDeviceWithTimeout(GUARD_MS));
}

static void do_query_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;

    EXPECT(aclrtStreamQuery(stream, &status));
    expect_status(status == ACL_STREAM_STATUS_COMPLETE);
}

static void do_renew_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtDestroyStream(stream));
    EXPECT(aclrtCreateStream(&me.stream[op->stream]));
}

/* --- death --- */

static void do_meet(const struct op *op)
{
    (void)op;
}

static void do_die(const struct op *op)
{
    (void)op;
    kill(getpid(), SIGKILL);
}

static void do_run_wild(const struct op *op)
{
    struct wild wild = {
        .random = me.round->seed ^ me.round->number,
        .stream = me.stream[WILD_STREAM],
        .event = &me.var[VAR_SHARED + WILD_FIRST],
        .events = SHARED - WILD_FIRST,
        .handle = &me.common->handle[WILD_FIRST],
        .steps = &me.common->wild_steps,
    };

    (void)op;
    enter(device_of(WILD_STREAM));
    if (write(me.fd, "w", 1) != 1)
        _exit(1);
    wild_run(&wild);
}

static void (*const doers[WHATS])(const struct op *op) = {
    [DO_CREATE] = do_create,
    [DO_DESTROY] = do_destroy,
    [DO_EXPORT] = do_export,
    [DO_EXPORT_AGAIN] = do_export_again,
    [DO_OPEN] = do_open,
    [DO_RECORD] = do_record,
    [DO_WAIT] = do_wait,
    [DO_LOWER] = do_lower,
    [DO_QUERY] = do_query,
    [DO_SYNC_EVENT] = do_sync_event,
    [DO_SLEEP] = do_sleep,
    [DO_PEEK] = do_peek,
    [DO_JOIN] = do_join,
    [DO_DELAY] = do_delay,
    [DO_BURST] = do_burst,
    [DO_CLOSE_GATE] = do_close_gate,
    [DO_GATE] = do_gate,
    [DO_OPEN_GATE] = do_open_gate,
    [DO_COPY] = do_copy,
    [DO_SET] = do_set,
    [DO_FILL] = do_fill,
    [DO_CHECK] = do_check,
    [DO_ELAPSED] = do_elapsed,
    [DO_STAMP] = do_stamp,
    [DO_SYNC_STREAM] = do_sync_stream,
    [DO_SYNC_DEVICE] = do_sync_device,
    [DO_QUERY_STREAM] = do_query_stream,
    [DO_RENEW_STREAM] = do_renew_stream,
    [DO_MEET] = do_meet,
    [DO_DIE] = do_die,
    [DO_RUN_WILD] = do_run_wild,
};

/* --- rounds --- */

static void await_progress(unsigned q, uint32_t n)
{
    struct progress *other = &me.common->progress[q];
    uint32_t done;

    if (atomic_load(&other->done) >= n)
        return;
    atomic_fetch_add(&other->waiters, 1);
    while ((done = atomic_load(&other->done)) < n)
        futex_wait_until(&other->done, done, NULL);
    atomic_fetch_sub(&other->waiters, 1);
}

static void tell_progress(void)
{
    struct progress *mine = &me.common->progress[me.p];

    atomic_fetch_add(&mine->done, 1);
    if (atomic_load(&mine->waiters) != 0)
        futex_wake_all(&mine->done);
}

static void run_round(const struct round *r)
{
    me.round = r;
    for (unsigned i = 1; i < r->n; i++) {
        const struct op *op = &r->op[i];

        if (op->process != me.p)
            continue;
        for (unsigned q = 0; q < PROCESSES; q++)
            if (op->need[q] != 0)
                await_progress(q, op->need[q]);
        me.op = op;
        doers[op->what](op);
        tell_progress();
    }
    me.op = NULL;
}

/* --- life --- */

static void start_device(unsigned d)
{
    MUST(aclrtSetDevice((int32_t)d));
    MUST(aclrtGetCurrentContext(&me.context[d]));
    me.device = (int)d;
    for (unsigned s = 0; s < OWN; s++)
        if (device_of(s) == d)
            MUST(aclrtCreateStream(&me.stream[s]));
    MUST(aclrtCreateEventWithFlag(&me.gate[d], ACL_EVENT_SYNC));
    for (unsigned c = d * 4; c < d * 4 + 4; c++) {
        MUST(aclrtMalloc((void **)&me.cell[c], cell_size(c), ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMemset(me.cell[c], cell_size(c), 0, cell_size(c)));
    }
}

/* Copies go between all devices. */
static void start_peers(unsigned d)
{
    enter(d);
    for (unsigned other = 0; other < DEVICES; other++)
        if (other != d)
            MUST(aclrtDeviceEnablePeerAccess((int32_t)other, 0));
}

static void start(void)
{
    MUST(aclInit(NULL));
    for (unsigned d = 0; d < DEVICES; d++)
        start_device(d);
    for (unsigned d = 0; d < DEVICES; d++)
        start_peers(d);
    for (unsigned c = CELLS_PINNED; c < CELLS; c++) {
        MUST(aclrtMallocHost((void **)&me.cell[c], cell_size(c)));
        memset(me.cell[c], 0, cell_size(c));
    }
    if (!sleeper_start(&me.sleeper))
        trouble("no second thread");
}

static void stop(void)
{
    sleeper_stop(&me.sleeper);
    for (unsigned d = 0; d < DEVICES; d++)
        MUST(aclrtResetDevice((int32_t)d));
    MUST(aclFinalize());
}

int worker_run(struct common *common, unsigned p, int fd)
{
    char order;

    me.common = common;
    me.p = p;
    me.fd = fd;
    start();
    while (recv(fd, &order, 1, 0) == 1 && order != 'q') {
        run_round(&common->round[order - '0']);
        if (write(fd, ".", 1) != 1)
            return 1;
    }
    stop();
    return 0;
}
