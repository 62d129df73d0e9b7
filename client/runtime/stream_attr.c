/*
 * Attributes of streams: what a program sets and reads back. Kept here, under the stream's lock;
 * npud is told of the priority alone.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

/* --- what is set; the stream is locked --- */

/* Only bit 0 of mode counts. 0, 207000. */
static int set_failure_mode(struct stream *s, const char *function, uint64_t mode)
{
    bool stop = mode & ACL_STOP_ON_FAILURE;
    REQUEST(set_failure_mode, SET_FAILURE_MODE, .slot = s->remote);

    if (s->flags & ACL_STREAM_DEVICE_USE_ONLY)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: not possible with an ACL_STREAM_DEVICE_USE_ONLY stream", function);
    if (stop == atomic_load(&s->context->stop))
        return 0;
    if (!stop)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: the streams of this context stop on failure, which cannot be taken "
                         "back",
                         function);
    RETURN_IF_ERROR(session_command(s->session, function, &request));
    atomic_store(&s->context->stop, true);
    return 0;
}

static int set_priority(struct stream *s, const char *function, uint32_t priority)
{
    REQUEST(set_stream_priority, SET_STREAM_PRIORITY, .slot = s->remote,
            .priority = priority > STREAM_PRIORITY_LEAST ? STREAM_PRIORITY_LEAST : priority);

    RETURN_IF_ERROR(session_command(s->session, function, &request));
    s->priority = in.priority;
    return 0;
}

static int bad_switch(const char *function, int code, uint32_t value)
{
    return error_set(code, "%s: the switch is %u, must be 0 or 1", function, value);
}

static int unknown_attribute(const char *function, aclrtStreamAttr attribute)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no attribute %d", function,
                     (int)attribute);
}

/* An attribute that is a number of the stream; NULL: it is another one, or none. */
static uint32_t *number_of(struct stream *s, aclrtStreamAttr attribute)
{
    switch (attribute) {
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        return &s->overflow_check;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        return &s->custom_tag;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        return &s->cache_op_info;
    case ACL_STREAM_ATTR_PRIORITY:
        return &s->priority;
    case ACL_STREAM_LAUNCH_BLOCKING_MODE:
        return &s->launch_blocking;
    default:
        return NULL;
    }
}

static int set_locked(struct stream *s, const char *function, aclrtStreamAttr attribute,
                      const aclrtStreamAttrValue *value)
{
    uint32_t *number = number_of(s, attribute);
    uint32_t n = value->userCustomTag; /* all numbers of the union lie in one place */

    if (attribute == ACL_STREAM_ATTR_FAILURE_MODE)
        return set_failure_mode(s, function, value->failureMode);
    if (!number)
        return unknown_attribute(function, attribute);
    if (attribute == ACL_STREAM_ATTR_PRIORITY)
        return set_priority(s, function, n);
    if (attribute == ACL_STREAM_LAUNCH_BLOCKING_MODE) {
        if (n > ACL_STREAM_LAUNCH_BLOCKING_MODE_BLOCKING)
            return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no mode %u", function, n);
    } else if (attribute != ACL_STREAM_ATTR_USER_CUSTOM_TAG && n > 1)
        return bad_switch(function, ACL_ERROR_RT_PARAM_INVALID, n);
    *number = n;
    return 0;
}

static int get_locked(struct stream *s, const char *function, aclrtStreamAttr attribute,
                      aclrtStreamAttrValue *value)
{
    const uint32_t *number = number_of(s, attribute);

    if (attribute == ACL_STREAM_ATTR_FAILURE_MODE)
        value->failureMode =
            atomic_load(&s->context->stop) ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
    else if (number)
        value->userCustomTag = *number;
    else
        return unknown_attribute(function, attribute);
    return 0;
}

/* --- by handle: NULL is the default stream --- */

/* What a recorded task may have been given. */
static bool capture_refuses(struct stream *s, aclrtStreamAttr attribute)
{
    return stream_captures(s) && (attribute == ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK ||
                                  attribute == ACL_STREAM_ATTR_USER_CUSTOM_TAG);
}

static int set_attribute(const char *function, aclrtStream handle, aclrtStreamAttr attribute,
                         const aclrtStreamAttrValue *value)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, handle);
    int error = capture_refuses(s, attribute) ? upcalls->capture_refuse_stream(s, function)
                                              : set_locked(s, function, attribute, value);

    stream_unlock(s);
    return error;
}

static int get_attribute(const char *function, aclrtStream handle, aclrtStreamAttr attribute,
                         aclrtStreamAttrValue *value)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, handle);
    int error = get_locked(s, function, attribute, value);

    stream_unlock(s);
    return error;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    CALL_SCOPE;

    return set_attribute(__func__, stream, ACL_STREAM_ATTR_FAILURE_MODE,
                         &(aclrtStreamAttrValue){.failureMode = mode});
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value)
{
    CALL_SCOPE;

    REQUIRE(value);
    if (stmAttrType == ACL_STREAM_ATTR_PRIORITY && !stream)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtSetStreamAttribute: the default stream's priority is fixed");
    return set_attribute(__func__, stream, stmAttrType, value);
}

aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                 aclrtStreamAttrValue *value)
{
    CALL_SCOPE;

    REQUIRE(value);
    return get_attribute(__func__, stream, stmAttrType, value);
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;

    if (flag > 1)
        return bad_switch(__func__, ACL_ERROR_INVALID_PARAM, flag);
    return set_attribute(__func__, stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK,
                         &(aclrtStreamAttrValue){.overflowSwitch = flag});
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag)
{
    CALL_SCOPE;
    aclrtStreamAttrValue value;

    REQUIRE(flag);
    RETURN_IF_ERROR(get_attribute(__func__, stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    *flag = value.overflowSwitch;
    return 0;
}

aclError aclrtPersistentTaskClean(aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s = FIND_OR_RETURN(stream_lock, __func__, stream);

    stream_unlock(s);
    return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                     "aclrtPersistentTaskClean: a stream with "
                     "ACL_STREAM_PERSISTENT runs its tasks and keeps none");
}
