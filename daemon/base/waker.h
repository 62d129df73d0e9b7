/*
 * Waking threads of clients that sleep on a word which they share with npud.
 *
 * The kernel wakes one sleeper after the other, in 1 to 6 us each, and as many threads can sleep on
 * one word as their users may have. So a thread of npud's that has other things to do wakes a few,
 * and a thread of its own wakes the rest, a few at a time: words take turns there.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** How many the caller itself wakes. */
#define WAKER_AT_ONCE 16

/**
 * Start the thread. 0 or -errno. Without it, and when it has much too much to do, waker_wake()
 * wakes all by itself.
 */
int waker_start(void);
/** Safe if it was not started. What is left to be woken is woken first. */
void waker_stop(void);

/**
 * Wake all threads that sleep on the word, some of them later. Any thread of npud's. If npud unmaps
 * the word meanwhile, nothing bad happens, and those that are left sleep on: for words that live as
 * long as the session of their sleepers, which then learn of its end.
 */
void waker_wake(_Atomic uint32_t *word);

/** Are there sleepers of a word in these bytes that are left to the thread? */
bool waker_wakes_in(const void *from, size_t bytes);
