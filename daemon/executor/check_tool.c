/* What rows are made of: check_row.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "acl/error_codes/rt_error_codes.h"
#include "daemon/executor/check_part.h"
#include "daemon/executor/check_row.h"
#include "proto/util/clock.h"

/* Of pieces in which device memory is filled and looked at. */
#define PIECE (UINT64_C(4) << 20)

/* --- results --- */

void check_say(struct check *c, enum check_answer answer, const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    c->result->answer = answer;
    vsnprintf(c->result->text, sizeof(c->result->text), fmt, arguments);
    va_end(arguments);
}

void check_add(struct check *c, const char *fmt, ...)
{
    const size_t used = strlen(c->result->text);
    va_list arguments;

    va_start(arguments, fmt);
    vsnprintf(c->result->text + used, sizeof(c->result->text) - used, fmt, arguments);
    va_end(arguments);
}

void check_value(struct check *c, const char *name, const char *unit, double value)
{
    struct check_value *v;

    if (c->result->n == CHECK_VALUES)
        return;
    v = &c->result->values[c->result->n++];
    snprintf(v->name, sizeof(v->name), "%s", name);
    snprintf(v->unit, sizeof(v->unit), "%s", unit);
    v->value = value;
}

void check_so_far(struct check *c)
{
    send(CHECK_SOCKET, c->result, sizeof(*c->result), MSG_NOSIGNAL);
}

bool check_refused(struct check *c, const char *what, int32_t code)
{
    if (code == 0)
        return false;
    check_say(c, code == ACL_ERROR_RT_MEMORY_ALLOCATION ? CHECK_NOT_KNOWN : CHECK_NO,
              "%s: error %d: %.200s", what, (int)code, vendor_text());
    return true;
}

/* --- the library --- */

int32_t check_open(struct check *c)
{
    char why[256] = "";
    const int32_t code = c->vendor->open(c->path, c->nesting, &c->library, why, sizeof(why));

    if (code != 0)
        vendor_set_text("%s", why);
    return code;
}

int32_t check_begin(struct check *c)
{
    int32_t code = c->library ? 0 : check_open(c);

    if (code == 0)
        code = c->vendor->device_begin(c->library, c->device);
    if (code == 0)
        code = c->vendor->thread_begin(c->library, c->device);
    if (code == 0)
        code = c->vendor->lane_new(c->library, c->device, &c->lane);
    return code;
}

int32_t check_sync(struct check *c)
{
    const int32_t code = c->vendor->lane_sync(&c->lane);

    if (!c->lane)
        c->vendor->lane_new(c->library, c->device, &c->lane);
    return code;
}

int32_t check_copy(struct check *c, uint64_t dst, uint64_t src, uint64_t size, enum vendor_way way)
{
    const int32_t code =
        c->lane ? c->vendor->copy(c->lane, dst, src, size, way) : ACL_ERROR_RT_INTERNAL_ERROR;

    return code != 0 ? code : check_sync(c);
}

uint64_t check_free_memory(struct check *c)
{
    struct executor_device_info info;

    return c->vendor->device_info(c->library, c->device, &info) == 0 ? info.free : 0;
}

bool check_is_busy(struct check *c)
{
    struct executor_device_info info;

    return c->vendor->device_info(c->library, c->device, &info) == 0 &&
           info.free < info.memory / 10 * 8;
}

/* --- bytes --- */

static uint64_t word_of(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed << 48 ^ i) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ x >> 29;
}

void check_fill(void *bytes, uint64_t size, uint64_t seed)
{
    uint64_t *words = bytes, rest = size % 8, last = word_of(seed, size / 8);

    for (uint64_t i = 0; i < size / 8; i++)
        words[i] = word_of(seed, i);
    memcpy(words + size / 8, &last, rest);
}

bool check_matches(const void *bytes, uint64_t size, uint64_t seed)
{
    const uint64_t *words = bytes, rest = size % 8, last = word_of(seed, size / 8);

    for (uint64_t i = 0; i < size / 8; i++)
        if (words[i] != word_of(seed, i))
            return false;
    return memcmp(words + size / 8, &last, rest) == 0;
}

/* Each piece has the bytes of the seed from its own beginning. */
int32_t check_fill_device(struct check *c, uint64_t address, uint64_t size, uint64_t seed)
{
    const uint64_t piece = size < PIECE ? size : PIECE;
    void *bytes = malloc(piece);
    int32_t code = bytes ? 0 : ACL_ERROR_RT_MEMORY_ALLOCATION;

    if (bytes)
        check_fill(bytes, piece, seed);
    for (uint64_t at = 0; at < size && code == 0; at += piece)
        code = check_copy(c, address + at, (uintptr_t)bytes, size - at < piece ? size - at : piece,
                          VENDOR_TO_DEVICE);
    free(bytes);
    return code;
}

int32_t check_matches_device(struct check *c, uint64_t address, uint64_t size, uint64_t seed,
                             bool *matches)
{
    const uint64_t piece = size < PIECE ? size : PIECE;
    void *bytes = calloc(1, piece);
    int32_t code = bytes ? 0 : ACL_ERROR_RT_MEMORY_ALLOCATION;

    *matches = bytes != NULL;
    for (uint64_t at = 0; at + piece <= size && code == 0 && *matches; at += piece) {
        code = check_copy(c, (uintptr_t)bytes, address + at, piece, VENDOR_TO_HOST);
        *matches = check_matches(bytes, piece, seed);
    }
    free(bytes);
    return code;
}

/* --- times --- */

double check_us(uint64_t since)
{
    return (double)(clock_ns() - since) / 1e3;
}

double check_ms(uint64_t since)
{
    return (double)(clock_ns() - since) / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double check_median(double *times, unsigned n)
{
    qsort(times, n, sizeof(*times), compare);
    return n > 0 ? times[n / 2] : 0;
}
