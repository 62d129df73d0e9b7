/*
 * daemon/memory/filled: pages of allocations that npud's engines are the first to touch. The client
 * is the test itself.
 */
#include "npud.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "acl/acl_base.h"
#include "daemon/base/filled.h"
#include "daemon/core/stream_abort.h"
#include "tests/common/need.h"
#include "memory_at.h"

#define SIZE  (UINT64_C(1) << 20)
#define MOST  (UINT64_C(256) << 10) /* that npud fills for a user */
#define SLICE (UINT64_C(64) << 10)  /* what an engine touches at once, and more */
#define PAGE  UINT64_C(4096)

static struct session *session;
static struct stream *stream;

/* False: the kernel does not let npud count. */
static bool start_with(const char *test, const char *const *settings)
{
    struct mem *m;

    npud_start(settings);
    session = npud_session_of(1000, 1);
    stream = npud_stream(session, 0);
    ck_assert_int_eq(allocation_new(session, devices_get(server.devices, 0), MEM_DEVICE, PAGE, &m),
                     0);
    backend_sim.word_write(allocation_place(m, 0, PAGE), 1);
    if (filled_take() == PAGE) {
        allocation_free(m);
        return true;
    }
    session_free(session);
    npud_stop();
    return need_lacks(test, "userfaultfd(2)");
}

static bool start(const char *test)
{
    static const char *const settings[] = {"limits.filled_memory=256K", NULL};

    return start_with(test, settings);
}

static struct mem *allocate(struct session *who, uint64_t size)
{
    struct mem *m;

    ck_assert_int_eq(allocation_new(who, devices_get(server.devices, 0), MEM_DEVICE, size, &m), 0);
    return m;
}

/* As the client has it. */
static char *map_client(struct mem *m)
{
    return memory_at(m, 0);
}

static struct task set_task(struct mem *m, uint8_t value)
{
    return (struct task){.op = TASK_SET,
                         .object = m->slot.number,
                         .generation = slot_generation(m),
                         .set = {.size = m->pages->size, .value = value}};
}

/* The error of the task. */
static int32_t run(struct stream *s, struct task task)
{
    client_wait(s, client_submit(s, task));
    return stream_error_code(atomic_exchange(&s->ctrl->error, 0));
}

static uint64_t filled_of(const struct session *who)
{
    return user_used(who->user, RESOURCE_FILLED_MEMORY);
}

START_TEST(pages_of_the_client_are_not_counted)
{
    struct mem *m;
    char *map;

    if (!start(__func__))
        return;
    m = allocate(session, 4 * SIZE);
    map = map_client(m);
    memset(map, 1, m->pages->size);
    ck_assert_int_eq(run(stream, set_task(m, 2)), 0);
    ck_assert_uint_eq(filled_of(session), 0);
    ck_assert_int_eq(map[m->pages->size - 1], 2);
    munmap(map, m->pages->size);
    session_free(session);
    npud_stop();
}
END_TEST

START_TEST(what_npud_fills_is_bounded)
{
    struct session *neighbour;
    struct stream *other;
    struct mem *m, *small, *good;
    char *map;

    if (!start(__func__))
        return;
    neighbour = npud_session_of(2000, 2);
    other = npud_stream(neighbour, 0);
    good = allocate(session, SIZE);
    map = map_client(good);
    memset(map, 1, SIZE);
    m = allocate(session, SIZE);
    ck_assert_int_eq(run(stream, set_task(m, 7)), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_uint_gt(filled_of(session), MOST);
    ck_assert_uint_le(filled_of(session), MOST + SLICE);
    /* Not even a page of another one; but what the client has filled serves. */
    small = allocate(session, 2 * SLICE);
    ck_assert_int_eq(run(stream, set_task(small, 7)), ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_uint_le(filled_of(session), MOST + 2 * SLICE);
    ck_assert_int_eq(run(stream, set_task(good, 7)), 0);
    ck_assert_int_eq(map[SIZE - 1], 7);
    /* Another user has its own. */
    ck_assert_int_eq(run(other, set_task(allocate(neighbour, MOST), 7)), 0);
    ck_assert_uint_eq(filled_of(neighbour), MOST);
    /* Freed, it counts no more. */
    allocation_free(m);
    allocation_free(small);
    ck_assert_uint_eq(filled_of(session), 0);
    small = allocate(session, MOST);
    ck_assert_int_eq(run(stream, set_task(small, 7)), 0);
    munmap(map, SIZE);
    session_free(neighbour);
    session_free(session);
    npud_stop();
}
END_TEST

/* As where npud cannot have the kernel refuse them. */
static void allow_holes(int fd)
{
    int flags = 0;

    ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

/* As often as the client takes the pages away, npud fills them anew. */
START_TEST(holes_count_each_time)
{
    struct mem *m;
    unsigned n = 0;
    char *map;

    if (!start(__func__))
        return;
    m = allocate(session, SLICE);
    map = map_client(m);
    allow_holes(m->pages->fd);
    do {
        memset(map, 1, SLICE);
        ck_assert_int_eq(
            fallocate(m->pages->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)SLICE),
            0);
        n++;
    } while (run(stream, set_task(m, (uint8_t)n)) == 0 && n < 100);
    ck_assert_uint_ge(n, MOST / SLICE);
    ck_assert_uint_le(n, MOST / SLICE + 2);
    munmap(map, SLICE);
    session_free(session);
    npud_stop();
}
END_TEST

/* Words that a stream waits for, and the source of a copy. */
START_TEST(what_is_read_counts_too)
{
    struct task wait = {.op = TASK_VALUE_WAIT, .flags = 0};
    struct mem *to, *from;
    struct task copy = {.op = TASK_COPY};
    char *map;

    if (!start(__func__))
        return;
    to = allocate(session, SLICE);
    from = allocate(session, SLICE);
    wait.object = from->slot.number;
    wait.generation = slot_generation(from);
    wait.value.offset = 2 * PAGE;
    ck_assert_int_eq(run(stream, wait), 0); /* 0 is at least 0 */
    ck_assert_uint_eq(filled_of(session), PAGE);
    map = map_client(to);
    memset(map, 1, SLICE);
    copy.object = to->slot.number;
    copy.generation = slot_generation(to);
    copy.copy.src = from->slot.number;
    copy.copy.src_generation = slot_generation(from);
    copy.copy.size = SLICE;
    ck_assert_int_eq(run(stream, copy), 0);
    ck_assert_uint_eq(filled_of(session), SLICE);
    for (uint64_t i = 0; i < SLICE; i++)
        CHECK(map[i] == 0);
    munmap(map, SLICE);
    session_free(session);
    npud_stop();
}
END_TEST

/* --- copiers --- */

#define COPIED  (UINT64_C(4) << 20)
#define STREAMS 4

static struct stream *streams[STREAMS];
static struct mem *mems[STREAMS];

/* As many sets at the same time, of memory that has no pages. */
static void submit_sets(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        if (!streams[i])
            streams[i] = npud_stream(session, 0);
        mems[i] = allocate(session, COPIED);
        client_submit(streams[i], set_task(mems[i], 7));
    }
}

static void free_sets(void)
{
    for (unsigned i = 0; i < STREAMS; i++)
        allocation_free(mems[i]);
    ck_assert_uint_eq(filled_of(session), 0);
}

static uint64_t bytes_there(void)
{
    uint64_t sum = 0;
    struct stat st;

    for (unsigned i = 0; i < STREAMS; i++) {
        ck_assert_int_eq(fstat(mems[i]->pages->fd, &st), 0);
        sum += (uint64_t)st.st_blocks * 512;
    }
    return sum;
}

/* So much is not lent, and the engine has other things to do than the sets. */
static void keep_busy(struct mem *m, uint64_t *end)
{
    struct task task = set_task(m, 1);

    for (unsigned i = 0; i < 100; i++)
        *end = client_submit(stream, task);
}

/* Each stream has one slice that is not charged yet, and one that was under way. */
START_TEST(copiers_fill_no_more)
{
    static const char *const settings[] = {"limits.filled_memory=256K", "sim.copiers=3", NULL};
    uint64_t end;
    struct mem *m;
    char *map;

    if (!start_with(__func__, settings))
        return;
    m = allocate(session, WORK_LENT - PAGE);
    map = map_client(m);
    memset(map, 1, m->pages->size);
    for (unsigned n = 0; n < 20; n++) {
        keep_busy(m, &end);
        submit_sets();
        for (unsigned i = 0; i < STREAMS; i++) {
            client_wait(streams[i], atomic_load(&streams[i]->ctrl->tail) - 1);
            ck_assert_int_eq(stream_error_code(atomic_exchange(&streams[i]->ctrl->error, 0)),
                             ACL_ERROR_RT_MEMORY_ALLOCATION);
        }
        ck_assert_uint_le(filled_of(session), MOST + STREAMS * 2 * SLICE);
        ck_assert_uint_eq(filled_of(session), bytes_there());
        free_sets();
        client_wait(stream, end);
    }
    munmap(map, m->pages->size);
    session_free(session);
    npud_stop();
}
END_TEST

START_TEST(what_is_taken_from_a_copier_is_counted)
{
    static const char *const settings[] = {"limits.filled_memory=1G", "sim.copiers=3", NULL};
    uint64_t chance = 3;

    if (!start_with(__func__, settings))
        return;
    for (unsigned n = 0; n < 100; n++) {
        submit_sets();
        burn_time(&chance, 1000000);
        for (unsigned i = 0; i < STREAMS; i++)
            stream_abort(streams[i], 0, 0);
        ck_assert_uint_eq(filled_of(session), bytes_there());
        free_sets();
    }
    session_free(session);
    npud_stop();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("filled");
    TCase *t = suite_case(s, "pages", 30, NULL, NULL);

    tcase_add_test(t, pages_of_the_client_are_not_counted);
    tcase_add_test(t, what_npud_fills_is_bounded);
    tcase_add_test(t, holes_count_each_time);
    tcase_add_test(t, what_is_read_counts_too);
    tcase_add_test(t, copiers_fill_no_more);
    tcase_add_test(t, what_is_taken_from_a_copier_is_counted);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
