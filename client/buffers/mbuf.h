/*
 * Shared buffers: handles and what they name (proto/shm/mbuf_shm.h).
 *
 * A handle carries the ref of a slot and the generation that its word has while the handle is
 * valid, so it needs no table: it is checked against the word itself. The word tells too whether
 * the buffer was freed, has been sent away, or is another's.
 *
 * Two threads may use two buffers, or two chains; one only with a lock of the program's. Nothing
 * here takes one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_tdt_queue.h"
#include "client/buffers/segment.h"
#include "client/runtime/session.h"
#include "proto/shm/mbuf_chain.h"

#define MBUF_HANDLE (UINT64_C(0xb) << 60)

/** The handle of a buffer whose word is this: HELD, or MEMBER. */
static inline acltdtBuf mbuf_handle(uint64_t word, uint32_t ref)
{
    return (acltdtBuf)(uintptr_t)(MBUF_HANDLE | (uint64_t)mbuf_generation(word) << 32 | ref);
}

/** The slot that ref names. False: unknown here. Its word is read with acquire. */
static inline __attribute__((always_inline)) bool mbuf_find(uint32_t ref, struct mbuf_ref *out)
{
    return mbuf_chain_find(&segment_table, ref, out);
}

/** After a sleep: the same slot again, whose word must still be the one that is noted. */
static inline bool mbuf_still_there(struct mbuf_ref *m)
{
    struct mbuf_ref again;

    if (!mbuf_find(m->ref, &again) || again.word != m->word)
        return false;
    *m = again;
    return true;
}

static inline bool mbuf_is_handle(acltdtBuf buf)
{
    return (uint64_t)(uintptr_t)buf >> 60 == MBUF_HANDLE >> 60;
}

/** Whether the session holds what a handle names: by far the commonest answer. */
static inline __attribute__((always_inline)) bool mbuf_check_held(struct session *s, acltdtBuf buf,
                                                                  struct mbuf_ref *out)
{
    uint64_t handle = (uint64_t)(uintptr_t)buf;

    return __builtin_expect(mbuf_is_handle(buf) && mbuf_find((uint32_t)handle, out) &&
                                out->word == mbuf_word_held((uint32_t)(handle >> 32), s->peer_id),
                            1);
}

/** What mbuf_check() and mbuf_check_head() do when it does not. */
int mbuf_check_member(const char *function, struct session *s, acltdtBuf buf, bool head_only,
                      struct mbuf_ref *out) __attribute__((cold));

/**
 * What a handle names: a head of this session's (the word is HELD), or a member of a chain whose
 * head is (MEMBER). 0, or 107000 with a sentence that tells what became of it.
 */
static inline int mbuf_check(const char *function, struct session *s, acltdtBuf buf,
                             struct mbuf_ref *out)
{
    return mbuf_check_held(s, buf, out) ? 0 : mbuf_check_member(function, s, buf, false, out);
}

/** The same where only a head will do: 107000 for a member too. */
static inline int mbuf_check_head(const char *function, struct session *s, acltdtBuf buf,
                                  struct mbuf_ref *out)
{
    return mbuf_check_held(s, buf, out) ? 0 : mbuf_check_member(function, s, buf, true, out);
}

/** mbuf_chain_next() with what is mapped here (segment_need()). */
static inline bool mbuf_next(uint32_t head, struct mbuf_ref *at, uint32_t *n)
{
    return mbuf_chain_next(&segment_table, head, at, n);
}

/** A buffer of size bytes from the own pool, held. 0; 107000 size; 207001, 207005, 507010. */
int mbuf_alloc(const char *function, struct session *s, uint64_t size, struct mbuf_ref *out);

/** Free what a head that this session holds owns: the chain. */
void mbuf_free(struct session *s, const struct mbuf_ref *head);

/**
 * Where its data is and how much was asked for. False: not possible, because a peer has
 * written into its head.
 */
static inline bool mbuf_data(const struct mbuf_ref *m, unsigned char **data, uint64_t *room)
{
    uint32_t block = atomic_load_explicit(&m->mbuf->block, memory_order_relaxed);

    *room = atomic_load_explicit(&m->mbuf->room, memory_order_relaxed);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a buffer was found by its view */
    if (block >= m->view->n_data || *room > m->view->stride)
        return false;
    *data = m->view->data + block * m->view->stride;
    return true;
}

/** User data: MBUF_USER bytes, which are zero until the first are set. Callers check the bounds. */
void mbuf_set_user(struct mbuf *m, const void *data, size_t size, size_t offset);
void mbuf_get_user(struct mbuf *m, void *data, size_t size, size_t offset);
