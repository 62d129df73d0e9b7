/*
 * What it costs the control thread to wake a client: to send to its socket, or to read from there.
 * The kernel calls all watches of the other end meanwhile, and a client can have hundreds of
 * thousands of them (daemon/base/deferred_close.h). One thread.
 *
 * Time that other processes have run, and that the host of a virtual machine took, is to count for
 * no client. So it is CPU time of this thread, of which the monotonic clock gives a lower bound,
 * because the CPU clock costs six times as much; and a single long call proves nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** A call that costs more is a costly one. */
#define WAKE_MAX_NS UINT64_C(1000000)
/** So many costly ones in a row are the client's doing. */
#define WAKES_COSTLY 3

/** What is known of one client. All zero: nothing. */
struct wake_cost {
    uint8_t costly; /* calls in a row */
};

/** Before the calls that wake the client. */
void wake_cost_begin(void);
/** After them: what they have cost for certain, if that is more than WAKE_MAX_NS; else 0. */
uint64_t wake_cost_end(struct wake_cost *cost);

/** Were there so many that the client must go? */
static inline bool wake_cost_proven(const struct wake_cost *cost)
{
    return cost->costly >= WAKES_COSTLY;
}
