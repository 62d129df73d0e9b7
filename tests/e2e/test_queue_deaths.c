/*
 * Producers die in the middle of traffic: other processes put into the same ring and take from it
 * before, during and after the death. Each message carries its producer and a number. A message
 * whose acltdtEnqueue has returned 0 arrives, once, in the order of its producer.
 *
 * This guards against a sweep of the ring that loses its place: npud looks for the messages of the
 * dead producer while the living members overwrite the slots that it has not reached yet.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "queue_kit.h"

#define VICTIMS_MAX 10u
#define NEIGHBOURS  2u /* producers that live, behind the victims */
#define PRODUCERS   (VICTIMS_MAX + NEIGHBOURS)

#define TAKE 2u
#define PUT  4u

static struct shared {
    uint32_t qid;
    _Atomic uint32_t stop;
    _Atomic uint32_t watched; /* the test waits for `sent`: a change is a wake of `changes` */
    _Atomic uint32_t changes; /* futex */
    _Atomic uint64_t sent[PRODUCERS]; /* acltdtEnqueue has returned 0 */
    uint64_t received[PRODUCERS];     /* written by the consumer */
} * shared;

static struct turn to_consumer;
static struct turn to_producer[PRODUCERS];

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turn_init(&to_consumer);
    for (unsigned i = 0; i < PRODUCERS; i++)
        turn_init(&to_producer[i]);
}

static void attach_queue(uint32_t rights)
{
    uint32_t got;

    OK(acltdtAttachQueue(shared->qid, 20000, &got));
    ck_assert_uint_eq(got, rights);
}

/*
 * Messages by bytes, and no assertions of check, each of which writes to the file that all
 * processes of a test share: a process that is killed there would leave half a line.
 */
static void put_message(uint64_t value)
{
    OK(acltdtEnqueueData(shared->qid, &value, sizeof(value), NULL, 0, -1, 0));
}

static uint64_t take_message(void)
{
    uint64_t value = 0;
    size_t size;

    OK(acltdtDequeueData(shared->qid, &value, sizeof(value), &size, NULL, 0, -1));
    return value;
}

static int run_producer(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    char turn;

    /* For as long as those before it take: not turn_await(), which has a limit. */
    ck_assert_int_eq(read(to_producer[me].fd[0], &turn, 1), 1);
    OK(aclInit(NULL));
    attach_queue(PUT);
    for (uint64_t n = 0; !atomic_load(&shared->stop); n++) {
        put_message((uint64_t)me << 48 | n);
        atomic_store(&shared->sent[me], n + 1);
        if (atomic_load(&shared->watched)) {
            atomic_fetch_add(&shared->changes, 1);
            futex_wake_all(&shared->changes);
        }
    }
    OK(aclFinalize());
    return 0;
}

/* Until it has the message that says so: the last one. */
static int run_consumer(void *arg)
{
    (void)arg;
    turn_await(&to_consumer);
    OK(aclInit(NULL));
    attach_queue(TAKE);
    for (;;) {
        uint64_t value = take_message();
        unsigned from = (unsigned)(value >> 48);

        if (value == UINT64_MAX)
            break;
        if (from >= PRODUCERS || (value & 0xffffffffffff) != shared->received[from])
            ck_abort_msg("message %llx, after %lu of this producer", (unsigned long long)value,
                         (unsigned long)shared->received[from]);
        shared->received[from]++;
    }
    OK(aclFinalize());
    return 0;
}

static void await_sent(unsigned producer, uint64_t n)
{
    uint64_t give_up = now_ns() + UINT64_C(60000000000); /* against hanging only */
    struct timespec deadline = timespec_from_ns(give_up);

    atomic_store(&shared->watched, 1);
    for (;;) {
        uint32_t seen = atomic_load(&shared->changes);

        if (atomic_load(&shared->sent[producer]) >= n)
            break;
        ck_assert_int_ne(futex_wait_until(&shared->changes, seen, &deadline), -ETIMEDOUT);
        ck_assert_uint_lt(now_ns(), give_up);
    }
    atomic_store(&shared->watched, 0);
}

/* Full rings of 2^k - 1 messages have one slot to spare, those of 2^k have as many as messages. */
static const uint32_t depths[] = {8191, 2,  3,  7,  15,  16,  63,  127, 1023, 4095, 4096, 8192,
                                  8,    31, 32, 64, 128, 255, 256, 511, 512,  1024, 2047, 2048};

START_TEST(messages_of_a_dead_producer_arrive)
{
    unsigned victims = choose_effort(2, VICTIMS_MAX);
    uint32_t depth = depths[_i];
    uint64_t seed = depth;
    pid_t producer[PRODUCERS], consumer;

    for (unsigned i = 0; i < PRODUCERS; i++)
        if (i < victims || i >= VICTIMS_MAX)
            producer[i] = child_start(run_producer, (void *)(uintptr_t)i);
    consumer = child_start(run_consumer, NULL);
    /* The others shall be faster than npud while it looks for messages. */
    ck_assert_int_eq(setpriority(PRIO_PROCESS, (id_t)npud.pid, 10), 0);
    OK(aclInit(NULL));
    shared->qid = create_queue(depth);
    OK(acltdtGrantQueue(shared->qid, consumer, TAKE, 0));
    turn_tell(&to_consumer);
    for (unsigned i = VICTIMS_MAX; i < PRODUCERS; i++) {
        OK(acltdtGrantQueue(shared->qid, producer[i], PUT, 0));
        turn_tell(&to_producer[i]);
        await_sent(i, 1);
    }
    for (unsigned i = 0; i < victims; i++) {
        OK(acltdtGrantQueue(shared->qid, producer[i], PUT, 0));
        turn_tell(&to_producer[i]);
        await_sent(i, 1 + draw_below(&seed, choose_effort(depth, 2 * depth)));
        child_kill(producer[i]);
        npud_await_sessions(2 + NEIGHBOURS);
    }
    atomic_store(&shared->stop, 1);
    for (unsigned i = VICTIMS_MAX; i < PRODUCERS; i++)
        child_expect_ok(producer[i]);
    OK(acltdtEnqueue(shared->qid, buffer_of(UINT64_MAX), -1));
    child_expect_ok(consumer);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        uint64_t sent = atomic_load(&shared->sent[i]);

        /* A producer that is killed may have put one message more than it could say. */
        ck_assert_msg(shared->received[i] == sent ||
                          (i < victims && shared->received[i] == sent + 1),
                      "depth %u, producer %u: %lu sent, %lu received", depth, i,
                      (unsigned long)sent, (unsigned long)shared->received[i]);
    }
    OK(acltdtDestroyQueue(shared->qid));
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue_deaths");

    tcase_add_loop_test(suite_case(s, "deaths", 300, set_up_test, NULL),
                        messages_of_a_dead_producer_arrive, 0,
                        (int)choose_effort(4, sizeof(depths) / sizeof(depths[0])));
    return run_suite(s);
}
