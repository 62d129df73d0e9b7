/*
 * A program that goes on while npud is replaced: it keeps streams, events, memory, a queue, a
 * notify and blocked calls in use, and checks all that it computes. Its arguments name what it
 * leaves out: ipc, notify, queue.
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

int main(int argc, char **argv)
{
    uint64_t round = 0, report_at = 0;
    bool ordered;

    for (int i = 1; i < argc; i++)
        leave_out(argv[i]);
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    begin_rounds();
    begin_blocked();
    for (; take_order(&ordered); round++) {
        if (ordered)
            report_at = round + ROUNDS;
        copy_and_sum(round);
        if (uses_queue)
            send_and_take(round);
        make_and_destroy();
        if (round != report_at || round == 0)
            continue;
        printf("rounds %llu, longest %llu us\n", (unsigned long long)round,
               (unsigned long long)longest_ns / 1000);
        fflush(stdout);
        longest_ns = 0;
    }
    end_blocked();
    end_rounds();
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
    return 0;
}
