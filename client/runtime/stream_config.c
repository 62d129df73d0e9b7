/* Creating streams from a configuration (small devices), and how many more there can be. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "client/runtime/context.h"
#include "client/core/error.h"
#include "client/runtime/stream.h"

aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void)
{
    CALL_SCOPE;
    aclrtStreamConfigHandle *handle = NULL;

    if (process_enter() != 0)
        return NULL;
    handle = calloc(1, sizeof(*handle));
    if (!handle)
        error_no_memory(__func__);
    return handle;
}

aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle)
{
    CALL_SCOPE;

    REQUIRE(handle);
    free(handle);
    return 0;
}

aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
                                 const void *attrValue, size_t valueSize)
{
    CALL_SCOPE;
    static const struct {
        size_t offset, size;
    } rows[] = {
        [ACL_RT_STREAM_WORK_ADDR_PTR] = {offsetof(aclrtStreamConfigHandle, workptr),
                                         sizeof(void *)},
        [ACL_RT_STREAM_WORK_SIZE] = {offsetof(aclrtStreamConfigHandle, workSize), sizeof(size_t)},
        [ACL_RT_STREAM_FLAG] = {offsetof(aclrtStreamConfigHandle, flag), sizeof(size_t)},
        [ACL_RT_STREAM_PRIORITY] = {offsetof(aclrtStreamConfigHandle, priority), sizeof(uint32_t)},
    };
    uint32_t priority;

    REQUIRE(handle);
    REQUIRE(attrValue);
    if ((unsigned)attr >= sizeof(rows) / sizeof(rows[0]))
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtSetStreamConfigOpt: there is no attribute %d", (int)attr);
    if (valueSize != rows[attr].size)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "aclrtSetStreamConfigOpt: attribute %d has %zu bytes, not %zu", (int)attr,
                         rows[attr].size, valueSize);
    if (attr == ACL_RT_STREAM_PRIORITY) {
        memcpy(&priority, attrValue, sizeof(priority));
        if (priority > STREAM_PRIORITY_LEAST)
            return error_set(ACL_ERROR_INVALID_PARAM,
                             "aclrtSetStreamConfigOpt: priority %u is more than %d", priority,
                             STREAM_PRIORITY_LEAST);
    }
    memcpy((char *)handle + rows[attr].offset, attrValue, valueSize);
    return 0;
}

aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle)
{
    CALL_SCOPE;

    REQUIRE(stream);
    if (!handle)
        return stream_create(__func__, 0, STREAM_FLAGS_DEFAULT, stream);
    /* The workspace is for devices that have no memory of their own for a stream. */
    return stream_create(__func__, handle->priority, (uint32_t)handle->flag, stream);
}

aclError aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    CALL_SCOPE;
    REQUIRE(streamCount);
    Npud__Reply *reply = NULL;
    struct context *c = FIND_OR_RETURN(context_get, __func__);
    REQUEST(streams_left, STREAMS_LEFT, .device = c->device);

    RETURN_IF_ERROR(session_request(c->session, __func__, &request, &reply, NULL));
    *streamCount = reply->streams_left->streams;
    if (*streamCount > 0 && context_will_copy(c))
        --*streamCount;
    session_reply_free(reply);
    return 0;
}
