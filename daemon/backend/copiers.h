/*
 * Threads that make large copies and sets of simulated devices beside the engines, so that several
 * streams move bytes at the same time. docs/architecture.md says who owns what.
 *
 * An engine lends a copier the next megabytes of one work, and parks the stream. The copier knows
 * the bytes and nothing else: no stream, no lock. When they are moved it says so, and the engine
 * takes the work back. A copier that is lent to nobody sleeps.
 *
 * Threads: new and free in the control thread, the rest under the lock of the device's engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/backend.h"

struct copiers;
struct mapped;

/** This eventfd is to wake the engine of the device from now on. 0 or -errno. */
typedef int (*copiers_watch_fn)(void *arg, uint32_t device, int fd);

/**
 * n: how many, for so many devices; 0: half of the CPUs that npud may use, less one, as the engine
 * that lends is another one. Fewer if there are no threads. watch: called when a device first
 * lends. NULL: no memory or descriptors.
 */
struct copiers *copiers_new(unsigned n, uint32_t devices, copiers_watch_fn watch, void *arg);
/** Ends the threads. Nothing is lent. Safe on NULL. */
void copiers_free(struct copiers *copiers);

/** A copier goes on with the work, in usable memory; src as mapped_step(). False: none is free. */
bool copiers_lend(struct copiers *copiers, uint32_t device, struct work *work,
                  const struct mapped *dst, const struct mapped *src);

/**
 * True: no copier is at the work, and its progress says how far it was brought. cut: stop it, and
 * wait for that: for as long as a slice takes (mapped_step()).
 */
bool copiers_recall(struct copiers *copiers, uint32_t device, struct work *work, bool cut);

/** backend.poll() and backend.sleep(). */
void copiers_poll(struct copiers *copiers, uint32_t device, void (*over)(struct work *work));
bool copiers_sleep(struct copiers *copiers, uint32_t device, bool asleep);
