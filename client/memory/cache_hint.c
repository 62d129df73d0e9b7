/*
 * Hints to the cache of a device. Memory of a simulated device is coherent for all that use it, so
 * a hint has nothing to do: the calls check what they are given, and need no task.
 */
#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/direct.h"
#include "client/memory/place.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

/* What aclrtCmoSetDesc() writes. */
struct hint_desc {
    uint64_t address;
    uint64_t size;
};

static int check_type(const char *function, aclrtCmoType type)
{
    if ((unsigned)type <= ACL_RT_CMO_TYPE_FLUSH)
        return 0;
    return error_set(ACL_ERROR_INVALID_PARAM, "%s: cmoType is %d, must be 0 to %d", function,
                     (int)type, ACL_RT_CMO_TYPE_FLUSH);
}

/* Device memory, if `what` is not NULL: a name for the sentence. */
static int give_hint(const char *function, const char *what, const void *address, size_t size,
                     aclrtStream stream)
{
    struct stream *s = FIND_OR_RETURN(stream_lock, function, stream);
    struct place at;
    int error = 0;

    if (what)
        error = place_find_device(s->session, function, s->device, what, address,
                                  place_named(s->session, address, size), &at);
    if (error == 0)
        error = stream_check(s, function);
    if (error == 0)
        stream_count_implicit(s);
    stream_unlock(s);
    return error;
}

static int hint_range(const char *function, void *src, size_t size, aclrtCmoType type,
                      aclrtStream stream)
{
    if (!src)
        return error_null(function, "src");
    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: size is 0", function);
    RETURN_IF_ERROR(check_type(function, type));
    return give_hint(function, "src", src, size, stream);
}

aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream)
{
    CALL_SCOPE;

    return hint_range(__func__, src, size, cmoType, stream);
}

aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
                                  aclrtStream stream)
{
    CALL_SCOPE;

    (void)barrierId; /* the hint is complete at once, so a wait for it passes */
    return hint_range(__func__, src, size, cmoType, stream);
}

aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag)
{
    CALL_SCOPE;

    REQUIRE(taskInfo); /* which barriers it names does not matter: no hint is outstanding */
    if (flag != 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtCmoWaitBarrier: flag is %u, must be 0",
                         flag);
    return give_hint(__func__, NULL, NULL, 0, stream);
}

aclError aclrtCmoGetDescSize(size_t *size)
{
    CALL_SCOPE;

    REQUIRE(size);
    *size = sizeof(struct hint_desc);
    return 0;
}

/* cmoDesc is device memory, with room for a descriptor. */
aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size)
{
    CALL_SCOPE;
    struct hint_desc desc = {.address = (uintptr_t)src, .size = size};
    struct context *c;
    struct place at, of;

    REQUIRE(cmoDesc);
    REQUIRE(src);
    if (size == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtCmoSetDesc: size is 0");
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(
        place_find_device(c->session, __func__, c->device, "cmoDesc", cmoDesc, sizeof(desc), &at));
    RETURN_IF_ERROR(place_find_device(c->session, __func__, c->device, "src", src,
                                      place_named(c->session, src, size), &of));
    RETURN_IF_ERROR(direct_write(c->session, __func__, &at, &desc, sizeof(desc)));
    return place_tell_written(c->session, __func__, &at, sizeof(desc));
}

aclError aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream,
                               const void *reserve)
{
    CALL_SCOPE;

    REQUIRE(cmoDesc);
    if (reserve)
        return error_set(ACL_ERROR_INVALID_PARAM, "aclrtCmoAsyncWithDesc: reserve must be NULL");
    RETURN_IF_ERROR(check_type(__func__, cmoType));
    return give_hint(__func__, "cmoDesc", cmoDesc, sizeof(struct hint_desc), stream);
}
