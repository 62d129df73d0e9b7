/*
 * Row 19: what may grow with the number of things that are alive: streams,
 * events, memory, buffers, queues, callbacks, threads that wait. Not here is
 * what visits all of them by its nature: synchronising a device, the end of a
 * session.
 */
#include "tests/bench/bench.h"
#include "tests/bench/growth.h"

#include <pthread.h>
#include <stdlib.h>

#include "acl/acl_npud.h"
#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt_queue.h"

#define SMALL     64
#define PAGE      4096
#define LARGE     ((size_t)3 << 20)
#define UNIT      ((size_t)2 << 20)
#define BUFFERS   200
#define STRIDE    7919 /* a prime */
#define SPREAD    16   /* streams that wait once more */
#define REPORT_MS 1000
#define SETTLING  4096

/* --- streams --- */

static void add_stream(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtCreateStream(&t->p));
}

static void remove_stream(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtDestroyStream(t->p));
}

static void act_stream(struct field *f)
{
    union thing t;

    add_stream(f, &t);
    remove_stream(f, &t);
}

static void set_up_stream(struct field *f)
{
    CHECK(aclrtCreateStream(&f->stream));
    CHECK(aclrtCreateEventExWithFlag(&f->event, ACL_EVENT_SYNC));
}

static void tear_down_stream(struct field *f)
{
    CHECK(aclrtDestroyEvent(f->event));
    CHECK(aclrtDestroyStream(f->stream));
}

static void act_record(struct field *f)
{
    CHECK(aclrtRecordEvent(f->event, f->stream));
}

static void act_task(struct field *f)
{
    CHECK(aclnpudLaunchDelay(0, ACL_SUCCESS, f->stream));
    CHECK(aclrtSynchronizeStream(f->stream));
}

/* --- events, and what is like them --- */

static void add_event(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtCreateEventExWithFlag(&t->p, ACL_EVENT_SYNC));
}

static void add_ipc_event(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtCreateEventExWithFlag(&t->p, ACL_EVENT_IPC));
}

static void remove_event(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtDestroyEvent(t->p));
}

static void act_event(struct field *f)
{
    union thing t;

    add_event(f, &t);
    remove_event(f, &t);
}

static void act_ipc_event(struct field *f)
{
    union thing t;

    add_ipc_event(f, &t);
    remove_event(f, &t);
}

static void add_notify(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtCreateNotify(&t->p, 0));
}

static void remove_notify(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtDestroyNotify(t->p));
}

static void act_notify(struct field *f)
{
    union thing t;

    add_notify(f, &t);
    remove_notify(f, &t);
}

/* A new context is the thread's current one, and the thread has none when that
 * goes. */
static void set_up_context(struct field *f)
{
    CHECK(aclrtGetCurrentContext(&f->context));
}

static void tear_down_context(struct field *f)
{
    CHECK(aclrtSetCurrentContext(f->context));
}

static void add_context(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtCreateContext(&t->p, 0));
}

static void remove_context(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtDestroyContext(t->p));
}

static void act_context(struct field *f)
{
    union thing t;

    add_context(f, &t);
    remove_context(f, &t);
}

/* --- waits --- */

/*
 * `event` is recorded in `held`, behind a gate that opens at the end. Both are
 * levels: a wait for an event of aclrtCreateEventExWithFlag that was never
 * recorded holds nothing.
 */
static void set_up_wait(struct field *f)
{
    CHECK(aclrtCreateStream(&f->stream));
    CHECK(aclrtCreateStream(&f->held));
    CHECK(aclrtCreateEventWithFlag(&f->event, ACL_EVENT_SYNC));
    CHECK(aclrtCreateEventWithFlag(&f->gate, ACL_EVENT_SYNC));
    CHECK(aclrtStreamWaitEvent(f->held, f->gate));
    CHECK(aclrtRecordEvent(f->event, f->held));
    CHECK(aclrtGetCurrentContext(&f->context));
}

static void tear_down_wait(struct field *f)
{
    CHECK(aclrtDestroyStream(f->held));
    CHECK(aclrtDestroyEvent(f->gate));
    tear_down_stream(f);
}

static void open_gate(struct field *f)
{
    CHECK(aclrtRecordEvent(f->gate, f->stream));
}

static void add_waiting_stream(struct field *f, union thing *t)
{
    add_stream(f, t);
    CHECK(aclrtStreamWaitEvent(t->p, f->event));
}

static void remove_waiting_stream(struct field *f, union thing *t)
{
    open_gate(f);
    remove_stream(f, t);
}

/*
 * Of one stream after the other, wherever the event has it in a list. As many
 * at each size: with all of 3,840 in turn the row would measure how long their
 * rings, a page each, take to come from memory.
 */
static void act_wait(struct field *f)
{
    unsigned of = f->n < SPREAD ? f->n : SPREAD;

    f->turn = (f->turn + 1) % of;
    CHECK(aclrtStreamWaitEvent(f->things[(size_t)f->turn * f->n / of].p, f->event));
}

/* The process remembers where the waits are queued: the event's slot is in use
 * until they pass. */
static void act_destroyed(struct field *f)
{
    union thing t;

    CHECK(aclrtCreateEventWithFlag(&t.p, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(t.p, f->held));
    for (unsigned i = 0; i < f->n; i++)
        CHECK(aclrtStreamWaitEvent(f->things[i].p, t.p));
    remove_event(f, &t);
}

static void *wait_in_thread(void *arg)
{
    struct field *f = arg;

    CHECK(aclrtSetCurrentContext(f->context));
    CHECK(aclrtSynchronizeStream(f->held));
    return NULL;
}

static void add_thread(struct field *f, union thing *t)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, wait_in_thread, f) != 0)
        die("no thread");
    t->p = (void *)thread; /* NOLINT(performance-no-int-to-ptr) */
}

static void remove_thread(struct field *f, union thing *t)
{
    open_gate(f);
    pthread_join((pthread_t)t->p, NULL);
}

/* --- callbacks --- */

static void on_report(void *arg)
{
    (void)arg;
}

static void subscribe_stream(aclrtStream stream)
{
    CHECK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
}

static void set_up_subscribed(struct field *f)
{
    set_up_stream(f);
    subscribe_stream(f->stream);
}

static void add_subscribed(struct field *f, union thing *t)
{
    add_stream(f, t);
    subscribe_stream(t->p);
}

static void act_callback(struct field *f)
{
    CHECK(aclrtLaunchCallback(on_report, NULL, ACL_CALLBACK_BLOCK, f->stream));
    CHECK(aclrtProcessReport(REPORT_MS));
    CHECK(aclrtSynchronizeStream(f->stream));
}

static void act_subscribe(struct field *f)
{
    CHECK(aclrtUnSubscribeReport((uint64_t)pthread_self(), f->stream));
    subscribe_stream(f->stream);
}

static void on_state(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)stream;
    (void)state;
    (void)args;
}

static void add_state_callback(struct field *f, union thing *t)
{
    char name[16];

    t->id = f->n;
    snprintf(name, sizeof(name), "%u", t->id);
    CHECK(aclrtRegStreamStateCallback(name, on_state, NULL));
}

static void remove_state_callback(struct field *f, union thing *t)
{
    char name[16];

    (void)f;
    snprintf(name, sizeof(name), "%u", t->id);
    CHECK(aclrtRegStreamStateCallback(name, NULL, NULL));
}

static void act_state_callback(struct field *f)
{
    union thing t;

    add_state_callback(f, &t);
    remove_state_callback(f, &t);
}

/* --- memory --- */

static void add_memory(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtMalloc(&t->p, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void remove_memory(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtFree(t->p));
}

static void act_memory(struct field *f)
{
    union thing t;

    add_memory(f, &t);
    remove_memory(f, &t);
}

static void set_up_memory(struct field *f)
{
    CHECK(aclrtMalloc(&f->memory, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
}

/* Copies tell npud of what is exported. */
static void set_up_export(struct field *f)
{
    set_up_memory(f);
    CHECK(aclrtIpcMemGetExportKey(f->memory, PAGE, f->key, sizeof(f->key), 0));
}

static void tear_down_memory(struct field *f)
{
    CHECK(aclrtFree(f->memory));
}

static void act_copy(struct field *f)
{
    CHECK(aclrtMemcpy(f->memory, PAGE, f->host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void act_pointer(struct field *f)
{
    aclrtPtrAttributes attributes;

    CHECK(aclrtPointerGetAttributes(f->memory, &attributes));
    CHECK(aclrtPointerGetAttributes(f->host, &attributes));
}

static void act_import(struct field *f)
{
    void *p;

    CHECK(aclrtIpcMemImportByKey(&p, f->key, 0));
    CHECK(aclrtIpcMemClose(f->key));
}

static void add_registered(struct field *f, union thing *t)
{
    (void)f;
    t->p = malloc(PAGE);
    CHECK(aclrtHostRegisterV2(t->p, SMALL, ACL_HOST_REG_PINNED));
}

static void remove_registered(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtHostUnregister(t->p));
    free(t->p);
}

static void act_register(struct field *f)
{
    union thing t;

    add_registered(f, &t);
    remove_registered(f, &t);
}

static void add_import(struct field *f, union thing *t)
{
    CHECK(aclrtIpcMemImportByKey(&t->p, f->key, 0));
}

/* Whichever of them is the oldest. */
static void remove_import(struct field *f, union thing *t)
{
    (void)t;
    CHECK(aclrtIpcMemClose(f->key));
}

static void act_managed(struct field *f)
{
    void *p;

    (void)f;
    CHECK(aclrtMemAllocManaged(&p, UNIT, ACL_RT_MEM_ATTACH_GLOBAL));
    CHECK(aclrtFree(p));
}

static void act_number(struct field *f)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                       .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    uint64_t number;

    (void)f;
    CHECK(aclrtMallocPhysical(&handle, UNIT, &prop, 0));
    CHECK(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    CHECK(aclrtFreePhysical(handle));
}

/* Memory that is shared, and streams that wait for words of other memory. */
static void set_up_words(struct field *f)
{
    void *imported;

    set_up_export(f);
    CHECK(aclrtIpcMemImportByKey(&imported, f->key, 0));
    CHECK(aclrtMalloc(&f->pool, PAGE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(f->pool, PAGE, 0, PAGE));
}

static void tear_down_words(struct field *f)
{
    CHECK(aclrtIpcMemClose(f->key));
    CHECK(aclrtFree(f->pool));
    tear_down_memory(f);
}

static void add_word(struct field *f, union thing *t)
{
    add_stream(f, t);
    CHECK(aclrtValueWait(f->pool, 1, ACL_STREAM_WAIT_VALUE_EQ, t->p));
}

static void remove_word(struct field *f, union thing *t)
{
    const uint64_t one = 1;

    CHECK(aclrtMemcpy(f->pool, sizeof(one), &one, sizeof(one), ACL_MEMCPY_HOST_TO_DEVICE));
    remove_stream(f, t);
}

/* --- pools --- */

static void *pool_new(void)
{
    const aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtMemPool pool;

    CHECK(aclrtMemPoolCreate(&pool, &props));
    return pool;
}

static void keep_all(void *pool)
{
    uint64_t all = UINT64_MAX;

    CHECK(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &all));
}

/* `stream` is for the operation; blocks are freed on `held`, behind a gate if
 * there is one. */
static void set_up_pool(struct field *f)
{
    int32_t no = 0;

    CHECK(aclrtCreateStream(&f->stream));
    CHECK(aclrtCreateStream(&f->held));
    f->pool = pool_new();
    keep_all(f->pool);
    CHECK(aclrtMemPoolSetAttr(f->pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, &no));
}

static void set_up_held_pool(struct field *f)
{
    set_up_wait(f);
    f->pool = pool_new();
    keep_all(f->pool);
}

static void tear_down_pool(struct field *f)
{
    CHECK(aclrtMemPoolDestroy(f->pool));
    CHECK(aclrtDestroyStream(f->held));
    CHECK(aclrtDestroyStream(f->stream));
}

static void tear_down_held_pool(struct field *f)
{
    open_gate(f);
    CHECK(aclrtSynchronizeStream(f->held));
    for (unsigned i = 0; i < SETTLING; i++) /* each call ends some of those that were destroyed */
        CHECK(aclrtMemPoolTrimTo(f->pool, 0));
    CHECK(aclrtMemPoolDestroy(f->pool));
    tear_down_wait(f);
}

static void leave_block(struct field *f, void *pool)
{
    void *p;

    CHECK(aclrtMemPoolMallocAsync(&p, PAGE, pool, f->stream));
    CHECK(aclrtMemPoolFreeAsync(p, f->held));
}

static void add_block(struct field *f, union thing *t)
{
    (void)t;
    leave_block(f, f->pool);
}

/* They go with the pool. */
static void remove_block(struct field *f, union thing *t)
{
    (void)f;
    (void)t;
}

static void add_pool(struct field *f, union thing *t)
{
    t->p = pool_new();
    leave_block(f, t->p);
}

static void remove_pool(struct field *f, union thing *t)
{
    (void)f;
    CHECK(aclrtMemPoolDestroy(t->p));
}

static void act_pool(struct field *f)
{
    (void)f;
    CHECK(aclrtMemPoolDestroy(pool_new()));
}

static void act_block(struct field *f)
{
    void *p;

    CHECK(aclrtMemPoolMallocAsync(&p, PAGE, f->pool, f->stream));
    CHECK(aclrtMemPoolFreeAsync(p, f->stream));
}

/* --- buffers and queues --- */

static void add_buffer(struct field *f, union thing *t)
{
    (void)f;
    CHECK(acltdtAllocBuf(SMALL, ACL_TDT_NORMAL_MEM, &t->p));
}

static void add_large_buffer(struct field *f, union thing *t)
{
    (void)f;
    CHECK(acltdtAllocBuf(LARGE, ACL_TDT_NORMAL_MEM, &t->p));
}

static void remove_buffer(struct field *f, union thing *t)
{
    (void)f;
    CHECK(acltdtFreeBuf(t->p));
}

/* More than a thread keeps for itself, so that the pool is asked. */
static void act_buffer(struct field *f)
{
    union thing t[BUFFERS];

    for (unsigned i = 0; i < BUFFERS; i++)
        add_buffer(f, &t[i]);
    for (unsigned i = 0; i < BUFFERS; i++)
        remove_buffer(f, &t[i]);
}

static void act_large_buffer(struct field *f)
{
    union thing t;

    add_large_buffer(f, &t);
    remove_buffer(f, &t);
}

static void add_queue(struct field *f, union thing *t)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();

    (void)f;
    CHECK(acltdtCreateQueue(attr, &t->id));
    CHECK(acltdtDestroyQueueAttr(attr));
}

static void remove_queue(struct field *f, union thing *t)
{
    (void)f;
    CHECK(acltdtDestroyQueue(t->id));
}

static void set_up_queue(struct field *f)
{
    union thing t;

    add_queue(f, &t);
    f->queue = t.id;
}

static void tear_down_queue(struct field *f)
{
    CHECK(acltdtDestroyQueue(f->queue));
}

static void act_queue(struct field *f)
{
    union thing t;

    add_queue(f, &t);
    remove_queue(f, &t);
}

static void act_transfer(struct field *f)
{
    acltdtBuf buf;

    CHECK(acltdtAllocBuf(SMALL, ACL_TDT_NORMAL_MEM, &buf));
    CHECK(acltdtEnqueue(f->queue, buf, 0));
    CHECK(acltdtDequeue(f->queue, &buf, 0));
    CHECK(acltdtFreeBuf(buf));
}

/* --- */

static const struct kind
    streams = {add_stream, remove_stream},
    busy = {add_stream, remove_stream, set_up_stream, tear_down_stream},
    events = {add_event, remove_event}, ipc_events = {add_ipc_event, remove_event},
    notifies = {add_notify, remove_notify},
    contexts = {add_context, remove_context, set_up_context, tear_down_context},
    waiting = {add_waiting_stream, remove_waiting_stream, set_up_wait, tear_down_wait},
    threads = {add_thread, remove_thread, set_up_wait, tear_down_wait},
    subscribed = {add_subscribed, remove_stream, set_up_subscribed, tear_down_stream},
    state_callbacks = {add_state_callback, remove_state_callback},
    memory = {add_memory, remove_memory, set_up_memory, tear_down_memory},
    exported = {add_memory, remove_memory, set_up_export, tear_down_memory},
    registered = {add_registered, remove_registered},
    imports = {add_import, remove_import, set_up_export, tear_down_memory},
    words = {add_word, remove_word, set_up_words, tear_down_words},
    blocks = {add_block, remove_block, set_up_pool, tear_down_pool},
    held_blocks = {add_block, remove_block, set_up_held_pool, tear_down_held_pool},
    pools = {add_pool, remove_pool, set_up_held_pool, tear_down_held_pool},
    buffers = {add_buffer, remove_buffer}, large_buffers = {add_large_buffer, remove_buffer},
    queues = {add_queue, remove_queue, set_up_queue, tear_down_queue};

#define FEW       60, 480, 3840
#define MANY      100, 800, 6400
#define CALLBACKS 1200, 4800, 19200

static const struct operation operations[] = {
    {"19-stream", "create + destroy a stream; streams alive", &streams, {FEW}, 50, act_stream},
    {"19-record",
     "record an event on an idle stream; streams alive",
     &busy,
     {FEW},
     5000,
     act_record},
    {"19-task", "run a task and synchronize; streams alive", &busy, {FEW}, 300, act_task},
    {"19-event",
     "create + destroy an event; events alive",
     &events,
     {1000, 8000, 64000},
     300,
     act_event},
    {"19-ipc",
     "create + destroy an IPC event; IPC events alive",
     &ipc_events,
     {MANY},
     50,
     act_ipc_event},
    {"19-notify", "create + destroy a notify; notifies alive", &notifies, {MANY}, 50, act_notify},
    {"19-context",
     "create + destroy a context; contexts alive",
     &contexts,
     {50, 300, 1800},
     50,
     act_context},
    {"19-wait", "wait for an event; streams waiting for it", &waiting, {FEW}, 60, act_wait},
    {"19-destroyed",
     "destroy an event; for each stream that waits for it",
     &waiting,
     {60, 240, 960}, /* with all samples within SESSION_FENCES_MAX */
     1,
     act_destroyed,
     true},
    {"19-threads",
     "run a task and synchronize; threads asleep",
     &threads,
     {16, 64, 256},
     300,
     act_task},
    {"19-callback",
     "callback + synchronize; streams of the thread",
     &subscribed,
     {FEW},
     300,
     act_callback},
    {"19-subscribe", "subscribe a thread; streams of it", &subscribed, {FEW}, 1000, act_subscribe},
    {"19-state",
     "create + destroy a stream; for each stream-state callback",
     &state_callbacks,
     {CALLBACKS},
     5,
     act_stream,
     true},
    {"19-state-add",
     "register + remove a state callback; registered",
     &state_callbacks,
     {CALLBACKS},
     300,
     act_state_callback},
    {"19-memory", "allocate + free 4 KiB; allocations alive", &memory, {MANY}, 50, act_memory},
    {"19-copy", "copy 64 bytes to the device; allocations alive", &memory, {MANY}, 5000, act_copy},
    {"19-pointer",
     "attributes of two pointers; allocations alive",
     &memory,
     {MANY},
     5000,
     act_pointer},
    {"19-import",
     "import + close memory by key; allocations alive",
     &exported,
     {MANY},
     50,
     act_import},
    {"19-imported",
     "import + close memory by key; imports alive",
     &imports,
     {MANY},
     50,
     act_import},
    {"19-managed",
     "allocate + free managed memory; allocations alive",
     &memory,
     {MANY},
     50,
     act_managed},
    {"19-number",
     "physical memory with a number; allocations alive",
     &memory,
     {MANY},
     50,
     act_number},
    {"19-copy-shared",
     "copy 64 bytes to shared memory; streams that wait for words",
     &words,
     {FEW},
     5000,
     act_copy},
    {"19-block", "take + give back memory of a pool; idle blocks", &blocks, {FEW}, 50, act_block},
    {"19-block-task",
     "the same; blocks that wait behind a task",
     &held_blocks,
     {FEW},
     50,
     act_block},
    {"19-pool",
     "create + destroy a pool; pools with a block that waits",
     &pools,
     {FEW},
     50,
     act_pool},
    {"19-pool-block",
     "take + give back memory of a pool; the same pools",
     &pools,
     {FEW},
     50,
     act_block},
    {"19-register",
     "register + unregister host memory; registered",
     &registered,
     {MANY},
     300,
     act_register},
    {"19-buffer",
     "allocate + free 200 buffers of 64 bytes; alive",
     &buffers,
     {6250, 50000, 400000},
     20,
     act_buffer},
    {"19-buffer-3m",
     "allocate + free a buffer of 3 MB; alive",
     &large_buffers,
     {FEW},
     20,
     act_large_buffer},
    {"19-queue", "create + destroy a queue; queues alive", &queues, {FEW}, 50, act_queue},
    {"19-transfer", "a buffer through a queue; queues alive", &queues, {FEW}, 2000, act_transfer},
};

void rows_growth(void)
{
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        growth_run(&operations[i]);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
