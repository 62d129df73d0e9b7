/*
 * usage: raw_word: words in registered pages of a memfd: a value write until it is seen; a store of
 * the host until a stream that waits for it has written back; a host function until it is called.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gpu/raw/raw.h"

#define ROUNDS 400
#define BYTES  4096

static _Atomic uint64_t *words; /* 0: written by the device; 8: awaited by it */
static cuda_address address;

static void map_words(struct raw *raw)
{
    int fd = memfd_create("raw", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, BYTES) != 0)
        raw_fail("memfd_create", 0);
    words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        raw_fail("mmap", 0);
    MUST(raw->cu.cuMemHostRegister_v2(words, BYTES, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP));
    MUST(raw->cu.cuMemHostGetDevicePointer_v2(&address, words, 0));
}

static void write_word(struct raw *raw, uint64_t i)
{
    MUST(raw->cu.cuStreamWriteValue64_v2(raw->stream, address, i, 0));
}

static uint64_t measure_write(struct raw *raw, uint64_t i)
{
    uint64_t begin = clock_ns();

    write_word(raw, i);
    raw_await(&words[0], i);
    return clock_ns() - begin;
}

static uint64_t measure_wait(struct raw *raw, uint64_t i)
{
    uint64_t begin;

    MUST(raw->cu.cuStreamWaitValue64_v2(raw->stream, address + 64, i, CUDA_WAIT_VALUE_GEQ));
    write_word(raw, i);
    clock_sleep_until(clock_ns() + 50 * NSEC_PER_USEC); /* the stream is at the wait */
    begin = clock_ns();
    atomic_store(&words[8], i);
    raw_await(&words[0], i);
    return clock_ns() - begin;
}

static void tell(void *word)
{
    atomic_fetch_add((_Atomic uint64_t *)word, 1);
}

static uint64_t measure_function(struct raw *raw, uint64_t i)
{
    static _Atomic uint64_t called;
    uint64_t begin = clock_ns(), before = atomic_load(&called);

    (void)i;
    MUST(raw->cu.cuLaunchHostFunc(raw->stream, tell, &called));
    raw_await(&called, before + 1);
    return clock_ns() - begin;
}

static double median_us(struct raw *raw, uint64_t (*measure)(struct raw *raw, uint64_t i))
{
    static uint64_t number;
    uint64_t times[ROUNDS];
    unsigned rounds = raw_rounds(ROUNDS);

    for (unsigned i = 0; i < rounds; i++)
        times[i] = measure(raw, ++number);
    return (double)raw_percentile(times, rounds, 50) / 1e3;
}

int main(void)
{
    struct raw raw;
    double write, wait, function;

    raw_begin(&raw);
    map_words(&raw);
    write = median_us(&raw, measure_write);
    wait = median_us(&raw, measure_wait);
    function = median_us(&raw, measure_function);
    MUST(raw.cu.cuStreamSynchronize(raw.stream));
    printf(
        "{\"row\": \"words of registered pages\", \"write_us\": %.1f, \"wait_and_write_us\": %.1f, "
        "\"host_function_us\": %.1f}\n",
        write, wait, function);
    return 0;
}
