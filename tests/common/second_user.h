/*
 * A second user: clients of an npud that runs as another user than they do. Limits, turns and
 * rights are per user, and only such clients see what npud keeps from others.
 *
 * It takes root to have one. A test that needs it asks need_root() (tests/common/need.h) and is
 * skipped by name without. Other tests run without root too: all clients have one user then.
 */
#pragma once

#define SECOND_USER 65534 /* and its group */

/**
 * Let clients of the second user in where npud_start() was called, which has made an npud for one
 * user. npud_start_shared() makes one for all. Does nothing without root.
 */
void second_user_let_in(void);

/**
 * Make the calling process, which a test has just started, one of the second user: without groups,
 * and it still dies with the process that has started it. Does nothing without root.
 */
void second_user_become(void);
