/*
 * Row 26: tensors through a channel.
 *
 * 4 MiB: from the program's memory into a dataset of the receiver, which looks at nothing; beside
 * one memcpy of as much in one process. By one thread that sends and receives, and from process to
 * process, where the receiver sleeps and is woken for each.
 *
 * 64 bytes, from process to process: beside a microsecond, which is a million per second. Sender
 * and receiver make no items for each: a program that does pays for two allocations more.
 */
#include "tests/bench/bench.h"
#include "tests/bench/helper.h"
#include "tests/common/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/acl_tdt.h"

#define LARGE    ((size_t)4 << 20)
#define SMALL    ((size_t)64)
#define CAPACITY 1024
#define DEEP     2

struct order {
    alignas(64) _Atomic uint32_t command; /* futex: counts the orders */
    bool over, large;
    unsigned n;
    alignas(64) _Atomic uint32_t finished; /* futex: counts the orders */
    alignas(64) _Atomic uint32_t ready;
};

struct channels {
    struct order *order;
    pid_t receiver;
    acltdtChannelHandle *small, *large, *own;
    acltdtDataItem *small_item, *large_item;
    acltdtDataset *small_set, *large_set, *into;
    char *from, *to;
};

static acltdtChannelHandle *join_channel(const char *name, size_t capacity)
{
    acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(0, name, capacity);

    if (!channel)
        die("%s", aclGetRecentErrMsg());
    return channel;
}

/* --- the other process --- */

static int receive_all(void *arg)
{
    struct order *o = arg;
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtChannelHandle *small, *large;

    CHECK(aclInit(NULL));
    small = join_channel("small", CAPACITY);
    large = join_channel("large", DEEP);
    tell(&o->ready, 1);
    for (uint32_t n = 1;; n++) {
        sleep_until(&o->command, n);
        if (o->over)
            break;
        for (unsigned i = 0; i < o->n; i++)
            CHECK(acltdtReceiveTensor(o->large ? large : small, dataset, -1));
        tell(&o->finished, n);
    }
    CHECK(acltdtDestroyDataset(dataset));
    CHECK(acltdtDestroyChannel(small));
    CHECK(acltdtDestroyChannel(large));
    return aclFinalize();
}

static void give_order(struct order *o)
{
    atomic_fetch_add_explicit(&o->command, 1, memory_order_release);
    futex_wake(&o->command);
}

/* --- sides --- */

static double between_processes(struct channels *c, bool large, unsigned n)
{
    struct order *o = c->order;
    uint64_t start = now_ns();

    o->large = large;
    o->n = n;
    give_order(o);
    for (unsigned i = 0; i < n; i++)
        CHECK(
            acltdtSendTensor(large ? c->large : c->small, large ? c->large_set : c->small_set, -1));
    sleep_until(&o->finished, atomic_load_explicit(&o->command, memory_order_relaxed));
    return (double)(now_ns() - start) / n;
}

static double large_side(void *arg, unsigned n)
{
    return between_processes(arg, true, n);
}

static double small_side(void *arg, unsigned n)
{
    return between_processes(arg, false, n);
}

static double own_side(void *arg, unsigned n)
{
    struct channels *c = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        CHECK(acltdtSendTensor(c->own, c->large_set, -1));
        CHECK(acltdtReceiveTensor(c->own, c->into, -1));
    }
    return (double)(now_ns() - start) / n;
}

static double memcpy_side(void *arg, unsigned n)
{
    struct channels *c = arg;
    uint64_t start = now_ns();

    for (unsigned i = 0; i < n; i++) {
        memcpy(c->to, c->from, LARGE);
        __asm__ volatile("" : : "r"(c->to) : "memory");
    }
    return (double)(now_ns() - start) / n;
}

static double microsecond_side(void *arg, unsigned n)
{
    (void)arg;
    (void)n;
    return 1000;
}

/* --- rows --- */

static acltdtDataset *describe(char *data, size_t size, acltdtDataItem **item)
{
    const int64_t dims[] = {(int64_t)size};
    acltdtDataset *dataset = acltdtCreateDataset();

    *item = acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_UINT8, data, size);
    CHECK(acltdtAddDataItem(dataset, *item));
    return dataset;
}

static char *memory_new(int fill)
{
    char *p = malloc(LARGE);

    if (!p)
        die("out of memory");
    memset(p, fill, LARGE);
    return p;
}

static void begin(struct channels *c)
{
    c->order = mmap(NULL, sizeof(*c->order), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (c->order == MAP_FAILED)
        die("mmap: %m");
    c->receiver = start_process(receive_all, c->order);
    CHECK(aclInit(NULL));
    c->small = join_channel("small", CAPACITY);
    c->large = join_channel("large", DEEP);
    c->own = join_channel("own", 2);
    c->from = memory_new(1);
    c->to = memory_new(2);
    c->small_set = describe(c->from, SMALL, &c->small_item);
    c->large_set = describe(c->from, LARGE, &c->large_item);
    c->into = acltdtCreateDataset();
    sleep_until(&c->order->ready, 1);
}

static void end(struct channels *c)
{
    c->order->over = true;
    give_order(c->order);
    expect_success("receiver", process_end(c->receiver));
    CHECK(acltdtDestroyDataset(c->small_set));
    CHECK(acltdtDestroyDataset(c->large_set));
    CHECK(acltdtDestroyDataset(c->into));
    CHECK(acltdtDestroyDataItem(c->small_item));
    CHECK(acltdtDestroyDataItem(c->large_item));
    CHECK(acltdtDestroyChannel(c->small));
    CHECK(acltdtDestroyChannel(c->large));
    CHECK(acltdtDestroyChannel(c->own));
    CHECK(aclFinalize());
    free(c->from);
    free(c->to);
    munmap(c->order, sizeof(*c->order));
}

static void run_row(struct channels *c, const struct row *row, side_fn value, side_fn baseline,
                    unsigned n, size_t size)
{
    struct contest contest = {
        .value = value,
        .baseline = baseline,
        .arg = c,
        .n_value = count_of(n, n / 10 + 1),
        .n_baseline = count_of(n, n / 10 + 1),
        .rounds = count_of(60, 3),
    };
    struct result r = contest_run(row, &contest);

    snprintf(r.note, sizeof(r.note), "%.3g M/s %.3g GB/s", 1e3 / r.value_ns,
             (double)size / r.value_ns);
    result_emit(&r);
}

void rows_channel(void)
{
    static const struct row rows[] = {
        {"26-4m", "4 MiB tensor sent and received by one thread; vs memcpy; ratio of rates", 0.9,
         true},
        {"26-4m-apart", "the same from process to process", BUDGET_NONE, true},
        {"26-64", "64-byte tensors from process to process; vs 1 M/s; ratio of rates", 1, true},
    };
    struct channels c;

    begin(&c);
    run_row(&c, &rows[0], own_side, memcpy_side, 50, LARGE);
    run_row(&c, &rows[1], large_side, memcpy_side, 50, LARGE);
    run_row(&c, &rows[2], small_side, microsecond_side, 20000, SMALL);
    end(&c);
}
