/*
 * Jobs of a scheduler over the end of npud: each session is of the job that it was of.
 *
 * Skipped under TSan: an npud that is killed leaves its locks as they are.
 */
#include "tests/unit/restart_clients.h"

#include "daemon/core/batch_job.h"

#define ONE   2000000
#define OTHER 2000001
#define MIB   ((uint64_t)1 << 20)

static struct batch_job *job_of(pid_t pid)
{
    return session_of(pid)->batch_job;
}

static void start_in_job(pid_t pid, const char *path, uint64_t most)
{
    struct session *s = connect_client_of(1000, pid, -1);

    s->batch_job = batch_job_ref(&server.batch_jobs, path, &most, s->uid);
    kept_touch(&s->kept);
    kept_commit();
}

static void expect_jobs(uint64_t most)
{
    ck_assert_uint_eq(HASH_CNT(by_path, server.batch_jobs.by_path), 2);
    ck_assert_str_eq(job_of(ONE)->path, "/jobs/1");
    ck_assert_uint_eq(job_of(ONE)->memory_max, most);
    ck_assert_uint_eq(job_of(ONE)->used, MIB);
    ck_assert_str_eq(job_of(OTHER)->path, "/jobs/2");
    ck_assert_uint_eq(job_of(OTHER)->memory_max, UINT64_MAX);
    ck_assert_uint_eq(job_of(OTHER)->used, 0);
}

START_TEST(each_session_is_of_its_job)
{
    uint64_t most = 4 * MIB;
    struct mem *m;

    restart_start(NULL);
    start_in_job(ONE, "/jobs/1", 8 * MIB);
    start_in_job(OTHER, "/jobs/2", UINT64_MAX);
    ck_assert_int_eq(
        allocation_new(session_of(ONE), devices_get(server.devices, 0), MEM_DEVICE, MIB, &m), 0);
    kept_commit();
    restart_npud();
    expect_jobs(8 * MIB);
    /* A process comes after the scheduler has changed the limit, and goes. */
    batch_job_unref(batch_job_ref(&server.batch_jobs, "/jobs/1", &most, 1000));
    kept_commit();
    restart_npud();
    expect_jobs(4 * MIB);
    /* What cannot be read says nothing. */
    batch_job_unref(batch_job_ref(&server.batch_jobs, "/jobs/1", NULL, 1000));
    expect_jobs(4 * MIB);
    stop_all();
}
END_TEST

/* npud ends when the job is certain and its session is not: none pays for it. */
START_TEST(a_job_of_none_goes)
{
    restart_start(NULL);
    batch_job_ref(&server.batch_jobs, "/jobs/1", NULL, 1000);
    kept_commit();
    restart_npud();
    ck_assert_uint_eq(HASH_CNT(by_path, server.batch_jobs.by_path), 0);
    stop_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart: jobs");
    TCase *t = suite_case(s, "jobs", 60, NULL, NULL);

    tcase_add_test(t, each_session_is_of_its_job);
    tcase_add_test(t, a_job_of_none_goes);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
