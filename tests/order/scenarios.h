/* One test case per file of scenarios. */
#pragma once

#include "tests/common/suite.h"

void litmus_case(Suite *suite);
void stream_case(Suite *suite);
void queue_case(Suite *suite);
void mbuf_case(Suite *suite);
void ipc_case(Suite *suite);
void waitlist_case(Suite *suite);
void guard_case(Suite *suite);
void bias_case(Suite *suite);

struct order_scenario;

/** Fails the test when a run goes wrong. */
void expect_right(const struct order_scenario *scenario);

/** Fails the test unless some run goes wrong with `what` in the message. */
void expect_wrong(const struct order_scenario *scenario, const char *what);
