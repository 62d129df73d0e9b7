#include "client/buffers/transfer_map.h"

#include <stdlib.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/runtime/session.h"

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
    struct error_kept kept;
    int error;

    error_keep(&kept);
    error = segment_need(t->function, t->session, t->needed);
    error_keep_end(&kept);
    if (error == 0)
        return 0;
    if (error != ACL_ERROR_RT_NO_PERMISSION && error != ACL_ERROR_RT_PARAM_INVALID)
        return error_tell(&kept, error);
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
    REQUEST(allow_map, ALLOW_MAP, .number = t->ring->view.number, .segment = t->needed >> 16);
    const struct segment_view *view = segment_get(&segment_table, t->needed);
    struct error_kept kept;
    uint64_t number;
    int error;

    /* Another thread has freed the buffer, and npud has taken the segment back. */
    if (!view)
        return transfer_map_error_stale(t);
    number = view->number;
    error_keep(&kept);
    error = session_command(t->session, t->function, &request);
    error_keep_end(&kept);
    if (error != 0)
        return transfer_ended(t) ? 0 : error_tell(&kept, error);
    return note_map_allowed(t->ring, in.segment, number) ? 0 : error_no_memory(t->function);
}
