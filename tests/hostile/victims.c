#include "tests/hostile/victims.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/harness.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"

#define EVENTS     4 /* taken in turn; why more than one: tests/bench/row_ipc.c */
#define TIMES_MAX  65536
#define COPY_BYTES 16384
#define WORK_EVERY 4  /* rounds */
#define ASK_EVERY  16 /* rounds */

/* Shared by the test and both victims. */
static struct shared {
    _Atomic uint32_t phase;
    _Atomic uint32_t ready[2];
    _Atomic uint32_t end_wanted;
    _Atomic uint32_t end; /* number of rounds, set by the first before its last one */
    _Atomic uint32_t wait_spoiled;
    _Atomic uint32_t waiting; /* threads of the first that use the spoiled event */
    aclrtIpcEventHandle handle[2][EVENTS];
    aclrtIpcEventHandle spoiled;
    uint64_t said[2]; /* plain stores: records order them, or nothing does */
    char wrong[2][512];
    _Atomic uint32_t n[PHASES][MEASURED_KINDS];
    uint32_t ns[PHASES][MEASURED_KINDS][TIMES_MAX];
} * shared;

static pid_t pids[2];
static unsigned me;

/* --- in a victim --- */

static void give_up(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void give_up(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(shared->wrong[me], sizeof(shared->wrong[me]), fmt, ap);
    va_end(ap);
    _exit(1);
}

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        aclError r_ = (call);                                                                      \
        if (r_ != 0)                                                                               \
            give_up("%s: %d: %s", #call, r_, aclGetRecentErrMsg());                                \
    } while (0)

static void publish_word(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    futex_wake_all(word);
}

static void await_word(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t now;

    while ((now = atomic_load(word)) != value)
        futex_wait_until(word, now, NULL);
}

static struct side {
    aclrtStream main, fire, work;
    aclrtEvent gate;
    aclrtEvent mine[EVENTS], theirs[EVENTS];
    aclrtEvent spoiled;
    aclrtContext context;
    unsigned next; /* record to fire */
    unsigned char *host[2];
    void *device;
    unsigned char pattern;
} side;

static void submit_round(unsigned k)
{
    GOOD(aclrtStreamWaitEvent(side.main, side.gate));
    GOOD(aclrtResetEvent(side.gate, side.main));
    GOOD(aclrtRecordEvent(side.mine[k % EVENTS], side.main));
}

static void side_create(void)
{
    GOOD(aclInit(NULL));
    GOOD(aclrtSetDevice(0));
    GOOD(aclrtGetCurrentContext(&side.context));
    GOOD(aclrtCreateStream(&side.main));
    GOOD(aclrtCreateStream(&side.fire));
    GOOD(aclrtCreateStream(&side.work));
    GOOD(aclrtCreateEventWithFlag(&side.gate, ACL_EVENT_SYNC));
    GOOD(aclrtMalloc(&side.device, COPY_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned i = 0; i < 2; i++)
        GOOD(aclrtMallocHost((void **)&side.host[i], COPY_BYTES));
    for (unsigned i = 0; i < EVENTS; i++) {
        GOOD(aclrtCreateEventExWithFlag(&side.mine[i], ACL_EVENT_IPC));
        GOOD(aclrtIpcGetEventHandle(side.mine[i], &shared->handle[me][i]));
    }
    if (me == 0) {
        GOOD(aclrtCreateEventExWithFlag(&side.spoiled, ACL_EVENT_IPC));
        GOOD(aclrtIpcGetEventHandle(side.spoiled, &shared->spoiled));
    }
    submit_round(0);
    submit_round(1);
}

static void side_open(void)
{
    for (unsigned i = 0; i < EVENTS; i++)
        GOOD(aclrtIpcOpenEventHandle(shared->handle[!me][i], &side.theirs[i]));
    if (me == 1)
        GOOD(aclrtIpcOpenEventHandle(shared->spoiled, &side.spoiled));
}

/* Not before the round is said: the side that sees the record complete must see that, too. */
static void fire_gate(void)
{
    shared->said[me] = side.next + 1;
    GOOD(aclrtRecordEvent(side.gate, side.fire));
    submit_round(side.next + 2);
}

static void wait_for_other(void)
{
    GOOD(aclrtSynchronizeEvent(side.theirs[side.next % EVENTS]));
    if (shared->said[!me] != side.next + 1)
        give_up("woken for round %u, but the other side is in %llu", side.next + 1,
                (unsigned long long)shared->said[!me]);
}

/* Copy a new pattern to the device and back, asynchronously, and look at it. */
static void copy_pattern(void)
{
    memset(side.host[0], ++side.pattern, COPY_BYTES);
    memset(side.host[1], 0, COPY_BYTES);
    GOOD(aclrtMemcpyAsync(side.device, COPY_BYTES, side.host[0], COPY_BYTES,
                          ACL_MEMCPY_HOST_TO_DEVICE, side.work));
    GOOD(aclrtMemcpyAsync(side.host[1], COPY_BYTES, side.device, COPY_BYTES,
                          ACL_MEMCPY_DEVICE_TO_HOST, side.work));
    GOOD(aclrtSynchronizeStream(side.work));
    if (memcmp(side.host[0], side.host[1], COPY_BYTES) != 0)
        give_up("copied bytes differ from what was sent");
}

static void ask_npud(void)
{
    aclrtStream s;

    GOOD(aclrtCreateStream(&s));
    GOOD(aclrtDestroyStream(s));
}

static void follow_round(void)
{
    wait_for_other();
    fire_gate();
    side.next++;
}

static void lead_round(void)
{
    fire_gate();
    wait_for_other();
    side.next++;
}

/* Times that begin in one phase and end in another belong to none. */
static void measure_call(enum measured kind, void (*what)(void))
{
    uint32_t phase = atomic_load(&shared->phase), n;
    uint64_t start = now_ns(), took;

    what();
    took = now_ns() - start;
    if (phase == PHASE_NONE || atomic_load(&shared->phase) != phase)
        return;
    n = atomic_load(&shared->n[phase][kind]);
    if (n == TIMES_MAX)
        return;
    shared->ns[phase][kind][n] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
    atomic_store(&shared->n[phase][kind], n + 1);
}

/* --- the spoiled event --- */

/* Waits may end at once: these threads are not to be a load of their own. */
static void take_a_breath(void)
{
    poll(NULL, 0, 1);
}

static void *wait_in_call(void *arg)
{
    (void)arg;
    GOOD(aclrtSetCurrentContext(side.context));
    for (;;) {
        await_word(&shared->wait_spoiled, 1);
        atomic_fetch_add(&shared->waiting, 1);
        /* An error or a value, both are right; never to return is not. */
        while (atomic_load(&shared->wait_spoiled)) {
            aclrtSynchronizeEvent(side.spoiled);
            take_a_breath();
        }
        atomic_fetch_sub(&shared->waiting, 1);
        futex_wake_all(&shared->waiting);
    }
    return NULL;
}

static void *wait_in_stream(void *arg)
{
    aclrtStream s;

    (void)arg;
    GOOD(aclrtSetCurrentContext(side.context));
    GOOD(aclrtCreateStream(&s));
    for (;;) {
        await_word(&shared->wait_spoiled, 1);
        atomic_fetch_add(&shared->waiting, 1);
        while (atomic_load(&shared->wait_spoiled)) {
            GOOD(aclrtStreamWaitEvent(s, side.spoiled));
            aclrtSynchronizeStream(s);
            take_a_breath();
        }
        atomic_fetch_sub(&shared->waiting, 1);
        futex_wake_all(&shared->waiting);
    }
    return NULL;
}

/* --- their lives --- */

static void begin_process(unsigned who)
{
    me = who;
    alarm(0); /* the test may be a long one: not its time, its end is ours */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static int run_leader(void *arg)
{
    pthread_t thread;

    (void)arg;
    begin_process(0);
    side_create();
    publish_word(&shared->ready[0], 1);
    await_word(&shared->ready[1], 1);
    side_open();
    pthread_create(&thread, NULL, wait_in_call, NULL);
    pthread_create(&thread, NULL, wait_in_stream, NULL);
    lead_round();
    publish_word(&shared->ready[0], 2);
    for (unsigned i = 0; !atomic_load(&shared->end_wanted); i++) {
        measure_call(MEASURED_ROUND, lead_round);
        if (i % WORK_EVERY == 0)
            measure_call(MEASURED_WORK, copy_pattern);
        if (i % ASK_EVERY == 0)
            measure_call(MEASURED_REQUEST, ask_npud);
    }
    atomic_store(&shared->end, side.next + 1);
    lead_round();
    return 0;
}

static int run_follower(void *arg)
{
    (void)arg;
    begin_process(1);
    side_create();
    publish_word(&shared->ready[1], 1);
    await_word(&shared->ready[0], 1);
    side_open();
    while (side.next != atomic_load(&shared->end) || side.next == 0) {
        follow_round();
        if (side.next % WORK_EVERY == 1)
            copy_pattern();
    }
    /* What has not been executed when we leave would have failed. */
    GOOD(aclrtSynchronizeEvent(side.mine[(side.next - 1) % EVENTS]));
    return 0;
}

/* --- in the test --- */

static void expect_alive(void)
{
    int status;

    for (unsigned i = 0; i < 2; i++)
        if (waitpid(pids[i], &status, WNOHANG) == pids[i])
            ck_abort_msg("well-behaved process %u ended with status 0x%x: %s", i, status,
                         shared->wrong[i]);
    if (waitpid(npud.pid, &status, WNOHANG) == npud.pid) {
        npud.pid = 0;
        ck_abort_msg("npud ended with status 0x%x", status);
    }
}

void victims_start(aclrtIpcEventHandle *spoiled)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    pids[0] = child_start(run_leader, NULL);
    pids[1] = child_start(run_follower, NULL);
    while (atomic_load(&shared->ready[0]) != 2) {
        struct timespec soon = timespec_from_ns(now_ns() + 50000000);
        uint32_t seen = atomic_load(&shared->ready[0]);

        expect_alive();
        if (seen != 2)
            futex_wait_until(&shared->ready[0], seen, &soon);
    }
    *spoiled = shared->spoiled;
}

void victims_phase(enum phase phase)
{
    atomic_store(&shared->phase, phase);
}

void victims_work(uint32_t ms)
{
    struct pollfd p[3];
    pid_t watched[3] = {pids[0], pids[1], npud.pid};

    for (unsigned i = 0; i < 3; i++)
        p[i] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, watched[i], 0), .events = POLLIN};
    poll(p, 3, (int)ms);
    for (unsigned i = 0; i < 3; i++)
        close(p[i].fd);
    expect_alive();
}

uint32_t victims_count(enum phase phase, enum measured kind)
{
    return atomic_load(&shared->n[phase][kind]);
}

static int compare_ns(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

uint64_t victims_time(enum phase phase, enum measured kind, unsigned per_mille)
{
    uint32_t n = victims_count(phase, kind);

    if (n == 0)
        return 0;
    qsort(shared->ns[phase][kind], n, sizeof(uint32_t), compare_ns);
    return shared->ns[phase][kind][(uint64_t)(n - 1) * per_mille / 1000];
}

void victims_forget_times(void)
{
    memset(shared->n, 0, sizeof(shared->n));
}

void victims_end(void)
{
    atomic_store(&shared->end_wanted, 1);
    for (unsigned i = 0; i < 2; i++) {
        int status;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "well-behaved process %u ended with status 0x%x: %s", i, status,
                      shared->wrong[i]);
    }
    munmap(shared, sizeof(*shared));
    shared = NULL;
}

void victims_wait_for_spoiled(bool begin)
{
    uint64_t deadline = now_ns() + UINT64_C(10000000000);
    uint32_t n;

    publish_word(&shared->wait_spoiled, begin);
    while (!begin && (n = atomic_load(&shared->waiting)) != 0) {
        struct timespec soon = timespec_from_ns(now_ns() + 50000000);

        expect_alive();
        ck_assert_msg(now_ns() < deadline, "%u waits for the spoiled event do not end", n);
        futex_wait_until(&shared->waiting, n, &soon);
    }
}
