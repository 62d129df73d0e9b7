/*
 * Chains of buffers that npud holds, as its router needs them: their members, and references to all of their data. What is in shared memory is checked
 * against npud's own tables. Control thread.
 */
#pragma once

#include <stdint.h>

#include "proto/mbuf_shm.h"

struct segment;
struct server;

/** The members of a chain, its head first. */
struct chain {
    uint32_t n;
    uint64_t bytes; /* of data, as npud has it: slots, not what was asked for */
    struct chain_member {
        struct segment_view *view;
        struct mbuf *mbuf;
        struct segment *segment;
        uint32_t ref;
    } member[MBUF_CHAIN_MAX];
};

/** Does npud hold the buffer that ref names, as the head of a chain? */
bool chain_held(struct server *server, uint32_t ref);

/**
 * Look up the chain with this head, which npud holds. What does not say that it belongs to it is where it ends. False: npud holds no such head.
 */
bool chain_read(struct server *server, uint32_t head, struct chain *chain);

/**
 * A chain of references to the data of another: of the same lengths and user data, held by npud. Returns the ref of its head; 0: there is no free slot
 * somewhere, or no further reference to be had. Who frees a slot there tells npud (segment_wanted()).
 */
uint32_t chain_copy(const struct chain *chain);
