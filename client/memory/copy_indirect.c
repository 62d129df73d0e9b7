/*
 * Copies inside one device whose addresses stand in memory: by descriptor, and by pointers with
 * offsets.
 */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/copy.h"
#include "client/memory/direct.h"
#include "client/runtime/context.h"

/* In the program's memory, where it may have changed it. */
struct descriptor {
    uint64_t magic;
    void *dst, *src;
    uint64_t count;
    uint64_t reserved[4];
};

#define DESCRIPTOR_MAGIC UINT64_C(0x6370796465736331)

static int check_kind(const char *function, aclrtMemcpyKind kind, int code)
{
    return kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE
               ? 0
               : error_set(code, "%s: kind is %d, must be ACL_MEMCPY_INNER_DEVICE_TO_DEVICE",
                           function, (int)kind);
}

/* Registered memory is every device's. */
static bool is_inner(struct session *s, const struct place *at, size_t count)
{
    return at->kind == PLACE_DEVICE || place_is_registered(s, at, count);
}

/* The two places of such a copy. */
static int find_inner(struct session *s, const char *function, void *dst, const void *src,
                      size_t count, struct place *to, struct place *from)
{
    RETURN_IF_ERROR(copy_find(s, function, dst, src, count, to, from));
    if (is_inner(s, to, count) && is_inner(s, from, count) &&
        (to->kind != PLACE_DEVICE || from->kind != PLACE_DEVICE ||
         to->memory.device == from->memory.device))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: dst (%p) is %s, src (%p) is %s: must be memory of one device, or "
                     "registered",
                     function, dst, place_row(to)->name, src, place_row(from)->name);
}

/* --- by descriptor --- */

aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize)
{
    CALL_SCOPE;

    REQUIRE(descSize);
    RETURN_IF_ERROR(check_kind(__func__, kind, ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
    *descSize = sizeof(struct descriptor);
    return 0;
}

aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr,
                            size_t count, void *config)
{
    CALL_SCOPE;
    struct place at, to, from;
    struct descriptor d;
    struct context *c;

    REQUIRE(desc);
    REQUIRE(srcAddr);
    REQUIRE(dstAddr);
    if (config)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: config must be NULL", __func__);
    RETURN_IF_ERROR(check_kind(__func__, kind, ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(place_find(c->session, __func__, desc, sizeof(struct descriptor), "desc", &at));
    RETURN_IF_ERROR(find_inner(c->session, __func__, dstAddr, srcAddr, count, &to, &from));
    d = (struct descriptor){
        .magic = DESCRIPTOR_MAGIC, .dst = dstAddr, .src = srcAddr, .count = count};
    RETURN_IF_ERROR(direct_write(c->session, __func__, &at, &d, sizeof(d)));
    return place_tell_written(c->session, __func__, &at, sizeof(struct descriptor));
}

static int submit_inner(struct stream *s, const char *function, void *dst, const void *src,
                        size_t count)
{
    struct place to, from;

    if (count == 0)
        return stream_check(s, function);
    RETURN_IF_ERROR(find_inner(s->session, function, dst, src, count, &to, &from));
    return copy_in_order(s, function, &to, &from, count);
}

static int submit_described(struct stream *s, const char *function, const void *desc)
{
    struct descriptor d;
    struct place at;

    RETURN_IF_ERROR(place_find(s->session, function, desc, sizeof(d), "desc", &at));
    RETURN_IF_ERROR(direct_read(s->session, function, &at, &d, sizeof(d)));
    if (d.magic != DESCRIPTOR_MAGIC)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: desc (%p) is no descriptor: call aclrtSetMemcpyDesc first", function,
                         desc);
    return submit_inner(s, function, d.dst, d.src, d.count);
}

aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    struct stream *s;
    int error;

    REQUIRE(desc);
    RETURN_IF_ERROR(check_kind(__func__, kind, ACL_ERROR_RT_FEATURE_NOT_SUPPORT));
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = submit_described(s, __func__, desc);
    stream_unlock(s);
    return error;
}

/* --- by pointers and offsets --- */

/*
 * The address that stands at `slot`, plus offset: `count` bytes there are in the same allocation,
 * or the offset is wrong, whatever lies behind it. In memory that tasks reach, a task before may
 * write the slot: then the call waits for the stream.
 */
static int read_slot(struct stream *s, const char *function, const char *name, void *const *slot,
                     size_t offset, size_t count, void **address)
{
    size_t end = count > SIZE_MAX - offset ? SIZE_MAX : offset + count;
    struct place at;

    RETURN_IF_ERROR(place_find(s->session, function, slot, sizeof(*slot), name, &at));
    if (place_row(&at)->engine || at.kind == PLACE_REGISTERED)
        RETURN_IF_ERROR(stream_drain(s, function));
    RETURN_IF_ERROR(direct_read(s->session, function, &at, address, sizeof(*address)));
    if (!*address)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: *%s is NULL", function, name);
    RETURN_IF_ERROR(place_find(s->session, function, *address, end, name, &at));
    *address = (char *)*address + offset;
    return 0;
}

aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
                                    const void **src, size_t count, size_t srcDataOffset,
                                    aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    void *to = NULL, *from = NULL;
    struct stream *s;
    int error;

    if (count == 0)
        return 0;
    REQUIRE(dst);
    REQUIRE(src);
    RETURN_IF_ERROR(check_kind(__func__, kind, ACL_ERROR_RT_PARAM_INVALID));
    if (count > destMax)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than destMax %zu",
                         __func__, count, destMax);
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = read_slot(s, __func__, "dst", dst, dstDataOffset, count, &to);
    if (error == 0)
        error = read_slot(s, __func__, "src", (void *const *)src, srcDataOffset, count, &from);
    if (error == 0)
        error = submit_inner(s, __func__, to, from, count);
    stream_unlock(s);
    return error;
}
