#include "daemon/base/timers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/array.h"

void timers_deinit(struct timers *timers)
{
    free(timers->heap);
    *timers = (struct timers){0};
}

static void put_at(struct timers *timers, uint32_t i, struct timer *timer)
{
    timers->heap[i] = timer;
    timer->place = i + 1;
}

static void sift_from(struct timers *timers, uint32_t i, struct timer *timer)
{
    while (i > 0 && timers->heap[(i - 1) / 2]->deadline > timer->deadline) {
        put_at(timers, i, timers->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (uint32_t c; (c = 2 * i + 1) < timers->n; i = c) {
        if (c + 1 < timers->n && timers->heap[c + 1]->deadline < timers->heap[c]->deadline)
            c++;
        if (timer->deadline <= timers->heap[c]->deadline)
            break;
        put_at(timers, i, timers->heap[c]);
    }
    put_at(timers, i, timer);
}

int timers_set(struct timers *timers, struct timer *timer, uint64_t deadline)
{
    struct timer **heap = array_grow(timers->heap, &timers->size, timers->n + (timer->place == 0),
                                     sizeof(struct timer *));

    if (!heap)
        return -ENOMEM;
    timers->heap = heap;
    timer->deadline = deadline;
    sift_from(timers, timer->place ? timer->place - 1 : timers->n++, timer);
    return 0;
}

void timers_clear(struct timers *timers, struct timer *timer)
{
    struct timer *last;
    uint32_t i;

    if (timer->place == 0)
        return;
    i = timer->place - 1;
    assert(timers->heap[i] == timer);
    timer->place = 0;
    last = timers->heap[--timers->n];
    if (last != timer)
        sift_from(timers, i, last);
}

struct timer *timers_first(const struct timers *timers)
{
    return timers->n ? timers->heap[0] : NULL;
}
