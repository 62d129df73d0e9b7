/* What programs read of the records that a pipe has delivered. */
#include "client/profile/operator_record.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/api_call.h"
#include "client/core/error.h"

static bool is_text(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static int check_record(const char *function, const struct operator_record *r)
{
    if (r->magic == OPERATOR_RECORD_MAGIC && is_text(r->thread, sizeof(r->thread)) &&
        is_text(r->type, sizeof(r->type)) && is_text(r->name, sizeof(r->name)))
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: the buffer has something else than records from the pipe of a "
                     "subscription",
                     function);
}

static int check_size(const char *function, const void *info, size_t size)
{
    if (!info)
        return error_null(function, "opInfo");
    if (size != 0 && size % sizeof(struct operator_record) == 0)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM,
                     "%s: opInfoLen is %zu, and must be a multiple of %zu: of aclprofGetOpDescSize",
                     function, size, sizeof(struct operator_record));
}

/* NULL, with *error and its sentence: there is none. */
static const struct operator_record *record_at(const char *function, const void *info, size_t size,
                                               uint32_t index, int *error)
{
    const struct operator_record *r = info;
    size_t n = size / sizeof(*r);

    *error = check_size(function, info, size);
    if (*error == 0 && index >= n)
        *error = error_set(ACL_ERROR_INVALID_PARAM,
                           "%s: index is %u, and the buffer has %zu records, from 0", function,
                           index, n);
    if (*error == 0)
        *error = check_record(function, &r[index]);
    return *error == 0 ? &r[index] : NULL;
}

aclError aclprofGetOpDescSize(size_t *opDescSize)
{
    CALL_SCOPE;

    REQUIRE(opDescSize);
    *opDescSize = sizeof(struct operator_record);
    return 0;
}

aclError aclprofGetOpNum(const void *opInfo, size_t opInfoLen, uint32_t *opNumber)
{
    CALL_SCOPE;
    const struct operator_record *r = opInfo;
    size_t n = opInfoLen / sizeof(*r);

    REQUIRE(opNumber);
    RETURN_IF_ERROR(check_size(__func__, opInfo, opInfoLen));
    for (size_t i = 0; i < n; i++)
        RETURN_IF_ERROR(check_record(__func__, &r[i]));
    *opNumber = (uint32_t)n;
    return 0;
}

/* --- texts: their length with the end, and themselves --- */

static int copy_text(const char *function, const char *text, char *to, size_t size)
{
    size_t needed = strlen(text) + 1;

    if (size < needed)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: there is room for %zu bytes, and the text has %zu with its end",
                         function, size, needed);
    memcpy(to, text, needed);
    return 0;
}

#define TEXT_GETTERS(length_function_, text_function_, member_)                                    \
    aclError length_function_(const void *opInfo, size_t opInfoLen, uint32_t index,                \
                              size_t *length)                                                      \
    {                                                                                              \
        CALL_SCOPE;                                                                                \
        const struct operator_record *r;                                                           \
                                                                                                   \
        REQUIRE(length);                                                                           \
        r = FIND_OR_RETURN(record_at, __func__, opInfo, opInfoLen, index);                         \
        *length = strlen(r->member_) + 1;                                                          \
        return 0;                                                                                  \
    }                                                                                              \
                                                                                                   \
    aclError text_function_(const void *opInfo, size_t opInfoLen, uint32_t index, char *text,      \
                            size_t length)                                                         \
    {                                                                                              \
        CALL_SCOPE;                                                                                \
        const struct operator_record *r;                                                           \
                                                                                                   \
        REQUIRE(text);                                                                             \
        r = FIND_OR_RETURN(record_at, __func__, opInfo, opInfoLen, index);                         \
        return copy_text(__func__, r->member_, text, length);                                      \
    }

TEXT_GETTERS(aclprofGetOpTypeLen, aclprofGetOpType, type)
TEXT_GETTERS(aclprofGetOpNameLen, aclprofGetOpName, name)

const char *aclprofGetOpAttriValue(const void *opInfo, size_t opInfoLen, uint32_t index,
                                   aclprofSubscribeOpAttri attri)
{
    CALL_SCOPE;
    int error;
    const struct operator_record *r = record_at(__func__, opInfo, opInfoLen, index, &error);

    if (r && attri != ACL_SUBSCRIBE_ATTRI_THREADID)
        error_set(ACL_ERROR_INVALID_PARAM,
                  "%s: attri is %d, and must be ACL_SUBSCRIBE_ATTRI_THREADID (0)", __func__,
                  (int)attri);
    return r && attri == ACL_SUBSCRIBE_ATTRI_THREADID ? r->thread : NULL;
}

/* --- numbers --- */

#define NUMBER_GETTER(result_, function_, value_, otherwise_)                                      \
    result_ function_(const void *opInfo, size_t opInfoLen, uint32_t index)                        \
    {                                                                                              \
        CALL_SCOPE;                                                                                \
        int error;                                                                                 \
        const struct operator_record *r = record_at(__func__, opInfo, opInfoLen, index, &error);   \
                                                                                                   \
        return r ? (value_) : (otherwise_);                                                        \
    }

NUMBER_GETTER(uint64_t, aclprofGetOpStart, r->begin_us, 0)
NUMBER_GETTER(uint64_t, aclprofGetOpEnd, r->end_us, 0)
NUMBER_GETTER(uint64_t, aclprofGetOpDuration, r->end_us - r->begin_us, 0)
NUMBER_GETTER(size_t, aclprofGetModelId, r->model, (size_t)error)
NUMBER_GETTER(aclprofSubscribeOpFlag, aclprofGetOpFlag, ACL_SUBSCRIBE_OP, ACL_SUBSCRIBE_NONE)
