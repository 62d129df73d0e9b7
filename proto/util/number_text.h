/* Numbers and sizes as users write them: in the configuration, and behind options of the tools. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What --size of npuctl trace start and --trace-size of npu-run take at most: 4 GiB for a ring. */
#define TRACE_SIZE_MAX (UINT64_C(4) << 30)

/**
 * Read a decimal number. units: letters of which one may be behind it; the first stands for times
 * 1024, and each other for 1024 times the one before it. False: it is no such number, or too large.
 */
static inline bool number_read(const char *text, const char *units, uint64_t *number)
{
    char *end;
    const char *unit;
    unsigned shift = 0;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    if (*end && (unit = strchr(units, *end))) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if (*end || *number > UINT64_MAX >> shift)
        return false;
    *number <<= shift;
    return true;
}

/** The same for TRACE_SIZE_MAX: 64M, 1G, 100000. */
static inline bool trace_size_read(const char *text, uint64_t *size)
{
    return number_read(text, "KMG", size) && *size > 0 && *size <= TRACE_SIZE_MAX;
}
