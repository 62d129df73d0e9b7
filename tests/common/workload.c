#include "tests/common/workload.h"

#include "acl/acl_tdt_queue.h"
#include "tests/common/actor.h"
#include "tests/common/alone.h"
#include "tests/common/harness.h"
#include "tests/common/queue_steps.h"

struct workload *workload;

static aclrtStream stream, other;
static aclrtEvent ipc, theirs;
static aclrtNotify notify;
static void *memory; /* the first process's, which the second imports */

#define MEMORY  (1 << 20)
#define PATTERN 0x5a
#define SIGNAL  7 /* in the first word of it */

/* Shared with a victim, and what waits for it. */
#define WAITS 3
static struct with_victim {
    aclrtStream stream[WAITS];
    aclrtEvent event;
    aclrtNotify notify;
    void *memory;
} with_victim[VICTIMS];

static void begin(void)
{
    streams_open(&stream, &other);
}

#define GET ACL_TDT_QUEUE_PERMISSION_DEQUEUE

static void share_with_victim(struct victim *v, struct with_victim *with)
{
    OK(aclrtCreateEventExWithFlag(&with->event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(with->event, &v->ipc));
    OK(aclrtCreateNotify(&with->notify, 0));
    OK(aclrtNotifyGetExportKey(with->notify, v->key, sizeof(v->key), 0));
    OK(aclrtNotifySetImportPid(with->notify, &v->pid, 1));
    OK(aclrtMalloc(&with->memory, MEMORY, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(with->memory, MEMORY, 0, MEMORY));
    OK(aclrtIpcMemGetExportKey(with->memory, MEMORY, v->memory_key, sizeof(v->memory_key), 0));
    OK(aclrtIpcMemSetImportPid(v->memory_key, &v->pid, 1));
    v->queue = create_queue(2 * VICTIM_MESSAGES);
    OK(acltdtGrantQueue(v->queue, v->pid, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    put_value(v->queue, 0);
}

static void share_from_first(void)
{
    int32_t pid = workload->second;

    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, &workload->ipc[0]));
    OK(aclrtCreateNotify(&notify, 0));
    OK(aclrtNotifyGetExportKey(notify, workload->key, sizeof(workload->key), 0));
    OK(aclrtNotifySetImportPid(notify, &pid, 1));
    OK(aclrtMalloc(&memory, MEMORY, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(memory, MEMORY, 0, MEMORY));
    OK(aclrtIpcMemGetExportKey(memory, MEMORY, workload->memory_key, sizeof(workload->memory_key),
                               0));
    OK(aclrtIpcMemSetImportPid(workload->memory_key, &pid, 1));
    for (int i = 0; i < 3; i++)
        workload->queue[i] = create_queue(8);
    OK(acltdtGrantQueue(workload->queue[0], pid, GET, 0));
    OK(acltdtGrantQueue(workload->queue[2], pid, GET, 0));
    change_route(acltdtBindQueueRoutes, workload->queue[1], workload->queue[2]);
    for (uint32_t i = 0; i < workload->victims; i++)
        share_with_victim(&workload->victim[i], &with_victim[i]);
}

/*
 * All of them end with an error when the victim does, which has neither recorded nor written
 * anything.
 */
static void wait_for_victims(void)
{
    for (uint32_t i = 0; i < workload->victims; i++) {
        struct with_victim *with = &with_victim[i];

        for (int k = 0; k < WAITS; k++)
            OK(aclrtCreateStream(&with->stream[k]));
        OK(aclrtStreamWaitEvent(with->stream[0], with->event));
        OK(aclrtWaitAndResetNotify(with->notify, with->stream[1], 0));
        OK(aclrtValueWait(with->memory, SIGNAL, ACL_STREAM_WAIT_VALUE_EQ, with->stream[2]));
    }
}

/* Its messages are there: they were put. */
static void see_deaths(void)
{
    for (uint32_t i = 0; i < workload->victims; i++) {
        struct with_victim *with = &with_victim[i];

        for (int k = 0; k < WAITS; k++) {
            FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeStream(with->stream[k]));
            OK(aclrtDestroyStream(with->stream[k]));
        }
        FAILS(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, aclrtSynchronizeEvent(with->event));
        for (uint64_t value = 0; value < VICTIM_MESSAGES; value++)
            take_value(workload->victim[i].queue, value);
        OK(acltdtDestroyQueue(workload->victim[i].queue));
        OK(aclrtFree(with->memory));
        OK(aclrtDestroyNotify(with->notify));
        OK(aclrtDestroyEvent(with->event));
    }
}

static void share_from_second(void)
{
    uint32_t rights;

    OK(aclrtIpcOpenEventHandle(workload->ipc[0], &theirs));
    OK(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(ipc, &workload->ipc[1]));
    OK(aclrtNotifyImportByKey(&notify, workload->key, 0));
    OK(acltdtAttachQueue(workload->queue[0], 30000, &rights));
    OK(acltdtAttachQueue(workload->queue[2], 30000, &rights));
    /* Goes on when the first process does its part. */
    OK(aclrtWaitAndResetNotify(notify, stream, 0));
    OK(aclrtIpcMemImportByKey(&memory, workload->memory_key, 0));
    OK(aclrtValueWait(memory, SIGNAL, ACL_STREAM_WAIT_VALUE_EQ, stream));
}

static void give(void)
{
    char *behind = (char *)memory + sizeof(uint64_t);

    for (uint64_t i = 0; i < 4; i++) {
        put_value(workload->queue[0], i);
        put_value(workload->queue[1], 100 + i);
    }
    OK(aclrtIpcOpenEventHandle(workload->ipc[1], &theirs));
    OK(aclrtRecordEvent(ipc, stream));
    OK(aclrtRecordNotify(notify, stream));
    OK(aclrtMemsetAsync(behind, MEMORY / 2, PATTERN, MEMORY / 2, stream));
    OK(aclrtValueWrite(memory, SIGNAL, 0, stream));
    OK(aclrtSynchronizeStream(stream));
}

static void take(void)
{
    unsigned char last = 0;

    for (uint64_t i = 0; i < 4; i++) {
        take_value(workload->queue[0], i);
        take_value(workload->queue[2], 100 + i);
    }
    OK(aclrtStreamWaitEvent(other, theirs));
    OK(aclrtRecordEvent(ipc, other));
    OK(aclrtSynchronizeStream(other));
    OK(aclrtSynchronizeStream(stream)); /* the notify has come, and the word */
    OK(aclrtMemcpy(&last, 1, (char *)memory + MEMORY / 2, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(last, PATTERN);
}

static void end_first(void)
{
    see_deaths();
    OK(aclrtSynchronizeEvent(theirs));
    change_route(acltdtUnbindQueueRoutes, workload->queue[1], workload->queue[2]);
    for (int i = 0; i < 3; i++)
        OK(acltdtDestroyQueue(workload->queue[i]));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(theirs));
    OK(aclrtDestroyEvent(ipc));
    OK(aclrtFree(memory)); /* the second has it still */
}

static void end_second(void)
{
    unsigned char last = 0;

    OK(aclrtMemcpy(&last, 1, (char *)memory + MEMORY / 2, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    ck_assert_uint_eq(last, PATTERN);
    OK(aclrtIpcMemClose(workload->memory_key));
    OK(aclrtDestroyNotify(notify));
    OK(aclrtDestroyEvent(theirs));
    OK(aclrtDestroyEvent(ipc));
}

/* --- */

static void leave_first(void)
{
    wait_for_victims();
    leave_work();
}

static void work_alone(void)
{
    end_work();
    do_alone(stream, other);
}

static void end_step(void)
{
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    session_close();
}

static int run(int fd, void (*const step[])(void))
{
    for (int i = 0; i < WORKLOAD_STEPS; i++) {
        step_await(fd);
        step[i]();
        step_done(fd);
    }
    return 0;
}

int first_main(int fd, void *arg)
{
    static void (*const steps[WORKLOAD_STEPS])(void) = {
        begin, share_from_first, leave_first, give, work_alone, end_first, end_step};

    (void)arg;
    return run(fd, steps);
}

int second_main(int fd, void *arg)
{
    static void (*const steps[WORKLOAD_STEPS])(void) = {
        begin, share_from_second, leave_work, take, work_alone, end_second, end_step};

    (void)arg;
    return run(fd, steps);
}
