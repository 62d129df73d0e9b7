/* Helpers that need neither npud nor a device: data types, float16, data buffers, log, version. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <acl/acl_rt.h>

#include "client/core/error.h"
#include "client/runtime/base.h"
#include "proto/util/float16.h"

enum {
    HALF_MAX = 0x7BFF,
    LOG_TEXT_MAX = 1024,
};

struct aclDataBuffer {
    void *data;
    size_t size;
};

size_t aclDataTypeSize(aclDataType dataType)
{
    switch ((int)dataType) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
        return 0;
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
        return 1;
    case ACL_FLOAT16:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_BF16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
        return 4;
    case ACL_COMPLEX128:
        return 16;
    default: /* 64-bit types, and what has no size of its own: programs rely on the 8 */
        return 8;
    }
}

float aclFloat16ToFloat(aclFloat16 value)
{
    return half_to_float(value);
}

/* What is too large, infinite or no number becomes the largest finite half. */
aclFloat16 aclFloatToFloat16(float value)
{
    const uint16_t half = half_from_float(value);

    return (half & 0x7FFFU) > HALF_MAX ? (aclFloat16)((half & 0x8000U) | HALF_MAX) : half;
}

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    aclDataBuffer *buffer = malloc(sizeof(*buffer));

    if (buffer == NULL) {
        error_store(ACL_ERROR_BAD_ALLOC, "aclCreateDataBuffer: out of memory");
        return NULL;
    }
    buffer->data = data;
    buffer->size = size;
    return buffer;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer)
{
    REQUIRE(dataBuffer);
    free((void *)(uintptr_t)dataBuffer); /* the interface has it const, the record is not */
    return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size)
{
    REQUIRE(dataBuffer);
    dataBuffer->data = data;
    dataBuffer->size = size;
    return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer)
{
    return dataBuffer == NULL ? NULL : dataBuffer->data;
}

static size_t data_buffer_size(const aclDataBuffer *dataBuffer)
{
    return dataBuffer == NULL ? 0 : dataBuffer->size;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer)
{
    return data_buffer_size(dataBuffer);
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer)
{
    return (uint32_t)data_buffer_size(dataBuffer);
}

/*
 * As the vendor's library has them, from the environment of the first message:
 * ASCEND_GLOBAL_LOG_LEVEL, 0 to 3 as aclLogLevel, and 4 for nothing; and
 * ASCEND_SLOG_PRINT_TO_STDOUT. Without the first, errors only. Where the vendor's library writes a
 * file, this one writes to the standard error output.
 */
static struct {
    pthread_once_t once;
    int level;
    FILE *to;
} app_log = {.once = PTHREAD_ONCE_INIT};

static void read_log_settings(void)
{
    const char *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    const char *print = getenv("ASCEND_SLOG_PRINT_TO_STDOUT");

    app_log.level =
        level && level[0] >= '0' && level[0] <= '4' && !level[1] ? level[0] - '0' : ACL_ERROR;
    app_log.to = print && strcmp(print, "1") == 0 ? stdout : stderr;
}

static const char *level_name(aclLogLevel level)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

    return (unsigned)level <= ACL_ERROR ? names[level] : "UNKNOWN";
}

/* Keeps the message on one line, and terminals safe from what it carries. */
static void blank_control_bytes(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == '\x7F')
            *text = ' ';
    }
}

static void write_log(aclLogLevel level, const char *function, const char *file, uint32_t line,
                      const char *format, va_list args)
{
    const int saved_errno = errno;
    char text[LOG_TEXT_MAX + 1];
    int length;

    pthread_once(&app_log.once, read_log_settings);
    if ((int)level < app_log.level)
        return;
    length = vsnprintf(text, sizeof(text), format, args);
    if (length < 0)
        snprintf(text, sizeof(text), "(message with a bad format)");
    blank_control_bytes(text);
    fprintf(app_log.to, "%s %s %s:%u %s%s\n", level_name(level), function, file, line, text,
            length > LOG_TEXT_MAX ? " [cut]" : "");
    fflush(app_log.to);
    errno = saved_errno;
}

void base_log(aclLogLevel level, const char *function, const char *file, uint32_t line,
              const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_log(level, function, file, line, format, args);
    va_end(args);
}

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line,
               const char *fmt, ...)
{
    va_list args;

    if (func == NULL || file == NULL || fmt == NULL)
        return;
    va_start(args, fmt);
    write_log(logLevel, func, file, line, fmt, args);
    va_end(args);
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    if (majorVersion == NULL || minorVersion == NULL || patchVersion == NULL)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtGetVersion: an output pointer is NULL");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}
