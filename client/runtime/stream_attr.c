/*
 * Attributes of streams: what a program sets and reads back. Kept here, under the stream's lock;
 * npud is told of the priority alone.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/event/failure.h"
#include "client/runtime/stream.h"

static int bad_switch(const char *function, int code, uint32_t value)
{
    return error_set(code, "%s: the switch is %u, must be 0 or 1", function, value);
}

static int set_switch(const char *function, uint32_t *which, uint32_t value)
{
    if (value > 1)
        return bad_switch(function, ACL_ERROR_RT_PARAM_INVALID, value);
    *which = value;
    return 0;
}

static int set_priority(struct stream *s, const char *function, uint32_t priority)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__SetStreamPriority in = NPUD__SET_STREAM_PRIORITY__INIT;
    int error;

    in.slot = s->remote;
    in.priority = priority > STREAM_PRIORITY_LEAST ? STREAM_PRIORITY_LEAST : priority;
    request.set_stream_priority = &in;
    request.body_case = NPUD__REQUEST__BODY_SET_STREAM_PRIORITY;
    error = session_command(s->session, function, &request);
    if (error == 0)
        s->priority = in.priority;
    return error;
}

static int unknown_attribute(const char *function, aclrtStreamAttr attribute)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no attribute %d", function,
                     (int)attribute);
}

static int set(struct stream *s, const char *function, aclrtStreamAttr attribute,
               const aclrtStreamAttrValue *value)
{
    switch (attribute) {
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        return set_switch(function, &s->overflow_check, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        s->custom_tag = value->userCustomTag;
        return 0;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        return set_switch(function, &s->cache_op_info, value->cacheOpInfoSwitch);
    case ACL_STREAM_ATTR_PRIORITY:
        return set_priority(s, function, value->streamPriority);
    default:
        return unknown_attribute(function, attribute);
    }
}

static int get(const struct stream *s, const char *function, aclrtStreamAttr attribute,
               aclrtStreamAttrValue *value)
{
    switch (attribute) {
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        value->overflowSwitch = s->overflow_check;
        return 0;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        value->userCustomTag = s->custom_tag;
        return 0;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        value->cacheOpInfoSwitch = s->cache_op_info;
        return 0;
    case ACL_STREAM_ATTR_PRIORITY:
        value->streamPriority = s->priority;
        return 0;
    default:
        return unknown_attribute(function, attribute);
    }
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(value);
    if (stmAttrType == ACL_STREAM_ATTR_PRIORITY && !stream)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSetStreamAttribute: the default stream's priority is fixed");
    if (stmAttrType == ACL_STREAM_ATTR_FAILURE_MODE)
        return stream_set_failure_mode(__func__, stream, value->failureMode);
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    error = set(s, __func__, stmAttrType, value);
    stream_unlock(s);
    return error;
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(value);
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    if (stmAttrType != ACL_STREAM_ATTR_FAILURE_MODE)
        error = get(s, __func__, stmAttrType, value);
    stream_unlock(s);
    /*
     * That one is the context's, and has its own lock. The stream was found to be of the current
     * one.
     */
    if (stmAttrType == ACL_STREAM_ATTR_FAILURE_MODE)
        error = stream_get_failure_mode(__func__, stream, &value->failureMode);
    return error;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    if (flag > 1)
        return bad_switch(__func__, ACL_ERROR_INVALID_PARAM, flag);
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    s->overflow_check = flag;
    stream_unlock(s);
    return 0;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(flag);
    s = stream_lock(__func__, stream, &error);
    if (!s)
        return error;
    *flag = s->overflow_check;
    stream_unlock(s);
    return 0;
}

aclError aclrtPersistentTaskClean(aclrtStream stream)
{
    CALL_SCOPE;
    int error;
    struct stream *s = stream_lock(__func__, stream, &error);

    if (!s)
        return error;
    stream_unlock(s);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtPersistentTaskClean: there are no models here, and a stream with "
                     "ACL_STREAM_PERSISTENT runs its tasks and keeps none");
}
