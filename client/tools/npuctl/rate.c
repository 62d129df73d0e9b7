#include "client/tools/npuctl/rate.h"

#include "proto/util/clock.h"

static uint64_t compute_rate(uint64_t before, uint64_t after, uint64_t ns)
{
    return after > before && ns > 0
               ? (uint64_t)((double)(after - before) * (double)NSEC_PER_SEC / (double)ns + 0.5)
               : 0;
}

/* Rows are in the order of their numbers in both. */
#define FILL(rows, Row)                                                                            \
    for (size_t i = 0, k = 0; i < after->n_##rows; i++) {                                          \
        Row *row = after->rows[i];                                                                 \
                                                                                                   \
        while (k < before->n_##rows && before->rows[k]->number < row->number)                      \
            k++;                                                                                   \
        if (k < before->n_##rows && before->rows[k]->number == row->number)                        \
            row->rate = compute_rate(before->rows[k]->messages, row->messages, ns);                \
    }

void rate_fill(Npud__Report *after, const Npud__Report *before, uint64_t ns)
{
    FILL(queues, Npud__QueueRow)
    FILL(routes, Npud__RouteRow)
}
