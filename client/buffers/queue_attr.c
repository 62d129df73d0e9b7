#include "client/buffers/queue_attr.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/process.h"

/* What each attribute is passed in: by pointer to a pointer, or by pointer to a number. */
static const size_t sizes[] = {
    [ACL_TDT_QUEUE_NAME_PTR] = sizeof(const char *),
    [ACL_TDT_QUEUE_DEPTH_UINT32] = sizeof(uint32_t),
};

static int check_type(const char *function, acltdtQueueAttrType type)
{
    if ((unsigned)type < sizeof(sizes) / sizeof(sizes[0]))
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: attribute %d: queues have those from 0 to %zu",
                     function, (int)type, sizeof(sizes) / sizeof(sizes[0]) - 1);
}

acltdtQueueAttr *acltdtCreateQueueAttr(void)
{
    CALL_SCOPE;
    acltdtQueueAttr *attr;

    if (process_enter() != 0)
        return NULL;
    attr = calloc(1, sizeof(*attr));
    if (attr)
        attr->depth = QUEUE_DEPTH_DEFAULT;
    else
        error_store(ACL_ERROR_BAD_ALLOC, "%s: out of memory", __func__);
    return attr;
}

aclError acltdtDestroyQueueAttr(const acltdtQueueAttr *attr)
{
    CALL_SCOPE;

    REQUIRE(attr);
    free((void *)(uintptr_t)attr); /* the interface has it const, the object is not */
    return 0;
}

static int set_name(acltdtQueueAttr *attr, const char *function, const char *name)
{
    size_t length;

    if (!name)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: param points to NULL: it must point to a pointer to the name",
                         function);
    length = strnlen(name, QUEUE_NAME);
    if (length == QUEUE_NAME)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: the name has more than %u characters",
                         function, QUEUE_NAME - 1);
    /* It may be what acltdtGetQueueAttr lent, or the end of that. */
    memmove(attr->name, name, length);
    attr->name[length] = '\0';
    return 0;
}

aclError acltdtSetQueueAttr(acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len,
                            const void *param)
{
    CALL_SCOPE;
    const char *name;

    REQUIRE(attr);
    REQUIRE(param);
    RETURN_IF_ERROR(check_type(__func__, type));
    if (len != sizes[type])
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, attribute %d is set with %zu%s",
                         __func__, len, (int)type, sizes[type],
                         type == ACL_TDT_QUEUE_NAME_PTR ? ", the size of a pointer to the name"
                                                        : "");
    if (type == ACL_TDT_QUEUE_DEPTH_UINT32) {
        memcpy(&attr->depth, param, sizeof(attr->depth));
        return 0;
    }
    memcpy(&name, param, sizeof(name));
    return set_name(attr, __func__, name);
}

aclError acltdtGetQueueAttr(const acltdtQueueAttr *attr, acltdtQueueAttrType type, size_t len,
                            size_t *paramRetSize, void *param)
{
    CALL_SCOPE;
    const char *name;

    REQUIRE(attr);
    REQUIRE(paramRetSize);
    REQUIRE(param);
    RETURN_IF_ERROR(check_type(__func__, type));
    if (len < sizes[type])
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: len is %zu, attribute %d needs room for %zu",
                         __func__, len, (int)type, sizes[type]);
    name = attr->name;
    memcpy(param, type == ACL_TDT_QUEUE_NAME_PTR ? (const void *)&name : &attr->depth, sizes[type]);
    *paramRetSize = sizes[type];
    return 0;
}
