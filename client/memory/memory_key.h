/*
 * The protection key of memory of strict devices, on processors that have such keys: memory with
 * the key can be used by the threads that have opened it for themselves, and by no other. Threads
 * begin without. In a signal handler it is closed, and stays so if the handler jumps out.
 */
#pragma once

#include <stdbool.h>

/** The key of the process, made by the first call; -1: the processor or the system has none. */
int memory_key(void);

/** Open it for the calling thread, or close it. Without a key, nothing is done. */
void memory_key_open(bool open);
