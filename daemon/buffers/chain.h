/*
 * Chains of buffers: their members, freeing them, and references to all of their data. What is in
 * shared memory is checked against npud's own tables. Control thread.
 */
#pragma once

#include <stdint.h>

#include "proto/shm/mbuf_shm.h"

struct mbuf_ref;
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

/** Does npud hold the buffer that ref names, as the head of a chain? Then *m is this buffer. */
bool chain_find_held(struct server *server, uint32_t ref, struct mbuf_ref *m);

/**
 * Look up the chain with this head, which npud holds. What does not say that it belongs to it is
 * where it ends. False: npud holds no such head.
 */
bool chain_read(struct server *server, uint32_t head, struct chain *chain);

enum chain_result {
    CHAIN_OK,
    CHAIN_NO_SLOT, /* in a segment; the client that frees one there tells npud */
    CHAIN_DAMAGED, /* no further reference to be had: only a hostile peer brings that about */
};

/**
 * A chain of references to the data of another: of the same lengths and user data, held by npud.
 * CHAIN_OK: *ref is its head. CHAIN_NO_SLOT: *ref is a ref in the segment without a slot.
 */
enum chain_result chain_copy(const struct chain *chain, uint32_t *ref);

/**
 * Is there room for `copies` more copies of the chain, as far as hints of free slots tell? The
 * slots of a segment are shared by all destinations: that is how npud keeps one of them from having
 * them all.
 */
bool chain_has_room(const struct chain *chain, uint32_t copies);

/** The buffer is HELD by npud, a head: free it with its chain. Anything else: nothing happens. */
void chain_free(struct server *server, uint32_t ref);

/**
 * Free one slot, or a head with its members, whose owner can do so no more. The caller has seen
 * that the word of the slot, or head, consents.
 */
void chain_drop_slot(struct segment *segment, struct mbuf *mbuf);
void chain_drop(struct server *server, struct segment *segment, struct mbuf *head);
