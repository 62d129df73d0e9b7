/*
 * The numbers of aclrtRandomNumAsync: from Philox 4x32-10, so that a seed and a counter name the
 * same numbers in every process and after every restart.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

/** A place in the sequence of a seed: blocks of four words, one for each value of the counter. */
struct random_source {
    uint32_t key[2];
    uint32_t counter[4]; /* of the next block; 128 bits, lowest word first */
    uint32_t block[4];
    unsigned remaining; /* words of the block that are not used yet */
};

/** A parameter or a bound: real for types that are, else an integer that is extended to 64 bits. */
union random_value {
    double real;
    uint64_t integer;
};

struct random_law {
    aclrtRandomNumFuncType function;
    aclDataType type;
    /* minimum and maximum, mean and standard deviation, or the ratio of a dropout */
    union random_value a, b;
};

/** Bytes of a number; 0: there are no random numbers of the type. */
unsigned random_type_size(aclDataType type);

/** Is it a type of floating-point numbers? */
bool random_type_real(aclDataType type);

/** The value of a real type that lies in memory. */
double random_type_load(aclDataType type, const void *from);

/** A seed: its numbers begin with the block of counter 0. */
struct random_source random_source_of(uint64_t seed);

/** The first `count` numbers, or bits of a dropout, from a source on. */
void random_write(const struct random_law *law, struct random_source *source, uint64_t count,
                  void *to);
