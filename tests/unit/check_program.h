/*
 * Random programs of streams, for the model of npu-check, and a reference that knows their orders
 * by brute force: a graph of what docs/checking.md says, and its transitive closure.
 *
 * A program is a list of steps in the order of their time. A simulated device executes it while it
 * is made, so that a thread learns only what can have happened.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PROGRAM_STEPS   256u
#define PROGRAM_STREAMS 8u
#define PROGRAM_BLOCKS  16u /* of a memory: bytes with one fate, 8 each */

enum step_kind {
    STEP_ACCESS, /* by a stream, or by the host */
    STEP_RECORD,
    STEP_WAIT, /* plain events and those of several processes */
    STEP_LEVEL_RECORD,
    STEP_LEVEL_WAIT,
    STEP_NOTIFY_RECORD,
    STEP_NOTIFY_WAIT,
    STEP_COUNT_RECORD,
    STEP_COUNT_WAIT,
    STEP_VALUE_WRITE,
    STEP_VALUE_SET, /* writes the word, but not as a word */
    STEP_VALUE_WAIT,
    STEP_CALLBACK,
    STEP_SYNC,       /* host: the stream up to step `since` */
    STEP_SYNC_EVENT, /* host */
    STEP_BEGIN,      /* host: of a callback */
    STEP_END,
    STEP_DESTROY, /* host: all of a stream */
    STEP_FREE,    /* host: a memory */
    STEP_KINDS
};

struct step {
    uint8_t kind;
    bool gone;     /* was taken out */
    int8_t stream; /* -1: the host */
    uint8_t object;
    uint32_t round; /* of the object: a wait comes after the records of its round */
    uint32_t since; /* SYNC; BEGIN, END: step of the callback */
    bool block;     /* CALLBACK */
    bool writes;
    uint8_t memory, first, last; /* blocks of an ACCESS */
};

struct program {
    uint32_t processes, streams; /* at first */
    uint8_t process[PROGRAM_STREAMS];
    struct step step[PROGRAM_STEPS];
    uint32_t n;
};

struct bits {
    uint64_t word[PROGRAM_STEPS / 64];
};

static inline bool bit_is_set(const struct bits *b, uint32_t i)
{
    return b->word[i / 64] >> i % 64 & 1;
}

static inline void bit_set(struct bits *b, uint32_t i)
{
    b->word[i / 64] |= UINT64_C(1) << i % 64;
}

/** `clean`: before an access that would race, what makes an order is put. */
void program_make(struct program *p, uint64_t seed, bool clean);
/** before[i]: the steps that step i comes after. False: a cycle, which no run has. */
bool program_close(const struct program *p, struct bits before[PROGRAM_STEPS]);
/** Whether both use the block of the memory, and one writes it. */
bool steps_conflict(const struct program *p, uint32_t a, uint32_t b, unsigned memory,
                    unsigned block);
/**
 * Takes out step i, if it makes a stream wait, and what would go wrong without it: the other steps
 * of its round, of a notify or a count notify. False: it is no such step.
 */
bool program_take_out(struct program *p, uint32_t i);
const char *step_name(const struct step *s);
