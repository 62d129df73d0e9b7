/* A binary heap of streams by deadline. Owned by one engine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stream;

struct timers {
    struct stream **heap;
    uint32_t n;
    uint32_t size;
};

void timers_deinit(struct timers *t);
/** Set or move the timer of stream. -ENOMEM when the heap cannot grow. */
int timers_set(struct timers *t, struct stream *stream, uint64_t deadline);
/** Stop it. Safe when none is set. */
void timers_clear(struct timers *t, struct stream *stream);
/** The stream with the earliest deadline, or NULL. */
struct stream *timers_first(const struct timers *t);
