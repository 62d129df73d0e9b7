/*
 * The part of libcheck that tests of proto/ use: Debian 12 has no library for riscv64 but the C
 * library. As there, each test runs in a child of its own, which leads a process group; what is
 * left of the group ends with it. Numbers of failures and the closing line are libcheck's.
 */
#pragma once

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MAX 64
#define CASES_MAX 16
#define LIMIT_S   120 /* of one test, against hanging: an emulator is slow */
#define CK_ENV    0

typedef struct TTest {
    const char *name;
    void (*fn)(int);
} TTest;

typedef struct TCase {
    const char *name;
    void (*before)(void), (*after)(void);
    unsigned limit, n;
    struct {
        const TTest *test;
        int begin, end;
    } tests[TESTS_MAX];
} TCase;

typedef struct Suite {
    const char *name;
    TCase *cases[CASES_MAX];
    unsigned n;
    int run, failed;
} Suite, SRunner;

#define START_TEST(name_)                                                                          \
    static void name_##_fn(int _i);                                                                \
    static const TTest name_##_ttest = {#name_, name_##_fn};                                       \
    static const TTest *const name_ = &name_##_ttest;                                              \
    static void name_##_fn(int _i __attribute__((unused)))
#define END_TEST

/* --- assertions --- */

#define ck_abort_msg(...)                                                                          \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__),                 \
     fputc('\n', stderr), fflush(NULL), _exit(1))
#define ck_assert_msg(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))
#define ck_assert(condition)          ck_assert_msg(condition, "'%s' failed", #condition)

#define CK_COMPARE(type, format, a, op, b)                                                         \
    do {                                                                                           \
        type a_ = (a);                                                                             \
        type b_ = (b);                                                                             \
                                                                                                   \
        ck_assert_msg(a_ op b_, "'%s' failed: %" format ", %" format, #a " " #op " " #b, a_, b_);  \
    } while (0)
#define ck_assert_int_eq(a, b)    CK_COMPARE(intmax_t, PRIdMAX, a, ==, b)
#define ck_assert_int_gt(a, b)    CK_COMPARE(intmax_t, PRIdMAX, a, >, b)
#define ck_assert_int_ge(a, b)    CK_COMPARE(intmax_t, PRIdMAX, a, >=, b)
#define ck_assert_uint_eq(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, ==, b)
#define ck_assert_uint_ne(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, !=, b)
#define ck_assert_uint_lt(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, <, b)
#define ck_assert_uint_le(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, <=, b)
#define ck_assert_uint_gt(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, >, b)
#define ck_assert_uint_ge(a, b)   CK_COMPARE(uintmax_t, PRIuMAX, a, >=, b)
#define ck_assert_ptr_eq(a, b)    CK_COMPARE(const void *, "p", a, ==, b)
#define ck_assert_ptr_ne(a, b)    CK_COMPARE(const void *, "p", a, !=, b)
#define ck_assert_ptr_null(a)     ck_assert_ptr_eq(a, NULL)
#define ck_assert_ptr_nonnull(a)  ck_assert_ptr_ne(a, NULL)
#define ck_assert_mem_eq(a, b, n) ck_assert(memcmp(a, b, n) == 0)

/* --- suites --- */

static inline void *check_alloc(size_t size)
{
    void *p = calloc(1, size);

    if (!p)
        abort();
    return p;
}

static inline Suite *suite_create(const char *name)
{
    Suite *suite = check_alloc(sizeof(*suite));

    suite->name = name;
    return suite;
}

static inline TCase *tcase_create(const char *name)
{
    TCase *t = check_alloc(sizeof(*t));

    t->name = name;
    t->limit = LIMIT_S;
    return t;
}

/* The limit is for a processor: an emulator gets the one above if that is longer. */
static inline void tcase_set_timeout(TCase *t, double seconds)
{
    t->limit = seconds > LIMIT_S ? (unsigned)seconds : LIMIT_S;
}

static inline void tcase_add_checked_fixture(TCase *t, void (*before)(void), void (*after)(void))
{
    t->before = before;
    t->after = after;
}

static inline void suite_add_tcase(Suite *suite, TCase *t)
{
    if (suite->n == CASES_MAX)
        abort();
    suite->cases[suite->n++] = t;
}

static inline void tcase_add_loop_test(TCase *t, const TTest *test, int begin, int end)
{
    if (t->n == TESTS_MAX)
        abort();
    t->tests[t->n].test = test;
    t->tests[t->n].begin = begin;
    t->tests[t->n++].end = end;
}

static inline void tcase_add_test(TCase *t, const TTest *test)
{
    tcase_add_loop_test(t, test, 0, 1);
}

static inline SRunner *srunner_create(Suite *suite)
{
    return suite;
}

/* In the child. */
static inline void check_run_here(const TCase *t, const TTest *test, int i)
{
    setpgid(0, 0);
    alarm(t->limit);
    if (t->before)
        t->before();
    test->fn(i);
    if (t->after)
        t->after();
    fflush(NULL);
    _exit(0);
}

static inline void check_run(Suite *suite, const TCase *t, const TTest *test, int i)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        check_run_here(t, test, i);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        abort();
    kill(-pid, SIGKILL);
    suite->run++;
    if (status == 0)
        return;
    suite->failed++;
    printf("%s:%s:%s:%d: %s %d\n", suite->name, t->name, test->name, i,
           WIFSIGNALED(status) ? "signal" : "status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* CK_RUN_CASE chooses one case, as with libcheck. */
static inline void srunner_run_all(SRunner *suite, int unused)
{
    const char *chosen = getenv("CK_RUN_CASE");

    (void)unused;
    for (unsigned c = 0; c < suite->n; c++) {
        const TCase *t = suite->cases[c];

        for (unsigned k = 0; k < t->n && (!chosen || strcmp(chosen, t->name) == 0); k++)
            for (int i = t->tests[k].begin; i < t->tests[k].end; i++)
                check_run(suite, t, t->tests[k].test, i);
    }
    printf("%d%%: Checks: %d, Failures: %d, Errors: 0\n",
           suite->run ? 100 * (suite->run - suite->failed) / suite->run : 0, suite->run,
           suite->failed);
}

static inline int srunner_ntests_failed(const SRunner *suite)
{
    return suite->failed;
}

static inline void srunner_free(SRunner *suite)
{
    for (unsigned c = 0; c < suite->n; c++)
        free(suite->cases[c]);
    free(suite);
}
