/* npuctl metrics: held by the parser of prometheus_client (tests/run/metrics.py). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/common/harness.h"
#include "proto/wire/npud.pb-c.h"

static bool one_waits(void)
{
    Npud__Report *r = npud_report(NPUD__ADMIN_REQUEST__TOPIC__WAITS);
    bool met = r->n_waits == 1;

    npud__report__free_unpacked(r, NULL);
    return met;
}

START_TEST(metrics_are_open_metrics)
{
    const char *dir = getenv("NPUD_BINDIR");
    aclrtStream stream, other;
    aclrtEvent gate;
    char command[256];
    void *memory;

    streams_open(&stream, &other);
    OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    gate = stream_hold(stream);
    EVENTUALLY(one_waits(), "no stream waits");
    snprintf(command, sizeof(command),
             "%s/npuctl metrics | /usr/bin/python3 tests/run/metrics.py "
             "examples/grafana/npud.json",
             dir ? dir : "build");
    ck_assert_int_eq(system(command), 0);
    npuctl_says("metrics", 0, "\n# EOF\n");
    npuctl_says("--json metrics", 2, "metrics are text, and do not go with \"--json\"");
    stream_let_go(gate);
    OK(aclrtFree(memory));
    session_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = suite_case(suite, "metrics", 60, npud_setup, npud_teardown);

    tcase_add_test(tc, metrics_are_open_metrics);
    return run_suite(suite);
}
