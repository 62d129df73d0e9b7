/*
 * Is a segment still needed? What is in shared memory was written by clients: npud believes a word
 * only as far as its own tables agree. Control thread.
 *
 * A segment has up to 65,536 slots, so a look at it is made in pieces, between which clients and
 * the rest of npud go on. The first pass is a guess. For the second one the segment is closing, and
 * a slot that was seen unused stays so:
 *   - a slot with data that is FREE is not claimed: segment_claim() looks at `closing`;
 *   - one that is owned in the name of a session that has ended, or does not map the segment, has
 *     no owner that could pass it on;
 *   - a slot without data has a reference: then the slot that has the data was seen in use before,
 *     because slots with data come first.
 * Without a session that maps it, the data of an orphan's messages seems to be unused: so
 * the look begins again when a session begins to map the segment, or npud claims a slot there for a
 * route (segment_look_ends()). New sessions that come for ever keep the segment for ever, as one of
 * them that holds a buffer does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct segment;

enum segment_use {
    SEGMENT_USED, /* a slot is in use */
    SEGMENT_MORE, /* none is in use so far: the look goes on in a later step */
    SEGMENT_GONE, /* none is in use; of segment_look(): the segment was given back */
};

/**
 * Are the slots from *from on unused? Goes on until the step's time is over, and then for at most
 * `piece` slots. While clients work in the segment the answer is a guess, unless it is closing.
 */
enum segment_use segment_look_at_slots(struct segment *segment, uint32_t *from, uint32_t piece);

/**
 * A piece of the look that is under way, or is begun by this call: the segment is given back if
 * nothing in it is in use, also while clients are at work. After SEGMENT_MORE it is for the pool's
 * job to go on: pool_look_at().
 */
enum segment_use segment_look(struct segment *segment);

/**
 * The same at once, if it does not take long; if it does, or the step has no time left, the pool's
 * job does it. True: it has gone.
 */
bool segment_give_back(struct segment *segment);
