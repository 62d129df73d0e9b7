/* usage: raw_copy: 64 MiB each way: pinned by the driver, a registered memfd, ordinary memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/raw/raw.h"

#define SIZE   (UINT64_C(64) << 20)
#define ROUNDS 20

/* GB/s, the median. */
static double measure(struct raw *raw, void *pages, cuda_address memory, bool to_device)
{
    uint64_t times[ROUNDS];
    unsigned rounds = raw_rounds(ROUNDS);

    for (unsigned i = 0; i < rounds; i++) {
        times[i] = clock_ns();
        if (to_device)
            MUST(raw->cu.cuMemcpyHtoDAsync_v2(memory, pages, SIZE, raw->stream));
        else
            MUST(raw->cu.cuMemcpyDtoHAsync_v2(pages, memory, SIZE, raw->stream));
        MUST(raw->cu.cuStreamSynchronize(raw->stream));
        times[i] = clock_ns() - times[i];
    }
    return (double)SIZE / (double)raw_percentile(times, rounds, 50);
}

int main(void)
{
    struct raw raw;
    cuda_address memory;
    void *pinned, *pageable, *registered;
    double rate[3][2];
    uint64_t register_ns;
    int fd;

    raw_begin(&raw);
    MUST(raw.cu.cuMemAlloc_v2(&memory, SIZE));
    MUST(raw.more.cuMemHostAlloc(&pinned, SIZE, 0));
    pageable = malloc(SIZE);
    fd = memfd_create("raw", MFD_CLOEXEC);
    if (!pageable || fd < 0 || ftruncate(fd, (off_t)SIZE) != 0)
        return 1;
    registered = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (registered == MAP_FAILED)
        return 1;
    memset(pageable, 1, SIZE);
    memset(registered, 2, SIZE);
    memset(pinned, 3, SIZE);
    register_ns = clock_ns();
    MUST(raw.cu.cuMemHostRegister_v2(registered, SIZE, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP));
    register_ns = clock_ns() - register_ns;
    for (int i = 0; i < 2; i++) {
        rate[0][i] = measure(&raw, pinned, memory, i == 0);
        rate[1][i] = measure(&raw, registered, memory, i == 0);
        rate[2][i] = measure(&raw, pageable, memory, i == 0);
    }
    printf("{\"row\": \"64 MiB, GB/s to and from\", \"pinned\": [%.1f, %.1f], "
           "\"memfd\": [%.1f, %.1f], \"pageable\": [%.1f, %.1f], \"register_ms\": %.1f}\n",
           rate[0][0], rate[0][1], rate[1][0], rate[1][1], rate[2][0], rate[2][1],
           (double)register_ns / 1e6);
    free(pageable);
    return 0;
}
