/*
 * Tasks that begin later than they could, so that streams without an order between them run in
 * other orders than the usual one ([sim] shuffle, npu-run --shuffle). The delay of a task follows
 * from the seed, from which stream of npud's it is in and which task of that: so a program that
 * does the same again meets the same delays.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stream;

/**
 * Does the stream's next task, which has not begun, wait for a while? Then the stream has a timer,
 * and goes on when it is over. Engine.
 */
bool shuffle_holds(struct stream *stream, uint64_t now) __attribute__((cold));
