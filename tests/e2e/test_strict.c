/*
 * Strict devices: device memory is out of the program's reach, as on hardware, and every call that
 * moves bytes of it does so by a stream that the program does not know of. Also with work that
 * takes time (sim.latency_us).
 * Skipped under TSan: strict devices' addresses and a fault that ends the program are its own.
 * Runs long: 25 s.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "acl/acl_tdt_queue.h"
#include "pattern.h"
#include "tests/common/harness.h"
#include "tests/common/moment.h"
#include "tests/common/need.h"

#define KIB        ((size_t)1 << 10)
#define MIB        ((size_t)1 << 20)
#define SLICE      (4 * MIB) /* client/memory/direct.c */
#define STAGED_MAX (2 * SLICE)
#define LIMIT_MS   300000
#define PARAM      ACL_ERROR_RT_PARAM_INVALID

static const char *const strict[] = {"--set=sim.strict=yes", "--set=sim.latency_us=100", NULL};
static aclrtStream stream, other;

static void set_up_npud(void)
{
    npud_start(strict);
}

static void set_up_test(void)
{
    npud_start(strict);
    streams_open(&stream, &other);
}

static void set_up_restartable(void)
{
    npud_start_restartable(strict);
    streams_open(&stream, &other);
}

static unsigned char *device_new(size_t size)
{
    void *p;

    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

static void inject(const char *rule)
{
    char arguments[128];

    snprintf(arguments, sizeof(arguments), "inject %s", rule);
    npuctl_says(arguments, 0, "");
}

/* --- what faults --- */

static unsigned char *other_device(void)
{
    unsigned char *p;

    OK(aclrtSetDevice(1));
    p = device_new(MIB);
    OK(aclrtSetDevice(0));
    OK(aclrtDeviceEnablePeerAccess(1, 0));
    return p;
}

static unsigned char *freed_memory(void)
{
    unsigned char *p = device_new(MIB);

    OK(aclrtFree(p));
    return p;
}

static aclrtDrvMemHandle physical_new(void)
{
    aclrtPhysicalMemProp prop = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                 .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                 .memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;

    OK(aclrtMallocPhysical(&handle, 2 * MIB, &prop, 0));
    return handle;
}

/* Two mappings, side by side. */
static unsigned char *mapped_memory(void)
{
    void *p;

    OK(aclrtReserveMemAddress(&p, 4 * MIB, 0, NULL, 0));
    for (size_t at = 0; at < 4 * MIB; at += 2 * MIB)
        OK(aclrtMapMem((char *)p + at, 2 * MIB, 0, physical_new(), 0));
    return p;
}

static unsigned char *small_memory(void)
{
    return device_new(MIB);
}

static char *shared_key; /* of memory that another process has */

static unsigned char *imported_memory(void)
{
    void *p;

    OK(aclrtIpcMemImportByKey(&p, shared_key, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    return p;
}

static const struct {
    unsigned char *(*make)(void);
    size_t at;
} faulty[] = {
    {small_memory, 0},          {small_memory, MIB / 2},  {small_memory, MIB - 1},
    {freed_memory, 0},          {freed_memory, 4096},     {other_device, 0},
    {mapped_memory, 0},         {mapped_memory, 3 * MIB}, {imported_memory, 0},
    {imported_memory, MIB - 1},
};
#define FAULTY ((int)(sizeof(faulty) / sizeof(faulty[0])))

static int touch_memory(void *index)
{
    int i = *(int *)index;
    volatile unsigned char *p;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has a handler */
    session_open();
    p = faulty[i / 2].make() + faulty[i / 2].at;
    if (i % 2)
        *p = 1;
    else
        (void)*p;
    return 0;
}

static int export_memory(void *key)
{
    session_open();
    OK(aclrtIpcMemGetExportKey(device_new(MIB), MIB, key, 65,
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    turn_tell(&to_parent);
    turn_await(&to_child);
    session_close();
    return 0;
}

/* _i / 2: where; _i % 2: is it written? */
START_TEST(touching_faults)
{
    bool imports = faulty[_i / 2].make == imported_memory;
    pid_t exporter = 0, pid;
    int status;

    turns_init();
    shared_key = child_share(256);
    if (imports) {
        exporter = child_start(export_memory, shared_key);
        turn_await(&to_parent);
    }
    pid = child_start(touch_memory, &_i);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", status);
    if (imports) {
        turn_tell(&to_child);
        child_expect_ok(exporter);
    }
    npud_expect_empty();
}
END_TEST

/* --- copies --- */

enum side { PAGEABLE, PINNED, REGISTERED, MAPPED, MANAGED, BUFFER, SIDES };

static unsigned char *side_new(enum side side, size_t size)
{
    void *p = NULL;
    acltdtBuf buffer;
    size_t room;

    switch (side) {
    case PINNED:
        OK(aclrtMallocHost(&p, size));
        break;
    case MANAGED:
        OK(aclrtMemAllocManaged(&p, size, ACL_RT_MEM_ATTACH_GLOBAL));
        break;
    case BUFFER:
        OK(acltdtAllocBuf(size, 0, &buffer));
        OK(acltdtGetBufData(buffer, &p, &room));
        break;
    default:
        ck_assert_int_eq(posix_memalign(&p, 4096, (size + 4095) / 4096 * 4096), 0);
        if (side != PAGEABLE)
            OK(aclrtHostRegisterV2(p, size,
                                   side == MAPPED ? ACL_HOST_REG_MAPPED : ACL_HOST_REG_PINNED));
    }
    return p;
}

/* What else there is goes with the session. */
static void side_free(enum side side, unsigned char *p)
{
    if (side == REGISTERED || side == MAPPED)
        OK(aclrtHostUnregister(p));
    if (side <= MAPPED && side != PINNED)
        free(p);
}

static void copy_bytes(void *to, const void *from, size_t size, bool async)
{
    if (!async) {
        OK(aclrtMemcpy(to, size, from, size, ACL_MEMCPY_DEFAULT));
        return;
    }
    OK(aclrtMemcpyAsync(to, size, from, size, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
}

/* There, within the device, and back; not aligned; and not a byte beside it. */
static void copy_around(enum side side, size_t size, bool async)
{
    unsigned char *from = side_new(side, size + 1), *to = side_new(side, size + 2);
    unsigned char *a = device_new(size + 8), *b = device_new(size + 8);

    fill_pattern(from, size + 1, (unsigned)size);
    memset(to, 0x77, size + 2);
    OK(aclrtMemset(b, size + 8, 0x55, size + 8));
    copy_bytes(a + 3, from, size + 1, async);
    copy_bytes(b + 1, a + 3, size, async);
    copy_bytes(to + 1, b + 1, size, async);
    ck_assert_msg(holds_pattern(to + 1, size, (unsigned)size), "side %d, %zu bytes", side, size);
    ck_assert_uint_eq(to[0], 0x77);
    ck_assert_uint_eq(to[size + 1], 0x77);
    copy_bytes(to, b, 1, async);
    copy_bytes(to + 1, b + size + 1, 1, async);
    ck_assert_uint_eq(to[0], 0x55);
    ck_assert_uint_eq(to[1], 0x55);
    side_free(side, from);
    side_free(side, to);
    OK(aclrtFree(a));
    OK(aclrtFree(b));
}

/* _i / 2: side; _i % 2: in a stream. */
START_TEST(copies_arrive)
{
    static const size_t sizes[] = {1,         7,         4095,          4096,      64 * KIB + 1,
                                   SLICE - 1, SLICE,     SLICE + 1,     2 * SLICE, 2 * SLICE + 5,
                                   3 * SLICE, 4 * SLICE, 4 * SLICE + 1, 70 * MIB};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (_i / 2 != BUFFER || sizes[i] <= SLICE)
            copy_around(_i / 2, sizes[i], _i % 2);
}
END_TEST

START_TEST(copies_between_devices)
{
    unsigned char *near = device_new(9 * MIB), *far, *host = malloc(9 * MIB);

    far = other_device();
    OK(aclrtFree(far));
    OK(aclrtSetDevice(1));
    far = device_new(9 * MIB);
    OK(aclrtSetDevice(0));
    fill_pattern(host, 9 * MIB, 1);
    OK(aclrtMemcpy(near, 9 * MIB, host, 9 * MIB, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(far, 9 * MIB, near, 9 * MIB, ACL_MEMCPY_DEVICE_TO_DEVICE));
    memset(host, 0, 9 * MIB);
    OK(aclrtMemcpy(host, 9 * MIB, far, 9 * MIB, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(holds_pattern(host, 9 * MIB, 1));
    free(host);
    OK(aclrtResetDeviceForce(1));
}
END_TEST

/* A range from one mapping into the next. */
START_TEST(copies_cross_borders)
{
    const size_t size = 3 * MIB;
    unsigned char *p = mapped_memory() + MIB / 2 + 1;

    for (int side = PAGEABLE; side < BUFFER; side++) {
        unsigned char *host = side_new(side, size);

        fill_pattern(host, size, (unsigned)side);
        OK(aclrtMemset(p, size, 0, size));
        OK(aclrtMemcpy(p, size, host, size, ACL_MEMCPY_DEFAULT));
        memset(host, 0, size);
        OK(aclrtMemcpy(host, size, p, size, ACL_MEMCPY_DEFAULT));
        ck_assert(holds_pattern(host, size, (unsigned)side));
        side_free(side, host);
    }
    FAILS(PARAM, aclrtMemset(p + 3 * MIB, MIB, 0, MIB));
}
END_TEST

START_TEST(messages_of_device_memory)
{
    static const size_t sizes[] = {1, 4097, 3 * MIB + 1};
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t queue;

    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtDestroyQueueAttr(attr));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i], got;
        unsigned char *a = device_new(size), *b = device_new(size), *host = malloc(size);

        fill_pattern(host, size, 5);
        OK(aclrtMemcpy(a, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(acltdtEnqueueData(queue, a, size, NULL, 0, LIMIT_MS, 0));
        OK(acltdtDequeueData(queue, b, size, &got, NULL, 0, LIMIT_MS));
        ck_assert_uint_eq(got, size);
        memset(host, 0, size);
        OK(aclrtMemcpy(host, size, b, size, ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert(holds_pattern(host, size, 5));
        free(host);
    }
    OK(acltdtDestroyQueue(queue));
}
END_TEST

static void *copy_in_thread(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    const size_t size = 5 * MIB + seed;
    unsigned char *device, *host = malloc(size);

    OK(aclrtSetDevice(0));
    device = device_new(size);
    for (unsigned i = 0; i < 10; i++) {
        fill_pattern(host, size, seed + i);
        OK(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
        memset(host, 0, size);
        OK(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert(holds_pattern(host, size, seed + i));
    }
    OK(aclrtFree(device));
    OK(aclrtResetDevice(0));
    free(host);
    return NULL;
}

START_TEST(threads_copy_at_once)
{
    pthread_t threads[4];

    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, copy_in_thread, (void *)(100 * i)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* --- whatever becomes of the program's own streams --- */

static void expect_copies(void)
{
    unsigned char *device = device_new(KIB), host[KIB];

    fill_pattern(host, KIB, 9);
    OK(aclrtMemcpy(device, KIB, host, KIB, ACL_MEMCPY_HOST_TO_DEVICE));
    memset(host, 0, KIB);
    OK(aclrtMemcpy(host, KIB, device, KIB, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(holds_pattern(host, KIB, 9));
    OK(aclrtMemset(device, KIB, 3, KIB));
    OK(aclrtMemcpy(host, KIB, device, KIB, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert(all_are(host, KIB, 3));
    OK(aclrtFree(device));
}

START_TEST(copies_beside_held_streams)
{
    aclrtContext context;
    aclrtEvent gate = stream_hold(stream);

    expect_copies();
    OK(aclrtStreamAbort(stream));
    expect_copies();
    OK(aclrtDeviceTaskAbort(0, 0));
    expect_copies();
    OK(aclrtDestroyEvent(gate));
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
    OK(aclnpudLaunchDelay(0, ACL_ERROR_RT_AICORE_EXCEPTION, NULL));
    FAILS(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStreamWithTimeout(NULL, LIMIT_MS));
    expect_copies();
    aclrtDestroyContext(context);
    OK(aclrtSetDevice(0));
    expect_copies();
}
END_TEST

START_TEST(copies_on_a_lost_device)
{
    unsigned char *device = device_new(9 * MIB), *host = calloc(1, 9 * MIB);

    expect_copies();
    inject("lose-device --device 0");
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT, aclrtMemcpy(host, 8, device, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT,
          aclrtMemcpy(device, 9 * MIB, host, 9 * MIB, ACL_MEMCPY_HOST_TO_DEVICE));
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT, aclrtMemset(device, 8, 1, 8));
    inject("clear");
    aclrtSynchronizeDevice(); /* what its streams have not reported yet */
    expect_copies();
    free(host);
}
END_TEST

/*
 * A thread of the library makes the copy by a stream of its own: the program's stream is told. _i:
 * to the device; from it.
 */
START_TEST(failed_copies_of_registered_memory)
{
    char *host = aligned_alloc(4096, 9 * MIB), *device = (char *)device_new(9 * MIB);
    void *dst = _i ? host : device, *src = _i ? device : host;
    aclrtMemcpyKind kind = _i ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_DEVICE;
    aclrtEvent gate;

    OK(aclrtHostRegisterV2(host, 9 * MIB, ACL_HOST_REG_PINNED));
    inject("fail --kind copy --nth 3 --count 1 --code 507052");
    OK(aclrtMemcpyAsync(dst, 9 * MIB, src, 9 * MIB, kind, stream));
    FAILS(507052, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    OK(aclrtSynchronizeStream(stream));
    inject("clear");
    OK(aclrtMemcpyAsync(dst, 9 * MIB, src, 9 * MIB, kind, stream));
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    /* The stream of a device that is there, and memory of one that is lost. */
    OK(aclrtSetDevice(1));
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtCreateStream(&other));
    gate = stream_hold(other);
    OK(aclrtMemcpyAsync(dst, 9 * MIB, src, 9 * MIB, kind, other));
    inject("lose-device --device 0");
    stream_let_go(gate);
    FAILS(ACL_ERROR_RT_LOST_HEARTBEAT, aclrtSynchronizeStreamWithTimeout(other, LIMIT_MS));
    OK(aclrtSynchronizeStream(other));
    inject("clear");
    OK(aclrtHostUnregister(host));
    free(host);
    OK(aclrtResetDeviceForce(1));
    OK(aclrtSetDevice(0));
    aclrtSynchronizeDevice(); /* what its streams have not reported yet */
}
END_TEST

static _Atomic bool over;

static void *copy_until_over(void *arg)
{
    const size_t size = 9 * MIB;
    unsigned char *device, *host = malloc(size);

    OK(aclrtSetDevice(0));
    device = device_new(size);
    for (unsigned i = 0; !atomic_load(&over); i++) {
        fill_pattern(host, size, i);
        OK(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
        memset(host, 0, size);
        OK(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert(holds_pattern(host, size, i));
    }
    OK(aclrtFree(device));
    OK(aclrtResetDevice(0));
    free(host);
    return arg;
}

START_TEST(npud_comes_back_in_the_middle)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, copy_until_over, NULL), 0);
    for (int i = 0; i < 5; i++)
        npud_kill_server();
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    expect_copies();
}
END_TEST

/* --- work that is under way for long --- */

static const char *const slow[] = {"--set=sim.strict=yes", "--set=sim.latency_us=200000", NULL};

static void set_up_slow(void)
{
    npud_start_restartable(slow);
    streams_open(&stream, &other);
}

static void abort_stream(void)
{
    OK(aclrtStreamAbort(stream));
}

static void abort_device(void)
{
    OK(aclrtDeviceTaskAbort(0, 0));
}

static void destroy_stream(void)
{
    OK(aclrtDestroyStreamForce(stream));
}

static void (*const ends[])(void) = {abort_stream, abort_device, destroy_stream};

/* Bytes of work that did not end are not there. */
START_TEST(ended_while_pending)
{
    unsigned char *device = device_new(KIB), byte = 0;

    OK(aclrtMemset(device, KIB, 1, KIB));
    OK(aclrtMemsetAsync(device, KIB, 2, KIB, stream));
    ends[_i]();
    OK(aclrtMemcpy(&byte, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(byte, 1);
    OK(aclrtSynchronizeDevice());
    OK(aclrtMemcpy(&byte, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(byte, 1);
}
END_TEST

/* The copy has begun, and is done, the set behind it is not. _i: in a later npud. */
START_TEST(freed_while_pending)
{
    unsigned char *device = device_new(KIB), *host;
    aclrtEvent before, gate;

    OK(aclrtMallocHost((void **)(void *)&host, KIB));
    memset(host, 1, KIB);
    OK(aclrtCreateEventWithFlag(&before, ACL_EVENT_SYNC));
    gate = stream_hold(stream);
    OK(aclrtRecordEvent(before, stream));
    OK(aclrtMemcpyAsync(host, KIB, device, KIB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtMemsetAsync(device, KIB, 2, KIB, stream));
    stream_let_go(gate);
    /* An engine that finds both tasks tells of the first one when it has begun with the second. */
    OK(aclrtSynchronizeEvent(before));
    OK(aclrtFree(device));
    if (_i)
        npud_kill_server();
    FAILS(ACL_ERROR_RT_SYS_DMA, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    for (unsigned i = 0; i < KIB; i++)
        ck_assert_uint_eq(host[i], 0);
    OK(aclrtFreeHost(host));
    while (npud_ledger().memory != 0)
        wait_a_moment();
}
END_TEST

START_TEST(npud_comes_back_while_pending)
{
    unsigned char *device = device_new(KIB), byte = 0;

    OK(aclrtMemsetAsync(device, KIB, 2, KIB, stream));
    OK(aclrtMemsetAsync(device, KIB, 3, KIB, stream));
    npud_kill_server();
    OK(aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    OK(aclrtMemcpy(&byte, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(byte, 3);
}
END_TEST

/* --- what the program must not notice --- */

static unsigned told;

static void count_streams(aclrtStream s, aclrtStreamState state, void *args)
{
    (void)s;
    (void)state;
    (void)args;
    told++;
}

static void count_exceptions(aclrtExceptionInfo *info)
{
    (void)info;
    told++;
}

START_TEST(the_hidden_stream_is_not_counted)
{
    uint32_t before, now;

    OK(aclrtRegStreamStateCallback("count", count_streams, NULL));
    OK(aclrtGetStreamAvailableNum(&before));
    expect_copies();
    OK(aclrtGetStreamAvailableNum(&now));
    ck_assert_uint_eq(now, before);
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    told = 0;
    OK(aclrtResetDevice(0));
    ck_assert_uint_le(told, 1); /* the default stream */
    ck_assert_uint_eq(npud_ledger().streams, 0);
    ck_assert_uint_eq(npud_ledger().memory, 0);
    OK(aclrtSetDevice(0));
}
END_TEST

/* In the call that made the copy, once, and nowhere else. */
START_TEST(failures_are_of_the_call)
{
    unsigned char *device = device_new(9 * MIB), *host = calloc(1, 9 * MIB);
    static const char *const rules[] = {
        "fail --kind copy --nth 1 --count 1 --code 507052",
        "fail --kind copy --nth 3 --count 1 --code 507052",
    };

    OK(aclrtSetExceptionInfoCallback(count_exceptions));
    for (int i = 0; i < 2; i++) {
        inject(rules[i]);
        FAILS(507052, aclrtMemcpy(device, 9 * MIB, host, 9 * MIB, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemcpy(device, 9 * MIB, host, 9 * MIB, ACL_MEMCPY_HOST_TO_DEVICE));
        inject("clear");
        inject(rules[i]);
        FAILS(507052, aclrtMemcpy(host, 9 * MIB, device, 9 * MIB, ACL_MEMCPY_DEVICE_TO_HOST));
        OK(aclrtMemcpy(host, 9 * MIB, device, 9 * MIB, ACL_MEMCPY_DEVICE_TO_HOST));
        inject("clear");
        OK(aclrtSynchronizeStream(stream));
        OK(aclrtSynchronizeStream(NULL));
        OK(aclrtSynchronizeDevice());
    }
    inject("fail --kind set --nth 1 --count 1 --code 507052");
    FAILS(507052, aclrtMemset(device, 8, 0, 8));
    OK(aclrtSynchronizeDevice());
    expect_copies();
    ck_assert_uint_eq(told, 0);
    free(host);
}
END_TEST

static _Atomic int in_callback, callback_returns;

static void stand_in_callback(aclrtExceptionInfo *info)
{
    (void)info;
    told++;
    in_callback = 1;
    while (!callback_returns)
        wait_a_moment();
}

/* It is taken out after the stream has gone: a callback stood in the way. */
START_TEST(failures_are_of_the_call_after_a_reset)
{
    unsigned char *device = device_new(MIB), *host = calloc(1, MIB);

    OK(aclrtSetExceptionInfoCallback(stand_in_callback));
    inject("fail --kind set --nth 1 --count 1 --code 507052");
    OK(aclrtMemsetAsync(device, 8, 0, 8, stream));
    while (!in_callback)
        wait_a_moment();
    inject("clear");
    inject("fail --kind copy --nth 1 --count 1 --code 507052");
    FAILS(507052, aclrtMemcpy(device, MIB, host, MIB, ACL_MEMCPY_HOST_TO_DEVICE));
    inject("clear");
    OK(aclrtResetDeviceForce(0));
    callback_returns = 1;
    OK(aclFinalize()); /* after all callbacks */
    ck_assert_uint_eq(told, 1);
    free(host);
}
END_TEST

/* A large copy goes through a few buffers, which are used again. */
START_TEST(staging_is_bounded)
{
    const size_t size = 70 * MIB;
    unsigned char *device = device_new(size), *host = calloc(1, size);
    uint64_t before = npud_ledger().memory;

    for (int i = 0; i < 5; i++) {
        OK(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST));
    }
    ck_assert_uint_le(npud_ledger().memory - before, STAGED_MAX);
    free(host);
    OK(aclrtFree(device));
}
END_TEST

/* --- addresses --- */

#define GIB ((size_t)1 << 30)

/* Each size is there when all is free. */
static void expect_each_size(void)
{
    for (size_t size = 7 * GIB; size >= 4 * KIB; size /= 3)
        OK(aclrtFree(device_new(size)));
}

/* _i: and after the end of npud, which forgets what it had given back. */
START_TEST(addresses_do_not_run_out)
{
    for (unsigned i = 0; i < 150; i++) {
        OK(aclrtFree(device_new(5 * GIB)));
        if (_i && i % 50 == 49)
            npud_kill_server();
    }
    expect_each_size();
}
END_TEST

static struct {
    char key[65];
} * exported;

/* Address after address of one memory, which costs nothing else, and small ones between them. */
static int use_up_addresses(void *arg)
{
    unsigned n = 0;
    void *p;

    (void)arg;
    session_open();
    while (n < 200 && aclrtIpcMemImportByKey(&p, exported->key, 0) == ACL_SUCCESS) {
        n++;
        device_new(KIB);
    }
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "no addresses of the device left",
                 aclrtIpcMemImportByKey(&p, exported->key, 0));
    ck_assert_uint_ge(n, 80); /* of a window of 512 GiB */
    turn_tell(&to_parent);
    pause();
    return 0;
}

/* Also if that session fills its window. */
START_TEST(sessions_have_addresses_of_their_own)
{
    unsigned char *memory = device_new(5 * GIB);
    pid_t child;

    turns_init();
    exported = child_share(sizeof(*exported));
    OK(aclrtIpcMemGetExportKey(memory, 5 * GIB, exported->key, sizeof(exported->key),
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    child = child_start(use_up_addresses, NULL);
    turn_await(&to_parent);
    for (size_t size = 2 * GIB; size >= 4 * KIB; size /= 3)
        OK(aclrtFree(device_new(size)));
    child_kill(child);
    npud_await_sessions(1);
    OK(aclrtFree(memory));
    expect_each_size();
}
END_TEST

/* What is there after the end of npud keeps its addresses, and nothing else gets one of them. */
START_TEST(addresses_outlive_npud)
{
    enum { N = 40 };
    unsigned char *piece[N], byte;

    for (unsigned i = 0; i < N; i++) {
        piece[i] = device_new((i + 1) * 64 * KIB);
        OK(aclrtMemset(piece[i], KIB, (int)i, KIB));
    }
    for (unsigned i = 0; i < N; i += 2)
        OK(aclrtFree(piece[i]));
    npud_kill_server();
    for (unsigned i = 0; i < N; i += 2) {
        piece[i] = device_new((N - i) * 64 * KIB);
        OK(aclrtMemset(piece[i], (N - i) * 64 * KIB, (int)i, (N - i) * 64 * KIB));
    }
    for (unsigned i = 0; i < N; i++) {
        OK(aclrtMemcpy(&byte, 1, piece[i], 1, ACL_MEMCPY_DEVICE_TO_HOST));
        ck_assert_uint_eq(byte, i);
        OK(aclrtFree(piece[i]));
    }
    expect_each_size();
}
END_TEST

static void add_tests(Suite *s)
{
    TCase *t = suite_case(s, "faults", 60, set_up_npud, npud_teardown);

    suite_add_cases(t, touching_faults, 2 * FAULTY);
    t = suite_case(s, "copies", 120, set_up_test, npud_teardown);
    suite_add_cases(t, copies_arrive, 2 * SIDES);
    tcase_add_test(t, copies_between_devices);
    tcase_add_test(t, copies_cross_borders);
    tcase_add_test(t, messages_of_device_memory);
    tcase_add_test(t, threads_copy_at_once);
    t = suite_case(s, "beside", 60, set_up_test, npud_teardown);
    tcase_add_test(t, copies_beside_held_streams);
    tcase_add_test(t, copies_on_a_lost_device);
    tcase_add_loop_test(t, failed_copies_of_registered_memory, 0, 2);
    t = suite_case(s, "hidden", 60, set_up_test, npud_teardown);
    tcase_add_test(t, the_hidden_stream_is_not_counted);
    tcase_add_test(t, failures_are_of_the_call);
    tcase_add_test(t, failures_are_of_the_call_after_a_reset);
    tcase_add_test(t, staging_is_bounded);
    t = suite_case(s, "pending", 60, set_up_slow, npud_teardown);
    tcase_add_loop_test(t, ended_while_pending, 0, sizeof(ends) / sizeof(ends[0]));
    tcase_add_loop_test(t, freed_while_pending, 0, 2);
    tcase_add_test(t, npud_comes_back_while_pending);
    t = suite_case(s, "restart", 60, set_up_restartable, npud_teardown);
    tcase_add_test(t, npud_comes_back_in_the_middle);
    t = suite_case(s, "addresses", 60, set_up_restartable, npud_teardown);
    tcase_add_loop_test(t, addresses_do_not_run_out, 0, 2);
    tcase_add_test(t, sessions_have_addresses_of_their_own);
    tcase_add_test(t, addresses_outlive_npud);
}

int main(void)
{
    Suite *s = suite_create("strict");

    add_tests(s);
    return run_suite(s);
}
