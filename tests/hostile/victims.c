#include "tests/hostile/victims.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/actor.h"
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
    _Atomic uint32_t end_wanted;
    _Atomic uint32_t end; /* number of rounds, set by the first before its last one */
    _Atomic uint32_t wait_spoiled;
    _Atomic uint32_t waiting; /* threads of the first that use the spoiled event */
    aclrtIpcEventHandle handle[2][EVENTS];
    aclrtIpcEventHandle spoiled;
    uint64_t said[2]; /* plain stores: records order them, or nothing does */
    _Atomic uint32_t n[PHASES][MEASURED_KINDS];
    uint32_t ns[PHASES][MEASURED_KINDS][TIMES_MAX];
} * shared;

static struct actor victim[2];
static unsigned me;

/* --- in a victim --- */

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
    OK(aclrtStreamWaitEvent(side.main, side.gate));
    OK(aclrtResetEvent(side.gate, side.main));
    OK(aclrtRecordEvent(side.mine[k % EVENTS], side.main));
}

static void side_create(void)
{
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&side.context));
    OK(aclrtCreateStream(&side.main));
    OK(aclrtCreateStream(&side.fire));
    OK(aclrtCreateStream(&side.work));
    OK(aclrtCreateEventWithFlag(&side.gate, ACL_EVENT_SYNC));
    OK(aclrtMalloc(&side.device, COPY_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (unsigned i = 0; i < 2; i++)
        OK(aclrtMallocHost((void **)&side.host[i], COPY_BYTES));
    for (unsigned i = 0; i < EVENTS; i++) {
        OK(aclrtCreateEventExWithFlag(&side.mine[i], ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(side.mine[i], &shared->handle[me][i]));
    }
    if (me == 0) {
        OK(aclrtCreateEventExWithFlag(&side.spoiled, ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(side.spoiled, &shared->spoiled));
    }
    submit_round(0);
    submit_round(1);
}

static void side_open(void)
{
    for (unsigned i = 0; i < EVENTS; i++)
        OK(aclrtIpcOpenEventHandle(shared->handle[!me][i], &side.theirs[i]));
    if (me == 1)
        OK(aclrtIpcOpenEventHandle(shared->spoiled, &side.spoiled));
}

/* Not before the round is said: the side that sees the record complete must see that, too. */
static void fire_gate(void)
{
    shared->said[me] = side.next + 1;
    OK(aclrtRecordEvent(side.gate, side.fire));
    submit_round(side.next + 2);
}

static void wait_for_other(void)
{
    OK(aclrtSynchronizeEvent(side.theirs[side.next % EVENTS]));
    if (shared->said[!me] != side.next + 1)
        ck_abort_msg("woken for round %u, but the other side is in %llu", side.next + 1,
                     (unsigned long long)shared->said[!me]);
}

/* Copy a new pattern to the device and back, asynchronously, and look at it. */
static void copy_pattern(void)
{
    memset(side.host[0], ++side.pattern, COPY_BYTES);
    memset(side.host[1], 0, COPY_BYTES);
    OK(aclrtMemcpyAsync(side.device, COPY_BYTES, side.host[0], COPY_BYTES,
                        ACL_MEMCPY_HOST_TO_DEVICE, side.work));
    OK(aclrtMemcpyAsync(side.host[1], COPY_BYTES, side.device, COPY_BYTES,
                        ACL_MEMCPY_DEVICE_TO_HOST, side.work));
    OK(aclrtSynchronizeStream(side.work));
    if (memcmp(side.host[0], side.host[1], COPY_BYTES) != 0)
        ck_abort_msg("copied bytes differ from what was sent");
}

static void ask_npud(void)
{
    aclrtStream s;

    OK(aclrtCreateStream(&s));
    OK(aclrtDestroyStream(s));
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
    OK(aclrtSetCurrentContext(side.context));
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
    OK(aclrtSetCurrentContext(side.context));
    OK(aclrtCreateStream(&s));
    for (;;) {
        await_word(&shared->wait_spoiled, 1);
        atomic_fetch_add(&shared->waiting, 1);
        while (atomic_load(&shared->wait_spoiled)) {
            OK(aclrtStreamWaitEvent(s, side.spoiled));
            aclrtSynchronizeStream(s);
            take_a_breath();
        }
        atomic_fetch_sub(&shared->waiting, 1);
        futex_wake_all(&shared->waiting);
    }
    return NULL;
}

/* --- their lives --- */

/* Both have the events of both when this returns. */
static void begin_process(int fd, unsigned who)
{
    me = who;
    alarm(0); /* the test may be a long one: not its time, its end is ours */
    side_create();
    step_done(fd);
    step_await(fd);
    side_open();
}

static int run_leader(int fd, void *arg)
{
    pthread_t thread;

    (void)arg;
    begin_process(fd, 0);
    pthread_create(&thread, NULL, wait_in_call, NULL);
    pthread_create(&thread, NULL, wait_in_stream, NULL);
    lead_round();
    step_done(fd);
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

static int run_follower(int fd, void *arg)
{
    (void)arg;
    begin_process(fd, 1);
    while (side.next != atomic_load(&shared->end) || side.next == 0) {
        follow_round();
        if (side.next % WORK_EVERY == 1)
            copy_pattern();
    }
    /* What has not been executed when we leave would have failed. */
    OK(aclrtSynchronizeEvent(side.mine[(side.next - 1) % EVENTS]));
    return 0;
}

/* --- in the test --- */

static void expect_alive(void)
{
    int status;

    for (unsigned i = 0; i < 2; i++)
        if (actor_reap_if_ended(&victim[i], &status))
            ck_abort_msg("well-behaved process %u ended with status 0x%x", i, status);
    if (waitpid(npud.pid, &status, WNOHANG) == npud.pid) {
        npud.pid = 0;
        ck_abort_msg("npud ended with status 0x%x", status);
    }
}

void victims_start(aclrtIpcEventHandle *spoiled)
{
    shared = child_share(sizeof(*shared));
    actor_start(&victim[0], run_leader, NULL);
    actor_start(&victim[1], run_follower, NULL);
    for (unsigned i = 0; i < 2; i++)
        actor_await_step(&victim[i]); /* it has exported its events */
    for (unsigned i = 0; i < 2; i++)
        actor_next_step(&victim[i]);
    actor_await_step(&victim[0]); /* the first round is done */
    *spoiled = shared->spoiled;
}

void victims_phase(enum phase phase)
{
    atomic_store(&shared->phase, phase);
}

void victims_work(uint32_t ms)
{
    struct pollfd p[3];
    pid_t watched[3] = {victim[0].pid, victim[1].pid, npud.pid};

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
    for (unsigned i = 0; i < 2; i++)
        actor_end(&victim[i]);
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
