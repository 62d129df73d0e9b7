/*
 * What a client can write, written: all memory that a process has mapped writable from npud, while
 * it is stopped. The test writes in its place, because a library whose words are garbage would end
 * its process before all of them are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum garbage_kind {
    GARBAGE_ONES, /* from here, every word */
    GARBAGE_ZEROS,
    GARBAGE_RANDOM,
    GARBAGE_SMALL, /* numbers that could be right: indices, states */
    GARBAGE_WORDS, /* from here, one word of many: the others still lead to it */
    GARBAGE_BITS,
    GARBAGE_STEPS, /* one more or less than it was */
    GARBAGE_KINDS,
};

const char *garbage_name(enum garbage_kind kind);

#define GARBAGE_MAPS 256

struct garbage_map {
    uint64_t at, size;
};

/** The memory of one process. */
struct garbage {
    int fd; /* /proc/PID/mem */
    unsigned n;
    struct garbage_map map[GARBAGE_MAPS];
    uint64_t bytes; /* of all maps */
};

/** Asserts that it has some. */
void garbage_open(struct garbage *g, pid_t pid);
void garbage_close(struct garbage *g);

/** All of it, page by page. */
void garbage_write(const struct garbage *g, enum garbage_kind kind, uint64_t seed);

/** A few words anywhere; for a loop beside npud. */
void garbage_write_some(const struct garbage *g, enum garbage_kind kind, uint64_t *rng);
