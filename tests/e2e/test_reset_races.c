/*
 * Calls that make something, beside aclrtResetDeviceForce and aclFinalize of another thread: what
 * goes with the device goes, also what npud gives at this very moment, and what stays is usable.
 * Nothing is left in npud that the program does not have.
 * Skipped under chaos: npud is stopped, and one that comes back is not.
 * Runs long: 10 s.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "acl/acl_rt_memory_soma.h"
#include "acl/acl_tdt_queue.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/proc.h"

#define BYTES 4096
#define MIB   ((size_t)1 << 20)
#define KEY   65
#define GONE  ACL_ERROR_RT_CONTEXT_NULL

/* --- what npud has --- */

struct had {
    uint32_t memory, streams, events, notifies, queues;
};

static struct had look(void)
{
    Npud__Report *memory = npud_report(NPUD__ADMIN_REQUEST__TOPIC__MEMORY);
    Npud__Report *queues = npud_report(NPUD__ADMIN_REQUEST__TOPIC__QUEUES);
    struct ledger l = npud_ledger();
    struct had had = {(uint32_t)memory->n_memory, l.streams, l.events, l.notifies,
                      (uint32_t)queues->n_queues};

    npud__report__free_unpacked(memory, NULL);
    npud__report__free_unpacked(queues, NULL);
    return had;
}

static void expect_the_same(const char *name, unsigned round, const struct had *was)
{
    struct had is = look();

    ck_assert_msg(memcmp(&is, was, sizeof(is)) == 0,
                  "%s, round %u: %u allocations, were %u; %u streams, were %u; %u events, were %u; "
                  "%u notifies, were %u; %u queues, were %u",
                  name, round, is.memory, was->memory, is.streams, was->streams, is.events,
                  was->events, is.notifies, was->notifies, is.queues, was->queues);
}

/* --- what is made --- */

union made {
    void *pointer;
    aclrtStream stream;
    aclrtEvent event;
    aclrtNotify notify;
    aclrtMemPool pool;
    aclrtDrvMemHandle physical;
    uint32_t queue;
};

/* Of device 1, which stays open. */
static char key[KEY];
static int key_fd = -1;

/* Of device 0: of one round, made by the thread before it begins. */
static aclrtStream stream;
static aclrtMemPool pool;
static void *memory;

static const aclrtMemPoolProps pool_props = {
    .allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};

static aclError make_memory(union made *made)
{
    return aclrtMalloc(&made->pointer, BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclError make_aligned(union made *made)
{
    return aclrtMallocAlign32(&made->pointer, BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclError make_cached(union made *made)
{
    return aclrtMallocCached(&made->pointer, BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
}

static aclError make_configured(union made *made)
{
    return aclrtMallocWithCfg(&made->pointer, BYTES, ACL_MEM_MALLOC_HUGE_FIRST, NULL);
}

static aclError make_flags(union made *made)
{
    return aclrtCtxGetFloatOverflowAddr(&made->pointer);
}

static aclError make_import(union made *made)
{
    return aclrtIpcMemImportByKey(&made->pointer, key, 0);
}

static aclError make_fd_import(union made *made)
{
    return aclnpudMemImportFd(&made->pointer, key_fd, 0);
}

static aclError make_block(union made *made)
{
    return aclrtMemPoolMallocAsync(&made->pointer, BYTES, pool, stream);
}

static aclError make_pool(union made *made)
{
    return aclrtMemPoolCreate(&made->pool, &pool_props);
}

static aclError make_stream(union made *made)
{
    return aclrtCreateStream(&made->stream);
}

/* Of a strict device, by a stream that the program does not know of. */
static aclError make_copy(union made *made)
{
    static char from[BYTES];

    made->pointer = memory;
    return aclrtMemcpy(memory, BYTES, from, BYTES, ACL_MEMCPY_HOST_TO_DEVICE);
}

static aclError make_pinned(union made *made)
{
    return aclrtMallocHost(&made->pointer, BYTES);
}

static aclError make_managed(union made *made)
{
    return aclrtMemAllocManaged(&made->pointer, BYTES, ACL_RT_MEM_ATTACH_GLOBAL);
}

static aclError make_physical(union made *made)
{
    aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                 .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};

    return aclrtMallocPhysical(&made->physical, 2 * MIB, &prop, 0);
}

static aclError make_event(union made *made)
{
    return aclrtCreateEvent(&made->event);
}

static aclError make_ipc_event(union made *made)
{
    return aclrtCreateEventExWithFlag(&made->event, ACL_EVENT_IPC);
}

static aclError make_notify(union made *made)
{
    return aclrtCreateNotify(&made->notify, 0);
}

static aclError make_queue(union made *made)
{
    return acltdtCreateQueue(NULL, &made->queue);
}

/* --- what becomes of it --- */

static aclError free_memory(const union made *made)
{
    return aclrtFree(made->pointer);
}

static aclError free_block(const union made *made)
{
    aclError error;

    OK(aclrtCreateStream(&stream));
    error = aclrtMemPoolFreeAsync(made->pointer, stream);
    OK(aclrtDestroyStream(stream));
    return error;
}

static aclError set_memory(const union made *made)
{
    return aclrtMemset(made->pointer, BYTES, 1, BYTES);
}

static aclError trim_pool(const union made *made)
{
    return aclrtMemPoolTrimTo(made->pool, 0);
}

static aclError destroy_stream(const union made *made)
{
    return aclrtDestroyStream(made->stream);
}

static aclError free_pinned(const union made *made)
{
    return aclrtFreeHost(made->pointer);
}

static aclError free_physical(const union made *made)
{
    return aclrtFreePhysical(made->physical);
}

static aclError destroy_event(const union made *made)
{
    return aclrtDestroyEvent(made->event);
}

static aclError destroy_notify(const union made *made)
{
    return aclrtDestroyNotify(made->notify);
}

static aclError destroy_queue(const union made *made)
{
    return acltdtDestroyQueue(made->queue);
}

static const struct kind {
    const char *name;
    aclError (*make)(union made *made);
    aclError (*use)(const union made *made);
    aclError after; /* the reset, its use returns this: 0 for what stays, and goes then */
    aclError late;  /* what it may return instead of 107002, when it was too late */
} kinds[] = {
    {"memory", make_memory, free_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"aligned memory", make_aligned, free_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"cached memory", make_cached, free_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"configured memory", make_configured, free_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"flags of overflow", make_flags, free_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"imported memory", make_import, set_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"memory by descriptor", make_fd_import, set_memory, ACL_ERROR_RT_PARAM_INVALID, 0},
    {"memory of a pool", make_block, free_block, ACL_ERROR_RT_PARAM_INVALID,
     ACL_ERROR_RT_INVALID_HANDLE},
    {"a pool", make_pool, trim_pool, ACL_ERROR_RT_INVALID_HANDLE, 0},
    {"a stream", make_stream, destroy_stream, ACL_ERROR_RT_INVALID_HANDLE, 0},
    {"pinned memory", make_pinned, free_pinned, 0, 0},
    {"managed memory", make_managed, free_memory, 0, 0},
    {"physical memory", make_physical, free_physical, 0, 0},
    {"an event", make_event, destroy_event, 0, 0},
    {"an IPC event", make_ipc_event, destroy_event, 0, 0},
    {"a notify", make_notify, destroy_notify, 0, 0},
    {"a queue", make_queue, destroy_queue, 0, 0},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Only of a strict device: elsewhere the thread itself copies, into memory that goes. */
static const struct kind strict_copy = {"a copy", make_copy, set_memory, ACL_ERROR_RT_PARAM_INVALID,
                                        ACL_ERROR_RT_PARAM_INVALID};

/* --- beside a reset --- */

enum step { IDLE, BEGIN, READY, GO, DONE, LEAVE };

static struct round {
    pid_t tid;        /* of the thread */
    _Atomic int step; /* enum step */
    const struct kind *kind;
    union made made;
    aclError result;
} round_;

static void await_step(enum step step)
{
    while (atomic_load(&round_.step) != (int)step)
        wait_a_moment();
}

#define DELAYS 16u

/*
 * Without a sleep: the two are to meet. With the last delay the thread has made it, and with the
 * first it has hardly begun.
 */
static void let_it_make(unsigned delay)
{
    uint64_t until = now_ns() + delay * UINT64_C(10000);

    while (atomic_load(&round_.step) != DONE && (now_ns() < until || delay == DELAYS - 1))
        ;
}

static void *make_in_rounds(void *arg)
{
    (void)arg;
    round_.tid = gettid();
    for (;;) {
        int step;

        while ((step = atomic_load(&round_.step)) != BEGIN && step != LEAVE)
            wait_a_moment();
        if (step == LEAVE)
            return NULL;
        OK(aclrtSetDevice(0));
        OK(aclrtCreateStream(&stream));
        OK(aclrtMemPoolCreate(&pool, &pool_props));
        OK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
        atomic_store(&round_.step, READY);
        while (atomic_load(&round_.step) != GO)
            ;
        round_.result = round_.kind->make(&round_.made);
        atomic_store(&round_.step, DONE);
    }
}

static void check_made(unsigned round)
{
    const struct kind *kind = round_.kind;
    aclError is = round_.result;

    if (is != 0) {
        ck_assert_msg(is == GONE || is == kind->late ||
                          (is == ACL_ERROR_RT_INVALID_HANDLE && kind->make == make_block) ||
                          kind->make == make_copy /* its memory may go at each step */,
                      "%s, round %u: %d: %s", kind->name, round, is, aclGetRecentErrMsg());
        return;
    }
    OK(aclrtSetDevice(0));
    is = kind->use(&round_.made);
    ck_assert_msg(is == kind->after, "%s, round %u: used later: %d, expected %d", kind->name, round,
                  is, kind->after);
    OK(aclrtResetDevice(0));
    OK(aclrtSetDevice(1));
}

static void *let_npud_go_on(void *arg)
{
    while (proc_thread_state(getpid(), *(pid_t *)arg) != 'S')
        wait_a_moment();
    kill(npud_server_pid(), SIGCONT);
    return NULL;
}

/* npud stands still: the thread has asked it, and the reset has begun, before it answers. */
static void reset_while_npud_is_asked(void)
{
    pid_t me = gettid();
    pthread_t thread;

    kill(npud_server_pid(), SIGSTOP);
    atomic_store(&round_.step, GO);
    while (proc_thread_state(getpid(), round_.tid) != 'S')
        wait_a_moment();
    ck_assert_int_eq(pthread_create(&thread, NULL, let_npud_go_on, &me), 0);
    OK(aclrtResetDeviceForce(0));
    pthread_join(thread, NULL);
}

static void reset_after(unsigned delay)
{
    atomic_store(&round_.step, GO);
    let_it_make(delay);
    OK(aclrtResetDeviceForce(0));
}

static void play_round(unsigned round)
{
    atomic_store(&round_.step, BEGIN);
    await_step(READY);
    if (round % 2 == 0)
        reset_while_npud_is_asked();
    else
        reset_after(round / 2 % DELAYS);
    await_step(DONE);
    check_made(round);
    atomic_store(&round_.step, IDLE);
}

static void export_memory(void)
{
    void *exported;

    OK(aclrtSetDevice(1));
    OK(aclrtMalloc(&exported, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtIpcMemGetExportKey(exported, BYTES, key, KEY, 0));
    OK(aclnpudMemExportFd(exported, BYTES, 0, &key_fd));
}

static void play_kind(const struct kind *kind)
{
    unsigned rounds = choose_effort(4 * DELAYS, 4000);
    pthread_t thread;
    struct had was;

    OK(aclInit(NULL));
    export_memory();
    was = look();
    round_.kind = kind;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_in_rounds, NULL), 0);
    for (unsigned i = 0; i < rounds; i++) {
        play_round(i);
        expect_the_same(kind->name, i, &was);
    }
    atomic_store(&round_.step, LEAVE);
    pthread_join(thread, NULL);
    OK(aclrtResetDeviceForce(1));
    OK(aclFinalize());
    npud_expect_empty();
}

START_TEST(beside_a_reset)
{
    play_kind(&kinds[_i]);
}
END_TEST

static void set_up_strict(void)
{
    npud_start((const char *const[]){"--set=sim.strict=yes", NULL});
}

START_TEST(copy_beside_a_reset)
{
    play_kind(&strict_copy);
}
END_TEST

/* --- beside aclFinalize --- */

static _Atomic bool over;

static void do_nothing(void *arg)
{
    (void)arg;
}

static void ignore_exception(aclrtExceptionInfo *info)
{
    (void)info;
}

/* What begins threads of the library. */
static void use_threads(void)
{
    aclrtEvent event;
    aclrtStream s;
    int fd = eventfd(0, EFD_CLOEXEC);

    if (aclrtCreateStream(&s) == 0 && aclrtCreateEvent(&event) == 0) {
        aclrtLaunchHostFunc(s, do_nothing, NULL);
        aclrtRecordEvent(event, s);
        aclnpudEventNotifyFd(event, fd);
        aclrtDestroyEvent(event);
    }
    close(fd);
}

/* Whatever they return: another thread ends the use at any moment. */
static void *use_a_device(void *arg)
{
    union made made;

    (void)arg;
    for (unsigned n = 0; !atomic_load(&over); n++) {
        const struct kind *kind = &kinds[n % KINDS];

        aclrtSetDevice(0);
        if (kind->make != make_block && kind->make(&made) == 0 &&
            (kind->after == 0 || n / KINDS % 2 == 0))
            kind->use(&made);
        use_threads();
        aclrtResetDevice(0);
        for (unsigned i = 0; i < n % 4; i++)
            wait_a_moment();
    }
    return NULL;
}

static void *use_no_device(void *arg)
{
    acltdtBuf buffer;
    union made made;
    void *reserved;

    (void)arg;
    while (!atomic_load(&over)) {
        aclrtExceptionInfoCallbackRegister(ignore_exception);
        if (make_queue(&made) == 0)
            destroy_queue(&made);
        if (make_physical(&made) == 0)
            free_physical(&made);
        if (acltdtAllocBuf(BYTES, 0, &buffer) == 0)
            acltdtFreeBuf(buffer);
        if (aclrtReserveMemAddress(&reserved, 2 * MIB, 0, NULL, 0) == 0)
            aclrtReleaseMemAddress(reserved);
        aclrtExceptionInfoCallbackUnregister(ignore_exception);
    }
    return NULL;
}

static uint64_t my_session(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    return npud_session_of(getpid());
}

START_TEST(beside_finalize)
{
    unsigned rounds = choose_rounds(1000, 100000);
    uint64_t first = my_session();
    pthread_t thread[2];

    ck_assert_int_eq(pthread_create(&thread[0], NULL, use_a_device, NULL), 0);
    ck_assert_int_eq(pthread_create(&thread[1], NULL, use_no_device, NULL), 0);
    for (unsigned i = 0; i < rounds; i++) {
        aclInit(NULL);
        wait_a_moment();
        aclFinalize();
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    aclFinalize();
    /* It was really the end, many times. */
    ck_assert_uint_gt(my_session(), first + rounds / 100);
    OK(aclFinalize());
    npud_expect_empty();
}
END_TEST

/* Where aclFinalize has found nothing in use, and waits for a callback: see below. */
static struct turn called, returns;

static void call_and_wait(aclrtExceptionInfo *info)
{
    (void)info;
    turn_tell(&called);
    turn_await(&returns);
}

static void *set_beside_the_end(void *arg)
{
    while (proc_thread_state(getpid(), *(pid_t *)arg) != 'S')
        wait_a_moment();
    FAILS_SAYING(ACL_ERROR_RT_SOCKET_CLOSE, "aclrtSetDevice:", aclrtSetDevice(0));
    FAILS(ACL_ERROR_RT_SOCKET_CLOSE, aclrtCreateContext(&(aclrtContext){NULL}, 0));
    turn_tell(&returns);
    return NULL;
}

/*
 * Guards against a device that is set when aclFinalize has looked, and not closed yet: its threads
 * outlived the session, and the next aclFinalize waited for them for ever.
 */
START_TEST(a_device_is_set_beside_the_end)
{
    pid_t me = gettid();
    pthread_t thread;
    aclrtStream s;

    turn_init(&called);
    turn_init(&returns);
    session_open();
    OK(aclrtExceptionInfoCallbackRegister(call_and_wait));
    OK(aclrtCreateStream(&s));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_FAILURE, s));
    turn_await(&called);
    OK(aclrtResetDeviceForce(0));
    ck_assert_int_eq(pthread_create(&thread, NULL, set_beside_the_end, &me), 0);
    OK(aclFinalize());
    pthread_join(thread, NULL);
    npud_expect_empty();
    session_open();
    OK(aclrtExceptionInfoCallbackUnregister(call_and_wait));
    session_close();
    npud_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reset races");
    TCase *t = suite_case(suite, "reset", 300, npud_setup, npud_teardown);

    tcase_add_loop_test(t, beside_a_reset, 0, (int)KINDS);
    t = suite_case(suite, "strict", 300, set_up_strict, npud_teardown);
    tcase_add_test(t, copy_beside_a_reset);
    t = suite_case(suite, "finalize", 300, npud_setup, npud_teardown);
    tcase_add_test(t, beside_finalize);
    tcase_add_test(t, a_device_is_set_beside_the_end);
    return run_suite(suite);
}
