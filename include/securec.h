/*
 * Functions on memory and strings that take the size of what they write to, of libc_sec.so, which
 * programs of the vendor's ecosystem use beside AscendCL. The interface is that of Annex K of C11,
 * but for the codes, and for the forms with a count: that many characters at most, and a NUL.
 *
 * Each returns EOK, or why not: a bound that is 0 or above its maximum (SECUREC_MEM_MAX_LEN for
 * memory, SECUREC_STRING_MAX_LEN for strings) ERANGE, dest NULL EINVAL, and nothing is written.
 * With the bit of 0x80 the destination was reset: memory is all 0 (memset_s fills it), a string is
 * empty; source NULL, or a string without its end to be appended to EINVAL_AND_RESET; no room
 * ERANGE_AND_RESET; ranges that overlap, but for memmove_s, EOVERLAP_AND_RESET. The printing
 * functions return the number of characters, or -1, with an empty string; what exceeds `count`
 * alone is cut off, and -1 is returned. Any thread; strtok_s keeps its place in *context.
 */
#ifndef NPUD_SECUREC_H
#define NPUD_SECUREC_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SECUREC_MEM_MAX_LEN    0x7fffffffUL
#define SECUREC_STRING_MAX_LEN 0x7fffffffUL

#ifndef EOK
#define EOK 0
#endif
#define EINVAL_AND_RESET   150
#define ERANGE_AND_RESET   162
#define EOVERLAP_AND_RESET 182

typedef int errno_t;

#define SECUREC_API                 __attribute__((visibility("default")))
#define SECUREC_PRINTS(text, first) __attribute__((format(printf, text, first)))

SECUREC_API errno_t memset_s(void *dest, size_t destMax, int c, size_t count);
SECUREC_API errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count);
SECUREC_API errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count);
SECUREC_API errno_t strcpy_s(char *strDest, size_t destMax, const char *strSrc);
SECUREC_API errno_t strncpy_s(char *strDest, size_t destMax, const char *strSrc, size_t count);
SECUREC_API errno_t strcat_s(char *strDest, size_t destMax, const char *strSrc);
SECUREC_API errno_t strncat_s(char *strDest, size_t destMax, const char *strSrc, size_t count);
SECUREC_API char *strtok_s(char *strToken, const char *strDelimit, char **context);
SECUREC_API int sprintf_s(char *strDest, size_t destMax, const char *format, ...)
    SECUREC_PRINTS(3, 4);
SECUREC_API int vsprintf_s(char *strDest, size_t destMax, const char *format, va_list argList)
    SECUREC_PRINTS(3, 0);
SECUREC_API int snprintf_s(char *strDest, size_t destMax, size_t count, const char *format, ...)
    SECUREC_PRINTS(4, 5);
SECUREC_API int vsnprintf_s(char *strDest, size_t destMax, size_t count, const char *format,
                            va_list argList) SECUREC_PRINTS(4, 0);

#ifdef __cplusplus
}
#endif

#endif
