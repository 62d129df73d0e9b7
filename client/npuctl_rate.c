#include "client/npuctl_rate.h"

#include "proto/clock.h"

static uint64_t rate(uint64_t before, uint64_t after, uint64_t ns)
{
    return after > before && ns > 0
               ? (uint64_t)((double)(after - before) * (double)NSEC_PER_SEC / (double)ns + 0.5)
               : 0;
}

/* Rows are in the order of their numbers in both. */
void rates_fill(Npud__Report *after, const Npud__Report *before, uint64_t ns)
{
    for (size_t i = 0, k = 0; i < after->n_queues; i++) {
        Npud__QueueRow *row = after->queues[i];

        while (k < before->n_queues && before->queues[k]->number < row->number)
            k++;
        if (k < before->n_queues && before->queues[k]->number == row->number)
            row->rate = rate(before->queues[k]->messages, row->messages, ns);
    }
}
