/* The victim, and the operations that it can die in. */
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_npud_kernel.h"
#include "proto/shm/ipc_page.h"
#include "tests/kill/kill_case.h"

#define DEPTH 1024 /* of a ring */

static aclrtStream gated, gated_too, chained, idle;
aclrtEvent events[N_EVENTS];
static aclrtEvent gate;

static void hold_stream(aclrtStream *s)
{
    OK(aclrtCreateStream(s));
    OK(aclrtStreamWaitEvent(*s, gate));
}

/* A stream that goes on when gated does: not because its process dies. */
static void chain_stream(aclrtStream *s)
{
    aclrtEvent link;

    OK(aclrtCreateEventExWithFlag(&link, ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(link, gated));
    OK(aclrtCreateStream(s));
    OK(aclrtStreamWaitEvent(*s, link));
}

void event_make(int i)
{
    OK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(events[i], &shared->handle[i]));
}

void event_open(int i)
{
    OK(aclrtIpcOpenEventHandle(shared->handle[i], &events[i]));
}

static void act_connect(void)
{
    OK(aclrtSetDevice(0));
}

static void act_create_stream(void)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
}

static void act_destroy_stream(void)
{
    OK(aclrtDestroyStream(idle));
}

static void prepare_drop(void)
{
    hold_stream(&gated_too);
    OK(aclrtRecordEvent(events[EVENT], gated_too));
}

static void act_drop_stream(void)
{
    OK(aclrtDestroyStreamForce(gated_too));
}

/* Two streams: one is held when the victim dies, or both are. */
static void prepare_abort_device(void)
{
    hold_stream(&gated);
    hold_stream(&gated_too);
    event_make(BASE);
    OK(aclrtRecordEvent(events[BASE], gated));
    OK(aclrtStreamWaitEvent(gated_too, events[BASE]));
    OK(aclrtRecordEvent(events[BASE], gated_too));
}

static void act_abort_device(void)
{
    OK(aclrtDeviceTaskAbort(0, 0));
}

static void act_abort_stream(void)
{
    OK(aclrtStreamAbort(gated_too));
}

static void ignore_exception(aclrtExceptionInfo *info)
{
    (void)info;
}

static void prepare_failure(void)
{
    OK(aclrtSetExceptionInfoCallback(ignore_exception));
}

static void act_failure(void)
{
    for (int i = 0; i < 2; i++) {
        OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, idle));
        FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(idle));
    }
}

static void act_export(void)
{
    aclrtIpcEventHandle handle;
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, &handle));
}

static void act_open(void)
{
    aclrtEvent e;

    OK(aclrtIpcOpenEventHandle(shared->handle[FOREIGN], &e));
    OK(aclrtIpcOpenEventHandle(shared->handle[EVENT], &e));
}

/* Twice: the second one finds the first not yet in its slot. */
static void act_record(void)
{
    OK(aclrtRecordEvent(events[EVENT], gated));
    OK(aclrtRecordEvent(events[EVENT], gated));
}

static void act_record_idle(void)
{
    OK(aclrtRecordEvent(events[EVENT], idle));
}

static void prepare_full_window(void)
{
    hold_stream(&gated_too);
    for (unsigned i = 1; i < IPC_SLOTS; i++) /* one is there already */
        OK(aclrtRecordEvent(events[EVENT], i % 2 ? gated : gated_too));
}

static void act_wait(void)
{
    OK(aclrtStreamWaitEvent(idle, events[EVENT]));
}

static void act_wait_foreign(void)
{
    OK(aclrtStreamWaitEvent(idle, events[FOREIGN]));
    aclrtSynchronizeStream(idle);
}

static void act_synchronize(void)
{
    aclrtSynchronizeEvent(events[EVENT]);
}

static void act_synchronize_foreign(void)
{
    aclrtSynchronizeEvent(events[FOREIGN]);
}

static void act_synchronize_stream(void)
{
    aclrtSynchronizeStream(gated);
}

/* Long enough to be asleep when it ends; being late is no failure. */
static void act_synchronize_woken(void)
{
    OK(aclnpudLaunchDelay(20000, 0, idle));
    OK(aclrtRecordEvent(events[EVENT], idle));
    OK(aclrtSynchronizeEvent(events[EVENT]));
}

static void act_synchronize_stream_woken(void)
{
    OK(aclnpudLaunchDelay(20000, 0, idle));
    OK(aclrtSynchronizeStream(idle));
}

/* No process is told any more; npud has copies of the descriptor, or none. */
static void act_notify_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    OK(aclnpudEventNotifyFd(events[EVENT], fd));
    OK(aclnpudEventNotifyFd(events[FOREIGN], fd));
    OK(aclrtRecordEvent(events[EVENT], idle));
    OK(aclnpudEventNotifyFd(events[EVENT], fd));
}

static void act_close(void)
{
    OK(aclrtDestroyEvent(events[EVENT]));
    OK(aclrtDestroyEvent(events[BASE]));
}

static void act_close_foreign(void)
{
    OK(aclrtDestroyEvent(events[FOREIGN]));
}

static void act_plain(void)
{
    aclrtEvent level, timed;

    OK(aclrtCreateEventWithFlag(&level, ACL_EVENT_SYNC));
    OK(aclrtCreateEventWithFlag(&timed, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(level, idle));
    OK(aclrtResetEvent(level, idle));
    OK(aclrtStreamWaitEvent(idle, level));
    OK(aclrtRecordEvent(timed, gated));
    OK(aclrtResetEvent(timed, gated));
    OK(aclrtStreamWaitEvent(idle, timed));
    OK(aclrtRecordEvent(level, gated));
    OK(aclrtDestroyEvent(level));
    OK(aclrtDestroyEvent(timed));
}

static void act_memory(void)
{
    char text[4096] = "text";
    void *device, *host;

    OK(aclrtMalloc(&device, sizeof(text), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&host, sizeof(text)));
    OK(aclrtMemcpyAsync(device, sizeof(text), host, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE, idle));
    OK(aclrtMemcpyAsync(device, sizeof(text), text, sizeof(text), ACL_MEMCPY_HOST_TO_DEVICE, idle));
    OK(aclrtFree(device));
    OK(aclrtFreeHost(host));
}

/*
 * Values, written by the host and by streams, for which others wait: no other process sees them,
 * but npud does.
 */
static void act_values(void)
{
    uint64_t *word, one = 1;

    OK(aclrtMalloc((void **)&word, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(word, 16, 0, 16));
    OK(aclrtValueWait(word, 1, ACL_STREAM_WAIT_VALUE_EQ, idle));
    OK(aclrtValueWrite(word, 2, 0, idle));
    OK(aclrtMemcpy(word, 8, &one, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtReduceAsync(word, word + 1, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, idle,
                        NULL));
    OK(aclrtSynchronizeStream(idle));
    OK(aclrtFree(word));
}

static void prepare_full_ring(void)
{
    aclrtEvent e;

    hold_stream(&gated_too);
    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    for (int i = 1; i < DEPTH; i++)
        OK(aclrtRecordEvent(e, gated_too));
    events[FOREIGN] = e;
}

static void act_full_ring(void)
{
    aclrtRecordEvent(events[FOREIGN], gated_too);
}

static void act_notify(void)
{
    aclrtNotify n, own;
    char key[65];

    OK(aclrtNotifyImportByKey(&n, shared->export_key, 0));
    OK(aclrtRecordNotify(n, idle));
    OK(aclrtCreateNotify(&own, 0));
    OK(aclrtNotifyGetExportKey(own, key, sizeof(key), 0));
    OK(aclrtNotifySetImportPid(own, &(int32_t){1}, 1));
    OK(aclrtRecordNotify(own, idle));
    OK(aclrtWaitAndResetNotify(own, idle, 0));
    OK(aclrtDestroyNotify(own));
    OK(aclrtDestroyNotify(n));
}

/* Nothing of it is executed; and it waits, too, in the hope of nothing that comes. */
static void act_notify_queued(void)
{
    aclrtNotify n;

    OK(aclrtNotifyImportByKey(&n, shared->export_key, 0));
    OK(aclrtRecordNotify(n, gated));
    OK(aclrtRecordNotify(n, gated));
    OK(aclrtWaitAndResetNotify(n, idle, 0));
}

static void act_leave(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static void do_nothing(void *arg)
{
    (void)arg;
}

static void prepare_callbacks(void)
{
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), idle));
}

/* Launched, run, dropped; by one thread, so that the points come in the same order each time. */
static void act_callbacks(void)
{
    OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, idle));
    OK(aclrtProcessReport(-1));
    OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_NO_BLOCK, idle));
    OK(aclrtLaunchCallback(do_nothing, NULL, ACL_CALLBACK_BLOCK, idle));
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), idle));
    OK(aclrtSynchronizeStream(idle));
}

static void act_process_report(void)
{
    aclrtProcessReport(-1);
}

/* The library's thread runs it, or does not get to. */
static void act_host_function(void)
{
    OK(aclrtLaunchHostFunc(idle, do_nothing, NULL));
    OK(aclrtSynchronizeStream(idle));
}

static void do_nothing_on_device(const void *function, const void *args)
{
    (void)function;
    (void)args;
}

/* The same, with two threads for its blocks. */
static void act_kernel(void)
{
    static const aclnpudKernel kernel = {.size = sizeof(kernel),
                                         .name = "nothing",
                                         .function = &kernel,
                                         .call = do_nothing_on_device};

    OK(aclnpudLaunchKernel(&kernel, 2, NULL, 0, idle));
    OK(aclrtSynchronizeStream(idle));
}

/* Captured, executed twice on different streams, and destroyed. */
static void act_graph(void)
{
    static const aclnpudKernel kernel = {.size = sizeof(kernel),
                                         .name = "nothing",
                                         .function = &kernel,
                                         .call = do_nothing_on_device};
    aclrtStream other;
    aclmdlRI model;
    void *memory;

    OK(aclrtCreateStream(&other));
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclmdlRICaptureBegin(other, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    OK(aclrtMemsetAsync(memory, 4096, 1, 4096, other));
    OK(aclrtLaunchHostFunc(other, do_nothing, NULL));
    OK(aclnpudLaunchKernel(&kernel, 2, NULL, 0, other));
    OK(aclmdlRICaptureEnd(other, &model));
    OK(aclmdlRIExecuteAsync(model, other));
    OK(aclmdlRIExecuteAsync(model, idle));
    OK(aclrtSynchronizeStream(idle));
    OK(aclmdlRIDestroy(model));
    OK(aclrtFree(memory));
    OK(aclrtDestroyStream(other));
}

const struct role roles[] = {
    {.name = "connect", .act = act_connect, .alone = true, .before_connect = true},
    {.name = "create stream", .act = act_create_stream},
    {.name = "destroy stream", .act = act_destroy_stream},
    {.name = "drop stream", .prepare = prepare_drop, .act = act_drop_stream},
    {.name = "abort stream", .prepare = prepare_drop, .act = act_abort_stream},
    {.name = "abort device",
     .prepare = prepare_abort_device,
     .act = act_abort_device,
     .alone = true},
    {.name = "failing task", .prepare = prepare_failure, .act = act_failure, .varies = true},
    {.name = "create, export", .act = act_export},
    {.name = "open", .act = act_open, .shares = true},
    {.name = "record", .act = act_record, .shares = true},
    {.name = "record at once", .act = act_record_idle, .shares = true, .completes = true},
    {.name = "record, window full",
     .prepare = prepare_full_window,
     .act = act_record,
     .shares = true,
     .sleeps_in = "aclrtRecordEvent"},
    {.name = "stream wait", .act = act_wait, .shares = true},
    {.name = "stream wait, foreign",
     .act = act_wait_foreign,
     .sleeps_in = "aclrtSynchronizeStream"},
    {.name = "synchronise",
     .act = act_synchronize,
     .shares = true,
     .sleeps_in = "aclrtSynchronizeEvent"},
    {.name = "synchronise, foreign",
     .act = act_synchronize_foreign,
     .sleeps_in = "aclrtSynchronizeEvent"},
    {.name = "synchronise, woken",
     .act = act_synchronize_woken,
     .varies = true,
     .shares = true,
     .completes = true},
    {.name = "synchronise stream",
     .act = act_synchronize_stream,
     .sleeps_in = "aclrtSynchronizeStream"},
    {.name = "synchronise stream, woken", .act = act_synchronize_stream_woken, .varies = true},
    {.name = "notify by descriptor", .act = act_notify_fd, .shares = true, .completes = true},
    {.name = "close", .act = act_close, .shares = true},
    {.name = "close, foreign", .act = act_close_foreign},
    {.name = "plain events", .act = act_plain},
    {.name = "memory, copies", .act = act_memory, .varies = true},
    {.name = "values", .act = act_values, .varies = true},
    {.name = "submit, ring full",
     .prepare = prepare_full_ring,
     .act = act_full_ring,
     .sleeps_in = "aclrtRecordEvent"},
    {.name = "callbacks", .prepare = prepare_callbacks, .act = act_callbacks, .varies = true},
    {.name = "process report",
     .prepare = prepare_callbacks,
     .act = act_process_report,
     .sleeps_in = "aclrtProcessReport"},
    {.name = "host function", .act = act_host_function, .varies = true},
    {.name = "kernel", .act = act_kernel, .varies = true, .launches = true},
    {.name = "graph", .act = act_graph, .varies = true, .launches = true},
    {.name = "notify", .act = act_notify, .notifies = true, .varies = true},
    {.name = "notify, queued", .act = act_notify_queued, .notifies = true, .varies = true},
    {.name = "leave", .act = act_leave, .alone = true},
};
const size_t n_roles = sizeof(roles) / sizeof(roles[0]);

static void set_up_victim(int fd, const struct kill_case *v)
{
    OK(aclrtSetDevice(0));
    OK(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    OK(aclrtCreateStream(&idle));
    step_await(fd);
    if (v->role->alone)
        return;
    hold_stream(&gated);
    event_open(FOREIGN);
    event_make(BASE);
    if (v->victim_creates)
        event_make(EVENT);
    else
        event_open(EVENT);
    chain_stream(&chained);
    OK(aclrtRecordEvent(events[BASE], chained));
    OK(aclrtRecordEvent(events[EVENT], gated));
}

int victim_main(int fd, void *arg)
{
    const struct kill_case *v = arg;

    OK(aclInit(NULL));
    if (v->role->before_connect)
        step_await(fd);
    else
        set_up_victim(fd, v);
    step_done(fd);
    step_await(fd);
    if (v->role->prepare)
        v->role->prepare();
    aclnpudKillSwitch = &shared->kill;
    atomic_store(&shared->kill.on, 1);
    v->role->act();
    atomic_store(&shared->kill.on, 0);
    step_done(fd);
    pause();
    return 0;
}
