#include "client/operators/data_type.h"

#include "proto/util/float16.h"

/*
 * Numbers on their way to 16 bits are rounded to odd in single precision: what is rounded to
 * nearest from there is as if it were rounded once.
 */
static float odd_from_real(double x)
{
    float near = (float)x;
    bool above = (double)near > x, below = (double)near < x;

    if (!above && !below) /* or NaN */
        return near;
    return float_from_bits((bits_of_float(near) - (x > 0 ? above : below)) | 1);
}

/* Twelve bits less, rounded to odd, are what double precision has of any large one. */
static float odd_from_whole(int64_t x)
{
    bool large = x >> 52 != 0 && x >> 52 != -1;

    return odd_from_real((double)(large ? (x >> 12 | ((x & 0xFFF) != 0)) * 0x1000 : x));
}

#define AS_IS(x)     (x)
#define AS_BOOL(x)   ((x) != 0)
#define FROM_HALF(x) ((double)half_to_float(x))
#define FROM_BF16(x) ((double)bf16_to_float(x))
#define TO_ODD(x)    _Generic((x), double : odd_from_real, int64_t : odd_from_whole)(x)
#define TO_HALF(x)   half_from_float(TO_ODD(x))
#define TO_BF16(x)   bf16_from_float(TO_ODD(x))

/* Two loops: the compiler makes the first one, which most tensors take, wide. */
#define LOADER(name, number, element, convert)                                                     \
    static void name(number *to, const void *from, int64_t stride, size_t n)                       \
    {                                                                                              \
        const element *source = from;                                                              \
                                                                                                   \
        if (stride == 1)                                                                           \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = (number)convert(source[i]);                                                \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = (number)convert(source[(int64_t)i * stride]);                              \
    }

#define STORER(name, number, element, convert)                                                     \
    static void name(void *to, int64_t stride, const number *from, size_t n)                       \
    {                                                                                              \
        element *target = to;                                                                      \
                                                                                                   \
        if (stride == 1)                                                                           \
            for (size_t i = 0; i < n; i++)                                                         \
                target[i] = (element)convert(from[i]);                                             \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                target[(int64_t)i * stride] = (element)convert(from[i]);                           \
    }

#define FLOATING(name, element, widen, narrow)                                                     \
    LOADER(name##_load_real, double, element, widen)                                               \
    STORER(name##_store_real, double, element, narrow)                                             \
    STORER(name##_store_whole, int64_t, element, narrow)

#define WHOLE(name, element, convert)                                                              \
    LOADER(name##_load_whole, int64_t, element, convert)                                           \
    STORER(name##_store_whole, int64_t, element, convert)

FLOATING(float, float, AS_IS, AS_IS)
FLOATING(double, double, AS_IS, AS_IS)
FLOATING(half, uint16_t, FROM_HALF, TO_HALF)
FLOATING(bf16, uint16_t, FROM_BF16, TO_BF16)
WHOLE(int8, int8_t, AS_IS)
WHOLE(int16, int16_t, AS_IS)
WHOLE(int32, int32_t, AS_IS)
WHOLE(int64, int64_t, AS_IS)
WHOLE(uint8, uint8_t, AS_IS)
WHOLE(bool, uint8_t, AS_BOOL)

#define FLOATING_ROW(type, f, bytes)                                                               \
    {                                                                                              \
        .id = (type), .name = #type, .size = (bytes), .class = TYPE_FLOATING,                      \
        .load_real = f##_load_real, .store_real = f##_store_real, .store_whole = f##_store_whole   \
    }

#define WHOLE_ROW(type, f, bytes, kind)                                                            \
    {                                                                                              \
        .id = (type), .name = #type, .size = (bytes), .class = (kind),                             \
        .load_whole = f##_load_whole, .store_whole = f##_store_whole                               \
    }

static const struct data_type types[] = {
    FLOATING_ROW(ACL_FLOAT, float, 4),
    FLOATING_ROW(ACL_FLOAT16, half, 2),
    FLOATING_ROW(ACL_BF16, bf16, 2),
    FLOATING_ROW(ACL_DOUBLE, double, 8),
    WHOLE_ROW(ACL_INT8, int8, 1, TYPE_INTEGER),
    WHOLE_ROW(ACL_INT16, int16, 2, TYPE_INTEGER),
    WHOLE_ROW(ACL_INT32, int32, 4, TYPE_INTEGER),
    WHOLE_ROW(ACL_INT64, int64, 8, TYPE_INTEGER),
    WHOLE_ROW(ACL_UINT8, uint8, 1, TYPE_INTEGER),
    WHOLE_ROW(ACL_BOOL, bool, 1, TYPE_BOOL),
};

bool data_type_exists(aclDataType id)
{
    switch ((int)id) {
    case ACL_FLOAT ... ACL_UINT8:
    case ACL_INT16 ... ACL_STRING:
    case ACL_COMPLEX64:
    case ACL_COMPLEX128:
    case ACL_BF16:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_COMPLEX32 ... ACL_FLOAT4_E1M2:
        return true;
    default:
        return false;
    }
}

const struct data_type *data_type_find(aclDataType id)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const struct data_type *data_type_promote(const struct data_type *a, const struct data_type *b)
{
    if (a == b)
        return a;
    if (a->class != b->class)
        return a->class > b->class ? a : b;
    if (a->size != b->size)
        return a->size > b->size ? a : b;
    /* ACL_FLOAT16 and ACL_BF16, or ACL_INT8 and ACL_UINT8: neither has the range of the other. */
    return data_type_find(a->class == TYPE_FLOATING ? ACL_FLOAT : ACL_INT16);
}

const struct data_type *data_type_promote_scalar(const struct data_type *tensor,
                                                 const struct data_type *scalar)
{
    if (scalar->class <= tensor->class)
        return tensor;
    return scalar->class == TYPE_FLOATING ? data_type_find(ACL_FLOAT) : scalar;
}

bool data_type_converts(const struct data_type *from, const struct data_type *to)
{
    return from->class <= to->class;
}
