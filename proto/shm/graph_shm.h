/*
 * A graph: a list of tasks that is executed as often as the client likes, each time by one task,
 * TASK_GRAPH.
 *
 * The list is an array of struct task in pinned host memory of the client's session, which npud has
 * made like any allocation. The client writes it before it submits the first TASK_GRAPH that names
 * it, and while none is under way. npud reads an entry as it reads one of a ring: once into a copy,
 * which it validates and uses. `sequence`, `thread` and `implicit` of an entry mean nothing.
 *
 * Two ops are different there:
 *
 *   TASK_JUMP      stands in lists only. Its target is an index in the list.
 *   TASK_CALLBACK  `ordinal` is the index of the callback among those of the list, from 0. It
 *                  always blocks the stream. npud hands over the smallest ordinal that is larger
 *                  than all before it and tells the index, see graph_call_ordinal(). So a callback
 *                  in a loop has another ordinal each time, and one that a jump has passed none.
 *
 * TASK_GRAPH itself does not stand in a list.
 */
#pragma once

#include <stdint.h>

#include "proto/shm/task.h"

#define GRAPH_TASKS_MAX (UINT32_C(1) << 20)

/** Word of a callback in a list: that which TASK_GRAPH names, of the stream's own thread. */
#define GRAPH_WORD_OF_STREAM UINT32_MAX

/** TASK_GRAPH: there are records of notifies in the list, which have to be told as dropped. */
#define TASK_GRAPH_NOTIFIES 0x01u

/** What TASK_JUMP asks for: the word compared with `right`, both with a sign. */
enum jump_condition {
    JUMP_ALWAYS,
    JUMP_EQUAL,
    JUMP_NOT_EQUAL,
    JUMP_GREATER,
    JUMP_GREATER_EQUAL,
    JUMP_LESS,
    JUMP_LESS_EQUAL,
    JUMP_CONDITIONS
};

/**
 * The ordinal of callback `index`, of `calls` that a list has: the smallest above `before` that is
 * base + 1 + index, or a multiple of `calls` further.
 */
static inline uint64_t graph_call_ordinal(uint64_t base, uint32_t calls, uint32_t index,
                                          uint64_t before)
{
    uint64_t first = base + 1 + index;

    if (before < first)
        return first;
    return first + ((before - first) / calls + 1) * calls;
}

/** Which callback has this ordinal. */
static inline uint32_t graph_call_index(uint64_t base, uint32_t calls, uint64_t ordinal)
{
    return (uint32_t)((ordinal - base - 1) % calls);
}
