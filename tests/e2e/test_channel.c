/*
 * Tensor channels: what stops a wait, processes that share a name, what they leave when they are
 * killed, other users, malformed messages, and the end of npud. Programs of one process are in
 * tests/programs.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "proto/util/clock.h"
#include "proto/util/futex.h"
#include "queue_kit.h"
#include "tests/common/chance.h"
#include "tests/common/effort.h"
#include "tests/common/need.h"
#include "tests/common/second_user.h"

#define VICTIMS_MAX 12u
#define NEIGHBOURS  2u
#define PRODUCERS   (VICTIMS_MAX + NEIGHBOURS)
#define DATA_MAX    300000u
#define NAME        "a-channel"

static struct shared {
    _Atomic uint32_t stop;
    _Atomic uint32_t changes; /* futex: of `count` */
    _Atomic uint64_t count[PRODUCERS];
    uint64_t received[PRODUCERS];
    uint64_t last; /* number that a consumer has got, + 1 */
} * shared;

static struct turn go[PRODUCERS], ready;

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
    turn_init(&ready);
    for (unsigned i = 0; i < PRODUCERS; i++)
        turn_init(&go[i]);
}

static void end_test(void)
{
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

/* For as long as those before it take: not turn_await(), which has a limit. */
static void await_go(unsigned me)
{
    char turn;

    if (read(go[me].fd[0], &turn, 1) != 1)
        ck_abort_msg("no turn");
}

/* --- tensors --- */

static acltdtChannelHandle *join_channel(const char *name, size_t capacity)
{
    acltdtChannelHandle *channel = acltdtCreateChannelWithCapacity(0, name, capacity);

    if (!channel)
        ck_abort_msg("%s", aclGetRecentErrMsg());
    return channel;
}

static uint64_t checksum_of(const unsigned char *data, size_t size, uint64_t number)
{
    uint64_t sum = number ^ UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < size; i++)
        sum = (sum << 5 | sum >> 59) ^ data[i];
    return sum;
}

/* A number, bytes, and the checksum of both. */
static aclError send_numbered(acltdtChannelHandle *channel, uint64_t number, unsigned char *data,
                              size_t size, int32_t timeout)
{
    uint64_t sum = checksum_of(data, size, number);
    const int64_t dims[] = {(int64_t)size};
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtDataItem *items[] = {
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_UINT64, &number, sizeof(number)),
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, dims, 1, ACL_UINT8, data, size),
        acltdtCreateDataItem(ACL_TENSOR_DATA_TENSOR, NULL, 0, ACL_UINT64, &sum, sizeof(sum)),
    };
    aclError error;

    for (int i = 0; i < 3; i++)
        OK(acltdtAddDataItem(dataset, items[i]));
    error = acltdtSendTensor(channel, dataset, timeout);
    OK(acltdtDestroyDataset(dataset));
    for (int i = 0; i < 3; i++)
        OK(acltdtDestroyDataItem(items[i]));
    return error;
}

static uint64_t word_of(const acltdtDataset *dataset, size_t index)
{
    uint64_t word;

    memcpy(&word, acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, index)), sizeof(word));
    return word;
}

/* The number of what was received, whose checksum must be right. */
static uint64_t number_of(const acltdtDataset *dataset)
{
    const acltdtDataItem *item = acltdtGetDataItem(dataset, 1);
    uint64_t number = word_of(dataset, 0);
    int64_t size;

    if (acltdtGetDatasetSize(dataset) != 3)
        ck_abort_msg("%zu items", acltdtGetDatasetSize(dataset));
    OK(acltdtGetDimsFromItem(item, &size, 1));
    if (acltdtGetDataSizeFromItem(item) != (size_t)size ||
        checksum_of(acltdtGetDataAddrFromItem(item), (size_t)size, number) != word_of(dataset, 2))
        ck_abort_msg("tensor %llx of %zu bytes is damaged", (unsigned long long)number,
                     (size_t)size);
    return number;
}

static uint64_t receive_number(acltdtChannelHandle *channel, int32_t timeout)
{
    acltdtDataset *dataset = acltdtCreateDataset();
    uint64_t number;

    OK(acltdtReceiveTensor(channel, dataset, timeout));
    number = number_of(dataset);
    OK(acltdtDestroyDataset(dataset));
    return number;
}

static size_t size_of(const acltdtChannelHandle *channel)
{
    size_t size = SIZE_MAX;

    OK(acltdtQueryChannelSize(channel, &size));
    return size;
}

/* --- stop --- */

struct sleeper {
    acltdtChannelHandle *channel;
    bool sends;
    aclError error;
};

static void *sleep_in_call(void *arg)
{
    struct sleeper *s = arg;
    acltdtDataset *dataset = acltdtCreateDataset();

    s->error = s->sends ? send_numbered(s->channel, 1, NULL, 0, -1)
                        : acltdtReceiveTensor(s->channel, dataset, -1);
    OK(acltdtDestroyDataset(dataset));
    return NULL;
}

/* Threads that sleep on the handle are woken, and those on another one of the channel are not. */
START_TEST(stop_wakes_those_of_its_handle)
{
    acltdtChannelHandle *one, *other;
    struct sleeper sleepers[4];
    pthread_t threads[4];
    bool sends = _i;

    OK(aclInit(NULL));
    one = join_channel(NAME, 2);
    other = join_channel(NAME, 2);
    for (int i = 0; sends && i < 2; i++)
        OK(send_numbered(one, 1, NULL, 0, 0));
    /* The one that is not meant sleeps longest: it is the first to be woken, and sleeps again. */
    for (int i = 0; i < 4; i++) {
        sleepers[i] = (struct sleeper){i == 0 ? other : one, sends, -1};
        pthread_create(&threads[i], NULL, sleep_in_call, &sleepers[i]);
        await_asleep(getpid(), (unsigned)i + 1);
    }
    OK(acltdtStopChannel(one));
    for (int i = 1; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(sleepers[i].error, ACL_ERROR_FAILURE);
    }
    await_asleep(getpid(), 1);
    if (sends)
        receive_number(one, 0);
    else
        OK(send_numbered(one, 1, NULL, 0, 0));
    pthread_join(threads[0], NULL);
    ck_assert_int_eq(sleepers[0].error, 0);
    /* Another handle in the place of one that was stopped. */
    OK(acltdtDestroyChannel(one));
    one = join_channel(NAME, 2);
    sleepers[1] = (struct sleeper){one, sends, -1};
    pthread_create(&threads[1], NULL, sleep_in_call, &sleepers[1]);
    await_asleep(getpid(), 1);
    OK(acltdtStopChannel(one));
    pthread_join(threads[1], NULL);
    OK(acltdtDestroyChannel(other));
    OK(acltdtDestroyChannel(one));
    end_test();
}
END_TEST

/* A thread that begins a call on each channel that it is given. */
struct stopped {
    _Atomic(acltdtChannelHandle *) channel; /* NULL: the last one was */
    _Atomic unsigned begun, ended;
};

static void *begin_to_sleep(void *arg)
{
    struct stopped *s = arg;
    acltdtDataset *dataset = acltdtCreateDataset();
    acltdtChannelHandle *channel;

    for (unsigned n = 1;; n++) {
        while (atomic_load(&s->begun) < n)
            sched_yield();
        channel = atomic_load(&s->channel);
        if (!channel)
            break;
        atomic_fetch_add(&s->begun, 1);
        n++;
        FAILS(ACL_ERROR_FAILURE, acltdtReceiveTensor(channel, dataset, -1));
        atomic_fetch_add(&s->ended, 1);
    }
    OK(acltdtDestroyDataset(dataset));
    return NULL;
}

/* A thread is on its way to sleep when the stop comes: at each moment of it, with some luck. */
START_TEST(stop_meets_a_thread_that_goes_to_sleep)
{
    struct stopped s = {NULL};
    acltdtChannelHandle *held, *channel;
    pthread_t thread;
    uint64_t seed = 1;

    OK(aclInit(NULL));
    held = join_channel(NAME, 2);
    pthread_create(&thread, NULL, begin_to_sleep, &s);
    for (unsigned round = 1; round <= choose_effort(5000, 300000); round++) {
        channel = join_channel(NAME, 2);
        atomic_store(&s.channel, channel);
        atomic_fetch_add(&s.begun, 1);
        while (atomic_load(&s.begun) != 2 * round)
            sched_yield();
        for (volatile unsigned i = draw_below(&seed, 1500); i > 0; i--)
            ;
        OK(acltdtStopChannel(channel));
        while (atomic_load(&s.ended) != round)
            sched_yield();
        OK(acltdtDestroyChannel(channel));
    }
    atomic_store(&s.channel, NULL);
    atomic_fetch_add(&s.begun, 1);
    pthread_join(thread, NULL);
    OK(acltdtDestroyChannel(held));
    end_test();
}
END_TEST

/* --- deaths --- */

static void tell_count(unsigned who, uint64_t count)
{
    atomic_store(&shared->count[who], count);
    atomic_fetch_add(&shared->changes, 1);
    futex_wake_all(&shared->changes);
}

static void await_count(unsigned who, uint64_t count)
{
    uint64_t give_up = now_ns() + UINT64_C(60000000000); /* against hanging only */
    struct timespec deadline = timespec_from_ns(give_up);

    for (;;) {
        uint32_t seen = atomic_load(&shared->changes);

        if (atomic_load(&shared->count[who]) >= count)
            return;
        child_expect_none_failed();
        futex_wait_until(&shared->changes, seen, &deadline);
        ck_assert_uint_lt(now_ns(), give_up);
    }
}

static unsigned char *draw_data(uint64_t *seed)
{
    unsigned char *data = malloc(DATA_MAX);

    for (size_t i = 0; i < DATA_MAX; i++)
        data[i] = (unsigned char)draw_random(seed);
    return data;
}

static size_t draw_size(uint64_t *seed)
{
    return draw_chance(seed, 80) ? 1 + draw_below(seed, 2000) : 1 + draw_below(seed, DATA_MAX);
}

static int produce(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t seed = me;
    acltdtChannelHandle *channel;
    unsigned char *data = draw_data(&seed);

    await_go(me);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    for (uint64_t n = 0; !atomic_load(&shared->stop); n++) {
        OK(send_numbered(channel, (uint64_t)me << 48 | n, data, draw_size(&seed), -1));
        tell_count(me, n + 1);
    }
    OK(acltdtDestroyChannel(channel));
    OK(aclFinalize());
    free(data);
    return 0;
}

/* Until it is told by a tensor of another producer. */
static int consume(void *arg)
{
    acltdtChannelHandle *channel;

    (void)arg;
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    turn_tell(&ready);
    for (;;) {
        uint64_t number = receive_number(channel, -1);
        unsigned from = (unsigned)(number >> 48);

        if (number == UINT64_MAX)
            break;
        if (from >= PRODUCERS || (number & 0xffffffffffff) != shared->received[from])
            ck_abort_msg("tensor %llx, after %llu of this producer", (unsigned long long)number,
                         (unsigned long long)shared->received[from]);
        shared->received[from]++;
    }
    OK(acltdtDestroyChannel(channel));
    OK(aclFinalize());
    return 0;
}

/*
 * Producers are killed in the middle of sending: each tensor arrives as a whole and once, in the
 * order of its producer, and the others go on.
 */
START_TEST(producers_are_killed)
{
    unsigned victims = choose_effort(5, VICTIMS_MAX);
    uint64_t seed = (uint64_t)_i + 7;
    pid_t producer[PRODUCERS], consumer;
    acltdtChannelHandle *channel;

    for (unsigned i = 0; i < PRODUCERS; i++)
        if (i < victims || i >= VICTIMS_MAX)
            producer[i] = child_start(produce, (void *)(uintptr_t)i);
    consumer = child_start(consume, NULL);
    turn_await(&ready);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    for (unsigned i = VICTIMS_MAX; i < PRODUCERS; i++)
        turn_tell(&go[i]);
    for (unsigned i = 0; i < victims; i++) {
        turn_tell(&go[i]);
        await_count(i, 1 + draw_below(&seed, 100));
        child_kill(producer[i]);
    }
    atomic_store(&shared->stop, 1);
    for (unsigned i = VICTIMS_MAX; i < PRODUCERS; i++)
        child_expect_ok(producer[i]);
    OK(send_numbered(channel, UINT64_MAX, NULL, 0, -1));
    child_expect_ok(consumer);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        uint64_t sent = atomic_load(&shared->count[i]);

        ck_assert_msg(shared->received[i] == sent ||
                          (i < victims && shared->received[i] == sent + 1),
                      "producer %u: %lu sent, %lu received", i, (unsigned long)sent,
                      (unsigned long)shared->received[i]);
    }
    ck_assert_uint_eq(size_of(channel), 0);
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

/* All are there from the beginning, and receive one after the other. */
static int consume_until_killed(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    acltdtChannelHandle *channel;

    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    turn_tell(&ready);
    await_go(me);
    for (uint64_t n = 0;; n++) {
        uint64_t number = receive_number(channel, -1);

        /* One was taken by the consumer before, which did not come to note it. */
        if (number < shared->last || number > shared->last + (n == 0))
            ck_abort_msg("tensor %llu behind %llu", (unsigned long long)number,
                         (unsigned long long)shared->last);
        shared->last = number + 1;
        tell_count(me, n + 1);
    }
    return 0;
}

/* Consumers are killed while they receive: a tensor may go with them, and nothing else. */
START_TEST(consumers_are_killed)
{
    unsigned victims = choose_effort(5, VICTIMS_MAX);
    uint64_t seed = (uint64_t)_i + 3, data_seed = 1, n = 0;
    pid_t consumer[VICTIMS_MAX];
    acltdtChannelHandle *channel;
    unsigned char *data = draw_data(&data_seed);

    for (unsigned i = 0; i < victims; i++) {
        consumer[i] = child_start(consume_until_killed, (void *)(uintptr_t)i);
        turn_await(&ready);
    }
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    for (unsigned i = 0; i < victims; i++) {
        uint64_t until = 1 + draw_below(&seed, 100);

        turn_tell(&go[i]);
        while (atomic_load(&shared->count[i]) < until) {
            child_expect_none_failed();
            OK(send_numbered(channel, n++, data, draw_size(&seed), -1));
        }
        child_kill(consumer[i]);
    }
    npud_await_sessions(1);
    while (size_of(channel) > 0)
        receive_number(channel, 0);
    free(data);
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

/* --- room --- */

struct racer {
    acltdtChannelHandle *channel;
    unsigned char *data;
    _Atomic unsigned *left; /* who still race */
    unsigned sent, full;
};

static void *race_for_room(void *arg)
{
    struct racer *r = arg;

    for (unsigned i = choose_effort(500, 10000); i > 0; i--) {
        aclError error = send_numbered(r->channel, i, r->data, DATA_MAX, (int32_t)(i % 2));

        r->sent += error == 0;
        r->full += error == ACL_ERROR_RT_QUEUE_FULL;
        if (error != 0 && error != ACL_ERROR_RT_QUEUE_FULL)
            ck_abort_msg("%d: %s", error, aclGetRecentErrMsg());
    }
    atomic_fetch_sub(r->left, 1);
    return NULL;
}

/* Of senders of which nobody knows how many find room. How many messages were there. */
static unsigned receive_from(acltdtChannelHandle *channel, const _Atomic unsigned *left)
{
    acltdtDataset *dataset;
    unsigned n = 0;

    while (atomic_load(left) > 0) {
        aclError error;

        dataset = acltdtCreateDataset();
        error = acltdtReceiveTensor(channel, dataset, 10);
        if (error == 0)
            number_of(dataset);
        else
            ck_assert_int_eq(error, ACL_ERROR_RT_QUEUE_EMPTY);
        n += error == 0;
        OK(acltdtDestroyDataset(dataset));
    }
    return n;
}

/* There was room when the message was begun, and is none when it is there. */
START_TEST(senders_race_for_room)
{
    struct racer racers[3];
    pthread_t threads[3];
    uint64_t seed = 1;
    unsigned char *data = draw_data(&seed);
    unsigned sent = 0, received;
    _Atomic unsigned left = 3;
    acltdtChannelHandle *channel;

    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    for (int i = 0; i < 3; i++) {
        racers[i] = (struct racer){channel, data, &left};
        pthread_create(&threads[i], NULL, race_for_room, &racers[i]);
    }
    received = receive_from(channel, &left);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        sent += racers[i].sent;
        ck_assert_uint_gt(racers[i].full, 0);
    }
    for (; size_of(channel) > 0; received++)
        receive_number(channel, 0);
    ck_assert_uint_eq(sent, received);
    OK(acltdtDestroyChannel(channel));
    free(data);
    end_test();
}
END_TEST

/* --- the last peer --- */

static int send_and_leave(void *arg)
{
    acltdtChannelHandle *channel;
    uint64_t seed = 2;
    unsigned char *data = draw_data(&seed);

    (void)arg;
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    turn_tell(&ready);
    await_go(0);
    for (uint64_t n = 0; n < 4; n++)
        OK(send_numbered(channel, n, data, n % 2 ? 10 : DATA_MAX, 0));
    OK(acltdtDestroyChannel(channel));
    OK(aclFinalize());
    free(data);
    return 0;
}

START_TEST(what_was_sent_stays)
{
    pid_t child = child_start(send_and_leave, NULL);
    acltdtChannelHandle *channel;
    acltdtDataset *dataset;

    turn_await(&ready);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    turn_tell(&go[0]);
    child_expect_ok(child);
    npud_await_sessions(1);
    ck_assert_uint_eq(size_of(channel), 4);
    for (uint64_t n = 0; n < 4; n++)
        ck_assert_uint_eq(receive_number(channel, -1), n);
    dataset = acltdtCreateDataset();
    FAILS(ACL_ERROR_RT_DRV_INTERNAL_ERROR, acltdtReceiveTensor(channel, dataset, -1));
    OK(acltdtDestroyDataset(dataset));
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

static int join_and_wait(void *arg)
{
    acltdtChannelHandle *channel;

    (void)arg;
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    turn_tell(&ready);
    await_go(0);
    OK(acltdtDestroyChannel(channel));
    turn_tell(&ready);
    await_go(1);
    channel = join_channel(NAME, 4);
    turn_tell(&ready);
    await_go(2);
    OK(send_numbered(channel, 5, NULL, 0, 0));
    OK(aclFinalize());
    return 0;
}

/* A receiver that nobody can serve any more learns who was the last one, and another may come. */
START_TEST(the_last_peer_leaves)
{
    pid_t child = child_start(join_and_wait, NULL);
    struct sleeper s = {.error = -1};
    acltdtDataset *dataset;
    pthread_t thread;
    char pid[16];

    turn_await(&ready);
    OK(aclInit(NULL));
    dataset = acltdtCreateDataset();
    s.channel = join_channel(NAME, 8);
    pthread_create(&thread, NULL, sleep_in_call, &s);
    await_asleep(getpid(), 1);
    turn_tell(&go[0]);
    pthread_join(thread, NULL);
    ck_assert_int_eq(s.error, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    snprintf(pid, sizeof(pid), "%d", child);
    FAILS_SAYING(ACL_ERROR_RT_DRV_INTERNAL_ERROR, pid, acltdtReceiveTensor(s.channel, dataset, -1));
    FAILS(ACL_ERROR_RT_QUEUE_EMPTY, acltdtReceiveTensor(s.channel, dataset, 0));
    turn_await(&ready);
    turn_tell(&go[1]);
    turn_await(&ready);
    pthread_create(&thread, NULL, sleep_in_call, &s);
    await_asleep(getpid(), 1);
    turn_tell(&go[2]);
    pthread_join(thread, NULL);
    ck_assert_int_eq(s.error, 0);
    child_expect_ok(child);
    OK(acltdtDestroyDataset(dataset));
    OK(acltdtDestroyChannel(s.channel));
    end_test();
}
END_TEST

/* --- names --- */

static int use_same_name(void *arg)
{
    acltdtChannelHandle *channel;

    (void)arg;
    second_user_become();
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    OK(send_numbered(channel, 666, NULL, 0, 0));
    turn_tell(&ready);
    await_go(0);
    ck_assert_uint_eq(size_of(channel), 1);
    ck_assert_uint_eq(receive_number(channel, 0), 666);
    OK(acltdtDestroyChannel(channel));
    OK(aclFinalize());
    return 0;
}

START_TEST(another_user_has_another_channel)
{
    acltdtChannelHandle *channel;
    pid_t child;

    if (!need_root(__func__))
        return;
    second_user_let_in();
    child = child_start(use_same_name, NULL);
    turn_await(&ready);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    ck_assert_uint_eq(size_of(channel), 0);
    OK(send_numbered(channel, 1, NULL, 0, 0));
    turn_tell(&go[0]);
    child_expect_ok(child);
    ck_assert_uint_eq(size_of(channel), 1);
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

/* The channel is what its handles, in any process, have of it. */
START_TEST(it_goes_with_the_last_handle)
{
    acltdtChannelHandle *one, *two, *device1;

    OK(aclInit(NULL));
    one = join_channel(NAME, 4);
    two = join_channel(NAME, 100);
    device1 = acltdtCreateChannelWithCapacity(1, NAME, 4);
    ck_assert_ptr_nonnull(device1);
    ck_assert_ptr_ne(one, two);
    for (uint64_t n = 0; n < 4; n++)
        OK(send_numbered(one, n, NULL, 0, 0));
    /* The capacity is that of the first one. */
    FAILS(ACL_ERROR_RT_QUEUE_FULL, send_numbered(two, 9, NULL, 0, 0));
    ck_assert_uint_eq(size_of(two), 4);
    ck_assert_uint_eq(size_of(device1), 0);
    npuctl_says("queues", 0, NAME);
    OK(acltdtDestroyChannel(one));
    FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtDestroyChannel(one));
    ck_assert_uint_eq(receive_number(two, 0), 0);
    OK(acltdtDestroyChannel(two));
    await_buffers(0);
    one = join_channel(NAME, 4);
    ck_assert_uint_eq(size_of(one), 0);
    OK(acltdtDestroyChannel(one));
    OK(acltdtDestroyChannel(device1));
    ck_assert_uint_eq(npud_used("queues"), 0);
    end_test();
}
END_TEST

static void *open_and_close(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    for (unsigned round = choose_effort(100, 5000); round > 0; round--) {
        acltdtChannelHandle *channel = join_channel(NAME, 64);

        if (draw_chance(&seed, 50))
            OK(send_numbered(channel, round, NULL, 0, 0));
        else if (size_of(channel) > 0 && draw_chance(&seed, 50))
            OK(acltdtCleanChannel(channel));
        if (draw_chance(&seed, 10))
            OK(acltdtCleanChannel(channel));
        OK(acltdtDestroyChannel(channel));
    }
    return NULL;
}

/* Threads open and close the same channel: none closes it under another one's hands. */
START_TEST(threads_open_and_close)
{
    acltdtChannelHandle *held = NULL;
    pthread_t threads[4];

    OK(aclInit(NULL));
    if (_i)
        held = join_channel(NAME, 64);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, open_and_close, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (held)
        OK(acltdtDestroyChannel(held));
    ck_assert_uint_eq(npud_used("queues"), 0);
    end_test();
}
END_TEST

static int open_close_process(void *arg)
{
    OK(aclInit(NULL));
    open_and_close(arg);
    OK(aclFinalize());
    return 0;
}

START_TEST(processes_open_and_close)
{
    pid_t child[3];

    for (uintptr_t i = 0; i < 3; i++)
        child[i] = child_start(open_close_process, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        child_expect_ok(child[i]);
    OK(aclInit(NULL));
    end_test();
}
END_TEST

/* --- messages --- */

static acltdtBuf buffer_with(const void *data, size_t size)
{
    acltdtBuf buf;
    size_t room;
    void *at;

    OK(acltdtAllocBuf(size > 0 ? size : 1, ACL_TDT_NORMAL_MEM, &buf));
    OK(acltdtGetBufData(buf, &at, &room));
    memcpy(at, data, size);
    if (size > 0)
        OK(acltdtSetBufDataLen(buf, size));
    return buf;
}

/* As client/channel/message.h has it. */
struct forged {
    uint32_t magic, n;
    uint64_t n_dims;
    int32_t kind, type;
    uint32_t dim_num, unused;
    uint64_t size;
};

/* A process that has the queue of the channel puts there what it likes. */
START_TEST(what_is_no_message_is_refused)
{
    struct forged unknown = {.magic = 0x31746474, .n = 1, .kind = 3}, huge = unknown;
    acltdtChannelHandle *channel;
    acltdtDataset *fresh, *used;
    acltdtDataItem *item;
    acltdtBuf bad[6];

    OK(aclInit(NULL));
    channel = join_channel(NAME, 8);
    fresh = acltdtCreateDataset();
    used = acltdtCreateDataset();
    OK(send_numbered(channel, 3, NULL, 0, 0));
    OK(acltdtReceiveTensor(channel, used, 0));
    huge.kind = 0;
    huge.size = UINT64_MAX;
    bad[0] = buffer_with("", 0);
    bad[1] = buffer_with("garbage", 7);
    bad[2] = buffer_with(&huge, sizeof(huge));
    bad[3] = buffer_with(&huge, 20);
    bad[4] = chain_of(7, 128);
    bad[5] = buffer_with(&unknown, sizeof(unknown));
    for (int i = 0; i < 6; i++)
        OK(acltdtEnqueue(0, bad[i], 0)); /* the first queue of the user */
    OK(send_numbered(channel, 4, NULL, 0, 0));
    FAILS(ACL_ERROR_FAILURE, acltdtReceiveTensor(channel, fresh, -1));
    FAILS(ACL_ERROR_FAILURE, acltdtReceiveTensor(channel, used, -1));
    for (int i = 2; i < 5; i++)
        FAILS(ACL_ERROR_FAILURE, acltdtReceiveTensor(channel, i % 2 ? fresh : used, -1));
    FAILS(ACL_ERROR_UNSUPPORTED_DATA_TYPE, acltdtReceiveTensor(channel, used, -1));
    ck_assert_uint_eq(acltdtGetDatasetSize(used), 0);
    OK(acltdtReceiveTensor(channel, used, -1));
    ck_assert_uint_eq(number_of(used), 4);
    item = acltdtCreateDataItem(ACL_TENSOR_DATA_ABNORMAL, NULL, 0, ACL_DT_UNDEFINED, NULL, 0);
    OK(acltdtAddDataItem(fresh, item)); /* it is still nobody's */
    OK(acltdtDestroyDataset(fresh));
    OK(acltdtDestroyDataItem(item));
    OK(acltdtDestroyDataset(used));
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

/* Larger than one buffer: it is cut, and joined again; what is not cut stays where it is. */
START_TEST(a_large_tensor_is_cut)
{
    size_t size = ((size_t)choose_effort(257, 1100) << 20) + 12345;
    unsigned char *data = malloc(size), *got;
    acltdtChannelHandle *channel;
    acltdtDataset *dataset;

    for (size_t i = 0; i < size; i += 4096)
        memset(data + i, (int)(i >> 12) * 7, size - i < 4096 ? size - i : 4096);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    for (int round = 0; round < 2; round++) {
        dataset = acltdtCreateDataset();
        OK(send_numbered(channel, 17, data, size, -1));
        OK(acltdtReceiveTensor(channel, dataset, -1));
        got = acltdtGetDataAddrFromItem(acltdtGetDataItem(dataset, 1));
        ck_assert_uint_eq(acltdtGetDataSizeFromItem(acltdtGetDataItem(dataset, 1)), size);
        ck_assert(memcmp(got, data, size) == 0);
        ck_assert_uint_eq(word_of(dataset, 0), 17);
        ck_assert_uint_eq(word_of(dataset, 2), checksum_of(data, size, 17));
        OK(acltdtDestroyDataset(dataset));
    }
    OK(acltdtDestroyChannel(channel));
    free(data);
    end_test();
}
END_TEST

/* By the second buffer of the message. */
START_TEST(a_limit_is_met)
{
    static const char *const args[] = {"--set", "limits.mbuf_memory=300M", NULL};
    size_t size = (size_t)600 << 20;
    unsigned char *data = calloc(1, size);
    acltdtChannelHandle *channel;

    npud_start(args);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    FAILS(ACL_ERROR_RT_MEMORY_ALLOCATION, send_numbered(channel, 1, data, size, -1));
    ck_assert_uint_eq(size_of(channel), 0);
    OK(send_numbered(channel, 2, data, 1 << 20, -1));
    ck_assert_uint_eq(receive_number(channel, 0), 2);
    OK(acltdtDestroyChannel(channel));
    free(data);
    end_test();
}
END_TEST

/* --- the end of a session, and of npud --- */

START_TEST(a_dataset_outlives_its_session)
{
    acltdtChannelHandle *channel;
    acltdtDataset *dataset;

    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    dataset = acltdtCreateDataset();
    for (int i = 0; i < 3; i++) {
        OK(send_numbered(channel, 1, NULL, 0, 0));
        OK(acltdtReceiveTensor(channel, dataset, 0));
        OK(aclFinalize());
        npud_await_sessions(0);
        OK(aclInit(NULL));
        FAILS(ACL_ERROR_RT_PARAM_INVALID, acltdtReceiveTensor(channel, dataset, 0));
        channel = join_channel(NAME, 2);
    }
    OK(send_numbered(channel, 2, NULL, 0, 0));
    OK(acltdtReceiveTensor(channel, dataset, 0));
    ck_assert_uint_eq(number_of(dataset), 2);
    OK(aclFinalize());
    OK(acltdtDestroyDataset(dataset));
    OK(aclInit(NULL));
    end_test();
}
END_TEST

#ifndef __SANITIZE_THREAD__
START_TEST(a_forked_child_has_none_of_it)
{
    acltdtChannelHandle *channel;
    acltdtDataset *dataset;
    pid_t child;

    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    dataset = acltdtCreateDataset();
    OK(send_numbered(channel, 1, NULL, 0, 0));
    OK(acltdtReceiveTensor(channel, dataset, 0));
    child = fork_when_quiet();
    if (child == 0) {
        acltdtChannelHandle *mine;

        if (acltdtSendTensor(channel, dataset, 0) != ACL_ERROR_UNINITIALIZE ||
            acltdtDestroyChannel(channel) != ACL_ERROR_UNINITIALIZE || acltdtCreateDataset() ||
            acltdtCreateChannelWithCapacity(0, NAME, 2))
            _exit(1);
        OK(acltdtDestroyDataset(dataset));
        OK(aclInit(NULL));
        if (acltdtStopChannel(channel) != ACL_ERROR_RT_PARAM_INVALID)
            _exit(2);
        mine = join_channel(NAME, 2);
        OK(send_numbered(mine, 2, NULL, 0, 0));
        OK(aclFinalize());
        _exit(0);
    }
    child_expect_ok(child);
    ck_assert_uint_eq(number_of(dataset), 1);
    ck_assert_uint_eq(receive_number(channel, 0), 2);
    OK(acltdtDestroyDataset(dataset));
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST
#endif

static int join_after_restart(void *arg)
{
    acltdtChannelHandle *channel;

    (void)arg;
    await_go(0);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 2);
    ck_assert_uint_eq(receive_number(channel, 0), 2);
    OK(acltdtDestroyChannel(channel));
    OK(aclFinalize());
    return 0;
}

/* npud dies and comes back, with threads that sleep, and messages in the channel. */
START_TEST(npud_comes_back)
{
    struct sleeper s = {.error = -1};
    acltdtChannelHandle *channel;
    pthread_t thread;
    pid_t child;

    shared = child_share(sizeof(*shared));
    turn_init(&go[0]);
    npud_start_restartable(NULL);
    child = child_start(join_after_restart, NULL);
    OK(aclInit(NULL));
    channel = join_channel(NAME, 4);
    s.channel = join_channel("another", 4);
    pthread_create(&thread, NULL, sleep_in_call, &s);
    OK(send_numbered(channel, 1, NULL, 0, 0));
    OK(send_numbered(channel, 2, NULL, 0, 0));
    await_asleep(getpid(), 1);
    npud_kill_server();
    OK(send_numbered(channel, 3, NULL, 0, 0));
    ck_assert_uint_eq(receive_number(channel, 0), 1);
    OK(acltdtStopChannel(s.channel));
    pthread_join(thread, NULL);
    ck_assert_int_eq(s.error, ACL_ERROR_FAILURE);
    OK(acltdtDestroyChannel(s.channel));
    /* The name is still known. */
    turn_tell(&go[0]);
    child_expect_ok(child);
    ck_assert_uint_eq(receive_number(channel, 0), 3);
    OK(acltdtDestroyChannel(channel));
    end_test();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("channel");
    TCase *t = suite_case(s, "channel", 300, set_up_test, NULL);

    tcase_add_loop_test(t, stop_wakes_those_of_its_handle, 0, 2);
    tcase_add_test(t, stop_meets_a_thread_that_goes_to_sleep);
    tcase_add_loop_test(t, producers_are_killed, 0, (int)choose_effort(1, 20));
    tcase_add_loop_test(t, consumers_are_killed, 0, (int)choose_effort(1, 20));
    tcase_add_test(t, senders_race_for_room);
    tcase_add_test(t, what_was_sent_stays);
    tcase_add_test(t, the_last_peer_leaves);
    tcase_add_test(t, another_user_has_another_channel);
    tcase_add_test(t, it_goes_with_the_last_handle);
    tcase_add_loop_test(t, threads_open_and_close, 0, 2);
    tcase_add_test(t, processes_open_and_close);
    tcase_add_test(t, what_is_no_message_is_refused);
    tcase_add_test(t, a_large_tensor_is_cut);
    tcase_add_test(t, a_dataset_outlives_its_session);
#ifndef __SANITIZE_THREAD__ /* which allows no new threads in a child of a process with several */
    tcase_add_test(t, a_forked_child_has_none_of_it);
#endif
    t = suite_case(s, "own npud", 300, NULL, NULL);
    tcase_add_test(t, a_limit_is_met);
    tcase_add_test(t, npud_comes_back);
    return run_suite(s);
}
