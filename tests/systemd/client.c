/*
 * The client of check-systemd. usage: client use | hold | fork | babble | fill | load | crowd
 *
 * use:    work a little; print the first error and its sentence and exit with 1, or print "worked"
 * hold:   print "holding", wait on a stream until npud ends, print error and sentence, connect anew
 *         and work
 * fork:   keep a session, in a process whose forked child has the socket open too; print both pids;
 *         neither ends by itself
 * fill:   have an engine fill 1 GiB of device memory, look at some of it, and print "filled"
 * load:   print "loading", and until standard input ends: copy, create streams, wait for events,
 *         and send messages through a route, looking at all that comes of it; then print "loaded"
 * crowd:  be 100 sessions in as many processes, four of which make requests and wait for tasks
 *         without a break; print "calling", and for each line of standard input, when the four go
 *         on, the longest call since the last line, in microseconds
 * babble: send what is no packet of the protocol, print the own pid, and exit when npud has hung up
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_npud.h"
#include "acl/acl_tdt_queue.h"

#define HOUR_US 3600000000
#define FILL    ((size_t)1 << 30)

static aclrtStream stream;

/* Prints what went wrong, if anything did. */
static bool is_ok(aclError error)
{
    if (error != ACL_SUCCESS)
        printf("%d %s\n", error, aclGetRecentErrMsg());
    return error == ACL_SUCCESS;
}

static bool open_session(void)
{
    return is_ok(aclInit(NULL)) && is_ok(aclrtSetDevice(0)) && is_ok(aclrtCreateStream(&stream));
}

static bool work_and_end(void)
{
    aclrtEvent event;

    return is_ok(aclrtCreateEvent(&event)) && is_ok(aclnpudLaunchDelay(1, 0, stream)) &&
           is_ok(aclrtRecordEvent(event, stream)) && is_ok(aclrtSynchronizeEvent(event)) &&
           is_ok(aclrtDestroyEvent(event)) && is_ok(aclrtDestroyStream(stream)) &&
           is_ok(aclrtResetDevice(0)) && is_ok(aclFinalize());
}

static int use_npu(void)
{
    if (!open_session() || !work_and_end())
        return 1;
    puts("worked");
    return 0;
}

static int hold_stream(void)
{
    if (!open_session() || !is_ok(aclnpudLaunchDelay(HOUR_US, 0, stream)))
        return 1;
    puts("holding");
    if (is_ok(aclrtSynchronizeStream(stream)))
        return 1;
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return use_npu();
}

static int fork_and_hold(void)
{
    pid_t child;

    if (!open_session())
        return 1;
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    printf("%d %d\n", (int)getpid(), (int)child);
    pause();
    return 0;
}

/* The engine is a thread of npud: the pages are to be this process's all the same. */
static int fill_memory(void)
{
    unsigned char *memory;

    if (!open_session() || !is_ok(aclrtMalloc((void **)&memory, FILL, ACL_MEM_MALLOC_HUGE_FIRST)) ||
        !is_ok(aclrtMemsetAsync(memory, FILL, 7, FILL, stream)) ||
        !is_ok(aclrtSynchronizeStream(stream)))
        return 1;
    for (size_t at = 0; at < FILL; at += FILL / 1024)
        if (memory[at] != 7) {
            printf("byte %zu is %d\n", at, memory[at]);
            return 1;
        }
    if (!is_ok(aclrtFree(memory)) || !work_and_end())
        return 1;
    puts("filled");
    return 0;
}

/* --- load --- */

#define LOAD_SIZE ((size_t)64 << 10)
#define MESSAGES  4

static unsigned char *host[2];
static void *device;
static uint32_t source, destination;
static uint64_t sent, taken;

static bool change_route(aclError (*change)(acltdtQueueRouteList *list))
{
    acltdtQueueRouteList *list = acltdtCreateQueueRouteList();
    acltdtQueueRoute *route = acltdtCreateQueueRoute(source, destination);

    return is_ok(acltdtAddQueueRoute(list, route)) && is_ok(change(list)) &&
           is_ok(acltdtDestroyQueueRoute(route)) && is_ok(acltdtDestroyQueueRouteList(list));
}

static bool open_route(void)
{
    acltdtQueueAttr *attr = acltdtCreateQueueAttr();

    return is_ok(acltdtCreateQueue(attr, &source)) &&
           is_ok(acltdtCreateQueue(attr, &destination)) && is_ok(acltdtDestroyQueueAttr(attr)) &&
           change_route(acltdtBindQueueRoutes);
}

static bool open_load(void)
{
    for (int i = 0; i < 2; i++)
        if (!is_ok(aclrtMallocHost((void **)&host[i], LOAD_SIZE)))
            return false;
    return is_ok(aclrtMalloc(&device, LOAD_SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) && open_route();
}

static bool copy_pattern(unsigned char pattern)
{
    memset(host[0], pattern, LOAD_SIZE);
    memset(host[1], 0, LOAD_SIZE);
    if (!is_ok(aclrtMemcpyAsync(device, LOAD_SIZE, host[0], LOAD_SIZE, ACL_MEMCPY_HOST_TO_DEVICE,
                                stream)) ||
        !is_ok(aclrtMemcpyAsync(host[1], LOAD_SIZE, device, LOAD_SIZE, ACL_MEMCPY_DEVICE_TO_HOST,
                                stream)) ||
        !is_ok(aclrtSynchronizeStream(stream)))
        return false;
    if (memcmp(host[0], host[1], LOAD_SIZE) == 0)
        return true;
    puts("what was copied back is something else");
    return false;
}

/* npud moves each message from one queue to the other. */
static bool send_messages(void)
{
    for (int i = 0; i < MESSAGES; i++, sent++)
        if (!is_ok(acltdtEnqueueData(source, &sent, sizeof(sent), NULL, 0, -1, 0)))
            return false;
    for (; taken < sent; taken++) {
        uint64_t got = UINT64_MAX;
        size_t size = 0;

        if (!is_ok(acltdtDequeueData(destination, &got, sizeof(got), &size, NULL, 0, -1)))
            return false;
        if (size != sizeof(got) || got != taken) {
            printf("message %llu in place of %llu\n", (unsigned long long)got,
                   (unsigned long long)taken);
            return false;
        }
    }
    return true;
}

/* A second stream waits for the first. */
static bool follow_stream(void)
{
    aclrtStream other;
    aclrtEvent event;

    return is_ok(aclrtCreateStream(&other)) && is_ok(aclrtCreateEvent(&event)) &&
           is_ok(aclnpudLaunchDelay(1, 0, stream)) && is_ok(aclrtRecordEvent(event, stream)) &&
           is_ok(aclrtStreamWaitEvent(other, event)) && is_ok(aclrtSynchronizeStream(other)) &&
           is_ok(aclrtDestroyEvent(event)) && is_ok(aclrtDestroyStream(other));
}

static bool input_has_ended(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static int be_load(void)
{
    if (!open_session() || !open_load())
        return 1;
    puts("loading");
    for (unsigned i = 1; !input_has_ended(); i++)
        if (!copy_pattern((unsigned char)i) || !send_messages() || !follow_stream())
            return 1;
    if (!change_route(acltdtUnbindQueueRoutes) || !is_ok(acltdtDestroyQueue(source)) ||
        !is_ok(acltdtDestroyQueue(destination)) || !is_ok(aclrtFree(device)) ||
        !is_ok(aclrtFreeHost(host[0])) || !is_ok(aclrtFreeHost(host[1])) || !work_and_end())
        return 1;
    puts("loaded");
    return 0;
}

/* --- crowd --- */

#define CROWD   100
#define CALLERS 4
#define STREAMS 10 /* of each */
#define EVENTS  100

static struct shared {
    _Atomic unsigned there, laps[CALLERS];
    _Atomic uint64_t longest_us;
} * shared;

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static bool note_call(uint64_t began, aclError error)
{
    uint64_t us = now_us() - began, longest = atomic_load(&shared->longest_us);

    while (us > longest && !atomic_compare_exchange_weak(&shared->longest_us, &longest, us))
        ;
    return is_ok(error);
}

#define IS_TIMED_OK(call) (began = now_us(), note_call(began, call))

static bool call_all(aclrtEvent event)
{
    uint64_t began;
    void *memory;

    return IS_TIMED_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST)) &&
           IS_TIMED_OK(aclrtRecordEvent(event, stream)) &&
           IS_TIMED_OK(aclrtSynchronizeEvent(event)) && IS_TIMED_OK(aclrtFree(memory));
}

/* Ends by the signal of its parent's end, as the tests of npud want it: without a word. */
static int be_member(int number)
{
    aclrtEvent event = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!open_session())
        return 1;
    for (int i = 1; i < STREAMS; i++)
        if (!is_ok(aclrtCreateStream(&stream)))
            return 1;
    for (int i = 0; i < EVENTS; i++)
        if (!is_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC)))
            return 1;
    atomic_fetch_add(&shared->there, 1);
    while (number < CALLERS && call_all(event))
        atomic_fetch_add(&shared->laps[number], 1);
    while (number >= CALLERS)
        pause();
    return 1;
}

static bool a_member_has_failed(void)
{
    return waitpid(-1, NULL, WNOHANG) > 0;
}

/* Each caller has begun a lap from here on, and ended it. */
static bool await_laps(void)
{
    unsigned before[CALLERS];

    for (int i = 0; i < CALLERS; i++)
        before[i] = atomic_load(&shared->laps[i]);
    for (int i = 0; i < CALLERS; i++)
        while (atomic_load(&shared->laps[i]) < before[i] + 2)
            if (a_member_has_failed() || poll(NULL, 0, 1) < 0)
                return false;
    return true;
}

static int be_crowd(void)
{
    char line[16];

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (int i = 0; i < CROWD; i++)
        if (fork() == 0)
            _exit(be_member(i));
    while (atomic_load(&shared->there) < CROWD)
        if (a_member_has_failed() || poll(NULL, 0, 1) < 0)
            return 1;
    puts("calling");
    while (fgets(line, sizeof(line), stdin)) {
        if (!await_laps())
            return 1;
        printf("%llu\n", (unsigned long long)atomic_exchange(&shared->longest_us, 0));
    }
    return 0;
}

static int send_noise(void)
{
    static const char noise[] = "\xff\xff\xff\xffthis is not protobuf";
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "/run/npud/npud.sock"};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char answer[4096];

    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        send(fd, noise, sizeof(noise), 0) < 0) {
        perror("babble");
        return 1;
    }
    while (recv(fd, answer, sizeof(answer), 0) > 0)
        ;
    printf("%d\n", (int)getpid());
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"use", use_npu},       {"hold", hold_stream}, {"fork", fork_and_hold},
        {"babble", send_noise}, {"fill", fill_memory}, {"load", be_load},
        {"crowd", be_crowd},
    };

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    fputs("usage: client use | hold | fork | babble | fill | load | crowd\n", stderr);
    return 2;
}
