/*
 * Is a segment still needed? What is in shared memory was written by clients: npud believes a word
 * only as far as its own tables agree. Control thread.
 */
#pragma once

#include <stdbool.h>

struct segment;

/**
 * Is nothing in the segment anybody's? While others work in it that is a guess, unless the segment
 * is closing.
 */
bool segment_unused(struct segment *segment);

/**
 * If nothing in the segment is anybody's, it goes. While clients are at work, too. True: it has
 * gone.
 */
bool segment_give_back(struct segment *segment);
