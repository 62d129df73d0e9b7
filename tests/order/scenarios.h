/* One test case per file of scenarios. */
#pragma once

#include <check.h>

TCase *litmus_case(void);
TCase *stream_case(void);
TCase *queue_case(void);
TCase *mbuf_case(void);
TCase *ipc_case(void);
TCase *waitlist_case(void);
TCase *guard_case(void);

struct order_scenario;

/** Fails the test when a run goes wrong. */
void expect_right(const struct order_scenario *scenario);

/** Fails the test unless some run goes wrong with `what` in the message. */
void expect_wrong(const struct order_scenario *scenario, const char *what);
