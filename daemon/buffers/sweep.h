/*
 * Freeing buffers for those who cannot: sessions that have died, and messages that nobody will
 * take. Control thread.
 *
 * What is in shared memory was written by clients. npud changes a slot only when that slot's own
 * word consents, and its loops are bounded by what it has given out itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct segment;
struct server;
struct peer;

/**
 * The session has died: whatever it holds in the segments that it maps is freed, what it was about
 * to put is taken back and freed, and what it has left half done there is done. After
 * queue_sweep(), before its attachments go.
 */
void peer_sweep(struct peer *peer);

/** The buffer is HELD by npud, a head: free it with its chain. Anything else: nothing happens. */
void mbuf_free_chain(struct server *server, uint32_t ref);

/**
 * The next slots from *from on of which something was ever written: [*from, *to). False: none. The
 * others are no memory, and FREE; to look at them would make them some.
 */
bool segment_touched(const struct segment *segment, uint32_t *from, uint32_t *to);

/**
 * Is nothing in the segment anybody's? While others work in it that is a guess, unless the segment
 * is closing.
 */
bool segment_unused(struct segment *segment);
