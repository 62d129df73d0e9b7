#include "client/buffers/transfer_map.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

int transfer_map_error_memory(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: out of memory", t->function);
}

int transfer_map_error_stale(const struct transfer *t)
{
    return error_set(ACL_ERROR_RT_PARAM_INVALID,
                     "%s: buf was freed or given away by another thread during the call",
                     t->function);
}

/* False: no memory. */
static bool note_map_allowed(struct ring *ring, uint32_t id, uint64_t number)
{
    _Atomic(struct allowed_chunk *) *where = &ring->allowed[id / ALLOWED_CHUNK];
    struct allowed_chunk *chunk = atomic_load_explicit(where, memory_order_acquire), *mine;

    if (!chunk) {
        mine = calloc(1, sizeof(*mine));
        if (!mine)
            return false;
        if (atomic_compare_exchange_strong(where, &chunk, mine))
            chunk = mine;
        else
            free(mine);
    }
    atomic_store_explicit(&chunk->number[id % ALLOWED_CHUNK], number, memory_order_release);
    return true;
}

int transfer_map_needed(struct transfer *t)
{
    int error;

    error_mute(true);
    error = segment_need(t->function, t->session, t->needed);
    error_mute(false);
    if (error == 0)
        return 0;
    if (error != ACL_ERROR_RT_NO_PERMISSION && error != ACL_ERROR_RT_PARAM_INVALID)
        return segment_need(t->function, t->session, t->needed);
    /* A message needs two at most. More are needed only if a hostile peer changes the ring. */
    if (t->n_refused == sizeof(t->refused) / sizeof(t->refused[0])) {
        t->refused[0] = t->refused[1];
        t->n_refused--;
    }
    t->refused[t->n_refused++] = t->needed;
    return 0;
}

int transfer_allow_map_needed(struct transfer *t)
{
    Npud__Request request = NPUD__REQUEST__INIT;
    Npud__AllowMap in = NPUD__ALLOW_MAP__INIT;
    uint32_t id = t->needed >> 16;
    const struct segment_view *view = segment_get(&segment_table, t->needed);
    uint64_t number = view ? view->number : 0;
    int error;

    /* The caller has a buffer of it: only a peer that writes there can say that it is gone. */
    if (!view)
        return transfer_map_error_stale(t);
    in.number = t->ring->view.number;
    in.segment = id;
    request.allow_map = &in;
    request.body_case = NPUD__REQUEST__BODY_ALLOW_MAP;
    error_mute(true);
    error = session_command(t->session, t->function, &request);
    error_mute(false);
    if (error != 0 && transfer_ended(t))
        return 0;
    if (error != 0)
        return session_command(t->session, t->function, &request);
    return note_map_allowed(t->ring, id, number) ? 0 : transfer_map_error_memory(t);
}
