/*
 * daemon/base/fence: when the next process has the lock, no thread of the one before stores any
 * more, however it was killed.
 */
#include "daemon/base/fence.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "tests/common/effort.h"
#include "tests/common/proc.h"
#include "unit.h"

#define THREADS 4
#define BYTES   4096

static int file;
static _Atomic uint64_t *words; /* of the threads, a cache line each; the last one: how many run */

static void *store_for_ever(void *arg)
{
    _Atomic uint64_t *word = arg;

    atomic_fetch_add(&words[BYTES / 8 - 1], 1);
    for (;;)
        atomic_fetch_add(word, 1);
    return NULL;
}

static void __attribute__((noreturn)) be_server(void)
{
    pthread_t thread;

    if (fence_take(file) < 0)
        _exit(1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, store_for_ever, (void *)&words[8 * i]) != 0)
            _exit(2);
    for (;;)
        pause();
}

static uint64_t sum_words(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < THREADS; i++)
        sum += atomic_load(&words[8 * i]);
    return sum;
}

START_TEST(nothing_is_stored_behind_it)
{
    uint64_t rng = 3;
    void *map;

    file = memfd_new_own("test", BYTES);
    ck_assert_int_ge(file, 0);
    map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    words = map;
    for (unsigned i = choose_effort(50, 500); i > 0; i--) {
        pid_t pid;
        uint64_t sum;
        int lock;

        atomic_store(&words[BYTES / 8 - 1], 0);
        pid = fork();
        if (pid == 0)
            be_server();
        AWAIT(atomic_load(&words[BYTES / 8 - 1]) == THREADS);
        kill(pid, SIGKILL);
        lock = fence_take(file);
        ck_assert_int_ge(lock, 0);
        sum = sum_words();
        for (int k = 0; k < 20; k++)
            burn_time(&rng, 20000);
        ck_assert_uint_eq(sum_words(), sum);
        close(lock);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    }
}
END_TEST

/* Copies of the file do not share it: that of the keeper, for one. */
START_TEST(it_belongs_to_its_process)
{
    int fd = memfd_new_own("test", BYTES), copy = dup(fd), lock, status;
    pid_t pid;

    lock = fence_take(fd);
    ck_assert_int_ge(lock, 0);
    pid = fork();
    if (pid == 0) {
        close(lock);
        _exit(fence_take(copy) >= 0 ? 0 : 1);
    }
    close(fd);
    AWAIT(proc_sleeps(pid));
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0); /* it waits for the lock */
    close(lock);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_lt(fence_take(-1), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence");
    TCase *t = suite_case(suite, "fence", 60, NULL, NULL);

    tcase_add_test(t, nothing_is_stored_behind_it);
    tcase_add_test(t, it_belongs_to_its_process);
    return run_suite(suite);
}
