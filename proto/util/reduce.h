/*
 * Which reductions there are: aclrtReduceKind and aclDataType pairs, known to the library, which
 * refuses the rest, and to npud, which does not rely on that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"

/* aclrtReduceKind. */
enum reduce_kind {
    REDUCE_SUM = 10,
    REDUCE_MAX = 11,
    REDUCE_MIN = 12,
    REDUCE_EQUAL = 13,
};

/** Bytes of an element of a type that can be reduced; 0: it cannot. Two ACL_INT4 share one. */
static inline size_t reduce_element(uint32_t type)
{
    switch (type) {
    case ACL_INT4:
    case ACL_INT8:
    case ACL_UINT8:
        return 1;
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_FLOAT16:
    case ACL_BF16:
        return 2;
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static inline bool reduce_kind_known(uint32_t kind)
{
    return kind >= REDUCE_SUM && kind <= REDUCE_EQUAL;
}

/** All kinds for all types, but EQUAL for half bytes. */
static inline bool reduce_offered(uint32_t kind, uint32_t type)
{
    return reduce_kind_known(kind) && reduce_element(type) != 0 &&
           !(kind == REDUCE_EQUAL && type == ACL_INT4);
}
