#include <stdarg.h>
#include <stdio.h>

#include "daemon/executor/vendor.h"

static _Thread_local char text[256];

const char *vendor_text(void)
{
    return text;
}

void vendor_set_text(const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    vsnprintf(text, sizeof(text), fmt, arguments);
    va_end(arguments);
}
