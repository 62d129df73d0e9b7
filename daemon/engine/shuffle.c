#include "daemon/engine/shuffle.h"

#include "daemon/base/mix.h"
#include "daemon/core/device.h"
#include "daemon/core/engine.h"
#include "daemon/core/session.h"
#include "daemon/core/stream.h"
#include "proto/util/clock.h"

/*
 * Most tasks begin at once, so that a program of many tasks still ends soon. Some wait about as
 * long as another stream takes for a few tasks; a few as long as a thread takes to come back from a
 * synchronise and submit more: what a missing wait would have kept apart meets then.
 */
static uint64_t draw_delay(uint64_t x)
{
    uint64_t which = x & 15, part = x >> 40; /* 24 bits */

    if (which < 11)
        return 0;
    if (which < 15)
        return (20 * NSEC_PER_USEC) + (part * (200 * NSEC_PER_USEC) >> 24);
    return (500 * NSEC_PER_USEC) + (part * (3 * NSEC_PER_MSEC) >> 24);
}

bool shuffle_holds(struct stream *s, uint64_t now)
{
    struct stream_kept *k = s->live;
    uint64_t delay;

    if (s->delayed || stream_has_begun(s) || stream_has_waited(s)) {
        s->delayed = false;
        return false;
    }
    delay = draw_delay(mix_task(s->attach->device->shuffle, k->ordinal, k->position - k->first));
    /* Without memory for a timer it begins now. */
    s->delayed = delay != 0 && engine_set_timer(s, now + delay) == 0;
    return s->delayed;
}
