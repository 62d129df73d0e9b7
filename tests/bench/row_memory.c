/* Row 18: device memory that is allocated, imported, and copied by rows. */
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK    ((size_t)2 << 20)
#define EXTRA_NS 5000 /* that an allocation may take beside what it cannot do without */
#define ROWS     1000u
#define WIDTH    4096u
#define PITCH    (WIDTH + 64)
#define KEY      65

/* --- 2 MiB --- */

static double allocate_and_free(void *arg, unsigned n)
{
    uint64_t start = now_ns();

    (void)arg;
    for (unsigned i = 0; i < n; i++) {
        void *p;

        CHECK(aclrtMalloc(&p, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclrtFree(p));
    }
    return (double)(now_ns() - start) / n;
}

/* Two requests, and a file of as much that is made, mapped and unmapped. */
static double request_and_map(void *arg, unsigned n)
{
    uint64_t start = now_ns();

    (void)arg;
    for (unsigned i = 0; i < n; i++) {
        int fd = memfd_create("bench", MFD_CLOEXEC);
        aclrtStream stream;
        void *p;

        CHECK(aclrtCreateStream(&stream));
        CHECK(aclrtDestroyStream(stream));
        if (fd < 0 || ftruncate(fd, (off_t)BLOCK) != 0)
            die("no memory to map");
        p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            die("mmap: %m");
        munmap(p, BLOCK);
        close(fd);
    }
    return (double)(now_ns() - start) / n + EXTRA_NS;
}

/* --- a key --- */

static double import_key(void *arg, unsigned n)
{
    double ns = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t start = now_ns();
        void *p;

        CHECK(aclrtIpcMemImportByKey(&p, arg, 0));
        ns += (double)(now_ns() - start);
        CHECK(aclrtIpcMemClose(arg));
    }
    return ns / n;
}

/* A request that is answered with a descriptor, which is mapped. */
static double allocate_page(void *arg, unsigned n)
{
    double ns = 0;

    (void)arg;
    for (unsigned i = 0; i < n; i++) {
        uint64_t start = now_ns();
        void *p;

        CHECK(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
        ns += (double)(now_ns() - start);
        CHECK(aclrtFree(p));
    }
    return ns / n;
}

/* --- rows --- */

struct picture {
    void *device;
    char *host;
};

static double copy_rows(void *arg, unsigned n)
{
    const struct picture *p = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        CHECK(aclrtMemcpy2d(p->device, PITCH, p->host, PITCH, WIDTH, ROWS,
                            ACL_MEMCPY_HOST_TO_DEVICE));
    return (double)(now_ns() - start) / n;
}

static double copy_rows_by_hand(void *arg, unsigned n)
{
    const struct picture *p = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++)
        for (unsigned row = 0; row < ROWS; row++)
            memcpy((char *)p->device + (size_t)row * PITCH, p->host + (size_t)row * PITCH, WIDTH);
    return (double)(now_ns() - start) / n;
}

static struct result run_contest(const struct row *row, side_fn value, side_fn baseline, void *arg,
                                 unsigned n)
{
    const struct contest contest = {.value = value,
                                    .baseline = baseline,
                                    .arg = arg,
                                    .n_value = n,
                                    .n_baseline = n,
                                    .rounds = count_of(200, 5)};

    return contest_run(row, &contest);
}

void rows_memory(void)
{
    const struct row block = {"18-2M",
                              "allocate + free 2 MiB; vs 2 requests, a raw memfd pair, and 5 us",
                              1.0},
                     key = {"18-import", "import a key; vs a request with a descriptor", 2.0},
                     rows = {"18-2d", "copy 1,000 rows of 4 KiB; vs the same by memcpy", 1.1};
    struct picture picture = {.host = calloc(ROWS, PITCH)};
    struct result results[3];
    char text[KEY];
    void *shared;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc(&picture.device, (size_t)ROWS * PITCH, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&shared, BLOCK, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtIpcMemGetExportKey(shared, BLOCK, text, sizeof(text), 0));
    memset(picture.host, 1, (size_t)ROWS * PITCH);
    copy_rows(&picture, 1);
    results[0] = run_contest(&block, allocate_and_free, request_and_map, NULL, 20);
    results[1] = run_contest(&key, import_key, allocate_page, text, 20);
    results[2] = run_contest(&rows, copy_rows, copy_rows_by_hand, &picture, 1);
    results_emit_worst("18", results, 3);
    free(picture.host);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
}
