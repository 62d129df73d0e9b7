#include "cells.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/common/harness.h"

#define PROCESSES_MAX 3

/* Shared with the processes that check makes for each test. */
static struct {
    _Atomic unsigned ok[PROCESSES_MAX + 1], failed[PROCESSES_MAX + 1];
} * total;

static unsigned processes = 1, failed_here;
static char first_failed[256];

void cells_processes(unsigned n)
{
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(n, PROCESSES_MAX);
    processes = n;
}

void cell(bool ok, const char *what, const char *who, ...)
{
    char by[160];
    va_list ap;

    va_start(ap, who);
    vsnprintf(by, sizeof(by), who, ap);
    va_end(ap);
    if (ok)
        total->ok[processes]++;
    else
        total->failed[processes]++;
    if (!ok && failed_here++ == 0)
        snprintf(first_failed, sizeof(first_failed), "%s (%s)", what, by);
    if (getenv("NPUD_TEST_TABLE"))
        printf("%u | %-60s | %-60s | %s\n", processes, what, by, ok ? "ok" : "FAILED");
}

void cells_expect_ok(void)
{
    ck_assert_msg(failed_here == 0, "%u process(es): %u cell(s) failed, first: %s", processes,
                  failed_here, first_failed);
}

int cells_run_suite(Suite *suite)
{
    int status;

    total = mmap(NULL, sizeof(*total), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (total == MAP_FAILED)
        return 1;
    status = run_suite(suite);
    printf("cells:");
    for (unsigned n = 1; n <= PROCESSES_MAX; n++)
        if (total->ok[n] + total->failed[n] != 0)
            printf(" %u process%s %u ok, %u failed;", n, n > 1 ? "es" : "", total->ok[n],
                   total->failed[n]);
    printf("\n");
    return status;
}
