/*
 * A checked process dies at each step of writing its file (client/check/check_writer.c): between
 * the taking of a chunk and its first mark, between a record and its first word, and behind it. The
 * rest is read: each task whose call has returned is there, once and in order, and the one that the
 * process was at may be.
 *
 * The victim fills memory with 1 byte, then 2, and so on; so a task says which one it is.
 * Skipped under TSan: as tests/kill/test_kill.c.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/checked.h"
#include "tests/common/harness.h"
#include "tests/kill/kill_switch.h"

#define TASKS 1600 /* more than two chunks */

static struct shared {
    struct kill_switch kill;
    _Atomic uint32_t done; /* calls that have returned */
} * shared;

struct victim_case {
    enum kill_point point;
    uint32_t pass;
};

static const struct victim_case cases[] = {
    {KILL_CHECK_CHUNK_TAKEN, 1}, {KILL_CHECK_CHUNK_TAKEN, 2},  {KILL_CHECK_WRITTEN, 1},
    {KILL_CHECK_WRITTEN, 2},     {KILL_CHECK_WRITTEN, 3},      {KILL_CHECK_WRITTEN, 4},
    {KILL_CHECK_WRITTEN, 700},   {KILL_CHECK_WRITTEN, 1500},   {KILL_CHECK_PUBLISHED, 1},
    {KILL_CHECK_PUBLISHED, 2},   {KILL_CHECK_PUBLISHED, 3},    {KILL_CHECK_PUBLISHED, 4},
    {KILL_CHECK_PUBLISHED, 700}, {KILL_CHECK_PUBLISHED, 1500},
};

static void fill_memory(const struct victim_case *c)
{
    aclrtStream s;
    void *p;

    session_open();
    OK(aclrtCreateStream(&s));
    OK(aclrtMalloc(&p, TASKS, ACL_MEM_MALLOC_HUGE_FIRST));
    aclnpudKillSwitch = &shared->kill;
    atomic_store(&shared->kill.point, (uint32_t)c->point + 1);
    atomic_store(&shared->kill.pass, c->pass);
    atomic_store(&shared->kill.on, 1);
    for (uint32_t i = 1; i <= TASKS; i++) {
        OK(aclrtMemsetAsync(p, TASKS, 1, i, s));
        atomic_store(&shared->done, i);
    }
}

static void count_task(void *context, const struct checked_file *file, uint32_t thread,
                       const struct check_record *r)
{
    const struct check_task *t = (const struct check_task *)r;
    uint64_t *n = context;

    (void)file;
    (void)thread;
    if (r->kind != CHECK_TASK)
        return;
    ck_assert_uint_eq(t->task.op, TASK_SET);
    ck_assert_uint_eq(t->task.set.size, *n + 1);
    ++*n;
}

START_TEST(rest_is_read)
{
    const struct victim_case *c = &cases[_i];
    struct checked_file file;
    uint64_t n = 0;
    int status;
    pid_t pid;

    shared = child_share(sizeof(*shared));
    checked_make_directory();
    pid = fork();
    if (pid == 0) {
        fill_memory(c);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status 0x%x after %u calls",
                  status, atomic_load(&shared->done));
    ck_assert_uint_eq(checked_read(count_task, &n, &file), 1);
    ck_assert_int_eq(file.pid, pid);
    ck_assert(!file.ended && !file.failed);
    ck_assert_uint_ge(n, atomic_load(&shared->done));
    ck_assert_uint_le(n, atomic_load(&shared->done) + 1);
    checked_remove_directory();
    npud_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kill_check");
    TCase *tc = suite_case(suite, "kill_check", 120, npud_setup, npud_teardown);

    tcase_add_loop_test(tc, rest_is_read, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    return run_suite(suite);
}
