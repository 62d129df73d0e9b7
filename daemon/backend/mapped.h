/*
 * Files of memory that npud maps and works on by itself: all memory of simulated devices, and
 * pinned memory of the host. It is mapped when work first needs it.
 *
 * Threads: new and free in the control thread, the rest anywhere.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/backend.h"

struct user;

struct mapped {
    int fd;
    bool counted;     /* pages that npud fills are: base/filled.h */
    uint32_t holders; /* names of it that are given back */
    uint64_t size;
    _Atomic(unsigned char *) map; /* NULL: not mapped so far */
};

/** The file is the memory's. NULL: no memory, and fd is still the caller's. */
struct mapped *mapped_new(int fd, uint64_t size, bool counted);
/** One holder less; the last one frees it. user: whose it was. */
void mapped_leave(struct mapped *mapped, const struct user *user);

/** It is mapped, or is by that. False: npud has not the means. */
bool mapped_usable(struct mapped *mapped);
/** The byte at offset, of usable memory. */
unsigned char *mapped_at(const struct mapped *mapped, uint64_t offset);

/* Aligned words of usable memory, as backend.word_read() has them, and the rest. */
uint64_t mapped_word_read(const struct mapped *mapped, uint64_t offset);
void mapped_word_write(const struct mapped *mapped, uint64_t offset, uint64_t value);
void mapped_words_read(const struct mapped *mapped, uint64_t offset, uint64_t *to, unsigned words);

/**
 * A slice of work that moves bytes from src to dst, both usable; src of WORK_SET is not looked at.
 * WORK_MORE or WORK_DONE.
 */
enum work_state mapped_step(struct work *work, const struct mapped *dst, const struct mapped *src);
/** WORK_DELAY, which moves none: as backend.step(). */
enum work_state delay_step(struct work *work, uint64_t now, uint64_t *deadline, int32_t *result);
