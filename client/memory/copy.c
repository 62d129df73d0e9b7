/*
 * Copies and fills: aclrtMemcpy, aclrtMemset and the asynchronous ones.
 */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/place.h"
#include "client/memory/staging.h"
#include "client/memory/submit.h"
#include "client/runtime/context.h"
#include "client/runtime/stream.h"

static int check_copy(const char *function, void *dst, size_t dest_max, const void *src,
                      size_t count, aclrtMemcpyKind kind)
{
    if (count == 0)
        return 0;
    if (!dst || !src)
        return error_null(function, dst ? "src" : "dst");
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: kind is %d, must be 0 to %d here", function,
                         (int)kind, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
    if (count > dest_max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than destMax %zu",
                         function, count, dest_max);
    return dst == src ? 0 : -1;
}

static int find_places(struct session *s, const char *function, void *dst, const void *src,
                       size_t count, struct place *to, struct place *from)
{
    RETURN_IF_ERROR(place_find(s, function, dst, count, "dst", to));
    RETURN_IF_ERROR(place_find(s, function, src, count, "src", from));
    return place_check_peers(s, function, to, from, count);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    int error = check_copy(__func__, dst, destMax, src, count, kind);
    struct context *c;
    struct place to = {0}, from = {0};

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(find_places(c->session, __func__, dst, src, count, &to, &from));
    /* overlapping ranges are the program's mistake, but must not be undefined */
    memmove(dst, src, count);
    return place_tell_written(c->session, __func__, &to, count);
}

/*
 * The kinds that a pair with a pageable place accepts. The addresses tell what others are, whatever
 * kind says.
 */
static bool kind_fits(enum place_kind from, enum place_kind to, aclrtMemcpyKind kind)
{
    static const struct {
        enum place_kind from, to;
        uint32_t kinds; /* bits */
    } rows[] = {
        {PLACE_PAGEABLE, PLACE_DEVICE,
         1u << ACL_MEMCPY_HOST_TO_DEVICE | 1u << ACL_MEMCPY_DEVICE_TO_DEVICE},
        {PLACE_DEVICE, PLACE_PAGEABLE,
         1u << ACL_MEMCPY_DEVICE_TO_HOST | 1u << ACL_MEMCPY_DEVICE_TO_DEVICE},
        {PLACE_PINNED, PLACE_PAGEABLE,
         1u << ACL_MEMCPY_HOST_TO_HOST | 1u << ACL_MEMCPY_DEVICE_TO_HOST},
        {PLACE_PAGEABLE, PLACE_PINNED,
         1u << ACL_MEMCPY_HOST_TO_HOST | 1u << ACL_MEMCPY_HOST_TO_DEVICE},
        {PLACE_PAGEABLE, PLACE_PAGEABLE, 0xf},
    };

    if (kind == ACL_MEMCPY_DEFAULT || from == PLACE_BUFFER || to == PLACE_BUFFER)
        return true;
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return from != PLACE_DEVICE && to == PLACE_DEVICE;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].from == from && rows[i].to == to)
            return rows[i].kinds >> kind & 1;
    return true;
}

/*
 * The engine cannot reach pageable memory. It must not reach a buffer: the process that frees the
 * buffer, or sends it on, would have to wait for the engine.
 */
static bool is_copied_by_hand(enum place_kind place)
{
    return place == PLACE_PAGEABLE || place == PLACE_BUFFER;
}

/*
 * The engine cannot reach pageable memory: wait for what is on the stream, then copy here, with the
 * stream locked so that nothing comes in between. A failure that the wait meets stays for the next
 * synchronise call.
 */
static int copy_pageable(struct stream *s, const char *function, void *dst, const void *src,
                         size_t count, const struct place *to)
{
    RETURN_IF_ERROR(stream_drain(s, function));
    memmove(dst, src, count);
    return place_tell_written(s->session, function, to, count);
}

/* ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: the source is taken now, the copy runs in its turn. */
static int copy_buffered(struct stream *s, const char *function, const struct place *to,
                         const void *src, size_t count)
{
    struct place from = {.kind = PLACE_PINNED};
    struct staging *b = FIND_OR_RETURN(staging_take, s, function, count);
    int error;

    memcpy((void *)b->memory.mapped.start, src, count);
    from.memory = b->memory;
    error = submit_copy(s, function, to, &from, count);
    b->ctrl = s->ctrl;
    b->position = s->tail;
    staging_add(s->session, b);
    return error;
}

static const char *name_place(enum place_kind place)
{
    return place == PLACE_DEVICE   ? "device memory"
           : place == PLACE_BUFFER ? "a shared buffer"
           : place == PLACE_PINNED ? "memory of aclrtMallocHost"
                                   : "neither device memory nor of aclrtMallocHost, or freed";
}

static int copy_async(struct stream *s, const char *function, void *dst, const void *src,
                      size_t count, aclrtMemcpyKind kind)
{
    struct place to = {0}, from = {0};

    RETURN_IF_ERROR(find_places(s->session, function, dst, src, count, &to, &from));
    if (!kind_fits(from.kind, to.kind, kind))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: kind %d does not fit the two addresses: dst is %s, src is %s",
                         function, kind, name_place(to.kind), name_place(from.kind));
    if (to.kind < PLACE_DEVICE && from.kind < PLACE_DEVICE)
        return error_set(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%s: there is no asynchronous copy from host to host memory: use aclrtMemcpy",
            function);
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && to.kind == PLACE_DEVICE)
        return copy_buffered(s, function, &to, src, count);
    if (is_copied_by_hand(to.kind) || is_copied_by_hand(from.kind))
        return copy_pageable(s, function, dst, src, count, &to);
    return submit_copy(s, function, &to, &from, count);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_copy(__func__, dst, destMax, src, count, kind);
    struct stream *s;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = copy_async(s, __func__, dst, src, count, kind);
    stream_unlock(s);
    return error;
}

static int check_set(const char *function, void *p, size_t max, size_t count)
{
    if (count == 0)
        return 0;
    if (!p)
        return error_null(function, "devPtr");
    if (count > max)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than maxCount %zu",
                         function, count, max);
    return -1;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    CALL_SCOPE;
    int error = check_set(__func__, devPtr, maxCount, count);
    struct context *c;
    struct place at;

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(place_find(c->session, __func__, devPtr, count, "devPtr", &at));
    memset(devPtr, value, count);
    return place_tell_written(c->session, __func__, &at, count);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream)
{
    CALL_SCOPE;
    int error = check_set(__func__, devPtr, maxCount, count);
    struct stream *s;
    struct place at;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = place_find(s->session, __func__, devPtr, count, "devPtr", &at);
    if (error == 0 && at.kind == PLACE_BUFFER)
        error = stream_drain(s, __func__); /* in its turn, as on a device */
    else if (error == 0)
        error = stream_check(s, __func__);
    if (error == 0 && at.kind == PLACE_DEVICE)
        error = submit_set(s, __func__, &at, (uint8_t)value, count);
    else if (error == 0)
        memset(devPtr, value, count); /* host memory is filled at once, as the reference has it */
    stream_unlock(s);
    return error;
}
