/* The descriptors of one of npud's own processes, before it has a second thread. */
#pragma once

#include <stdint.h>

/**
 * Whatever is written to descriptors 0 to 2 must never reach a client: each is open from here on,
 * so no socket gets its number.
 */
void own_fds_occupy_standard(void);

/** As many descriptors as the process may have. Returns how many that are. */
uint64_t own_fds_raise_limit(void);

/**
 * Once a process has threads, the kernel doubles its table of descriptors only after a grace period
 * of RCU: npud stood still for 10 to 28 ms each time. Before the first thread it costs nothing, and
 * the table never shrinks. fds: that the process may have.
 */
void own_fds_reserve(uint64_t fds);
