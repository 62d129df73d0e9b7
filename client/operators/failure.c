#include "client/operators/failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "acl/acl_npud.h"

aclnnStatus failure_store(aclnnStatus code, const char *format, ...)
{
    char sentence[480];
    va_list list;

    va_start(list, format);
    vsnprintf(sentence, sizeof(sentence), format, list);
    va_end(list);
    return aclnpudReportError(code, sentence);
}
