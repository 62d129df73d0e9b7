/* usage: raw_context: how long a second process takes until it has a context, and how much memory
 * of the device and of the host that costs. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/gpu/raw/raw.h"

struct shared {
    _Atomic uint64_t go, ready;
    uint64_t ready_ns;
    long resident;
};

static long resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0, resident = 0;

    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int begin(void *arg)
{
    struct shared *shared = arg;
    struct raw raw;
    uint64_t start;

    raw_await(&shared->go, 1);
    start = clock_ns();
    raw_begin(&raw);
    shared->ready_ns = clock_ns() - start;
    shared->resident = resident_bytes();
    atomic_store(&shared->ready, 1);
    pause();
    return 0;
}

int main(void)
{
    struct shared *shared = raw_share(sizeof(*shared));
    pid_t pid = raw_fork(begin, shared);
    size_t before, after, total;
    struct raw raw;

    raw_begin(&raw);
    MUST(raw.cu.cuMemGetInfo_v2(&before, &total));
    atomic_store(&shared->go, 1);
    raw_await(&shared->ready, 1);
    MUST(raw.cu.cuMemGetInfo_v2(&after, &total));
    kill(pid, SIGKILL);
    raw_reap(pid);
    printf("{\"row\": \"context ready\", \"ready_ms\": %.0f, \"device_MiB\": %ld, \"host_MiB\": "
           "%ld}\n",
           (double)shared->ready_ns / 1e6, ((long)before - (long)after) >> 20,
           shared->resident >> 20);
    return 0;
}
