#include "client/memory/place.h"

#include "acl/acl.h"
#include "client/buffers/segment.h"
#include "client/core/error.h"
#include "client/memory/recent.h"
#include "client/memory/registration.h"
#include "client/memory/virtual.h"
#include "client/core/upcall.h"
#include "proto/util/kill_point.h"

const struct place_row place_rows[PLACE_KINDS] = {
    [PLACE_PAGEABLE] = {"neither device memory nor of aclrtMallocHost, or freed", .host = true},
    [PLACE_PINNED] = {"memory of aclrtMallocHost", .host = true, .engine = true},
    [PLACE_REGISTERED] = {"registered memory", .host = true},
    [PLACE_DEVICE] = {"device memory", .device = true, .engine = true},
    /*
     * The engine must not reach a buffer: the process that frees the buffer, or sends it on, would
     * have to wait for the engine.
     */
    [PLACE_BUFFER] = {"a shared buffer", .host = true, .device = true},
    [PLACE_MANAGED] = {"managed memory", .host = true, .device = true, .engine = true},
};

static int check_buffer(const char *function, const void *address, size_t count, const char *name,
                        const struct segment_place *in)
{
    struct mbuf *m = &in->view->mbufs[in->block];
    enum mbuf_state state = mbuf_state(atomic_load_explicit(&m->word, memory_order_acquire));
    uint64_t room = atomic_load_explicit(&m->room, memory_order_relaxed);

    if ((state == MBUF_FREE || state == MBUF_CACHED) && checked_runs())
        checked_refused(CHECK_FREED, address, count, 0, 0);
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

static void note_refused(enum check_refusal why, const void *address, uint64_t count,
                         const struct memory *m)
{
    checked_refused(why, address, count, m->mapped.start, m->size);
}

/* --- ranges across mappings --- */

static uintptr_t range_end(const struct memory *m)
{
    return m->mapped.start + m->mapped.size;
}

/* Does a range that reaches the end of *m go on? Then *m becomes what it goes on in. */
static bool find_next(struct session *s, struct memory *m)
{
    struct memory next;

    if (m->reservation == 0 || !memory_look_up(s, (const void *)range_end(m), &next) ||
        next.freed || next.no_access || next.reservation != m->reservation || next.host != m->host)
        return false;
    *m = next;
    return true;
}

/* `count` bytes at `at` leave the allocation, or the mapping. */
static int __attribute__((noinline, cold))
check_rest(struct session *s, const char *function, const void *address, size_t count,
           const char *name, struct place *at)
{
    struct memory m = at->memory;
    uint64_t remaining = count;

    if (checked_runs() && m.reservation == 0)
        note_refused(CHECK_BEYOND, address, count, &m);
    if (m.reservation == 0 || at->offset > m.size)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at offset %llu leave the allocation of %zu bytes",
                         function, name, count, (unsigned long long)at->offset, at->memory.size);
    for (uint64_t here = m.size - at->offset; remaining > here; here = m.size) {
        remaining -= here;
        if (find_next(s, &m))
            continue;
        if (checked_runs())
            note_refused(CHECK_BEYOND, address, count, &at->memory);
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %zu bytes at %p go beyond what is mapped there, which ends "
                         "at %p: map memory of the same kind behind it first",
                         function, name, count, address, (void *)range_end(&m));
    }
    at->goes_on = true;
    return 0;
}

/* Bytes that cross no border. */
static uint64_t piece_at(const struct place *at, uint64_t count)
{
    uint64_t here = at->memory.mapped.size - at->offset;

    return at->goes_on && here < count ? here : count;
}

int place_move(struct session *s, const char *function, struct place *at, uint64_t bytes)
{
    at->address = (char *)at->address + bytes;
    at->offset += bytes;
    while (__builtin_expect(at->goes_on && at->offset >= at->memory.mapped.size, 0)) {
        at->offset -= at->memory.mapped.size;
        if (!find_next(s, &at->memory))
            return error_set(ACL_ERROR_RT_PARAM_INVALID,
                             "%s: the memory at %p was unmapped during the call: unmap it "
                             "afterwards",
                             function, (void *)range_end(&at->memory));
    }
    return 0;
}

int place_walk(struct session *s, const char *function, const struct place *to,
               const struct place *from, uint64_t count, place_piece_fn *piece, void *context)
{
    struct place dst = *to, src = from ? *from : *to;
    uint64_t bytes;

    for (;;) {
        bytes = piece_at(&dst, piece_at(&src, count));
        RETURN_IF_ERROR(piece(context, &dst, from ? &src : NULL, bytes));
        count -= bytes;
        if (count == 0)
            return 0;
        RETURN_IF_ERROR(place_move(s, function, &dst, bytes));
        RETURN_IF_ERROR(place_move(s, function, &src, bytes));
    }
}

/* No allocation holds the address. */
static __attribute__((noinline)) int find_other(struct session *s, const char *function,
                                                const void *address, size_t count, const char *name,
                                                struct place *at)
{
    struct segment_place buffer;

    if (virtual_is_reserved(s, address) && checked_runs())
        checked_refused(CHECK_UNMAPPED, address, count, 0, 0);
    if (virtual_is_reserved(s, address))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %p is in reserved addresses at which nothing is mapped: call "
                         "aclrtMapMem first",
                         function, name, address);
    if (!segment_locate(s, address, &buffer)) {
        /* A range that leaves what is registered is pageable memory. */
        if (registration_holds(s, address, count))
            at->kind = PLACE_REGISTERED;
        return 0;
    }
    at->kind = PLACE_BUFFER;
    return check_buffer(function, address, count, name, &buffer);
}

int place_find(struct session *s, const char *function, const void *address, size_t count,
               const char *name, struct place *at)
{
    size_t room;

    /* Not all of it: every copy comes here, and `memory` is large. */
    at->kind = PLACE_PAGEABLE;
    at->goes_on = false;
    at->address = (void *)(uintptr_t)address;
    at->offset = 0;
    if (!recent_find(s, address, &at->memory, &at->changes)) {
        if (!memory_search(s, address, &at->memory, &at->changes))
            return find_other(s, function, address, count, name, at);
        recent_note(s, &at->memory, at->changes);
    }
    at->kind = at->memory.host ? PLACE_PINNED : PLACE_DEVICE;
    if (__builtin_expect(at->memory.managed, 0))
        at->kind = PLACE_MANAGED;
    at->offset = (uintptr_t)address - at->memory.mapped.start;
    if (__builtin_expect(at->memory.no_access, 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %p is mapped without access: call aclrtMemSetAccess first",
                         function, name, address);
    if (__builtin_expect(at->memory.freed, 0) && checked_runs())
        note_refused(CHECK_FREED, address, count, &at->memory);
    if (__builtin_expect(at->memory.freed, 0))
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: %s: %p is in memory that was freed: it was an allocation of %zu bytes", function,
            name, address, at->memory.size);
    room = memory_size_allocated(at->memory.size);
    if (__builtin_expect(at->offset > room || count > room - at->offset, 0))
        return check_rest(s, function, address, count, name, at);
    return 0;
}

bool place_is_registered(struct session *s, const struct place *at, uint64_t size)
{
    return at->kind == PLACE_REGISTERED || (at->kind != PLACE_DEVICE && place_row(at)->engine &&
                                            registration_holds(s, at->address, size));
}

size_t place_named(struct session *s, const void *address, size_t count)
{
    struct memory m;

    return memory_look_up(s, address, &m) && memory_is_whole(&m, address, count) ? m.size : count;
}

/* Reaching another device's memory must have been allowed, as on hardware. */
static int check_reach(struct session *s, const char *function, uint32_t a, uint32_t b,
                       uint32_t access)
{
    if (a == b || (s->devices[a].peer_devices >> b & 1) || (s->devices[b].peer_devices >> a & 1) ||
        (access >> a & access >> b & 1))
        return 0;
    return error_set(
        ACL_ERROR_RT_DRV_INTERNAL_ERROR,
        "%s: devices %u and %u cannot reach each other: call aclrtDeviceEnablePeerAccess first",
        function, b, a);
}

/* One of them may be for the other one's device by aclrtMemSetAccess(). */
static int check_memories(struct session *s, const char *function, const struct memory *a,
                          const struct memory *b)
{
    uint32_t own_a = 1u << a->device, own_b = 1u << b->device;
    uint32_t access = (a->access & own_b || b->access & own_a) ? own_a | own_b : 0;

    return check_reach(s, function, a->device, b->device, access);
}

struct call {
    struct session *session;
    const char *function;
};

static int check_peer_devices_of(void *context, const struct place *dst, const struct place *src,
                                 uint64_t count)
{
    const struct call *call = context;

    (void)count;
    return check_memories(call->session, call->function, &dst->memory, &src->memory);
}

/* Where a range crosses borders. Apart, so that other copies do not pay for its frame. */
static int __attribute__((noinline, cold))
check_peer_devices_across(struct session *s, const char *function, const struct place *dst,
                          const struct place *src, uint64_t count)
{
    struct call call = {.session = s, .function = function};

    return place_walk(s, function, dst, src, count, check_peer_devices_of, &call);
}

int place_check_peer_devices(struct session *s, const char *function, const struct place *dst,
                             const struct place *src, uint64_t count)
{
    if (dst->kind != PLACE_DEVICE || src->kind != PLACE_DEVICE)
        return 0;
    if (__builtin_expect(dst->goes_on | src->goes_on, 0))
        return check_peer_devices_across(s, function, dst, src, count);
    return check_memories(s, function, &dst->memory, &src->memory);
}

int place_find_device(struct session *s, const char *function, uint32_t device, const char *name,
                      const void *address, uint64_t size, struct place *at)
{
    bool registered;

    RETURN_IF_ERROR(place_find(s, function, address, size, name, at));
    registered = place_is_registered(s, at, size);
    if (at->kind != PLACE_DEVICE && !registered)
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: %s (%p) is not device memory, nor registered: pass memory of aclrtMalloc, "
            "or call aclrtHostRegister first",
            function, name, address);
    if (at->goes_on)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %s: %llu bytes at %p cross from one mapping into the next, at %p: "
                         "make a call for each",
                         function, name, (unsigned long long)size, address,
                         (void *)range_end(&at->memory));
    return registered ? 0
                      : check_reach(s, function, device, at->memory.device,
                                    at->memory.access | 1u << at->memory.device);
}

/* Do streams wait there, of this process or of another that has the memory? Then npud is told. */
static int tell_piece(void *context, const struct place *to, const struct place *from,
                      uint64_t count)
{
    const struct call *call = context;
    REQUEST(memory_written, MEMORY_WRITTEN, .slot = to->memory.remote,
            .generation = to->memory.remote_generation, .offset = place_remote_offset(to),
            .size = count);

    (void)from;
    if (!session_is_waited(call->session->page, to->memory.remote))
        return 0;
    return session_command(call->session, call->function, &request);
}

/* Apart, so that copies that tell nothing do not pay for its frame. */
static int __attribute__((noinline, cold))
tell_pieces(struct session *s, const char *function, const struct place *to, size_t count)
{
    struct call call = {.session = s, .function = function};

    return place_walk(s, function, to, NULL, count, tell_piece, &call);
}

int place_tell_written(struct session *s, const char *function, const struct place *to,
                       size_t count)
{
    KILL_POINT(MEMORY_WRITTEN);
    if (to->kind != PLACE_DEVICE) {
        if (__builtin_expect(atomic_load_explicit(&s->works.waits, memory_order_relaxed) != 0, 0))
            upcalls->stream_work_written(s, to->address, count);
        return 0;
    }
    if (to->memory.opaque) /* then npud has written */
        return 0;
    if (__builtin_expect(!to->goes_on && !session_is_waited(s->page, to->memory.remote), 1))
        return 0;
    return tell_pieces(s, function, to, count);
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
