/*
 * npud as it is after the set-up of a target, kept aside and put back after each input: so an input
 * costs what it asks for, not the beginning and the end of an npud with its clients. Only in what
 * `make fuzz` builds (mk/fuzz.mk); elsewhere, snapshot_begin is NULL, and each input has an npud of
 * its own.
 *
 * The state of npud and of the fuzzer is in ranges of memory: the variables of all files but those
 * that include kept.h, the heap (heap.c), and what is mapped (kernel_memory.c). Pages are read-only
 * until they are written for the first time; then they are copied, and from then on copied back
 * after each input, until it is seen that many inputs have not written them. Threads, thread-local
 * variables and descriptors of the machine are not put back: npud has none of the first and last
 * here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** From now on, memory is allocated from the heap that is put back. */
void __attribute__((weak)) snapshot_begin(void);
/** Keep all that there is now. Once. */
void __attribute__((weak)) snapshot_take(void);
/** As it was. The heap is the machine's again until snapshot_begin(). */
void __attribute__((weak)) snapshot_restore(void);
/**
 * Memory to be put back, too, and what ASan knows of it: before snapshot_take(). It begins and ends
 * at a multiple of SNAPSHOT_ALIGN.
 */
void __attribute__((weak)) snapshot_add(void *begin, size_t size);

/** Zeros into a page of such memory. Most are never written, and then it is not touched. */
void __attribute__((weak)) snapshot_clear(void *page);
/**
 * Whether libFuzzer is told what npud compares with what, of which it makes new inputs; that costs
 * a fifth of the time. At first, it is.
 */
void __attribute__((weak)) compares_tell(bool tell);

#define SNAPSHOT_ALIGN ((size_t)32768) /* a page of ASan's is for so much */

/* heap.c */
extern bool heap_on;
void heap_init(void);
/** Blocks that are in use. */
size_t __attribute__((weak)) heap_blocks(void);
