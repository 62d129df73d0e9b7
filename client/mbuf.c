#include "client/mbuf.h"

#include <string.h>

#include "acl/acl.h"
#include "client/error.h"
#include "client/mbuf_cache.h"
#include "client/process.h"
#include "client/session.h"

/* --- handles --- */

/* What became of a buffer, for whoever still has its handle. */
static int explain(const char *function, struct session *s, acltdtBuf buf, bool known,
                   const struct mbuf_ref *m)
{
    uint32_t generation = (uint64_t)(uintptr_t)buf >> 32 & MBUF_GENERATION;
    enum mbuf_state state = known ? mbuf_state(m->word) : MBUF_FREE;

    if ((uint64_t)(uintptr_t)buf >> 60 != MBUF_HANDLE >> 60 || !known)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is not a buffer of this process",
                         function, buf);
    if (state == MBUF_SENDING && mbuf_session(m->word) == s->share)
        return error_set(
            ACL_ERROR_RT_PARAM_INVALID,
            "%s: buffer %p was enqueued and is its receiver's: nothing can be done with "
            "it here any more",
            function, buf);
    if (generation != mbuf_generation(m->word) || state == MBUF_FREE || state == MBUF_CACHED)
        return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: buffer %p was freed, or enqueued, before",
                         function, buf);
    return error_set(ACL_ERROR_RT_PARAM_INVALID, "%s: buffer %p is not this process's", function,
                     buf);
}

static bool is_handle(acltdtBuf buf)
{
    return (uint64_t)(uintptr_t)buf >> 60 == MBUF_HANDLE >> 60;
}

/* Its word is one that buf was made with. */
static bool matches(struct session *s, acltdtBuf buf, const struct mbuf_ref *m)
{
    struct mbuf_ref head;

    if (mbuf_handle(m->word, m->ref) != buf)
        return false;
    if (mbuf_state(m->word) == MBUF_HELD)
        return mbuf_session(m->word) == s->share;
    return mbuf_state(m->word) == MBUF_MEMBER && mbuf_find(mbuf_head(m->word), &head) &&
           mbuf_state(head.word) == MBUF_HELD && mbuf_session(head.word) == s->share;
}

int mbuf_check(const char *function, struct session *s, acltdtBuf buf, struct mbuf_ref *out)
{
    bool known = is_handle(buf) && mbuf_find((uint32_t)(uintptr_t)buf, out);

    if (__builtin_expect(known && matches(s, buf, out), 1))
        return 0;
    return explain(function, s, buf, known, out);
}

int mbuf_check_head(const char *function, struct session *s, acltdtBuf buf, struct mbuf_ref *out)
{
    int error = mbuf_check(function, s, buf, out);

    if (__builtin_expect(error == 0 && mbuf_state(out->word) != MBUF_HELD, 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: buffer %p is a member of a chain: only the head of a chain will do",
                         function, buf);
    return error;
}

bool mbuf_data(const struct mbuf_ref *m, unsigned char **data, uint64_t *room)
{
    uint32_t block = atomic_load_explicit(&m->mbuf->block, memory_order_relaxed);

    *room = atomic_load_explicit(&m->mbuf->room, memory_order_relaxed);
    if (block >= m->view->n_data || *room > m->view->stride)
        return false;
    *data = m->view->data + block * m->view->stride;
    return true;
}

/* --- alloc and free --- */

int mbuf_alloc(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out)
{
    uint32_t class, slot, ref = 0;
    struct mbuf_cache *cache;

    if (__builtin_expect(size - 1 >= MBUF_SIZE_MAX, 0))
        return error_set(ACL_ERROR_RT_PARAM_INVALID,
                         "%s: size is %llu: a buffer has 1 byte to 4 GiB (4294967296 bytes)",
                         function, (unsigned long long)size);
    class = mbuf_class(size);
    cache = mbuf_cache_get(s);
    if (__builtin_expect(cache && class < MBUF_CACHED, 1))
        ref = mbuf_cache_pop(s, cache, class);
    if (__builtin_expect(ref != 0, 1)) {
        out->view = segment_get(segments(), ref);
        slot = ref & 0xffff;
    } else {
        int error = pool_take(function, s, class, &out->view, &slot);

        if (error != 0)
            return error;
    }
    out->mbuf = &out->view->mbufs[slot];
    out->ref = out->view->id << 16 | slot;
    mbuf_prepare(out->view, out->mbuf, size);
    KILL_POINT(MBUF_PREPARED);
    out->word = mbuf_hold(out->mbuf, s->share);
    KILL_POINT(MBUF_HOLDS);
    if (cache)
        cache->held++;
    return 0;
}

/* One buffer that the session owns. */
static void drop(struct session *s, struct segment_view *view, struct mbuf *m)
{
    struct segment *g = segment_of(view);
    struct mbuf_cache *cache = g->own ? mbuf_cache_get(s) : NULL;
    bool full = false, leaves = cache && mbuf_cache_leave(s, cache, g);

    if (g->cached != SEGMENT_NO_CLASS && cache && !leaves && mbuf_unshared(view, m) &&
        segment_usable(view)) {
        mbuf_cache_push(s, cache, g, m);
        return;
    }
    mbuf_drop(view, m, &full);
    if (full)
        segment_freed(s, view);
    if (leaves && atomic_load_explicit(&view->page->armed, memory_order_relaxed) == 0)
        segment_trim(s, view->id);
}

void mbuf_free(struct session *s, struct mbuf_ref *head)
{
    struct mbuf_ref at = *head, member;
    uint32_t n = 0;
    bool more = mbuf_next(head->ref, &at, &n);

    /* The head last: as long as it is held its members can be told from others'. */
    while (__builtin_expect(more, 0)) {
        member = at;
        more = mbuf_next(head->ref, &at, &n);
        drop(s, member.view, member.mbuf);
        KILL_POINT(CHAIN_FREED);
    }
    drop(s, head->view, head->mbuf);
}
