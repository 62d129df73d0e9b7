/*
 * A process of the soak test: does its operations of each round and says which answer was not the
 * one expected.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "proto/util/futex.h"
#include "tests/common/sleeper.h"
#include "tests/common/harness.h"
#include "tests/soak/wild.h"
#include "tests/soak/worker.h"

struct worker me;

static struct {
    aclrtContext context[DEVICES];
    int device; /* current, of the main thread */
    aclrtEvent var[VARS];
    aclrtEvent gate[LEVEL_GATES];
    struct sleeper_thread sleeper;
} own = {.device = -1, .sleeper = SLEEPER_INIT};

void trouble(const struct op *op, const char *format, ...)
{
    static _Atomic bool told;
    char *text = me.common->trouble[me.p].text;
    va_list args;

    if (!atomic_exchange(&told, true)) {
        me.common->trouble[me.p].op = op ? (uint16_t)(op - me.round->op) : 0;
        va_start(args, format);
        vsnprintf(text, sizeof(me.common->trouble[me.p].text), format, args);
        va_end(args);
        /* The driver waits for one or the other. */
        atomic_fetch_add(&me.common->wild_steps, 1);
        futex_wake_all(&me.common->wild_steps);
        if (write(me.fd, "!", 1) != 1)
            _exit(1);
    }
    for (;;)
        pause();
}

/* Of the latest error; those before it are in further lines. */
static const char *get_sentence(int code)
{
    static _Thread_local char text[400];
    const char *all = code == 0 ? NULL : aclGetRecentErrMsg();

    snprintf(text, sizeof(text), ": %.*s", all ? (int)strcspn(all, "\n") : 0, all ? all : "");
    return all ? text : "";
}

void expect_code(const struct op *op, const char *call, int code)
{
    for (unsigned i = 0; i < op->codes; i++)
        if (op->code[i] == code)
            return;
    trouble(op, "%s returned %d%s", call, code, get_sentence(code));
}

void must_succeed(const char *call, int code)
{
    if (code != 0)
        trouble(me.op, "%s returned %d%s", call, code, get_sentence(code));
}

void enter(unsigned device)
{
    if (own.device == (int)device)
        return;
    MUST(aclrtSetCurrentContext(own.context[device]));
    own.device = (int)device;
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
    EXPECT(make_event(&own.var[op->var], op->kind));
}

static void do_destroy(const struct op *op)
{
    EXPECT(aclrtDestroyEvent(own.var[op->var]));
}

static void do_export(const struct op *op)
{
    EXPECT(aclrtIpcGetEventHandle(own.var[op->var], &me.common->handle[op->var - VAR_SHARED]));
}

static void do_export_again(const struct op *op)
{
    aclrtIpcEventHandle handle;

    EXPECT(aclrtIpcGetEventHandle(own.var[op->var], &handle));
    if (memcmp(&handle, &me.common->handle[op->var - VAR_SHARED], sizeof(handle)) != 0)
        trouble(op, "these are not the bytes that the first export gave");
}

static void do_open(const struct op *op)
{
    enter(device_of_var(me.p, op->var));
    EXPECT(aclrtIpcOpenEventHandle(me.common->handle[op->var - VAR_SHARED], &own.var[op->var]));
}

static void do_record(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtEvent event = own.var[op->var];

    if (op->variant == 0)
        EXPECT(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT));
    else
        EXPECT(aclrtRecordEvent(event, stream));
}

static void do_wait(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtEvent event = own.var[op->var];

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

    EXPECT(aclrtResetEvent(own.var[op->var], stream));
}

static void expect_status(const struct op *op, bool is_complete)
{
    if (op->status != STATUS_ANY && is_complete != (op->status == STATUS_COMPLETE))
        trouble(op, "npud says %s", is_complete ? "complete" : "not ready");
}

static void do_query(const struct op *op)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
    int code;

    if (op->variant == 0) {
        code = aclrtQueryEventStatus(own.var[op->var], &status);
        expect_code(op, "aclrtQueryEventStatus", code);
        if (code == 0)
            expect_status(op, status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    } else {
        code = aclrtQueryEvent(own.var[op->var], &old);
        expect_code(op, "aclrtQueryEvent", code);
        if (code == 0)
            expect_status(op, old == ACL_EVENT_STATUS_COMPLETE);
    }
}

static void do_sync_event(const struct op *op)
{
    if (op->variant == 0 && op->arg == GUARD_MS)
        EXPECT(aclrtSynchronizeEvent(own.var[op->var]));
    else
        EXPECT(aclrtSynchronizeEventWithTimeout(own.var[op->var], op->arg));
}

static void do_sleep(const struct op *op)
{
    sleeper_begin(&own.sleeper, own.var[op->var], op->variant == 0 ? SLEEPER_NEVER : GUARD_MS);
}

static void do_peek(const struct op *op)
{
    bool returned;

    pthread_mutex_lock(&own.sleeper.lock);
    returned = sleeper_returned(&own.sleeper, 0);
    pthread_mutex_unlock(&own.sleeper.lock);
    if (returned)
        trouble(op, "the second thread's synchronise returned %d too early", own.sleeper.code);
}

static void do_join(const struct op *op)
{
    bool returned;

    pthread_mutex_lock(&own.sleeper.lock);
    returned = sleeper_returned(&own.sleeper, GUARD_MS);
    own.sleeper.event = NULL;
    pthread_mutex_unlock(&own.sleeper.lock);
    if (!returned)
        trouble(op, "the second thread's synchronise did not return");
    expect_code(op, "the second thread's aclrtSynchronizeEvent", own.sleeper.code);
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
    EXPECT(aclrtResetEvent(own.gate[op->var], NULL));
    EXPECT(aclrtSynchronizeStream(NULL));
}

static void do_gate(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtStreamWaitEvent(stream, own.gate[op->var]));
}

static void do_open_gate(const struct op *op)
{
    if (op->var == CALLBACK_GATE) {
        callbacks_open_gate();
        return;
    }
    enter(op->var);
    EXPECT(aclrtRecordEvent(own.gate[op->var], NULL));
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

static void do_copy_freed(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    char *memory;

    MUST(aclrtMalloc((void **)&memory, CELL_SMALL, ACL_MEM_MALLOC_HUGE_FIRST));
    EXPECT(aclrtMemcpyAsync(memory, CELL_SMALL / 2, memory + CELL_SMALL / 2, CELL_SMALL / 2,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST(aclrtFree(memory));
}

static void do_set(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    size_t size = cell_size(op->cell);

    EXPECT(aclrtMemsetAsync(me.cell[op->cell], size, op->arg, size, stream));
}

/* What orders the threads goes through npud, where the thread sanitizer cannot see it. */
static pthread_mutex_t cells_lock = PTHREAD_MUTEX_INITIALIZER;

void cell_fill(const struct op *op)
{
    uint64_t *word = (uint64_t *)me.cell[op->cell];

    pthread_mutex_lock(&cells_lock);
    for (unsigned i = 0; i < WORDS_OF(op->cell); i++)
        word[i] = op->base + i * op->step;
    pthread_mutex_unlock(&cells_lock);
}

/*
 * A process cannot reach the memory of strict devices; a copy needs a context, which threads that
 * run callbacks have not. Caller holds cells_lock.
 */
static const uint64_t *words_of(unsigned cell)
{
    static uint64_t copy[CELL_BIG / sizeof(uint64_t)];
    aclrtContext context;

    if (cell >= CELLS_PINNED || !npud_is_strict())
        return (const uint64_t *)me.cell[cell];
    if (aclrtGetCurrentContext(&context) != 0)
        MUST(aclrtSetCurrentContext(own.context[0]));
    MUST(aclrtMemcpy(copy, sizeof(copy), me.cell[cell], cell_size(cell), ACL_MEMCPY_DEFAULT));
    return copy;
}

void cell_check(const struct op *op)
{
    const uint64_t *word;

    pthread_mutex_lock(&cells_lock);
    word = words_of(op->cell);
    for (unsigned i = 0; i < WORDS_OF(op->cell); i++)
        if (word[i] != op->base + i * op->step)
            trouble(op, "word %u is %llx, not %llx", i, (unsigned long long)word[i],
                    (unsigned long long)(op->base + i * op->step));
    pthread_mutex_unlock(&cells_lock);
}

/* --- times --- */

static void do_elapsed(const struct op *op)
{
    float ms = -1;
    int code = aclrtEventElapsedTime(&ms, own.var[VAR_BEGIN + op->var], own.var[VAR_END + op->var]);

    expect_code(op, "aclrtEventElapsedTime", code);
    if (code == 0 && ms < op->at_least)
        trouble(op, "%g ms, and the delay was %g", (double)ms, (double)op->at_least);
}

static void do_stamp(const struct op *op)
{
    EXPECT(aclrtEventGetTimestamp(own.var[op->var], &me.common->stamp[me.p][op->var - VAR_STAMP]));
}

/* --- streams --- */

static void do_sync_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    if (op->variant == 0 && op->arg == GUARD_MS)
        EXPECT(aclrtSynchronizeStream(stream));
    else
        EXPECT(aclrtSynchronizeStreamWithTimeout(stream, op->arg));
    if (op->arg != GUARD_MS)
        return;
    callbacks_check_blocking(op, op->stream);
    exceptions_check(op, op->stream);
}

static void do_sync_device(const struct op *op)
{
    enter(device_of(op->stream));
    EXPECT(op->variant == 0 ? aclrtSynchronizeDevice()
                            : aclrtSynchronizeDeviceWithTimeout(GUARD_MS));
    for (unsigned s = op->stream; s < op->stream + 2u; s++)
        exceptions_check(op, s);
}

static void do_query_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;

    EXPECT(aclrtStreamQuery(stream, &status));
    expect_status(op, status == ACL_STREAM_STATUS_COMPLETE);
}

static void do_abort(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtStreamAbort(stream));
}

static void do_renew_stream(const struct op *op)
{
    aclrtStream stream = stream_of(op);

    EXPECT(aclrtDestroyStream(stream));
    EXPECT(aclrtCreateStream(&me.stream[op->stream]));
    callbacks_renew(op->stream);
    exceptions_renew(op->stream);
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
        .event = &own.var[VAR_SHARED + WILD_FIRST],
        .events = SHARED - WILD_FIRST,
        .handle = &me.common->handle[WILD_FIRST],
        .steps = &me.common->wild_steps,
    };

    (void)op;
    enter(device_of(WILD_STREAM));
    exceptions_expect_any();
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
    [DO_COPY_FREED] = do_copy_freed,
    [DO_SET] = do_set,
    [DO_FILL] = cell_fill,
    [DO_CHECK] = cell_check,
    [DO_ELAPSED] = do_elapsed,
    [DO_STAMP] = do_stamp,
    [DO_SYNC_STREAM] = do_sync_stream,
    [DO_SYNC_DEVICE] = do_sync_device,
    [DO_QUERY_STREAM] = do_query_stream,
    [DO_ABORT] = do_abort,
    [DO_RENEW_STREAM] = do_renew_stream,
    [DO_CALLBACK] = callbacks_launch,
    [DO_AWAIT_CALLBACKS] = callbacks_await,
    [DO_LATCH_RECORD] = latches_record,
    [DO_LATCH_WAIT] = latches_wait,
    [DO_EXPORT_KEYS] = latches_export,
    [DO_ADMIT] = latches_admit,
    [DO_IMPORT] = latches_import,
    [DO_IMPORT_REFUSED] = latches_import_refused,
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
        exceptions_expect(op);
        tell_progress();
    }
    me.op = NULL;
}

/* --- life --- */

static void start_device(unsigned d)
{
    MUST(aclrtSetDevice((int32_t)d));
    MUST(aclrtGetCurrentContext(&own.context[d]));
    own.device = (int)d;
    for (unsigned s = 0; s < OWN; s++)
        if (device_of(s) == d)
            MUST(aclrtCreateStream(&me.stream[s]));
    MUST(aclrtCreateEventWithFlag(&own.gate[d], ACL_EVENT_SYNC));
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

static void start_worker(void)
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
    callbacks_start();
    latches_start();
    exceptions_start();
    if (!sleeper_start(&own.sleeper))
        trouble(NULL, "no second thread");
}

static void stop_worker(void)
{
    sleeper_stop(&own.sleeper);
    callbacks_stop();
    latches_stop();
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
    start_worker();
    while (recv(fd, &order, 1, 0) == 1 && order != 'q') {
        run_round(&common->round[order - '0']);
        if (write(fd, ".", 1) != 1)
            return 1;
    }
    stop_worker();
    return 0;
}
