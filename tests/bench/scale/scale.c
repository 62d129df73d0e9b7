/*
 * `make bench-scale`: what one npud does for 1 to as many processes as there are CPUs, which all do
 * the same as fast as they can. Of each row and number: operations per second of all of them, and
 * how long one operation took, the median and the 99th percentile over all processes.
 *
 * The parent process never uses the library; each number of processes is made anew.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_tdt_queue.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "tests/common/process.h"

#define SEATS   64u
#define SAMPLES 65536u /* of a process: the last ones */
#define BATCH   256u
#define MESSAGE 64u
#define BUFFER  4096u
/* A neighbour in the ring has stopped before. */
#define PATIENCE_MS 200

struct seat {
    _Atomic uint32_t qid; /* 0: not made so far */
    int32_t pid;
    uint64_t ops;
    uint32_t ns[SAMPLES];
};

static struct board {
    _Atomic uint32_t published, ready, go, stop;
    struct seat seat[SEATS];
} * board;

static unsigned processes, me;
static size_t copy_bytes = (size_t)64 << 20;
static aclrtStream stream;
static void *source, *target;

static void check(aclError error, const char *call)
{
    if (error == ACL_SUCCESS)
        return;
    fprintf(stderr, "scale: %s: %d: %s\n", call, error, aclGetRecentErrMsg());
    exit(1);
}
#define CHECK(call) check((call), #call)

static void await(_Atomic uint32_t *word, uint32_t least)
{
    uint32_t seen;

    while ((seen = atomic_load(word)) < least)
        futex_wait_until(word, seen, NULL);
}

static void tell(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    futex_wake_all(word);
}

/* --- the rows: what a process prepares, and one operation --- */

static void begin_device(void)
{
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
}

static void begin_memory(void)
{
    begin_device();
    CHECK(aclrtMalloc(&source, copy_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&target, copy_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(source, copy_bytes, 1, copy_bytes));
    CHECK(aclrtMemset(target, copy_bytes, 2, copy_bytes));
}

static void do_tasks(void)
{
    for (unsigned i = 0; i < BATCH; i++)
        CHECK(aclrtMemsetAsync(target, MESSAGE, (int)i & 127, MESSAGE, stream));
    CHECK(aclrtSynchronizeStream(stream));
}

static void do_copy(void)
{
    CHECK(aclrtMemcpyAsync(target, copy_bytes, source, copy_bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                           stream));
    CHECK(aclrtSynchronizeStream(stream));
}

static void do_requests(void)
{
    aclrtStream made;

    CHECK(aclrtCreateStream(&made));
    CHECK(aclrtDestroyStream(made));
}

/* Each process has a queue, and sends to that of the next one. */
static void begin_ring(void)
{
    struct seat *before = &board->seat[(me + processes - 1) % processes];
    uint32_t qid, rights;

    CHECK(acltdtCreateQueue(NULL, &qid));
    board->seat[me].pid = getpid();
    atomic_store(&board->seat[me].qid, qid);
    tell(&board->published);
    await(&board->published, processes);
    if (processes == 1)
        return;
    CHECK(acltdtGrantQueue(qid, before->pid, ACL_TDT_QUEUE_PERMISSION_ENQUEUE, 0));
    CHECK(acltdtAttachQueue(atomic_load(&board->seat[(me + 1) % processes].qid), -1, &rights));
}

static void do_hand_over(void)
{
    char message[MESSAGE] = {0};
    size_t size;
    aclError error = acltdtEnqueueData(atomic_load(&board->seat[(me + 1) % processes].qid), message,
                                       sizeof(message), NULL, 0, PATIENCE_MS, 0);

    if (error == ACL_SUCCESS)
        error = acltdtDequeueData(atomic_load(&board->seat[me].qid), message, sizeof(message),
                                  &size, NULL, 0, PATIENCE_MS);
    if (atomic_load(&board->stop) == 0)
        check(error, "a hand-over");
}

static void do_buffer(void)
{
    acltdtBuf buffer;

    CHECK(acltdtAllocBuf(BUFFER, ACL_TDT_NORMAL_MEM, &buffer));
    CHECK(acltdtFreeBuf(buffer));
}

static void begin_nothing(void)
{
}

static const struct row {
    const char *name, *what, *unit;
    double each; /* in that unit, what one operation is; 0: bytes of a copy, in GB */
    void (*begin)(void), (*once)(void);
} rows[] = {
    {"tasks", "tasks that set 64 bytes, 256 and a synchronise", "M/s", BATCH / 1e6, begin_memory,
     do_tasks},
    {"copies", "copies of device memory, a stream each", "GB/s", 0, begin_memory, do_copy},
    {"requests", "requests: a stream, created and destroyed", "k/s", 2 / 1e3, begin_device,
     do_requests},
    {"queues", "messages of 64 bytes, round a ring of processes", "M/s", 1 / 1e6, begin_ring,
     do_hand_over},
    {"buffers", "buffers of 4 KiB, allocated and freed", "M/s", 1 / 1e6, begin_nothing, do_buffer},
};

/* --- a process --- */

static int work(void *arg)
{
    const struct row *row = arg;
    struct seat *seat = &board->seat[me];

    CHECK(aclInit(NULL));
    row->begin();
    row->once();
    tell(&board->ready);
    await(&board->go, 1);
    for (uint64_t now, before = clock_ns(); atomic_load(&board->stop) == 0; before = now) {
        row->once();
        now = clock_ns();
        seat->ns[seat->ops++ % SAMPLES] = (uint32_t)(now - before);
    }
    CHECK(aclFinalize());
    return 0;
}

/* --- all of them --- */

static int compare_ns(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static uint32_t samples[SEATS * SAMPLES];

static void report(FILE *json, const struct row *row, uint64_t took)
{
    static const char *comma = "";
    double each = row->each != 0 ? row->each : (double)copy_bytes / 1e9, rate, median, p99;
    uint64_t ops = 0;
    size_t n = 0;

    for (unsigned i = 0; i < processes; i++) {
        const struct seat *seat = &board->seat[i];
        size_t here = seat->ops < SAMPLES ? seat->ops : SAMPLES;

        memcpy(&samples[n], seat->ns, here * sizeof(samples[0]));
        n += here;
        ops += seat->ops;
    }
    qsort(samples, n, sizeof(samples[0]), compare_ns);
    rate = (double)ops * each * 1e9 / (double)took;
    median = n > 0 ? samples[n / 2] / 1e3 : 0;
    p99 = n > 0 ? samples[n * 99 / 100] / 1e3 : 0;
    printf("%-9s %9u %12.2f %-5s %12.2f %12.2f %8.1f\n", row->name, processes, rate, row->unit,
           median, p99, median > 0 ? p99 / median : 0);
    fprintf(json,
            "%s\n  {\"row\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"processes\": %u, "
            "\"rate\": %.4f, \"median_us\": %.3f, \"p99_us\": %.3f}",
            comma, row->name, row->what, row->unit, processes, rate, median, p99);
    comma = ",";
    fflush(stdout);
}

static bool measure(FILE *json, const struct row *row, unsigned ms)
{
    pid_t pid[SEATS];
    uint64_t since;
    bool good = true;

    memset(board, 0, sizeof(*board));
    for (me = 0; me < processes; me++)
        if ((pid[me] = process_start(work, (void *)(uintptr_t)row)) < 0)
            return false;
    while (atomic_load(&board->ready) < processes) {
        const struct timespec soon = timespec_from_ns(clock_ns() + 20 * NSEC_PER_SEC);
        uint32_t seen = atomic_load(&board->ready);

        if (seen < processes && futex_wait_until(&board->ready, seen, &soon) == -ETIMEDOUT)
            return false;
    }
    since = clock_ns();
    tell(&board->go);
    usleep(ms * 1000); /* that long is measured */
    atomic_store(&board->stop, 1);
    since = clock_ns() - since;
    for (unsigned i = 0; i < processes; i++)
        good &= process_end(pid[i]) == 0;
    if (good)
        report(json, row, since);
    return good;
}

/* Named, or none is. */
static bool is_wanted(const struct row *row, char **names)
{
    bool all = !*names;

    for (; *names; names++)
        all |= strcmp(*names, row->name) == 0;
    return all;
}

/* Each name is a row's: a mistaken option measures nothing, and overwrites no file. */
static bool names_are_rows(char **names)
{
    const size_t count = sizeof(rows) / sizeof(rows[0]);
    size_t i = 0;

    for (; *names && i < count; names++)
        for (i = 0; i < count && strcmp(*names, rows[i].name) != 0;)
            i++;
    return i < count;
}

static bool measure_all(FILE *json, char **names, unsigned most, unsigned ms)
{
    printf("%-9s %9s %18s %12s %12s %8s\n", "row", "processes", "rate", "median us", "p99 us",
           "p99/med");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (processes = 1; processes <= most && is_wanted(&rows[i], names); processes++)
            if (!measure(json, &rows[i], ms)) {
                fprintf(stderr, "scale: %s with %u processes failed\n", rows[i].name, processes);
                return false;
            }
    return true;
}

int main(int argc, char **argv)
{
    bool smoke = argc > 2 && strcmp(argv[2], "--smoke") == 0, good;
    FILE *json;
    unsigned cpus;
    cpu_set_t set;

    if (argc < 2 || argv[1][0] == '-' || !names_are_rows(argv + 2 + smoke)) {
        fprintf(stderr, "usage: scale FILE.json [--smoke] [ROW ...]\nrows:");
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            fprintf(stderr, " %s", rows[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    json = fopen(argv[1], "w");
    if (!json) {
        perror(argv[1]);
        return 1;
    }
    cpus = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : (unsigned)CPU_COUNT(&set);
    if (cpus > SEATS)
        cpus = SEATS;
    if (smoke) {
        copy_bytes = (size_t)4 << 20;
        cpus = 2;
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("scale: mmap");
        return 1;
    }
    fprintf(json, "[");
    good = measure_all(json, argv + 2 + smoke, cpus, smoke ? 20 : 1000);
    fprintf(json, "\n]\n");
    return fclose(json) != 0 || !good;
}
