/* Many copies between host and device in one call: aclrtMemcpyBatch and its relatives. */
#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/checked_access.h"
#include "client/memory/copy.h"
#include "client/memory/direct.h"
#include "client/capture/capture.h"
#include "client/runtime/context.h"
#include "client/runtime/device.h"

#define BATCH_MAX 4096u /* of the blocking form, as the reference has it */

struct batch {
    const char *function;
    void **dsts, **srcs;
    const size_t *maxs, *sizes;
    size_t n;
    const aclrtMemcpyBatchAttr *attrs;
    const size_t *indexes; /* of the entry that each attribute begins at */
    size_t n_attrs;
    size_t *failed; /* the entry that is at fault; SIZE_MAX: none */
    bool blocking;
};

static int check_arrays(const struct batch *b)
{
    const char *null = !b->dsts      ? "dsts"
                       : !b->maxs    ? "destMaxs"
                       : !b->srcs    ? "srcs"
                       : !b->attrs   ? "attrs"
                       : !b->indexes ? "attrsIndexes"
                                     : NULL;

    return null ? error_null(b->function, null) : 0;
}

static int check_sizes(const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->maxs[i] < b->sizes[i]) {
            *b->failed = i;
            return error_set(ACL_ERROR_INVALID_PARAM,
                             "%s: sizes[%zu] is %zu, more than destMaxs[%zu], which is %zu",
                             b->function, i, b->sizes[i], i, b->maxs[i]);
        }
    return 0;
}

/* The counts say how much of the arrays may be read. */
static int check_counts(const struct batch *b)
{
    if (b->n_attrs == 0 || b->n_attrs > b->n)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: numAttrs is %zu, must be 1 to numBatches, which is %zu", b->function,
                         b->n_attrs, b->n);
    return 0;
}

static int check_attrs(const struct batch *b)
{
    static const uint8_t zero[sizeof(b->attrs->rsv)];

    for (size_t k = 0; k < b->n_attrs; k++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): check_arrays() */
        if (memcmp(b->attrs[k].rsv, zero, sizeof(zero)) != 0)
            return error_set(ACL_ERROR_INVALID_PARAM, "%s: attrs[%zu].rsv must be zero",
                             b->function, k);
    for (size_t k = 0; k < b->n_attrs; k++)
        if (k == 0 ? b->indexes[0] != 0
                   : b->indexes[k] <= b->indexes[k - 1] || b->indexes[k] >= b->n)
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: attrsIndexes[%zu] is %zu: they begin with 0, rise, and are below "
                             "numBatches",
                             b->function, k, b->indexes[k]);
    return 0;
}

/* 0: there is nothing to copy; -1: there is; else an ACL error. */
static int check_batch(const struct batch *b)
{
    size_t i = 0;

    *b->failed = SIZE_MAX;
    if (!b->sizes)
        return error_null(b->function, "sizes");
    if (b->n == 0)
        return error_set(ACL_ERROR_INVALID_PARAM, "%s: numBatches is 0", b->function);
    if (b->blocking && b->n > BATCH_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: numBatches is %zu, must be at most %u",
                         b->function, b->n, BATCH_MAX);
    while (i < b->n && b->sizes[i] == 0)
        i++;
    if (i == b->n)
        return 0;
    RETURN_IF_ERROR(check_arrays(b));
    RETURN_IF_ERROR(check_counts(b));
    RETURN_IF_ERROR(check_sizes(b));
    RETURN_IF_ERROR(check_attrs(b));
    return -1;
}

/* --- entries --- */

/*
 * Is the place what the attribute says? Memory that the library does not know is the host's;
 * registered memory is every device's as well.
 */
static bool is_at(struct session *s, const struct place *at, const aclrtMemLocation *declared)
{
    switch (declared->type) {
    case ACL_MEM_LOCATION_TYPE_HOST:
    case ACL_MEM_LOCATION_TYPE_HOST_NUMA:
        return place_row(at)->host && at->kind != PLACE_MANAGED;
    case ACL_MEM_LOCATION_TYPE_DEVICE:
        return place_is_registered(s, at, 1) ||
               (at->kind == PLACE_DEVICE &&
                (int64_t)declared->id == device_user_id(s, at->memory.device));
    case ACL_MEM_LOCATION_TYPE_MANAGED:
        return at->kind == PLACE_MANAGED;
    case ACL_MEM_LOCATION_TYPE_UNREGISTERED:
        break;
    }
    return false;
}

static int check_location(struct session *s, const struct batch *b, size_t i, const char *name,
                          const struct place *at, const aclrtMemLocation *declared)
{
    if (is_at(s, at, declared))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: %s[%zu] (%p) is %s, and its attribute says location type %d, id %u",
                     b->function, name, i, at->address, place_row(at)->name, (int)declared->type,
                     declared->id);
}

/* After is_at(). */
static bool is_device(const struct place *at, const aclrtMemLocation *declared)
{
    return place_row(at)->device || declared->type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

static int find_entry(struct session *s, const struct batch *b, size_t i,
                      const aclrtMemcpyBatchAttr *attr, struct place *to, struct place *from)
{
    RETURN_IF_ERROR(copy_find(s, b->function, b->dsts[i], b->srcs[i], b->sizes[i], to, from));
    RETURN_IF_ERROR(check_location(s, b, i, "dsts", to, &attr->dstLoc));
    RETURN_IF_ERROR(check_location(s, b, i, "srcs", from, &attr->srcLoc));
    if ((place_row(from)->host && is_device(to, &attr->dstLoc)) ||
        (is_device(from, &attr->srcLoc) && place_row(to)->host))
        return 0;
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: entry %zu: dst is %s, src is %s: a batch copies between host and device",
                     b->function, i, place_row(to)->name, place_row(from)->name);
}

static int check_entry(struct session *s, const struct batch *b, size_t i,
                       const aclrtMemcpyBatchAttr *attr)
{
    struct place to, from;

    if (b->sizes[i] == 0 && b->blocking)
        return 0;
    if (b->sizes[i] == 0 || !b->dsts[i] || !b->srcs[i])
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: entry %zu: %s", b->function, i,
                         b->sizes[i] == 0 ? "the size is 0"
                         : b->dsts[i]     ? "src is NULL"
                                          : "dst is NULL");
    return find_entry(s, b, i, attr, &to, &from);
}

/* Nothing is copied before all entries are known to be good. */
static int check_entries(struct session *s, const struct batch *b)
{
    size_t attr = 0;

    for (size_t i = 0; i < b->n; i++) {
        int error;

        if (attr + 1 < b->n_attrs && i == b->indexes[attr + 1])
            attr++;
        error = check_entry(s, b, i, &b->attrs[attr]);
        if (error != 0) {
            *b->failed = i;
            return error;
        }
    }
    return 0;
}

static int copy_entries_now(struct session *s, const struct batch *b)
{
    struct place to, from;

    for (size_t i = 0; i < b->n; i++) {
        if (b->sizes[i] == 0)
            continue;
        RETURN_IF_ERROR(copy_find(s, b->function, b->dsts[i], b->srcs[i], b->sizes[i], &to, &from));
        RETURN_IF_ERROR(direct_copy(s, b->function, &to, &from, b->sizes[i]));
        if (process_tells_accesses())
            checked_access(s, NULL, &to, &from, b->sizes[i]);
        RETURN_IF_ERROR(place_tell_written(s, b->function, &to, b->sizes[i]));
    }
    return 0;
}

static int submit_entries(struct stream *s, const struct batch *b)
{
    struct place to, from;

    RETURN_IF_ERROR(check_entries(s->session, b));
    for (size_t i = 0; i < b->n; i++) {
        RETURN_IF_ERROR(
            copy_find(s->session, b->function, b->dsts[i], b->srcs[i], b->sizes[i], &to, &from));
        RETURN_IF_ERROR(copy_in_order(s, b->function, &to, &from, b->sizes[i]));
    }
    return 0;
}

/* --- the calls --- */

static int copy_batch(const struct batch *b)
{
    int error = check_batch(b);
    struct context *c;

    if (error >= 0)
        return error;
    c = FIND_OR_RETURN(context_get, b->function);
    RETURN_IF_ERROR(capture_check_blocking(c, b->function));
    RETURN_IF_ERROR(check_entries(c->session, b));
    return copy_entries_now(c->session, b);
}

static int copy_batch_async(const struct batch *b, aclrtStream stream)
{
    int error = check_batch(b);
    struct stream *s;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, b->function, stream);
    error = submit_entries(s, b);
    stream_unlock(s);
    return error;
}

/* What the four functions have in common. */
#define BATCH(failed_, blocking_)                                                                  \
    (&(struct batch){.function = __func__,                                                         \
                     .dsts = dsts,                                                                 \
                     .srcs = srcs,                                                                 \
                     .maxs = destMaxs,                                                             \
                     .sizes = sizes,                                                               \
                     .n = numBatches,                                                              \
                     .attrs = attrs,                                                               \
                     .indexes = attrsIndexes,                                                      \
                     .n_attrs = numAttrs,                                                          \
                     .failed = failed_,                                                            \
                     .blocking = blocking_})

aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                          size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                          size_t numAttrs, size_t *failIndex)
{
    CALL_SCOPE;

    REQUIRE(failIndex);
    return copy_batch(BATCH(failIndex, true));
}

aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                            size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                            size_t numAttrs)
{
    CALL_SCOPE;
    size_t failed;

    return copy_batch(BATCH(&failed, true));
}

aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                               size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                               size_t numAttrs, size_t *failIndex, aclrtStream stream)
{
    CALL_SCOPE;

    REQUIRE(failIndex);
    return copy_batch_async(BATCH(failIndex, false), stream);
}

aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                                 size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                 size_t *attrsIndexes, size_t numAttrs, aclrtStream stream)
{
    CALL_SCOPE;
    size_t failed;

    return copy_batch_async(BATCH(&failed, false), stream);
}
