#include "client/core/npud_clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "proto/util/lift_fd.h"

/* Two clocks that are no further apart than this are one, if npud's answer says nothing else. */
#define SAME_NS (10 * NSEC_PER_MSEC)

_Atomic int64_t npud_clock_offset;

/* How far this process's time namespace is ahead of the first one, in which npud is mostly. */
static int64_t namespace_offset(void)
{
    FILE *f = lift_open("/proc/self/timens_offsets");
    int64_t seconds = 0, ns = 0;

    if (!f)
        return 0;
    if (fscanf(f, "monotonic %" SCNd64 " %" SCNd64, &seconds, &ns) != 2)
        seconds = ns = 0;
    fclose(f);
    return seconds * (int64_t)NSEC_PER_SEC + ns;
}

/*
 * The answer says the distance as exactly as it came soon. So one clock is never taken for two, and
 * two clocks have the distance that the kernel says, if that fits: npud may have a namespace, too.
 */
void npud_clock_learn(uint64_t theirs, uint64_t before, uint64_t after)
{
    int64_t least = (int64_t)(theirs - after), most = (int64_t)(theirs - before), offset = 0;

    if (theirs == 0)
        return;
    if (least > 0 || most < 0 || most - least > (int64_t)SAME_NS) {
        offset = -namespace_offset();
        if (offset < least || offset > most)
            offset = least <= 0 && most >= 0 ? 0 : least + (most - least) / 2;
    }
    atomic_store_explicit(&npud_clock_offset, offset, memory_order_relaxed);
}
