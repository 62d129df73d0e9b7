/*
 * A server that lies, and a program that uses everything: whatever one answer of npud is turned
 * into (another body, other numbers, fewer or other descriptors, memory that is short or shrinks),
 * the program gets an error or a right result, within a time limit, and does not die of it.
 *
 * Each answer of a run is damaged in each way, one per run. make check tries the grossest lies, and
 * one in STRIDE of the others; NPUD_TEST_LONG, or NPUD_LIAR_STRIDE=1, all. NPUD_LIAR_ANSWER and
 * NPUD_LIAR_LIE repeat one run. NPUD_LIAR_SECONDS: of runs with random bits, from NPUD_LIAR_SEED.
 *
 * Beside that: an npud that comes back after it was killed tells no lie when it answers once more,
 * or when it has lost a connection that was not answered yet. The program notices nothing.
 *
 * Skipped under TSan: the program that is lied to ends in the middle of its calls.
 * Runs long: 15 s.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_npud.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "liar.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/wire/packet.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define STRIDE  41
#define LIMIT_S 300 /* of a run: against hanging only */
#define WORDS   4096

static struct shared {
    struct liar liar;
    uint32_t queue;  /* of an honest process, with messages */
    uint32_t failed; /* calls of the program */
    bool damaged;    /* it was told so */
    char error[256]; /* the first one */
    int32_t wait_ms;
    unsigned fds; /* that the program has open at its end */
} * shared;

static struct turn to_fill, filled;
static pid_t server;

/* --- the program --- */

static bool
    stuck; /* what it waits for does not come: it leaves as a program does that is in haste */

static aclError note(aclError error, const char *call)
{
    const char *text;

    if (error == 0)
        return 0;
    text = aclGetRecentErrMsg();
    if (shared->failed++ == 0)
        snprintf(shared->error, sizeof(shared->error), "%s: %d: %s", call, error,
                 text ? text : "(no sentence)");
    if (text && strstr(text, "is damaged"))
        shared->damaged = true;
    stuck |= error == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || error == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
    return error;
}

#define TRY(call) note((call), #call)

static void use_memory(aclrtStream stream)
{
    static uint64_t words[WORDS];
    size_t free_bytes, total;
    void *device = NULL, *host = NULL;

    TRY(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    if (TRY(aclrtMalloc(&device, sizeof(words), ACL_MEM_MALLOC_NORMAL_ONLY)) != 0)
        return;
    if (TRY(aclrtMallocHost(&host, sizeof(words))) == 0) {
        memset(host, 1, sizeof(words));
        TRY(aclrtMemcpy(device, sizeof(words), host, sizeof(words), ACL_MEMCPY_HOST_TO_DEVICE));
        TRY(aclrtMemcpyAsync(host, sizeof(words), device, sizeof(words), ACL_MEMCPY_DEVICE_TO_HOST,
                             stream));
        TRY(aclrtSynchronizeStreamWithTimeout(stream, shared->wait_ms));
        TRY(aclrtMemset(device, sizeof(words), 0, sizeof(words)));
        TRY(aclrtValueWait(device, 1, 1, stream));
        for (int i = 0; i < 100; i++)
            TRY(aclrtMemset(device, 8, 0, 8));
        words[0] = 1;
        TRY(aclrtMemcpy(device, 8, words, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        TRY(aclrtSynchronizeStreamWithTimeout(stream, shared->wait_ms));
    }
    if (stuck)
        return;
    TRY(aclrtFree(device));
    if (host)
        TRY(aclrtFreeHost(host));
}

static void share_memory(void)
{
    int32_t pid = getpid();
    char key[65] = "";
    void *device, *same;

    if (TRY(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_NORMAL_ONLY)) != 0)
        return;
    TRY(aclrtIpcMemGetExportKey(device, 4096, key, sizeof(key), 0));
    aclrtIpcMemSetImportPid(key, &pid, 1);
    if (TRY(aclrtIpcMemImportByKey(&same, key, 0)) == 0) {
        TRY(aclrtMemset(same, 64, 1, 64));
        TRY(aclrtIpcMemClose(key));
    }
    TRY(aclrtIpcMemClose(key));
    TRY(aclrtFree(device));
}

static void map_memory(void)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                       .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    const size_t size = (size_t)2 << 20;
    aclrtDrvMemHandle handle, same;
    uint64_t number = 0;
    void *at;

    if (TRY(aclrtMallocPhysical(&handle, size, &prop, 0)) != 0)
        return;
    if (TRY(aclrtReserveMemAddress(&at, size, 0, NULL, 0)) == 0) {
        if (TRY(aclrtMapMem(at, size, 0, handle, 0)) == 0) {
            TRY(aclrtMemset(at, 64, 1, 64));
            TRY(aclrtUnmapMem(at));
        }
        TRY(aclrtReleaseMemAddress(at));
    }
    TRY(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &number));
    if (TRY(aclrtMemImportFromShareableHandle(number, 0, &same)) == 0)
        TRY(aclrtFreePhysical(same));
    TRY(aclrtFreePhysical(handle));
}

static void use_event(aclrtStream stream)
{
    aclrtEvent event;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (TRY(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE)) == 0) {
        TRY(aclnpudLaunchDelay(100, 0, stream));
        TRY(aclrtRecordEvent(event, stream));
        TRY(aclnpudEventNotifyFd(event, fd));
        TRY(aclrtStreamWaitEvent(stream, event));
        TRY(aclrtSynchronizeEventWithTimeout(event, shared->wait_ms));
        TRY(aclrtDestroyEvent(event));
    }
    close(fd);
}

static void use_ipc_event(aclrtStream stream, aclrtStream other)
{
    aclrtIpcEventHandle handle = {0};
    aclnpudIpcEventInfo info;
    aclrtEvent event, same;
    void *word;

    if (TRY(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC)) != 0)
        return;
    TRY(aclrtIpcGetEventHandle(event, &handle));
    TRY(aclnpudIpcEventGetInfo(handle, &info));
    TRY(aclnpudLaunchDelay(100, 0, stream));
    TRY(aclrtRecordEvent(event, stream));
    TRY(aclrtSynchronizeEventWithTimeout(event, shared->wait_ms));
    if (TRY(aclrtIpcOpenEventHandle(handle, &same)) == 0)
        TRY(aclrtDestroyEvent(same));
    /* A record that is never executed. */
    if (!stuck && TRY(aclrtMalloc(&word, 8, ACL_MEM_MALLOC_NORMAL_ONLY)) == 0) {
        TRY(aclrtMemset(word, 8, 0, 8));
        TRY(aclrtValueWait(word, 1, 1, other));
        TRY(aclrtRecordEvent(event, other));
        TRY(aclrtStreamStop(other));
        TRY(aclrtStreamAbort(other));
        aclrtSynchronizeEventWithTimeout(event, shared->wait_ms);
        TRY(aclrtFree(word));
    }
    TRY(aclrtDestroyEvent(event));
}

static void use_notify(aclrtStream stream)
{
    int32_t pid = getpid();
    aclrtNotify notify, same;
    char key[65] = "";

    if (TRY(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT)) != 0)
        return;
    TRY(aclrtRecordNotify(notify, stream));
    TRY(aclrtWaitAndResetNotify(notify, stream, 1));
    TRY(aclrtSynchronizeStreamWithTimeout(stream, shared->wait_ms));
    TRY(aclrtNotifyBatchReset(&notify, 1));
    TRY(aclrtNotifyGetExportKey(notify, key, sizeof(key),
                                ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    aclrtNotifySetImportPid(notify, &pid, 1);
    if (TRY(aclrtNotifyImportByKey(&same, key, 0)) == 0)
        TRY(aclrtDestroyNotify(same));
    TRY(aclrtDestroyNotify(notify));
}

static void use_streams(void)
{
    aclrtStreamAttrValue value = {.streamPriority = 3};
    aclrtStream one, other;
    uint32_t left;

    TRY(aclrtGetStreamAvailableNum(&left));
    if (TRY(aclrtCreateStream(&one)) != 0)
        return;
    TRY(aclrtSetStreamAttribute(one, ACL_STREAM_ATTR_PRIORITY, &value));
    TRY(aclnpudLaunchDelay(0, 0, one));
    TRY(aclrtSynchronizeStreamWithTimeout(one, shared->wait_ms));
    if (!stuck)
        share_memory();
    map_memory();
    use_memory(one);
    if (!stuck)
        use_event(one);
    if (!stuck && TRY(aclrtCreateStream(&other)) == 0) {
        use_ipc_event(one, other);
        TRY(aclrtDestroyStreamForce(other));
    }
    if (!stuck)
        use_notify(one);
    TRY(aclrtSynchronizeStreamWithTimeout(one, shared->wait_ms));
    TRY(aclrtSetStreamFailureMode(one, ACL_STOP_ON_FAILURE));
    TRY(aclrtDestroyStreamForce(one));
}

static void change_route(aclError (*change)(acltdtQueueRouteList *), uint32_t from, uint32_t to)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route = acltdtCreateQueueRoute(from, to);

    acltdtAddQueueRoute(list, route);
    TRY(change(list));
    acltdtDestroyQueueRoute(route);
    acltdtDestroyQueueRouteList(list);
}

static void query_routes(uint32_t from)
{
    acltdtQueueRouteQueryInfo *info = acltdtCreateQueueRouteQueryInfo();
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    uint32_t mode = ACL_TDT_QUEUE_ROUTE_QUERY_SRC;

    acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM, 4, &mode);
    acltdtSetQueueRouteQueryInfo(info, ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32, 4, &from);
    TRY(acltdtQueryQueueRoutes(info, list));
    acltdtDestroyQueueRouteQueryInfo(info);
    acltdtDestroyQueueRouteList(list);
}

static void read_buffer(acltdtBuf buf)
{
    size_t size = 0;
    void *data;

    if (TRY(acltdtGetBufData(buf, &data, &size)) == 0)
        memset(data, 3, size);
    TRY(acltdtFreeBuf(buf));
}

static void send_buffer(uint32_t from, uint32_t to, size_t size)
{
    acltdtBuf buf;

    if (TRY(acltdtAllocBuf(size, 0, &buf)) != 0)
        return;
    if (TRY(acltdtEnqueue(from, buf, shared->wait_ms)) != 0)
        TRY(acltdtFreeBuf(buf));
    else if (TRY(acltdtDequeue(to, &buf, shared->wait_ms)) == 0)
        read_buffer(buf);
}

static void use_queues(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t from, to, rights, depth = 8;
    acltdtBuf buf;

    acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth);
    if (TRY(acltdtCreateQueue(attr, &from)) == 0 && TRY(acltdtCreateQueue(attr, &to)) == 0) {
        TRY(acltdtGrantQueue(from, getpid(), ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
        for (size_t size = 64; size <= 8 << 20; size <<= 5)
            send_buffer(from, from, size);
        change_route(acltdtBindQueueRoutes, from, to);
        query_routes(from);
        send_buffer(from, to, 64);
        change_route(acltdtUnbindQueueRoutes, from, to);
        TRY(acltdtDestroyQueue(from));
        TRY(acltdtDestroyQueue(to));
    }
    acltdtDestroyQueueAttr(attr);
    if (TRY(acltdtAttachQueue(shared->queue, shared->wait_ms, &rights)) == 0 &&
        TRY(acltdtDequeue(shared->queue, &buf, shared->wait_ms)) == 0)
        read_buffer(buf);
}

static void use_channel(void)
{
    acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(0, "channel", 4);
    acltdtDataset *sent = acltdtCreateDataset(), *got = acltdtCreateDataset();
    static char data[5000];
    acltdtDataItem *item =
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_INT8, data, sizeof(data));

    acltdtAddDataItem(sent, item);
    if (TRY(channel ? 0 : ACL_ERROR_FAILURE) == 0) {
        if (TRY(acltdtSendTensor(channel, sent, shared->wait_ms)) == 0)
            TRY(acltdtReceiveTensor(channel, got, shared->wait_ms));
        TRY(acltdtDestroyChannel(channel));
    }
    acltdtDestroyDataset(sent);
    acltdtDestroyDataset(got);
    acltdtDestroyDataItem(item);
}

static unsigned count_fds(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* In a process of its own. */
static void use_everything(void)
{
    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT_S);
    if (TRY(aclInit(NULL)) == 0 && TRY(aclrtSetDevice(0)) == 0) {
        use_streams();
        if (!stuck)
            use_queues();
        if (!stuck)
            use_channel();
        if (stuck)
            _exit(0);
        TRY(aclrtResetDevice(0));
    }
    TRY(aclFinalize());
    shared->fds = count_fds();
    _exit(0);
}

/* --- the others --- */

static void listen_at(const char *path, int *fd)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    ck_assert_uint_lt(strlen(path), sizeof(addr.sun_path));
    strcpy(addr.sun_path, path);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(*fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    ck_assert_int_eq(listen(*fd, 8), 0);
}

static int lie_to_clients(void *arg)
{
    char path[128];

    alarm(0); /* it serves all runs */
    snprintf(path, sizeof(path), "%s/npud.sock", npud.dir);
    liar_serve(*(int *)arg, path, &shared->liar);
    return 1;
}

/* Before each run it fills its queue for the program, which is the server as npud sees it. */
static int fill_queue(void *arg)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    acltdtBuf buf;

    (void)arg;
    alarm(0); /* as above */
    OK(aclInit(NULL));
    OK(acltdtCreateQueue(attr, &shared->queue));
    for (;;) {
        turn_await(&to_fill);
        OK(acltdtGrantQueue(shared->queue, server, ACL_TDT_QUEUE_PERMISSION_DEQUEUE, 0));
        OK(acltdtAllocBuf(100, 0, &buf));
        if (acltdtEnqueue(shared->queue, buf, 0) != 0)
            OK(acltdtFreeBuf(buf));
        turn_tell(&filled);
    }
}

static unsigned wish(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* --- runs --- */

static const char *request_name(uint32_t kind)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(&npud__request__descriptor, kind);

    return f ? f->name : "?";
}

/* One in which no call of the program returns what became of the request. */
static bool is_unheard(uint32_t kind)
{
    return kind == NPUD__REQUEST__BODY_TRIM_SEGMENT || kind == NPUD__REQUEST__BODY_RENEW_ARENA ||
           kind == NPUD__REQUEST__BODY_QUEUE_BELL || kind == NPUD__REQUEST__BODY_LEAVE_SESSION ||
           kind == NPUD__REQUEST__BODY_IDLE_SESSION || kind == NPUD__REQUEST__BODY_GET_TRACE_RING;
}

/* False: that answer cannot be damaged in this way. */
static bool run_program(uint32_t answer, uint32_t lie, uint64_t seed)
{
    struct liar *l = &shared->liar;
    int status;
    pid_t pid;

    l->answer = answer;
    l->lie = lie;
    l->seed = seed;
    l->told = false;
    memset(l->seen, 0, sizeof(l->seen));
    shared->failed = 0;
    shared->damaged = false;
    shared->wait_ms = lie == LIE_NONE ? 20000 : 300;
    turn_tell(&to_fill);
    turn_await(&filled);
    pid = fork();
    if (pid == 0)
        use_everything();
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0,
                  "NPUD_LIAR_ANSWER=%u NPUD_LIAR_LIE=%u NPUD_LIAR_SEED=%llu (%s, %s): the program "
                  "%s %d",
                  answer, lie, (unsigned long long)seed, request_name(answer / LIAR_TIMES), l->what,
                  WIFSIGNALED(status) ? "was killed by signal" : "exited with",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (l->told && lie > LIE_NONE && lie <= LIE_SEEN_LAST && !is_unheard(answer / LIAR_TIMES))
        ck_assert_msg(shared->damaged, "answer %u to %s, %s: the program was not told; %s", answer,
                      request_name(answer / LIAR_TIMES), l->what, shared->error);
    return l->told;
}

static char *socket_path;

static pid_t begin(void)
{
    static int listener;
    char path[128];
    pid_t filler;

    shared = child_share(sizeof(*shared));
    turn_init(&to_fill);
    turn_init(&filled);
    npud_setup();
    npuctl_says("trace start", 0, ""); /* so that programs ask for a ring */
    snprintf(path, sizeof(path), "%s/liar.sock", npud.dir);
    listen_at(path, &listener);
    server = child_start(lie_to_clients, &listener);
    close(listener);
    filler = child_start(fill_queue, NULL);
    socket_path = getenv("NPUD_SOCKET") ? strdup(getenv("NPUD_SOCKET")) : NULL;
    setenv("NPUD_SOCKET", path, 1);
    return filler;
}

static void end(pid_t filler)
{
    char path[128];

    child_kill(filler);
    child_kill(server);
    setenv("NPUD_SOCKET", socket_path, 1);
    snprintf(path, sizeof(path), "%s/liar.sock", npud.dir);
    unlink(path);
    npud_expect_empty();
    npud_teardown();
}

/*
 * Requests that the program cannot be made to send at will. No process gets the pages of strict
 * devices, and simulated ones have no kernels of their own.
 */
static bool is_left_out(uint32_t kind)
{
    return kind == NPUD__REQUEST__BODY_LOAD_BINARY ||
           kind == NPUD__REQUEST__BODY_LOOK_UP_FUNCTION ||
           kind == NPUD__REQUEST__BODY_UNLOAD_BINARY ||
           (kind == NPUD__REQUEST__BODY_FETCH_MEMORY && npud_is_strict()) || is_unheard(kind) ||
           kind == NPUD__REQUEST__BODY_MEMORY_WRITTEN || kind == NPUD__REQUEST__BODY_OWN_WAITS ||
           kind == NPUD__REQUEST__BODY_EXPLAIN_RECORD;
}

START_TEST(without_lies_all_requests_are_right)
{
    pid_t filler = begin();
    const ProtobufCMessageDescriptor *requests = &npud__request__descriptor;

    run_program(0, LIE_NONE, 0);
    ck_assert_msg(shared->failed == 0, "%u calls failed, first %s", shared->failed, shared->error);
    for (unsigned i = 0; i < requests->n_fields; i++) {
        uint32_t kind = requests->fields[i].id;

        if (requests->fields[i].type == PROTOBUF_C_TYPE_MESSAGE && !is_left_out(kind))
            ck_assert_msg(shared->liar.seen[kind], "no %s was sent", requests->fields[i].name);
    }
    end(filler);
}
END_TEST

START_TEST(what_a_newer_npud_adds_is_ignored)
{
    pid_t filler = begin();

    shared->liar.newer = true;
    run_program(0, LIE_NONE, 0);
    ck_assert_msg(shared->failed == 0, "%u calls failed, first %s", shared->failed, shared->error);
    end(filler);
}
END_TEST

START_TEST(a_lie_ends_in_an_error)
{
    unsigned stride = wish("NPUD_LIAR_STRIDE", choose_effort(STRIDE, 1)), lies = 0, told = 0;
    unsigned answer = wish("NPUD_LIAR_ANSWER", UINT32_MAX), lie = wish("NPUD_LIAR_LIE", 0);
    uint64_t seed = wish("NPUD_LIAR_SEED", 1);
    pid_t filler = begin();

    if (answer != UINT32_MAX) {
        run_program(answer, lie, seed);
        printf("%s, %s: %u calls failed: %s\n", request_name(answer / LIAR_TIMES),
               shared->liar.what, shared->failed, shared->error);
        end(filler);
        return;
    }
    run_program(0, LIE_NONE, 0);
    for (answer = 0; answer < LIAR_ANSWERS; answer++)
        for (lie = LIE_NONE + 1; lie < LIE_FIELDS + LIAR_CHANGES; lie++)
            if (liar_can_tell(&shared->liar, answer, lie) &&
                (lies++ % stride == seed % stride ||
                 (answer % LIAR_TIMES == 0 && liar_is_gross(lie))))
                told += run_program(answer, lie, seed);
    printf("%u of %u lies told\n", told, lies);
    end(filler);
}
END_TEST

START_TEST(random_bits_end_in_an_error)
{
    uint64_t until = now_ns() + wish("NPUD_LIAR_SECONDS", choose_effort(2, 60)) * 1000000000ull;
    uint64_t seed = wish("NPUD_LIAR_SEED", 1), runs = 0;
    pid_t filler = begin();
    uint32_t answer;

    run_program(0, LIE_NONE, 0);
    for (; now_ns() < until; seed++, runs++) {
        uint64_t draw = seed;

        do
            answer = draw_below(&draw, LIAR_ANSWERS);
        while (!liar_can_tell(&shared->liar, answer, LIE_BITS));
        run_program(answer, LIE_BITS, seed);
    }
    printf("%llu runs with random bits\n", (unsigned long long)runs);
    end(filler);
}
END_TEST

/* --- an npud that comes back --- */

#define REPEATED_MAX    64 /* client/runtime/session_request.c */
#define CONNECTIONS_MAX 32 /* client/runtime/connection.c */

START_TEST(repeated_answers_are_dropped)
{
    pid_t filler = begin();
    unsigned fds;

    run_program(0, LIE_NONE, 0);
    fds = shared->fds;
    for (uint32_t repeat = 1; repeat <= REPEATED_MAX; repeat *= 8) {
        shared->liar.repeat = repeat;
        run_program(0, LIE_NONE, 0);
        ck_assert_msg(shared->failed == 0, "%u times: %u calls failed, first %s", repeat,
                      shared->failed, shared->error);
        ck_assert_uint_eq(shared->fds, fds);
    }
    end(filler);
}
END_TEST

START_TEST(answers_that_repeat_without_end_are_damage)
{
    pid_t filler = begin();

    shared->liar.repeat = REPEATED_MAX + 1;
    run_program(0, LIE_NONE, 0);
    ck_assert(shared->damaged);
    ck_assert_msg(strstr(shared->error, "again and again"), "%s", shared->error);
    shared->liar.repeat = 0;
    end(filler);
}
END_TEST

/* The program: it has no descriptor left when an answer with some comes again. */
static void use_no_descriptors(void)
{
    struct rlimit none;
    aclrtEvent event;
    size_t left, total;

    signal(SIGALRM, SIG_DFL);
    alarm(LIMIT_S);
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    getrlimit(RLIMIT_NOFILE, &none);
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    TRY(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    TRY(aclrtDestroyEvent(event));
    TRY(aclFinalize());
    _exit(0);
}

START_TEST(a_repeated_answer_needs_no_descriptor)
{
    pid_t filler = begin(), pid;

    shared->liar.repeat = 2;
    pid = fork();
    if (pid == 0)
        use_no_descriptors();
    child_expect_ok(pid);
    ck_assert_msg(shared->failed == 0, "%s", shared->error);
    shared->liar.repeat = 0;
    end(filler);
}
END_TEST

START_TEST(a_connection_that_was_not_answered_is_made_anew)
{
    pid_t filler = begin();

    for (uint32_t n = 1; n < CONNECTIONS_MAX; n += 10) {
        shared->liar.unanswered = n;
        run_program(0, LIE_NONE, 0);
        ck_assert_msg(shared->failed == 0, "after %u: %s", n, shared->error);
        ck_assert_uint_eq(shared->liar.unanswered, 0);
    }
    shared->liar.unanswered = CONNECTIONS_MAX;
    run_program(0, LIE_NONE, 0);
    ck_assert_msg(strstr(shared->error, "507901") && strstr(shared->error, "without an answer"),
                  "%s", shared->error);
    end(filler);
}
END_TEST

static int end_one_connection(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    struct packet packet;

    return packet_recv(fd, &packet, 0) == 1 ? 0 : 1;
}

/* Nobody has the listening socket any more when the connection is made anew. */
START_TEST(an_npud_that_does_not_come_back_is_not_awaited)
{
    char path[] = "/tmp/npud-once-XXXXXX", name[64];
    pid_t once;
    int listener;

    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(name, sizeof(name), "%s/npud.sock", path);
    listen_at(name, &listener);
    once = child_start(end_one_connection, &listener);
    close(listener);
    setenv("NPUD_SOCKET", name, 1);
    OK(aclInit(NULL));
    FAILS_SAYING(ACL_ERROR_RT_NO_DEVICE, "cannot reach npud", aclrtSetDevice(0));
    child_expect_ok(once);
    unlink(name);
    rmdir(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lying server");
    TCase *tcase;

    tcase_add_test(suite_case(suite, "honest", 120, NULL, NULL),
                   without_lies_all_requests_are_right);
    tcase_add_test(suite_case(suite, "newer", 120, NULL, NULL), what_a_newer_npud_adds_is_ignored);
    tcase_add_test(suite_case(suite, "lies", choose_effort(300, 3600), NULL, NULL),
                   a_lie_ends_in_an_error);
    tcase = suite_case(suite, "back", 300, NULL, NULL);
    tcase_add_test(tcase, repeated_answers_are_dropped);
    tcase_add_test(tcase, answers_that_repeat_without_end_are_damage);
    tcase_add_test(tcase, a_repeated_answer_needs_no_descriptor);
    tcase_add_test(tcase, a_connection_that_was_not_answered_is_made_anew);
    tcase_add_test(tcase, an_npud_that_does_not_come_back_is_not_awaited);
    tcase_add_test(suite_case(suite, "bits", 86400, NULL, NULL), random_bits_end_in_an_error);
    return run_suite(suite);
}
