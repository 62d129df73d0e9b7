/* Copies of rows that are a pitch apart: aclrtMemcpy2d, aclrtMemcpy2dAsync. */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/checked_access.h"
#include "client/memory/copy.h"
#include "client/memory/direct.h"
#include "client/capture/capture.h"
#include "client/runtime/context.h"

/* As the reference has them. */
#define WIDTH_MAX  5000000u
#define HEIGHT_MAX 5242880u

struct rows {
    const char *function;
    unsigned char *dst;
    const unsigned char *src;
    size_t dpitch, spitch, width, height;
    aclrtMemcpyKind kind;
    bool device_to_device; /* is possible */
};

static int check_kind(const struct rows *r)
{
    aclrtMemcpyKind kind = r->kind;

    if (kind != ACL_MEMCPY_HOST_TO_DEVICE && kind != ACL_MEMCPY_DEVICE_TO_HOST &&
        kind != ACL_MEMCPY_DEVICE_TO_DEVICE && kind != ACL_MEMCPY_DEFAULT)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: kind is %d, must be 1 to 4 here",
                         r->function, (int)kind);
    if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && !r->device_to_device)
        return error_set(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                         "%s: kind is ACL_MEMCPY_DEVICE_TO_DEVICE: use aclrtMemcpy2dAsync",
                         r->function);
    return 0;
}

/* 0: there is nothing to copy; -1: there is; else an ACL error. */
static int check_rows(const struct rows *r)
{
    if (r->width == 0 || r->height == 0)
        return 0;
    if (!r->dst || !r->src)
        return error_null(r->function, r->dst ? "src" : "dst");
    if (r->width > r->dpitch || r->width > r->spitch)
        return error_set(ACL_ERROR_INVALID_PARAM,
                         "%s: width %zu is more than dpitch %zu or spitch %zu", r->function,
                         r->width, r->dpitch, r->spitch);
    RETURN_IF_ERROR(check_kind(r));
    if (r->width > WIDTH_MAX || r->height > HEIGHT_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %zu rows of %zu bytes, must be at most %u of %u", r->function,
                         r->height, r->width, HEIGHT_MAX, WIDTH_MAX);
    return -1;
}

/* From the first byte of the first row to the last one of the last. */
static size_t rows_extent(const struct rows *r, size_t pitch)
{
    size_t all;

    if (__builtin_mul_overflow(pitch, r->height - 1, &all) ||
        __builtin_add_overflow(all, r->width, &all))
        return SIZE_MAX;
    return all;
}

static bool is_one_piece(const struct rows *r)
{
    return (r->dpitch == r->width && r->spitch == r->width) || r->height == 1;
}

/* All rows that touch each other are one. */
static int each_row(struct session *s, const struct rows *r, struct place to, struct place from,
                    place_piece_fn *row, void *context)
{
    size_t width = is_one_piece(r) ? r->width * r->height : r->width;
    size_t height = is_one_piece(r) ? 1 : r->height;

    for (size_t i = 1;; i++) {
        RETURN_IF_ERROR(row(context, &to, &from, width));
        if (i == height)
            return 0;
        RETURN_IF_ERROR(place_move(s, r->function, &to, r->dpitch));
        RETURN_IF_ERROR(place_move(s, r->function, &from, r->spitch));
    }
}

struct call {
    struct session *session;
    struct stream *stream;
    const char *function;
};

static int check_peer_devices(void *context, const struct place *to, const struct place *from,
                              uint64_t count)
{
    const struct call *call = context;

    return place_check_peer_devices(call->session, call->function, to, from, count);
}

static int find_rows(struct session *s, const struct rows *r, struct place *to, struct place *from)
{
    struct call call = {.session = s, .function = r->function};
    const struct place_row *dst, *src;
    bool to_device, from_device;

    RETURN_IF_ERROR(place_find(s, r->function, r->dst, rows_extent(r, r->dpitch), "dst", to));
    RETURN_IF_ERROR(place_find(s, r->function, r->src, rows_extent(r, r->spitch), "src", from));
    dst = place_row(to);
    src = place_row(from);
    to_device = copy_to_device(s, to, r->kind);
    from_device = copy_from_device(s, from, r->kind);
    if (!(src->host && to_device) && !(from_device && dst->host) &&
        !(r->device_to_device && from_device && to_device))
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: dst is %s, src is %s: must be %s",
                         r->function, dst->name, src->name,
                         r->device_to_device ? "device memory on one side at least"
                                             : "host memory and device memory");
    if (to->kind != PLACE_DEVICE || from->kind != PLACE_DEVICE)
        return 0;
    return each_row(s, r, *to, *from, check_peer_devices, &call);
}

static int copy_row(void *context, const struct place *to, const struct place *from, uint64_t count)
{
    const struct call *call = context;

    RETURN_IF_ERROR(direct_copy(call->session, call->function, to, from, count));
    if (process_tells_accesses())
        checked_access(call->session, NULL, to, from, count);
    return 0;
}

static int copy_now(struct session *s, const struct rows *r)
{
    struct call call = {.session = s, .function = r->function};
    struct place to, from;

    RETURN_IF_ERROR(find_rows(s, r, &to, &from));
    RETURN_IF_ERROR(each_row(s, r, to, from, copy_row, &call));
    return place_tell_written(s, r->function, &to, rows_extent(r, r->dpitch));
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    struct rows r = {.function = __func__,
                     .dst = dst,
                     .src = src,
                     .dpitch = dpitch,
                     .spitch = spitch,
                     .width = width,
                     .height = height,
                     .kind = kind};
    int error = check_rows(&r);
    struct context *c;

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, __func__);
    RETURN_IF_ERROR(capture_check_blocking(c, __func__));
    return copy_now(c->session, &r);
}

static int submit_row(void *context, const struct place *to, const struct place *from,
                      uint64_t count)
{
    const struct call *call = context;

    return copy_in_order(call->stream, call->function, to, from, count);
}

static int submit_rows(struct stream *s, const struct rows *r)
{
    struct call call = {.session = s->session, .stream = s, .function = r->function};
    struct place to, from;

    RETURN_IF_ERROR(find_rows(s->session, r, &to, &from));
    return each_row(s->session, r, to, from, submit_row, &call);
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;
    struct rows r = {.function = __func__,
                     .dst = dst,
                     .src = src,
                     .dpitch = dpitch,
                     .spitch = spitch,
                     .width = width,
                     .height = height,
                     .kind = kind,
                     .device_to_device = true};
    int error = check_rows(&r);
    struct stream *s;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, __func__, stream);
    error = submit_rows(s, &r);
    stream_unlock(s);
    return error;
}
