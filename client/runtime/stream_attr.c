/*
 * Attributes of streams: what a program sets and reads back. Kept here, under the stream's lock;
 * npud is told of the priority alone.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

/* --- failure mode --- */

static int send_stop(struct stream *s, const char *function)
{
    REQUEST(set_failure_mode, SET_FAILURE_MODE, .slot = s->remote);

    return session_command(s->session, function, &request);
}

/*
 * handle NULL is the default stream; only bit 0 of mode counts. 0, 107002, 107003, 107017, 207000.
 */
static int set_failure_mode(const char *function, void *handle, uint64_t mode)
{
    bool stop = mode & ACL_STOP_ON_FAILURE;
    int error = 0;
    struct stream *s = FIND_OR_RETURN(stream_lock, function, handle);

    if (s->flags & ACL_STREAM_DEVICE_USE_ONLY)
        error = error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "%s: not possible with an ACL_STREAM_DEVICE_USE_ONLY stream", function);
    else if (!stop && atomic_load(&s->context->stop))
        error = error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                          "%s: the streams of this context stop on failure, which cannot be taken "
                          "back",
                          function);
    else if (stop && !atomic_load(&s->context->stop)) {
        error = send_stop(s, function);
        if (error == 0)
            atomic_store(&s->context->stop, true);
    }
    stream_unlock(s);
    return error;
}

/* Of a stream of any context. Errors: 107002, 107017. */
static int get_failure_mode(const char *function, void *handle, uint64_t *mode)
{
    int error;
    struct stream *s = stream_find(function, handle, &error);

    if (s)
        *mode = atomic_load(&s->context->stop) ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
    return error;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    CALL_SCOPE;

    return set_failure_mode(__func__, stream, mode);
}

/* --- attributes --- */

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
    REQUEST(set_stream_priority, SET_STREAM_PRIORITY, .slot = s->remote,
            .priority = priority > STREAM_PRIORITY_LEAST ? STREAM_PRIORITY_LEAST : priority);
    int error = session_command(s->session, function, &request);
    if (error == 0)
        s->priority = in.priority;
    return error;
}

static int unknown_attribute(const char *function, aclrtStreamAttr attribute)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no attribute %d", function,
                     (int)attribute);
}

static int set_attribute(struct stream *s, const char *function, aclrtStreamAttr attribute,
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

static int get_attribute(const struct stream *s, const char *function, aclrtStreamAttr attribute,
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
        return set_failure_mode(__func__, stream, value->failureMode);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = set_attribute(s, __func__, stmAttrType, value);
    stream_unlock(s);
    return error;
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value)
{
    CALL_SCOPE;
    REQUIRE(value);
    int error = 0;
    struct stream *s = FIND_OR_RETURN(stream_lock, __func__, stream);

    if (stmAttrType != ACL_STREAM_ATTR_FAILURE_MODE)
        error = get_attribute(s, __func__, stmAttrType, value);
    stream_unlock(s);
    /*
     * That one is the context's, and has its own lock. The stream was found to be of the current
     * one.
     */
    if (stmAttrType == ACL_STREAM_ATTR_FAILURE_MODE)
        error = get_failure_mode(__func__, stream, &value->failureMode);
    return error;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;
    struct stream *s;

    if (flag > 1)
        return bad_switch(__func__, ACL_ERROR_INVALID_PARAM, flag);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    s->overflow_check = flag;
    stream_unlock(s);
    return 0;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag)
{
    CALL_SCOPE;
    REQUIRE(flag);
    struct stream *s = FIND_OR_RETURN(stream_lock, __func__, stream);

    *flag = s->overflow_check;
    stream_unlock(s);
    return 0;
}

aclError aclrtPersistentTaskClean(aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s = FIND_OR_RETURN(stream_lock, __func__, stream);

    stream_unlock(s);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtPersistentTaskClean: there are no models here, and a stream with "
                     "ACL_STREAM_PERSISTENT runs its tasks and keeps none");
}
