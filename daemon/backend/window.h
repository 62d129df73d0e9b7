/*
 * Device addresses of one session: numbers out of a window that belongs to one device, so that
 * those of two devices never overlap. Nothing is mapped at them here. Each session has windows of
 * its own, as a process has its own addresses: no other session can use them up, or leave only
 * small pieces of them.
 *
 * What is in use is a tree of ranges, and nothing else is kept: what lies between them is free,
 * also after recovery, which notes the ranges of all allocations that are there.
 *
 * A number that was given back waits before it may come again: a program that uses it after a free
 * is to be refused, and not to reach what has come after. Control thread.
 */
#pragma once

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window_range;

RB_HEAD(window_tree, window_range);

struct window {
    struct window_tree used; /* by address; with those that wait */
};

struct windows {
    uint64_t from, bytes;                 /* where the first one begins, and how large each is */
    uint32_t waiting;                     /* how many wait */
    struct window_range *oldest, *newest; /* of those */
    uint32_t n;
    struct window window[];
};

/** What n windows take, and what each address takes beside that as long as it is in use: bytes. */
size_t windows_bytes(uint32_t n);
size_t window_range_bytes(void);

/** n windows beside each other. NULL: no memory. */
struct windows *windows_new(uint32_t n, uint64_t from, uint64_t bytes);
/** NULL: nothing. */
void windows_free(struct windows *windows);

/**
 * An address in window i for so many bytes, with at least an unused page behind them. 0: there is
 * no room, or no memory.
 */
uint64_t window_take(struct windows *windows, uint32_t i, uint64_t size);
/** It is given back. What window_note() has left out is ignored. */
void window_put(struct windows *windows, uint32_t i, uint64_t address);
/**
 * An npud before has given it out: none overlaps it from now on. False: no memory, or it overlaps
 * another one.
 */
bool window_note(struct windows *windows, uint32_t i, uint64_t address, uint64_t size);
