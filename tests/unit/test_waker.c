/* Many threads that sleep on one word: its waker wakes a few, and a thread of npud's the rest. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "daemon/base/waker.h"
#include "proto/util/futex.h"
#include "tests/unit/unit.h"

#define CROWD 300

static struct page {
    _Atomic uint32_t word, aside, other;
} * page;                  /* of the sleepers */
static struct page *npuds; /* the same memory, in npud's mapping */
static int fd;
static pthread_t crowd[CROWD];
static _Atomic unsigned ready, awake;
static _Atomic bool restless; /* who is woken sleeps again */

/* --- what each thread wakes --- */

static _Atomic unsigned by_main, by_others, most;
static pthread_t main_thread;

long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long a[6], r;
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    r = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number != SYS_futex || (int)a[1] != FUTEX_WAKE || r <= 0)
        return r;
    atomic_fetch_add(pthread_equal(pthread_self(), main_thread) ? &by_main : &by_others,
                     (unsigned)r);
    if ((unsigned)r > atomic_load(&most))
        atomic_store(&most, (unsigned)r);
    return r;
}

/* Those that sleep on the word: the kernel says how many it has moved. */
static unsigned count_sleepers(_Atomic uint32_t *word)
{
    long n = syscall(SYS_futex, word, FUTEX_REQUEUE, 0, INT_MAX, &page->aside, 0);

    ck_assert_int_ge(n, 0);
    ck_assert_int_eq(syscall(SYS_futex, &page->aside, FUTEX_REQUEUE, 0, INT_MAX, word, 0), n);
    return (unsigned)n;
}

/* --- the crowd --- */

static void *sleep_once(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ready, 1);
    futex_wait_until(&page->word, 0, NULL);
    atomic_fetch_add(&awake, 1);
    while (atomic_load(&restless))
        futex_wait_until(&page->word, 0, NULL);
    return NULL;
}

static void *sleep_elsewhere(void *arg)
{
    (void)arg;
    futex_wait_until(&page->other, 0, NULL);
    atomic_fetch_add(&awake, 1);
    return NULL;
}

static void gather(void)
{
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_create(&crowd[i], NULL, sleep_once, NULL), 0);
    AWAIT(count_sleepers(&page->word) == CROWD);
}

static void part(void)
{
    for (int i = 0; i < CROWD; i++)
        pthread_join(crowd[i], NULL);
}

static void begin(void)
{
    void *map;

    ck_assert_int_eq(memfd_map_new("waker", 4096, &fd, &map), 0);
    page = map;
    npuds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(npuds, MAP_FAILED);
    main_thread = pthread_self();
}

/* Its sleepers are all woken, and few of them by the thread that has better things to do. */
START_TEST(few_by_the_caller)
{
    gather();
    ck_assert_int_eq(waker_start(), 0);
    waker_wake(&npuds->word);
    ck_assert_uint_eq(atomic_load(&by_main), WAKER_AT_ONCE);
    part();
    waker_stop(); /* the last may have gone before its waker has counted it */
    ck_assert_uint_eq(atomic_load(&by_main) + atomic_load(&by_others), CROWD);
    ck_assert_uint_le(atomic_load(&most), 4 * WAKER_AT_ONCE);
}
END_TEST

/* Few sleepers are no work for the thread. */
START_TEST(few_sleepers)
{
    pthread_t one;

    ck_assert_int_eq(pthread_create(&one, NULL, sleep_elsewhere, NULL), 0);
    AWAIT(count_sleepers(&page->other) == 1);
    ck_assert_int_eq(waker_start(), 0);
    waker_wake(&npuds->other);
    pthread_join(one, NULL);
    ck_assert_uint_eq(atomic_load(&by_main), 1);
    waker_stop();
    ck_assert_uint_eq(atomic_load(&by_others), 0);
}
END_TEST

/* Sleepers that sleep again at once keep the thread busy, and nobody waits for that. */
START_TEST(sleepers_that_sleep_again)
{
    pthread_t others[CROWD / 2];

    atomic_store(&restless, true);
    gather();
    for (int i = 0; i < CROWD / 2; i++)
        ck_assert_int_eq(pthread_create(&others[i], NULL, sleep_elsewhere, NULL), 0);
    AWAIT(count_sleepers(&page->other) == CROWD / 2);
    ck_assert_int_eq(waker_start(), 0);
    waker_wake(&npuds->word);
    waker_wake(&npuds->other);
    for (int i = 0; i < CROWD / 2; i++)
        pthread_join(others[i], NULL);
    AWAIT(atomic_load(&awake) == CROWD + CROWD / 2);
    atomic_store(&restless, false);
    atomic_store(&page->word, 1);
    waker_wake(&npuds->word);
    part();
    waker_stop();
}
END_TEST

/* npud unmaps the word: no harm is done. Before it stops, it wakes what it has promised. */
START_TEST(the_word_goes)
{
    gather();
    ck_assert_int_eq(waker_start(), 0);
    waker_wake(&npuds->word);
    munmap(npuds, 4096);
    waker_stop();
    futex_wake_all(&page->word);
    part();
}
END_TEST

/* Without the thread all are woken at once. */
START_TEST(without_the_thread)
{
    gather();
    waker_wake(&npuds->word);
    ck_assert_uint_eq(atomic_load(&by_main), CROWD);
    part();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("waker");
    TCase *c = suite_case(s, "waker", 60, begin, NULL);

    tcase_add_test(c, few_by_the_caller);
    tcase_add_test(c, few_sleepers);
    tcase_add_test(c, sleepers_that_sleep_again);
    tcase_add_test(c, the_word_goes);
    tcase_add_test(c, without_the_thread);
    return run_suite(s);
}
