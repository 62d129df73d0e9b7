/*
 * What a checked process writes (client/check): nothing is lost by threads, a forked child has a
 * file of its own, descriptors of the program do not matter, a file that cannot grow says so and
 * the program goes on. What npu-check makes of the files is for tests/check.
 *
 * Skipped under TSan and chaos: it knows no threads of a child that was forked; and a call that is
 * made again writes its records again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/checked.h"
#include "tests/common/harness.h"

#define THREADS 8
#define TASKS   2000 /* of each: more than a chunk */

/* --- what is in the files --- */

struct counts {
    uint64_t kinds[CHECK_KINDS];
    uint64_t sets[THREADS]; /* fills of 1, 2, 3, ... bytes of a thread's own byte value */
    int32_t pids[4];
    size_t n_pids;
};

static void count_record(void *context, const struct checked_file *file, uint32_t thread,
                         const struct check_record *r)
{
    const struct check_task *t = (const struct check_task *)r;
    struct counts *c = context;

    (void)thread;
    c->kinds[r->kind]++;
    if (c->n_pids == 0 || c->pids[c->n_pids - 1] != file->pid) {
        ck_assert_uint_lt(c->n_pids, 4);
        c->pids[c->n_pids++] = file->pid;
    }
    if (r->kind != CHECK_TASK || t->task.op != TASK_SET)
        return;
    ck_assert_uint_lt(t->task.set.value, THREADS);
    ck_assert_uint_eq(t->task.set.size, c->sets[t->task.set.value] + 1);
    c->sets[t->task.set.value]++;
}

/* --- programs; each runs in a process of its own, begun before the test has a session --- */

static aclrtContext context;
static void *memory;

static void *fill_memory(void *arg)
{
    int value = (int)(intptr_t)arg;
    aclrtStream s;

    OK(aclrtSetCurrentContext(context));
    OK(aclrtCreateStream(&s));
    for (size_t i = 1; i <= TASKS; i++)
        OK(aclrtMemsetAsync(memory, TASKS, value, i, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyStream(s));
    return NULL;
}

static void begin_program(void)
{
    session_open();
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtMalloc(&memory, TASKS, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void end_program(void)
{
    OK(aclrtFree(memory));
    session_close();
}

static void run_threads(void)
{
    pthread_t threads[THREADS];

    begin_program();
    for (intptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fill_memory, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    end_program();
}

static void *fill_once(void *arg)
{
    (void)arg;
    OK(aclrtSetCurrentContext(context));
    OK(aclrtMemset(memory, TASKS, 1, TASKS));
    return NULL;
}

/* One after the other: they go on in the same chunk. */
static void run_short_threads(void)
{
    begin_program();
    for (int i = 0; i < 500; i++)
        thread_call(fill_once, NULL);
    end_program();
}

/* What the open descriptors are of, one behind the other. */
static void list_descriptors(char *list, size_t size)
{
    char name[32], target[256];
    ssize_t n;

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        n = readlink(name, target, sizeof(target) - 1);
        if (n < 0)
            continue;
        target[n] = '\0';
        strncat(list, target, size - strlen(list) - 1);
    }
}

static void run_fork(void)
{
    int status;
    pid_t pid;

    begin_program();
    fill_memory((void *)0);
    pid = fork();
    if (pid == 0) {
        begin_program();
        fill_memory((void *)1);
        end_program();
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    end_program();
}

/* The numbers of all descriptors that are free are the program's: it has them all. */
static void run_few_descriptors(void)
{
    char before[1024] = "", after[1024] = "";

    begin_program();
    OK(aclrtMemset(memory, TASKS, 1, TASKS)); /* the file is there, and its first chunk */
    list_descriptors(before, sizeof(before));
    for (int i = 0; i < 1000; i++)
        OK(aclrtMemset(memory, TASKS, 1, TASKS));
    fill_memory((void *)0);
    list_descriptors(after, sizeof(after));
    ck_assert_str_eq(before, after);
    ck_assert_ptr_null(strstr(after, "npud-checked"));
    end_program();
}

static void run_small_file(void)
{
    const struct rlimit limit = {CHECK_CHUNK * 3, CHECK_CHUNK * 3};

    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    begin_program();
    fill_memory((void *)0);
    end_program();
}

static void run_exit_at_once(void)
{
    begin_program();
    _exit(0);
}

/* Its status, and what it has written. */
static struct counts run_program(void (*program)(void), struct checked_file *last, size_t files)
{
    struct counts c = {0};
    int status;
    pid_t pid;

    checked_make_directory();
    pid = fork();
    if (pid == 0) {
        program();
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(checked_read(count_record, &c, last), files);
    checked_remove_directory();
    return c;
}

/* --- tests --- */

START_TEST(threads_lose_nothing)
{
    struct checked_file file;
    struct counts c = run_program(run_threads, &file, 1);

    for (int i = 0; i < THREADS; i++)
        ck_assert_uint_eq(c.sets[i], TASKS);
    ck_assert_uint_eq(c.kinds[CHECK_STREAM_GONE], c.kinds[CHECK_STREAM]);
    ck_assert_uint_eq(c.kinds[CHECK_SYNC_STREAM], THREADS);
    ck_assert_uint_eq(c.kinds[CHECK_MEMORY], 1);
    ck_assert_uint_eq(c.kinds[CHECK_MEMORY_GONE], 1);
    ck_assert(file.ended && !file.failed);
}
END_TEST

START_TEST(short_threads_share_chunks)
{
    struct checked_file file;
    struct counts c = run_program(run_short_threads, &file, 1);

    ck_assert_uint_eq(c.kinds[CHECK_ACCESS], 500);
    ck_assert_uint_ge(c.kinds[CHECK_THREAD], 498);
    ck_assert_uint_le(file.chunks, 4);
}
END_TEST

START_TEST(child_has_own_file)
{
    struct counts c = run_program(run_fork, NULL, 2);

    ck_assert_uint_eq(c.sets[0], TASKS);
    ck_assert_uint_eq(c.sets[1], TASKS);
    ck_assert_uint_eq(c.n_pids, 2);
    ck_assert_int_ne(c.pids[0], c.pids[1]);
}
END_TEST

START_TEST(no_descriptor_is_kept)
{
    struct counts c = run_program(run_few_descriptors, NULL, 1);

    ck_assert_uint_eq(c.sets[0], TASKS);
}
END_TEST

/* A store beyond the limit would be a SIGXFSZ. */
START_TEST(full_file_is_said)
{
    struct checked_file file;
    struct counts c = run_program(run_small_file, &file, 1);

    ck_assert(file.failed);
    ck_assert_uint_eq(file.chunks, 2);
    ck_assert_uint_gt(c.sets[0], 0);
    ck_assert_uint_lt(c.sets[0], TASKS);
}
END_TEST

START_TEST(end_without_exit_is_seen)
{
    struct checked_file file;

    run_program(run_exit_at_once, &file, 1);
    ck_assert(!file.ended);
}
END_TEST

/* --- who is checked --- */

static const char *service_directory;

static void run_service(void)
{
    unsetenv("NPUD_CHECK");
    begin_program();
    end_program();
}

/* npud says it to sessions that begin, and to none any more. */
START_TEST(service_is_checked)
{
    char command[256];
    size_t files;

    service_directory = checked_make_directory();
    for (int checks = 1; checks >= 0; checks--) {
        pid_t pid;
        int status;

        snprintf(command, sizeof(command), "check %s%s", checks ? "start " : "stop",
                 checks ? service_directory : "");
        npuctl_says(command, 0, checks ? "only some users may write there" : "");
        pid = fork();
        if (pid == 0) {
            run_service();
            exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        files = checked_read(NULL, NULL, NULL);
        ck_assert_uint_eq(files, 1);
    }
    npuctl_says("check start", 2, "check start wants a directory");
    npuctl_says("check begin", 2, "check wants start DIRECTORY, stop, or report DIRECTORY");
    checked_remove_directory();
}
END_TEST

/* Nobody who asks for a check is left without one in silence. */
START_TEST(no_file_is_an_error)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        setenv("NPUD_CHECK", "/nowhere", 1);
        if (aclInit(NULL) != 0 || aclrtSetDevice(0) != ACL_ERROR_INVALID_FILE)
            _exit(1);
        _exit(strstr(aclGetRecentErrMsg(), "/nowhere/") ? 0 : 2);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checked");
    TCase *tc = suite_case(suite, "checked", 120, npud_setup, npud_teardown);

    tcase_add_test(tc, threads_lose_nothing);
    tcase_add_test(tc, short_threads_share_chunks);
    tcase_add_test(tc, child_has_own_file);
    tcase_add_test(tc, no_descriptor_is_kept);
    tcase_add_test(tc, full_file_is_said);
    tcase_add_test(tc, end_without_exit_is_seen);
    tcase_add_test(tc, service_is_checked);
    tcase_add_test(tc, no_file_is_an_error);
    return run_suite(suite);
}
