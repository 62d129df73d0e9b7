/*
 * What the fuzz targets share. Each fuzz_*.c is a program of its own: with libFuzzer (`make fuzz`),
 * or with replay.c, which feeds it the kept corpus (`make check`). A target depends on nothing but
 * its input, so that a reproducer reproduces.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** What must hold whatever the input says. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(2, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/** The bytes that decide everything. Past the end they read as zero. */
struct input {
    const uint8_t *data;
    size_t size;
};

static inline uint8_t take_u8(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static inline uint16_t take_u16(struct input *in)
{
    uint16_t low = take_u8(in);

    return (uint16_t)(low | take_u8(in) << 8);
}

/** At most n bytes, where they stand; *size is how many. */
static inline const uint8_t *take_bytes(struct input *in, size_t n, size_t *size)
{
    const uint8_t *p = in->data;

    *size = n < in->size ? n : in->size;
    in->data += *size;
    in->size -= *size;
    return p;
}

/** A number: mostly small, at times one of those where things break, at times any. */
static inline uint64_t take_number(struct input *in)
{
    static const uint64_t borders[] = {
        255,        256,        257,        1023,       1024,       1025,
        4095,       4096,       4097,       8191,       8192,       65535,
        65536,      262143,     262144,     1 << 20,    0x7fffffff, 0x80000000,
        0xfffffffe, 0xffffffff, 1ull << 32, 1ull << 46, 1ull << 62, (1ull << 62) + 1,
        1ull << 63, -4096ull,   -4095ull,   -64ull,     -2ull,      -1ull,
    };
    enum { FIRST = 0xff - sizeof(borders) / sizeof(borders[0]) };
    uint8_t c = take_u8(in);
    uint64_t n = 0;

    if (c < FIRST)
        return c;
    if (c < 0xff)
        return borders[c - FIRST];
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)take_u8(in) << 8 * i;
    return n;
}

/** Change one byte of something. */
static inline void damage_byte(struct input *in, uint8_t *bytes, size_t size)
{
    size_t i = take_u8(in) % size;

    bytes[i] ^= take_u8(in);
}
