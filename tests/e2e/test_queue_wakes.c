/*
 * Wake-ups and refusals that cross with something else. The test stands between the library and the
 * kernel: it defines syscall() and sendmsg(), which the library calls, and lets something happen at
 * exactly that moment. No case depends on time; limits are against hanging only.
 */
#include <dlfcn.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "queue_kit.h"

#define TAKE     2u
#define GUARD_MS 300000 /* against hanging only */

/* Called once by this thread, right before it sleeps on a shared futex. */
static _Thread_local void (*before_sleep)(void);
/* Called by this thread before it sends a packet. */
static _Thread_local void (*before_send)(void);

/*
 * The thread of the library that lets go of rings stays where it would sleep: the call under test
 * shall be the first to see that a ring has ended.
 */
static _Atomic uint32_t hold_rings;   /* futex */
static _Atomic uint32_t is_held_back; /* futex: that thread has come there */

/* Barriers that the library has asked the kernel for. */
static _Atomic unsigned barriers;

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    void (*hook)(void) = before_sleep;
    long arg[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(ap, long);
    va_end(ap);
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_membarrier && arg[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        barriers++;
    if (hook && number == SYS_futex && arg[1] == FUTEX_WAIT_BITSET) {
        before_sleep = NULL;
        hook();
    }
    while (number == SYS_futex && arg[1] == FUTEX_WAIT && atomic_load(&hold_rings)) {
        atomic_store(&is_held_back, 1);
        next(SYS_futex, (long)&is_held_back, FUTEX_WAKE_PRIVATE, 1L, 0L, 0L, 0L);
        next(SYS_futex, (long)&hold_rings, FUTEX_WAIT, 1L, 0L, 0L, 0L);
    }
    return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/*
 * From the first look of that thread at its rings. It starts with the first ring, and may not have
 * run yet when the call that made it returns.
 */
static void await_held_back(void)
{
    while (!atomic_load(&is_held_back))
        syscall(SYS_futex, (long)&is_held_back, FUTEX_WAIT_PRIVATE, 0L, 0L, 0L, 0L);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (before_send)
        before_send();
    return syscall(SYS_sendmsg, (long)fd, message, (long)flags, 0L, 0L, 0L);
}

static struct shared {
    uint32_t q;
} * shared;
static unsigned sent;

static void set_up_test(void)
{
    npud_setup();
    shared = child_share(sizeof(*shared));
    turns_init();
}

static void create_shared_queue(void)
{
    OK(aclInit(NULL));
    shared->q = create_queue(2);
}

static void finish_test(void)
{
    OK(acltdtDestroyQueue(shared->q));
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}

/* A call without limit, in a thread: a lost wake-up must not be made good by the end of a limit. */
struct call {
    pthread_t thread;
    bool putting;
    uint64_t value;             /* that is put, or was taken */
    void (*before_sleep)(void); /* of the thread */
    aclError result;
};

static void *call_thread(void *arg)
{
    struct call *c = arg;

    before_sleep = c->before_sleep;
    if (c->putting)
        c->result = acltdtEnqueue(shared->q, buffer_of(c->value), -1);
    else
        c->value = take_value(shared->q, -1);
    return NULL;
}

static void call_begin(struct call *c)
{
    ck_assert_int_eq(pthread_create(&c->thread, NULL, call_thread, c), 0);
}

static void call_end(struct call *c)
{
    struct timespec give_up;

    /*
     * Not by the monotonic clock: ThreadSanitizer of gcc 12 does not know pthread_clockjoin_np()
     * for a join.
     */
    clock_gettime(CLOCK_REALTIME, &give_up);
    give_up.tv_sec += GUARD_MS / 1000;
    ck_assert_msg(pthread_timedjoin_np(c->thread, NULL, &give_up) == 0, "a thread sleeps beside %s",
                  c->putting ? "room" : "a message");
    ck_assert_int_eq(c->result, 0);
}

static void *put_seven(void *arg)
{
    OK(acltdtEnqueue(shared->q, buffer_of(7), 0));
    return arg;
}

static void *take_one(void *arg)
{
    ck_assert_uint_eq(take_value(shared->q, 0), 1);
    return arg;
}

static void another_puts(void)
{
    thread_call(put_seven, NULL);
}

static void another_takes(void)
{
    thread_call(take_one, NULL);
}

/* --- between the last look and the sleep --- */

/*
 * The wake-up comes before the sleeper is in the kernel, so the word must have changed: waking
 * alone finds no sleeper.
 */
START_TEST(a_message_comes_before_the_consumer_is_asleep)
{
    struct call take = {.before_sleep = another_puts};

    create_shared_queue();
    call_begin(&take);
    call_end(&take);
    ck_assert_uint_eq(take.value, 7);
    finish_test();
}
END_TEST

START_TEST(room_comes_before_the_producer_is_asleep)
{
    struct call put = {.putting = true, .value = 3, .before_sleep = another_takes};

    create_shared_queue();
    OK(acltdtEnqueue(shared->q, buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q, buffer_of(2), 0));
    call_begin(&put);
    call_end(&put);
    ck_assert_uint_eq(take_value(shared->q, 0), 2);
    ck_assert_uint_eq(take_value(shared->q, 0), 3);
    finish_test();
}
END_TEST

/* --- a wake-up that is not used --- */

static void *put_too_much(void *arg)
{
    static const char byte = 1;

    /* More than a buffer can have. That is found when there is room for the message. */
    *(aclError *)arg = acltdtEnqueueData(shared->q, &byte, (size_t)5 << 30, NULL, 0, -1, 0);
    return NULL;
}

/*
 * Two producers wait for room. The one that is woken for it finds no buffer and leaves: it must
 * wake the other one.
 */
START_TEST(a_producer_that_fails_beside_room_wakes_the_next)
{
    struct call put = {.putting = true, .value = 3};
    aclError failed = 0;
    pthread_t first;

    create_shared_queue();
    OK(acltdtEnqueue(shared->q, buffer_of(1), 0));
    OK(acltdtEnqueue(shared->q, buffer_of(2), 0));
    ck_assert_int_eq(pthread_create(&first, NULL, put_too_much, &failed), 0);
    await_asleep(getpid(), 1);
    call_begin(&put);
    await_asleep(getpid(), 2);
    ck_assert_uint_eq(take_value(shared->q, 0), 1);
    pthread_join(first, NULL);
    ck_assert_int_eq(failed, ACL_ERROR_RT_PARAM_INVALID);
    call_end(&put);
    ck_assert_uint_eq(take_value(shared->q, 0), 2);
    ck_assert_uint_eq(take_value(shared->q, 0), 3);
    finish_test();
}
END_TEST

/* --- a right that is taken away and given back --- */

/*
 * The consumer asks for the segment of the message, then for the new ring: each after the parent
 * has changed its right.
 */
static void right_changes(void)
{
    if (sent++ < 2) {
        turn_tell(&to_parent);
        turn_await(&to_child);
    }
}

static int takes_across_a_change_of_rights(void *arg)
{
    uint32_t rights;
    acltdtBuf buf;
    aclError error;

    (void)arg;
    OK(aclInit(NULL));
    turn_await(&to_child);
    atomic_store(&hold_rings, 1);
    OK(acltdtAttachQueue(shared->q, GUARD_MS, &rights));
    await_held_back();
    turn_tell(&to_parent);
    turn_await(&to_child);
    before_send = right_changes;
    error = acltdtDequeue(shared->q, &buf, GUARD_MS);
    before_send = NULL;
    atomic_store(&hold_rings, 0);
    syscall(SYS_futex, &hold_rings, FUTEX_WAKE, (long)INT_MAX, 0L, 0L, 0L);
    ck_assert_int_eq(error, 0);
    ck_assert_uint_eq(buffer_value(buf), 11);
    OK(acltdtFreeBuf(buf));
    ck_assert_uint_ge(sent, 3);
    OK(aclFinalize());
    return 0;
}

/*
 * npud refuses the segment while the consumer has no right. With the right it has a new ring, and
 * there the same message is at the same position.
 */
START_TEST(a_refusal_does_not_hold_in_the_next_ring)
{
    pid_t child = child_start(takes_across_a_change_of_rights, NULL);

    create_shared_queue();
    OK(acltdtGrantQueue(shared->q, child, TAKE, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    OK(acltdtEnqueue(shared->q, buffer_of(11), 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    OK(acltdtGrantQueue(shared->q, child, 0, 0));
    turn_tell(&to_child);
    turn_await(&to_parent);
    OK(acltdtGrantQueue(shared->q, child, TAKE, 0));
    turn_tell(&to_child);
    child_expect_ok(child);
    finish_test();
}
END_TEST

/* --- a ring that goes --- */

/*
 * Threads that use a ring say so by a plain store. The thread that unmaps the ring sees that store
 * only behind a barrier for all threads: without it a thread may use a ring that is unmapped, once
 * in a very long time.
 */
START_TEST(a_ring_goes_behind_a_barrier)
{
    unsigned before;

    create_shared_queue();
    OK(acltdtEnqueue(shared->q, buffer_of(1), 0));
    ck_assert_uint_eq(take_value(shared->q, 0), 1);
    before = barriers;
    OK(acltdtDestroyQueue(shared->q));
    ck_assert_uint_gt(barriers, before);
    await_buffers(0);
    OK(aclFinalize());
    npud_expect_empty();
    npud_teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue_wakes");
    TCase *tc = suite_case(s, "wakes", 60, set_up_test, NULL);

    tcase_add_test(tc, a_message_comes_before_the_consumer_is_asleep);
    tcase_add_test(tc, room_comes_before_the_producer_is_asleep);
    tcase_add_test(tc, a_producer_that_fails_beside_room_wakes_the_next);
    tcase_add_test(tc, a_refusal_does_not_hold_in_the_next_ring);
    tcase_add_test(tc, a_ring_goes_behind_a_barrier);
    return run_suite(s);
}
