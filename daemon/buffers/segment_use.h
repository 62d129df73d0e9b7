/*
 * Is a segment still needed? What is in shared memory was written by clients: npud believes a word
 * only as far as its own tables agree. Control thread.
 */
#pragma once

#include <stdbool.h>

struct segment;

/**
 * Is nothing in the segment in use? While clients work in it that is a guess, unless the segment is
 * closing.
 */
bool segment_unused(struct segment *segment);

/**
 * Gives the segment back if nothing in it is in use, also while clients are at work. True: it has
 * gone.
 */
bool segment_give_back(struct segment *segment);
