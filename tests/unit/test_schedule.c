/* daemon/schedule: users take turns, then their owners, and long steps are paid. */
#include "daemon/base/schedule.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#define OWNERS  100
#define SENDERS 4
#define SENT    2000

/* A user with some owners, each of which has one job. */
struct crowd {
    struct schedule_user user;
    struct job_owner owner[OWNERS];
    struct counted {
        struct job job;
        uint64_t burns_ns;
        _Atomic unsigned runs;
        unsigned most; /* runs after which it is done */
    } counted[OWNERS];
    unsigned runs;
};

static struct event_base *base;
static struct schedule schedule;
static struct crowd few, many;

static void setup_schedule(void)
{
    base = event_base_new();
    ck_assert_ptr_nonnull(base);
    ck_assert_int_eq(schedule_init(&schedule, base), 0);
}

static void teardown_schedule(void)
{
    schedule_deinit(&schedule);
    event_base_free(base);
}

static void burn_ns(uint64_t ns)
{
    uint64_t until = clock_ns() + ns;

    while (clock_ns() < until)
        ;
}

static bool run_counted(struct job *job)
{
    struct counted *c = (struct counted *)job;

    if (c->burns_ns != 0)
        burn_ns(c->burns_ns);
    return ++c->runs < c->most;
}

static void crowd_begin(struct crowd *crowd, uid_t uid, unsigned owners, uint64_t burns_ns)
{
    *crowd = (struct crowd){0};
    schedule_user_init(&crowd->user, &schedule, uid);
    for (unsigned i = 0; i < owners; i++) {
        crowd->owner[i].user = &crowd->user;
        crowd->counted[i].job = (struct job){run_counted, "count", &crowd->owner[i]};
        crowd->counted[i].most = UINT32_MAX;
        crowd->counted[i].burns_ns = burns_ns;
        job_list(&crowd->counted[i].job);
    }
}

static void crowd_end(struct crowd *crowd)
{
    for (unsigned i = 0; i < OWNERS; i++)
        job_cancel(&crowd->counted[i].job);
    schedule_user_deinit(&crowd->user);
}

static unsigned count_runs(const struct crowd *crowd)
{
    unsigned n = 0;

    for (unsigned i = 0; i < OWNERS; i++)
        n += crowd->counted[i].runs;
    return n;
}

/* Steps that took no longer than a turn: the test may have been kept off its CPU in one of them. */
START_TEST(a_user_gets_no_more_for_having_many)
{
    unsigned of_few, of_many;

    crowd_begin(&many, 1, OWNERS, 0);
    crowd_begin(&few, 2, 1, 0);
    while (count_runs(&few) < 1000)
        schedule_pass(&schedule);
    of_few = count_runs(&few);
    of_many = count_runs(&many);
    ck_assert_uint_gt(of_many, of_few * 8 / 10);
    ck_assert_uint_lt(of_many, of_few * 12 / 10);
    for (unsigned i = 0; i < OWNERS; i++) {
        ck_assert_uint_ge(many.counted[i].runs, of_many / OWNERS);
        ck_assert_uint_le(many.counted[i].runs, of_many / OWNERS + 1);
    }
    crowd_end(&few);
    crowd_end(&many);
}
END_TEST

/* The owner of one job waits for one job of each other owner, however many jobs these have. */
START_TEST(an_owner_gets_no_more_for_having_many)
{
    unsigned all;

    crowd_begin(&many, 1, OWNERS, 0);
    for (unsigned i = 1; i < OWNERS; i++) {
        job_cancel(&many.counted[i].job);
        many.counted[i].job.owner = &many.owner[1];
        job_list(&many.counted[i].job);
    }
    do {
        schedule_pass(&schedule);
        all = count_runs(&many);
    } while (all < 2000);
    ck_assert_uint_ge(many.counted[0].runs, all / 2);
    ck_assert_uint_le(many.counted[0].runs, all / 2 + 1);
    crowd_end(&many);
}
END_TEST

/* Beside steps of 400 us, the steps of others, which take next to no time, have many turns each. */
START_TEST(a_long_step_is_paid_with_turns)
{
    crowd_begin(&many, 1, OWNERS, 400 * NSEC_PER_USEC);
    crowd_begin(&few, 2, 1, 0);
    while (count_runs(&many) < 20)
        schedule_pass(&schedule);
    ck_assert_uint_ge(count_runs(&few), 19 * 10);
    crowd_end(&few);
    crowd_end(&many);
}
END_TEST

/* A user that is alone does not wait. */
START_TEST(without_others_nothing_is_paid)
{
    crowd_begin(&many, 1, 1, 400 * NSEC_PER_USEC);
    schedule_pass(&schedule);
    ck_assert_uint_eq(count_runs(&many), 1);
    schedule_pass(&schedule);
    ck_assert_uint_eq(count_runs(&many), 2);
    crowd_end(&many);
}
END_TEST

START_TEST(a_pass_is_short)
{
    crowd_begin(&many, 1, OWNERS, 50 * NSEC_PER_USEC);
    schedule_pass(&schedule);
    ck_assert_uint_ge(count_runs(&many), 1);
    ck_assert_uint_le(count_runs(&many), 3);
    crowd_end(&many);
}
END_TEST

static bool run_long(struct job *job)
{
    struct counted *c = (struct counted *)job;

    do
        c->runs++;
    while (!schedule_step_over(&schedule));
    return false;
}

START_TEST(a_step_knows_its_limit)
{
    crowd_begin(&many, 1, 1, 0);
    many.counted[0].job.run = run_long;
    ck_assert(schedule_step_over(&schedule));
    schedule_pass(&schedule);
    ck_assert_uint_gt(many.counted[0].runs, 0);
    ck_assert(!schedule_busy(&schedule));
    ck_assert(schedule_step_over(&schedule));
    crowd_end(&many);
}
END_TEST

/* --- ends --- */

struct mortal {
    struct schedule_user user;
    struct job_owner owner;
    struct job job, never;
};

static bool run_last(struct job *job)
{
    struct mortal *m = (struct mortal *)((char *)job - offsetof(struct mortal, job));

    ck_assert(job_cancel(&m->never));
    burn_ns(100 * NSEC_PER_USEC); /* it has something to pay */
    schedule_user_deinit(&m->user);
    free(m);
    return false;
}

static bool run_never(struct job *job)
{
    (void)job;
    ck_abort_msg("a job was run that was taken back");
    return false;
}

START_TEST(a_job_may_free_its_user)
{
    struct mortal *m = calloc(1, sizeof(*m));

    ck_assert_ptr_nonnull(m);
    schedule_user_init(&m->user, &schedule, 1);
    m->owner.user = &m->user;
    m->job = (struct job){run_last, "end", &m->owner};
    m->never = (struct job){run_never, "never", &m->owner};
    job_list(&m->job);
    job_list(&m->never);
    job_list(&m->job); /* nothing happens */
    schedule_pass(&schedule);
    ck_assert(!schedule_busy(&schedule));
}
END_TEST

START_TEST(what_is_taken_back_does_not_run)
{
    struct job job = {run_never, "never", &schedule.own}, none = {0};

    ck_assert(!job_cancel(&none));
    ck_assert(!job_cancel(&job));
    job_list(&job);
    ck_assert(job_cancel(&job));
    job_send(&job);
    ck_assert(job_cancel(&job));
    schedule_round(&schedule, base, false);
}
END_TEST

/* --- other threads --- */

static struct counted sent[SENDERS][SENT];

static void *send_all(void *arg)
{
    struct counted *mine = arg;

    for (unsigned i = 0; i < SENT; i++)
        job_send(&mine[i].job);
    return NULL;
}

START_TEST(what_threads_send_runs_once)
{
    uint64_t until = clock_ns() + GUARD_NS;
    pthread_t thread[SENDERS];
    unsigned n = 0;

    crowd_begin(&many, 1, 0, 0);
    for (unsigned t = 0; t < SENDERS; t++) {
        many.owner[t].user = &many.user;
        for (unsigned i = 0; i < SENT; i++)
            sent[t][i].job = (struct job){run_counted, "sent", &many.owner[t]};
        thread[t] = start_thread(send_all, sent[t]);
    }
    while (n < SENDERS * SENT) {
        ck_assert_uint_lt(clock_ns(), until);
        schedule_round(&schedule, base, true);
        n = 0;
        for (unsigned t = 0; t < SENDERS; t++)
            for (unsigned i = 0; i < SENT; i++)
                n += sent[t][i].runs;
    }
    for (unsigned t = 0; t < SENDERS; t++) {
        thread_join(thread[t]);
        for (unsigned i = 0; i < SENT; i++)
            ck_assert_uint_eq(sent[t][i].runs, 1);
    }
    ck_assert(!schedule_busy(&schedule));
    crowd_end(&many);
}
END_TEST

/* --- the longest step --- */

static bool run_asleep(struct job *job)
{
    (void)job;
    poll(NULL, 0, 50);
    schedule.session = 99;
    return false;
}

static bool run_busy(struct job *job)
{
    struct timespec ts;
    uint64_t from, now;

    (void)job;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    from = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        now = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
    } while (now - from < 5 * NSEC_PER_MSEC);
    schedule.detail = 7;
    return false;
}

/*
 * A wait is no work, and no time in which others had the CPU. It is noted beside the longest step.
 */
START_TEST(the_longest_wait_is_noted)
{
    struct job asleep = {run_asleep, "sleep", NULL}, busy = {run_busy, "work", NULL};
    struct step step;

    crowd_begin(&many, 1234, 0, 0);
    many.owner[0].user = &many.user;
    asleep.owner = busy.owner = &many.owner[0];
    job_list(&busy);
    schedule_pass(&schedule);
    step_meter_waited(&schedule.meter, &step);
    ck_assert_uint_lt(step.ns, 40 * NSEC_PER_MSEC);
    job_list(&asleep);
    schedule_pass(&schedule);
    step_meter_waited(&schedule.meter, &step);
    ck_assert_str_eq(step.what, "sleep");
    ck_assert_uint_ge(step.ns, 40 * NSEC_PER_MSEC);
    ck_assert_uint_eq(step.uid, 1234);
    ck_assert_uint_eq(step.session, 99);
    job_list(&busy);
    schedule_pass(&schedule);
    step_meter_waited(&schedule.meter, &step);
    ck_assert_str_eq(step.what, "sleep");
    crowd_end(&many);
}
END_TEST

START_TEST(the_longest_step_is_by_cpu_time)
{
    struct job asleep = {run_asleep, "sleep", NULL}, busy = {run_busy, "work", NULL};
    struct step step;

    crowd_begin(&many, 1234, 0, 0);
    many.owner[0].user = &many.user;
    asleep.owner = busy.owner = &many.owner[0];
    step_meter_longest(&schedule.meter, &step);
    ck_assert_ptr_null(step.what);
    job_list(&asleep);
    schedule_pass(&schedule);
    step_meter_longest(&schedule.meter, &step);
    ck_assert_uint_lt(step.ns, 5 * NSEC_PER_MSEC);
    job_list(&busy);
    schedule_pass(&schedule);
    step_meter_longest(&schedule.meter, &step);
    ck_assert_str_eq(step.what, "work");
    ck_assert_uint_ge(step.ns, 5 * NSEC_PER_MSEC);
    ck_assert_uint_eq(step.detail, 7);
    ck_assert_uint_eq(step.uid, 1234);
    job_list(&asleep);
    schedule_pass(&schedule);
    step_meter_longest(&schedule.meter, &step);
    ck_assert_str_eq(step.what, "work");
    crowd_end(&many);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("schedule");
    TCase *t = suite_case(s, "turns", 60, setup_schedule, teardown_schedule);

    tcase_add_test(t, a_user_gets_no_more_for_having_many);
    tcase_add_test(t, an_owner_gets_no_more_for_having_many);
    tcase_add_test(t, a_long_step_is_paid_with_turns);
    tcase_add_test(t, without_others_nothing_is_paid);
    tcase_add_test(t, a_pass_is_short);
    tcase_add_test(t, a_step_knows_its_limit);
    t = suite_case(s, "ends", 60, setup_schedule, teardown_schedule);
    tcase_add_test(t, a_job_may_free_its_user);
    tcase_add_test(t, what_is_taken_back_does_not_run);
    t = suite_case(s, "threads", 60, setup_schedule, teardown_schedule);
    tcase_add_test(t, what_threads_send_runs_once);
    t = suite_case(s, "longest", 60, setup_schedule, teardown_schedule);
    tcase_add_test(t, the_longest_step_is_by_cpu_time);
    tcase_add_test(t, the_longest_wait_is_noted);
    return s;
}

int main(void)
{
    return run_suite(make_suite());
}
