/* usage: raw_launch N: kernel + event record until polling sees the event, in N processes at once.
 * Also what a launch costs at the call. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/raw/raw.h"

#define PROCESSES 64
#define ROUNDS    400

struct shared {
    _Atomic unsigned ready;
    unsigned n;
    uint64_t median[PROCESSES], p99[PROCESSES], call[PROCESSES];
};

struct child {
    struct shared *shared;
    unsigned i;
};

static uint64_t measure_call(struct raw *raw, unsigned rounds)
{
    uint64_t begin = clock_ns(), end;

    for (unsigned i = 0; i < rounds; i++)
        raw_nop(raw);
    end = clock_ns();
    MUST(raw->cu.cuStreamSynchronize(raw->stream));
    return (end - begin) / rounds;
}

static int measure(void *arg)
{
    struct child *c = arg;
    static uint64_t times[ROUNDS];
    unsigned rounds = raw_rounds(ROUNDS);
    struct raw raw;
    cuda_event event;
    cuda_result result;

    raw_begin(&raw);
    MUST(raw.more.cuEventCreate(&event, CUDA_EVENT_DISABLE_TIMING));
    raw_meet(&c->shared->ready, c->shared->n);
    for (unsigned i = 0; i < rounds; i++) {
        times[i] = clock_ns();
        raw_nop(&raw);
        MUST(raw.more.cuEventRecord(event, raw.stream));
        while ((result = raw.more.cuEventQuery(event)) == CUDA_NOT_READY)
            ;
        MUST(result);
        times[i] = clock_ns() - times[i];
    }
    c->shared->median[c->i] = raw_percentile(times, rounds, 50);
    c->shared->p99[c->i] = raw_percentile(times, rounds, 99);
    c->shared->call[c->i] = measure_call(&raw, rounds);
    return 0;
}

int main(int argc, char **argv)
{
    struct shared *shared = raw_share(sizeof(*shared));
    struct child child[PROCESSES];
    pid_t pid[PROCESSES];
    int status = 0, one;

    shared->n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    if (shared->n == 0 || shared->n > PROCESSES)
        return 2;
    for (unsigned i = 0; i < shared->n; i++) {
        child[i] = (struct child){shared, i};
        pid[i] = raw_fork(measure, &child[i]);
    }
    for (unsigned i = 0; i < shared->n; i++)
        if ((one = raw_reap(pid[i])) != 0)
            status = one;
    if (status != 0)
        return status < 0 ? 1 : status;
    printf(
        "{\"row\": \"launch to seen\", \"processes\": %u, \"median_us\": %.1f, \"p99_us\": %.1f, "
        "\"call_ns\": %lu}\n",
        shared->n, (double)raw_percentile(shared->median, shared->n, 50) / 1e3,
        (double)raw_percentile(shared->p99, shared->n, 100) / 1e3,
        (unsigned long)raw_percentile(shared->call, shared->n, 50));
    return 0;
}
