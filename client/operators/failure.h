/* Sentences about failures, for aclGetRecentErrMsg(). */
#pragma once

#include "aclnn/acl_meta.h"

/**
 * Record the sentence for the calling thread; the value is the code, which is not 0. A macro, so
 * that compilers and analysers see that.
 */
#define failure_tell(code, ...)                                                                    \
    ({                                                                                             \
        aclnnStatus told_ = failure_store((code), __VA_ARGS__);                                    \
        if (told_ == ACLNN_SUCCESS)                                                                \
            __builtin_unreachable();                                                               \
        told_;                                                                                     \
    })

aclnnStatus failure_store(aclnnStatus code, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/** An argument is NULL that must not be: ACLNN_ERR_PARAM_NULLPTR. */
#define failure_null(api, argument)                                                                \
    failure_tell(ACLNN_ERR_PARAM_NULLPTR, "%s: %s is NULL", (api), (argument))

#define RETURN_IF_FAILED(step)                                                                     \
    do {                                                                                           \
        aclnnStatus status_ = (step);                                                              \
        if (status_ != ACLNN_SUCCESS)                                                              \
            return status_;                                                                        \
    } while (0)

#define REQUIRE(argument)                                                                          \
    do {                                                                                           \
        if (!(argument))                                                                           \
            return failure_null(__func__, #argument);                                              \
    } while (0)
