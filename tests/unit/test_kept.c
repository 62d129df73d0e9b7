/*
 * Kept memory: what is committed is there for the next npud, and nothing else is.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart.h"

static struct object {
    struct kept kept;
    uint64_t value[4];
} object[64];

static size_t write_object(const struct kept *kept, void *record)
{
    const struct object *o = (const struct object *)kept;

    memcpy(record, o->value, sizeof(o->value));
    return sizeof(o->value);
}

static unsigned n_read;
static uint64_t sum_read;

static bool read_object(void *arg, struct kept_cell *cell)
{
    uint64_t value[4];

    (void)arg;
    ck_assert_uint_ge(kept_read(cell, value, sizeof(value)), sizeof(value));
    n_read++;
    sum_read += value[0];
    return true;
}

static void reopen_and_read(void)
{
    int tables;

    kept_end();
    ck_assert_int_ge(kept_fds_fetch(), 1);
    tables = kept_fd_take(KEEPER_KEY_TABLES);
    ck_assert_int_eq(kept_begin_from(tables), 0);
    n_read = 0;
    sum_read = 0;
    ck_assert_int_eq(kept_scan(), 0);
    ck_assert(kept_each(KEPT_GRANT, read_object, NULL));
    kept_scan_end();
}

START_TEST(committed_records_are_there)
{
    ck_assert_int_eq(kept_begin(), 0);
    for (unsigned i = 0; i < 64; i++) {
        object[i].value[0] = i + 1;
        ck_assert(kept_make(&object[i].kept, KEPT_GRANT, 64 << i % 8, write_object));
    }
    kept_commit();
    for (unsigned i = 0; i < 64; i += 2)
        kept_drop(&object[i].kept);
    kept_commit();
    object[1].value[0] = 1000; /* touched, not committed */
    kept_touch(&object[1].kept);
    ck_assert(kept_make(&object[0].kept, KEPT_GRANT, 64, write_object));
    reopen_and_read();
    ck_assert_uint_eq(n_read, 32);
    ck_assert_uint_eq(sum_read, 32 * 33);
}
END_TEST

START_TEST(large_records)
{
    ck_assert_int_eq(kept_begin(), 0);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 8; i++) {
            object[i].value[0] = 1;
            ck_assert(kept_make(&object[i].kept, KEPT_GRANT, 100000 * (i + 1), write_object));
        }
        kept_commit();
        for (unsigned i = 0; i < 8 && round < 2; i++)
            kept_drop(&object[i].kept);
        kept_commit();
    }
    reopen_and_read();
    ck_assert_uint_eq(n_read, 8);
}
END_TEST

/* npud has closed it, and the next one has it all the same, until a step says otherwise. */
START_TEST(a_descriptor_outlives_its_number)
{
    uint64_t key;
    int fd;

    ck_assert_int_eq(kept_begin(), 0);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    key = kept_fd(fd);
    ck_assert_uint_ne(key, 0);
    ck_assert_uint_eq(kept_fd_part(fd), key);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    ck_assert_uint_eq(kept_key(fd), 0);
    kept_commit();
    reopen_and_read();
    fd = kept_fd_take(key);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_eq(kept_fd_part(fd), key);
    kept_key_leave(key);
    ck_assert_uint_eq(restart_fds(), 1);
    kept_commit();
    ck_assert_uint_eq(restart_fds(), 0);
}
END_TEST

/* In place of reallocarray(): mk/test.mk. */
static bool no_memory;

void *__real_reallocarray(void *items, size_t n, size_t size);
void *__wrap_reallocarray(void *items, size_t n, size_t size);
void *__wrap_reallocarray(void *items, size_t n, size_t size)
{
    return no_memory ? NULL : __real_reallocarray(items, n, size);
}

/* A record that names no key would be the end of all sessions with the next npud. */
START_TEST(a_descriptor_is_kept_also_without_memory)
{
    uint64_t key, moved;
    int fd;

    ck_assert_int_eq(kept_begin(), 0);
    no_memory = true;
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 700);
    ck_assert_int_ge(fd, 700);
    key = kept_fd(fd);
    ck_assert_uint_ne(key, 0);
    moved = kept_fd(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 900);
    kept_fd_moved(kept_fd_of(moved), fd);
    no_memory = false;
    kept_commit();
    ck_assert_uint_eq(kept_key(fd), moved);
    ck_assert_uint_eq(restart_fds(), 2);
    reopen_and_read();
    ck_assert_int_ge(kept_fd_take(key), 0);
    ck_assert_int_ge(kept_fd_take(moved), 0);
}
END_TEST

/* Else a keeper that follows would have them, and not those that came in their place. */
START_TEST(tables_that_cannot_be_read_are_not_known_any_more)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_setup(LOG_CRIT);
    ck_assert_int_eq(kept_begin(), 0);
    kept_end();
    ck_assert_int_ge(kept_fds_fetch(), 1);
    kept_fds_know(KEEPER_KEY_TABLES, fd);
    ck_assert_int_eq(kept_begin_from(fd), -EINVAL);
    ck_assert_int_eq(kept_fd_of(KEEPER_KEY_TABLES), -1);
    kept_fds_forget_rest();
}
END_TEST

START_TEST(words_change_at_once)
{
    struct kept_words words;
    _Atomic uint64_t *live;

    ck_assert_int_eq(kept_begin(), 0);
    ck_assert(kept_make(&object[0].kept, KEPT_GRANT, 128, write_object));
    kept_commit();
    live = (_Atomic uint64_t *)kept_record(&object[0].kept) + 8;
    kept_words_begin(&words, 3);
    kept_words_set(&words, &live[0], 11);
    kept_words_set(&words, &live[1], 12);
    ck_assert_uint_eq(live[0], 0);
    kept_words_commit(&words);
    ck_assert_uint_eq(live[0], 11);
    ck_assert_uint_eq(live[1], 12);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("kept");
    TCase *t = suite_case(s, "tables", 0, NULL, kept_end);

    tcase_add_test(t, committed_records_are_there);
    tcase_add_test(t, large_records);
    tcase_add_test(t, a_descriptor_outlives_its_number);
    tcase_add_test(t, a_descriptor_is_kept_also_without_memory);
    tcase_add_test(t, tables_that_cannot_be_read_are_not_known_any_more);
    tcase_add_test(t, words_change_at_once);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
