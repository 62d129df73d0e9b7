/*
 * usage: raw_event [block]: CUDA's own events between two processes, there and back. Each side
 * launches a kernel, records its event, and says by a shared word that it has; the other one polls
 * the event, or sleeps until it.
 */
#include <stdio.h>
#include <string.h>

#include "tests/gpu/raw/raw.h"

#define ROUNDS 400

struct shared {
    _Atomic unsigned ready, opened, over;
    _Atomic uint64_t recorded[2];
    struct cuda_ipc_event handle[2];
    bool block;
    uint64_t times[ROUNDS], open_ns;
};

struct side {
    struct shared *shared;
    int me;
    struct raw raw;
    cuda_event mine, other;
};

static void begin_side(struct side *s)
{
    unsigned flags = CUDA_EVENT_INTERPROCESS | CUDA_EVENT_DISABLE_TIMING |
                     (s->shared->block ? CUDA_EVENT_BLOCKING_SYNC : 0u);
    uint64_t begin;

    raw_begin(&s->raw);
    MUST(s->raw.more.cuEventCreate(&s->mine, flags));
    MUST(s->raw.more.cuIpcGetEventHandle(&s->shared->handle[s->me], s->mine));
    raw_meet(&s->shared->ready, 2);
    begin = clock_ns();
    MUST(s->raw.more.cuIpcOpenEventHandle(&s->other, s->shared->handle[1 - s->me]));
    s->shared->open_ns = clock_ns() - begin;
    raw_meet(&s->shared->opened, 2);
}

static void record(struct side *s, uint64_t number)
{
    raw_nop(&s->raw);
    MUST(s->raw.more.cuEventRecord(s->mine, s->raw.stream));
    atomic_store(&s->shared->recorded[s->me], number);
}

static void await(struct side *s, uint64_t number)
{
    cuda_result result;

    raw_await(&s->shared->recorded[1 - s->me], number);
    if (s->shared->block) {
        MUST(s->raw.more.cuEventSynchronize(s->other));
        return;
    }
    while ((result = s->raw.more.cuEventQuery(s->other)) == CUDA_NOT_READY)
        ;
    MUST(result);
}

static int answer(void *arg)
{
    struct side s = {.shared = arg, .me = 1};

    begin_side(&s);
    for (unsigned i = 1; i <= raw_rounds(ROUNDS); i++) {
        await(&s, i);
        record(&s, i);
    }
    raw_meet(&s.shared->over, 2); /* an event ends with the process that has made it */
    return 0;
}

static int ask(void *arg)
{
    struct side s = {.shared = arg, .me = 0};
    uint64_t *times = s.shared->times;

    begin_side(&s);
    for (unsigned i = 1; i <= raw_rounds(ROUNDS); i++) {
        times[i - 1] = clock_ns();
        record(&s, i);
        await(&s, i);
        times[i - 1] = clock_ns() - times[i - 1];
    }
    raw_meet(&s.shared->over, 2);
    return 0;
}

int main(int argc, char **argv)
{
    struct shared *shared = raw_share(sizeof(*shared));
    unsigned rounds = raw_rounds(ROUNDS);
    pid_t pid[2];
    int status[2];

    shared->block = argc > 1 && strcmp(argv[1], "block") == 0;
    pid[0] = raw_fork(ask, shared);
    pid[1] = raw_fork(answer, shared);
    for (int i = 0; i < 2; i++)
        status[i] = raw_reap(pid[i]);
    if (status[0] != 0 || status[1] != 0)
        return status[0] == RAW_NO_GPU ? RAW_NO_GPU : 1;
    printf("{\"row\": \"IPC event there and back\", \"how\": \"%s\", \"median_us\": %.1f, "
           "\"p99_us\": %.1f, \"open_us\": %.1f}\n",
           shared->block ? "blocking" : "polling",
           (double)raw_percentile(shared->times, rounds, 50) / 1e3,
           (double)raw_percentile(shared->times, rounds, 99) / 1e3, (double)shared->open_ns / 1e3);
    return 0;
}
