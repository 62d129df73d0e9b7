/*
 * A program that goes on while npud is replaced: it keeps streams, events, memory, a queue, a
 * notify and blocked calls in use, and checks all that it computes. Its arguments name what it
 * leaves out: ipc, notify, queue. With `beside PROGRAM FOLDER` it also shares events, notifies,
 * queues and messages with a process of PROGRAM, which is linked with the library in FOLDER.
 *
 * For each line on standard input it makes ROUNDS rounds more and prints "rounds N, longest M us".
 * At the end of the input it lets the blocked calls go, gives everything back and exits with 0. A
 * call that fails, or a wrong sum, ends it with 1 and a sentence.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"

#define ROUNDS 20
#define WORDS  4096
#define BEHIND 64 /* tasks behind the one that blocks */

static bool uses_ipc = true, uses_notify = true, uses_queue = true;
static uint64_t longest_ns;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void check(aclError error, const char *call)
{
    const char *text;

    if (error == 0)
        return;
    text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d: %s\n", call, error, text ? text : "");
    exit(1);
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        uint64_t begun_ = now_ns(), took_;                                                         \
                                                                                                   \
        check((call), #call);                                                                      \
        took_ = now_ns() - begun_;                                                                 \
        if (took_ > longest_ns)                                                                    \
            longest_ns = took_;                                                                    \
    } while (0)

static void expect(uint64_t got, uint64_t wanted, const char *what)
{
    if (got == wanted)
        return;
    fprintf(stderr, "%s: %llu in place of %llu\n", what, (unsigned long long)got,
            (unsigned long long)wanted);
    exit(1);
}

/* --- what is used in each round --- */

static aclrtStream one, other;
static aclrtEvent event, last;
static aclrtNotify notify;
static void *first, *second;      /* on the device */
static uint64_t *source, *target; /* pinned */
static uint32_t queue;

static void *pinned(size_t size)
{
    void *p;

    OK(aclrtMallocHost(&p, size));
    return p;
}

static void begin_rounds(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();

    OK(aclrtCreateStream(&one));
    OK(aclrtCreateStream(&other));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventExWithFlag(&last, uses_ipc ? ACL_EVENT_IPC : ACL_EVENT_SYNC));
    if (uses_notify)
        OK(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtMalloc(&first, WORDS * 8, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMalloc(&second, WORDS * 8, ACL_MEM_MALLOC_NORMAL_ONLY));
    source = pinned(WORDS * 8);
    target = pinned(WORDS * 8);
    if (uses_queue)
        OK(acltdtCreateQueue(attr, &queue));
    acltdtDestroyQueueAttr(attr);
}

/* There and back over two streams, which an event and a notify order. */
static void copy_and_sum(uint64_t round)
{
    uint64_t sum = 0, wanted = 0;

    for (uint64_t i = 0; i < WORDS; i++)
        wanted += source[i] = round * WORDS + i;
    OK(aclrtMemcpyAsync(first, WORDS * 8, source, WORDS * 8, ACL_MEMCPY_HOST_TO_DEVICE, one));
    OK(aclrtRecordEvent(event, one));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtMemcpyAsync(second, WORDS * 8, first, WORDS * 8, ACL_MEMCPY_DEVICE_TO_DEVICE, other));
    OK(uses_notify ? aclrtRecordNotify(notify, other) : aclrtRecordEvent(event, other));
    OK(uses_notify ? aclrtWaitAndResetNotify(notify, one, 0) : aclrtStreamWaitEvent(one, event));
    OK(aclrtMemcpyAsync(target, WORDS * 8, second, WORDS * 8, ACL_MEMCPY_DEVICE_TO_HOST, one));
    OK(aclrtRecordEvent(last, one));
    OK(aclrtSynchronizeEvent(last));
    OK(aclrtSynchronizeStream(other));
    for (uint64_t i = 0; i < WORDS; i++)
        sum += target[i];
    expect(sum, wanted, "sum of what was copied");
}

static void send_and_take(uint64_t round)
{
    acltdtBuf buf;
    size_t size;
    void *data;

    OK(acltdtAllocBuf(64, 0, &buf));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(data, &round, sizeof(round));
    OK(acltdtEnqueue(queue, buf, 10000));
    OK(acltdtDequeue(queue, &buf, 10000));
    OK(acltdtGetBufData(buf, &data, &size));
    expect(*(uint64_t *)data, round, "message");
    OK(acltdtFreeBuf(buf));
}

/* Requests to npud. */
static void make_and_destroy(void)
{
    aclrtEvent short_event;
    aclrtStream stream;
    void *memory;

    OK(aclrtCreateEventExWithFlag(&short_event, ACL_EVENT_SYNC));
    OK(aclrtCreateStream(&stream));
    OK(aclrtMalloc(&memory, 1 << 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(memory, 1 << 16, 1, 1 << 16));
    OK(aclrtFree(memory));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyEvent(short_event));
}

static void end_rounds(void)
{
    if (uses_queue)
        OK(acltdtDestroyQueue(queue));
    OK(aclrtFreeHost(source));
    OK(aclrtFreeHost(target));
    OK(aclrtFree(first));
    OK(aclrtFree(second));
    if (uses_notify)
        OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyEvent(last));
    OK(aclrtDestroyStream(one));
    OK(aclrtDestroyStream(other));
}

/* --- what is blocked all the time --- */

static aclrtStream blocked;
static void *word, *behind; /* on the device */
static pthread_t sleeper;

static void *sleep_on_stream(void *arg)
{
    (void)arg;
    check(aclrtSetDevice(0), "aclrtSetDevice");
    check(aclrtSynchronizeStream(blocked), "aclrtSynchronizeStream of the blocked stream");
    return NULL;
}

static void begin_blocked(void)
{
    OK(aclrtCreateStream(&blocked));
    OK(aclrtMalloc(&word, 8, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(word, 8, 0, 8));
    OK(aclrtMalloc(&behind, BEHIND, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMemset(behind, BEHIND, 0, BEHIND));
    OK(aclrtValueWait(word, 1, 1, blocked));
    for (int i = 0; i < BEHIND; i++)
        OK(aclrtMemsetAsync((char *)behind + i, 1, i + 1, 1, blocked));
    if (pthread_create(&sleeper, NULL, sleep_on_stream, NULL) != 0)
        exit(1);
}

static void expect_behind(bool executed)
{
    uint8_t bytes[BEHIND];

    OK(aclrtMemcpy(bytes, BEHIND, behind, BEHIND, ACL_MEMCPY_DEVICE_TO_HOST));
    for (uint64_t i = 0; i < BEHIND; i++)
        expect(bytes[i], executed ? i + 1 : 0, "a task behind a wait");
}

static void end_blocked(void)
{
    static const uint64_t go = 1;

    expect_behind(false);
    OK(aclrtMemcpy(word, 8, &go, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    pthread_join(sleeper, NULL);
    expect_behind(true);
    OK(aclrtFree(behind));
    OK(aclrtFree(word));
    OK(aclrtDestroyStream(blocked));
}

/* --- what two processes share, whose libraries may be of two releases --- */

struct shared {
    int32_t pid;
    uint32_t queue;
    aclrtIpcEventHandle event;
    char notify[65];
};

static struct {
    int socket; /* to the other one; -1: there is none */
    pid_t pid;  /* of it; 0: it has started this one */
    aclrtStream stream;
    aclrtEvent event, their_event;
    aclrtNotify notify, their_notify;
    uint32_t queue, their_queue;
    void *word;
} pair = {.socket = -1};

static void say(const void *what, size_t size)
{
    expect((uint64_t)send(pair.socket, what, size, MSG_NOSIGNAL), size, "bytes to the other one");
}

/* False: the other one has closed its end. */
static bool hear(void *what, size_t size)
{
    ssize_t n = recv(pair.socket, what, size, MSG_WAITALL);

    if (n != 0)
        expect((uint64_t)n, size, "bytes of the other one");
    return n != 0;
}

static void hear_of(uint64_t round)
{
    uint64_t heard = 0;

    expect(hear(&heard, sizeof(heard)) && heard == round, true, "the other one is there");
}

static void begin_sharing(void)
{
    struct shared own = {.pid = (int32_t)getpid()}, theirs;
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();
    uint32_t rights;

    OK(aclrtCreateStream(&pair.stream));
    OK(aclrtMalloc(&pair.word, 8, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtCreateEventExWithFlag(&pair.event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(pair.event, &own.event));
    OK(aclrtCreateNotify(&pair.notify, ACL_NOTIFY_DEFAULT));
    OK(aclrtNotifyGetExportKey(pair.notify, own.notify, sizeof(own.notify),
                               ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    OK(acltdtCreateQueue(attr, &pair.queue));
    acltdtDestroyQueueAttr(attr);
    own.queue = pair.queue;
    say(&own, sizeof(own));
    expect(hear(&theirs, sizeof(theirs)), true, "the other one is there");
    OK(acltdtGrantQueue(pair.queue, theirs.pid, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    pair.their_queue = theirs.queue;
    OK(acltdtAttachQueue(pair.their_queue, -1, &rights));
    OK(aclrtIpcOpenEventHandle(theirs.event, &pair.their_event));
    OK(aclrtNotifyImportByKey(&pair.their_notify, theirs.notify,
                              ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
}

/* The stream of this one waits for a word, that of the other one for this, and this for that. */
static void lead(uint64_t round)
{
    OK(aclrtMemset(pair.word, 8, 0, 8));
    OK(aclrtValueWait(pair.word, round, ACL_STREAM_WAIT_VALUE_EQ, pair.stream));
    OK(aclrtRecordEvent(pair.event, pair.stream));
    say(&round, sizeof(round));
    hear_of(round);
    OK(aclrtWaitAndResetNotify(pair.notify, pair.stream, 0));
    OK(aclrtStreamWaitEvent(pair.stream, pair.their_event));
    OK(aclrtMemcpy(pair.word, 8, &round, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtSynchronizeStream(pair.stream));
}

static void follow(uint64_t round)
{
    aclrtStreamStatus status;

    OK(aclrtStreamWaitEvent(pair.stream, pair.their_event));
    OK(aclrtRecordNotify(pair.their_notify, pair.stream));
    OK(aclrtRecordEvent(pair.event, pair.stream));
    OK(aclrtStreamQuery(pair.stream, &status));
    expect(status, ACL_STREAM_STATUS_NOT_READY, "a stream behind a wait");
    say(&round, sizeof(round));
    OK(aclrtSynchronizeStream(pair.stream));
}

/* There and back in the same buffer. */
static void pass_on(uint64_t round)
{
    acltdtBuf buf;
    size_t size;
    uint64_t *data;

    if (pair.pid != 0) {
        OK(acltdtAllocBuf(64, 0, &buf));
        OK(acltdtGetBufData(buf, (void **)&data, &size));
        *data = round;
        OK(acltdtEnqueue(pair.their_queue, buf, -1));
    }
    OK(acltdtDequeue(pair.queue, &buf, -1));
    OK(acltdtGetBufData(buf, (void **)&data, &size));
    expect(*data, pair.pid != 0 ? round + 1 : round, "message of the other one");
    ++*data;
    if (pair.pid == 0)
        OK(acltdtEnqueue(pair.their_queue, buf, -1));
    else
        OK(acltdtFreeBuf(buf));
}

static void end_sharing(void)
{
    int status = 0;

    shutdown(pair.socket, SHUT_WR);
    if (pair.pid != 0)
        expect(waitpid(pair.pid, &status, 0) == pair.pid && status == 0, true, "it has ended well");
    OK(aclrtDestroyNotify(pair.their_notify));
    OK(aclrtDestroyEvent(pair.their_event));
    OK(acltdtDestroyQueue(pair.queue));
    OK(aclrtDestroyNotify(pair.notify));
    OK(aclrtDestroyEvent(pair.event));
    OK(aclrtFree(pair.word));
    OK(aclrtDestroyStream(pair.stream));
}

/* The other one: as long as rounds are asked for. */
static void share_rounds(void)
{
    uint64_t round;

    begin_sharing();
    while (hear(&round, sizeof(round))) {
        follow(round);
        pass_on(round);
    }
    end_sharing();
}

/* Before the library has threads. */
static void start_other(const char *program, const char *folder)
{
    int sockets[2];

    expect((uint64_t)socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0, "socketpair");
    pair.pid = fork();
    if (pair.pid == 0) {
        dup2(sockets[1], STDIN_FILENO);
        setenv("LD_LIBRARY_PATH", folder, 1);
        execl(program, program, "other", NULL);
        _exit(127);
    }
    close(sockets[1]);
    pair.socket = sockets[0];
}

/* --- orders --- */

/* False: the input has ended. */
static bool take_order(bool *ordered)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[16];

    *ordered = poll(&p, 1, 0) > 0;
    return !*ordered || read(STDIN_FILENO, line, sizeof(line)) > 0;
}

static void leave_out(const char *what)
{
    uses_ipc = uses_ipc && strcmp(what, "ipc") != 0;
    uses_notify = uses_notify && strcmp(what, "notify") != 0;
    uses_queue = uses_queue && strcmp(what, "queue") != 0;
}

static int end(void)
{
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t round = 0, report_at = 0;
    bool ordered;

    for (int i = 1; i < argc; i++)
        leave_out(argv[i]);
    if (argc > 3 && strcmp(argv[argc - 3], "beside") == 0)
        start_other(argv[argc - 2], argv[argc - 1]);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    if (argc == 2 && strcmp(argv[1], "other") == 0) {
        pair.socket = STDIN_FILENO;
        share_rounds();
        return end();
    }
    if (pair.socket >= 0)
        begin_sharing();
    begin_rounds();
    begin_blocked();
    for (; take_order(&ordered); round++) {
        if (ordered)
            report_at = round + ROUNDS;
        copy_and_sum(round);
        if (uses_queue)
            send_and_take(round);
        make_and_destroy();
        if (pair.socket >= 0) {
            lead(round + 1);
            pass_on(round + 1);
        }
        if (round != report_at || round == 0)
            continue;
        printf("rounds %llu, longest %llu us\n", (unsigned long long)round,
               (unsigned long long)longest_ns / 1000);
        fflush(stdout);
        longest_ns = 0;
    }
    if (pair.socket >= 0)
        end_sharing();
    end_blocked();
    end_rounds();
    return end();
}
