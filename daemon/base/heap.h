/*
 * The heap of npud is jemalloc's: free() gives no page back to the system, which takes milliseconds
 * if there are many. A thread of jemalloc does, within a second, and sleeps when there are none.
 */
#pragma once

/** When npud starts, before its threads. */
void heap_configure(void);
