#include "tests/common/queue_steps.h"

#include <string.h>

#include "tests/common/harness.h"

#define LIMIT_MS 300000 /* against hanging */

static acltdtBuf buffer_of(uint64_t value)
{
    acltdtBuf buf;
    void *data;
    size_t size;

    OK(acltdtAllocBuf(sizeof(value), ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(data, &value, sizeof(value));
    OK(acltdtSetBufDataLen(buf, sizeof(value)));
    return buf;
}

void put_value(uint32_t queue, uint64_t value)
{
    OK(acltdtEnqueue(queue, buffer_of(value), LIMIT_MS));
}

void take_value(uint32_t queue, uint64_t value)
{
    acltdtBuf buf;
    uint64_t got;
    void *data;
    size_t size;

    OK(acltdtDequeue(queue, &buf, LIMIT_MS));
    OK(acltdtGetBufData(buf, &data, &size));
    memcpy(&got, data, sizeof(got));
    ck_assert_uint_eq(got, value);
    OK(acltdtFreeBuf(buf));
}

uint32_t create_queue(uint32_t depth)
{
    uint32_t queue;
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();

    OK(acltdtSetQueueAttr(attr, ACL_TDT_QUEUE_DEPTH_UINT32, sizeof(depth), &depth));
    OK(acltdtCreateQueue(attr, &queue));
    OK(acltdtDestroyQueueAttr(attr));
    return queue;
}

void change_route(aclError (*change)(acltdtQueueRouteList *list), uint32_t from, uint32_t to)
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *one = acltdtCreateQueueRoute(from, to);

    OK(acltdtAddQueueRoute(list, one));
    OK(change(list));
    OK(acltdtDestroyQueueRoute(one));
    OK(acltdtDestroyQueueRouteList(list));
}
