/*
 * Where the program is: call stacks, each of which is unwound once. The next time that the same
 * function writes a record at the same depth of the stack, the return addresses are compared with
 * those that were found before, at the places on the stack where they were: some loads in place of
 * an unwinder's microseconds, and as exact.
 *
 * A cache is one thread's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm/check_file.h"

/* A power of two. A program that calls from more places has some of them unwound again. */
#define CHECK_STACKS 128u

struct check_stack {
    uintptr_t frame;   /* of checked_write() */
    uintptr_t address; /* to which that returns */
    uint32_t number;   /* of the place, in its thread; 0: the entry is empty */
    uint32_t source;   /* of the interpreted program; 0: none */
    uint32_t n;
    bool exact; /* all return addresses lie where they can be compared */
    uint64_t pc[CHECK_FRAMES];
    uintptr_t at[CHECK_FRAMES]; /* where pc lies on the stack */
};

/**
 * The entry for the stack at which its caller, which has this frame and returns to that address,
 * is. *known: it is as it was, with its number; else it was unwound just now, and the caller gives
 * it one. source: in force.
 */
struct check_stack *check_stack_find(struct check_stack cache[CHECK_STACKS], uintptr_t frame,
                                     uintptr_t address, uint32_t source, bool *known);
