/*
 * daemon/base/heap: the settings of npud's heap, in a program that has the allocator of npud. That
 * its pages go back a little later is shown in tests/e2e/test_peaks.c.
 *
 * Skipped under ASan and TSan: they have allocators of their own.
 * Skipped under the emulator: how pages go back is the real kernel's and allocator's.
 */
#include "daemon/base/heap.h"

#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/need.h"
#include "unit.h"

#define PIECE (UINT64_C(8) << 20) /* what is that large in one piece is special to jemalloc */

/*
 * Calls by which this thread gives pages back; volatile: the compiler takes it that free() calls
 * nothing in this file.
 */
static _Thread_local volatile unsigned given_back;

static const char *const *overcommit_is; /* what the kernel says, NULL in it: nothing */

/* In place of those of libc; madvise() and munmap() also for jemalloc. */
int open(const char *path, int flags, ...)
{
    if (overcommit_is && strcmp(path, "/proc/sys/vm/overcommit_memory") == 0) {
        int fd = *overcommit_is ? memfd_create("mode", MFD_CLOEXEC) : -1;

        if (fd >= 0 && pwrite(fd, *overcommit_is, strlen(*overcommit_is), 0) < 0)
            abort();
        return fd;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

int madvise(void *addr, size_t length, int advice)
{
    given_back++;
    return (int)syscall(SYS_madvise, addr, length, advice);
}

int munmap(void *addr, size_t length)
{
    given_back++;
    return (int)syscall(SYS_munmap, addr, length);
}

/* Guards against a free() that takes milliseconds, in a step of the control thread. */
START_TEST(large_pieces_go_back_later)
{
    static void *piece[4];
    unsigned before;

    heap_configure();
    for (int i = 0; i < 4; i++) {
        piece[i] = malloc(PIECE << i);
        ck_assert_ptr_nonnull(piece[i]);
        memset(piece[i], 1, PIECE << i);
    }
    before = given_back;
    for (int i = 0; i < 4; i++)
        free(piece[i]);
    ck_assert_uint_eq(given_back, before);
}
END_TEST

/* --- threads --- */

#define THREADS 2000u

static extent_hooks_t *hooks_of(unsigned arena)
{
    char name[64];
    extent_hooks_t *hooks;
    size_t size = sizeof(hooks);

    snprintf(name, sizeof(name), "arena.%u.extent_hooks", arena);
    ck_assert_int_eq(mallctl(name, &hooks, &size, NULL, 0), 0);
    return hooks;
}

static void *free_it(void *arg)
{
    free(arg);
    return NULL;
}

/*
 * Guards against a lock of the allocator that such a thread takes twice: it sleeps for ever, and so
 * does each thread that needs the heap. _i: sizes that share pages, and that have pages of their
 * own.
 */
static const size_t sizes[] = {16, 4096, 20000, 200000, PIECE};
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

START_TEST(the_first_call_of_a_thread_is_free)
{
    heap_configure();
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *memory = malloc(sizes[_i]);

        ck_assert_ptr_nonnull(memory);
        ck_assert_int_eq(pthread_create(&thread, NULL, free_it, memory), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
}
END_TEST

/* Nor is anything of ours called with a lock of the allocator held. */
START_TEST(the_allocator_has_its_own_hooks)
{
    extent_hooks_t *hooks, *usual;
    size_t size = sizeof(unsigned);
    unsigned other;

    heap_configure();
    ck_assert_int_eq(mallctl("arenas.create", &other, &size, NULL, 0), 0);
    hooks = hooks_of(0);
    usual = hooks_of(other);
    ck_assert_ptr_eq(hooks, usual);
}
END_TEST

/* --- mappings --- */

#define HOLES     4000u
#define NO_MOUNTS 77

static ssize_t muzzy_decay(void)
{
    ssize_t ms = 0;
    size_t size = sizeof(ms);

    ck_assert_int_eq(mallctl("arena.0.muzzy_decay_ms", &ms, &size, NULL, 0), 0);
    return ms;
}

/* Of the kernel; the first two overcommit. */
static const char *const modes[] = {"0\n", "1\n", "2\n", "", NULL};
#define MODES            (int)(sizeof(modes) / sizeof(modes[0]))
#define MODES_OVERCOMMIT 2

/* What may make holes is left out, and only where the kernel may not overcommit. */
START_TEST(pages_are_only_marked_where_they_would_be_mapped_anew)
{
    overcommit_is = &modes[_i];
    heap_configure();
    ck_assert_int_eq(muzzy_decay(), _i < MODES_OVERCOMMIT ? 0 : -1);
}
END_TEST

static unsigned count_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned n = 0;
    int c;

    if (!f)
        return 0;
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* That are free, and not given back. */
static size_t dirty_pages(void)
{
    uint64_t epoch = 1;
    size_t n = 0, size = sizeof(n);

    mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
    mallctl("stats.arenas.0.pdirty", &n, &size, NULL, 0);
    return n;
}

/* Every second piece goes back, so that no two holes become one. 0: there are hardly more mappings
 * than before. */
static int make_holes(void)
{
    static void *piece[HOLES];
    ssize_t soon_ms = 1;
    unsigned before;

    heap_configure();
    mallctl("arena.0.dirty_decay_ms", NULL, NULL, &soon_ms, sizeof(soon_ms));
    for (unsigned i = 0; i < HOLES; i++) {
        piece[i] = malloc(64 << 10);
        if (!piece[i])
            return 2;
        memset(piece[i], 1, 64 << 10);
    }
    before = count_mappings();
    for (unsigned i = 0; i < HOLES; i += 2)
        free(piece[i]);
    while (dirty_pages() != 0)
        mallctl("arena.0.decay", NULL, NULL, NULL, 0);
    return before == 0 || count_mappings() > before + 100;
}

/*
 * Guards against holes that are mappings of their own, where jemalloc does not know that the kernel
 * overcommits memory: npud has only so many mappings.
 */
START_TEST(pages_go_back_without_new_mappings)
{
    static const char file[] = "/proc/sys/vm/overcommit_memory";
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        need_lacks(__func__, "root, for a mount");
        return;
    }
    pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("/dev/null", file, NULL, MS_BIND, NULL) < 0)
            _exit(NO_MOUNTS);
        execl("/proc/self/exe", "test_heap", "holes", NULL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (status == NO_MOUNTS << 8)
        need_lacks(__func__, "mounts of its own");
    else
        ck_assert_int_eq(status, 0);
}
END_TEST

/*
 * One arena, and a thread of jemalloc that gives pages back in place of those that free. As it was
 * told: the process of a test is forked, and has no such thread.
 */
START_TEST(a_thread_gives_pages_back)
{
    bool background = false;
    unsigned arenas = 0;
    ssize_t decay_ms = 0;
    size_t size = sizeof(background);

    heap_configure();
    ck_assert_int_eq(mallctl("opt.background_thread", &background, &size, NULL, 0), 0);
    ck_assert(background);
    size = sizeof(arenas);
    ck_assert_int_eq(mallctl("opt.narenas", &arenas, &size, NULL, 0), 0);
    ck_assert_uint_eq(arenas, 1);
    size = sizeof(decay_ms);
    ck_assert_int_eq(mallctl("arena.0.dirty_decay_ms", &decay_ms, &size, NULL, 0), 0);
    ck_assert_int_eq(decay_ms, 1000);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite;
    TCase *c;

    if (argc > 1 && strcmp(argv[1], "holes") == 0)
        return make_holes();
    suite = suite_create("heap");
    c = suite_case(suite, "settings", 60, NULL, NULL);
    tcase_add_test(c, large_pieces_go_back_later);
    tcase_add_test(c, the_allocator_has_its_own_hooks);
    tcase_add_loop_test(c, pages_are_only_marked_where_they_would_be_mapped_anew, 0, MODES);
    tcase_add_test(c, pages_go_back_without_new_mappings);
    tcase_add_test(c, a_thread_gives_pages_back);
    c = suite_case(suite, "threads", 60, NULL, NULL);
    tcase_add_loop_test(c, the_first_call_of_a_thread_is_free, 0, SIZES);
    return run_suite(suite);
}
