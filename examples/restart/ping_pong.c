/*
 * Two processes that record IPC events for each other, without an end: what a program notices of an
 * npud that is killed and comes back, which is nothing but a call that takes longer. Each measures
 * its longest call.
 * usage: ping_pong first|second DIR    until the file DIR/stop.0 is there
 */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../common/example.h"

#define SIZE     4096
#define PROGRESS 100 /* round trips between two lines "." of the first */

static uint64_t longest_ns;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#define TIMED(call)                                                                                \
    do {                                                                                           \
        uint64_t begun_ = now_ns(), took_;                                                         \
                                                                                                   \
        CHECK(call);                                                                               \
        took_ = now_ns() - begun_;                                                                 \
        if (took_ > longest_ns)                                                                    \
            longest_ns = took_;                                                                    \
    } while (0)

/* --- what each process has --- */

static aclrtStream stream;
static aclrtEvent mine, theirs;
static void *in, *out, *device;

static void begin(const char *dir, int self)
{
    aclrtIpcEventHandle handle;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(self));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost(&in, SIZE));
    CHECK(aclrtMallocHost(&out, SIZE));
    CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtCreateEventExWithFlag(&mine, ACL_EVENT_IPC));
    CHECK(aclrtIpcGetEventHandle(mine, &handle));
    handle_write(dir, "handle", self, &handle);
}

static void open_other(const char *dir, int other)
{
    CHECK(aclrtIpcOpenEventHandle(handle_read(dir, "handle", other), &theirs));
}

/* To the device and back, and then the record: the other process may rely on it. */
static void work_and_record(uint64_t round)
{
    memset(in, (int)(round % 251), SIZE);
    TIMED(aclrtMemcpyAsync(device, SIZE, in, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    TIMED(aclrtMemcpyAsync(out, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    TIMED(aclrtRecordEvent(mine, stream));
}

static void wait_and_check(void)
{
    TIMED(aclrtStreamWaitEvent(stream, theirs));
    TIMED(aclrtSynchronizeStream(stream));
    if (memcmp(in, out, SIZE) != 0)
        fail("what came back from the device is not what was sent");
}

static void end(uint64_t rounds)
{
    say("%llu round trips; the longest call took %.1f ms", (unsigned long long)rounds,
        (double)longest_ns / 1e6);
    CHECK(aclrtDestroyEvent(theirs));
    CHECK(aclrtDestroyEvent(mine));
    CHECK(aclrtFree(device));
    CHECK(aclrtFreeHost(out));
    CHECK(aclrtFreeHost(in));
    CHECK(aclrtDestroyStream(stream));
}

/* --- turns: the record that a process is to wait for has been submitted --- */

static void tell(int fd)
{
    if (write(fd, "!", 1) != 1)
        fail("the other process has gone");
}

/* False: the other process makes no more round trips. */
static bool await(int fd)
{
    char c;

    return read(fd, &c, 1) == 1;
}

static uint64_t run_first(const char *dir)
{
    int there = fifo_open(dir, "there", 0, O_WRONLY), back = fifo_open(dir, "back", 0, O_RDONLY);
    struct path stop = path_in(dir, "stop", 0);
    uint64_t round = 0;

    open_other(dir, 1);
    for (; round % PROGRESS != 0 || access(stop.text, F_OK) != 0; round++) {
        work_and_record(round);
        tell(there);
        if (!await(back))
            fail("the other process has gone");
        wait_and_check();
        if (round % PROGRESS == 0)
            puts(".");
    }
    return round;
}

static uint64_t run_second(const char *dir)
{
    int there = fifo_open(dir, "there", 0, O_RDONLY), back = fifo_open(dir, "back", 0, O_WRONLY);
    uint64_t round = 0;

    open_other(dir, 0);
    for (; await(there); round++) {
        wait_and_check();
        work_and_record(round);
        tell(back);
    }
    return round;
}

int main(int argc, char **argv)
{
    int self = argc == 3 && strcmp(argv[1], "second") == 0;

    set_name("%s", argc == 3 ? argv[1] : "ping_pong");
    if (argc != 3 || (!self && strcmp(argv[1], "first") != 0))
        fail("usage: ping_pong first|second DIR");
    begin(argv[2], self);
    end(self ? run_second(argv[2]) : run_first(argv[2]));
    CHECK(aclrtResetDevice(self));
    CHECK(aclFinalize());
    return 0;
}
