/*
 * A thread that stands still in the middle of a call, at whatever instruction, while another thread
 * ends what the call uses and makes something else in its place. Such a program is wrong, and its
 * call may fail or not; but it does not crash, hang, or answer for another object, and nothing that
 * it does late is found later in what has the place.
 *
 * The thread is stopped by a signal. Where it has a lock that the end needs, the end waits until it
 * goes on.
 *
 * Skipped under TSan: there a signal is handled later, when the thread calls the kernel.
 * Skipped under chaos: calls are to fail for what the test does alone.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl_rt_memory_soma.h"
#include "gate.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"

#define KIB  ((size_t)1 << 10)
#define UNIT ((size_t)2 << 20)
#define SIZE (64 * KIB)

static aclrtStream stream, other;
static aclrtContext home;

/* --- two threads: one calls and is late, one ends what the call uses --- */

struct kind {
    const char *name;
    void (*make)(void);   /* what the call uses; the late thread is not in a call */
    void (*call)(void);   /* again and again, until it is told to stop */
    void (*end)(void);    /* and something in its place; the call may be in its middle */
    void (*finish)(void); /* both are done. NULL: nothing is left */
    unsigned most;        /* calls of a round; 0: any number */
};

#define TASKS_MOST 200u /* more would be waited for */

enum { IDLE, CALLS, STOPS };

static const struct kind *kind_;
static _Atomic int step, stalled, go_on, begun, ended, leave;

static void stall(int number)
{
    (void)number;
    atomic_store(&stalled, 1);
    while (!atomic_load(&go_on))
        wait_a_moment();
    atomic_store(&stalled, 0);
}

static void await_is(_Atomic int *what, int value)
{
    while (atomic_load(what) != value)
        wait_a_moment();
}

static void *call_always(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(home));
    while (!atomic_load(&leave)) {
        if (atomic_load(&step) == IDLE)
            continue;
        for (unsigned i = 0; atomic_load(&step) == CALLS && (kind_->most == 0 || i < kind_->most);
             i++)
            kind_->call();
        atomic_store(&step, IDLE);
    }
    return NULL;
}

static void *end_it(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(home));
    await_is(&begun, 1);
    kind_->end();
    atomic_store(&ended, 1);
    return NULL;
}

#define END_NS UINT64_C(3000000) /* after that, it waits for the late thread */

/*
 * While it stands still, this thread does nothing that needs a lock of malloc() or of libcheck.
 */
static void end_beside(pthread_t late)
{
    uint64_t until;
    pthread_t ender;

    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    atomic_store(&go_on, 0);
    ck_assert_int_eq(pthread_create(&ender, NULL, end_it, NULL), 0);
    pthread_kill(late, SIGUSR1);
    await_is(&stalled, 1);
    atomic_store(&begun, 1);
    until = now_ns() + END_NS;
    while (!atomic_load(&ended) && now_ns() < until)
        wait_a_moment();
    atomic_store(&go_on, 1);
    await_is(&stalled, 0);
    pthread_join(ender, NULL);
}

static void play_round(pthread_t late, unsigned round)
{
    kind_->make();
    atomic_store(&step, CALLS);
    for (unsigned k = 0; k < round * 7919 % 997 * 8; k++)
        atomic_thread_fence(memory_order_seq_cst);
    end_beside(late);
    atomic_compare_exchange_strong(&step, &(int){CALLS}, STOPS);
    await_is(&step, IDLE);
    if (kind_->finish)
        kind_->finish();
}

static void set_up_test(void)
{
    struct sigaction action = {.sa_handler = stall, .sa_flags = SA_RESTART};

    npud_setup();
    streams_open(&stream, &other);
    OK(aclrtGetCurrentContext(&home));
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

/* --- events --- */

static void *_Atomic object; /* that ends */
static aclrtEvent gates[2], last;

/* Recorded in a stream that was busy: its time is with npud. */
static aclrtEvent timed_event(void)
{
    aclrtEvent gate = stream_hold(stream), e;

    OK(aclrtCreateEventWithFlag(&e, ACL_EVENT_TIME_LINE));
    OK(aclrtRecordEvent(e, stream));
    stream_let_go(gate);
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(gate));
    return e;
}

static void make_timed(void)
{
    if (!last)
        last = timed_event();
    object = timed_event();
}

static void ask_elapsed(void)
{
    float ms;

    aclrtEventElapsedTime(&ms, last, object);
}

static void ask_timestamp(void)
{
    uint64_t us;

    aclrtEventGetTimestamp(object, &us);
}

static aclrtEvent ipc_event(void)
{
    aclrtEvent e;

    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    return e;
}

static void destroy_now(void)
{
    OK(aclrtDestroyEvent(object));
    object = ipc_event();
}

static void destroy_object(void)
{
    OK(aclrtDestroyEvent(object));
}

/* Pending, and nothing comes behind it before finish(). */
static void make_pending(void)
{
    gates[0] = stream_hold(stream);
    gates[1] = stream_hold(other);
    object = ipc_event();
    OK(aclrtRecordEvent(object, stream));
}

static void make_pending_default(void)
{
    aclrtEvent e;

    gates[0] = stream_hold(stream);
    gates[1] = stream_hold(other);
    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, stream));
    object = e;
}

static void wait_for_object(void)
{
    aclrtStreamWaitEvent(other, object);
}

static void record_object(void)
{
    aclrtRecordEvent(object, other);
}

static void reset_object(void)
{
    aclrtResetEvent(object, other);
}

static void query_object(void)
{
    aclrtEventRecordedStatus recorded;
    aclrtEventWaitStatus waited;
    aclrtEventStatus status;
    uint32_t id;

    aclrtQueryEventStatus(object, &recorded);
    aclrtQueryEventWaitStatus(object, &waited);
    aclrtQueryEvent(object, &status);
    aclrtGetEventId(object, &id);
}

static void notify_object(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);

    aclnpudEventNotifyFd(object, fd);
    close(fd);
}

/* Each has a place among its uses. */
static void make_others(aclrtEvent e[4])
{
    for (int i = 0; i < 4; i++)
        OK(aclrtCreateEventWithFlag(&e[i], ACL_EVENT_SYNC));
}

static void use_what_came_after(void)
{
    aclrtEvent e[4];

    make_others(e);
    for (int i = 0; i < 4; i++)
        OK(aclrtDestroyEvent(e[i]));
    stream_let_go(gates[0]);
    stream_let_go(gates[1]);
    OK(aclrtSynchronizeStream(stream));
    aclrtSynchronizeStream(other); /* a record may have failed */
    OK(aclrtDestroyEvent(gates[0]));
    OK(aclrtDestroyEvent(gates[1]));
}

/* --- memory --- */

static const aclrtPhysicalMemProp physical = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                              .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                              .memAttr = ACL_HBM_MEM_HUGE,
                                              .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
static aclrtDrvMemHandle handle;
static void *device;

static void make_mapped(void)
{
    void *p = object;

    if (!p) {
        OK(aclrtReserveMemAddress(&p, UNIT, 0, NULL, 0));
        OK(aclrtMallocPhysical(&handle, UNIT, &physical, 0));
        object = p;
    }
    OK(aclrtMapMem(p, UNIT, 0, handle, 0));
}

static void retain_mapped(void)
{
    aclrtDrvMemHandle h = &h;

    if (aclrtMemRetainAllocationHandle(object, &h) != 0)
        return;
    if (h == &h) /* no assertion of libcheck where nothing is wrong: it has a lock */
        ck_abort_msg("a handle that was not given");
    OK(aclrtFreePhysical(h));
}

static void copy_mapped(void)
{
    char bytes[64];

    aclrtMemcpy(bytes, sizeof(bytes), object, sizeof(bytes), ACL_MEMCPY_DEVICE_TO_HOST);
}

static void unmap_and_map(void)
{
    OK(aclrtUnmapMem(object));
    OK(aclrtMapMem(object, UNIT, 0, handle, 0));
}

static void unmap_mapped(void)
{
    OK(aclrtUnmapMem(object));
}

static void make_physical(void)
{
    aclrtDrvMemHandle h;

    OK(aclrtMallocPhysical(&h, UNIT, &physical, 0));
    object = h;
}

static void export_object(void)
{
    uint64_t number;

    aclrtMemExportToShareableHandle(object, ACL_MEM_HANDLE_TYPE_NONE, 0, &number);
}

static void free_physical(void)
{
    OK(aclrtFreePhysical(object));
}

static void make_pinned(void)
{
    void *p;

    if (!device)
        OK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost(&p, SIZE));
    object = p;
}

static void copy_taken_at_the_call(void)
{
    aclrtMemcpyAsync(device, SIZE, object, SIZE, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, stream);
}

static void copy_pinned(void)
{
    aclrtMemcpy(device, SIZE, object, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemset(object, SIZE, 1, SIZE);
}

static void free_pinned(void)
{
    OK(aclrtFreeHost(object));
}

static void make_managed(void)
{
    void *p;

    OK(aclrtMemAllocManaged(&p, UNIT, ACL_RT_MEM_ATTACH_GLOBAL));
    object = p;
}

static void ask_managed(void)
{
    const aclrtMemManagedLocation here = {.type = ACL_MEM_LOCATIONTYPE_DEVICE, .id = 0};
    int32_t id;

    aclrtMemManagedAdvise(object, UNIT, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION, here);
    aclrtMemManagedPrefetchAsync(object, UNIT, here, 0, stream);
    aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, object, UNIT, &id,
                           sizeof(id));
}

static void free_memory(void)
{
    OK(aclrtFree(object));
}

static void make_device(void)
{
    void *p;

    OK(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    object = p;
}

static void ask_device(void)
{
    aclrtPtrAttributes attributes;
    void *base;
    size_t size;

    aclrtPointerGetAttributes(object, &attributes);
    aclrtMemGetAddressRange(object, &base, &size);
    aclrtMemsetAsync(object, SIZE, 1, SIZE, stream);
    aclrtValueWrite(object, 1, 0, stream);
}

static void finish_device(void)
{
    aclrtSynchronizeStream(stream); /* what was freed before its turn has failed */
}

/* --- pools --- */

static aclrtMemPool pool;

static void make_pool(void)
{
    const aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                     .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                     .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

    OK(aclrtMemPoolCreate(&pool, &props));
    object = pool;
}

static void use_pool(void)
{
    void *p;

    if (aclrtMemPoolMallocAsync(&p, SIZE, object, stream) == 0)
        OK(aclrtMemPoolFreeAsync(p, stream));
}

static void destroy_pool(void)
{
    OK(aclrtMemPoolDestroy(object));
}

static void make_block(void)
{
    void *p;

    make_pool();
    OK(aclrtMemPoolMallocAsync(&p, SIZE, pool, stream));
    object = p;
}

static void free_block(void)
{
    aclrtMemPoolFreeAsync(object, stream);
}

static void free_block_otherwise(void)
{
    aclrtFree(object);
    OK(aclrtMemPoolDestroy(pool));
}

/* --- registered memory --- */

static void make_registered(void)
{
    static void *p;

    if (!device)
        OK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    if (!p)
        p = aligned_alloc(4096, SIZE);
    OK(aclrtHostRegisterV2(p, SIZE, ACL_HOST_REG_MAPPED));
    object = p;
}

static void use_registered(void)
{
    void *p;

    aclrtHostGetDevicePointer(object, &p, 0);
    aclrtMemcpyAsync(device, SIZE, object, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream);
    aclrtValueWrite(object, 1, 0, stream);
    aclrtValueWait(object, 1, ACL_STREAM_WAIT_VALUE_GEQ, stream);
}

static void unregister_object(void)
{
    OK(aclrtHostUnregister(object));
}

/* --- streams --- */

static void make_stream(void)
{
    aclrtStream s;

    if (!device)
        OK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    if (!last) {
        last = memset(aligned_alloc(4096, SIZE), 0, SIZE);
        OK(aclrtHostRegisterV2(last, SIZE, ACL_HOST_REG_MAPPED));
    }
    OK(aclrtCreateStream(&s));
    object = s;
}

static void nothing(void *arg)
{
    (void)arg;
}

static void use_stream(void)
{
    aclrtMemcpyAsync(device, SIZE, last, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, object);
    aclrtLaunchHostFunc(object, nothing, NULL);
    aclrtValueWait(last, 0, ACL_STREAM_WAIT_VALUE_GEQ, object);
}

static void destroy_stream(void)
{
    OK(aclrtDestroyStream(object));
}

static void force_stream(void)
{
    OK(aclrtDestroyStreamForce(object));
}

static const struct kind kinds[] = {
    {"elapsed time, destroyed", make_timed, ask_elapsed, destroy_now, destroy_object, 0},
    {"timestamp, destroyed", make_timed, ask_timestamp, destroy_now, destroy_object},
    {"stream wait, closed", make_pending, wait_for_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"record, closed", make_pending, record_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"query, closed", make_pending, query_object, destroy_object, use_what_came_after, 0},
    {"eventfd, closed", make_pending, notify_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"stream wait, destroyed", make_pending_default, wait_for_object, destroy_object,
     use_what_came_after, TASKS_MOST},
    {"record, destroyed", make_pending_default, record_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"reset, destroyed", make_pending_default, reset_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"query, destroyed", make_pending_default, query_object, destroy_object, use_what_came_after,
     0},
    {"eventfd, destroyed", make_pending_default, notify_object, destroy_object, use_what_came_after,
     TASKS_MOST},
    {"retain, mapped anew", make_mapped, retain_mapped, unmap_and_map, unmap_mapped},
    {"copy, unmapped", make_mapped, copy_mapped, unmap_mapped, NULL},
    {"export, freed", make_physical, export_object, free_physical, NULL},
    {"copy that takes its source, freed", make_pinned, copy_taken_at_the_call, free_pinned,
     finish_device, TASKS_MOST},
    {"copy, freed", make_pinned, copy_pinned, free_pinned, NULL},
    {"advice, freed", make_managed, ask_managed, free_memory, NULL},
    {"questions, freed", make_device, ask_device, free_memory, finish_device, TASKS_MOST},
    {"pool, destroyed", make_pool, use_pool, destroy_pool, NULL},
    {"block, freed", make_block, free_block, free_block_otherwise, NULL},
    {"registered, unregistered", make_registered, use_registered, unregister_object, finish_device,
     TASKS_MOST},
    {"stream, destroyed", make_stream, use_stream, destroy_stream, NULL, TASKS_MOST},
    {"stream, destroyed by force", make_stream, use_stream, force_stream, NULL, TASKS_MOST},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

START_TEST(late_in_a_call)
{
    unsigned rounds = choose_effort(100, 3000);
    pthread_t late;

    kind_ = &kinds[_i];
    ck_assert_int_eq(pthread_create(&late, NULL, call_always, NULL), 0);
    for (unsigned i = 0; i < rounds; i++)
        play_round(late, i);
    atomic_store(&leave, 1);
    pthread_join(late, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("late_threads");
    TCase *tc = suite_case(suite, "late_threads", 120, set_up_test, npud_teardown);

    tcase_add_loop_test(tc, late_in_a_call, 0, KINDS);
    return run_suite(suite);
}
