#include "client/buffers/mbuf.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/core/handle_error.h"
#include "client/buffers/mbuf_cache.h"
#include "client/core/process.h"
#include "client/runtime/session.h"

/* --- handles --- */

/* What became of a buffer, for a caller that still has its handle. */
static int explain_handle(const char *function, struct session *s, acltdtBuf buf, bool known,
                          const struct mbuf_ref *m)
{
    uint32_t generation = (uint64_t)(uintptr_t)buf >> 32 & MBUF_GENERATION;
    enum mbuf_state state = known ? mbuf_state(m->word) : MBUF_FREE;

    if (handle_kind_name(buf))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: this is %s: pass a buffer, as acltdtAllocBuf returns it", function,
                         handle_kind_name(buf));
    if (!known)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: %p is not a buffer of this process: pass one that acltdtAllocBuf or "
                         "acltdtDequeue has returned here",
                         function, buf);
    if (state == MBUF_SENDING && mbuf_session(m->word) == s->peer_id)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: buffer %p was enqueued: it belongs to its receiver now, and its "
                         "handle is no longer valid",
                         function, buf);
    if (generation != mbuf_generation(m->word) || state == MBUF_FREE || state == MBUF_CACHED)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: buffer %p was freed, or enqueued, before",
                         function, buf);
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: buffer %p belongs to another process",
                     function, buf);
}

/* A member of a chain that the session has. */
static bool is_member(struct session *s, acltdtBuf buf, const struct mbuf_ref *m)
{
    struct mbuf_ref head;

    return mbuf_state(m->word) == MBUF_MEMBER && mbuf_handle(m->word, m->ref) == buf &&
           mbuf_find(mbuf_head(m->word), &head) && mbuf_state(head.word) == MBUF_HELD &&
           mbuf_session(head.word) == s->peer_id;
}

int mbuf_check_member(const char *function, struct session *s, acltdtBuf buf, bool head_only,
                      struct mbuf_ref *out)
{
    bool known = mbuf_is_handle(buf) && mbuf_find((uint32_t)(uintptr_t)buf, out);

    if (!known || !is_member(s, buf, out))
        return explain_handle(function, s, buf, known, out);
    if (head_only)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: buffer %p is a member of a chain: pass the head of the chain",
                         function, buf);
    return 0;
}

void mbuf_set_user(struct mbuf *m, const void *data, size_t size, size_t offset)
{
    if (atomic_load_explicit(&m->user_set, memory_order_relaxed) == 0)
        memset(m->user, 0, MBUF_USER);
    memcpy(m->user + offset, data, size);
    atomic_store_explicit(&m->user_set, 1, memory_order_relaxed);
}

void mbuf_get_user(struct mbuf *m, void *data, size_t size, size_t offset)
{
    if (atomic_load_explicit(&m->user_set, memory_order_relaxed) != 0)
        memcpy(data, m->user + offset, size);
    else
        memset(data, 0, size);
}

/* --- alloc and free --- */

int mbuf_alloc(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out)
{
    if (__builtin_expect(mbuf_cache_take(size, out) != NULL, 1))
        return 0;
    if (size - 1 >= MBUF_SIZE_MAX)
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: size is %llu: a buffer has 1 byte to 4 GiB (4294967296 bytes)",
                         function, (unsigned long long)size);
    return mbuf_cache_fetch(function, s, size, out);
}

static void drop_buffer(struct session *s, const struct mbuf_ref *m)
{
    if (__builtin_expect(!mbuf_cache_put(m), 0))
        mbuf_cache_drop(s, m);
}

/* The head last: as long as it is held its members can be told from others'. */
static void free_members(struct session *s, const struct mbuf_ref *head)
{
    struct mbuf_ref at = *head, member;
    uint32_t n = 0;
    bool more = mbuf_next(head->ref, &at, &n);

    while (more) {
        member = at;
        more = mbuf_next(head->ref, &at, &n);
        drop_buffer(s, &member);
        KILL_POINT(CHAIN_FREED);
    }
}

void mbuf_free(struct session *s, const struct mbuf_ref *head)
{
    if (__builtin_expect(atomic_load_explicit(&head->mbuf->next, memory_order_relaxed) != 0, 0))
        free_members(s, head);
    drop_buffer(s, head);
}
