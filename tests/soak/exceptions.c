/*
 * Exceptions of a process of the soak test: once for each failed task, in the order of the stream,
 * told before a synchronise call returns the failure.
 */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/soak/worker.h"

#define ENTRIES 512 /* of a stream between two synchronise calls */

struct entry {
    uint32_t task;
    uint32_t code;
    bool sure;
};

static struct {
    pthread_mutex_t lock;
    uint32_t tid; /* of the thread that submits */
    bool any;     /* from now on there are streams that the test does not know */
    struct {
        int32_t id;
        unsigned told, expected;
        struct entry tell[ENTRIES], expect[ENTRIES];
    } of[OWN];
} failures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Ids of streams are those of a device. */
static unsigned stream_with(uint32_t device, uint32_t id)
{
    unsigned s = 0;

    while (s < OWN && (device_of(s) != device || (uint32_t)failures.of[s].id != id))
        s++;
    return s;
}

static void on_exception(aclrtExceptionInfo *info)
{
    struct entry e = {.task = aclrtGetTaskIdFromExceptionInfo(info),
                      .code = aclrtGetErrorCodeFromExceptionInfo(info)};
    uint32_t device = aclrtGetDeviceIdFromExceptionInfo(info);
    uint32_t id = aclrtGetStreamIdFromExceptionInfo(info);
    uint32_t thread = aclrtGetThreadIdFromExceptionInfo(info);
    unsigned s;

    pthread_mutex_lock(&failures.lock);
    s = stream_with(device, id);
    if (failures.any) {
        pthread_mutex_unlock(&failures.lock);
        return;
    }
    if (s == OWN || thread != failures.tid || failures.of[s].told == ENTRIES)
        trouble(NULL, "an exception of stream %u of device %u, thread %u: task %u, code %u", id,
                device, thread, e.task, e.code);
    failures.of[s].tell[failures.of[s].told++] = e;
    pthread_mutex_unlock(&failures.lock);
}

void exceptions_expect(const struct op *op)
{
    struct entry *e;
    uint32_t task;

    if (op->fails == 0)
        return;
    MUST(aclrtGetThreadLastTaskId(&task));
    pthread_mutex_lock(&failures.lock);
    e = &failures.of[op->stream].expect[failures.of[op->stream].expected++];
    *e = (struct entry){.task = task,
                        .code = (uint32_t)(op->fails < 0 ? -op->fails : op->fails),
                        .sure = op->fails > 0};
    pthread_mutex_unlock(&failures.lock);
}

static bool contains_entry(const struct entry *list, unsigned n, const struct entry *e)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i].task == e->task && list[i].code == e->code)
            return true;
    return false;
}

/*
 * What was expected and not told, or the other way round. A wait that was satisfied at the call was
 * no task: what is expected of it is that of a task of another stream, and never told.
 */
static void compare_entries(const struct op *op, unsigned s)
{
    const struct entry *told = failures.of[s].tell, *expected = failures.of[s].expect;
    unsigned n_told = failures.of[s].told, n_expected = failures.of[s].expected;

    for (unsigned i = 0; i < n_expected; i++)
        if (expected[i].sure && !contains_entry(told, n_told, &expected[i]))
            trouble(op, "no exception for task %u of s%u, which failed with %u", expected[i].task,
                    s, expected[i].code);
    for (unsigned i = 0; i < n_told; i++) {
        if (!contains_entry(expected, n_expected, &told[i]))
            trouble(op, "an exception for task %u of s%u with %u that nobody expects", told[i].task,
                    s, told[i].code);
        if (i > 0 && told[i].task <= told[i - 1].task)
            trouble(op, "an exception for task %u of s%u after that for task %u", told[i].task, s,
                    told[i - 1].task);
    }
    failures.of[s].told = failures.of[s].expected = 0;
}

void exceptions_check(const struct op *op, unsigned stream)
{
    pthread_mutex_lock(&failures.lock);
    compare_entries(op, stream);
    pthread_mutex_unlock(&failures.lock);
}

void exceptions_renew(unsigned stream)
{
    int32_t id = -1;

    MUST(aclrtStreamGetId(me.stream[stream], &id));
    pthread_mutex_lock(&failures.lock);
    failures.of[stream].id = id;
    pthread_mutex_unlock(&failures.lock);
}

void exceptions_expect_any(void)
{
    pthread_mutex_lock(&failures.lock);
    failures.any = true;
    pthread_mutex_unlock(&failures.lock);
}

void exceptions_start(void)
{
    failures.tid = (uint32_t)syscall(SYS_gettid);
    for (unsigned s = 0; s < OWN; s++) {
        enter(device_of(s));
        exceptions_renew(s);
    }
    MUST(aclrtSetExceptionInfoCallback(on_exception));
}
