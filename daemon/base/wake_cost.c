#include "daemon/base/wake_cost.h"

#include "proto/util/clock.h"

/* The CPU clock is read again after this time: then little can have run in between. */
#define READ_AGAIN (200 * NSEC_PER_USEC)

static struct {
    uint64_t begun;     /* the calls that run */
    uint64_t read, cpu; /* when the CPU time was read, and what it was */
} now;

void wake_cost_begin(void)
{
    now.begun = clock_ns();
    if (now.begun - now.read < READ_AGAIN)
        return;
    now.cpu = clock_cpu_ns();
    now.read = now.begun;
}

/* The thread has run for no longer than time has passed between the reading and the calls. */
static uint64_t cost_at_least(void)
{
    uint64_t used = clock_cpu_ns() - now.cpu, before = now.begun - now.read;

    return used > before ? used - before : 0;
}

uint64_t wake_cost_end(struct wake_cost *cost)
{
    uint64_t took = clock_ns() - now.begun;

    if (__builtin_expect(took > WAKE_MAX_NS, 0))
        took = cost_at_least();
    if (__builtin_expect(took <= WAKE_MAX_NS, 1)) {
        cost->costly = 0;
        return 0;
    }
    if (!wake_cost_proven(cost))
        cost->costly++;
    return took;
}
