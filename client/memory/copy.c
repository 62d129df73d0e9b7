#include "client/memory/copy.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/memory/checked_access.h"
#include "client/memory/direct.h"
#include "client/memory/host_task.h"
#include "client/memory/staging.h"
#include "client/memory/submit.h"
#include "client/capture/capture.h"
#include "client/core/upcall.h"
#include "client/runtime/context.h"

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

int copy_find(struct session *s, const char *function, void *dst, const void *src, size_t count,
              struct place *to, struct place *from)
{
    RETURN_IF_ERROR(place_find(s, function, dst, count, "dst", to));
    RETURN_IF_ERROR(place_find(s, function, src, count, "src", from));
    return place_check_peer_devices(s, function, to, from, count);
}

/* Inline, as the next: a call would be a tenth of what aclrtMemcpy does for few bytes. */
static inline __attribute__((always_inline)) int copy_now(struct session *s, const char *function,
                                                          const struct place *to,
                                                          const struct place *from, size_t count)
{
    RETURN_IF_ERROR(direct_copy(s, function, to, from, count));
    if (process_tells_accesses())
        checked_access(s, NULL, to, from, count);
    return place_tell_written(s, function, to, count);
}

static inline __attribute__((always_inline)) int run_blocking(struct context *c,
                                                              const char *function, void *dst,
                                                              const void *src, size_t count)
{
    struct place to, from;

    RETURN_IF_ERROR(capture_check_blocking(c, function));
    RETURN_IF_ERROR(copy_find(c->session, function, dst, src, count, &to, &from));
    return copy_now(c->session, function, &to, &from, count);
}

int copy_blocking(struct context *c, const char *function, void *dst, const void *src, size_t count)
{
    return run_blocking(c, function, dst, src, count);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    CALL_SCOPE;
    int error = check_copy(__func__, dst, destMax, src, count, kind);

    if (error >= 0)
        return error;
    return run_blocking(FIND_OR_RETURN(context_get, __func__), __func__, dst, src, count);
}

/*
 * The kinds that a pair with a pageable place accepts. The addresses tell what others are, whatever
 * kind says.
 */
static bool kind_fits(enum place_kind from, enum place_kind to, aclrtMemcpyKind kind,
                      bool to_device)
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

    if (from == PLACE_REGISTERED)
        from = PLACE_PINNED;
    if (to == PLACE_REGISTERED)
        to = PLACE_PINNED;
    if (kind == ACL_MEMCPY_DEFAULT || from == PLACE_BUFFER || to == PLACE_BUFFER)
        return true;
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return place_rows[from].host && to_device;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].from == from && rows[i].to == to)
            return rows[i].kinds >> kind & 1;
    return true;
}

/*
 * With pageable memory the call is synchronous, as the reference has it. With a shared buffer a
 * program cannot rely on that: on a device it is a task.
 */
static __attribute__((cold, noinline)) void note_by_hand(struct stream *s, const struct place *to,
                                                         const struct place *from, size_t count)
{
    bool is_over = to->kind == PLACE_PAGEABLE || from->kind == PLACE_PAGEABLE;

    /* Also what of this copy was the stream's: of memory that the thread does not reach. */
    if (is_over && checked_runs())
        checked_sync(stream_checked_name(s), checked_since());
    checked_access(s->session, is_over ? NULL : s, to, from, count);
}

static int check_pinned(const char *function, const struct place *to, const struct place *from)
{
    if (to->kind != PLACE_PAGEABLE && from->kind != PLACE_PAGEABLE)
        return 0;
    return error_set(
        ACL_ERROR_RT_PARAM_INVALID, "%s: %s (%p) is %s: take host memory from aclrtMallocHost",
        function, to->kind == PLACE_PAGEABLE ? "dst" : "src",
        to->kind == PLACE_PAGEABLE ? to->address : from->address, place_rows[PLACE_PAGEABLE].name);
}

/*
 * Pageable memory would be copied by hand, now: a stream that records cannot, and another one only
 * if no capture forbids to wait.
 */
static __attribute__((cold)) int check_capture(struct stream *s, const char *function,
                                               const struct place *to, const struct place *from)
{
    if (to->kind != PLACE_PAGEABLE && from->kind != PLACE_PAGEABLE)
        return 0;
    if (stream_captures(s) && !s->model)
        return check_pinned(function, to, from);
    return capture_refuse_blocking(s->context, function, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC);
}

/*
 * A stream that is bound to a model, which records, has nothing to wait for, and no task may run on
 * it: the copy is made now, and is no part of the model.
 */
static __attribute__((cold)) int copy_beside_model(struct stream *s, const char *function,
                                                   const struct place *to, const struct place *from,
                                                   size_t count)
{
    RETURN_IF_ERROR(stream_check(s, function));
    return copy_now(s->session, function, to, from, count);
}

/*
 * The engine cannot reach the memory: wait for what is on the stream, then copy here, with the
 * stream locked so that nothing comes in between. A failure that the wait meets stays for the next
 * synchronise.
 */
static int copy_by_hand(struct stream *s, const char *function, const struct place *to,
                        const struct place *from, size_t count)
{
    if (capture_runs(s->session))
        RETURN_IF_ERROR(check_capture(s, function, to, from));
    if (s->model && (to->kind == PLACE_PAGEABLE || from->kind == PLACE_PAGEABLE))
        return copy_beside_model(s, function, to, from, count);
    RETURN_IF_ERROR(stream_drain(s, function));
    RETURN_IF_ERROR(direct_copy_on(s, function, to, from, count));
    if (process_tells_accesses())
        note_by_hand(s, to, from, count);
    return place_tell_written(s->session, function, to, count);
}

/* One of them is registered, and so stays as it is until the stream gets there. */
static bool is_copied_by_thread(const struct place *to, const struct place *from)
{
    return (to->kind == PLACE_REGISTERED || from->kind == PLACE_REGISTERED) &&
           (to->kind == PLACE_REGISTERED || place_row(to)->engine) &&
           (from->kind == PLACE_REGISTERED || place_row(from)->engine);
}

int copy_in_order(struct stream *s, const char *function, const struct place *to,
                  const struct place *from, size_t count)
{
    if (copy_is_task(to, from))
        return submit_copy(s, function, to, from, count);
    if (is_copied_by_thread(to, from))
        return host_task_copy(s, function, to, from, count);
    return copy_by_hand(s, function, to, from, count);
}

int copy_buffered(struct stream *s, const char *function, const struct place *to,
                  const struct place *from, size_t count)
{
    struct place taken;
    struct staging *b;
    int error;

    /* What is taken is in a buffer that another copy gets when the stream has passed. */
    if (stream_captures(s))
        return capture_error_kind(function, "a copy that takes its source at the call");
    if (to->kind == PLACE_REGISTERED)
        return host_task_copy_taken(s, function, to, from, count);
    b = FIND_OR_RETURN(staging_take, s, function, count);
    taken = copy_staged(b);
    error = direct_read(s->session, function, from, taken.address, count);
    if (error == 0)
        error = submit_copy(s, function, to, &taken, count);
    b->ctrl = s->ctrl;
    b->position = s->tail;
    staging_add(s->session, b);
    return error;
}

/* As the program asks for it: the source is its own again when the call returns. */
static int copy_taken(struct stream *s, const char *function, const struct place *to,
                      const struct place *from, size_t count)
{
    if (s->model)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: a stream that is bound to a model has no copy of kind "
                         "ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE",
                         function);
    RETURN_IF_ERROR(copy_buffered(s, function, to, from, count));
    if (process_tells_accesses())
        checked_access(s->session, NULL, NULL, from, count);
    return 0;
}

/* The addresses tell which of the two is memory of a device: a variable of kernels may be. */
static bool is_with_variable(const struct place *to, const struct place *from, aclrtMemcpyKind kind)
{
    return kind == ACL_MEMCPY_DEFAULT &&
           ((to->kind == PLACE_REGISTERED && upcalls->kernel_registry_holds(to->address, 1)) ||
            (from->kind == PLACE_REGISTERED && upcalls->kernel_registry_holds(from->address, 1)));
}

/* Is there such an asynchronous copy? 0, or why not. */
static int check_pair(struct session *s, const char *function, const struct place *to,
                      const struct place *from, aclrtMemcpyKind kind)
{
    bool to_device = copy_to_device(s, to, kind);

    if (!kind_fits(from->kind, to->kind, kind, to_device))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: kind %d does not fit the two addresses: dst is %s, src is %s",
                         function, kind, place_row(to)->name, place_row(from)->name);
    if (!to_device && !copy_from_device(s, from, kind) && !is_with_variable(to, from, kind))
        return error_set(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "%s: there is no asynchronous copy from host to host memory: use aclrtMemcpy",
            function);
    return 0;
}

static int copy_in_turn(struct stream *s, const char *function, void *dst, const void *src,
                        size_t count, aclrtMemcpyKind kind, bool pinned)
{
    struct place to, from;

    RETURN_IF_ERROR(copy_find(s->session, function, dst, src, count, &to, &from));
    if (pinned)
        RETURN_IF_ERROR(check_pinned(function, &to, &from));
    RETURN_IF_ERROR(check_pair(s->session, function, &to, &from, kind));
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && to.kind != PLACE_BUFFER &&
        copy_to_device(s->session, &to, kind))
        return copy_taken(s, function, &to, &from, count);
    return copy_in_order(s, function, &to, &from, count);
}

int copy_async(struct stream *s, const char *function, void *dst, const void *src, size_t count,
               aclrtMemcpyKind kind)
{
    return copy_in_turn(s, function, dst, src, count, kind, false);
}

static int lock_and_copy(const char *function, void *dst, size_t dest_max, const void *src,
                         size_t count, aclrtMemcpyKind kind, aclrtStream stream, bool pinned)
{
    int error = check_copy(function, dst, dest_max, src, count, kind);
    struct stream *s;

    if (error >= 0)
        return error;
    s = FIND_OR_RETURN(stream_lock, function, stream);
    error = copy_in_turn(s, function, dst, src, count, kind, pinned);
    stream_unlock(s);
    return error;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;

    return lock_and_copy(__func__, dst, destMax, src, count, kind, stream, false);
}

aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
                                       aclrtMemcpyKind kind, aclrtStream stream)
{
    CALL_SCOPE;

    return lock_and_copy(__func__, dst, destMax, src, count, kind, stream, true);
}
