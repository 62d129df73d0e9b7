/*
 * Device addresses: numbers out of a window that belongs to one device, so that those of two
 * devices never overlap. Nothing is mapped at them here.
 *
 * A number that was given back comes again as late as may be: a program that uses it after a free
 * is to be refused, and not to reach what has come after. Control thread.
 */
#pragma once

#include <stdint.h>

#define WINDOW_CLASSES 40 /* sizes, as powers of two */

/** Addresses that were given back, of one class: the oldest first. */
struct window_queue {
    uint64_t *address;
    uint32_t first, n, room;
};

struct window {
    uint64_t next, end; /* never given out so far */
    struct window_queue free[WINDOW_CLASSES];
};

void window_init(struct window *window, uint64_t from, uint64_t to);
/** Zeroed ones, too. */
void window_deinit(struct window *window);

/** An address for so many bytes, with at least an unused page behind them. 0: none. */
uint64_t window_take(struct window *window, uint64_t size);
/** It is given back. Of a size that was taken. */
void window_put(struct window *window, uint64_t address, uint64_t size);
/** An npud before has given it out: none overlaps it from now on. */
void window_note(struct window *window, uint64_t address, uint64_t size);
