/* A process whose session ends with work in hand, at a moment that the test chooses. */
#include <stdint.h>

#include "acl/acl_tdt_queue.h"
#include "tests/common/actor.h"
#include "tests/common/harness.h"
#include "tests/common/queue_steps.h"
#include "tests/common/workload.h"

static aclrtStream stream, other;

static void share_with_first(struct victim *v)
{
    aclrtNotify notify;
    aclrtEvent event;
    uint32_t rights;
    void *memory;

    OK(aclrtIpcOpenEventHandle(v->ipc, &event));
    OK(aclrtNotifyImportByKey(&notify, v->key, 0));
    OK(aclrtIpcMemImportByKey(&memory, v->memory_key, 0));
    OK(acltdtAttachQueue(v->queue, 30000, &rights));
    for (uint64_t i = 1; i < VICTIM_MESSAGES; i++)
        put_value(v->queue, i);
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtRecordNotify(notify, stream));
}

/* What ends with the session, of each kind. */
static void have_own(void)
{
    aclrtCntNotifyRecordInfo add = {.mode = ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, .value = 1};
    aclrtCntNotifyWaitInfo wait = {.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, .value = 1};
    aclrtIpcEventHandle handle;
    aclrtCntNotify count;
    aclrtEvent event;
    uint32_t queue = create_queue(4);
    void *memory;

    put_value(queue, 0);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(event, &handle));
    OK(aclrtCntNotifyCreate(&count, 0));
    OK(aclrtCntNotifyWaitWithTimeout(count, other, &wait));
    OK(aclrtCntNotifyRecord(count, stream, &add));
}

int victim_main(int fd, void *arg)
{
    struct victim *v = arg;

    step_await(fd);
    streams_open(&stream, &other);
    stream_hold(stream);
    share_with_first(v);
    have_own();
    step_done(fd);
    step_await(fd); /* which does not come */
    return 1;
}
