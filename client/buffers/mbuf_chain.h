/*
 * Chains of shared buffers, and references to the data of others (proto/shm/mbuf_shm.h). The
 * caller has checked the handles.
 */
#pragma once

#include "client/buffers/mbuf.h"

struct session;

/** Buffers in the chain of a head, 1 to MBUF_CHAIN_MAX. */
uint32_t mbuf_chain_count(const struct mbuf_ref *head);

/** Member number index of the chain of head, which is 0 itself. False: there are not so many. */
bool mbuf_chain_at(const struct mbuf_ref *head, uint32_t index, struct mbuf_ref *out);

/**
 * The chain of `more`, another head, becomes the end of that of head. 0; 207012 too many, nothing
 * is changed; 507899 a chain is damaged.
 */
int mbuf_chain_append(const char *function, struct mbuf_ref *head, struct mbuf_ref *more);

/**
 * References to the data of m and of what follows it in its chain: a chain of its own, held. 0;
 * 207005 a segment has no slot for one more, 207012, 507899 damaged.
 */
int mbuf_chain_copy(const char *function, struct session *s, const struct mbuf_ref *m,
                    struct mbuf_ref *out);
