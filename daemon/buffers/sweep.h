/*
 * Freeing the buffers of sessions that have died. Control thread.
 *
 * What is in shared memory was written by clients. npud changes a slot only when that slot's own
 * word consents, and its loops are bounded by what it has given out itself.
 */
#pragma once

struct peer;

/**
 * The session has died: whatever it holds in the segments that it maps is freed, what it was about
 * to put is taken back and freed, and what it has left half done there is done. After
 * queue_sweep_begin(), before its attachments go.
 */
void sweep_peer(struct peer *peer);
