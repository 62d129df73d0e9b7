/* What programs with operators have in some form: tensors of random layout, and numbers in them. */
#pragma once

#include "expect.h"

#include <aclnn/acl_meta.h>

#include <math.h>
#include <string.h>

#define DIMS 8

static inline uint64_t draw(void)
{
    static uint64_t state = 88172645463325252ULL;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static inline int64_t draw_below(int64_t n)
{
    return (int64_t)(draw() % (uint64_t)n);
}

static inline int is_floating(aclDataType type)
{
    return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16 || type == ACL_DOUBLE;
}

/* The distance of neighbours near 1, and a bit. */
static inline double step_of(aclDataType type)
{
    return type == ACL_FLOAT16  ? 1.0e-3
           : type == ACL_BF16   ? 8.0e-3
           : type == ACL_FLOAT  ? 2.5e-7
           : type == ACL_DOUBLE ? 1e-14
                                : 0;
}

static inline void put_number(void *to, aclDataType type, double value)
{
    float single = (float)value;
    uint32_t bits;
    aclFloat16 half;
    int64_t whole = (int64_t)value;
    int32_t word = (int32_t)value;
    uint16_t upper;

    memcpy(&bits, &single, sizeof(bits));
    upper = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    half = aclFloatToFloat16(single);
    switch (type) {
    case ACL_FLOAT:
        memcpy(to, &single, sizeof(single));
        break;
    case ACL_FLOAT16:
        memcpy(to, &half, sizeof(half));
        break;
    case ACL_BF16:
        memcpy(to, &upper, sizeof(upper));
        break;
    case ACL_DOUBLE:
        memcpy(to, &value, sizeof(value));
        break;
    case ACL_INT32:
        memcpy(to, &word, sizeof(word));
        break;
    case ACL_INT64:
        memcpy(to, &whole, sizeof(whole));
        break;
    default:
        *(int8_t *)to = (int8_t)whole;
        break;
    }
}

static inline double get_number(const void *from, aclDataType type)
{
    float single;
    uint16_t half;
    int64_t whole;
    int32_t word;
    double value;
    uint32_t bits;

    switch (type) {
    case ACL_FLOAT:
        memcpy(&single, from, sizeof(single));
        return single;
    case ACL_FLOAT16:
        memcpy(&half, from, sizeof(half));
        return aclFloat16ToFloat(half);
    case ACL_BF16:
        memcpy(&half, from, sizeof(half));
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof(single));
        return single;
    case ACL_DOUBLE:
        memcpy(&value, from, sizeof(value));
        return value;
    case ACL_INT32:
        memcpy(&word, from, sizeof(word));
        return word;
    case ACL_INT64:
        memcpy(&whole, from, sizeof(whole));
        return (double)whole;
    default:
        return *(const int8_t *)from;
    }
}

/* A tensor, its memory on the device, and a copy of that here. */
struct sheet {
    aclDataType type;
    int dims;
    int64_t dim[DIMS], stride[DIMS];
    int64_t offset, room; /* in elements */
    unsigned char *here;
    void *device;
    aclTensor *tensor;
};

static inline size_t size_of(aclDataType type)
{
    return aclDataTypeSize(type);
}

static inline int64_t count_of(const struct sheet *s)
{
    int64_t n = 1;

    for (int i = 0; i < s->dims; i++)
        n *= s->dim[i];
    return n;
}

/* Where element n, in the order of the dimensions, lies. */
static inline int64_t place_of(const struct sheet *s, int64_t n)
{
    int64_t at = s->offset;

    for (int i = s->dims; i-- > 0;) {
        at += n % s->dim[i] * s->stride[i];
        n /= s->dim[i];
    }
    return at;
}

static inline double value_of(const struct sheet *s, int64_t n)
{
    return get_number(s->here + (size_t)place_of(s, n) * size_of(s->type), s->type);
}

/* Dimensions lie in memory in any order, with room between them, or one behind the other. */
static inline void lay_out(struct sheet *s, int plain)
{
    int order[DIMS];
    int64_t next = plain || draw_below(3) ? 1 : 2;

    for (int i = 0; i < s->dims; i++)
        order[i] = s->dims - 1 - i;
    for (int i = s->dims; !plain && i-- > 1;) {
        int other = (int)draw_below(i + 1), kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < s->dims; i++) {
        s->stride[order[i]] = next;
        next *= s->dim[order[i]] > 0 ? s->dim[order[i]] : 1;
        next += plain ? 0 : draw_below(2) * 3;
    }
    s->offset = plain ? 0 : draw_below(5);
    s->room = s->offset + next + 4;
}

static inline void to_device(struct sheet *s)
{
    size_t size = (size_t)s->room * size_of(s->type);

    CALL(aclrtMemcpy(s->device, size, s->here, size, ACL_MEMCPY_HOST_TO_DEVICE));
}

static inline void from_device(struct sheet *s)
{
    size_t size = (size_t)s->room * size_of(s->type);

    CALL(aclrtMemcpy(s->here, size, s->device, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

static inline void make_sheet(struct sheet *s, aclDataType type, int dims, const int64_t *dim,
                              double range)
{
    int plain = draw_below(2) == 0;
    size_t size;

    memset(s, 0, sizeof(*s));
    s->type = type;
    s->dims = dims;
    for (int i = 0; i < dims; i++)
        s->dim[i] = dim[i];
    lay_out(s, plain);
    size = (size_t)s->room * size_of(type);
    s->here = (unsigned char *)malloc(size);
    for (int64_t i = 0; i < s->room; i++) {
        double value = ((double)(draw() >> 11) / 9007199254740992.0 * 2 - 1) * range;

        put_number(s->here + (size_t)i * size_of(type), type, value);
    }
    CALL(aclrtMalloc(&s->device, size, ACL_MEM_MALLOC_HUGE_FIRST));
    to_device(s);
    s->tensor =
        aclCreateTensor(s->dim, (uint64_t)dims, type, plain && draw_below(2) ? NULL : s->stride,
                        s->offset, ACL_FORMAT_ND, &s->room, 1, s->device);
    EXPECT(s->tensor);
}

static inline void free_sheet(struct sheet *s)
{
    CALL(aclDestroyTensor(s->tensor));
    CALL(aclrtFree(s->device));
    free(s->here);
}

/* Only what the view covers has changed: `before` is a copy of s->here. */
static inline void expect_rest(const struct sheet *s, const unsigned char *before, int line)
{
    size_t element = size_of(s->type);
    unsigned char *covered = (unsigned char *)calloc((size_t)s->room, 1);
    int64_t n = count_of(s);

    for (int64_t i = 0; i < n; i++)
        covered[place_of(s, i)] = 1;
    for (size_t i = 0; i < (size_t)s->room; i++)
        expect_truth(covered[i] ||
                         memcmp(before + i * element, s->here + i * element, element) == 0,
                     "memory beside the view is as it was", line);
    free(covered);
}

/* Element n of a shape, as an element of a tensor that is broadcast to it. */
static inline int64_t broadcast_index(const struct sheet *like, int64_t n, const struct sheet *s)
{
    int64_t index = 0, times = 1;

    for (int i = 0; i < s->dims; i++) {
        int from = like->dims - 1 - i, to = s->dims - 1 - i;

        index += (s->dim[to] == 1 ? 0 : n % like->dim[from]) * times;
        n /= like->dim[from];
        times *= s->dim[to];
    }
    return index;
}

static inline aclDataType common_type(aclDataType a, aclDataType b)
{
    if (a == b)
        return a;
    if (is_floating(a) && is_floating(b))
        return a == ACL_DOUBLE || b == ACL_DOUBLE ? ACL_DOUBLE : ACL_FLOAT;
    if (is_floating(a) || is_floating(b))
        return is_floating(a) ? a : b;
    return size_of(a) > size_of(b) ? a : b;
}

static inline void expect_near(double got, double wanted, double tolerance, const char *what,
                               int64_t n, int line)
{
    if (fabs(got - wanted) <= tolerance)
        return;
    fprintf(stderr, "line %d: %s: element %lld is %.17g, and not %.17g (+- %g)\n", line, what,
            (long long)n, got, wanted, tolerance);
    exit(1);
}

/* Two shapes that can be broadcast, and the result. Empty ones are rare. */
static inline int draw_shapes(int64_t *a, int *a_dims, int64_t *b, int *b_dims, int64_t *result)
{
    int dims = (int)draw_below(5);
    int64_t limit = dims < 2 ? 3000 : dims > 2 ? 9 : draw_below(8) ? 70 : 800;

    *a_dims = *b_dims = dims;
    for (int i = 0; i < dims; i++) {
        result[i] = draw_below(40) == 0 ? 0 : 1 + draw_below(limit);
        a[i] = draw_below(4) == 0 ? 1 : result[i];
        b[i] = a[i] == 1 || draw_below(4) ? result[i] : 1;
    }
    for (int cut = 0; cut < dims && result[cut] > 0 && draw_below(3) == 0 && a[cut] == result[cut];
         cut++)
        (*b_dims)--;
    memmove(b, b + dims - *b_dims, (size_t)*b_dims * sizeof(*b));
    return dims;
}
