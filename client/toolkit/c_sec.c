/* libc_sec.so: what securec.h says. */
#include "securec.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static errno_t check_bound(const void *dest, size_t bound, size_t most)
{
    if (bound == 0 || bound > most)
        return ERANGE;
    return dest ? EOK : EINVAL;
}

/* --- memory --- */

errno_t memset_s(void *dest, size_t destMax, int c, size_t count)
{
    errno_t error = check_bound(dest, destMax, SECUREC_MEM_MAX_LEN);

    if (error != EOK)
        return error;
    memset(dest, c, count < destMax ? count : destMax);
    return count > destMax ? ERANGE_AND_RESET : EOK;
}

static errno_t reset_memory(void *dest, size_t bound, errno_t error)
{
    memset(dest, 0, bound);
    return error;
}

static errno_t move(void *dest, size_t bound, const void *src, size_t count)
{
    errno_t error = check_bound(dest, bound, SECUREC_MEM_MAX_LEN);

    if (error != EOK)
        return error;
    if (!src)
        return reset_memory(dest, bound, EINVAL_AND_RESET);
    if (count > bound)
        return reset_memory(dest, bound, ERANGE_AND_RESET);
    memmove(dest, src, count);
    return EOK;
}

errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count)
{
    return move(dest, destMax, src, count);
}

static int overlap(const void *a, const void *b, size_t size)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x != y && (x < y ? y - x : x - y) < size;
}

errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count)
{
    if (check_bound(dest, destMax, SECUREC_MEM_MAX_LEN) == EOK && src && count <= destMax &&
        overlap(dest, src, count))
        return reset_memory(dest, destMax, EOVERLAP_AND_RESET);
    return move(dest, destMax, src, count);
}

/* --- strings --- */

static errno_t reset_string(char *dest, errno_t error)
{
    dest[0] = '\0';
    return error;
}

/* dest has `used` characters, and gets at most `count` more. */
static errno_t append(char *dest, size_t bound, size_t used, const char *src, size_t count)
{
    size_t n;

    if (!src)
        return reset_string(dest, EINVAL_AND_RESET);
    n = strnlen(src, count < bound - used ? count : bound - used);
    if (n == bound - used)
        return reset_string(dest, ERANGE_AND_RESET);
    if (src != dest + used && src < dest + used + n + 1 && dest < src + n + 1)
        return reset_string(dest, EOVERLAP_AND_RESET);
    memmove(dest + used, src, n);
    dest[used + n] = '\0';
    return EOK;
}

errno_t strncpy_s(char *strDest, size_t destMax, const char *strSrc, size_t count)
{
    errno_t error = check_bound(strDest, destMax, SECUREC_STRING_MAX_LEN);

    return error != EOK ? error : append(strDest, destMax, 0, strSrc, count);
}

errno_t strcpy_s(char *strDest, size_t destMax, const char *strSrc)
{
    return strncpy_s(strDest, destMax, strSrc, SIZE_MAX);
}

errno_t strncat_s(char *strDest, size_t destMax, const char *strSrc, size_t count)
{
    errno_t error = check_bound(strDest, destMax, SECUREC_STRING_MAX_LEN);
    size_t used;

    if (error != EOK)
        return error;
    used = strnlen(strDest, destMax);
    if (used == destMax)
        return reset_string(strDest, EINVAL_AND_RESET);
    return append(strDest, destMax, used, strSrc, count);
}

errno_t strcat_s(char *strDest, size_t destMax, const char *strSrc)
{
    return strncat_s(strDest, destMax, strSrc, SIZE_MAX);
}

char *strtok_s(char *strToken, const char *strDelimit, char **context)
{
    if (!strDelimit || !context || (!strToken && !*context))
        return NULL;
    return strtok_r(strToken, strDelimit, context);
}

/* --- printing --- */

int vsnprintf_s(char *strDest, size_t destMax, size_t count, const char *format, va_list argList)
{
    size_t room = count < destMax ? count + 1 : destMax;
    int n;

    if (check_bound(strDest, destMax, SECUREC_STRING_MAX_LEN) != EOK)
        return -1;
    n = format ? vsnprintf(strDest, room, format, argList) : -1;
    if (n >= 0 && (size_t)n < room)
        return n;
    if (n < 0 || count >= destMax)
        strDest[0] = '\0';
    return -1;
}

int vsprintf_s(char *strDest, size_t destMax, const char *format, va_list argList)
{
    return vsnprintf_s(strDest, destMax, destMax, format, argList);
}

int snprintf_s(char *strDest, size_t destMax, size_t count, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf_s(strDest, destMax, count, format, list);
    va_end(list);
    return n;
}

int sprintf_s(char *strDest, size_t destMax, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf_s(strDest, destMax, destMax, format, list);
    va_end(list);
    return n;
}
