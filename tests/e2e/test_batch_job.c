/*
 * Jobs of a scheduler: processes in one of its control groups share what the group may have. The
 * control groups are files of the test ([jobs] host_root): real ones take root, and a kernel that
 * has the controller for memory in version 2.
 *
 * Skipped under chaos: the test itself kills npud where it means to.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/acl_tdt_queue.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/effort.h"
#include "tests/common/harness.h"

#define MIB(n) ((size_t)(n) << 20)

#define JOB       "/sched.slice/job_7"
#define JOB_OTHER "/sched.slice/job_8"
#define TASK      JOB "/step_0/user/task_0"

static char root[] = "/tmp/npud-test-jobs.XXXXXX";

static void shell(const char *format, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), format, root, text);
    ck_assert_int_eq(system(command), 0);
}

static void set_memory_max(const char *job, const char *text)
{
    char path[256];

    shell("mkdir -p %s/sys/fs/cgroup%s", job);
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/memory.max", root, job);
    write_text_file(path, text);
}

static void name_own_file(char *path, size_t size)
{
    shell("mkdir -p %s/proc/%s", "");
    snprintf(path, size, "%s/proc/%d", root, (int)getpid());
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, size, "%s/proc/%d/cgroup", root, (int)getpid());
}

/* The calling process is in this control group from now on. */
static void enter_group(const char *group)
{
    char path[256], text[256];

    name_own_file(path, sizeof(path));
    snprintf(text, sizeof(text), "1:name=systemd:/sched.slice/job_9\n0::%s\n", group);
    write_text_file(path, text);
}

static void start_npud(void)
{
    char host_root[64];
    const char *const args[] = {"--set=jobs.cgroups=/none/* /sched.slice/job_*",
                                "--set=jobs.memory=64M", host_root, NULL};

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(host_root, sizeof(host_root), "--set=jobs.host_root=%s", root);
    set_memory_max(JOB, "8388608\n");
    set_memory_max(JOB_OTHER, "max\n");
    npud_start_restartable(args);
    turns_init();
}

static void end_npud(void)
{
    npud_await_sessions(0);
    npuctl_says("limits | grep -c job_memory", 1, "0\n");
    npud_expect_empty();
    npud_teardown();
    shell("rm -r %s%s", "");
}

/* --- what processes do --- */

static void *allocate(size_t size)
{
    void *memory;

    OK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_NORMAL_ONLY));
    return memory;
}

/* What a program is told to be free is what its job has left. */
static size_t query_free(void)
{
    size_t left, total;

    OK(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    return left;
}

static void refuse(size_t size)
{
    void *memory = NULL;

    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "batch job",
                 aclrtMalloc(&memory, size, ACL_MEM_MALLOC_NORMAL_ONLY));
}

static int hold_5_mib(void *group)
{
    void *memory;

    enter_group(group);
    session_open();
    memory = allocate(MIB(5));
    turn_tell(&to_parent);
    turn_await(&to_child);
    OK(aclrtFree(memory));
    turn_tell(&to_parent);
    turn_await(&to_child);
    session_close();
    return 0;
}

static int be_refused_4_mib(void *group)
{
    void *pinned = NULL;
    size_t left;

    enter_group(group);
    session_open();
    left = query_free();
    ck_assert_uint_lt(left, MIB(4));
    OK(aclrtFree(allocate(left)));
    refuse(MIB(4));
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "batch job", aclrtMallocHost(&pinned, MIB(4)));
    OK(aclrtFree(allocate(MIB(2))));
    session_close();
    return 0;
}

static int be_refused_anything(void *group)
{
    enter_group(group);
    session_open();
    refuse(1);
    session_close();
    return 0;
}

static int allocate_4_mib(void *group)
{
    if (group)
        enter_group(group);
    session_open();
    OK(aclrtFree(allocate(MIB(4))));
    session_close();
    return 0;
}

static void in_child(int (*act)(void *group), const char *group)
{
    child_expect_ok(child_start(act, (void *)(uintptr_t)group));
}

static pid_t start_holder(void)
{
    pid_t pid = child_start(hold_5_mib, TASK);

    turn_await(&to_parent);
    return pid;
}

static void let_holder_free(void)
{
    turn_tell(&to_child);
    turn_await(&to_parent);
}

static void end_holder(pid_t pid)
{
    turn_tell(&to_child);
    child_expect_ok(pid);
}

/* --- tests --- */

START_TEST(processes_of_a_job_share_its_memory)
{
    pid_t holder;

    start_npud();
    holder = start_holder();
    npuctl_says("limits | grep job_memory", 0, JOB "\n");
    npuctl_says("--json limits", 0, "\"limit\":8388608,\"job\":\"" JOB "\"");
    npuctl_says("sessions | grep -c " JOB "$", 0, "1\n");
    npuctl_says("who device 0 | grep -c " JOB "$", 0, "1\n");
    npuctl_says("metrics", 0, "job=\"" JOB "\"} 8388608\n");
    in_child(be_refused_4_mib, JOB "/step_1");
    in_child(be_refused_4_mib, JOB);
    in_child(allocate_4_mib, JOB_OTHER "/step_0");
    in_child(allocate_4_mib, "/sched.slice");
    in_child(allocate_4_mib, "/user.slice" JOB);
    in_child(allocate_4_mib, "/../sched.slice/job_7");
    in_child(allocate_4_mib, "/");
    let_holder_free();
    in_child(allocate_4_mib, JOB "/step_1");
    end_holder(holder);
    end_npud();
}
END_TEST

START_TEST(a_job_outlives_npud)
{
    pid_t holder;

    start_npud();
    holder = start_holder();
    /* Nobody asks again: it is the record that counts. */
    set_memory_max(JOB, "max\n");
    for (unsigned i = choose_effort(5, 50); i > 0; i--) {
        npud_kill_server();
        npuctl_says("--json limits", 0, "\"limit\":8388608,\"job\":\"" JOB "\"");
        npuctl_says("--json limits | grep -o '\"job_memory\",\"used\":5[0-9]*,'", 0, ":5");
    }
    set_memory_max(JOB, "8388608");
    in_child(be_refused_4_mib, JOB "/step_1");
    let_holder_free();
    npud_kill_server();
    in_child(allocate_4_mib, JOB "/step_1");
    end_holder(holder);
    end_npud();
}
END_TEST

START_TEST(the_scheduler_changes_the_limit)
{
    pid_t holder;

    start_npud();
    holder = start_holder();
    set_memory_max(JOB, "16777216\n");
    in_child(allocate_4_mib, TASK);
    set_memory_max(JOB, "4194304\n");
    in_child(be_refused_anything, TASK);
    let_holder_free();
    in_child(allocate_4_mib, JOB_OTHER);
    end_holder(holder);
    end_npud();
}
END_TEST

static int fill_with_buffers(void *group)
{
    aclrtMbuf buffer[64];
    unsigned n = 0;
    aclError r;

    enter_group(group);
    OK(aclInit(NULL));
    while ((r = aclrtAllocBuf(&buffer[n], MIB(1))) == ACL_SUCCESS)
        ck_assert_uint_lt(++n, 8);
    ck_assert_int_eq(r, ACL_ERROR_RT_MEMORY_ALLOCATION);
    ck_assert_ptr_nonnull(strstr(aclGetRecentErrMsg(), "batch job"));
    ck_assert_uint_gt(n, 2);
    turn_tell(&to_parent);
    turn_await(&to_child);
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "batch job", aclrtAllocBuf(&buffer[n], MIB(1)));
    while (n > 0)
        OK(aclrtFreeBuf(buffer[--n]));
    OK(aclFinalize());
    return 0;
}

/* What the job was refused is not charged to its user. */
static void compare_charges(void)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__LIMITS);
    uint64_t of_user = 0, of_job = 0;

    for (size_t i = 0; i < report->n_limits; i++)
        if (strcmp(report->limits[i]->resource, "mbuf_memory") == 0)
            of_user = report->limits[i]->used;
        else if (strcmp(report->limits[i]->resource, "job_memory") == 0)
            of_job = report->limits[i]->used;
    npud__report__free_unpacked(report, NULL);
    ck_assert_uint_gt(of_job, MIB(2));
    ck_assert_uint_eq(of_user, of_job);
}

START_TEST(shared_buffers_count)
{
    pid_t pid;

    start_npud();
    pid = child_start(fill_with_buffers, TASK);
    turn_await(&to_parent);
    compare_charges();
    npud_kill_server();
    turn_tell(&to_child);
    child_expect_ok(pid);
    end_npud();
}
END_TEST

/* Its control group is a pipe, which the test writes when it means to. */
static int read_late(void *arg)
{
    char path[256];

    (void)arg;
    name_own_file(path, sizeof(path));
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    turn_tell(&to_parent);
    session_open();
    refuse(MIB(9));
    session_close();
    return 0;
}

static void answer_late(pid_t pid)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/proc/%d/cgroup", root, (int)pid);
    write_text_file(path, "0::" TASK "\n"); /* opens when npud reads */
}

START_TEST(a_session_waits_for_its_job)
{
    pid_t pid;

    start_npud();
    pid = child_start(read_late, NULL);
    turn_await(&to_parent);
    EVENTUALLY(npud_session_of(pid) != 0, "the process has no session");
    if (_i == 1)
        npud_kill_server();
    npuctl_says("status", 0, "devices");
    answer_late(pid);
    child_expect_ok(pid);
    end_npud();
}
END_TEST

static int come_and_wait(void *group)
{
    enter_group(group);
    session_open();
    pause();
    return 1;
}

START_TEST(processes_die_while_npud_looks)
{
    pid_t pid[8];

    start_npud();
    for (unsigned i = choose_effort(20, 200); i > 0; i--) {
        for (unsigned k = 0; k < 8; k++)
            pid[k] = child_start(come_and_wait, TASK);
        for (unsigned k = 0; k < 8; k++)
            child_kill(pid[k]);
        shell("rm -rf %s/proc%s", "");
    }
    in_child(allocate_4_mib, NULL);
    set_memory_max(JOB_OTHER, "3145728\n");
    in_child(be_refused_4_mib, JOB_OTHER);
    end_npud();
}
END_TEST

/* --- memory that is passed on --- */

#define KEY 65
static char (*key)[KEY];

static int export_9_mib(void *arg)
{
    void *memory;

    (void)arg;
    session_open();
    memory = allocate(MIB(9));
    OK(aclrtIpcMemGetExportKey(memory, MIB(9), *key, KEY,
                               ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    turn_tell(&to_parent);
    turn_await(&to_child);
    session_close();
    return 0;
}

static int be_refused_import(void *group)
{
    void *memory = NULL;

    enter_group(group);
    session_open();
    FAILS_SAYING(ACL_ERROR_RT_MEMORY_ALLOCATION, "batch job",
                 aclrtIpcMemImportByKey(&memory, *key, 0));
    session_close();
    return 0;
}

static int import(void *group)
{
    void *memory = NULL;

    enter_group(group);
    session_open();
    OK(aclrtIpcMemImportByKey(&memory, *key, 0));
    turn_tell(&to_parent);
    pause();
    return 1;
}

START_TEST(a_job_imports_what_it_could_pay_for)
{
    pid_t maker, importer;

    start_npud();
    key = child_share(sizeof(*key));
    maker = child_start(export_9_mib, NULL);
    turn_await(&to_parent);
    in_child(be_refused_import, TASK);
    importer = child_start(import, JOB_OTHER);
    turn_await(&to_parent);
    npuctl_says("--json limits", 0, "\"job_memory\",\"used\":0,");
    turn_tell(&to_child);
    child_expect_ok(maker);
    /* The importer has it alone, and its job pays. */
    npud_await_sessions(1);
    npuctl_says("--json limits | grep -o '\"job_memory\",\"used\":94[0-9]*,'", 0, ":94");
    npud_kill_server();
    npuctl_says("--json limits | grep -o '\"job_memory\",\"used\":94[0-9]*,'", 0, ":94");
    child_kill(importer);
    end_npud();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("batch jobs");
    TCase *tc = suite_case(s, "limits", 60, NULL, NULL);

    tcase_add_test(tc, processes_of_a_job_share_its_memory);
    tcase_add_test(tc, a_job_outlives_npud);
    tcase_add_test(tc, the_scheduler_changes_the_limit);
    tcase_add_test(tc, shared_buffers_count);
    tcase_add_test(tc, a_job_imports_what_it_could_pay_for);
    tcase_add_loop_test(tc, a_session_waits_for_its_job, 0, 2);
    tcase_add_test(tc, processes_die_while_npud_looks);
    return run_suite(s);
}
