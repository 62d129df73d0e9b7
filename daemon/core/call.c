#include "daemon/core/call.h"

#include <stdarg.h>
#include <stdio.h>

int32_t call_fail(struct call *call, int32_t error, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(call->message, sizeof(call->message), fmt, ap);
    va_end(ap);
    return error;
}
