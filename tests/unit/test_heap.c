/*
 * daemon/base/heap: the settings of npud's heap, in a program that has the allocator of npud. That
 * its pages go back a little later is shown in tests/e2e/test_peaks.c.
 *
 * Skipped under ASan and TSan: they have allocators of their own.
 */
#include "daemon/base/heap.h"

#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#define PIECE (UINT64_C(8) << 20) /* what is that large in one piece is special to jemalloc */

/*
 * Calls by which this thread gives pages back; volatile: the compiler takes it that free() calls
 * nothing in this file.
 */
static _Thread_local volatile unsigned given_back;

/* In place of those of libc, also for jemalloc. */
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

static extent_hooks_t *hooks_of(unsigned arena)
{
    char name[64];
    extent_hooks_t *hooks;
    size_t size = sizeof(hooks);

    snprintf(name, sizeof(name), "arena.%u.extent_hooks", arena);
    ck_assert_int_eq(mallctl(name, &hooks, &size, NULL, 0), 0);
    return hooks;
}

/*
 * Guards against holes that are mappings of their own, where jemalloc does not know that the kernel
 * overcommits memory: npud has only so many mappings.
 */
START_TEST(pages_go_back_without_new_mappings)
{
    extent_hooks_t *hooks, *usual;
    size_t size = sizeof(unsigned);
    unsigned other;

    heap_configure();
    ck_assert_int_eq(mallctl("arenas.create", &other, &size, NULL, 0), 0);
    hooks = hooks_of(0);
    usual = hooks_of(other);
    ck_assert_ptr_nonnull(hooks->decommit);
    ck_assert(hooks->decommit != usual->decommit);
    ck_assert(hooks->decommit(hooks, NULL, PIECE, 0, PIECE, 0)); /* refused; nothing was done */
    ck_assert(hooks->alloc == usual->alloc && hooks->purge_forced == usual->purge_forced &&
              hooks->purge_lazy == usual->purge_lazy && hooks->commit == usual->commit);
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

int main(void)
{
    Suite *suite = suite_create("heap");
    TCase *c = suite_case(suite, "settings", 60, NULL, NULL);

    tcase_add_test(c, large_pieces_go_back_later);
    tcase_add_test(c, pages_go_back_without_new_mappings);
    tcase_add_test(c, a_thread_gives_pages_back);
    return run_suite(suite);
}
