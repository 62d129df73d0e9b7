#include "tests/hostile/row.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/util/clock.h"
#include "proto/wire/npud.pb-c.h"
#include "tests/common/harness.h"
#include "tests/common/suite.h"
#include "tests/hostile/victims.h"

#define STEP_MAX_US 2000

/* With a sanitizer a step takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JUDGES_STEPS 0
#else
#define JUDGES_STEPS 1
#endif

static void print_time(uint64_t ns)
{
    if (ns == 0)
        printf(" %8s |", "-");
    else
        printf(" %8.0f |", (double)ns / 1000);
}

void row_print(const struct row *row, const Npud__StatusRow *status)
{
    if (!getenv("NPUD_TEST_TABLE"))
        return;
    printf("| %-44s | %3u, %4u | %7llu right |", row->name, row->attackers,
           row->sessions ? row->sessions : row->attackers, (unsigned long long)row->honest);
    print_time(row->p99);
    print_time(row->p99_compared);
    printf(" %5llu us, %s | %5llu us, %s |", (unsigned long long)status->longest_step_us,
           status->longest_step, (unsigned long long)status->longest_engine_step_us,
           status->longest_engine_step);
    printf(" %5llu us, %s | %5llu us, %s |\n", (unsigned long long)status->longest_wait_us,
           status->longest_wait, (unsigned long long)status->longest_engine_wait_us,
           status->longest_engine_wait);
    fflush(stdout);
}

static bool steps_are_short(const Npud__StatusRow *status)
{
    return !JUDGES_STEPS || (status->longest_step_us <= STEP_MAX_US &&
                             status->longest_engine_step_us <= STEP_MAX_US);
}

bool row_finish(const struct row *row, unsigned attempt)
{
    Npud__Report *report = npud_report(NPUD__ADMIN_REQUEST__TOPIC__STATUS);
    const Npud__StatusRow *status = report->status[0];
    bool good = steps_are_short(status);

    row_print(row, status);
    ck_assert_msg(good || attempt + 1 < ROW_ATTEMPTS,
                  "%s: steps of %llu us (%s, uid %u), and of an engine of %llu us (%s, uid %u)",
                  row->name, (unsigned long long)status->longest_step_us, status->longest_step,
                  status->longest_step_uid, (unsigned long long)status->longest_engine_step_us,
                  status->longest_engine_step, status->longest_engine_step_uid);
    npud__report__free_unpacked(report, NULL);
    return good;
}

bool row_finish_victims(const char *name, unsigned attackers, unsigned sessions, unsigned attempt)
{
    struct row row = {.name = name, .attackers = attackers, .sessions = sessions};

    for (unsigned k = 0; k < MEASURED_KINDS; k++)
        row.honest += victims_count(PHASE_HOSTILE, k);
    row.p99 = victims_time(PHASE_HOSTILE, MEASURED_ROUND, 990);
    row.p99_compared = victims_time(PHASE_COMPARED, MEASURED_ROUND, 990);
    return row_finish(&row, attempt);
}

Suite *row_suite(const char *name, const TTest *test, int attacks)
{
    const char *only = getenv("NPUD_HOSTILE_CASE");
    Suite *suite = suite_create(name);

    tcase_add_loop_test(suite_case(suite, name, 120, NULL, NULL), test, only ? atoi(only) : 0,
                        only ? atoi(only) + 1 : attacks);
    return suite;
}

void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "hostile process: %s: %m\n", what);
    _exit(1);
}
