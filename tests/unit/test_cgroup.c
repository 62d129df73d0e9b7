/* daemon/base/cgroup: which control group of a job a process is in, and what it may have. */
#include "daemon/base/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char root[] = "/tmp/npud-test-cgroup.XXXXXX";
static char path[CGROUP_PATH_MAX];

static void make_root(void)
{
    char name[128];

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(name, sizeof(name), "mkdir -p %s/proc/5 %s/sys/fs/cgroup/j", root, root);
    ck_assert_int_eq(system(name), 0);
}

static void remove_root(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
    char file[128];
    FILE *f;

    snprintf(file, sizeof(file), "%s%s", root, name);
    f = fopen(file, "we");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static const char *job_of(const char *text, const char *patterns)
{
    write_file("/proc/5/cgroup", text);
    strcpy(path, "/left");
    ck_assert_int_eq(cgroup_find_batch_job(root, patterns, 5, path), 0);
    return path;
}

#define SLURM "/system.slice/*slurmstepd.scope/job_*"

START_TEST(a_job_is_what_the_pattern_is_for)
{
    const char *task = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_1\n";

    ck_assert_str_eq(job_of(task, SLURM), "/system.slice/slurmstepd.scope/job_12");
    ck_assert_str_eq(job_of(task, "  /a/b\t" SLURM " /*"), "/system.slice/slurmstepd.scope/job_12");
    ck_assert_str_eq(job_of(task, "/* " SLURM), "/system.slice");
    ck_assert_str_eq(job_of(task, "/system.slice/slurmstepd.scope"),
                     "/system.slice/slurmstepd.scope");
    ck_assert_str_eq(job_of("0::/system.slice/n1_slurmstepd.scope/job_3\n", SLURM),
                     "/system.slice/n1_slurmstepd.scope/job_3");
}
END_TEST

START_TEST(others_are_in_no_job)
{
    static const char *const texts[] = {
        "",
        "0::/\n",
        "0::/system.slice\n",
        "0::/system.slice/slurmstepd.scope\n",
        "0::/system.slice/slurmstepd.scope/system\n",
        "0::/user.slice/system.slice/slurmstepd.scope/job_12\n",
        "0::/system.slice/x/slurmstepd.scope/job_12\n",
        "4:memory:/system.slice/slurmstepd.scope/job_12\n",
        "1:name=systemd:/system.slice/slurmstepd.scope/job_12\n0::/\n",
        "0:: /system.slice/slurmstepd.scope/job_12\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_str_eq(job_of(texts[i], SLURM), "");
    ck_assert_str_eq(job_of("0::/a/b\n", ""), "");
    ck_assert_str_eq(job_of("0::/../a\n", "/*/*"), "");
    ck_assert_str_eq(job_of("0::/..\n", "/*"), "");
    ck_assert_str_eq(job_of("0::/\n", "/*"), "");
    ck_assert_str_eq(job_of("0::/..a/b\n", "/*"), "/..a");
    ck_assert_int_eq(cgroup_find_batch_job(root, SLURM, 6, path), -ENOENT);
    ck_assert_str_eq(path, "");
}
END_TEST

START_TEST(a_path_that_is_too_long_is_no_job)
{
    char text[CGROUP_PATH_MAX + 64] = "0::/a/";

    memset(text + 6, 'x', CGROUP_PATH_MAX);
    ck_assert_str_eq(job_of(text, "/*"), "");
    text[3 + CGROUP_PATH_MAX - 1] = '\0';
    ck_assert_str_eq(job_of(text, "/*"), "/a");
    ck_assert_uint_eq(strlen(job_of(text, "/a/x*")), CGROUP_PATH_MAX - 1);
}
END_TEST

START_TEST(what_it_may_have)
{
    static const struct {
        const char *text;
        uint64_t most;
    } rows[] = {{"max\n", UINT64_MAX}, {"0\n", 0}, {"8589934592\n", 8589934592}};
    uint64_t most = 1;

    ck_assert_int_eq(cgroup_memory_max(root, "/j", &most), 0);
    ck_assert_uint_eq(most, UINT64_MAX);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_file("/sys/fs/cgroup/j/memory.max", rows[i].text);
        ck_assert_int_eq(cgroup_memory_max(root, "/j", &most), 0);
        ck_assert_uint_eq(most, rows[i].most);
    }
    write_file("/sys/fs/cgroup/j/memory.max", "");
    ck_assert_int_eq(cgroup_memory_max(root, "/j", &most), -ENODATA);
}
END_TEST

START_TEST(the_kernel_writes_it)
{
    ck_assert_int_eq(cgroup_find_batch_job("", "/*", getpid(), path), 0);
}
END_TEST

/* As a read of the kernel's file does when the process ends after it was opened. */
START_TEST(what_cannot_be_read_is_an_error)
{
    uint64_t most;
    char name[128];

    snprintf(name, sizeof(name), "%s/proc/5/cgroup", root);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    ck_assert_int_eq(cgroup_find_batch_job(root, "/*", 5, path), -EISDIR);
    ck_assert_str_eq(path, "");
    snprintf(name, sizeof(name), "%s/sys/fs/cgroup/j/memory.max", root);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    ck_assert_int_eq(cgroup_memory_max(root, "/j", &most), -EISDIR);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cgroup");
    TCase *t = suite_case(s, "jobs", 0, make_root, remove_root);

    tcase_add_test(t, a_job_is_what_the_pattern_is_for);
    tcase_add_test(t, others_are_in_no_job);
    tcase_add_test(t, a_path_that_is_too_long_is_no_job);
    tcase_add_test(t, what_it_may_have);
    tcase_add_test(t, the_kernel_writes_it);
    tcase_add_test(t, what_cannot_be_read_is_an_error);
    return run_suite(s);
}
