/* What the keeper holds: a descriptor for each key. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Takes fd over, in place of what key had. 0, or -ENOMEM: fd stays the caller's. */
int store_put(uint64_t key, int fd);

/** Lets go of key; nothing happens if it is unknown. */
void store_drop(uint64_t key);

/** The descriptor of key, which stays the store's; -1: unknown. */
int store_find(uint64_t key);

/** Lets go of everything, and shuts down what is a connection: its owner has ended. */
void store_end(void);

/** Calls fn(arg, key, fd) for each until it returns a negative number, and returns that, or 0. fn
 * changes nothing in the store. */
int store_each(int (*fn)(void *arg, uint64_t key, int fd), void *arg);
