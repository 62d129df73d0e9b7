#include "client/buffers/mbuf_chain.h"

#include <string.h>

#include "acl/acl.h"
#include "client/core/error.h"
#include "client/buffers/mbuf_cache.h"
#include "client/runtime/session.h"
#include "proto/shm/mbuf_ref.h"

static int error_damaged(const char *function, uint32_t ref)
{
    return error_set(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                     "%s: buffer %u of segment %u is damaged: a process that shares it has written "
                     "into its head",
                     function, ref & 0xffff, ref >> 16);
}

static int error_long(const char *function, uint32_t n)
{
    return error_set(ACL_ERROR_RT_OVER_LIMIT, "%s: %u buffers: a chain has at most %u", function, n,
                     MBUF_CHAIN_MAX);
}

uint32_t mbuf_chain_count(const struct mbuf_ref *head)
{
    struct mbuf_ref at = *head;
    uint32_t n = 0, count = 1;

    while (mbuf_next(head->ref, &at, &n))
        count++;
    return count;
}

bool mbuf_chain_at(const struct mbuf_ref *head, uint32_t index, struct mbuf_ref *out)
{
    uint32_t n = 0;

    *out = *head;
    while (index-- > 0)
        if (!mbuf_next(head->ref, out, &n))
            return false;
    return true;
}

/* --- append --- */

/*
 * The last buffer of the chain of head, as noted there: a chain is built by appending to it, which
 * must not walk it each time.
 */
static bool find_tail(const struct mbuf_ref *head, struct mbuf_ref *tail)
{
    uint32_t ref = atomic_load_explicit(&head->mbuf->tail, memory_order_relaxed);

    *tail = *head;
    if (atomic_load_explicit(&head->mbuf->next, memory_order_relaxed) == 0)
        return true;
    return mbuf_find(ref, tail) && mbuf_chain_has(tail, head->ref) &&
           atomic_load_explicit(&tail->mbuf->next, memory_order_relaxed) == 0;
}

/* A member keeps its generation, so handles of it go on being good. */
static void make_member(struct mbuf_ref *m, uint32_t head)
{
    m->word = mbuf_word_member(mbuf_generation(m->word), head);
    atomic_store_explicit(&m->mbuf->word, m->word, memory_order_release);
}

/*
 * The process may end in between: at any moment every buffer is a head that it holds, or a member
 * of one; links only tell the order.
 */
static void link_chain(struct mbuf_ref *head, struct mbuf_ref *tail, struct mbuf_ref *more,
                       uint32_t count)
{
    struct mbuf_ref at = *more, last = *more;
    uint32_t n = 0;
    bool next = mbuf_next(more->ref, &at, &n);

    while (next) {
        last = at;
        next = mbuf_next(more->ref, &at, &n);
        make_member(&last, head->ref);
        KILL_POINT(CHAIN_MEMBER);
    }
    make_member(more, head->ref);
    KILL_POINT(CHAIN_MEMBER);
    atomic_store_explicit(&tail->mbuf->next, more->ref, memory_order_release);
    KILL_POINT(CHAIN_LINKED);
    atomic_store_explicit(&last.mbuf->next, 0, memory_order_relaxed);
    atomic_store_explicit(&head->mbuf->tail, last.ref, memory_order_relaxed);
    atomic_store_explicit(&head->mbuf->count, count, memory_order_relaxed);
}

int mbuf_chain_append(const char *function, struct mbuf_ref *head, struct mbuf_ref *more)
{
    uint32_t a = atomic_load_explicit(&head->mbuf->count, memory_order_relaxed);
    uint32_t b = mbuf_chain_count(more);
    struct mbuf_ref tail;

    if (!find_tail(head, &tail) || a == 0 || a > MBUF_CHAIN_MAX)
        return error_damaged(function, head->ref);
    if (a + b > MBUF_CHAIN_MAX)
        return error_long(function, a + b);
    link_chain(head, &tail, more, a + b);
    return 0;
}

/* --- references --- */

/* What goes its own ways from here on. */
static void copy_head(struct mbuf *to, const struct mbuf *from)
{
    bool user = atomic_load_explicit(&from->user_set, memory_order_relaxed) != 0;

    if (user)
        memcpy(to->user, from->user, MBUF_USER);
    atomic_store_explicit(&to->user_set, user, memory_order_relaxed);
    atomic_store_explicit(&to->length, atomic_load_explicit(&from->length, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->room, atomic_load_explicit(&from->room, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&to->next, 0, memory_order_relaxed);
    atomic_store_explicit(&to->count, 1, memory_order_relaxed);
}

/* One more reference to the data of m: set aside, with the word that it has in out. */
static int copy_one(const char *function, struct session *s, const struct mbuf_ref *m,
                    struct mbuf_ref *out)
{
    uint32_t slot, block = atomic_load_explicit(&m->mbuf->block, memory_order_relaxed);
    struct mbuf *to;

    if (block >= m->view->n_data)
        return error_damaged(function, m->ref);
    if (!pool_take_ref(s, m->view, &slot))
        return error_set(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                         "%s: all %u references that the %u buffers of segment %u can have are in "
                         "use: free some",
                         function, m->view->n_refs, m->view->n_data, m->view->id);
    KILL_POINT(REF_CLAIMED);
    to = &m->view->mbufs[slot];
    *out = (struct mbuf_ref){.view = m->view, .mbuf = to, .ref = m->view->id << 16 | slot};
    out->word = atomic_load_explicit(&to->word, memory_order_relaxed);
    copy_head(to, m->mbuf);
    if (mbuf_refer(m->view, to, block) > 0)
        return 0;
    if (mbuf_release(m->view, to))
        segment_freed(s, m->view);
    return error_damaged(function, m->ref);
}

static int copy_rest(const char *function, struct session *s, uint32_t source, struct mbuf_ref *at,
                     struct mbuf_ref *head)
{
    struct mbuf_ref tail = *head, copy;
    uint32_t n = 0, count = 1;

    while (mbuf_next(source, at, &n)) {
        int error = copy_one(function, s, at, &copy);

        if (error != 0)
            return error;
        copy.word = mbuf_word(mbuf_generation(copy.word) + 1, MBUF_CACHED, 0, 0);
        link_chain(head, &tail, &copy, ++count);
        tail = copy;
    }
    if (n < MBUF_CHAIN_MAX)
        return 0;
    return error_long(function, n + 1);
}

int mbuf_chain_copy(const char *function, struct session *s, const struct mbuf_ref *m,
                    struct mbuf_ref *out)
{
    uint32_t source = mbuf_state(m->word) == MBUF_MEMBER ? mbuf_head(m->word) : m->ref;
    struct mbuf_ref at = *m;
    int error = copy_one(function, s, m, out);

    if (error != 0)
        return error;
    out->word = mbuf_hold(out->mbuf, s->peer_id);
    error = copy_rest(function, s, source, &at, out);
    if (error != 0)
        mbuf_free(s, out);
    return error;
}
