/*
 * Freeing the buffers of sessions that have died. Control thread.
 *
 * What is in shared memory was written by clients. npud changes a slot only when that slot's own
 * word consents, and its loops are bounded by what it has given out itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct peer;
struct server;

/**
 * The session has died: whatever it holds in the segments that it maps is freed, what it was about
 * to put is taken back and freed, and what it has left half done there is done. After
 * queue_sweep_attachment(), before its attachments go.
 */
void sweep_peer(struct peer *peer);

/**
 * The same for what an npud that has ended had in hand, in all segments, but for heads of messages:
 * is_of_message() is asked about these.
 */
void sweep_npud(struct server *server, bool (*is_of_message)(uint32_t ref));

/** A piece of that, from peer->sweep on. True: it was the last one. */
bool sweep_peer_piece(struct peer *peer);
