/* Count notifies: a counter in place of a notify's bit, within one process. */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/event/notify.h"

aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    if (flag != 0)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "aclrtCntNotifyCreate: flag must be 0");
    return notify_create(__func__, HANDLE_COUNT_NOTIFY, cntNotify);
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify)
{
    CALL_SCOPE;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    return notify_destroy(__func__, HANDLE_COUNT_NOTIFY, cntNotify);
}

static int bad_mode(const char *function, int mode)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no mode %d", function, mode);
}

aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                              aclrtCntNotifyRecordInfo *info)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_RECORD};
    unsigned mode;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE(info);
    mode = (unsigned)info->mode;
    if (mode > ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE || mode == 3)
        return bad_mode(__func__, (int)mode);
    task.notify.mode = (uint8_t)mode;
    task.notify.value = info->value;
    return notify_submit(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                       aclrtCntNotifyWaitInfo *info)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_WAIT};
    unsigned mode;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE(info);
    mode = (unsigned)info->mode;
    if (mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE)
        return bad_mode(__func__, (int)mode);
    task.notify.mode = (uint8_t)mode;
    task.notify.value = info->value;
    task.notify.clear = info->isClear != 0;
    task.notify.timeout_ns = notify_timeout_ns(info->timeout);
    return notify_submit(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream)
{
    CALL_SCOPE;
    struct task task = {.op = TASK_COUNT_RECORD,
                        .notify.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE};

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    return notify_submit(__func__, HANDLE_COUNT_NOTIFY, cntNotify, stream, &task, false);
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId)
{
    CALL_SCOPE;
    struct notify n;
    int error;

    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, cntNotify);
    REQUIRE_OR(ACL_ERROR_RT_PARAM_INVALID, notifyId);
    error = notify_get(__func__, HANDLE_COUNT_NOTIFY, cntNotify, &n);
    if (error == 0)
        *notifyId = n.id;
    return error;
}
