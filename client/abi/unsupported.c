/*
 * What the library does not implement: every function of the interface that has no code elsewhere
 * is defined here, so that programs link and start. Each reports its own name through
 * error_unsupported() and answers ACL_ERROR_RT_FEATURE_NOT_SUPPORT, or what its kind of result has
 * for "nothing". The compiler compares the signatures with the declarations in include/acl/.
 */
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_platform.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "client/core/error.h"

/* The functions look at none of their parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define STATUS(name, ...)                                                                          \
    aclError name(__VA_ARGS__)                                                                     \
    {                                                                                              \
        return error_unsupported(#name);                                                           \
    }

#define VALUE(type, nothing, name, ...)                                                            \
    type name(__VA_ARGS__)                                                                         \
    {                                                                                              \
        error_unsupported(#name);                                                                  \
        return nothing;                                                                            \
    }

#define DESTRUCTOR(name, ...)                                                                      \
    void name(__VA_ARGS__)                                                                         \
    {                                                                                              \
    }

#include "client/abi/unsupported.inc"
