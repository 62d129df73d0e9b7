#include "daemon/core/call.h"

#include <stdarg.h>
#include <stdio.h>

#include "acl/acl_base.h"
#include "daemon/core/device.h"
#include "daemon/base/log.h"
#include "daemon/core/server.h"
#include "daemon/core/session.h"

int32_t call_fail(struct call *call, int32_t error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(call->message, sizeof(call->message), fmt, ap);
    va_end(ap);
    return error;
}

unsigned long long call_limit(struct call *call, enum resource r)
{
    return call->session->server->users.limit[r];
}

int32_t call_tell_limit(struct call *call, int32_t error)
{
    log_client_limit(&call->session->log, "at a limit: %s", call->message);
    return error;
}

int32_t call_no_device(struct call *call, uint32_t device)
{
    return call_fail(call, ACL_ERROR_RT_INVALID_DEVICEID, "there is no device %u (npud has %u)",
                     device, call->session->server->devices->n);
}
