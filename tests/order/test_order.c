/*
 * The protocols of proto/ under C11's memory orders: explore.h. Each scenario says what it proves.
 *
 * Skipped under ASan and TSan: the explorer is its own machine; the sanitizers have nothing to see
 * in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/order/explore.h"
#include "tests/order/scenarios.h"

void expect_right(const struct order_scenario *scenario)
{
    const char *wrong = order_explore(scenario);

    if (getenv("ORDER_VERBOSE"))
        printf("%s: %lu runs\n", scenario->name, order_runs());
    if (wrong)
        ck_abort_msg("%s", wrong);
}

void expect_wrong(const struct order_scenario *scenario, const char *what)
{
    const char *wrong = order_explore(scenario);

    if (!wrong || !strstr(wrong, what))
        ck_abort_msg("%s: no run with '%s', but: %s", scenario->name, what,
                     wrong ? wrong : "nothing");
}

int main(void)
{
    Suite *suite = suite_create("memory orders");

    litmus_case(suite);
    stream_case(suite);
    queue_case(suite);
    mbuf_case(suite);
    ipc_case(suite);
    waitlist_case(suite);
    guard_case(suite);
    bias_case(suite);
    return run_suite(suite);
}
