/*
 * IPC events of a process whose session has ended while it lives on, as `npuctl kill` leaves it:
 * what it records after that fails for all waiters, promptly, and the error names that process.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gate.h"
#include "proto/wire/npud.pb-c.h"
#include "proto/shm/ipc_page.h"
#include "tests/common/effort.h"

#define FAILED ACL_ERROR_RT_SUSPECT_REMOTE_ERROR

#define ROUNDS_MAX 600

static struct turn go, ready;
static struct shared {
    aclrtIpcEventHandle handle;
    unsigned round;
    _Atomic unsigned recorded[ROUNDS_MAX]; /* in each round: some threads of the last one go on */
    unsigned late;                         /* records to take */
} * shared;

static void set_up_test(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    turn_init(&go);
    turn_init(&ready);
    npud_setup();
}

/* The page of the only IPC event that this process has open. */
static struct ipc_page *mapped_page(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, found = 0;
    char line[512];

    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "npud-ipc-event") && sscanf(line, "%lx-", &from) == 1 && found == 0)
            found = from;
    fclose(maps);
    return (struct ipc_page *)found; /* NOLINT(performance-no-int-to-ptr): a test */
}

/* As a thread that was about to record when its session ended. */
static void take_late(struct ipc_page *page, uint32_t opener, unsigned n)
{
    uint64_t blocker;

    while (n-- > 0 && ipc_take(page, opener, IPC_PENDING, &blocker) != 0)
        ;
}

static int record_in_child(void *arg)
{
    struct ipc_page *page;
    aclrtStream held, other;
    uint32_t opener;
    aclrtEvent e;

    (void)arg;
    turn_await(&go);
    streams_open(&held, &other);
    OK(aclrtIpcOpenEventHandle(shared->handle, &e));
    stream_hold(held);
    OK(aclrtRecordEvent(e, held));
    page = mapped_page();
    if (!page)
        return 1;
    opener = (uint32_t)(atomic_load(&page->latest) >> 2) & 0xfff;
    for (;;) {
        turn_tell(&ready);
        turn_await(&go);
        take_late(page, opener, shared->late);
    }
}

static void late_records(unsigned n)
{
    shared->late = n;
    turn_tell(&go);
    turn_await(&ready);
}

/* End the session of the only other process that has one. */
static void kill_session(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__SESSIONS);
    unsigned long long id = 0;
    char arguments[64];
    int status;

    for (size_t i = 0; i < r->n_sessions; i++)
        if (r->sessions[i]->pid != getpid())
            id = r->sessions[i]->session;
    npud__report__free_unpacked(r, NULL);
    snprintf(arguments, sizeof(arguments), "kill %llu", id);
    free(npuctl(arguments, &status));
    ck_assert_int_eq(status, 0);
}

/*
 * Who waits for late records asks npud at once, and not only after a second, as of any record: the
 * shortest of some waits, because any may be held up.
 */
static void wait_for_late_records(aclrtEvent e, const char *words)
{
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t start, took;

        late_records(1);
        start = now_ns();
        FAILS_SAYING(FAILED, words, aclrtSynchronizeEventWithTimeout(e, LIMIT_MS));
        took = now_ns() - start;
        shortest = took < shortest ? took : shortest;
    }
    ck_assert_uint_lt(shortest, 500000000);
}

START_TEST(late_records_fail)
{
    pid_t pid = child_start(record_in_child, NULL);
    struct pollfd p = {.events = POLLIN};
    aclrtEventRecordedStatus status;
    aclrtStream stream, other;
    char words[64];
    aclrtEvent e;

    snprintf(words, sizeof(words), "process %d", (int)pid);
    streams_open(&stream, &other);
    OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
    OK(aclrtIpcGetEventHandle(e, &shared->handle));
    turn_tell(&go);
    turn_await(&ready);
    kill_session();
    FAILS_SAYING(FAILED, words, aclrtSynchronizeEventWithTimeout(e, LIMIT_MS));
    /* Each way to wait or look meets a late record of its own. */
    wait_for_late_records(e, words);
    late_records(1);
    FAILS_SAYING(FAILED, words, aclrtQueryEventStatus(e, &status));
    late_records(1);
    OK(aclrtStreamWaitEvent(stream, e));
    FAILS_SAYING(FAILED, words, aclrtSynchronizeStreamWithTimeout(stream, LIMIT_MS));
    late_records(1);
    p.fd = eventfd(0, EFD_CLOEXEC);
    OK(aclnpudEventNotifyFd(e, p.fd));
    ck_assert_int_eq(poll(&p, 1, LIMIT_MS), 1);
    close(p.fd);
    /* A window full of late records does not keep out other recorders. */
    late_records(2 * IPC_SLOTS);
    for (unsigned i = 0; i < IPC_SLOTS; i++)
        OK(aclrtRecordEvent(e, stream));
    OK(aclrtSynchronizeEvent(e));
    npuctl_says("waits", 0, "");
    /* And when the process is gone, with all its numbers. */
    late_records(1);
    child_kill(pid);
    FAILS_SAYING(FAILED, words, aclrtSynchronizeEventWithTimeout(e, LIMIT_MS));
    OK(aclrtRecordEvent(e, stream));
    OK(aclrtSynchronizeEvent(e));
    OK(aclrtDestroyEvent(e));
}
END_TEST

/* --- at random --- */

#define THREADS 6 /* more than CPUs: some are in the middle of a call when the session ends */

static aclrtEvent event;
static unsigned own_round;

static void *record_all_the_time(void *stream)
{
    if (aclrtSetDevice(0) != 0) /* the session has ended before this thread began */
        return NULL;
    while (aclrtRecordEvent(event, stream) == 0)
        atomic_fetch_add(&shared->recorded[own_round], 1);
    return NULL;
}

static int record_in_threads(void *arg)
{
    aclrtStream held[THREADS], other;
    pthread_t thread;

    (void)arg;
    turn_await(&go);
    own_round = shared->round;
    streams_open(&held[0], &other);
    for (unsigned i = 1; i < THREADS; i++)
        OK(aclrtCreateStream(&held[i]));
    OK(aclrtIpcOpenEventHandle(shared->handle, &event));
    for (unsigned i = 0; i < THREADS; i++)
        stream_hold(held[i]);
    for (unsigned i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread, NULL, record_all_the_time, held[i]), 0);
    for (;;)
        pause();
}

/*
 * Guards against waiters that hang when the session of a recorder ends in the middle of its calls:
 * 17 of 24 did.
 */
START_TEST(killed_while_it_records)
{
    unsigned rounds = choose_effort(15, ROUNDS_MAX);
    pid_t *pid = calloc(rounds, sizeof(*pid));
    aclrtStream stream, other;
    aclrtEvent e;

    for (unsigned i = 0; i < rounds; i++)
        pid[i] = child_start(record_in_threads, NULL);
    streams_open(&stream, &other);
    for (unsigned i = 0; i < rounds; i++) {
        aclError error;

        OK(aclrtCreateEventExWithFlag(&e, ACL_EVENT_IPC));
        OK(aclrtIpcGetEventHandle(e, &shared->handle));
        shared->round = i;
        turn_tell(&go);
        for (uint64_t give_up = now_ns() + LIMIT_MS * UINT64_C(1000000);
             atomic_load(&shared->recorded[i]) < 1 + i % 50;)
            ck_assert(now_ns() < give_up);
        kill_session();
        for (int k = 0; k < 3; k++) {
            error = aclrtSynchronizeEventWithTimeout(e, LIMIT_MS);
            ck_assert_msg(error == FAILED, "round %u: %d", i, error);
        }
        OK(aclrtDestroyEvent(e));
    }
    for (unsigned i = 0; i < rounds; i++)
        child_kill(pid[i]);
    free(pid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc_survivor");
    TCase *tc =
        suite_case(suite, "ipc_survivor", choose_effort(120, 1800), set_up_test, npud_teardown);

    tcase_add_test(tc, late_records_fail);
    tcase_add_test(tc, killed_while_it_records);
    return run_suite(suite);
}
