/*
 * What npud shares with an executor: a process that has loaded the library of a device and runs the
 * device work of a session or of a user (docs/hardware.md). Two files:
 *
 * struct executor_ring  npud writes, the executor has it mapped for reading only. Of npud's alone.
 *   struct executor_page  the executor writes. npud reads each word once and trusts none: a number
 *                         that was never given out is a fault of the executor.
 *
 * Work goes by lanes. A lane belongs to the executor's thread of that number, which has a queue of
 * the device for it: tasks of a lane are done one after the other, those of different lanes at the
 * same time. To npud a lane is a stream's while it has work in flight there.
 *
 * Tasks of a lane have numbers, from 1. Task n stands in entry n % EXECUTOR_DEPTH, which is free
 * when task n - EXECUTOR_DEPTH is over. An executor takes each number once, in order. So it is
 * known of each task whether it was given out, also to an npud that comes after the one that did:
 * it is if `issued` of the lane has its number.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXECUTOR_LANES 64u
#define EXECUTOR_DEPTH 128u

/**
 * Changes with these layouts, and with what a message (proto/wire/executor_message.h) asks of an
 * executor: one outlives an npud that is upgraded. An npud that does not find its own in an
 * executor ends it.
 */
#define EXECUTOR_VERSION 5u

enum executor_op {
    EXECUTOR_NOP,        /* over when it is reached: for probes and measurements */
    EXECUTOR_COPY,       /* size bytes from src to dst */
    EXECUTOR_SET,        /* size bytes at dst: the low byte of `value` each */
    EXECUTOR_REDUCE,     /* dst = dst op src: kind << 8 | type of proto/util/reduce.h in `value` */
    EXECUTOR_WORD_WRITE, /* the 8 bytes at dst: `size` */
    EXECUTOR_WORD_READ,  /* the 8 bytes at src: into `value` of the lane */
    /* the kernel `dst`, with what is in host memory at src: executor_launch; its sum is `size` */
    EXECUTOR_LAUNCH,
    EXECUTOR_OPS
};

/** A place: memory by its handle (proto/wire/executor_message.h), and an offset in it. */
struct executor_place {
    uint64_t handle;
    uint64_t offset;
};

/** One line of a cache. */
struct executor_task {
    uint8_t op;     /* enum executor_op */
    uint8_t device; /* of the library: on which it runs */
    uint16_t reserved;
    uint32_t value;
    uint64_t number;
    /*
     * The executor has to have handled the message with this number before, or a later one: memory
     * that the task names may have come there.
     */
    uint64_t after;
    struct executor_place dst, src;
    uint64_t size;
};
static_assert(sizeof(struct executor_task) == 64, "an entry is a line");

/** What a launch has at most. More than any device takes. */
#define EXECUTOR_ARGUMENTS    (64u << 10) /* bytes */
#define EXECUTOR_PLACEHOLDERS 1024u

/**
 * In host memory, for EXECUTOR_LAUNCH. Behind it are `placeholders`, and behind these `bytes` of
 * arguments. The program's library writes it, and npud does not read it: so it is part of what they
 * agree on, and changes with PROTOCOL (proto/wire/packet.h), too.
 */
struct executor_launch {
    uint32_t blocks[3], threads[3]; /* threads: 1 for devices that have none */
    uint32_t shared_bytes;
    uint32_t bytes;
    uint32_t placeholders;
    uint32_t batch;     /* 1: it begins when all of its blocks can */
    uint64_t on_device; /* 0, or where the device has the arguments: none are behind it then */
    uint64_t limit_ns;  /* how long it may take; 0: for ever */
};
static_assert(sizeof(struct executor_launch) == 56, "programs write it");

/** In the arguments, from their begin on: where the device's address of other bytes goes. */
struct executor_placeholder {
    uint32_t address;
    uint32_t data; /* those bytes */
};

static inline uint64_t executor_sum_bytes(uint64_t sum, const void *bytes, size_t n)
{
    for (uint64_t word; n > 0; n -= n < sizeof(word) ? n : sizeof(word)) {
        word = 0;
        memcpy(&word, bytes, n < sizeof(word) ? n : sizeof(word));
        bytes = (const char *)bytes + sizeof(word);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    return sum;
}

/**
 * Of a launch and the n bytes behind it. A device may come to a launch that its stream has dropped,
 * when the program has another one in this memory: that is not launched a second time. It is for
 * mistakes, and not for programs that mean to make them.
 */
static inline uint64_t executor_launch_sum(const struct executor_launch *launch, const void *behind,
                                           size_t n)
{
    return executor_sum_bytes(executor_sum_bytes(n, launch, sizeof(*launch)), behind, n);
}

struct executor_bell {
    /* The low half of the number that was given out last. Stored last, with release; a futex. */
    _Atomic uint32_t news;
    /* The engine is asleep, or about to be: whoever ends a task of the lane writes its eventfd. */
    _Atomic uint32_t awaited;
    _Atomic uint64_t issued; /* the whole number; stored before `news` */
    uint64_t reserved[6];
};
static_assert(sizeof(struct executor_bell) == 64, "a bell is a line");

/** The begin of the ring, in every version. npud stores it before it gives the ring to anybody. */
struct executor_head {
    uint32_t version;
    uint32_t unused[15];
};
static_assert(sizeof(struct executor_head) == 64, "what follows has its lines");

struct executor_ring {
    struct executor_head head;
    struct executor_bell bell[EXECUTOR_LANES];
    struct executor_task entry[EXECUTOR_LANES][EXECUTOR_DEPTH];
};

struct executor_done {
    _Atomic uint64_t done; /* the number of the last task that is over. Stored last, with release */
    _Atomic uint64_t value; /* what EXECUTOR_WORD_READ has read */
    _Atomic int32_t code;   /* of that task: 0 or an ACL error */
    /*
     * The lane's thread sleeps on the bell, or is about to. It stores this, then looks at `news`;
     * npud stores `news`, then looks at this: both sequentially consistent.
     */
    _Atomic uint32_t asleep;
    /* A call of the library is under way, since this time (CLOCK_MONOTONIC, ns); 0: none is. */
    _Atomic uint64_t busy_since;
    /* A task of the lane has lost the device to this process: 1. Stored before `done` */
    _Atomic uint32_t gone;
    uint32_t reserved[7];
};
static_assert(sizeof(struct executor_done) == 64, "a lane's end is a line");

struct executor_page {
    struct executor_done lane[EXECUTOR_LANES];
    /* Of task n, in n % EXECUTOR_DEPTH: 0 or an ACL error. Stored before `done` */
    _Atomic int32_t code[EXECUTOR_LANES][EXECUTOR_DEPTH];
};
