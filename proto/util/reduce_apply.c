#include "proto/util/reduce_apply.h"

#include "proto/util/float16.h"
#include "proto/util/reduce.h"

#define SAME(x)            (x)
#define LARGER(a, b)       ((a) > (b) || (a) != (a) ? (a) : (b))
#define SMALLER(a, b)      ((a) < (b) || (a) != (a) ? (a) : (b))
#define EQUAL(a, b)        ((a) == (b))
#define WRAPPING_SUM(a, b) ((uint32_t)(a) + (uint32_t)(b))
#define FLOAT_SUM(a, b)    ((a) + (b))

/*
 * One loop per kind, so that compilers can do many elements at once. Not restrict: dst and src may
 * be the same.
 */
#define LOOP(T, value, load, store, op)                                                            \
    for (size_t i = 0; i < n; i++) {                                                               \
        const value a = load(d[i]), b = load(s[i]);                                                \
                                                                                                   \
        d[i] = (T)store(op(a, b));                                                                 \
    }                                                                                              \
    break

#define REDUCER(name, T, value, load, store, sum)                                                  \
    static void name(void *dst, const void *src, size_t bytes, uint32_t kind)                      \
    {                                                                                              \
        const size_t n = bytes / sizeof(T);                                                        \
        const T *s = src;                                                                          \
        T *d = dst;                                                                                \
                                                                                                   \
        switch (kind) {                                                                            \
        case REDUCE_SUM:                                                                           \
            LOOP(T, value, load, store, sum);                                                      \
        case REDUCE_MAX:                                                                           \
            LOOP(T, value, load, store, LARGER);                                                   \
        case REDUCE_MIN:                                                                           \
            LOOP(T, value, load, store, SMALLER);                                                  \
        default:                                                                                   \
            LOOP(T, value, load, store, EQUAL);                                                    \
        }                                                                                          \
    }

REDUCER(reduce_int8, int8_t, int8_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_uint8, uint8_t, uint8_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_int16, int16_t, int16_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_uint16, uint16_t, uint16_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_int32, int32_t, int32_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_uint32, uint32_t, uint32_t, SAME, SAME, WRAPPING_SUM)
REDUCER(reduce_float, float, float, SAME, SAME, FLOAT_SUM)
REDUCER(reduce_float16, uint16_t, float, half_to_float, half_from_float, FLOAT_SUM)
REDUCER(reduce_bf16, uint16_t, float, bf16_to_float, bf16_from_float, FLOAT_SUM)

/* The low four bits as a number from -8 to 7. */
static int half_byte(unsigned bits)
{
    return (int)(bits & 15) - (int)(bits & 8) * 2;
}

static unsigned reduce_half_byte(unsigned x, unsigned y, uint32_t kind)
{
    int a = half_byte(x), b = half_byte(y);

    if (kind == REDUCE_SUM)
        return (unsigned)(a + b) & 15;
    return (unsigned)(kind == REDUCE_MAX ? LARGER(a, b) : SMALLER(a, b)) & 15;
}

static void reduce_int4(void *dst, const void *src, size_t bytes, uint32_t kind)
{
    const uint8_t *s = src;
    uint8_t *d = dst;

    for (size_t i = 0; i < bytes; i++)
        d[i] = (uint8_t)(reduce_half_byte(d[i], s[i], kind) |
                         reduce_half_byte(d[i] >> 4, s[i] >> 4, kind) << 4);
}

void reduce_apply(void *dst, const void *src, size_t bytes, uint32_t kind, uint32_t type)
{
    static void (*const reducers[])(void *dst, const void *src, size_t bytes, uint32_t kind) = {
        [ACL_FLOAT] = reduce_float,   [ACL_FLOAT16] = reduce_float16, [ACL_INT8] = reduce_int8,
        [ACL_INT32] = reduce_int32,   [ACL_UINT8] = reduce_uint8,     [ACL_INT16] = reduce_int16,
        [ACL_UINT16] = reduce_uint16, [ACL_UINT32] = reduce_uint32,   [ACL_BF16] = reduce_bf16,
        [ACL_INT4] = reduce_int4,
    };

    reducers[type](dst, src, bytes, kind);
}
