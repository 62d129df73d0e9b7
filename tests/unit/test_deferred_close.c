/* daemon/base/deferred_close: memory is given back in pieces, all of it, and users take turns. */
#include "daemon/base/deferred_close.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/memfd.h"
#include "unit.h"

#define SLICE_MAX ((size_t)2 << 20)

static _Atomic size_t unmapped, largest;
static _Atomic bool held; /* the thread goes no further */

/* Where the pieces of a file lie, and how many of them had gone before the last of these. */
struct pieces {
    char *map;
    size_t bytes;
    _Atomic size_t left;
    _Atomic size_t end; /* `unmapped` when the last one had gone */
};

static struct pieces big, small;

static void note_piece(struct pieces *p, const char *addr, size_t length)
{
    if (addr >= p->map && addr < p->map + p->bytes && atomic_fetch_sub(&p->left, length) == length)
        atomic_store(&p->end, atomic_load(&unmapped));
}

int munmap(void *addr, size_t length)
{
    AWAIT(!atomic_load(&held));
    atomic_fetch_add(&unmapped, length);
    if (length > atomic_load(&largest))
        atomic_store(&largest, length);
    note_piece(&big, addr, length);
    note_piece(&small, addr, length);
    return (int)syscall(SYS_munmap, addr, length);
}

static int make_file(size_t bytes, void **map)
{
    int fd;

    ck_assert_int_eq(memfd_map_new("test", bytes, &fd, map), 0);
    memset(*map, 1, bytes);
    return fd;
}

static void free_some(size_t bytes)
{
    unsigned fds = count_fds();
    void *map;
    int fd = make_file(bytes, &map);

    atomic_store(&unmapped, 0);
    atomic_store(&largest, 0);
    ck_assert_int_eq(deferred_close_start(), 0);
    deferred_close_free_memory(NULL, fd, map, bytes, bytes);
    deferred_close_stop();
    ck_assert_uint_ge(atomic_load(&unmapped), bytes);
    ck_assert_int_eq(mincore(map, bytes, (unsigned char[1 << 13]){0}), -1);
    ck_assert_uint_eq(count_fds(), fds);
}

START_TEST(memory_goes_in_slices)
{
    static const size_t sizes[] = {4096, (size_t)1 << 20, DEFERRED_CLOSE_MUCH + 4096,
                                   5 * SLICE_MAX};

    free_some(sizes[_i]);
    ck_assert_uint_le(atomic_load(&largest), SLICE_MAX);
}
END_TEST

static void free_for(const char *user, struct pieces *p, size_t bytes)
{
    void *map;
    int fd = make_file(bytes, &map);

    p->map = map;
    p->bytes = bytes;
    atomic_store(&p->left, bytes);
    deferred_close_free_memory(user, fd, map, bytes, bytes);
}

/* The second user has much less, and is not kept waiting for all that the first one has. */
START_TEST(users_take_turns)
{
    static const char users[2];

    ck_assert_int_eq(deferred_close_start(), 0);
    atomic_store(&held, true);
    free_for(&users[0], &big, 16 * SLICE_MAX);
    free_for(&users[1], &small, 2 * SLICE_MAX);
    atomic_store(&held, false);
    deferred_close_stop();
    ck_assert_uint_eq(atomic_load(&small.left), 0);
    ck_assert_uint_eq(atomic_load(&big.left), 0);
    ck_assert_uint_le(atomic_load(&small.end), 6 * SLICE_MAX);
}
END_TEST

/* Nothing of it is mapped, and it is large: the close alone frees it, and not in the caller. */
START_TEST(what_is_not_mapped_is_closed_too)
{
    unsigned fds = count_fds();
    int fd = memfd_new("test", SLICE_MAX);

    ck_assert_int_eq(deferred_close_start(), 0);
    deferred_close_free_memory(NULL, fd, NULL, SLICE_MAX, SLICE_MAX);
    deferred_close_stop();
    ck_assert_uint_eq(count_fds(), fds);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deferred_close");
    TCase *t = suite_case(suite, "free", 0, NULL, NULL);

    tcase_add_loop_test(t, memory_goes_in_slices, 0, 4);
    tcase_add_test(t, users_take_turns);
    tcase_add_test(t, what_is_not_mapped_is_closed_too);
    return run_suite(suite);
}
