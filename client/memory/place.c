#include "client/memory/place.h"

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "proto/util/kill_point.h"

static int check_buffer(const char *function, const void *address, size_t count, const char *name,
                        const struct segment_place *in)
{
    struct mbuf *m = &in->view->mbufs[in->block];
    enum mbuf_state state = mbuf_state(atomic_load_explicit(&m->word, memory_order_acquire));
    uint64_t room = atomic_load_explicit(&m->room, memory_order_relaxed);

    if (state == MBUF_FREE || state == MBUF_CACHED)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %p is in the data of a buffer that was freed", function, name,
                         address);
    if (room > in->view->stride)
        room = in->view->stride;
    if (in->offset > room || count > room - in->offset)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at offset %llu leave the buffer of %llu bytes",
                         function, name, count, (unsigned long long)in->offset,
                         (unsigned long long)room);
    return 0;
}

int place_find(struct session *s, const char *function, const void *address, size_t count,
               const char *name, struct place *at)
{
    struct segment_place buffer;
    size_t room;

    *at = (struct place){.kind = PLACE_PAGEABLE};
    if (!memory_look_up(s, address, &at->memory)) {
        if (!segment_locate(s, address, &buffer))
            return 0;
        at->kind = PLACE_BUFFER;
        return check_buffer(function, address, count, name, &buffer);
    }
    at->kind = at->memory.host ? PLACE_PINNED : PLACE_DEVICE;
    at->offset = (uintptr_t)address - at->memory.mapped.start;
    if (__builtin_expect(at->memory.freed, 0))
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: %s: %p is in memory that was freed: it was an allocation of %zu bytes", function,
            name, address, at->memory.size);
    room = memory_size_allocated(at->memory.size);
    if (__builtin_expect(at->offset > room || count > room - at->offset, 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at offset %llu leave the allocation of %zu bytes",
                         function, name, count, (unsigned long long)at->offset, at->memory.size);
    return 0;
}

/* Reaching another device's memory must have been allowed, as on hardware. */
static int check_reach(struct session *s, const char *function, uint32_t a, uint32_t b)
{
    if (a == b || (s->devices[a].peers >> b & 1) || (s->devices[b].peers >> a & 1))
        return 0;
    return error_set(
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        "%s: devices %u and %u cannot reach each other: call aclrtDeviceEnablePeerAccess first",
        function, b, a);
}

int place_check_peers(struct session *s, const char *function, const struct place *dst,
                      const struct place *src)
{
    if (dst->kind != PLACE_DEVICE || src->kind != PLACE_DEVICE)
        return 0;
    return check_reach(s, function, dst->memory.device, src->memory.device);
}

int place_find_device(struct session *s, const char *function, uint32_t device, const char *name,
                      const void *address, uint64_t size, struct place *at)
{
    RETURN_IF_ERROR(place_find(s, function, address, size, name, at));
    if (at->kind != PLACE_DEVICE)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %s (%p) is not device memory", function,
                         name, address);
    return check_reach(s, function, device, at->memory.device);
}

static int send_written(struct session *s, const char *function, const struct place *to,
                        size_t count)
{
    REQUEST(memory_written, MEMORY_WRITTEN, .slot = to->memory.remote,
            .generation = to->memory.remote_generation, .offset = to->offset, .size = count);

    return session_command(s, function, &request);
}

int place_tell_written(struct session *s, const char *function, const struct place *to,
                       size_t count)
{
    KILL_POINT(MEMORY_WRITTEN);
    if (to->kind != PLACE_DEVICE)
        return 0;
    /* Either npud sees what we wrote, or we see that a stream waits (proto/shm/doorbell.h). */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&s->page->value_waiters, memory_order_relaxed) == 0)
        return 0;
    return send_written(s, function, to, count);
}

int place_check(struct session *s, const char *function, const char *name, const void *address,
                size_t size)
{
    struct place at;

    return place_find(s, function, address, size, name, &at);
}

int place_tell_written_at(struct session *s, const char *function, const void *address, size_t size)
{
    struct place at;

    RETURN_IF_ERROR(place_find(s, function, address, size, "memory", &at));
    return place_tell_written(s, function, &at, size);
}
