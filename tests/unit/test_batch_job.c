/* Jobs of a scheduler: their numbers, and how they are found by them. */
#include "daemon/core/batch_job.h"

#include <stdio.h>

#include "unit.h"

#define MANY 100000

static struct batch_jobs jobs;
static struct batch_job *job[MANY];

static void begin(void)
{
    kept_begin_private();
}

static struct batch_job *ref_job(unsigned i)
{
    char path[32];

    snprintf(path, sizeof(path), "/slurm/job_%u", i);
    return batch_job_ref(&jobs, path, NULL, 7);
}

static void expect_found(struct batch_job *expected, uint64_t number)
{
    struct batch_job *found;

    ck_assert(batch_job_take(&jobs, number, &found) == (expected || number == 0));
    ck_assert_ptr_eq(found, expected);
    batch_job_unref(found);
}

START_TEST(no_two_have_a_number)
{
    uint64_t gone;

    for (unsigned i = 0; i < 3; i++)
        job[i] = ref_job(i);
    gone = batch_job_number(job[1]);
    batch_job_unref(job[1]);
    expect_found(NULL, gone);
    job[1] = ref_job(1);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_ne(batch_job_number(job[i]), 0);
        expect_found(job[i], batch_job_number(job[i]));
        ck_assert_ptr_eq(ref_job(i), job[i]);
        batch_job_unref(job[i]);
    }
    expect_found(NULL, 0);
    for (unsigned i = 0; i < 3; i++)
        batch_job_unref(job[i]);
    ck_assert_ptr_null(jobs.by_path);
    ck_assert_ptr_null(jobs.by_number);
}
END_TEST

/* As long as a job costs a look at each that is there, this takes minutes. */
START_TEST(many_come_and_are_found)
{
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_ptr_nonnull(job[i] = ref_job(i));
    for (unsigned i = 0; i < MANY; i++)
        expect_found(job[i], batch_job_number(job[i]));
    for (unsigned i = 0; i < MANY; i++)
        batch_job_unref(job[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch job");
    TCase *tc = suite_case(suite, "batch job", 10, begin, NULL);

    tcase_add_test(tc, no_two_have_a_number);
    tcase_add_test(tc, many_come_and_are_found);
    return run_suite(suite);
}
