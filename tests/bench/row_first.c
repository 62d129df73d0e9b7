/* Row 11: the first use of the library, in a fresh process each time. */
#include "tests/bench/bench.h"
#include "tests/common/process.h"

#include <stdlib.h>
#include <unistd.h>

int first_use_main(void)
{
    uint64_t start = now_ns();
    aclrtStream stream;
    aclrtEvent event;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(event, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    printf("%llu\n", (unsigned long long)(now_ns() - start));
    return 0;
}

static void exec_first_use(void *arg)
{
    (void)arg;
    execl("/proc/self/exe", "bench", "--first-use", NULL);
}

static double first_use(void *arg, unsigned n)
{
    unsigned long long ns = 0;
    struct piped process;

    (void)arg;
    (void)n;
    if (!piped_start(&process, exec_first_use, NULL) || fscanf(process.from, "%llu", &ns) != 1)
        die("first use failed");
    expect_success("first use", piped_end(&process));
    return (double)ns;
}

static double give_millisecond(void *arg, unsigned n)
{
    (void)arg;
    (void)n;
    return 1e6;
}

void rows_first_use(void)
{
    static const struct row row = {
        .name = "11",
        .what = "init, set device, create, record, synchronise, finalize; vs 1 ms",
        .budget = 1,
    };
    struct contest contest = {
        .value = first_use,
        .baseline = give_millisecond,
        .rounds = count_of(200, 5),
    };
    struct result result = contest_run(&row, &contest);

    result_emit(&result);
}
